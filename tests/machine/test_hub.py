"""A real JupyterHub with its real proxy under `nbgpu run`'s watch: start, stop, and every way to die."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from e2e.running import free_port
from nbgpu.core.errors import SetupError
from nbgpu.machine.host import Host
from nbgpu.machine.hub import Hub, Launch
from nbgpu.machine.processes import check_port, end_hub, forget_lost_proxy, hub_pid, only_hub
from nbgpu.machine.proxy import default_cache, ensure_proxy
from nbgpu.machine.serve import find_settings, greeting
from nbgpu.settings import load
from nbgpu.wiring.deployment import open_deployment

ROOT = Path(__file__).parents[2]
RUN = """
import sys
from pathlib import Path
from nbgpu.machine.hub import Launch
from nbgpu.machine.processes import only_hub
from nbgpu.machine.serve import watch
from nbgpu.settings import load
from nbgpu.wiring.deployment import open_deployment
data, port, settings, config, *proxy = sys.argv[1:]
launch = Launch(open_deployment(data), "127.0.0.1", int(port), Path(settings), Path(config), tuple(proxy))
with only_hub(launch.deployment):
    watch(launch, load(launch.settings_file), lambda text: print(text, flush=True))
"""


def _until(condition, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


@pytest.fixture
def deployment(tmp_path):
    """A data folder of this test's own."""
    return open_deployment(tmp_path / "data")


@pytest.fixture
def launch(deployment):
    """A launch whose hub never gets far."""
    return Launch(deployment, "127.0.0.1", free_port(), ROOT / "nbgpu.toml", Path("none.py"), ("true",))


@pytest.fixture
def running(deployment):
    """A real hub under a real watcher, in a process that a test may kill."""
    proxy = ensure_proxy(Host(), default_cache(), lambda _: None)
    config = Path(__file__).with_name("jupyterhub_trial_config.py")
    arguments = [deployment.data, str(free_port()), ROOT / "nbgpu.toml", config, *proxy]
    environ = {**os.environ, "TRIAL_HUB_PORT": str(free_port()), "TRIAL_API_PORT": str(free_port())}
    with subprocess.Popen(
        [sys.executable, "-c", RUN, *arguments], env=environ, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        lines = []
        while not (lines and lines[-1].startswith("Ctrl-C")):
            lines.append(process.stdout.readline())
            assert lines[-1], lines
        process.lines = lines  # type: ignore[attr-defined]
        process.proxy = int((deployment.data / "jupyterhub-proxy.pid").read_text())  # type: ignore[attr-defined]
        yield process
        process.kill()
    end_hub(deployment)


def test_ctrl_c_ends_hub_and_proxy(running, deployment):
    pid = hub_pid(deployment)
    running.send_signal(signal.SIGINT)
    assert running.wait(30) == 0
    assert not _alive(pid)
    assert not _alive(running.proxy)
    assert not deployment.pid_file.exists()
    assert "leaves notebooks as they are" in running.stdout.read()


def test_killed_it_leaves_neither_hub_nor_proxy(running, deployment):
    pid = hub_pid(deployment)
    running.kill()
    _until(lambda: not _alive(pid) and not _alive(running.proxy))
    with only_hub(deployment):  # and the next run may start
        assert hub_pid(deployment) is None


def test_a_killed_hub_takes_its_proxy_along_and_is_reported(running, deployment):
    os.kill(hub_pid(deployment), signal.SIGKILL)
    assert running.wait(30) == 1
    _until(lambda: not _alive(running.proxy))
    assert (deployment.data / "hub.log").read_text()


def test_it_greets_and_down_ends_it_from_outside(running, deployment):
    text = "".join(running.lines)
    assert re.search(r"serves on http://127\.0\.0\.1:\d+\n", text)
    for name in ("demo-password", "demo-admin-password"):
        assert (deployment.data / name).read_text().strip() in text
    assert str(deployment.admin_token_file) in text
    assert deployment.admin_token_file.stat().st_mode & 0o777 == 0o600
    sentence = rf"runs at http://127\.0\.0\.1:\d+ \(process {hub_pid(deployment)}\)"
    with pytest.raises(SetupError, match=sentence), only_hub(deployment):
        pass
    assert end_hub(deployment)
    assert running.wait(30) == 0


def test_a_hub_that_dies_shows_its_last_lines(launch):
    program = "print('starting'); print('[E trial] no such database'); raise SystemExit(3)"
    said = []
    hub = Hub(launch, say=said.append, command=[sys.executable, "-c", program])
    with pytest.raises(SetupError, match=r"(?s)before it answered \(status 3\).*hub\.log:\n    starting\n.*database$"):
        hub.wait_until_ready(threading.Event())
    assert said == ["[E trial] no such database"]
    assert not launch.deployment.pid_file.exists()


def test_a_hub_that_never_answers_is_ended(launch):
    hub = Hub(launch, say=lambda _: None, command=[sys.executable, "-c", "import time; time.sleep(60)"])
    with pytest.raises(SetupError, match=r"did not answer within 0 s"):
        hub.wait_until_ready(threading.Event(), seconds=0.3)


def test_a_taken_port_is_said_with_another(launch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", launch.port))
        taken.listen()
        with pytest.raises(
            SetupError, match=rf"Port {launch.port} .*already in use.*run the same command with PORT=\d+$"
        ) as raised:
            check_port("127.0.0.1", launch.port)
        check_port("127.0.0.1", int(str(raised.value).rpartition("=")[2]))
        with pytest.raises(SetupError, match=rf"Port {launch.port} .*a hub at port {launch.port - 1} needs"):
            check_port("127.0.0.1", launch.port - 1)  # the proxy's own port is taken
    check_port("127.0.0.1", launch.port)


@pytest.mark.parametrize("text", ["", "not a pid", str(os.getpid()), "999999999"])
def test_another_process_is_never_taken_for_the_hub(deployment, text):
    deployment.pid_file.write_text(text)
    assert hub_pid(deployment) is None
    assert end_hub(deployment) is None


@pytest.mark.parametrize("text", ["not a pid", str(os.getpid())])
def test_a_proxy_file_of_another_process_is_forgotten(deployment, text):
    file = deployment.data / "jupyterhub-proxy.pid"
    file.write_text(text)
    forget_lost_proxy(deployment)
    assert not file.exists()


def test_two_starts_at_once_are_one(deployment):
    with only_hub(deployment), pytest.raises(SetupError, match=r"is being started or stopped"), only_hub(deployment):
        pass


def test_greeting_keeps_silent_about_passwords_without_the_demo_login(launch, monkeypatch):
    settings = load(ROOT / "nbgpu.toml")
    auth = settings.auth.model_copy(update={"class_name": "github"})
    assert "password" not in greeting(launch, settings.model_copy(update={"auth": auth}))


def test_a_settings_file_that_is_not_there_is_said(tmp_path):
    with pytest.raises(SetupError, match=r"There is no settings file .*none\.toml: give another with --config"):
        find_settings(tmp_path / "none.toml")
