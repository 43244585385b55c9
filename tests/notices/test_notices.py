"""What a server is told: the file is in it, programs that wait for the signal get it, others live on."""

import json
import secrets
import sys
from datetime import UTC, datetime

import docker
import pytest

from nbgpu.images.built import find_image_id
from nbgpu.spawner.container import DEPLOYMENT_LABEL, NOTICE_FILE, SESSION_LABEL
from nbgpu.spawner.local_sessions import SERVER_VARIABLE, SESSION_VARIABLE, Sessions
from nbgpu.spawner.notices import DockerNotices, LocalNotices
from support.site import until

STOP_AT = datetime(2026, 3, 10, 12, 5, tzinfo=UTC)
TEXT = "This server will be stopped at 12:05 UTC: “ü” <b>&</b>"
# The first waits for the signal and says what it reads; the second knows nothing of it and would be ended by it.
PROGRAM = """
import json, os, signal, sys, time
signal.signal(signal.SIGUSR1, lambda *_: print("told:", open(os.environ["NBGPU_NOTICE_FILE"]).read(), flush=True))
if not os.fork():
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    print("child", flush=True)
    time.sleep(100)
    os._exit(0)
print("ready", flush=True)
while True:
    time.sleep(0.05)
    if os.waitpid(-1, os.WNOHANG)[0]:
        print("the child was ended", flush=True)
"""


def told(log: str) -> list[dict[str, object]]:
    return [json.loads(line.removeprefix("told: ")) for line in log.splitlines() if line.startswith("told: ")]


@pytest.fixture
def container():
    """A container of the base image, hardened as servers are, that runs the program; and its deployment's name."""
    engine = docker.from_env()
    deployment = f"nbgpu-{secrets.token_hex(4)}"
    made = engine.containers.run(
        str(find_image_id(engine, "base")),
        ["python3", "-c", PROGRAM],
        environment={"NBGPU_NOTICE_FILE": NOTICE_FILE},
        labels={DEPLOYMENT_LABEL: deployment, SESSION_LABEL: "s1"},
        detach=True,
        init=True,
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
    )
    yield made, DockerNotices(engine.api, deployment)
    made.remove(force=True)
    engine.close()


@pytest.mark.docker
async def test_a_container_is_told_by_file_and_signal(container):
    made, notices = container
    await until(lambda: b"ready" in made.logs() and b"child" in made.logs())
    assert notices.deliver("s1", TEXT, STOP_AT, "budget") is True
    await until(lambda: told(made.logs().decode()))
    assert told(made.logs().decode()) == [{"text": TEXT, "stop_at": "2026-03-10T12:05:00+00:00", "cause": "budget"}]
    assert notices.deliver("s1", "", None, None) is True
    await until(lambda: len(told(made.logs().decode())) == 2)
    assert told(made.logs().decode())[1]["stop_at"] is None
    assert b"the child was ended" not in made.logs()
    code, listing = made.exec_run(["stat", "-c", "%a %U", NOTICE_FILE])
    assert (code, listing) == (0, b"644 root\n")


@pytest.mark.docker
def test_who_does_not_run_can_not_be_told(container):
    assert container[1].deliver("s2", TEXT, STOP_AT, "budget") is False


async def test_a_process_is_told_by_file_and_signal(tmp_path):
    sessions = Sessions(tmp_path / "servers", "nbgpu-notices")
    notices = LocalNotices(sessions)
    assert notices.deliver("s1", TEXT, STOP_AT, "budget") is False
    notice = sessions.notice_path("ann")
    environment = {SESSION_VARIABLE: "s1", SERVER_VARIABLE: "ann", "NBGPU_NOTICE_FILE": str(notice)}
    sessions.start([sys.executable, "-c", PROGRAM], environment=environment, home=tmp_path, port=1, cores=[0])
    try:
        await until(lambda: {"ready", "child"} <= set(sessions.log_path("ann").read_text().split()))
        assert notices.deliver("s1", TEXT, STOP_AT, "budget") is True
        await until(lambda: told(sessions.log_path("ann").read_text()))
        assert told(sessions.log_path("ann").read_text())[0]["text"] == TEXT
        assert "the child was ended" not in sessions.log_path("ann").read_text()
    finally:
        sessions.end("s1")
    assert not notice.exists(), "the next session is not told of this one's end"
