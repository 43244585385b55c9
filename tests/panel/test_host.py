"""CPU, RAM and /dev/shm from trees of each kind of kernel."""

import os

import pytest

from nbgpu.panel.host import HostReader, HostSample

MEMINFO = "MemTotal:       16000000 kB\nMemFree: 1 kB\nMemAvailable:    6000000 kB\nHugePages_Total:       0\n"
V2 = {
    "cpu.stat": "usage_usec {cpu_us}\nuser_usec 1\n",
    "cpu.max": "50000 100000\n",
    "memory.current": "5000000\n",
    "memory.max": "8000000\n",
    "memory.stat": "anon 1\ninactive_file 1000000\n",
}
V1 = {
    "cpuacct/cpuacct.usage": "{cpu_us}000\n",
    "cpu/cpu.cfs_quota_us": "50000\n",
    "cpu/cpu.cfs_period_us": "100000\n",
    "memory/memory.usage_in_bytes": "5000000\n",
    "memory/memory.limit_in_bytes": "8000000\n",
    "memory/memory.stat": "inactive_file 9\ntotal_inactive_file 1000000\n",
}
UNLIMITED = V2 | {"cpu.max": "max 100000\n", "memory.max": "max\n"}
CORES = float(len(os.sched_getaffinity(0)))


@pytest.fixture
def read_twice(tmp_path):
    """Return what reads a tree, lets half a CPU second go by in a second, and reads again."""

    def read(cgroup, proc):
        now = [100.0]
        reader = HostReader(cgroup=tmp_path, proc=tmp_path / "proc", shm=tmp_path, now_s=lambda: now[0])
        for cpu_us in (2_000_000, 2_500_000):
            for name, text in (cgroup | {f"proc/{key}": text for key, text in proc.items()}).items():
                (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / name).write_text(
                    text.replace("{cpu_us}", str(cpu_us)).replace("{ticks}", str(cpu_us // 10000))
                )
            found = reader.read()
            now[0] += 1.0
        return found

    return read


@pytest.mark.parametrize(
    ("kind", "cgroup", "expected"),
    [
        ("version 2", V2, (0.5, 0.5, 4_000_000, 8_000_000)),
        ("version 1", V1, (0.5, 0.5, 4_000_000, 8_000_000)),
        ("no limits", UNLIMITED, (0.5, CORES, 4_000_000, 16_384_000_000)),
        ("no group of its own", {}, (0.5, CORES, 10_240_000_000, 16_384_000_000)),
    ],
)
def test_each_kind_of_kernel_is_read(read_twice, kind, cgroup, expected):
    assert os.sysconf("SC_CLK_TCK") == 100
    found = read_twice(cgroup, {"meminfo": MEMINFO, "stat": "cpu  {ticks} 0 0 999 5 0 0 0 0 0\ncpu0 1\n"})
    assert (found.cpu_used, found.cpu_limit, found.memory_used, found.memory_total) == pytest.approx(expected), kind
    assert 0 < found.shm_used <= found.shm_total


def test_a_kernel_that_tells_nothing_is_none(no_host):
    assert no_host.read() == HostSample(cpu_limit=CORES)


@pytest.mark.parametrize("text", ["", "garbage", "cpu x y", "usage_usec\n", "-1"])
def test_garbage_is_none(read_twice, text):
    found = read_twice(dict.fromkeys(V2, text) | dict.fromkeys(V1, text), {"stat": text, "meminfo": text})
    assert (found.cpu_used, found.memory_used, found.memory_total) == (None, None, None)
