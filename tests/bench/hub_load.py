"""What all of ours costs the hub: starts of servers that do not exist, and a small API call."""

import http.server
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx

from bench.figures import Figure, median
from bench.ours import our_hub, proxy_command
from bench.vanilla import NULL_SPAWNER, vanilla_hub
from support.answering import Answering

TESTS = str(Path(__file__).parents[1])
ROUNDS, STARTS, AT_ONCE = 5, 40, 10
CALLS = 150
ALL_AT_ONCE = """
[engine]
starts = 64
"""
OUR_CONFIG = """
import sys
sys.path.insert(0, {folder!r})
from bench.null_spawners import NullFlavoredSpawner
c.JupyterHub.spawner_class = NullFlavoredSpawner
c.NullFlavoredSpawner.get_desk = c.GPUDockerSpawner.get_desk
c.NullFlavoredSpawner.port = {port}
c.JupyterHub.tornado_settings = {{"slow_spawn_timeout": 60}}
"""
THEIR_CONFIG = """
c.Spawner.port = {port}
c.JupyterHub.tornado_settings = {{"slow_spawn_timeout": 60}}
"""


def measure_hub() -> Iterator[Figure]:
    """Starts a second and the latency of a small call, ours and plain JupyterHub's in turn."""
    with (
        any_server() as port,
        our_hub(extra_settings=ALL_AT_ONCE, extra_config=OUR_CONFIG.format(folder=TESTS, port=port)) as ours,
    ):
        theirs = NULL_SPAWNER.format(folder=TESTS) + THEIR_CONFIG.format(port=port)
        with vanilla_hub(theirs, proxy_command()) as vanilla:
            rates: dict[str, list[float]] = {"ours": [], "vanilla": []}
            calls: dict[str, list[float]] = {"ours": [], "vanilla": []}
            clients = {"ours": ours.api, "vanilla": vanilla.api}
            for client in clients.values():
                _make_users(client)
            for round_ in range(ROUNDS + 1):
                for name, client in clients.items():
                    rate, call = _start_rate(client), _call_time(client)
                    if round_:
                        rates[name].append(rate)
                        calls[name].append(call)
    yield Figure("hub.null_spawns", median(rates["ours"]), median(rates["vanilla"]), "per s", "at least 0.95x vanilla")
    yield Figure(
        "hub.api_user", median(calls["ours"]) * 1000, median(calls["vanilla"]) * 1000, "ms", "at most 1.05x vanilla"
    )


def _make_users(client: httpx.Client) -> None:
    client.post("/users", json={"usernames": [f"null-{number}" for number in range(STARTS)]}).raise_for_status()


def _start_rate(client: httpx.Client) -> float:
    """Starts a second: as many users, a few at a time; then all are stopped."""
    paths = [f"/users/null-{number}/server" for number in range(STARTS)]
    begun = time.perf_counter()
    _each(lambda path: client.post(path), paths)
    took = time.perf_counter() - begun
    _each(lambda path: client.delete(path), paths)
    return STARTS / took


def _each(call: Callable[[str], httpx.Response], paths: list[str]) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for answer in pool.map(call, paths):
            answer.raise_for_status()


def _call_time(client: httpx.Client) -> float:
    times = []
    for _ in range(CALLS):
        begun = time.perf_counter()
        client.get("/user")
        times.append(time.perf_counter() - begun)
    return median(times)


@contextmanager
def any_server(address: str = "127.0.0.1") -> Iterator[int]:
    """Serve 200 to whatever is asked: the server that all null spawners have; its port is free."""
    server = http.server.ThreadingHTTPServer((address, 0), Answering)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
