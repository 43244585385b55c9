"""The keeper by itself: a bounded log, the end of its server, and its word that the server was started."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nbgpu.spawner import local_keeper
from nbgpu.spawner.local_processes import start_ticks
from support.site import until


@pytest.fixture
def keep(tmp_path):
    """Return a function that has a command kept, and returns what the keeper says before it lets its starter go."""
    keepers = []

    def run(*command: str, log: Path | None = None) -> str:
        paths = {"record": str(tmp_path / "ann.json"), "log": str(log or tmp_path / "ann.log")}
        spec = {**paths, "log_bytes": 10_000, "cores": [0], "identity": {"session_id": "s"}}
        keeper = [sys.executable, "-I", "-S", local_keeper.__file__, json.dumps(spec), *command]
        keepers.append(subprocess.Popen(keeper, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        with keepers[-1].stdout as output:
            return output.read()

    yield run
    for keeper in keepers:
        keeper.wait(10)


def record(tmp_path) -> dict[str, object]:
    return json.loads((tmp_path / "ann.json").read_text())


async def ended(tmp_path) -> dict[str, object]:
    """Wait for the keeper's end; return the record."""
    await until(lambda: "exit_code" in record(tmp_path) and start_ticks(record(tmp_path)["pid"]) is None)
    return record(tmp_path)


async def test_the_log_is_bounded_and_keeps_the_end(keep, tmp_path):
    assert keep("sh", "-c", "seq 200000; echo last words") == ""
    assert (await ended(tmp_path))["exit_code"] == 0
    logs = [tmp_path / "ann.log.1", tmp_path / "ann.log"]
    assert sum(path.stat().st_size for path in logs) < 2 * (10_000 + 65_536)
    assert b"".join(path.read_bytes() for path in logs).endswith(b"last words\n")


@pytest.mark.parametrize(("command", "code"), [("exit 7", 7), ("kill -9 $$", -9), ("exec >&- 2>&-; exit 2", 2)])
async def test_the_end_is_written_down(keep, tmp_path, command, code):
    keep("sh", "-c", command)
    found = await ended(tmp_path)
    assert found["exit_code"] == code
    assert found["started_at"] < found["ended_at"] <= time.time()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
async def test_a_full_disk_loses_output_and_never_stops_the_server(keep, tmp_path):
    log = tmp_path / "ann.log"
    log.symlink_to("/dev/full")
    assert keep("sh", "-c", "seq 100000; exit 5", log=log) == ""
    assert (await ended(tmp_path))["exit_code"] == 5


async def test_a_process_that_holds_the_output_does_not_hide_the_end(keep, tmp_path):
    keep("sh", "-c", "sleep 5 & exit 4")
    assert (await ended(tmp_path))["exit_code"] == 4


@pytest.mark.parametrize("what", ["command", "log", "record"])
def test_what_cant_be_started_is_said_at_once(keep, tmp_path, what):
    if what == "command":
        said = keep("/nowhere/server")
    else:
        (tmp_path / ("ann.log" if what == "log" else "ann.json")).mkdir()
        said = keep("true")
    assert "ann" in said or "nowhere" in said
