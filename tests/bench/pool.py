"""How long the administrators' page of the pool takes, from the request to its last byte."""

import asyncio
import logging
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.figures import Figure, median
from nbgpu.core.flavors import FlavorKind
from nbgpu.core.gpu_health import Fault, FaultKind, Quarantine
from service.pool_site import NOW, PoolSite, browsing, make_devices

GPUS, INSTANCES, HELD, ROUNDS = 64, 7, 300, 20


def measure_pool() -> Iterator[Figure]:
    """Milliseconds, the median of twenty requests: 64 GPUs cut in seven, 300 instances held, some at fault."""
    with tempfile.TemporaryDirectory(prefix="nbgpu-bench-") as folder:
        site = PoolSite(Path(folder), make_devices(GPUS, INSTANCES))
        for number in range(HELD):
            site.lease(f"user-{number}", FlavorKind.MIG, mig_profile="1g.10gb")
        for number in range(GPUS // 8):
            site.quarantines.put(Quarantine(f"MIG-{number}-6", NOW, Fault(FaultKind.CORDON, "It is loud.")))
        seconds = asyncio.run(_time(site))
        site.engine.dispose()
    yield Figure("pages.pool", median(seconds) * 1000, None, "ms", "under 100 ms, 64 GPUs x 7 instances")


async def _time(site: PoolSite) -> list[float]:
    logging.getLogger("tornado.application").setLevel(logging.ERROR)  # it warns of requests that no browser sends
    seconds = []
    async with browsing(site.books()) as client:
        for _ in range(ROUNDS + 1):
            began = time.perf_counter()
            page = await client.get("pool")
            seconds.append(time.perf_counter() - began)
            assert page.text.count('data-device="MIG-') == GPUS * INSTANCES
    return seconds[1:]
