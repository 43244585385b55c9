"""How long a person's page of usage takes beside the hub's own list of users, in one run."""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import httpx

from bench.figures import Figure, percentile_95
from bench.hub_load import TESTS
from bench.ours import proxy_command
from bench.statements import NOW, fill
from bench.vanilla import NULL_SPAWNER, vanilla_hub
from nbgpu.core.authorize import Policies
from nbgpu.core.budgets import Budget
from nbgpu.core.quotas import Scope, Who
from nbgpu.core.units import MICRO
from nbgpu.core.windows import Window, WindowKind
from nbgpu.service.books import Books
from nbgpu.store import open_database
from nbgpu.store.keeping import SqlLimits
from nbgpu.store.prices import SqlPrices
from nbgpu.store.statements import SqlStatements
from service.usage_site import browsing

USERS, MONTHS, HOURS_EACH, ROUNDS = 1000, 12, 40, 40
BUDGET = Budget(name="all", who=Who(Scope.EVERYONE), amount=1000 * MICRO, window=Window(kind=WindowKind.MONTH))
PAGES = {
    "pages.users": "month=2026-03",
    "pages.users.table": "month=2026-03&by=session",
    "pages.users.year": "from=2025-04-10&to=2026-03-31",
}


def measure_usage_page() -> Iterator[Figure]:
    """Milliseconds that 95 % stay under: of one of 1,000 users with a year of charges; `/hub/api/users` beside it."""
    with tempfile.TemporaryDirectory(prefix="nbgpu-bench-") as folder:
        file = Path(folder) / "nbgpu.sqlite"
        fill(file, [-month for month in range(MONTHS)], users=USERS, hours_each=HOURS_EACH)
        with vanilla_hub(NULL_SPAWNER.format(folder=TESTS), proxy_command()) as vanilla:
            for begin in range(0, USERS, 100):
                names = [f"user-{number:04}" for number in range(begin, begin + 100)]
                vanilla.api.post("/users", json={"usernames": names}).raise_for_status()
            theirs = percentile_95([_call(vanilla.api) for _ in range(ROUNDS)])
        times = asyncio.run(_look(file))
    for name, seconds in times.items():
        yield Figure(name, percentile_95(seconds) * 1000, theirs * 1000, "ms", "at most 1x; a year under 2 s")


def _call(api: httpx.Client) -> float:
    began = time.perf_counter()
    assert len(api.get("/users").raise_for_status().json()) >= 50
    return time.perf_counter() - began


async def _look(file: Path) -> dict[str, list[float]]:
    engine = open_database(f"sqlite:///{file}")
    policies = Policies(budgets=(BUDGET,))
    books = Books(
        statements=SqlStatements(engine),
        limits=SqlLimits(engine, policies, lambda: NOW),
        prices=SqlPrices(engine, lambda: NOW),
        clock=lambda: NOW,
        timezone="UTC",
        account_id="nbgpu",
    )
    async with browsing(books, "user-0042") as client:
        times = {
            name: [await _time(lambda query=query: client.get(f"usage?{query}")) for _ in range(ROUNDS)]
            for name, query in PAGES.items()
        }
    engine.dispose()
    return times


async def _time(ask: Callable[[], Awaitable[httpx.Response]]) -> float:
    began = time.perf_counter()
    answer = await ask()
    took = time.perf_counter() - began
    assert answer.text.count("data-day=") > 1
    return took
