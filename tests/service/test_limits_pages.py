"""The pages of prices, budgets and quotas, over a real database: looked at, done, and told where it can't be."""

from datetime import timedelta

import pytest

from nbgpu.core.authorize import Policies
from nbgpu.core.errors import QuotaExceeded
from nbgpu.core.flavors import FlavorKind
from nbgpu.core.leases import ServerRef
from nbgpu.core.policy_edits import PolicyChange, PolicyEntry, PolicyKind
from nbgpu.core.prices import build_prices
from nbgpu.service.policy_desk import PolicyDesk
from nbgpu.service.policy_import import CreditDesk
from nbgpu.store import SqlLeaseStore
from nbgpu.store.keeping import SqlLimits
from nbgpu.store.ledger import SqlLedger
from nbgpu.store.policies import SqlPolicies
from nbgpu.store.prices import SqlPrices
from nbgpu.store.statements import SqlStatements
from service.browse import EVIL
from service.idle_book import FakeIdleBook, make_view
from service.pool_site import NOW, PoolSite, browsing, make_devices
from service.test_pages import parse
from support.site import make_flavor

FILE = PolicyEntry(kind=PolicyKind.BUDGET, name="file", fields={"name": "file", "group": "ml", "amount": "9.00"})
TINY = {"kind": "budget", "name": "tiny", "amount": "0.01", "revision": "0"}


@pytest.fixture
def site(tmp_path):
    found = PoolSite(tmp_path, make_devices(2, 0))
    engine = found.engine
    found.policies = SqlPolicies(engine, Policies(), lambda: NOW)
    found.leases = SqlLeaseStore(engine, lambda: NOW, SqlPolicies(engine, Policies()))  # as in another process
    found.limits = SqlLimits(engine, found.policies, lambda: NOW)
    found.ledger, found.prices = SqlLedger(engine, lambda: NOW), SqlPrices(engine, lambda: NOW)
    found.flavors = {"gpu": make_flavor("gpu", FlavorKind.GPU), "cpu": make_flavor("cpu", FlavorKind.CPU)}
    found.prices.ensure([price for each in found.flavors.values() for price in build_prices(each, "USD", 0)])
    yield found
    found.engine.dispose()


def books(site):
    statements = SqlStatements(site.engine)
    return site.books(
        idle=FakeIdleBook(make_view("s-1", ServerRef("ann"), flavor="gpu"), make_view("s-2", ServerRef("bob"))),
        statements=statements,
        limits=site.limits,
        prices=site.prices,
        flavors=site.flavors,
        policies=PolicyDesk(site.policies, site.limits, file=(FILE,), flavors=set(site.flavors)),
        credits=CreditDesk(site.ledger, statements, site.audit, currency="USD", clock=lambda: NOW),
    )


async def send(client, path: str, files=None, **fields: str):
    """Send a form, with its token against forgery."""
    await client.get("servers")
    data = {"_xsrf": client.cookies["_xsrf"]} | fields
    return await client.post(path, data=data, files=files, follow_redirects=True)


def hidden(page) -> dict[str, str]:
    """Return what a preview's form would send."""
    form = next(each for each in parse(page).select("main form") if each.select_one("[value=confirm]"))
    fields = {each["name"]: each.get("value", "") for each in form.select("input")}
    texts = {each["name"]: each.text.removeprefix("\n") for each in form.select("textarea")}
    return {key: value for key, value in (fields | texts).items() if key != "_xsrf"}


def alert(page) -> str:
    return " ".join(parse(page).select_one("[role=alert]").text.split())


FORMS = {
    "limits/edit": TINY | {"step": "confirm"},
    "limits/remove": {"kind": "budget", "name": "tiny", "step": "confirm"},
    "limits/import": {"kind": "budgets", "text": "name,amount\nx,1", "step": "confirm"},
    "prices/set": {"sku": "cpu:host:on-demand", "price": "1", "step": "confirm"},
}


@pytest.mark.parametrize("name", ["ann", "rita", "eve"])
async def test_who_does_not_bill_sets_nothing(site, name):
    async with browsing(books(site), name) as client:
        opened = [(await client.get(path)).status_code for path in ("limits", "limits/import", "limits/file")]
        answers = [(await send(client, path, **fields)).status_code for path, fields in FORMS.items()]
        page = await client.get("prices")
    assert (opened, answers) == ([403] * 3, [403] * 4)
    assert (page.status_code, parse(page).select_one("main form")) == (200, None)
    assert [each["data-flavor"] for each in parse(page).select(".prices-flavors tbody tr")] == ["gpu", "cpu"]
    assert (site.policies.entries(), site.audit.latest()) == ((), ())


@pytest.mark.parametrize("path", FORMS)
async def test_a_form_of_somebody_elses_does_nothing(site, path):
    headers = {"Sec-Fetch-Mode": "cors", "Sec-Fetch-Site": "cross-site"}
    async with browsing(books(site), "root", **headers) as client:
        answer = await client.post(path, data=FORMS[path])
    assert (answer.status_code, site.policies.entries(), site.audit.latest()) == (403, (), ())


async def test_a_quota_is_looked_at_set_and_holds_at_once(site):
    site.lease("ann", FlavorKind.CPU)
    async with browsing(books(site), "bill") as client:
        page = await send(client, "limits/edit", kind="quota", name="one", servers="1", revision="0", step="preview")
        assert "Servers that run now of people it is for: 1." in page.text
        assert site.policies.entries() == ()
        back = await send(client, "limits/edit", **hidden(page), step="back")
        assert parse(back).select_one("#servers")["value"] == "1"
        page = await send(client, "limits/edit", **hidden(page), step="confirm")
        assert "It is set" in parse(page).select_one("[role=status]").text
        assert parse(page).select_one("tr[data-name=one]") is not None
    with pytest.raises(QuotaExceeded, match="may have 1 at one time"):
        site.lease("ann", FlavorKind.CPU, "second")
    assert [(each.actor, each.action, each.subject) for each in site.audit.latest()] == [("bill", "quota.set", "one")]


async def test_a_budget_below_what_is_spent_says_whom_it_stops(site):
    lease = site.leases.acquire(ServerRef("ann"), site_choice(site), "sha256:1", site.devices)
    site.leases.activate(lease.session_id, NOW - timedelta(hours=2))
    site.limits.keep()
    async with browsing(books(site), "root") as client:
        page = await send(client, "limits/edit", **TINY, step="preview")
    text = " ".join(parse(page).select_one("main").text.split())
    assert "ann: 1.2 of 0.01 USD" in text.replace("1.20", "1.2")
    assert "These servers are told, and stopped when their grace is over: 1. ann" in text


def site_choice(site):
    from nbgpu.core.menu import Choice

    return Choice(site.flavors["gpu"], "base")


async def test_the_later_of_two_editors_is_told_and_loses_nothing(site):
    async with browsing(books(site), "bill") as client:
        await send(client, "limits/edit", **TINY, step="confirm")
        form = hidden_form(await client.get("limits/edit?kind=budget&name=tiny"))
        other = PolicyChange(kind=PolicyKind.BUDGET, name="tiny", fields={"name": "tiny", "amount": "7.00"})
        site.policies.change([other], by=EVIL)
        page = await send(client, "limits/edit", **form | {"amount": "5.00"}, step="confirm")
        assert (page.status_code, f"changed meanwhile by {EVIL}" in alert(page)) == (409, True)
        assert parse(page).select_one("#amount")["value"] == "5.00"
        assert "It is now: Amount: 7.00." in " ".join(parse(page).select_one(".alert-warning").text.split())
        page = await send(client, "limits/edit", **hidden_form(page), step="confirm")
        assert page.status_code == 200
        stale = {"kind": "budget", "name": "tiny", "revision": "1"}
        page = await send(client, "limits/remove", **stale, step="confirm")
        assert (page.status_code, "changed meanwhile by bill" in alert(page)) == (409, True)
        revision = hidden_form(page)["revision"]
        page = await send(client, "limits/remove", **stale | {"revision": revision}, step="preview")
        await send(client, "limits/remove", **hidden(page), step="confirm")
    assert site.policies.entries() == ()


def hidden_form(page) -> dict[str, str]:
    """Return what the form of a budget would send."""
    inputs = parse(page).select(".limits-form input")
    return {each["name"]: each.get("value", "") for each in inputs if each["name"] != "_xsrf"}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"amount": "many"}, 'amount = "many": is not allowed; allowed is a price of at least 0'),
        ({"amount": "1", "user": "a", "group": "b"}, "user and group: give one of them"),
        ({"amount": "1", "name": "No Name"}, 'name = "No Name": is not allowed'),
        ({"amount": "1", "name": "file"}, "“file” is set in nbgpu.toml"),
        ({"amount": "1", "first_day": "2026-01-01"}, "give both, or neither"),
        ({"amount": "1", "alerts": "101"}, "alerts = 101"),
        ({"amount": ""}, "amount: is missing"),
    ],
)
async def test_what_makes_no_sense_is_said_and_stays(site, fields, words):
    async with browsing(books(site), "root") as client:
        page = await send(client, "limits/edit", **{"kind": "budget", "name": "x", "step": "confirm"} | fields)
    assert page.status_code == 400
    assert words in alert(page).replace('alerts = "101"', "alerts = 101")
    assert parse(page).select_one("#amount")["value"] == fields["amount"]
    assert site.policies.entries() == ()


async def test_a_file_is_looked_at_done_and_twice_does_nothing(site):
    data = 'Name;Amount;User\r\nann;20.00;ann\r\nbob;"5";bob\r\n'.encode("utf-16")
    async with browsing(books(site), "bill") as client:
        page = await send(client, "limits/import", files={"file": ("b.csv", data)}, kind="budgets", step="preview")
        assert "New: 2. Changed: 0. As it is: 0." in page.text
        page = await send(client, "limits/import", files={}, **hidden(page), step="confirm")
        assert "All of the file is done" in parse(page).select_one("[role=status]").text
        export = await client.get("limits/file?kind=budgets")
        assert [row.split(",")[:4] for row in export.text.splitlines()] == [
            ["name", "user", "group", "amount"],
            ["ann", "ann", "", "20.00"],
            ["bob", "bob", "", "5.00"],
        ]
        page = await send(client, "limits/import", kind="budgets", text=export.text, step="preview")
        assert "New: 0. Changed: 0. As it is: 2." in page.text
        assert parse(page).select_one("[value=confirm]") is None
    assert [each.action for each in site.audit.latest()] == ["budget.set", "budget.set"]


async def test_of_a_file_with_a_wrong_line_nothing_is_done(site):
    text = "name,amount,user\nann,20.00,ann\nbob,x,bob\n\nann,1,ann\n"
    async with browsing(books(site), "bill") as client:
        for step in ("preview", "confirm"):
            page = await send(client, "limits/import", kind="budgets", text=text, step=step)
            assert page.status_code == 400
        page = await send(client, "limits/import", kind="budgets", text=text, step="preview")
    lines = [" ".join(each.text.split()) for each in parse(page).select(".import-mistakes li")]
    assert lines[0].startswith('Line 3: amount = "x": is not allowed')
    assert lines[1] == "Line 5: It is the same as line 2."
    assert site.policies.entries() == ()


async def test_credits_are_given_once(site):
    site.lease("ann", FlavorKind.CPU)
    text = "user\tamount\treason\nann\t20.00\tCourse\nnew\t20.00\tCourse\n"
    async with browsing(books(site), "bill") as client:
        page = await send(client, "limits/import", kind="credits", text=text, step="preview")
        assert "Line 3: Nobody of the name “new” has ever had a server" in " ".join(page.text.split())
        page = await send(client, "limits/import", kind="credits", text=text, new="1", step="preview")
        assert "Credits that are given: 2, 40.00 USD in all." in page.text
        await send(client, "limits/import", **hidden(page), step="confirm")
        page = await send(client, "limits/import", kind="credits", text=text, new="1", step="preview")
        assert "Given before, and not again: 2." in page.text
    assert [(each.username, each.billed_cost, each.reason) for each in site.ledger.charges()] == [
        ("ann", -20_000_000, "Course"),
        ("new", -20_000_000, "Course"),
    ]
    (row,) = site.audit.latest()
    assert (row.actor, row.detail) == ("bill", "2 credits of 40.00 USD in all to 2 people, of a file")


async def test_more_credited_than_spent_is_told_in_words(site):
    site.lease("ann", FlavorKind.CPU)
    text = "user,amount,reason\nann,19.98,Course\n"
    async with browsing(books(site), "bill") as client:
        await send(client, "limits/edit", **TINY | {"amount": "20.00", "user": "ann"}, step="confirm")
        page = await send(client, "limits/import", kind="credits", text=text, step="preview")
        await send(client, "limits/import", **hidden(page), step="confirm")
        panel = parse(await client.get("limits")).select_one(".nbgpu-meter")
    said = " ".join(panel.text.split())
    assert "0.00 of 20.00 USD spent, 39.98 left (19.98 credited) (0 %)" in said
    assert "-" not in said


async def test_a_price_is_looked_at_and_set_from_a_time_to_come(site):
    form = {"sku": "gpu:gpu:on-demand", "price": "1.20", "since": "2026-03-11T08:00"}
    async with browsing(books(site), "bill") as client:
        page = await send(client, "prices/set", **form, step="preview")
        text = " ".join(parse(page).select_one("section").text.split())
        assert "to 1.20 USD an hour, from 2026-03-11 08:00 UTC on." in text
        assert "charged by it from then on: 1." in text
        assert site.prices.sheet().coming(int(NOW.timestamp())) == ()
        page = await send(client, "prices/set", **hidden(page), step="confirm")
        assert "The price is set" in parse(page).select_one("[role=status]").text
        assert parse(page).select_one(".prices-skus .nbgpu-badge").text == "to come"
        for wrong, words in (("2026-03-01T08:00", "is past"), ("soon", "is no time"), ("", "The price “x” is not")):
            page = await send(client, "prices/set", **form | {"since": wrong, "price": "x"}, step="confirm")
            assert (page.status_code, words in alert(page)) == (400, True)
    (row,) = site.audit.latest()
    assert (row.actor, row.action, row.detail) == (
        "bill",
        "price.set",
        "1.20 USD an hour from 2026-03-11T08:00:00+00:00",
    )


async def test_a_file_does_not_undo_what_was_changed_since_it_was_looked_at(site):
    async with browsing(books(site), "bill") as client:
        page = await send(client, "limits/import", kind="budgets", text="name,amount\ntiny,1\nbig,9", step="preview")
        seen = hidden(page)
        await send(client, "limits/edit", **TINY, step="confirm")
        late = await send(client, "limits/import", **seen, step="confirm")
        assert (late.status_code, "changed since you looked" in alert(late)) == (409, True)
        assert [each.name for each in site.policies.entries()] == ["tiny"]
        again = await send(client, "limits/import", **hidden(late), step="confirm")
        assert "All of the file is done" in again.text
        form = await send(client, "limits/import", **(seen | {"seen": "x"}), step="confirm")
    assert form.status_code == 400
    assert {each.name: each.fields["amount"] for each in site.policies.entries()} == {"big": "9.00", "tiny": "1.00"}
