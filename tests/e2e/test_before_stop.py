"""A user's own script before a stop, on a real hub: it runs while the server still does, and a hanging one is ended."""

import time

import pytest

from e2e.running import until

pytestmark = pytest.mark.docker

HOOK = "/home/nbgpu/.nbgpu/before-stop"
ASKS_ITS_SERVER = """#!/bin/sh
/opt/nbgpu/bin/python -c 'import socket; socket.create_connection(("127.0.0.1", 8888), 5); print("it answers")'
"""


def write_hook(container, text: str) -> None:
    code, said = container.exec_run(["sh", "-c", f"mkdir -p ~/.nbgpu && printf '%s' \"$0\" > {HOOK}", text])
    assert code == 0, said
    assert container.exec_run(["chmod", "755", HOOK]).exit_code == 0


def test_what_a_user_wants_done_before_a_stop_is_done(hub):
    user = hub.add_user("careful")
    hub.started(user, profile="cpu")
    write_hook(hub.container(user), ASKS_ITS_SERVER)
    begun = time.monotonic()
    hub.stop_server(user)
    assert time.monotonic() - begun < 30
    hub.started(user, profile="cpu")
    _, log = hub.container(user).exec_run(["cat", f"{HOOK}.log"])
    assert "it answers" in log.decode()
    assert log.decode().rstrip().endswith("ended with exit code 0")


def test_a_server_whose_script_hangs_is_stopped_when_its_time_is_over(hub):
    user = hub.add_user("hanging")
    hub.started(user, profile="cpu")
    container = hub.container(user)
    write_hook(container, "#!/bin/sh\nsleep 1000")
    answer = hub.api.delete(f"/users/{user}/server")
    assert answer.status_code == 202, "the hub says that it is being stopped"
    until(lambda: hub.lease(user) is None, seconds=100)
    assert container.id not in {each.id for each in hub.engine.containers.list(all=True)}
