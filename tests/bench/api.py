"""How long the REST API's lists take, as users and as the database differ, beside the hub's own list of users."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from sqlite3 import connect

import httpx
import psycopg

from bench.figures import Figure, percentile_95
from bench.hub_load import TESTS
from bench.ours import proxy_command
from bench.statements import NOW, fill
from bench.usage_page import BUDGET
from bench.vanilla import NULL_SPAWNER, vanilla_hub
from nbgpu.core.authorize import Policies
from nbgpu.core.flavors import Flavor, FlavorKind
from nbgpu.core.idle_policy import IdleSite
from nbgpu.core.periods import HOUR, to_seconds
from nbgpu.core.prices import build_prices
from nbgpu.service.books import Books
from nbgpu.store import open_database
from nbgpu.store.idle import SqlIdle
from nbgpu.store.keeping import SqlLimits
from nbgpu.store.prices import SqlPrices
from nbgpu.store.session_list import SqlSessionList
from nbgpu.store.statements import SqlStatements
from service.api_site import SCOPES, authorization, serving
from support.postgresql import running_server
from support.site import make_flavor

SIZES = {1000: 20, 5000: 4}  # users, and the hours a month that each has had a server in the year before
MONTHS, ROUNDS = 12, 10
TABLES = ("charges", "sessions", "usage_hours", "prices")
CALLS = {  # what is asked, by whom
    "list": ("sessions", "admin"),
    "ended": ("sessions?state=ended&sort=-cost", "admin"),
    "usage": ("usage?by=user&month=2026-03", "admin"),
    "budgets": ("budgets", "admin"),
    "mine": ("usage?by=day&month=2026-03", "user-0042"),
    "prices": ("prices", "user-0042"),
}
_RUNNING = """
    INSERT INTO sessions (session_id, username, servername, flavor, image, image_id, price_per_hour, state, created_at,
        active_at, seen_at, posted_until)
    VALUES (?, ?, '', 'flavor-1', 'base', 'i', 1, 'active', '2026-03-31', '2026-03-31', '2026-04-01', ?)
"""


def measure_api() -> Iterator[Figure]:
    """Milliseconds that 95 % stay under, each user with a server that runs; `/hub/api/users` of as many beside it."""
    for users, hours in SIZES.items():
        theirs = _measure_hub(users)
        with tempfile.TemporaryDirectory(prefix="nbgpu-bench-") as folder, running_server(Path(folder)) as server:
            file = Path(folder) / "nbgpu.sqlite"
            _fill(file, users, hours)
            url = server.make()
            _copy(file, url)
            for name, database in (("sqlite", f"sqlite:///{file}"), ("postgresql", url)):
                for call, seconds in _measure(database).items():
                    figure = f"api.sessions.{users}.{name}.{call}"
                    yield Figure(figure, percentile_95(seconds) * 1000, theirs * 1000, "ms", "under 1000 ms")


def _measure_hub(users: int) -> float:
    with vanilla_hub(NULL_SPAWNER.format(folder=TESTS), proxy_command()) as vanilla:
        for begin in range(0, users, 250):
            names = [f"user-{number:04}" for number in range(begin, begin + 250)]
            vanilla.api.post("/users", json={"usernames": names}, timeout=120).raise_for_status()
        return percentile_95(_ask(vanilla.api, "/users", {}))


def _measure(database: str) -> dict[str, list[float]]:
    SCOPES["user-0042"] = SCOPES["ann"]
    with _books(database) as books, serving(books) as address, httpx.Client(base_url=address, timeout=120) as client:
        return {name: _ask(client, f"api/v1/{path}", authorization(who)) for name, (path, who) in CALLS.items()}


def _ask(client: httpx.Client, path: str, headers: dict[str, str]) -> list[float]:
    """Return the seconds of some calls, after one that is not counted."""
    seconds = []
    for _ in range(ROUNDS + 1):
        began = time.perf_counter()
        client.get(path, headers=headers).raise_for_status()
        seconds.append(time.perf_counter() - began)
    return seconds[1:]


@contextmanager
def _books(database: str) -> Iterator[Books]:
    engine, policies = open_database(database), Policies(budgets=(BUDGET,))
    idle = SqlIdle(engine, IdleSite())
    yield Books(
        statements=SqlStatements(engine),
        limits=SqlLimits(engine, policies, lambda: NOW),
        prices=SqlPrices(engine, lambda: NOW),
        clock=lambda: NOW,
        timezone="UTC",
        account_id="nbgpu",
        idle=idle,
        sessions=SqlSessionList(engine, idle, lambda: NOW),
    )
    engine.dispose()


def _fill(file: Path, users: int, hours: int) -> None:
    fill(file, [-month for month in range(MONTHS)], users=users, hours_each=hours)
    with closing(connect(file)) as connection:
        posted = to_seconds(NOW) - HOUR  # as on a site whose meter runs
        rows = [(f"{number:08}-0000-4000-8000-running00000", f"user-{number:04}", posted) for number in range(users)]
        connection.executemany(_RUNNING, rows)
        connection.commit()
    engine = open_database(f"sqlite:///{file}")
    prices = [each for number in range(6) for each in build_prices(_flavor(number), "USD", 0)]
    SqlPrices(engine, lambda: NOW).ensure(prices)
    engine.dispose()


def _flavor(number: int) -> Flavor:
    return make_flavor(f"flavor-{number}", FlavorKind.GPU)


def _copy(file: Path, url: str) -> None:
    """Copy the rows of a SQLite database into a new one of PostgreSQL."""
    open_database(url).dispose()
    plain = url.replace("postgresql+psycopg", "postgresql")
    with closing(connect(file)) as source, psycopg.connect(plain) as target:
        for table in TABLES:
            names = ", ".join(row[1] for row in source.execute(f"PRAGMA table_info({table})"))
            rows = source.execute(f"SELECT {names} FROM {table}")
            with target.cursor().copy(f"COPY {table} ({names}) FROM STDIN") as copy:
                for row in rows:
                    copy.write_row([None if value is None else str(value) for value in row])
        target.commit()
        target.autocommit = True
        target.execute("ANALYZE")
