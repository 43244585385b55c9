"""Which engine is used, and what is said where none can be had."""

import os

import pytest
from tests.machine.conftest import FakeHost

from nbgpu.core.errors import SetupError
from nbgpu.machine.engine import Answer, ask_engine, blockers, ensure_engine
from nbgpu.machine.host import Host
from nbgpu.machine.steps import set_up, steps

SILENT = Answer(None, "FileNotFoundError")
FORBIDDEN = Answer(None, "PermissionError(13)", forbidden=True)


def _answers(*answers):
    """Return an `ask` that gives these answers in turn, the last one for ever."""
    left = list(answers)
    return lambda environ: left.pop(0) if len(left) > 1 else left[0]


@pytest.mark.parametrize(
    ("host", "answer", "sentence"),
    [
        (FakeHost(root=False), SILENT, "apt-get install docker.io"),
        (FakeHost(apt=False), SILENT, "with your package manager"),
        (FakeHost(root=False), FORBIDDEN, r"usermod -aG docker"),
        (FakeHost(environ={"DOCKER_HOST": "tcp://far:2375"}), SILENT, r"DOCKER_HOST is tcp://far:2375"),
        (FakeHost(root=False, programs={"dockerd"}), SILENT, r"As root: systemctl start docker"),
    ],
)
def test_no_engine_says_what_to_do(host, answer, sentence, details):
    with pytest.raises(SetupError, match=sentence):
        ensure_engine(host, details.append, ask=_answers(answer))
    assert host.ran == []


@pytest.mark.parametrize("host", [FakeHost(), FakeHost(root=False, sudo=True), FakeHost(programs={"dockerd"})])
def test_an_engine_that_can_be_made_is_no_blocker(host):
    assert blockers(host, _answers(SILENT)) == []


def test_an_answering_engine_is_used_as_it_is(details):
    host = FakeHost(root=False, apt=False)
    assert ensure_engine(host, details.append, ask=_answers(Answer("20.10.24"))) == "version 20.10.24 answers"
    assert host.ran == []


def test_a_service_that_the_package_starts_is_not_started_twice(details):
    host = FakeHost(systemd=True)
    host.on_run["install"] = host.brings("dockerd")
    ask = _answers(SILENT, SILENT, Answer("27.5"))
    assert ensure_engine(host, details.append, ask=ask) == "version 27.5 started"
    assert not [command for command in host.ran if "systemctl" in command]


def test_an_engine_installed_with_sudo_lets_the_account_in(details):
    host = FakeHost(root=False, sudo=True, systemd=True)
    host.on_run["install"] = host.brings("dockerd")
    ensure_engine(host, details.append, ask=_answers(SILENT, SILENT, FORBIDDEN, Answer("27.5")))
    assert [command.split()[2] for command in host.ran[-2:]] == ["usermod", "chown"]


def test_systemd_starts_the_service_where_it_rules(details):
    host = FakeHost(systemd=True, programs={"dockerd"})
    ask = _answers(SILENT, SILENT, SILENT, Answer("27.5"))
    ensure_engine(host, details.append, ask=ask)
    assert host.ran == ["systemctl start docker"]


def test_everything_missing_is_one_message(monkeypatch):
    monkeypatch.setattr("nbgpu.machine.engine.ask_engine", _answers(SILENT))
    monkeypatch.setattr("nbgpu.machine.engine.blockers.__defaults__", (_answers(SILENT),))
    host = FakeHost(root=False)
    with pytest.raises(SetupError) as raised:
        set_up(steps(host, for_tests=True))
    message = str(raised.value)
    for command in ("gcc", "dockerd", "chromium"):
        assert f"  - {command} (" in message
    assert host.ran == []


@pytest.mark.docker
def test_the_real_engine_answers_and_is_left_alone(details):
    host = Host()
    before = ask_engine(host.environ)
    assert ensure_engine(host, details.append) == f"version {before.version} answers"
    assert details == []


def test_nobody_at_the_address():
    answer = ask_engine({**os.environ, "DOCKER_HOST": "unix:///nowhere/docker.sock"})
    assert answer.version is None
    assert not answer.forbidden
