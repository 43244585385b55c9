"""Which engine a deployment gets, from what the settings say, what the machine has and what was chosen before."""

import os

import pytest

from machine.conftest import FakeHost, fails
from nbgpu.core.errors import EngineUnavailable, SettingsError, SetupError
from nbgpu.machine import engine_choice, steps
from nbgpu.machine.engine_choice import ensure_engine_of
from nbgpu.machine.teardown import purge
from nbgpu.settings import Settings
from nbgpu.spawner.local_sessions import DEPLOYMENT_VARIABLE, SERVER_VARIABLE, SESSION_VARIABLE
from nbgpu.wiring.deployment import open_deployment
from nbgpu.wiring.local import engine_of, ensure_hub_port, hub_port, open_sessions, record_engine, recorded_engine

NOWHERE = {"DOCKER_HOST": "unix:///nonexistent"}
FLAVOR = {"slug": "cpu", "display_name": "CPU", "kind": "cpu", "cpus": 1, "memory": "1 GiB", "images": ["base"]}


def settings(kind: str, address: str = "127.0.0.1") -> Settings:
    return Settings.model_validate({"engine": {"kind": kind}, "hub": {"address": address}, "flavor": [FLAVOR]})


@pytest.fixture
def deployment(tmp_path):
    return open_deployment(tmp_path / "data")


@pytest.fixture
def ran(monkeypatch) -> list[list[str]]:
    """The titles of the steps of each set-up; nothing is installed, the engine's step alone is real."""
    done: list[list[str]] = []

    def set_up(table, **_):
        done.append([step.title for step in table])
        for step in table:
            if step.title == "Docker engine":
                step.ensure(lambda _: None)

    monkeypatch.setattr(engine_choice, "set_up", set_up)
    return done


def choose(deployment, kind: str, host: FakeHost, address: str = "127.0.0.1") -> tuple[str, str]:
    """Return the engine and what was said."""
    said: list[str] = []
    return ensure_engine_of(deployment, settings(kind, address), host, said.append), "\n".join(said)


def test_auto_without_root_and_engine_is_local_and_says_why(deployment, ran):
    kind, said = choose(deployment, "auto", FakeHost(environ=NOWHERE, root=False))
    assert (kind, recorded_engine(deployment)) == ("local", "local")
    assert "No Docker engine can be had" in said
    assert "nothing answers there" in said
    assert ran == [["Tools", "Proxy", "Notebooks"]]


def test_auto_where_the_engine_will_not_start_is_local(deployment, ran, monkeypatch):
    """As root in a container that is locked down: it can be installed, and does not come up."""
    monkeypatch.setattr(engine_choice.engine, "blockers", lambda host: [])

    def ensure(host, report):
        raise SetupError("dockerd ended with status 1")

    monkeypatch.setattr(steps.engine, "ensure_engine", ensure)
    kind, said = choose(deployment, "auto", FakeHost())
    assert kind == "local"
    assert "dockerd ended with status 1" in said
    assert [titles[1] for titles in ran] == ["Docker engine", "Proxy"]


def test_a_first_start_that_fails_can_be_purged_without_docker(deployment, monkeypatch):
    monkeypatch.setattr(engine_choice, "set_up", lambda table: fails("no compiler")())
    with pytest.raises(SetupError, match="no compiler"):
        choose(deployment, "auto", FakeHost(environ=NOWHERE, root=False))
    monkeypatch.setenv(*next(iter(NOWHERE.items())))
    purge(deployment, lambda _: None)
    assert not deployment.data.exists()


def test_auto_does_not_hide_what_else_fails(deployment, monkeypatch):
    """Only a missing engine means processes; a mirror that is down is told."""
    monkeypatch.setattr(engine_choice.engine, "blockers", lambda host: [])
    monkeypatch.setattr(engine_choice, "set_up", lambda table: fails("the mirror is down")())
    with pytest.raises(SetupError, match="the mirror is down"):
        choose(deployment, "auto", FakeHost())
    assert recorded_engine(deployment) is None


def test_auto_with_an_engine_is_docker(deployment, ran, monkeypatch):
    monkeypatch.setattr(engine_choice.engine, "blockers", lambda host: [])
    monkeypatch.setattr(steps.engine, "ensure_engine", lambda host, report: "answers")
    assert choose(deployment, "auto", FakeHost()) == ("docker", "")


@pytest.mark.parametrize("recorded", ["docker", "local"])
def test_auto_keeps_what_the_folder_was_started_with(deployment, ran, monkeypatch, recorded):
    monkeypatch.setattr(steps.engine, "ensure_engine", lambda host, report: "answers")
    record_engine(deployment, recorded)
    assert choose(deployment, "auto", FakeHost(environ=NOWHERE, root=False)) == (recorded, "")


@pytest.mark.parametrize("kind", ["auto", "local"])
def test_processes_are_not_served_to_a_network(deployment, ran, kind):
    with pytest.raises(SettingsError, match=r"on loopback \(127.0.0.1\) only"):
        choose(deployment, kind, FakeHost(environ=NOWHERE, root=False), address="0.0.0.0")
    assert recorded_engine(deployment) is None


def test_an_engine_is_not_changed_under_running_notebooks(deployment, ran, monkeypatch):
    record_engine(deployment, "local")
    variables = {DEPLOYMENT_VARIABLE: deployment.prefix, SESSION_VARIABLE: "s", SERVER_VARIABLE: "ann"}
    sessions = open_sessions(deployment)
    sessions.start(["sleep", "100"], environment={**os.environ, **variables}, home=deployment.data, port=1, cores=[0])
    try:
        with pytest.raises(SetupError, match="has 1 notebooks that run in local"):
            choose(deployment, "docker", FakeHost())
    finally:
        sessions.end("s")
    monkeypatch.setattr(steps.engine, "ensure_engine", lambda host, report: "answers")
    assert choose(deployment, "docker", FakeHost()) == ("docker", "")


def test_an_engine_that_cant_be_asked_is_not_left_behind(deployment, ran, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    record_engine(deployment, "docker")
    with pytest.raises(SetupError, match="which can't be asked"):
        choose(deployment, "local", FakeHost(environ=NOWHERE))
    assert recorded_engine(deployment) == "docker"


def test_without_a_record_the_settings_decide(deployment):
    kinds = {kind: engine_of(deployment, settings(kind)) for kind in ("auto", "docker", "local")}
    assert kinds == {"auto": "docker", "docker": "docker", "local": "local"}


def test_the_hubs_port_stays_and_differs_between_deployments(tmp_path):
    one, two = (open_deployment(tmp_path / name) for name in ("one", "two"))
    assert hub_port(one) == hub_port(one)
    assert hub_port(one) != hub_port(two)


def test_a_taken_hub_port_is_replaced_unless_notebooks_know_it(deployment, monkeypatch):
    import socket

    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        (deployment.data / "hub-api-port").write_text(f"{taken}\n")
        with monkeypatch.context() as patch:
            patch.setattr("nbgpu.spawner.local_sessions.Sessions.processes", lambda _: {"s": [1]})
            with pytest.raises(EngineUnavailable, match=f"taken port {taken}, at which running notebooks"):
                ensure_hub_port(deployment)
        ensure_hub_port(deployment)
        assert hub_port(deployment) != taken
