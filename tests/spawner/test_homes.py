"""Homes: a login name that is used again does not open the files of the person before."""

import pytest
from sqlalchemy import text

from nbgpu.core.homes import OnDelete
from support.users import start


def mounted(site) -> str:
    """The home volume of the newest container."""
    (bind,) = site.docker.created[-1]["host_config"]["Binds"]
    return bind.partition(":")[0]


async def use_then_delete(site) -> str:
    """A person works and leaves; an admin deletes the account. Return their home."""
    user = site.users["stu-01"]
    await start(user, profile="cpu")
    home = mounted(site)
    await user.stop()
    await user.spawner.delete_forever()
    return home


@pytest.mark.case(5)
@pytest.mark.parametrize(
    ("on_delete", "same", "still_there"),
    [(OnDelete.ARCHIVE, False, True), (OnDelete.KEEP, True, True), (OnDelete.WIPE, False, False)],
)
async def test_the_next_person_of_a_name(site, on_delete, same, still_there):
    site.desk._on_delete = on_delete
    first = await use_then_delete(site)
    assert (first in site.docker.volumes) == still_there
    await start(site.users["stu-01"], profile="cpu")
    assert (mounted(site) == first) == same


async def test_an_archived_home_stays_so_when_our_database_is_lost(site):
    archived = [await use_then_delete(site) for _ in range(2)]
    await start(site.users["stu-01"], profile="cpu")
    own = mounted(site)
    await site.users["stu-01"].stop()
    forget_homes(site)
    await start(site.users["stu-01"], profile="cpu")
    assert mounted(site) == own, "the living find their own again"
    assert own not in archived
    assert set(archived) < set(site.docker.volumes)
    await site.users["stu-01"].stop()
    await start(site.users["stu-01"], profile="cpu")
    assert mounted(site) == own


def forget_homes(site) -> None:
    """Lose our database: of homes it is as new."""
    with site.leases._engine.begin() as connection:
        connection.execute(text("DELETE FROM homes"))


async def test_deleting_a_named_server_leaves_the_home(site):
    user = site.users["ann"]
    await start(user, "two", profile="cpu")
    home = mounted(site)
    spawner = user.spawners["two"]
    await user.stop("two")
    await spawner.delete_forever()
    await start(user, profile="cpu")
    assert mounted(site) == home


async def test_deleting_a_user_who_never_started_is_fine(site):
    await site.users["ann"].spawner.delete_forever()
    assert site.docker.volumes == {}
