"""The API that sets prices, budgets and quotas, as the service serves it: previews, ETags, files."""

import asyncio
import json
import threading
from contextlib import contextmanager

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tornado.testing import bind_unused_port

from nbgpu.core.authorize import Policies
from nbgpu.core.policy_edits import PolicyChange, PolicyEffect, PolicyEntry, PolicyKind
from nbgpu.service.app import LONGEST_BODY, PREFIX, make_app
from nbgpu.service.policy_desk import PolicyDesk
from nbgpu.service.policy_import import read_policies, write_policies
from nbgpu.settings.edits import parse_fields, write_fields
from service.api_site import Hub
from service.test_limits_pages import books, site

__all__ = ["site"]


@contextmanager
def serving(site):
    """Serve all that the service serves; give what asks its API as a biller."""
    socket, port = bind_unused_port()
    begun, box = threading.Event(), {}

    async def serve():
        app = make_app(dict, "", lambda: books(site), Hub())
        server = app.listen(0, "127.0.0.1", max_body_size=LONGEST_BODY)
        server.add_sockets([socket])
        box["loop"], box["end"] = asyncio.get_running_loop(), asyncio.Event()
        begun.set()
        await box["end"].wait()
        server.stop()
        await server.close_all_connections()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert begun.wait(30)
    address, headers = f"http://127.0.0.1:{port}{PREFIX}api/v1/", {"Authorization": "token biller"}
    with httpx.Client(base_url=address, headers=headers, trust_env=False, timeout=60) as client:
        yield client
    box["loop"].call_soon_threadsafe(box["end"].set)
    thread.join(30)


@pytest.fixture
def api(site):
    with serving(site) as client:
        yield client


def test_a_budget_is_set_changed_by_its_etag_and_removed(api, site):
    body = {"name": "course", "group": "ml", "amount": "100.00", "alerts": [50, 90]}
    preview = api.post("budgets?preview=true", json=body).json()
    assert (preview["done"], preview["changes"][0]["verb"], site.policies.entries()) == (False, "add", ())
    assert api.post("budgets", json=body).json() == preview | {"done": True}
    again = api.post("budgets", json=body)
    said = "There is already a budget “course”: change it with PUT."
    assert (again.status_code, again.json()["detail"]) == (409, said)
    found = api.get("budgets/course")
    assert found.json()["fields"] == {
        "name": "course",
        "group": "ml",
        "amount": "100.00",
        "window": "month",
        "alerts": "50 90",
        "grace": "10 min",
    }
    change = {"group": "ml", "amount": "50.00"}
    assert api.put("budgets/course", json=change).status_code == 428
    assert api.put("budgets/course", json=change, headers={"If-Match": '"old"'}).status_code == 412
    etag = {"If-Match": found.headers["ETag"]}
    answer = api.put("budgets/course", json=change, headers=etag).json()
    assert (answer["changes"][0]["verb"], answer["changes"][0]["before"]["amount"]) == ("change", "100.00")
    assert api.delete("budgets/course", headers=etag).status_code == 412
    etag = {"If-Match": api.get("budgets/course").headers["ETag"]}
    assert api.delete("budgets/course?preview=true", headers=etag).json()["done"] is False
    assert api.delete("budgets/course", headers=etag).json()["changes"][0]["verb"] == "remove"
    assert api.get("budgets/course").status_code == 404
    assert api.put("budgets/course", json=change, headers=etag).status_code == 404
    assert api.put("budgets/course", json=change).json()["done"] is True


def test_a_quota_and_what_is_set_are_listed(api):
    assert api.post("quotas", json={"name": "each", "gpu_hours": 2.5, "window": "7 d"}).json()["done"] is True
    policies = api.get("policies").json()["policies"]
    assert [(each["name"], each["changed_at"] is None, each["fields"].get("gpu_hours")) for each in policies] == [
        ("file", True, None),
        ("each", False, "2.5"),
    ]


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("budgets", {"name": "x", "amount": "many"}, 400, 'amount = "many": is not allowed'),
        ("budgets", {"name": "x", "amount": 1.5}, 400, "amount: Input should be a valid string"),
        ("budgets", {"name": "file", "amount": "1"}, 400, "“file” is set in nbgpu.toml"),
        ("budgets", {"name": "x", "amount": "1", "colour": "red"}, 400, "colour: Extra inputs"),
        ("quotas", {"name": "x"}, 400, "limits nothing"),
        ("quotas", {"name": "x", "servers": 1, "flavor": "b200"}, 400, 'a quota is for flavor "b200"'),
        ("quotas?preview=perhaps", {"name": "x", "servers": 1}, 400, "preview “perhaps” is neither true nor false"),
        ("prices", {"sku_id": "x", "price": "1"}, 400, "There is no SKU “x”"),
        ("prices", {"sku_id": "cpu:host:on-demand", "price": "-1"}, 400, "The price “-1” is not"),
        *(
            ("prices", {"sku_id": "cpu:host:on-demand", "price": "1", "effective_from": begin}, 400, words)
            for begin, words in (
                ("9999-12-31T23:59:59-12:00", "within 10 years"),
                ("2099-01-01T00:00:00Z", "within 10 years"),
                ("1893456000", "ISO 8601"),
                (1893456000, "ISO 8601"),
                ("2027-01-01T00:00:00", "timezone"),
            )
        ),
        (
            "prices",
            {"sku_id": "cpu:host:on-demand", "price": "1", "effective_from": "2020-01-01T00:00:00Z"},
            400,
            "is past",
        ),
    ],
)
def test_what_makes_no_sense_is_said(api, path, body, status, words):
    answer = api.post(path, json=body)
    assert (answer.status_code, words in answer.json()["detail"]) == (status, True), answer.text


def test_a_file_of_five_thousand_rows_is_set_and_twice_does_nothing(api, site):
    rows = "".join(f"u{number:04},student-with-a-long-name-{number:04},20.00\n" for number in range(5000))
    data = f"name,user,amount\n{rows}"
    assert len(data) > LONGEST_BODY
    preview = api.post("import/budgets?preview=true", content=data)
    assert (preview.status_code, len(preview.json()["changes"]), site.policies.entries()) == (200, 5000, ())
    assert api.post("import/budgets", content=data).json()["done"] is True
    assert len(site.policies.entries()) == 5000
    again = api.post("import/budgets", content=api.get("import/budgets").content).json()
    assert {each["verb"] for each in again["changes"]} == {"keep"}
    assert len(site.audit.latest(5001)) == 5000
    wrong = api.post("import/budgets", content=data + "x,y,z\n")
    assert wrong.json()["detail"].startswith("The file has more than 5000 rows")


def test_other_bodies_stay_small(api):
    with pytest.raises(httpx.HTTPError):  # it is cut off: with an answer, or without
        api.post("budgets", content=b" " * (LONGEST_BODY + 1)).raise_for_status()
    page = api.post(f"{api.base_url.copy_with(path=PREFIX)}limits/import", content=b" " * (LONGEST_BODY + 1))
    assert page.status_code == 503, "it is read whole; the pages are not loaded here"


def test_credits_of_a_file_are_given_once(api, site):
    data = "user,amount,reason\nann,1.50,Course\nbob,2.00,Course\n"
    refused = api.post("import/credits", content=data)
    assert (refused.status_code, "line 2: Nobody of the name “ann”" in refused.json()["detail"]) == (400, True)
    assert "line 3" in refused.json()["detail"]
    first = api.post("import/credits?new=true", content=data.encode("utf-16")).json()
    second = api.post("import/credits?new=true", content=data).json()
    assert (first["given"], first["known"], first["total_micro"]) == (2, 0, 3_500_000)
    assert (second["given"], second["known"], second["total_micro"]) == (0, 2, 0)
    assert sum(each.billed_cost for each in site.ledger.charges()) == -3_500_000


def test_a_key_that_is_too_long_is_refused_and_not_cut_off(api, site):
    rows = [f"ann,1.00,Course,{'k' * length}{end}\n" for length, end in ((254, "a"), (254, "b"), (255, "c"))]
    head = "user,amount,reason,key\n"
    refused = api.post("import/credits?new=true", content=head + "".join(rows))
    assert (refused.status_code, "line 4: key: at most 255 characters" in refused.json()["detail"]) == (400, True)
    assert "line 3" not in refused.json()["detail"]
    assert api.post("import/credits?new=true", content=head + "".join(rows[:2])).json()["given"] == 2


def test_a_price_is_set(api, site):
    body = {"sku_id": "gpu:gpu:on-demand", "price": "1.20", "effective_from": "2026-03-11T09:00:00+01:00"}
    answer = api.post("prices", json=body).json()
    assert (answer["before_micro"], answer["list_unit_price"], answer["servers"]) == (600_000, 1_200_000, 1)
    assert answer["effective_from"] == 1_773_216_000
    assert [each.list_unit_price for each in site.prices.sheet().coming(0)] == [1_200_000]


class Kept:
    """What was set, in memory."""

    def __init__(self, *entries: PolicyEntry) -> None:
        self.kept = entries

    def entries(self):
        return self.kept

    def newest(self):
        return 0

    def build(self, entries):
        return Policies()

    def effect(self, after, names):
        return PolicyEffect()


NAMES = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FFF, exclude_categories=["C", "Z"]), max_size=12)
PEOPLE = st.one_of(
    st.just({}), *(NAMES.filter(bool).map(lambda name, key=key: {key: name}) for key in ("user", "group"))
)
BUDGETS = st.builds(
    lambda who, amount, window, alerts, grace: (
        who
        | {
            "amount": f"{amount / 100:.2f}",
            "window": window,
            "alerts": " ".join(map(str, alerts)),
            "grace": f"{grace} s",
        }
    ),
    PEOPLE,
    st.integers(0, 10**10),
    st.sampled_from(["day", "week", "month"]),
    st.lists(st.integers(1, 100), min_size=1, max_size=3),
    st.integers(0, 10**6),
)
QUOTAS = st.builds(
    lambda who, hours, window, longest: who | {"gpu_hours": hours, "window": window, "longest": longest},
    PEOPLE,
    st.decimals(0, 10**6, places=4).map(lambda each: f"{each:f}"),
    st.sampled_from(["day", "90 min", "7 d", "1.5 h"]),
    st.sampled_from(["", "4 h", "0.5 h"]),
)


@pytest.mark.parametrize(("kind", "some"), [(PolicyKind.BUDGET, BUDGETS), (PolicyKind.QUOTA, QUOTAS)])
def test_what_is_exported_is_imported_without_a_change(kind, some):
    @given(some)
    def run(fields):
        policy = parse_fields(kind, fields | {"name": "x"})
        kept = write_fields(policy)
        assert parse_fields(kind, kept).model_dump(exclude={"alerts"}) == _canonical(policy, kept)
        desk = PolicyDesk(Kept(PolicyEntry(kind=kind, name="x", fields=kept, changed_at=1)), Kept())
        with write_policies(desk, kind) as file:
            found = read_policies(desk, kind, file.read().decode())
        assert found.mistakes == ()
        assert [each.verb for each in desk.preview(found.changes).differences] == ["keep"]

    run()


def _canonical(policy, kept) -> dict:
    """Return the policy with its window written as it is kept."""
    return policy.model_dump(exclude={"alerts"}) | ({"window": kept["window"]} if "window" in kept else {})


def test_answers_are_json_that_the_document_describes(api):
    document = json.loads(api.get("openapi.json").text)
    assert {"post", "get"} <= set(document["paths"]["/api/v1/budgets"])


def test_credits_that_somebody_else_gave_meanwhile_are_not_told_as_given(site):
    desk = books(site).credits
    text = "user,amount,reason\nann,1.00,thanks\nbob,2.00,thanks\n"
    found = desk.read(text, by="bill", with_unknown=True)
    first = desk.read("user,amount,reason\nann,1.00,thanks\n", by="bea", with_unknown=True)
    assert desk.give(first, by="bea").total == 1_000_000
    given = desk.give(found, by="bill")
    assert (len(given.charges), given.known, given.total) == (1, 1, 2_000_000)


def test_a_change_that_was_overtaken_is_a_failed_precondition(api, site, monkeypatch):
    api.post("budgets", json={"name": "course", "group": "ml", "amount": "100.00"})
    real = site.policies.newest

    def overtaken():  # a preview is made between the look at the ETag and the change
        monkeypatch.undo()
        entry = PolicyDesk(site.policies, None).find(PolicyKind.BUDGET, "course")
        change = PolicyChange(
            kind=entry.kind, name="course", fields=dict(entry.fields) | {"amount": "7.00"}, expected=entry.revision
        )
        site.policies.change([change], by="bea")
        return real()

    monkeypatch.setattr(site.policies, "newest", overtaken)
    body = {"group": "ml", "amount": "50.00"}
    answer = api.put("budgets/course", json=body, headers={"If-Match": "*"})
    assert (answer.status_code, api.get("budgets/course").json()["fields"]["amount"]) == (412, "7.00")
    assert api.put("budgets/course", json=body, headers={"If-Match": "*"}).status_code == 200
