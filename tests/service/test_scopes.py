"""Who may do what over the REST API: each operation by each kind of token. All is asked about ann and her session."""

import httpx
import pytest

from nbgpu.service.api import ROUTES
from nbgpu.service.openapi import to_path
from service.api_site import SCOPES, authorization, make_books, serving

KNOWN = {"session_id": "a-1", "uuid": "GPU-0", "number": "1", "name": "x", "kind": "budgets"}
REASON = {"reason": "a fan"}
BUDGET = {"amount": "1.00"}
REPORT = {"kernels": 0, "kernels_busy": 0, "terminals": 0, "terminal_jobs": 0, "person_s_ago": None, "sockets": 0}

EVERYBODY = {"", *SCOPES}
USERS = EVERYBODY - {"", "stranger"}  # may use the service
READERS = {"reader", "operator", "biller", "admin"}
OPERATORS = {"operator", "admin"}
BILLERS = {"biller", "admin"}
ANN = {"ann", *READERS}

# What is asked, with what; and who is answered. All others are refused with 401 or 403.
TABLE = {
    "GET api/v1/openapi.json": (None, EVERYBODY),
    "GET api/v1/usage?user=ann": (None, ANN),
    "GET api/v1/budgets?user=ann": (None, ANN),
    "GET api/v1/quotas?user=ann": (None, ANN),
    "GET api/v1/prices": (None, USERS),
    "POST api/v1/budgets?preview=true": (BUDGET | {"name": "x"}, BILLERS),
    "GET api/v1/budgets/{name}": (None, BILLERS),
    "PUT api/v1/budgets/{name}?preview=true": (BUDGET, BILLERS),
    "DELETE api/v1/budgets/{name}": (None, BILLERS),
    "POST api/v1/quotas?preview=true": ({"name": "x", "servers": 1}, BILLERS),
    "GET api/v1/quotas/{name}": (None, BILLERS),
    "PUT api/v1/quotas/{name}?preview=true": ({"servers": 1}, BILLERS),
    "DELETE api/v1/quotas/{name}": (None, BILLERS),
    "POST api/v1/prices?preview=true": ({"sku_id": "cpu:host:on-demand", "price": "1.20"}, BILLERS),
    "GET api/v1/policies": (None, BILLERS),
    "GET api/v1/import/{kind}": (None, BILLERS),
    "POST api/v1/import/{kind}?preview=true": ("name,amount\nx,1.00\n", BILLERS),
    "POST api/v1/import/credits?preview=true": ("user,amount,reason\nann,1.00,thanks\n", BILLERS),
    "GET api/v1/idle/due": (None, {"culler"}),
    "GET api/v1/audit": (None, OPERATORS),
    "GET api/v1/pool": (None, OPERATORS),
    "POST api/v1/pool/{uuid}/cordon": (REASON, OPERATORS),
    "POST api/v1/pool/{uuid}/return": (REASON, OPERATORS),
    "GET api/v1/sessions?user=ann": (
        None,
        ANN | {"ann/", "ann/second"},
    ),  # a server is told of itself, whatever it asks
    "GET api/v1/sessions/{session_id}": (None, ANN | {"ann/"}),
    "POST api/v1/sessions/{session_id}/report": (REPORT, {"ann/"}),
    "POST api/v1/sessions/{session_id}/extend": ({}, {"ann", "ann/", *OPERATORS}),
    "POST api/v1/sessions/{session_id}/limit": ({"seconds": 600}, OPERATORS),
    "POST api/v1/sessions/{session_id}/stop": (REASON, {"ann", *OPERATORS}),
    "GET api/v1/broadcasts": (None, USERS),
    "POST api/v1/broadcasts": ({"text": "Lunch", "seconds": 60}, OPERATORS),
    "DELETE api/v1/broadcasts/{number}": (None, OPERATORS),
    "GET api/v1/maintenance": (None, USERS),
    "PUT api/v1/maintenance": (REASON, OPERATORS),
    "DELETE api/v1/maintenance": (None, OPERATORS),
    "GET api/v1/images": (None, OPERATORS),
    "GET api/v1/doctor": (None, OPERATORS),
    "POST api/v1/doctor": (None, OPERATORS),
    "GET api/v1/alerts": (None, READERS),
    "GET metrics": (None, {"prometheus", "admin"}),
}


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """Asks the API."""
    books = make_books(tmp_path_factory.mktemp("api"))
    with serving(books) as address, httpx.Client(base_url=address, trust_env=False) as found:
        yield found


def ask(client, what, who, body=None):
    """Ask as somebody; return the answer."""
    method, path = what.split(" ")
    sent = {"content": body} if isinstance(body, str) else {"json": body}
    headers = authorization(who) | ({"If-Match": "*"} if path.endswith("/maintenance") else {})
    return client.request(method, path.format_map(KNOWN), headers=headers, **sent)


def test_the_table_has_each_operation():
    asked = {what.partition("?")[0] for what in TABLE}
    there = {f"{method} {to_path(path)[1:]}" for path, each in ROUTES.items() for method in each.operations}
    assert asked == there


@pytest.mark.parametrize("what", TABLE)
def test_who_may(client, what):
    body, allowed = TABLE[what]
    answers = {who: ask(client, what, who, body) for who in EVERYBODY}
    assert {who for who, answer in answers.items() if answer.status_code not in (401, 403)} == allowed
    surprises = {who: answer.text for who, answer in answers.items() if answer.status_code in (400, 405, 428, 500)}
    assert surprises == {}
    assert answers[""].status_code == (200 if "" in allowed else 401)
    refused = [answer for who, answer in answers.items() if who not in allowed]
    assert all(answer.headers["content-type"] == "application/problem+json" for answer in refused)
    assert all(answer.json()["detail"] for answer in refused)


def test_who_reads_all_changes_nothing():
    assert [what for what, (_, allowed) in TABLE.items() if not what.startswith("GET ") and "reader" in allowed] == []


def test_who_operates_has_no_money_and_who_bills_no_servers():
    changes = {what: allowed for what, (_, allowed) in TABLE.items() if not what.startswith("GET ")}
    assert [what for what, allowed in changes.items() if {"operator", "biller"} <= allowed] == []


@pytest.mark.parametrize("who", ["bob", "ann/second"])
def test_lists_are_of_ones_own(client, who):
    found = ask(client, "GET api/v1/sessions", who).json()["sessions"]
    assert [each["session_id"] for each in found] == [{"bob": "b-1", "ann/second": "a-2"}[who]]


@pytest.mark.parametrize("path", ["budgets", "quotas", "usage"])
def test_nothing_of_anns_is_in_what_bob_reads(client, path):
    answer = ask(client, f"GET api/v1/{path}", "bob")
    assert (answer.status_code, "ann" in answer.text) == (200, False)
