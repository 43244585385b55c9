"""The hub's lock: one hub a database, also when PostgreSQL restarts or cuts the connection that held it."""

import asyncio

import pytest
from sqlalchemy import text

from nbgpu.core.errors import DatabaseTaken, StoreError
from nbgpu.store import SqlAuditLog, hold_hub_lock, open_database
from nbgpu.wiring.keep_lock import keep_lock
from support.postgresql import running_server


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A PostgreSQL that tests may restart."""
    with running_server(tmp_path_factory.mktemp("run")) as server:
        yield server


@pytest.fixture
def open_(server):
    """Return a function that opens one database, each time with connections of its own."""
    url, engines = server.make(), []

    def open_():
        engines.append(open_database(url))
        return engines[-1]

    yield open_
    for engine in engines:
        engine.dispose()


@pytest.fixture
def lock(open_):
    return hold_hub_lock(open_())


def test_a_restart_of_postgresql_loses_the_lock_and_it_is_taken_again(server, open_, lock):
    lock.ensure()
    server.restart()
    lock.ensure()
    with pytest.raises(DatabaseTaken, match="Another hub uses the database"):
        hold_hub_lock(open_())
    lock.give_back()
    hold_hub_lock(open_()).give_back()


def test_where_another_hub_was_faster_this_one_is_told(server, open_, lock):
    server.restart()
    other = hold_hub_lock(open_())
    with pytest.raises(DatabaseTaken, match="Another hub uses the database"):
        lock.ensure()
    other.give_back()
    lock.ensure()
    lock.give_back()


def test_a_server_that_does_not_answer_has_not_given_the_lock_to_another(server, open_, lock):
    with server.stopped(), pytest.raises(StoreError, match="does not answer") as told:
        lock.ensure()
    assert not isinstance(told.value, DatabaseTaken)
    lock.ensure()
    lock.give_back()


def test_a_connection_of_ours_that_the_server_still_has_is_ended(open_, lock):
    """The network broke: we have lost the connection, and the server does not know it yet."""
    lock._connection.connection.driver_connection.pgconn.finish()
    lock.ensure()
    lock.give_back()


async def test_a_hub_whose_database_another_has_ends_with_a_sentence(capsys):
    looks = iter([None, StoreError("away"), None, DatabaseTaken("Another hub uses the database.")])
    ended = asyncio.Event()

    class Lock:
        def ensure(self):
            found = next(looks)
            if found is not None:
                raise found

        def give_back(self):
            raise AssertionError

    await asyncio.wait_for(keep_lock(Lock(), period=0, end=ended.set), 5)
    assert ended.is_set()
    assert capsys.readouterr().err == "[C nbgpu] This hub ends: Another hub uses the database.\n"


def test_idle_connections_that_a_restart_has_cut_are_not_noticed(server, open_):
    audit = SqlAuditLog(open_())
    audit.record(actor="a", action="b", subject="before", detail="")
    server.restart()
    audit.record(actor="a", action="b", subject="after", detail="")
    assert [row.subject for row in audit.latest()] == ["after", "before"]


@pytest.mark.parametrize("moment", ["in the middle", "in the commit"])
def test_work_whose_connection_broke_is_done_again_unless_it_may_be_done_already(server, open_, moment):
    """What broke before the commit is done again, once; what broke in the commit itself is not, and is told."""
    from sqlalchemy import event

    engine, other = open_(), open_()
    audit, cut = SqlAuditLog(engine), []

    def cut_once(connection, *_):
        if not cut:
            cut.append(connection.connection.driver_connection.info.backend_pid)
            with other.connect() as their:
                their.execute(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": cut[0]})

    event.listen(engine, "before_cursor_execute" if moment == "in the middle" else "commit", cut_once)
    if moment == "in the middle":
        audit.record(actor="a", action="b", subject="once", detail="")
    else:
        with pytest.raises(StoreError, match="cut the connection|does not answer"):
            audit.record(actor="a", action="b", subject="never", detail="")
    assert len(cut) == 1
    assert [row.subject for row in SqlAuditLog(other).latest()] == (["once"] if moment == "in the middle" else [])
