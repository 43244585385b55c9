"""What the base image's boot costs in CPU, against a stock JupyterLab of the same versions on the same Debian."""

import io
import ipaddress
import tarfile
import time
from collections.abc import Iterator

import docker
import httpx

from bench.figures import Figure, median
from bench.hub_load import any_server
from nbgpu.images.built import describe_built, find_image_id
from nbgpu.images.catalog import load_catalog

ROUNDS = 7
STOCK = "nbgpu-bench-stock"
DEBIAN = "nbgpu/debian:bookworm"
DOCKERFILE = """
FROM {debian}
COPY ca.pem /tmp/ca.pem
RUN apt-get update && apt-get install -y --no-install-recommends python3-venv && python3 -m venv /opt/stock
RUN PIP_CERT=/tmp/ca.pem /opt/stock/bin/pip install --no-cache-dir jupyterlab=={jupyterlab} jupyterhub=={jupyterhub}
CMD ["/opt/stock/bin/jupyterhub-singleuser"]
"""
ENVIRONMENT = {
    "JUPYTERHUB_API_TOKEN": "none",
    "JUPYTERHUB_CLIENT_ID": "jupyterhub-user-bench",
    "JUPYTERHUB_USER": "bench",
    "JUPYTERHUB_BASE_URL": "/",
    "JUPYTERHUB_SERVICE_PREFIX": "/user/bench/",
    "JUPYTERHUB_SERVICE_URL": "http://0.0.0.0:8888/user/bench/",
    "HOME": "/tmp",
}


def measure_boot() -> Iterator[Figure]:
    """CPU seconds of a container from its start to its server's first answer, the two in turn."""
    engine = docker.from_env()
    ours = find_image_id(engine, "base")
    stock = _build_stock(engine)
    used: dict[str, list[float]] = {"ours": [], "stock": []}
    subnet = engine.api.inspect_network("bridge")["IPAM"]["Config"][0]["Subnet"]
    gateway = str(next(ipaddress.ip_network(subnet).hosts()))
    with any_server(gateway) as port:  # a server asks for its hub before it serves
        hub = {"JUPYTERHUB_API_URL": f"http://{gateway}:{port}/hub/api"}
        for round_ in range(ROUNDS + 1):
            for name, image in (("ours", ours), ("stock", stock)):
                seconds = _boot(engine, str(image), ENVIRONMENT | hub)
                if round_:
                    used[name].append(seconds)
    engine.close()
    yield Figure("image.boot_cpu", median(used["ours"]), median(used["stock"]), "CPU s", "at most 0.5x stock")


def _boot(engine: docker.DockerClient, image: str, environment: dict[str, str]) -> float:
    container = engine.containers.run(image, environment=environment, detach=True, mem_limit="2g", user="1000")
    try:
        container.reload()
        address = container.attrs["NetworkSettings"]["IPAddress"]
        deadline = time.monotonic() + 60
        while not _answers(address):
            assert time.monotonic() < deadline, container.logs().decode()
            time.sleep(0.02)
        return float(container.stats(stream=False, one_shot=True)["cpu_stats"]["cpu_usage"]["total_usage"]) / 1e9
    finally:
        container.remove(force=True)


def _answers(address: str) -> bool:
    try:
        return httpx.get(f"http://{address}:8888/user/bench/api", timeout=5, trust_env=False).status_code > 0
    except httpx.HTTPError:
        return False


def _build_stock(engine: docker.DockerClient) -> str:
    """Build the yardstick: what `pip install jupyterlab jupyterhub` gives."""
    image = load_catalog().find("base")
    versions = (describe_built(engine, image) or image).frameworks
    text = DOCKERFILE.format(debian=DEBIAN, **versions)
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, content in (("Dockerfile", text.encode()), ("ca.pem", _trusted())):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    archive.seek(0)
    built, _ = engine.images.build(fileobj=archive, custom_context=True, tag=STOCK, rm=True, network_mode="host")
    return str(built.id)


def _trusted() -> bytes:
    """The certificates that this machine trusts: the builder may stand behind an intercepting proxy."""
    import ssl
    from pathlib import Path

    found = ssl.get_default_verify_paths().cafile or ssl.get_default_verify_paths().openssl_cafile
    return Path(found).read_bytes()
