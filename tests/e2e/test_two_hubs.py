"""Two deployments on one machine know nothing of each other."""

import docker
import pytest

from e2e.running import deployed

pytestmark = pytest.mark.docker


def test_down_and_purge_of_one_leave_the_other_alone(hub, settings, tmp_path):
    with deployed(tmp_path / "other", settings) as other:
        assert other.prefix != hub.prefix
        for each in (hub, other):
            each.add_user("twin")
        hub.started("twin", profile="a100")
        other.started("twin", profile="a100")
        mine, theirs = hub.container("twin"), other.container("twin")
        assert mine.name != theirs.name
        assert set(mine.attrs["NetworkSettings"]["Networks"]) == {f"{hub.prefix}-net"}
        assert set(theirs.attrs["NetworkSettings"]["Networks"]) == {f"{other.prefix}-net"}
        assert set(hub.in_docker()).isdisjoint(other.in_docker())

        other.command("down")
        other.process.wait(20)
        assert other.in_docker() == [f"{other.prefix}-home-twin"]  # homes stay
        assert other.leases() == ()
        with pytest.raises(docker.errors.NotFound, match="No such container"):
            theirs.reload()
        mine.reload()
        assert mine.attrs["State"]["Running"]
        assert hub.notebook("twin", "api/status").status_code == 200
        assert hub.lease("twin") is not None
