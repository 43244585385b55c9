"""A hub whose PostgreSQL goes away, and one whose SQLite is restored from a backup: notebooks go on."""

from pathlib import Path

import httpx
import pytest

from e2e.running import Deployment, agree, deployed, running
from nbgpu.store import open_database
from support.postgresql import PostgresqlServer, running_server

pytestmark = pytest.mark.docker
ROOT = Path(__file__).parents[2]


class OnPostgresql(Deployment):
    """A deployment whose database is on a server."""

    def __init__(self, data: Path, settings: Path, url: str) -> None:
        super().__init__(data, settings)
        self._url = url

    def leases(self):
        if self._database is None:
            self._database = open_database(self._url)
        return super().leases()

    def command(self, *arguments: str) -> str:
        ours = () if arguments[0] == "purge" else ("--config", str(self.settings))
        return super().command(*arguments, *ours)


@pytest.fixture
def server(tmp_path_factory):
    with running_server(tmp_path_factory.mktemp("run")) as server:
        yield server


@pytest.mark.case(16)
def test_while_postgresql_is_away_notebooks_go_on_and_starts_are_refused_in_a_sentence(
    tmp_path, server: PostgresqlServer
):
    url = server.make()
    settings = tmp_path / "nbgpu.toml"
    settings.write_text(f'[database]\nurl = "{url}"\n\n' + (ROOT / "nbgpu.toml").read_text())
    with running(OnPostgresql(tmp_path / "data", settings, url)) as hub:
        for user in ("p-ann", "p-bob"):
            hub.add_user(user)
        hub.started("p-ann", profile="a100")
        with server.stopped():
            for flavor in ("a100", "cpu"):
                refused = hub.start_server("p-bob", profile=flavor)
                assert refused.status_code == httpx.codes.SERVICE_UNAVAILABLE
                assert "does not answer" in refused.json()["message"]
                assert "Traceback" not in refused.text
            assert hub.notebook("p-ann", "api").status_code == httpx.codes.OK
            assert [each.status for each in hub.containers()] == ["running"]
        hub.started("p-bob", profile="cpu")
        assert {lease.server.username for lease in hub.leases()} == {"p-ann", "p-bob"}
        assert '"log"' not in hub.command("db", "check", "--json")
        hub.stop_all()


def test_a_backup_is_restored_beneath_notebooks_that_run(tmp_path):
    settings = tmp_path / "nbgpu.toml"
    settings.write_text((ROOT / "nbgpu.toml").read_text())
    with deployed(tmp_path / "data", settings) as hub:
        for user in ("r-ann", "r-bob"):
            hub.add_user(user)
        hub.started("r-ann", profile="a100")
        backup = str(tmp_path / "backup.sqlite")
        assert "verified" in hub.command("db", "backup", backup)
        hub.started("r-bob", profile="cpu")
        hub.stop()
        hub.forget_connections()
        assert "Restored" in hub.command("db", "restore", backup)
        hub.start()
        # The restored database knows nothing of bob's server, which goes on all the same, without a charge.
        assert [lease.server.username for lease in hub.leases()] == ["r-ann"]
        for user in ("r-ann", "r-bob"):
            assert hub.notebook(user, "api").status_code == httpx.codes.OK
        assert "database.restore" in hub.command("audit", "--json")
        hub.stop_server("r-bob")
        hub.started("r-bob", profile="cpu")
        agree(hub)
        hub.stop_all()
