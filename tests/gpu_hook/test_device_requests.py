"""The real spawner on a real dockerd that can hand out GPUs: who gets which, down to the hook's own view.

No GPU is needed: dockerd only passes UUIDs on. What the hook then mounts is NVIDIA's part.
"""

import http.server
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Any

import docker
import pytest

from nbgpu.core.devices import Device
from nbgpu.core.flavors import FlavorKind
from nbgpu.core.menu import Menu
from nbgpu.spawner.docker import GPUDockerSpawner
from support.answering import Answering
from support.site import FLAVORS, Site, build_site, make_flavor
from support.users import start

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("answering")]
PARENT = Device(uuid="GPU-99999999-aaaa-bbbb-cccc-000000000009", name="NVIDIA H100", mig_enabled=True)
DEVICES = (
    *(Device(uuid=f"GPU-0000000{n}-aaaa-bbbb-cccc-00000000000{n}", name="NVIDIA A100", index=n) for n in range(4)),
    PARENT,
    Device(
        uuid="MIG-00000000-aaaa-bbbb-cccc-000000000000",
        name="NVIDIA H100 MIG 1g.10gb",
        parent_uuid=PARENT.uuid,
        mig_profile="1g.10gb",
    ),
)


@pytest.fixture
def answering(monkeypatch):
    """Have spawners find the stand-in where the container's address would be."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()

        async def find(spawner: GPUDockerSpawner) -> tuple[str, int]:
            return "127.0.0.1", server.server_port

        monkeypatch.setattr(GPUDockerSpawner, "get_ip_and_port", find)
        yield
        server.shutdown()


@asynccontextmanager
async def serving(engine, folder) -> AsyncIterator[Site]:
    """A site whose servers are containers of the private engine."""
    with closing(docker.APIClient(base_url=engine.url, version="auto", timeout=30)) as client:
        site = build_site(folder, client, gpus=0, prefix="nbgpu-hook00", network_name="none")
        site.inventory.devices = DEVICES
        site.shelf.ids["base"] = engine.image_id
        site.desk.menu = Menu((*FLAVORS, make_flavor("slice", FlavorKind.MIG, mig_profile="1g.10gb")))
        try:
            yield site
        finally:
            site.close()


async def inspect(spawner) -> tuple[dict[str, Any], dict[str, str]]:
    """Return what Docker knows of a server's container, and the environment its program printed."""
    found = await spawner.docker("inspect_container", spawner.object_id)
    printed: bytes = await spawner.docker("logs", spawner.object_id, follow=False)
    return found, dict(line.split("=", 1) for line in printed.decode().splitlines() if "=" in line)


@pytest.mark.parametrize("slug", ["one", "two", "slice", "shared"])
async def test_a_server_gets_the_leased_uuids_and_no_other(with_hook, tmp_path, slug):
    async with serving(with_hook, tmp_path) as site:
        ann = site.users["ann"]
        await start(ann, profile=slug)
        (lease,) = site.leases.open_leases()
        uuids = list(lease.allocation.device_uuids)
        found, environment = await inspect(ann.spawner)
        assert [request["DeviceIDs"] for request in found["HostConfig"]["DeviceRequests"]] == [uuids]
        assert all(request["Count"] == 0 for request in found["HostConfig"]["DeviceRequests"])
        assert environment["NVIDIA_VISIBLE_DEVICES"] == ",".join(uuids)
        call = with_hook.hook_calls()[found["Id"]]
        assert call["arguments"] == ["prestart"]
        # Ours and, from the request, dockerd's own: the same, so that it does not matter which one is read.
        visible = {each for each in call["env"] if each.startswith("NVIDIA_VISIBLE_DEVICES=")}
        assert visible == {f"NVIDIA_VISIBLE_DEVICES={','.join(uuids)}"}
        capabilities = next(each for each in call["env"] if each.startswith("NVIDIA_DRIVER_CAPABILITIES="))
        assert set(capabilities.partition("=")[2].split(",")) == {"compute", "utility"}
        await ann.stop()
        assert site.leases.open_leases() == ()


@pytest.mark.case(28)
async def test_two_people_get_two_devices(with_hook, tmp_path):
    async with serving(with_hook, tmp_path) as site:
        seen = []
        for name in ("ann", "bob"):
            await start(site.users[name], profile="one")
            found, _ = await inspect(site.users[name].spawner)
            seen += found["HostConfig"]["DeviceRequests"][0]["DeviceIDs"]
        assert len(set(seen)) == 2
        for name in ("ann", "bob"):
            await site.users[name].stop()


@pytest.mark.case(29)
async def test_a_cpu_server_gets_none_even_from_an_image_that_asks_for_all(with_hook, tmp_path):
    client = docker.APIClient(base_url=with_hook.url)
    assert "NVIDIA_VISIBLE_DEVICES=all" in client.inspect_image(with_hook.image_id)["Config"]["Env"]
    client.close()
    async with serving(with_hook, tmp_path) as site:
        ann = site.users["ann"]
        await start(ann, profile="cpu")
        found, environment = await inspect(ann.spawner)
        assert not found["HostConfig"]["DeviceRequests"]
        assert [each for each in found["Config"]["Env"] if each.startswith("NVIDIA_VISIBLE_DEVICES=")] == [
            "NVIDIA_VISIBLE_DEVICES=void"
        ]
        assert environment["NVIDIA_VISIBLE_DEVICES"] == "void"
        assert found["Id"] not in with_hook.hook_calls()
        await ann.stop()


async def test_without_the_toolkit_a_gpu_start_says_what_to_install(without_hook, tmp_path):
    async with serving(without_hook, tmp_path) as site:
        ann = site.users["ann"]
        with pytest.raises(Exception, match=r"NVIDIA's container toolkit is not installed\. Install nvidia-contai"):
            await start(ann, profile="one")
        assert site.leases.open_leases() == ()
        await start(ann, profile="cpu")  # which needs no toolkit
        assert len(site.leases.open_leases()) == 1
        await ann.stop()
