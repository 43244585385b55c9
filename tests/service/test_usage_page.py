"""The page of usage over a real database: its sums are the statement's, its plots the table's, and one's own alone."""

import csv
import io
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise

import pytest
from bs4 import BeautifulSoup
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text

from nbgpu.core.authorize import Policies
from nbgpu.core.budgets import Budget
from nbgpu.core.flavors import FlavorKind
from nbgpu.core.ledger import Charge, ChargeCategory
from nbgpu.core.periods import HOUR, to_seconds
from nbgpu.core.prices import build_prices
from nbgpu.core.quotas import QuotaPolicy, Scope, Who
from nbgpu.core.statement import Amounts, Dimension, Part, ask, totals
from nbgpu.core.units import MICRO
from nbgpu.core.windows import Window, WindowKind
from nbgpu.service.books import Books
from nbgpu.service.pages.plots import HEIGHT, WIDTH, overlay_bars, stack_bars
from nbgpu.service.pages.usage_view import MOST_SERIES, OTHERS, build_dailies
from nbgpu.service.pages.usage_waste import build_waste
from nbgpu.service.turns import Turns
from nbgpu.store import open_database
from nbgpu.store.keeping import SqlLimits
from nbgpu.store.ledger import SqlLedger
from nbgpu.store.prices import SqlPrices
from nbgpu.store.statements import SqlStatements
from service.browse import EVIL, PREFIX
from service.usage_site import browsing
from support.site import make_flavor

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
MARCH = to_seconds(datetime(2026, 3, 1, tzinfo=UTC))
DAY = 24 * HOUR
MONTH = Window(kind=WindowKind.MONTH)
POLICIES = Policies(
    quotas=(QuotaPolicy(who=Who(Scope.EVERYONE), gpu_seconds=10 * HOUR, window=MONTH),),
    budgets=(Budget(name="all", who=Who(Scope.EVERYONE), amount=100 * MICRO, window=MONTH),),
)
FLAVORS = (
    make_flavor("cpu", FlavorKind.CPU, display_name=EVIL, price_per_hour=60_000),
    make_flavor("a100", FlavorKind.GPU, gpus=2, price_per_hour=4_000_000, host_price_per_hour=100_000),
    make_flavor("staff", FlavorKind.CPU, groups=frozenset({"staff"})),
)


def charge(user: str, flavor: str, day: int, *, cost: int, gpu: bool = True, hours: int = 1, **more) -> list[Charge]:
    """Lines of a session of some hours on a day of March, from 8 o'clock."""
    session = f"{user[:3]}-{flavor}-{day}"
    start = MARCH + (day - 1) * DAY + 8 * HOUR
    line = Charge(
        charge_key="",
        session_id=session,
        username=user,
        billing_group="ml",
        flavor=flavor,
        sku_id=f"{flavor}:{'gpu' if gpu else 'host'}:on-demand",
        resource_id="GPU-1" if gpu else "",
        charge_category=ChargeCategory.USAGE.value,
        charge_period_start=start,
        charge_period_end=start + HOUR,
        consumed_seconds=HOUR,
        consumed_unit="GPU-Hours" if gpu else "Server-Hours",
        list_unit_price=cost,
        billed_cost=cost,
        billing_currency="USD",
    )
    found = [
        replace(line, charge_period_start=at, charge_period_end=at + HOUR, charge_key=f"{line.sku_id}|{session}|{at}")
        for at in range(start, start + hours * HOUR, HOUR)
    ]
    return [replace(each, **more) for each in found]


CHARGES = [
    *charge("ann", "a100", 2, cost=1_950_000, hours=3),
    *charge("ann", "a100", 2, cost=100_000, gpu=False, hours=3),
    *charge("ann", "cpu", 3, cost=60_001, gpu=False),
    *charge("ann", "a100", 5, cost=1_950_000, estimated=True),
    *charge("bob", "a100", 2, cost=7_000_000),
    *charge(EVIL, EVIL, 4, cost=5, gpu=False),
    *charge("ann", "", 6, cost=-500_000, gpu=False, charge_category="Credit", consumed_seconds=0, session_id=""),
]


def add_samples(engine) -> None:
    """Half of ann's first hour on the GPU, a quarter of bob's: as the sampler keeps them."""
    session = """
        INSERT INTO sessions (session_id, username, servername, flavor, image, image_id, price_per_hour, state,
            created_at, active_at, released_at, settled, billing_group)
        VALUES (:id, :user, '', 'a100', 'base', 'i', 1, 'released', '2026-03-02', '2026-03-02', '2026-03-03', 1, 'ml')
    """
    sampled = """
        INSERT INTO usage_hours (session_id, device_uuid, starts_at, run, sampled_ms, busy_ms)
        VALUES (:id, 'GPU-1', :at, 'r', 3600000, :busy)
    """
    with engine.begin() as db:
        for user, busy in (("ann", 1_800_000), ("bob", 900_000)):
            values = {"id": f"{user}-a100-2", "user": user, "at": MARCH + DAY + 8 * HOUR, "busy": busy}
            db.execute(text(session), values)
            db.execute(text(sampled), values)


@pytest.fixture(scope="module")
def books(tmp_path_factory):
    """The books of a site on which ann, bob and somebody whose name is markup used something in March."""
    engine = open_database(f"sqlite:///{tmp_path_factory.mktemp('usage') / 'nbgpu.sqlite'}")
    add_samples(engine)
    SqlLedger(engine, lambda: NOW).post(CHARGES)
    prices = SqlPrices(engine, lambda: NOW)
    prices.ensure([price for flavor in FLAVORS for price in build_prices(flavor, "USD", 0)])
    yield Books(
        statements=SqlStatements(engine),
        limits=SqlLimits(engine, POLICIES, lambda: NOW),
        prices=prices,
        clock=lambda: NOW,
        timezone="Asia/Shanghai",
        account_id="nbgpu",
        flavors={each.slug: each for each in FLAVORS},
    )
    engine.dispose()


async def look(books, name: str, query: str = "", **headers: str) -> BeautifulSoup:
    async with browsing(books, name, **headers) as client:
        answer = await client.get(f"usage?{query}")
    assert answer.status_code == 200
    return BeautifulSoup(answer.text, "html.parser")


def micro(cell) -> int:
    found = cell.select_one("data") if cell is not None else None
    return int(Decimal(found["value"]) * MICRO) if found is not None else 0


def ms(cell) -> int | None:
    found = cell.select_one("data")
    return int(found["value"]) if found is not None else None


def texts(page: BeautifulSoup, where: str) -> list[str]:
    return [" ".join(each.text.split()) for each in page.select(where)]


@pytest.mark.parametrize(("name", "query", "user"), [("ann", "", "ann"), ("bob", "", "bob"), ("root", "", None)])
async def test_sums_are_the_statements(books, name, query, user):
    page = await look(books, name, query)
    zone = NOW.tzinfo
    question = ask([Dimension.FLAVOR], date(2026, 3, 1), date(2026, 3, 31), zone, username=user)
    statement = books.statements.read(question, NOW)
    total = totals(statement)["USD"]
    foot = page.select_one(".usage-days tfoot")
    assert micro(foot.select_one(".usage-cost")) == total.cost
    assert (ms(foot.select_one(".usage-leased")), ms(foot.select_one(".usage-busy"))) == (
        total.gpu_seconds * 1000,
        total.busy_ms,
    )
    assert sum(micro(each) for each in page.select(".usage-days tbody .usage-cost")) == total.cost
    by_flavor = {row["data-key"]: micro(row.select_one(".usage-cost")) for row in page.select(".usage-lines tbody tr")}
    assert by_flavor == {line.key[0]: line.amounts.cost for line in statement}


@pytest.mark.parametrize("name", ["ann", "root"])
async def test_the_plots_figures_are_the_tables(books, name):
    page = await look(books, name)
    cost, hours = page.select("svg.usage-plot")
    table: dict[tuple[str, int], int] = {}
    leased_and_busy: dict[tuple[str, int], int] = {}
    for row in page.select(".usage-days tbody tr"):
        cells = row.select("td")
        for number, cell in enumerate(cells[:-5]):
            table[row["data-day"], number] = micro(cell)
        assert sum(micro(cell) for cell in cells[:-5]) == micro(cells[-5])
        for number, cell in enumerate(cells[-2:]):
            leased_and_busy[row["data-day"], number] = ms(cell) or 0
    for svg, figures in ((cost, table), (hours, leased_and_busy)):
        drawn = {(bar["data-day"], int(bar["data-series"])): int(bar["data-value"]) for bar in svg.select(".usage-bar")}
        assert drawn == {place: value for place, value in figures.items() if value}
        assert svg.select_one("title").text
        assert svg.select_one("desc").text
        assert all(bar.select_one("title").text.strip() for bar in svg.select(".usage-bar"))
    assert len(cost.find_parent("figure").select(".usage-legend li")) == len(cost.select("pattern"))


async def test_people_see_what_they_may_still_use_and_prices_of_their_flavors(books):
    page = await look(books, "ann")
    assert page.select_one("h1").text == "My usage"
    assert "Days are from midnight to midnight in Asia/Shanghai." in page.select_one("main").text
    assert texts(page, ".nbgpu-meter h3") == ["My budget", "GPU-hours"]
    assert "begins anew at" in page.select_one(".nbgpu-meter").text
    prices = {row["data-flavor"]: row.select("td")[-1].text for row in page.select(".usage-prices tbody tr")}
    assert prices == {"cpu": "0.06 USD", "a100": "4.00 USD"}
    assert [row["data-flavor"] for row in (await look(books, "bob")).select(".usage-prices tbody tr")] == [
        *prices,
        "staff",
    ]
    assert texts(page, ".usage-tabs a") == ["Flavor", "Session"]
    assert page.select_one("#user") is None


async def test_sessions_are_told_with_their_days_and_what_was_guessed(books):
    page = await look(books, "ann", "by=session")
    rows = page.select(".usage-lines tbody tr")
    assert [row["data-key"] for row in rows] == ["", "ann-a100-5", "ann-cpu-3", "ann-a100-2"]
    assert "estimated" in rows[1].text
    assert "2026-03-02" in rows[3].text
    assert micro(rows[3].select_one(".usage-cost")) == 6_150_000


async def test_who_reads_all_sees_everybody_a_user_and_a_group(books):
    everybody = await look(books, "root", "by=user")
    assert [row["data-key"] for row in everybody.select(".usage-lines tbody tr")] == ["ann", "bob", EVIL]
    assert everybody.find("i", string="x") is None
    assert texts(everybody, ".usage-tabs a") == ["Flavor", "Session", "User", "Group"]
    link = everybody.select(".usage-lines tbody a")[1]["href"]
    bob = await look(books, "root", link.partition("?")[2])
    assert bob.select_one("h1").text == "Usage of bob"
    assert micro(bob.select_one(".usage-days tfoot .usage-cost")) == 7_000_000
    assert texts(bob, "#meters-title") == ["What they may still use"]
    group = await look(books, "root", "group=ml&by=group")
    assert group.select_one("h1").text == "Usage of group ml"
    assert [row["data-key"] for row in group.select(".usage-lines tbody tr")] == ["ml"]
    assert (await look(books, "root", "group=nobodys")).select_one(".alert-info") is not None


@pytest.mark.parametrize("path", ["usage", "usage/file"])
async def test_people_read_nobody_elses(books, path):
    async with browsing(books, "ann") as client:
        other, own = await client.get(f"{path}?user=bob"), await client.get(f"{path}?user=ann")
        tables = [(await client.get(f"{path}?by={by}")).text for by in ("flavor", "session")]
    assert (other.status_code, own.status_code) == (403, 200)
    assert "This is somebody else's usage." in BeautifulSoup(other.text, "html.parser").text
    assert "bob" not in own.text
    assert all("bob" not in each for each in tables)
    async with browsing(books) as client:
        assert (await client.get(path)).status_code == 302
    async with browsing(books, "root") as client:
        assert (await client.get(f"{path}?user=amn")).status_code == 404


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("usage?month=2026-13", "month must be a date like 2026-11."),
        ("usage?month=2026-03&from=2026-03-01", "Give either month, or from and to."),
        ("usage?from=2026-03-02&to=2026-03-01", "from 2026-03-02 is after to 2026-03-01."),
        ("usage?from=2020-01-01", "a statement has at most 400."),
        ("usage?by=user", "by “user” is not known; there are: flavor, session."),
        ("usage?by=%3Ci%3E", "by “<i>” is not known"),
        ("usage/file?by=nothing", "by “nothing” is not known"),
        ("usage/file?by=day&format=xls", "There is no format “xls”"),
        ("usage/file?format=json&month=x", "month must be a date"),
    ],
)
async def test_what_makes_no_sense_is_a_page_that_says_so(books, path, words):
    async with browsing(books, "ann") as client:
        answer = await client.get(path)
    page = BeautifulSoup(answer.text, "html.parser")
    assert (answer.status_code, answer.headers["content-type"]) == (400, "text/html; charset=UTF-8")
    assert words in page.select_one("[role=alert]").text
    assert "content-disposition" not in answer.headers


async def test_a_refusal_is_in_the_readers_language(books):
    async with browsing(books, "ann", **{"Accept-Language": "zh"}) as client:
        answer = await client.get("usage?month=2026-13")
    assert (
        "month 必须是 2026-11 这样的日期。" in BeautifulSoup(answer.text, "html.parser").select_one("[role=alert]").text
    )


async def test_files_have_what_the_page_has(books):
    page = await look(books, "ann")
    links = {each.text: each["href"].removeprefix(PREFIX) for each in page.select(".usage-files a")}
    async with browsing(books, "ann") as client:
        files = {name: await client.get(link) for name, link in links.items()}
    total = micro(page.select_one(".usage-days tfoot .usage-cost"))
    rows = list(csv.DictReader(io.StringIO(files["CSV"].text)))
    assert sum(Decimal(row["cost"]) for row in rows) * MICRO == total
    plain = files["JSON"].json()
    assert [each["cost_micro"] for each in plain["totals"]] == [total]
    assert plain["timezone"] == "Asia/Shanghai"
    lines = list(csv.DictReader(io.StringIO(files["FOCUS 1.0"].text)))
    assert {line["SubAccountId"] for line in lines} == {"ann"}
    assert all(each.headers["content-disposition"].startswith("attachment") for each in files.values())


async def test_no_cell_of_a_file_is_a_formula(books, tmp_path):
    engine = open_database(f"sqlite:///{tmp_path / 'nbgpu.sqlite'}")
    with closing(engine.raw_connection()):
        SqlLedger(engine, lambda: NOW).post(charge("=1+1", "@f", 2, cost=1))
    async with browsing(replace(books, statements=SqlStatements(engine)), "root") as client:
        answer = await client.get("usage/file?by=user,flavor&month=2026-03")
    engine.dispose()
    assert answer.text.splitlines()[1].startswith("'=1+1,'@f,")


async def test_an_empty_month_says_what_to_do_and_months_to_come_are_not_offered(books):
    page = await look(books, "ann", "month=2026-01")
    assert "Choose another month" in page.select_one(".alert-info").text
    assert page.select_one("svg.usage-plot") is None
    assert texts(page, "nav[aria-label=Months] a") == ["2025-12", "2026-01", "2026-02"]
    assert texts(await look(books, "ann"), "nav[aria-label=Months] a") == ["2026-02", "2026-03"]


async def test_a_month_is_followed_by_its_link_and_texts_are_the_readers(books):
    page = await look(books, "ann", "from=2026-03-02&to=2026-03-03", **{"Accept-Language": "zh-CN"})
    assert page.html["lang"] == "zh-CN"
    assert page.select_one("h1").text != "My usage"
    march = page.select("nav.nbgpu-actions a")[1]["href"].partition("?")[2]
    assert "from=" not in march
    whole = await look(books, "ann", march)
    assert whole.select_one("#to")["value"] == "2026-03-31"


@pytest.mark.parametrize("path", ["usage", "usage/file?format=focus"])
async def test_who_waits_too_long_for_a_statement_is_told_so(books, path):
    async with browsing(books, "ann", turns=Turns(0, patience=0.01)) as client:
        answer = await client.get(path)
    assert answer.status_code == 503
    assert "Try again in a moment." in BeautifulSoup(answer.text, "html.parser").select_one("[role=alert]").text


def test_flavors_that_are_too_many_are_the_others_and_currencies_are_apart():
    question = ask([Dimension.DAY, Dimension.FLAVOR], date(2026, 3, 1), date(2026, 3, 2), UTC)
    lines = [Part(("2026-03-01", f"f{number}"), "USD", Amounts(cost=number)) for number in range(1, 10)]
    lines += [Part(("2026-03-02", "f1"), "EUR", Amounts(cost=5)), Part(("2026-03-02", "f2"), "", Amounts(busy_ms=1))]
    euro, dollar = build_dailies(question, lines, str)
    assert (euro.currency, euro.total.cost, euro.total.busy_ms) == ("EUR", 5, 1)
    assert dollar.names == ("f9", "f8", "f7", "f6", "f5", OTHERS)
    assert (dollar.costs, len(dollar.costs)) == ((9, 8, 7, 6, 5, 1 + 2 + 3 + 4), MOST_SERIES)


@given(st.lists(st.lists(st.integers(-(10**13), 10**13), min_size=3, max_size=3), max_size=40))
def test_bars_of_any_values_lie_in_the_image_and_are_as_high_as_their_values(rows):
    days = [date(2026, 1, 1) + timedelta(days=number) for number in range(len(rows))]
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
    plot = stack_bars(days, columns, unit=MICRO)
    assert {(bar.day, bar.series): bar.value for bar in plot.bars} == {
        (day, number): value
        for day, values in zip(days, rows, strict=True)
        for number, value in enumerate(values)
        if value
    }
    for bar in plot.bars:
        assert 0 <= bar.x <= bar.x + bar.width <= WIDTH
        assert -0.01 <= bar.y <= bar.y + bar.height <= HEIGHT
        assert (bar.y + bar.height <= plot.zero + 0.02) if bar.value > 0 else (bar.y >= plot.zero - 0.02)
    heights = sorted((abs(bar.value), bar.height) for bar in plot.bars)
    assert all(low[1] <= high[1] + 0.03 for low, high in pairwise(heights))


def test_what_is_not_reported_is_no_bar_and_axes_have_round_figures():
    plot = overlay_bars([date(2025, 12, 31), date(2026, 1, 1)], [[7_300, 0], [None, 100]], unit=1000)
    assert [(bar.day, bar.series, bar.value) for bar in plot.bars] == [
        (date(2025, 12, 31), 0, 7_300),
        (date(2026, 1, 1), 1, 100),
    ]
    assert [tick.label for tick in plot.up] == ["0", "2", "4", "6", "8"]
    assert [tick.label for tick in plot.across] == ["2025-12-31", "2026-01-01"]
    assert [tick.label for tick in stack_bars([], [], unit=1).up] == ["0", "1"]


@pytest.mark.parametrize(
    ("query", "name", "found"),
    [
        ("by=user", "root", [("ann", "6.82", "3.50", "87 %"), ("bob", "5.25", "0.75", "75 %")]),
        ("by=user&order=share", "root", [("ann", "6.82", "3.50", "87 %"), ("bob", "5.25", "0.75", "75 %")]),
        ("by=flavor&order=leased", "root", [("a100", "12.58", "4.25", "85 %")]),
        ("by=group&user=bob", "root", [("ml", "5.25", "0.75", "75 %")]),
        ("by=flavor", "ann", [("a100", "6.82", "3.50", "87 %")]),
        ("by=session", "ann", []),
    ],
)
async def test_what_was_leased_and_did_nothing_is_told_with_its_cost(books, query, name, found):
    async with browsing(books, name) as client:
        page = BeautifulSoup((await client.get(f"usage?month=2026-03&{query}")).text, "html.parser")
    rows = [
        (row["data-waste"], [cell.text.strip() for cell in row.select("td")]) for row in page.select("[data-waste]")
    ]
    assert [(key, cost.removesuffix(" USD"), idle, share) for key, (_, cost, idle, share, _) in rows] == found
    bars = [[float(each["width"][:-1]) for each in row.select("svg > rect")] for row in page.select("[data-waste]")]
    assert all(busy <= leased <= 100 for leased, busy in bars)


async def test_an_order_that_is_none_is_refused(books):
    async with browsing(books, "ann") as client:
        answer = await client.get("usage?order=size")
    assert (answer.status_code, "there are: idle_cost, idle, share, leased" in answer.text) == (400, True)


def test_what_nobody_sampled_is_not_idle():
    parts = [
        Part(("ann", "t4:gpu:on-demand"), "USD", Amounts(gpu_seconds=HOUR, cost=7)),
        Part(("ann", "x"), "USD", Amounts()),
    ]
    assert build_waste(parts, "idle") == []
