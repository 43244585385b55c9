"""One sampler for a server: kernels take whole frames over its socket, and read by themselves where it gives none."""

import asyncio
import json
import os
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbgpu.core.devices import Device, GpuProcess, UsageSample
from nbgpu.nvml import NvmlInventory
from nbgpu.panel.codec import as_json, decode_frame, encode_frame
from nbgpu.panel.collect import Collector
from nbgpu.panel.frames import DeviceFrame, Frame
from nbgpu.panel.host import HostSample
from nbgpu.panel.processes import OwnProcess
from nbgpu.panel.sampler import Sampler
from nbgpu.panel.server.kernels import KernelSocket
from nbgpu.panel.server.room import Room
from nbgpu.panel.shared import SharedSampler, make_sampler

TIMES = st.datetimes(timezones=st.just(UTC))
FRAMES = st.builds(
    Frame,
    taken_at=TIMES,
    devices=st.lists(
        st.builds(
            DeviceFrame,
            device=st.builds(Device, numa_node=st.none() | st.integers(0, 7)),
            sample=st.builds(UsageSample, taken_at=TIMES, processes=st.none() | st.just((GpuProcess(1, 2),))),
            processes=st.none() | st.lists(st.builds(OwnProcess), max_size=2).map(tuple),
            last=st.none() | st.builds(UsageSample, taken_at=TIMES),
        ),
        max_size=2,
    ).map(tuple),
    host=st.builds(HostSample),
)


@given(FRAMES)
def test_a_frame_comes_over_whole(frame):
    assert decode_frame(json.loads(json.dumps(encode_frame(frame), default=as_json))) == frame


@pytest.mark.parametrize("spoil", [lambda plain: plain.update(new_field=1), lambda plain: plain.pop("host")])
def test_a_frame_of_another_version_is_refused(spoil):
    plain = json.loads(json.dumps(encode_frame(Frame(datetime.now(UTC))), default=as_json))
    spoil(plain)
    with pytest.raises((TypeError, KeyError), match="new_field|host"):
        decode_frame(plain)


class Serving:
    """A server's room with its socket, in a loop of its own thread."""

    def __init__(self, sampler: Sampler) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        self.room = Room(sampler, self.loop.call_soon_threadsafe)
        self.socket = KernelSocket(self.room)
        self.path = asyncio.run_coroutine_threadsafe(self.socket.open(), self.loop).result(5)

    def tell(self, session: Any) -> None:
        self.loop.call_soon_threadsafe(self.room.tell, session)

    def close(self) -> None:
        async def end() -> None:
            self.socket.close()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self.loop).result(5)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(5)
        self.loop.close()


@pytest.fixture
def serving(simulate, no_host) -> Iterator[Serving]:
    simulate("t4")
    found = Serving(Sampler(Collector(NvmlInventory(), host=no_host, environ={}), interval_s=0.05))
    yield found
    found.close()


class NoDriver:
    """A collector that must not be asked."""

    def collect(self, now: datetime) -> Frame:
        raise AssertionError("the kernel asked the driver itself")


@contextmanager
def listening(sampler: Sampler) -> Iterator[list[Frame]]:
    """Listen for a while; the list grows."""
    heard: list[Frame] = []
    stop = sampler.subscribe(heard.append)
    try:
        yield heard
    finally:
        stop()
        if sampler.thread is not None:
            sampler.thread.join(10)
            assert sampler.thread is None or not sampler.thread.is_alive()


def next_of(sampler: Sampler) -> Frame:
    frame = sampler.next_frame(wait_s=10)
    assert frame is not None
    return frame


def test_kernels_take_the_servers_frames(serving):
    first, second = (SharedSampler(NoDriver(), str(serving.path)) for _ in range(2))
    with listening(first) as one:
        next_of(first)
        serving.tell({"status": {"cost_micro": 7}})
        with listening(second) as other:
            assert next_of(second).devices[0].device.name == "Tesla T4"
            next_of(first)
            assert set(one) & set(other), "the very same readings"
            assert second.history[0] in first.history, "with what was before"
            assert serving.room.count == 2
        assert first.session == second.session == {"status": {"cost_micro": 7}}


def test_nobody_reads_when_nobody_looks(serving):
    sampler = SharedSampler(NoDriver(), str(serving.path))
    with listening(sampler):
        next_of(sampler)
    for _ in range(200):
        if serving.room.count == 0:
            break
        threading.Event().wait(0.02)
    assert serving.room.count == 0
    with listening(sampler):
        assert next_of(sampler).taken_at > sampler.history[0].taken_at


def test_the_socket_is_the_accounts_own(serving):
    assert stat.S_IMODE(serving.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(serving.path.parent.stat().st_mode) == 0o700
    serving.socket.remove()
    assert not serving.path.parent.exists()


def test_a_kernel_reads_by_itself_where_its_server_gives_nothing(simulate, no_host, tmp_path):
    simulate("t4")
    collector = Collector(NvmlInventory(), host=no_host, environ={})
    sampler = SharedSampler(collector, str(tmp_path / "nobody"), interval_s=0.02)
    with listening(sampler):
        assert next_of(sampler).devices[0].device.name == "Tesla T4"


@pytest.mark.parametrize("line", [b"\n", b"[]\n", b'{"frame": {"taken_at": 7}}\n', b'{"frame": 7}\n', b"\xff\n"])
def test_lines_of_another_kind_are_as_good_as_none(simulate, no_host, monkeypatch, line):
    monkeypatch.setattr("nbgpu.panel.shared.SILENCE_S", 0.2)
    simulate("t4")
    collector = Collector(NvmlInventory(), host=no_host, environ={})
    folder = Path(os.environ.get("TMPDIR", "/tmp")) / f"nbgpu-test-{os.getpid()}-{threading.get_ident()}"
    folder.mkdir()
    try:
        with socket.create_server(str(folder / "s"), family=socket.AF_UNIX) as server:
            sampler = SharedSampler(collector, str(folder / "s"), interval_s=0.02)
            with listening(sampler):
                peer, _ = server.accept()
                with peer:
                    peer.sendall(line)
                    assert next_of(sampler).devices[0].device.name == "Tesla T4"
    finally:
        (folder / "s").unlink(missing_ok=True)
        folder.rmdir()


@pytest.mark.parametrize(("path", "kind"), [("", Sampler), ("/some/where", SharedSampler)])
def test_a_process_has_its_servers_sampler_where_there_is_one(path, kind):
    assert type(make_sampler(path)) is kind
