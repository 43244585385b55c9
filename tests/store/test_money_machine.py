"""A machine that does to sessions, meters and clocks what can be done to them, and an oracle that knows the real time.

Billed is what containers really ran, each second once, on SQLite as it is used; a price or budget that changes, a clock
that is stepped, ends that come late, twice or never change nothing of that.
"""

import itertools
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from nbgpu.core.authorize import Policies
from nbgpu.core.budgets import Budget
from nbgpu.core.devices import Device
from nbgpu.core.errors import BudgetExceeded, NoCapacity
from nbgpu.core.flavors import Flavor, FlavorKind
from nbgpu.core.leases import ServerRef
from nbgpu.core.menu import Choice
from nbgpu.core.prices import Price, build_prices, device_sku
from nbgpu.core.quotas import Scope, Who
from nbgpu.core.reconcile import ContainerFact
from nbgpu.core.windows import Window, WindowKind
from nbgpu.store import SqlLeaseStore, open_database
from nbgpu.store.ledger import SqlLedger
from nbgpu.store.metering import SqlMetering
from nbgpu.store.prices import SqlPrices
from nbgpu.telemetry.meter import Meter
from nbgpu.telemetry.uptime import Uptime

BEGIN = datetime(2026, 10, 25, 0, 0, tzinfo=UTC)  # the night in which Europe's clocks go back
DEVICES = tuple(Device(uuid=f"GPU-{number}", index=number, name="NVIDIA A100") for number in range(3))
FLAVOR = Flavor(
    slug="a100",
    display_name="One A100",
    kind=FlavorKind.GPU,
    cpus=1,
    memory=2**30,
    shm=2**26,
    pids=100,
    images=("base",),
    price_per_hour=1_900_000,
    gpus=1,
)
CHOICE = Choice(FLAVOR, "base")


@dataclass
class Run:
    """A container as it really was; seconds by a clock that nobody steps."""

    server: ServerRef
    started: int
    ended: int | None = None
    told_end: datetime | None = None  # as the engine's clock said
    seen: int | None = None  # at the last tick that saw it
    stepped: bool = False
    removed: bool = False  # nobody can know its end any more


class MoneyMachine(RuleBasedStateMachine):
    """The site; its rules are what happens to it."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="nbgpu-machine-")
        self.real, self.offset = 0, 0  # seconds
        self.runs: dict[str, Run] = {}
        self.released: set[str] = set()
        self.names = itertools.count()
        self.policies = Policies()
        self.prices_changed = False
        self.open()

    def open(self) -> None:
        self.engine = open_database(f"sqlite:///{Path(self.folder.name) / 'nbgpu.sqlite'}")
        self.leases = SqlLeaseStore(self.engine, self.wall, self.policies)
        self.prices = SqlPrices(self.engine, self.wall)
        self.prices.ensure(build_prices(FLAVOR, "USD", self.seconds()))
        self.ledger = SqlLedger(self.engine, self.wall)
        self.metering = SqlMetering(self.engine, self.wall)
        self.meter = Meter(metering=self.metering, fleet=self, clock=self.wall, uptime=self.uptime)

    def wall(self) -> datetime:
        return BEGIN + timedelta(seconds=self.real + self.offset)

    def seconds(self) -> int:
        return int(self.wall().timestamp())

    def uptime(self) -> Uptime:
        return Uptime(self.real * 1000, "boot")

    # The fleet

    def containers(self):
        return tuple(
            ContainerFact(each, each, running=run.ended is None) for each, run in self.runs.items() if not run.removed
        )

    def end(self, container_id):
        raise AssertionError("a meter ends nothing")

    # What happens

    @rule(seconds=st.integers(1, 5000))
    def time_goes_on(self, seconds):
        self.real += seconds

    @rule()
    def tick(self):
        self.meter.tick()
        for each, run in self.runs.items():
            if run.ended is None and each not in self.released:
                run.seen = self.real

    @rule()
    def tick_twice(self):
        self.tick()
        assert self.meter.tick() == ()

    @rule(late=st.booleans())
    def start(self, late):
        server = ServerRef(f"u{next(self.names)}")
        try:
            lease = self.leases.acquire(server, CHOICE, "sha256:1", DEVICES)
        except (NoCapacity, BudgetExceeded):
            return
        self.leases.activate(lease.session_id, self.wall())
        self.runs[lease.session_id] = Run(server, self.real)

    @contextmanager
    def starting(self, wanted: str) -> Iterator[None]:
        """Have a session start across what is done meanwhile; its container runs before that, or only after."""
        try:
            lease = self.leases.acquire(ServerRef(f"u{next(self.names)}"), CHOICE, "sha256:1", DEVICES)
        except (NoCapacity, BudgetExceeded):
            yield
            return
        began, told = self.real, self.wall()
        yield
        if wanted == "its container runs after":
            began, told = self.real, self.wall()
        self.leases.activate(lease.session_id, told)
        self.runs[lease.session_id] = Run(lease.server, began, stepped=True)

    @rule()
    def a_start_is_broken_off(self):
        server = ServerRef(f"u{next(self.names)}")
        try:
            lease = self.leases.acquire(server, CHOICE, "sha256:1", DEVICES)
        except (NoCapacity, BudgetExceeded):
            return
        self.leases.release(lease.session_id, "a start that was broken off")

    def running(self) -> list[str]:
        return [each for each, run in self.runs.items() if run.ended is None and each not in self.released]

    def unnoticed(self) -> list[str]:
        return [each for each, run in self.runs.items() if run.ended is not None and each not in self.released]

    def finish(self, session: str) -> None:
        run = self.runs[session]
        run.ended, run.told_end = self.real, self.wall()

    @precondition(lambda self: self.running())
    @rule(data=st.data())
    def stop(self, data):
        session = data.draw(st.sampled_from(self.running()))
        self.finish(session)
        self.release(session)

    @precondition(lambda self: self.running())
    @rule(data=st.data())
    def die_unnoticed(self, data):
        self.finish(data.draw(st.sampled_from(self.running())))

    @precondition(lambda self: self.unnoticed())
    @rule(data=st.data(), times=st.integers(1, 4))
    def notice_the_end_late_and_often(self, data, times):
        session = data.draw(st.sampled_from(self.unnoticed()))
        for _ in range(times):
            self.release(session)

    @precondition(lambda self: self.running())
    @rule(data=st.data())
    def vanish_with_its_end(self, data):
        session = data.draw(st.sampled_from(self.running()))
        run = self.runs[session]
        self.finish(session)
        run.removed = True
        self.leases.release(session, "reconciled: gone")
        self.released.add(session)

    def release(self, session: str) -> None:
        self.leases.release(session, "stopped", self.runs[session].told_end)
        self.released.add(session)

    @rule(micro=st.integers(0, 9_000_000))
    def change_the_price(self, micro):
        price = Price(
            sku_id=device_sku("a100", "on-demand"),
            effective_from=self.seconds(),
            unit="GPU-Hours",
            list_unit_price=micro,
            currency="USD",
        )
        self.prices.add([price], author="admin")
        self.prices_changed = True

    @rule(amount=st.integers(0, 20_000_000))
    def change_the_budget(self, amount):
        budget = Budget(name="each", who=Who(Scope.EVERYONE), amount=amount, window=Window(kind=WindowKind.DAY))
        self.policies = Policies(budgets=(budget,))
        self.leases = SqlLeaseStore(self.engine, self.wall, self.policies)

    @precondition(lambda self: not self.unnoticed())
    @rule(
        size=st.one_of(st.integers(60, 7200), st.integers(-7200, -60)),
        before=st.integers(0, 10),
        after=st.integers(0, 10),
        data=st.data(),
    )
    def step_the_clock(self, size, before, after, data):
        """A step between two ticks; what ends or begins between is told by the clock of its instant."""
        self.tick()
        self.real += before
        if self.running() and data.draw(st.booleans(), "one ends before"):
            self.stop(data)
        if data.draw(st.booleans(), "one begins before"):
            self.start(late=False)
        crossing = self.running()
        self.offset += size
        self.real += after
        if crossing and data.draw(st.booleans(), "one ends after"):
            session = data.draw(st.sampled_from(crossing))
            self.finish(session)
            self.release(session)
        if data.draw(st.booleans(), "one begins after"):
            self.start(late=False)
        for session in crossing:
            self.runs[session].stepped = True
        self.tick()

    @precondition(lambda self: not self.unnoticed())
    @rule(
        size=st.one_of(st.integers(60, 7200), st.integers(-7200, -60)),
        rests=st.tuples(*[st.integers(0, 10)] * 3),
        wanted=st.sampled_from(["its container runs before", "its container runs after"]),
    )
    def step_the_clock_while_one_starts(self, size, rests, wanted):
        self.tick()
        self.real += rests[0]
        with self.starting(wanted):
            self.real += rests[1]
            self.offset += size
            self.real += rests[2]
            self.tick()
        self.tick()

    @rule()
    def restart(self):
        self.engine.dispose()
        self.open()

    # What always holds

    @invariant()
    def no_more_leases_than_devices(self):
        held = [uuid for lease in self.leases.open_leases() for uuid in lease.allocation.device_uuids]
        assert len(held) == len(set(held)) <= len(DEVICES)

    @invariant()
    def nothing_is_billed_that_did_not_run(self):
        for session, seconds in self.billed().items():
            run = self.runs[session]
            assert 0 <= seconds <= (run.ended if run.ended is not None else self.real) - run.started

    def billed(self, resource: str = "") -> dict[str, int]:
        found: dict[str, int] = defaultdict(int)
        for charge in self.ledger.charges():
            if (charge.resource_id == "") == (resource == ""):
                found[charge.session_id] += charge.consumed_seconds
        return dict(found)

    def teardown(self) -> None:
        """Everything ends; then the bill is what really ran."""
        try:
            self.tick()
            for session in [*self.running(), *self.unnoticed()]:
                if self.runs[session].ended is None:
                    self.finish(session)
                self.release(session)
            self.tick()
            assert self.metering.unsettled() == ()
            hosts, devices = self.billed(), self.billed("device")
            for session, run in self.runs.items():
                end = run.ended if not run.removed else (run.seen if run.seen is not None else run.started)
                assert hosts.get(session, 0) == devices.get(session, 0) == end - run.started, (session, run)
            self.check_costs()
            assert self.ledger.verify().broken_from is None
        finally:
            self.engine.dispose()
            self.folder.cleanup()

    def check_costs(self) -> None:
        """Each session's lines add up to its whole, rounded once; they overlap nowhere."""
        costs: dict[str, int] = defaultdict(int)
        spans: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
        for charge in self.ledger.charges():
            costs[charge.session_id] += charge.billed_cost
            if not charge.charge_class:
                spans[charge.session_id, charge.resource_id].append(
                    (charge.charge_period_start, charge.charge_period_end)
                )
        for found in spans.values():
            assert all(left[1] <= right[0] for left, right in itertools.pairwise(sorted(found)))
        if not self.prices_changed:
            for session, seconds in self.billed("device").items():
                assert abs(costs[session] - round(FLAVOR.price_per_hour * seconds / 3600)) <= 1


TestMoney = MoneyMachine.TestCase
TestMoney.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
