"""Both databases are lost: each person finds their own files again, whatever the order in which they come back."""

import httpx
import pytest

from e2e.running import until

pytestmark = pytest.mark.docker
PEOPLE = ("l-ann", "l.bob@example.org", "l-cy")
FILE = "/home/nbgpu/mine.txt"


def lose_databases(site):
    """Stop the hub, delete its database and ours, and start it again."""
    site.stop()
    site.forget_connections()
    for database in ("nbgpu.sqlite", "jupyterhub.sqlite"):
        for file in site.data.glob(f"{database}*"):
            file.unlink()
    site.start()


@pytest.mark.case(1)
@pytest.mark.case(4)
def test_homes_outlive_both_databases(site):
    for user in PEOPLE:
        site.add_user(user)
        site.started(user, profile="cpu")
        assert site.run_in(user, "sh", "-c", f"echo {user} > {FILE}") == (0, "")
    site.stop_all()
    lose_databases(site)
    for user in reversed(PEOPLE):
        with site.logged_in(user) as session:  # a login, not an admin, makes the user again
            assert session.get("/home").status_code == httpx.codes.OK
        site.started(user, profile="cpu")
        assert site.run_in(user, "cat", FILE) == (0, f"{user}\n")


def test_servers_that_ran_through_the_loss_are_ended_and_give_all_back(site):
    """Nobody has them any more: their tokens went with the hub's database, and so did the users."""
    site.add_user("l-ran")
    site.started("l-ran", profile="a100")
    lose_databases(site)
    until(lambda: site.containers() == [], seconds=90, why="a container that nobody has goes on")
    assert site.leases() == ()
    site.add_user("l-next")
    site.started("l-next", profile="a100x2")
