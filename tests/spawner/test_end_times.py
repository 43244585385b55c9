"""When a session ended is the engine's own word, also where the hub learns of the end late."""

import asyncio
from datetime import UTC, datetime

import pytest
import requests
from sqlalchemy import text

from nbgpu.core.errors import StoreError
from nbgpu.spawner.docker_calls import finished_at
from support.fake_docker import answer
from support.site import until
from support.users import cancel, start


def kept_end(site) -> datetime | None:
    """The end that the database keeps of the only session."""
    kept, _ = kept_facts(site)
    return datetime.fromisoformat(kept).replace(tzinfo=UTC) if kept is not None else None


def kept_facts(site) -> tuple[str | None, bool]:
    """The end of the only session, and whether it is billable."""
    with site.leases._engine.connect() as connection:
        ((ended_at, billable),) = connection.execute(text("SELECT ended_at, billable FROM sessions")).all()
    return ended_at, bool(billable)


def runs(site) -> bool:
    return any(each["State"]["Running"] for each in site.docker.by_id.values())


@pytest.mark.parametrize("now", [False, True])
async def test_a_stop_keeps_the_containers_own_end(site, now):
    before = datetime.now(UTC)
    await start(site.users["ann"], profile="one")
    site.docker.before = lambda method: ended.append(datetime.now(UTC)) if method == "remove_container" else None
    ended: list[datetime] = []
    await site.users["ann"].spawner.stop(now=now)
    assert before < kept_end(site) <= ended[0], "the end is the program's, not the removal's"
    assert kept_facts(site)[1], "it was ready"


async def test_a_server_that_died_ended_when_it_died_not_when_it_was_found(site):
    ann = site.users["ann"]
    await start(ann, profile="one")
    container = next(iter(site.docker.by_id.values()))
    site.docker.end(container["Id"], exit_code=1)
    container["State"]["FinishedAt"] = "2026-03-04T05:06:07.890123456Z"
    assert await ann.spawner.poll() is not None
    assert kept_end(site) == datetime(2026, 3, 4, 5, 6, 7, 890123, tzinfo=UTC)


async def test_a_cancelled_start_keeps_the_end_of_what_it_started(site):
    site.docker.serve = False
    ann = site.users["ann"]
    work = asyncio.ensure_future(start(ann, profile="one"))
    await until(lambda: runs(site))
    await cancel(ann, work)
    ended_at, billable = kept_facts(site)
    assert ended_at is not None
    assert not billable, "it never became ready"


async def test_what_never_ran_has_no_end(site):
    def fail(method: str) -> None:
        if method == "start":
            raise answer(500, "no such device")

    site.docker.before = fail
    with pytest.raises(Exception, match="no such device"):
        await start(site.users["ann"], profile="one")
    assert kept_end(site) is None


async def test_where_the_container_is_gone_nobody_knows_the_end(site):
    ann = site.users["ann"]
    await start(ann, profile="one")
    site.docker.remove_container("nbgpu-test00-ann", force=True)
    await ann.spawner.stop()
    assert kept_end(site) is None


async def test_one_that_docker_does_not_stop_ended_with_its_removal_by_force(site):
    def fail(method: str) -> None:
        if method == "stop":
            raise requests.ReadTimeout("slow")

    await start(site.users["ann"], profile="one")
    site.docker.before = fail
    before = datetime.now(UTC)
    await site.users["ann"].spawner.stop()
    assert kept_end(site) >= before


async def test_the_end_is_kept_until_the_database_takes_it(site, monkeypatch):
    ann = site.users["ann"]
    await start(ann, profile="one")
    with monkeypatch.context() as patch:
        patch.setattr(site.desk, "release", refuse)
        with pytest.raises(StoreError, match="locked"):
            await ann.spawner.stop()
    ended = datetime.now(UTC)
    await ann.spawner.stop()
    assert kept_end(site) <= ended


def refuse(*_args: object, **_more: object) -> None:
    raise StoreError("locked")


async def test_what_an_earlier_life_left_keeps_its_end(site):
    ann = site.users["ann"]
    await start(ann, profile="one")
    session = ann.spawner.session_id
    ann.spawner.clear_state()
    ann.spawners.pop("")
    await start(ann, profile="cpu")
    with site.leases._engine.connect() as connection:
        ends = dict(connection.execute(text("SELECT session_id, ended_at FROM sessions")).all())
    assert ends[session] is not None
    assert ends[ann.spawner.session_id] is None


@pytest.mark.parametrize(
    ("running", "written", "end"),
    [
        (True, "2026-03-04T05:06:07Z", None),  # of an earlier run
        (False, "0001-01-01T00:00:00Z", None),
        (False, "", None),
        (False, None, None),
        (False, "2026-03-04T05:06:07.123456789Z", datetime(2026, 3, 4, 5, 6, 7, 123456, tzinfo=UTC)),
        (False, "2026-03-04T06:06:07+01:00", datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)),
    ],
)
def test_dockers_time_of_the_end(running, written, end):
    assert finished_at({"Running": running, "FinishedAt": written}) == end
