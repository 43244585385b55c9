"""How long a start takes: ours, plain DockerSpawner's, and the floor, which is the container alone.

The three are interleaved in one run. The floor is `docker run` of the same image, with the same limits and variables,
until its server answers.
"""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import docker
import httpx

from bench.figures import Figure, median, percentile_95
from bench.ours import our_hub, proxy_command
from bench.vanilla import DOCKER_SPAWNER, NETWORK, VanillaHub, vanilla_hub
from e2e.running import Deployment
from nbgpu.images.built import find_image_id

ROUNDS = 12
USER = "bench"
LOOK_EVERY = 0.005  # seconds between two looks for a server's first answer


def measure_one_start() -> Iterator[Figure]:
    """One start at a time: against the floor and against plain DockerSpawner; how soon readiness is noticed."""
    engine = docker.from_env()
    image = find_image_id(engine, "base")
    spawner = DOCKER_SPAWNER.format(image=image, network=NETWORK)
    with our_hub() as ours, vanilla_hub(spawner, proxy_command()) as vanilla:
        ours.add_user(USER)
        vanilla.add_user(USER)
        template = _read_template(ours)
        times: dict[str, list[float]] = {"floor": [], "ours": [], "vanilla": []}
        notices: list[float] = []
        for round_ in range(ROUNDS + 1):
            floor = _time_floor(engine, template)
            total, notice = _time_ours(ours)
            plain = _time_vanilla(vanilla)
            if round_:  # the first round warms up
                times["floor"].append(floor)
                times["ours"].append(total)
                times["vanilla"].append(plain)
                notices.append(notice)
    engine.close()
    floor = median(times["floor"])
    yield Figure("spawn.cold", median(times["ours"]), floor, "s", "at most 1.15x the floor")
    yield Figure("spawn.vanilla", median(times["vanilla"]), floor, "s", "for comparison: the floor again")
    yield Figure("spawn.notice_p95", percentile_95(notices) * 1000, None, "ms", "at most 100 ms")


def measure_bursts() -> Iterator[Figure]:
    """Ten and fifty starts at once: all get up; the time of the last against that many floors in a row."""
    with our_hub() as ours:
        for count in (10, 50):
            users = [ours.add_user(f"burst-{count}-{number}") for number in range(count)]
            begun = time.perf_counter()
            with ThreadPoolExecutor(count) as pool:
                list(pool.map(lambda user: ours.started(user, profile="cpu"), users))
            took = time.perf_counter() - begun
            ours.stop_all()
            yield Figure(f"spawn.burst{count}", took / count, None, "s each", "none refused, none timed out")


def _read_template(ours: Deployment) -> dict[str, Any]:
    """Start a server once, to run its like without a hub."""
    ours.started(USER, profile="cpu")
    found = ours.container(USER).attrs
    ours.stop_server(USER)
    return dict(found)


def _time_floor(engine: docker.DockerClient, template: dict[str, Any]) -> float:
    network = next(iter(template["NetworkSettings"]["Networks"]))
    environment = list(template["Config"]["Env"])
    prefix = next(each.partition("=")[2] for each in environment if each.startswith("JUPYTERHUB_SERVICE_PREFIX="))
    begun = time.perf_counter()
    api = engine.api
    created = api.create_container(
        template["Config"]["Image"],
        command=template["Config"]["Cmd"],
        environment=environment,
        host_config=template["HostConfig"],
        networking_config=api.create_networking_config({network: api.create_endpoint_config()}),
    )
    api.start(created["Id"])
    address = api.inspect_container(created["Id"])["NetworkSettings"]["Networks"][network]["IPAddress"]
    _wait_answer(f"http://{address}:8888{prefix}api")
    took = time.perf_counter() - begun
    api.remove_container(created["Id"], force=True)
    return took


def _time_ours(ours: Deployment) -> tuple[float, float]:
    """The whole of a start, and what of it came after the server's first answer."""
    first_answer: list[float] = []
    watcher = threading.Thread(target=_watch, args=(ours, first_answer))
    watcher.start()
    begun = time.perf_counter()
    ours.start_server(USER, profile="cpu").raise_for_status()
    ready = time.perf_counter()
    watcher.join()
    ours.stop_server(USER)
    return ready - begun, ready - first_answer[0]


def _watch(ours: Deployment, first_answer: list[float]) -> None:
    """Find the new container and ask it until it answers."""
    while not (found := ours.engine.api.containers(filters={"label": f"org.nbgpu.deployment={ours.prefix}"})):
        time.sleep(LOOK_EVERY)
    networks = found[0]["NetworkSettings"]["Networks"].values()
    address = next(iter(networks))["IPAddress"]
    _wait_answer(f"http://{address}:8888/user/{USER}/api")
    first_answer.append(time.perf_counter())


def _time_vanilla(vanilla: VanillaHub) -> float:
    begun = time.perf_counter()
    vanilla.start_server(USER)
    took = time.perf_counter() - begun
    vanilla.stop_server(USER)
    return took


def _wait_answer(url: str) -> None:
    with httpx.Client(timeout=5, trust_env=False) as client:
        while True:
            try:
                client.get(url)
            except httpx.HTTPError:
                time.sleep(LOOK_EVERY)
            else:
                return
