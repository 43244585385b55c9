"""Labelled traces of servers, working or idle, and what a rule makes of them: ours, and the stock culler's.

A trace is a moment every half minute: what the sampler reads, what the server reports, and whether the hub's
`last_activity` moves (kernel messages, API calls, any traffic of a websocket: an open tab pings). Readings have noise,
from a seed. Working traces work to their end. Idle ones work for a while first, and nobody comes back.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC

from nbgpu.core.activity import Reading, Report, Tracks, note_reading, note_report
from nbgpu.core.culling import Extension, Look, judge, plan_idle_stop
from nbgpu.core.idle_policy import IdlePolicy
from nbgpu.core.periods import Period
from nbgpu.core.stops import Stop

BEGIN, STEP, STALE = 1_800_000_000, 30, 120  # seconds
MINUTES, HOURS = 60 // STEP, 3600 // STEP  # in steps
LIMIT = 3600  # seconds, of both rules
POLICY = IdlePolicy(idle_limit=LIMIT, gpu_idle_limit=2 * LIMIT)
GIB = 2**30
HICCUP = 0.03 / HOURS  # of a step in which an idle server does something all the same: once in a day and a half
FLAVORS = ("cpu", "gpu", "mig")


@dataclass(frozen=True, slots=True)
class Moment:
    """Half a minute of a server. CPU in percent of a core, network in bytes a second, GPU in percent."""

    cpu: float
    network: float
    gpu: float = 0.0
    gpu_memory: int = 0
    report: Report | None = field(default_factory=Report)  # None: lost
    is_read: bool = True  # False: the sampler's readings are lost
    traffic: bool = False  # what the hub's last_activity sees


@dataclass(frozen=True, slots=True)
class Trace:
    """One server from its begin on."""

    name: str
    flavor: str
    is_working: bool
    moments: tuple[Moment, ...]
    worked: int  # seconds until nobody was at work any more


Kind = Callable[[random.Random, int], Iterator[Moment]]  # over so many steps


# What servers do


def _quiet(rng: random.Random) -> Moment:
    """Jupyter alone."""
    cpu = min(4.0, rng.lognormvariate(-0.3, 0.6)) + (8.0 if rng.random() < HICCUP else 0.0)
    return Moment(cpu=cpu, network=rng.uniform(50, 800))


def _at_a_cell(rng: random.Random, **more: float) -> Moment:
    moment = replace(_quiet(rng), report=Report(kernels=1, kernels_busy=1))
    return replace(moment, **more)


def _used(rng: random.Random) -> Moment:
    """Somebody runs cells and looks at what comes out."""
    report = Report(kernels=1, kernels_busy=rng.randint(0, 1), person_ago=rng.uniform(0, 40), sockets=1)
    cpu, memory = rng.uniform(2, 120), rng.randint(1, 6) * GIB
    return Moment(cpu, rng.uniform(1e3, 1e5), rng.uniform(0, 60), memory, report, traffic=True)


def long_cell(rng: random.Random, steps: int) -> Iterator[Moment]:
    """Training in a cell that says nothing; the browser is closed."""
    for _ in range(steps):
        yield _at_a_cell(rng, cpu=rng.uniform(80, 130), gpu=rng.uniform(50, 100), gpu_memory=30 * GIB)


def slow_cell(rng: random.Random, steps: int) -> Iterator[Moment]:
    """A cell that waits for a cluster or a database, and works for a minute now and then."""
    for step in range(steps):
        works = step % (50 * MINUTES) < 2
        yield _at_a_cell(rng, cpu=rng.uniform(20, 90) if works else rng.uniform(0.3, 3))


def terminal_job(rng: random.Random, steps: int) -> Iterator[Moment]:
    """A script in a terminal, with pauses in which it waits for something; the browser is closed."""
    while steps > 0:
        for length, low, high in ((rng.randint(1, 20), 20, 400), (rng.randint(1, 40), 0.3, 3)):
            for _ in range(min(steps, length * MINUTES)):
                steps -= 1
                job = Report(terminals=1, terminal_jobs=1)
                yield replace(_quiet(rng), cpu=rng.uniform(low, high), report=job)


def data_loading(rng: random.Random, steps: int) -> Iterator[Moment]:
    """Decoding for hours before the GPU gets anything to do."""
    for _ in range(steps):
        yield _at_a_cell(rng, cpu=rng.uniform(15, 600), network=rng.uniform(1e4, 5e7), gpu_memory=2 * GIB)


def phases(rng: random.Random, steps: int) -> Iterator[Moment]:
    """GPU for a while, then CPU alone for longer than any limit, then GPU again: as a background job of a kernel."""
    while steps > 0:
        for length, gpu in ((rng.randint(20, 60), True), (rng.randint(130, 200), False)):
            for _ in range(min(steps, length * MINUTES)):
                steps -= 1
                used = rng.uniform(40, 100) if gpu else 0.0
                moment = replace(_quiet(rng), cpu=rng.uniform(60, 110), gpu=used, gpu_memory=20 * GIB)
                yield replace(moment, report=Report(kernels=1))


def lossy_work(rng: random.Random, steps: int) -> Iterator[Moment]:
    """Training, while readings and reports are lost for some minutes, or for longer than the limit."""
    yield from _lossy(rng, long_cell(rng, steps))


def download(rng: random.Random, steps: int) -> Iterator[Moment]:
    """A large data set by a program in a terminal."""
    for _ in range(steps):
        job = Report(terminals=1, terminal_jobs=1)
        yield replace(_quiet(rng), cpu=rng.uniform(0.5, 4), network=rng.uniform(2e5, 5e7), report=job)


def person(rng: random.Random, steps: int) -> Iterator[Moment]:
    """Somebody at work who thinks, reads and has lunch between."""
    while steps > 0:
        for length, is_there in ((rng.randint(2, 40), True), (rng.randint(5, 50), False)):
            for _ in range(min(steps, length * MINUTES)):
                steps -= 1
                yield _used(rng) if is_there else replace(_quiet(rng), traffic=True)


def held_memory(rng: random.Random, steps: int) -> Iterator[Moment]:
    """A model lies in the GPU's memory, and nobody asks it anything."""
    for _ in range(steps):
        yield replace(_quiet(rng), gpu_memory=40 * GIB + rng.randint(0, 2**20), report=Report(kernels=1))


def forgotten_tab(rng: random.Random, steps: int) -> Iterator[Moment]:
    """An open tab: its sockets ping, and it asks for lists."""
    for _ in range(steps):
        tab = Report(kernels=1, sockets=3)
        yield replace(_quiet(rng), network=rng.uniform(500, 8000), report=tab, traffic=True)


def sleeping_loop(rng: random.Random, steps: int) -> Iterator[Moment]:
    """A cell that sleeps, to keep the server."""
    for _ in range(steps):
        yield _at_a_cell(rng, gpu_memory=10 * GIB)


def terminal_left_open(rng: random.Random, steps: int) -> Iterator[Moment]:
    """A shell at its prompt."""
    for _ in range(steps):
        yield replace(_quiet(rng), report=Report(terminals=1, sockets=1), traffic=True)


def top_left_open(rng: random.Random, steps: int) -> Iterator[Moment]:
    """`top`, in an open tab."""
    for _ in range(steps):
        top = Report(terminals=1, terminal_jobs=1, sockets=1)
        yield replace(_quiet(rng), network=rng.uniform(500, 5000), report=top, traffic=True)


def polling_widget(rng: random.Random, steps: int) -> Iterator[Moment]:
    """A widget that asks its kernel each second: messages, and no cell."""
    for _ in range(steps):
        widget = Report(kernels=1, sockets=1)
        yield Moment(rng.uniform(1, 4), rng.uniform(2e3, 3e4), gpu_memory=GIB, report=widget, traffic=True)


def lossy_idleness(rng: random.Random, steps: int) -> Iterator[Moment]:
    """Nobody is there, while readings and reports are lost now and then; in the end they come."""
    last = 3 * HOURS
    yield from _lossy(rng, held_memory(rng, steps - last))
    yield from held_memory(rng, last)


def _lossy(rng: random.Random, moments: Iterator[Moment]) -> Iterator[Moment]:
    left, lost = 0, (False, False)
    for moment in moments:
        if left == 0:
            lost = rng.choice([(False, False), (True, False), (False, True), (True, True)])
            left = rng.choice([3, 10, 30, 90]) * MINUTES
        left -= 1
        yield replace(moment, is_read=not lost[0], report=None if lost[1] else moment.report)


WORKING: dict[str, tuple[Kind, tuple[int, ...]]] = {  # with the hours that they go on
    "long cell, closed browser": (long_cell, (3, 6, 12)),
    "cell that mostly waits": (slow_cell, (3, 7)),
    "terminal job": (terminal_job, (3, 6, 12)),
    "data loading at 0 % GPU": (data_loading, (3, 12)),
    "CPU phase between GPU phases": (phases, (6, 12)),
    "lost samples while working": (lossy_work, (6, 12)),
    "download": (download, (3, 6)),
    "person at work": (person, (6, 12)),
}
IDLE: dict[str, tuple[Kind, tuple[int, ...]]] = {
    "held memory": (held_memory, (4, 8)),
    "forgotten tab": (forgotten_tab, (4, 60)),
    "sleeping loop": (sleeping_loop, (24, 60)),
    "abandoned terminal": (terminal_left_open, (4, 8)),
    "abandoned terminal with top": (top_left_open, (24, 60)),
    "polling widget": (polling_widget, (4, 8)),
    "lost samples, then idle": (lossy_idleness, (8, 12)),
}


def make_traces(seed: int) -> Iterator[Trace]:
    """Yield a trace of each kind, length and flavor."""
    for name, (_, lengths) in (WORKING | IDLE).items():
        for flavor in FLAVORS:
            for hours in lengths:
                yield make_trace(name, flavor, hours, seed=seed)


def make_trace(name: str, flavor: str, hours: int, *, seed: int = 0) -> Trace:
    """Return a trace of a kind that goes on for so long; an idle one is worked in before."""
    rng, is_working = random.Random(f"{seed} {name} {flavor} {hours}"), name in WORKING
    kind, _ = WORKING[name] if is_working else IDLE[name]
    before = [] if is_working else [_used(rng) for _ in range(rng.randint(20, 90) * MINUTES)]
    moments = (*before, *kind(rng, hours * HOURS))
    worked = len(moments if is_working else before) * STEP
    return Trace(f"{name}, {hours} h, {flavor}", flavor, is_working, moments, worked)


# Rules: each returns after how many seconds it stops the server; None is never


def stop_by_ours(trace: Trace) -> int | None:
    """As the watch looks at servers, and the culler stops them."""
    tracks: Tracks = {}
    decided: Stop | None = None
    for number, moment in enumerate(trace.moments):
        now = BEGIN + (number + 1) * STEP
        if moment.is_read:
            tracks = note_reading(tracks, _reading(trace.flavor, moment, now), POLICY.thresholds, STALE)
        if moment.report is not None:
            tracks = note_report(tracks, moment.report, now, STALE)
        look = Look(now=now, stale=STALE, has_gpu=trace.flavor != "cpu", zone=UTC, extension=Extension())
        decided = plan_idle_stop(judge(tracks, POLICY, look), POLICY, decided, now=now, zone=look.zone)
        if decided is not None and decided.at <= now:
            return now - BEGIN
    return None


def stop_by_stock(trace: Trace) -> int | None:
    """By time since `last_activity`; the library looks at half its limit, here at each moment."""
    last = 0
    for number, moment in enumerate(trace.moments):
        now = (number + 1) * STEP
        last = now if moment.traffic else last
        if now - last >= LIMIT:
            return now
    return None


def _reading(flavor: str, moment: Moment, now: int) -> Reading:
    """A MIG instance reports memory and no utilization."""
    return Reading(
        span=Period(now - STEP, now),
        cpu_percent=moment.cpu,
        network_rate=moment.network,
        gpu_percent=moment.gpu if flavor == "gpu" else None,
        gpu_memory=moment.gpu_memory if flavor != "cpu" else None,
    )


@dataclass(slots=True)
class Score:
    """How a rule did on traces."""

    caught: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    false_stops: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    idle_hours: list[float] = field(default_factory=list)  # that each idle server went on for

    def add(self, trace: Trace, stopped_after: int | None) -> None:
        """Count a trace."""
        was_stopped = stopped_after is not None
        if trace.is_working:
            (self.false_stops if was_stopped else self.kept).append(trace.name)
        else:
            (self.caught if was_stopped else self.missed).append(trace.name)
            ended = len(trace.moments) * STEP if stopped_after is None else stopped_after
            self.idle_hours.append((ended - trace.worked) / 3600)

    @property
    def precision(self) -> float:
        """The part of all stops that were of idle servers."""
        return len(self.caught) / (len(self.caught) + len(self.false_stops))

    @property
    def recall(self) -> float:
        """The part of idle servers that were stopped."""
        return len(self.caught) / (len(self.caught) + len(self.missed))


def score(rule: Callable[[Trace], int | None], seeds: range) -> Score:
    """Return how a rule does on all traces of some seeds."""
    found = Score()
    for seed in seeds:
        for trace in make_traces(seed):
            found.add(trace, rule(trace))
    return found
