"""Usage in the database: replaced by its own run, beside other runs', summed without overflow, kept as hours."""

from datetime import UTC, datetime, timedelta

import pytest

from nbgpu.core.flavors import FlavorKind
from nbgpu.core.gpu_health import DeviceHealth, Fault, FaultKind, Quarantine
from nbgpu.core.leases import ServerRef
from nbgpu.core.usage import HOUR, MINUTE, SERVER, Metered, Usage, UsageEntry
from nbgpu.store.quarantine import SqlQuarantines
from nbgpu.store.usage import SqlUsage

NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
GIB = 2**30


@pytest.fixture
def usage(engine) -> SqlUsage:
    return SqlUsage(engine)


@pytest.fixture
def lease(store, choose, devices):
    """Return what starts a session on a GPU."""

    def make(user: str = "ann", *, kind: FlavorKind = FlavorKind.GPU, **fields: object):
        made = store.acquire(ServerRef(user), choose(kind, **fields), "sha256:1", devices)
        store.activate(made.session_id, NOON)
        return made

    return make


def device_usage(ms: int = 60_000, busy: int | None = 30_000) -> Usage:
    return Usage(sampled_ms=ms, busy_ms=busy, gpu_memory_peak=4 * GIB, gpu_memory_byte_ms=ms * 3 * GIB)


def write(usage: SqlUsage, run: str, metered: Metered, at: datetime, value: Usage, span: timedelta = HOUR) -> None:
    usage.write({span: [UsageEntry(metered, at, value, run)]}, {})


def test_a_write_that_is_repeated_changes_nothing_and_a_newer_one_replaces_it(usage, lease):
    metered = Metered(lease().session_id, "GPU-0")
    for value in (device_usage(10_000, 5_000), device_usage(), device_usage()):
        write(usage, "run-1", metered, NOON, value)
    assert usage.of_session(metered.session_id) == {"GPU-0": device_usage()}


def test_a_restarted_sampler_adds_to_the_same_minute(usage, lease):
    metered = Metered(lease().session_id, "GPU-0")
    write(usage, "run-1", metered, NOON, device_usage(20_000, 1_000))
    write(usage, "run-2", metered, NOON, device_usage(30_000, 2_000))
    total = usage.of_session(metered.session_id)["GPU-0"]
    assert (total.sampled_ms, total.busy_ms, total.gpu_memory_peak) == (50_000, 3_000, 4 * GIB)
    assert total.gpu_memory_mean == 3 * GIB


@pytest.mark.case(22)
@pytest.mark.case(23)
def test_what_is_not_reported_is_null_and_skipped_by_sums(usage, lease):
    metered = Metered(lease().session_id, "GPU-0")
    write(usage, "run", metered, NOON, Usage(sampled_ms=60_000))
    total = usage.of_session(metered.session_id)["GPU-0"]
    assert total == Usage(sampled_ms=60_000)
    write(usage, "run", metered, NOON + HOUR, device_usage())
    assert usage.of_session(metered.session_id)["GPU-0"].busy_ms == 30_000


def test_totals_are_by_user_and_flavor_of_the_hours_in_a_period(usage, lease):
    sessions = {user: lease(user).session_id for user in ("ann", "bob")}
    for user, hour in (("ann", 0), ("ann", 1), ("bob", 1), ("bob", 2)):
        session = sessions[user]
        write(usage, "run", Metered(session, "GPU-0"), NOON + hour * HOUR, device_usage())
        server = Usage(sampled_ms=60_000, cpu_ms=7, ram_byte_ms=60_000 * GIB, network_bytes=9)
        write(usage, "run", Metered(session, SERVER), NOON + hour * HOUR, server)
    found = usage.totals(NOON + HOUR, NOON + 2 * HOUR)
    assert {key: value.sampled_ms for key, value in found.items()} == {
        ("ann", "gpu", True): 60_000,
        ("ann", "gpu", False): 60_000,
        ("bob", "gpu", True): 60_000,
        ("bob", "gpu", False): 60_000,
    }
    assert (found["ann", "gpu", False].cpu_ms, found["ann", "gpu", False].network_bytes) == (7, 9)
    assert found["ann", "gpu", False].busy_ms is None
    assert usage.totals(NOON + 9 * HOUR, NOON + 10 * HOUR) == {}


def test_sums_of_a_whole_site_fit(usage, lease):
    """A thousand users' months of 80 GiB each in byte-seconds would not fit into 64 bits."""
    metered = Metered(lease().session_id, "GPU-0")
    month = 720 * 3_600_000
    for number in range(20):
        write(usage, f"run-{number}", metered, NOON, Usage(sampled_ms=month, gpu_memory_byte_ms=50 * month * 80 * GIB))
    assert usage.of_session(metered.session_id)["GPU-0"].gpu_memory_byte_ms == 1000 * month * 80 * GIB


def test_old_minutes_go_and_hours_stay(usage, lease):
    metered = Metered(lease().session_id, "GPU-0")
    for number in range(5):
        write(usage, "run", metered, NOON + number * MINUTE, device_usage(), span=MINUTE)
    write(usage, "run", metered, NOON, device_usage(300_000))
    assert usage.forget_minutes(NOON + 3 * MINUTE, at_once=2) == 2
    assert usage.forget_minutes(NOON + 3 * MINUTE, at_once=2) == 1
    assert usage.forget_minutes(NOON + 3 * MINUTE, at_once=2) == 0
    left = usage.minutes(metered.session_id, NOON, NOON + HOUR)
    assert [entry.starts_at for entry in left] == [NOON + 3 * MINUTE, NOON + 4 * MINUTE]
    assert usage.of_session(metered.session_id)["GPU-0"].sampled_ms == 300_000


def test_holdings_are_of_active_sessions_and_name_shared_devices(usage, lease, store, choose, devices):
    whole, cpu = lease("ann"), lease("bob", kind=FlavorKind.CPU, gpus=0)
    shared = lease("cat", kind=FlavorKind.SHARED, slots=4)
    store.acquire(ServerRef("dan"), choose(), "sha256:1", devices)  # still starting
    ended = lease("eve", kind=FlavorKind.CPU, gpus=0)
    store.release(ended.session_id, "stopped")
    (of_whole,), (of_shared,) = whole.allocation.device_uuids, shared.allocation.device_uuids
    assert {(each.metered, each.shared) for each in usage.holdings()} == {
        (Metered(whole.session_id), False),
        (Metered(whole.session_id, of_whole), False),
        (Metered(cpu.session_id), False),
        (Metered(shared.session_id), False),
        (Metered(shared.session_id, of_shared), True),
    }
    assert {each.active_at for each in usage.holdings()} == {NOON}


def test_marks_are_kept(usage):
    usage.write({}, {"GPU-0": DeviceHealth(NOON, ecc_uncorrected=3), "GPU-1": DeviceHealth()})
    usage.write({}, {"GPU-0": DeviceHealth(NOON + MINUTE, ecc_uncorrected=4)})
    assert usage.marks() == {
        "GPU-0": DeviceHealth(NOON + MINUTE, ecc_uncorrected=4),
        "GPU-1": DeviceHealth(),
    }


LOST = Fault(FaultKind.LOST, "This GPU is lost.")


def lost_at(engine, session_id: str) -> list[datetime | None]:
    from sqlalchemy import select

    from nbgpu.store.schema import LeaseRow
    from nbgpu.store.work import unit_of_work

    with unit_of_work(engine, reads_only=True) as db:
        rows = db.scalars(select(LeaseRow).where(LeaseRow.session_id == session_id).order_by(LeaseRow.position))
        return [row.lost_at for row in rows]


def test_a_lost_device_is_quarantined_once_and_lost_to_its_sessions_since_its_last_good_sample(engine, lease, usage):
    quarantines = SqlQuarantines(engine)
    session, other = lease(gpus=2), lease("bob")
    first, second = session.allocation.device_uuids
    good = NOON + MINUTE
    assert quarantines.put(Quarantine(first, good + MINUTE, LOST, last_good_at=good))
    assert not quarantines.put(Quarantine(first, good + 2 * MINUTE, LOST, last_good_at=good + MINUTE))
    assert lost_at(engine, session.session_id) == [good, None], "the first word holds; the other device goes on"
    assert lost_at(engine, other.session_id) == [None]
    assert quarantines.open() == {first: Quarantine(first, good + MINUTE, LOST, last_good_at=good)}
    assert quarantines.lost_devices() == {first}
    held = {each.metered.device_uuid for each in usage.holdings() if each.metered.session_id == session.session_id}
    assert held == {SERVER, second}


def test_a_device_that_comes_back_stays_lost_to_the_session_that_had_it(engine, lease, store):
    quarantines = SqlQuarantines(engine)
    session = lease()
    (uuid,) = session.allocation.device_uuids
    quarantines.put(Quarantine(uuid, NOON + MINUTE, LOST, last_good_at=NOON))
    assert quarantines.give_back(uuid, at=NOON + HOUR, by="admin")
    assert not quarantines.give_back(uuid, at=NOON + HOUR, by="admin")
    assert lost_at(engine, session.session_id) == [NOON]
    assert quarantines.open() == {}
    (ended,) = quarantines.latest()
    assert (ended.returned_at, ended.returned_by) == (NOON + HOUR, "admin")
    store.release(session.session_id, "stopped")
    assert quarantines.lost_devices() == frozenset()
    assert quarantines.put(Quarantine(uuid, NOON + 2 * HOUR, LOST)), "a device can fail again"


def test_a_device_never_seen_well_was_lost_from_the_begin_of_the_session(engine, lease):
    quarantines = SqlQuarantines(engine)
    session = lease()
    (uuid,) = session.allocation.device_uuids
    quarantines.put(Quarantine(uuid, NOON + MINUTE, LOST, last_good_at=NOON - HOUR))
    assert lost_at(engine, session.session_id) == [NOON]


def test_a_device_that_one_container_lost_is_lost_to_that_session_alone(engine, lease):
    quarantines = SqlQuarantines(engine)
    one, other = (lease(user, kind=FlavorKind.SHARED, slots=4) for user in ("ann", "bob"))
    assert one.allocation.device_uuids == other.allocation.device_uuids
    fault = Fault(FaultKind.CONTAINER, "The container lost it.")
    (uuid,) = one.allocation.device_uuids
    quarantines.put(Quarantine(uuid, NOON + MINUTE, fault, last_good_at=NOON + MINUTE), one.session_id)
    quarantines.put(Quarantine(uuid, NOON + MINUTE, fault, last_good_at=NOON + 2 * MINUTE), other.session_id)
    assert lost_at(engine, one.session_id) == [NOON + MINUTE]
    assert lost_at(engine, other.session_id) == [NOON + 2 * MINUTE], "though the device was in quarantine by then"


CORDON = Fault(FaultKind.CORDON, "root has taken it out of service.")


def test_a_device_out_of_service_is_lost_to_nobody(engine, lease):
    quarantines = SqlQuarantines(engine)
    session = lease()
    (uuid,) = session.allocation.device_uuids
    assert quarantines.put(Quarantine(uuid, NOON, CORDON))
    assert not quarantines.put(Quarantine(uuid, NOON, Fault(FaultKind.CORDON, "Another says so, too.")))
    assert lost_at(engine, session.session_id) == [None]


@pytest.mark.parametrize(("first", "second"), [(CORDON, LOST), (LOST, CORDON)])
def test_a_fault_and_a_cordon_together_stay_a_cordon_and_lose_the_device(engine, lease, first, second):
    quarantines = SqlQuarantines(engine)
    session = lease()
    (uuid,) = session.allocation.device_uuids
    for number, fault in enumerate((first, second)):
        assert quarantines.put(Quarantine(uuid, NOON + number * HOUR, fault, last_good_at=NOON))
        assert not quarantines.put(Quarantine(uuid, NOON + 2 * HOUR, fault, last_good_at=NOON))
    assert quarantines.open()[uuid].fault == Fault(FaultKind.CORDON, f"{first.cause} And: {second.cause}")
    assert lost_at(engine, session.session_id) == [NOON]
    noticed = NOON + (first, second).index(LOST) * HOUR
    assert [each.noticed_at for each in quarantines.losses()] == [noticed], "its person is told when it is lost"
