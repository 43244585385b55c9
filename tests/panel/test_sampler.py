"""One sampler a process, whose thread runs while somebody listens; the history is bounded; user code can use it."""

import gc
import logging
import threading
import tracemalloc

import pytest

from nbgpu.core.devices import Device, InventorySnapshot, UsageSample
from nbgpu.core.errors import SetupError
from nbgpu.nvml import NvmlInventory
from nbgpu.panel.block import Use, monitor
from nbgpu.panel.collect import Collector
from nbgpu.panel.history import History, history_of
from nbgpu.panel.host import HostSample
from nbgpu.panel.magic import load_ipython_extension
from nbgpu.panel.sampler import KEPT, Sampler
from nbgpu.panel.shared import shared_sampler


@pytest.fixture
def live(no_host):
    """A sampler in a hurry, by the real clock."""
    return Sampler(Collector(NvmlInventory(), host=no_host, environ={}), interval_s=0.02)


def test_all_share_one_sampler():
    found = []
    threads = [threading.Thread(target=lambda: found.append(shared_sampler())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert [each is found[0] for each in found] == [True] * 8


def test_the_thread_ends_with_its_last_listener_and_comes_again(simulate, live):
    simulate("t4")
    assert live.thread is None
    for _ in range(2):
        first, second = live.subscribe(lambda _: None), live.subscribe(lambda _: None)
        thread = live.thread
        first()
        assert live.next_frame(wait_s=10) is not None
        assert live.thread is thread
        second()
        thread.join(10)
        assert not thread.is_alive()
        assert live.thread is None
    assert live.latest().devices[0].device.name == "Tesla T4"


def test_a_listener_that_fails_is_told_once_and_stops_no_other(simulate, make_sampler, caplog):
    simulate("t4")
    sampler, heard = make_sampler(), []

    def fail(_frame):
        raise ZeroDivisionError("mine")

    sampler._listeners[:] = [fail, heard.append]  # without the thread
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            sampler.tick()
    assert len(heard) == 3
    assert len(caplog.records) == 1


def test_a_reading_that_fails_does_not_end_the_thread(simulate, live, caplog, monkeypatch):
    simulate("t4")
    stop = live.subscribe(lambda _: None)
    thread = live.thread
    with caplog.at_level(logging.WARNING), monkeypatch.context() as broken:
        broken.setattr(live._collector, "collect", lambda now: 1 / 0)
        assert live.next_frame(wait_s=0.3) is None
    assert live.next_frame(wait_s=10) is not None
    assert live.thread is thread
    assert [record.message.partition(";")[0] for record in caplog.records] == ["The GPU panel could not read"]
    stop()


class Idle:
    """A driver and a machine without files: reading those 28,800 times is not what is tried."""

    def __init__(self, clock):
        self.clock = clock
        self.snapshots = 0

    def snapshot(self):
        self.snapshots += 1
        return InventorySnapshot(self.clock(), (Device("GPU-1"),))

    def sample(self):
        second = self.clock().second
        return (
            UsageSample("GPU-1", self.clock(), memory_used=second * 2**30, problem="away" if second == 7 else None),
        )

    def read(self):
        return HostSample(cpu_used=self.clock().second / 60)


def test_memory_does_not_grow_over_8_hours(clock):
    idle = Idle(clock)
    sampler = Sampler(Collector(idle, host=idle, environ={}), now=clock)

    def held_after(ticks):
        """Bytes held by what our files have allocated."""
        for _ in range(ticks):
            clock.forward(1)
            sampler.tick()
        gc.collect()
        ours = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, "*/nbgpu/*")])
        return sum(each.size for each in ours.statistics("filename"))

    tracemalloc.start()
    try:
        after_minutes = held_after(2 * KEPT)
        after_hours = held_after(28_800)
    finally:
        tracemalloc.stop()
    assert len(sampler.history) == KEPT
    assert idle.snapshots == (28_800 + 2 * KEPT) // 60
    assert after_minutes > KEPT * 100, "the measure sees the history"
    assert after_hours < after_minutes + 2000


def test_history_is_rows_with_none_for_what_is_not_reported(simulate, make_sampler, clock):
    driver, sampler = simulate("t4"), make_sampler()
    sampler.tick()
    driver.set(driver.uuids[0], gpu_utilization=40, **{"fault.nvmlDeviceGetPowerUsage": "NOT_SUPPORTED"})
    clock.forward(1)
    sampler.tick()
    rows = history_of(sampler.history)
    assert [row["gpu_utilization"] for row in rows] == [0, 40]
    assert [row["power"] for row in rows] == [10.0, None]
    assert rows[1]["time"] == clock()
    assert {row["name"] for row in rows} == {"Tesla T4"}


def test_without_pandas_a_table_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(SetupError, match="pip install pandas"):
        History().to_frame()


def test_monitor_records_the_peak_and_the_busy_share(simulate, live, capsys):
    driver = simulate("t4")
    with monitor(sampler=live) as use:
        for used, busy in ((9 * 2**30, 100), (2**30, 50)):
            driver.set(driver.uuids[0], memory_used=used, gpu_utilization=busy)
            assert live.next_frame(wait_s=10)
    (device,) = use.devices.values()
    assert device.peak_memory == 9 * 2**30
    assert 0 < device.busy < 100
    printed = capsys.readouterr().out
    assert printed == f"{use}\n"
    assert printed.startswith("GPU 0: Tesla T4: peak memory 9.0 of 15.0 GiB, busy ")


def test_monitor_prints_also_when_the_block_fails(simulate, live, capsys):
    simulate("t4")
    with pytest.raises(KeyError, match="mine"), monitor(sampler=live):
        raise KeyError("mine")
    assert "Tesla T4" in capsys.readouterr().out


def test_busy_is_the_mean_of_what_was_reported(simulate, make_sampler, clock):
    driver, sampler, use = simulate("t4"), make_sampler(), Use()
    for values in (
        {"gpu_utilization": 30},
        {"gpu_utilization": 90},
        {"fault.nvmlDeviceGetUtilizationRates": "NO_DATA"},
    ):
        driver.set(driver.uuids[0], **values)
        use.add(sampler.tick())
        clock.forward(1)
    assert str(use) == "GPU 0: Tesla T4: peak memory 0.0 of 15.0 GiB, busy 60 % (2 s, 3 readings)"


def test_no_gpu_is_one_line(simulate, make_sampler):
    simulate("none")
    use = Use()
    use.add(make_sampler().tick())
    assert str(use) == "No GPU was seen."


def test_the_magic_is_registered_and_prints(simulate, capsys):
    simulate("t4")
    magics = {}
    shell = type(
        "Shell", (), {"register_magic_function": lambda self, function, kind, name: magics.update({name: function})}
    )
    load_ipython_extension(shell())
    magics["gpu"]("")
    assert "GPU 0: Tesla T4: busy 0 %, memory 0.0 of 15.0 GiB, 36 °C, 10 W of 70 W\nCPU " in capsys.readouterr().out
