"""Leases: never two on a slot, whoever asks at the same time; idempotent ends."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from nbgpu.core.errors import NoCapacity, StoreError
from nbgpu.core.flavors import FlavorKind
from nbgpu.core.leases import LeaseState, ServerRef
from nbgpu.store import SqlLeaseStore, open_database

ANN, BOB = ServerRef("ann"), ServerRef("bob")
IMAGE = "sha256:1"


def test_a_lease_is_pending_until_its_container_runs(store, devices, choose):
    lease = store.acquire(ANN, choose(), IMAGE, devices)
    assert (lease.state, lease.price_per_hour, lease.image_id) == (LeaseState.PENDING, 600_000, IMAGE)
    started_at = datetime(2026, 3, 29, 2, 30, tzinfo=timezone(timedelta(hours=2)))
    store.activate(lease.session_id, started_at)
    (found,) = store.open_leases()
    assert (found.state, found.active_at) == (LeaseState.ACTIVE, started_at)
    assert found.active_at.utcoffset() == timedelta(0)
    assert found.allocation == lease.allocation


def test_release_gives_the_device_to_the_next_and_counts_once(store, devices, choose):
    one = devices[:1]
    lease = store.acquire(ANN, choose(), IMAGE, one)
    with pytest.raises(NoCapacity, match="No “A flavor” is free now"):
        store.acquire(BOB, choose(), IMAGE, one)
    assert store.release(lease.session_id, "stopped") is True
    assert store.release(lease.session_id, "stopped") is False
    assert store.acquire(BOB, choose(), IMAGE, one).allocation == lease.allocation


def test_a_device_that_was_dropped_is_no_part_of_what_the_session_ended_with(store, devices, choose, engine):
    lease = store.acquire(ANN, choose(gpus=2), IMAGE, devices)
    gone, kept = lease.allocation.device_uuids
    assert store.drop_device(lease.session_id, gone) is True
    with engine.connect() as connection:
        dropped = connection.execute(text("SELECT device_uuid, released_at FROM leases ORDER BY position")).all()
    store.release(lease.session_id, "stopped")
    assert store.find_newest(ANN).allocation.device_uuids == (kept,)
    with engine.connect() as connection:
        after = connection.execute(text("SELECT device_uuid, released_at FROM leases ORDER BY position")).all()
    assert after[0] == dropped[0], "it keeps the time at which it was dropped"


def test_a_refused_start_leaves_no_row(store, choose, engine):
    with pytest.raises(NoCapacity):
        store.acquire(ANN, choose(), IMAGE, ())
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT count(*) FROM sessions")) == 0


def test_a_server_has_one_session_at_a_time(store, devices, choose):
    store.acquire(ANN, choose(), IMAGE, devices)
    with pytest.raises(StoreError, match="ann has a session that is not ended"):
        store.acquire(ANN, choose(), IMAGE, devices)
    store.acquire(ServerRef("ann", "two"), choose(), IMAGE, devices)
    assert len(store.open_leases()) == 2


def test_a_servers_open_lease_is_found(store, devices, choose):
    lease = store.acquire(ANN, choose(gpus=2), IMAGE, devices)
    store.acquire(BOB, choose(), IMAGE, devices)
    assert store.find_server(ANN) == lease
    assert store.held_devices() == {"GPU-0", "GPU-1", "GPU-2"}
    store.release(lease.session_id, "stopped")
    assert store.find_server(ANN) is None
    assert store.held_devices() == {"GPU-2"}


def test_activating_an_ended_session_does_not_open_it_again(store, devices, choose):
    lease = store.acquire(ANN, choose(), IMAGE, devices)
    store.release(lease.session_id, "cancelled")
    store.activate(lease.session_id, datetime.now(UTC))
    assert store.open_leases() == ()


def test_a_session_that_was_told_to_end_is_not_made_active_again(store, devices, choose):
    lease = store.acquire(ANN, choose(), IMAGE, devices)
    store.mark_ending(lease.session_id)
    store.activate(lease.session_id, datetime.now(UTC))
    assert store.open_leases()[0].state is LeaseState.ENDING


def test_a_limit_on_servers_holds_also_without_devices(store, choose):
    choice = choose(FlavorKind.CPU, gpus=0, max_servers=2)
    store.acquire(ANN, choice, IMAGE, ())
    store.acquire(BOB, choice, IMAGE, ())
    with pytest.raises(NoCapacity, match="All 2 servers"):
        store.acquire(ServerRef("cy"), choice, IMAGE, ())


def test_user_text_is_stored_as_it_is(store, choose):
    server = ServerRef("o'brien; DROP TABLE sessions --", "ünï")
    store.acquire(server, choose(FlavorKind.CPU, gpus=0), IMAGE, ())
    assert store.open_leases()[0].server == server


def test_a_long_reason_is_cut(store, devices, choose, engine):
    lease = store.acquire(ANN, choose(), IMAGE, devices)
    store.release(lease.session_id, "x" * 10_000)
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT length(release_reason) FROM sessions")) == 255


def test_the_index_refuses_what_a_faulty_allocation_would_grant(store, devices, choose, engine):
    store.acquire(ANN, choose(), IMAGE, devices)
    lease = store.acquire(BOB, choose(), IMAGE, devices)
    with pytest.raises(IntegrityError), engine.begin() as connection:
        connection.execute(
            text("UPDATE leases SET device_uuid = 'GPU-0' WHERE session_id = :id"), {"id": lease.session_id}
        )


@pytest.mark.case(28)
@pytest.mark.parametrize("kind", [FlavorKind.GPU, FlavorKind.SHARED])
def test_fifty_who_ask_at_once_get_each_slot_once(database_url, devices, choose, kind):
    slots = 3 if kind is FlavorKind.SHARED else 1
    choice = choose(kind, slots=slots)
    engine = open_database(database_url)
    store = SqlLeaseStore(engine)
    barrier = threading.Barrier(50)

    def ask(number: int) -> object:
        barrier.wait()
        try:
            return store.acquire(ServerRef(f"user-{number}"), choice, IMAGE, devices)
        except NoCapacity:
            return None

    with ThreadPoolExecutor(50) as pool:
        got = [lease for lease in pool.map(ask, range(50)) if lease is not None]
    held = [slot for lease in got for slot in lease.allocation.slots]
    assert len(held) == len(set(held)) == len(devices) * slots
    engine.dispose()
