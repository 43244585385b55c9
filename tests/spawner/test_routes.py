"""Routes of named servers that are stopped lead to the hub; the proxy is in memory, below JupyterHub's own logic."""

from typing import Any

import pytest
from jupyterhub.objects import Hub

from nbgpu.spawner.routes import StoppedServersMixin
from support.users import start

HUB = "http://127.0.0.1:8081"


class MemoryProxy(StoppedServersMixin):
    """Keeps routes in a dict."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.routes: dict[str, dict[str, Any]] = {}

    async def add_route(self, routespec: str, target: str, data: dict[str, Any]) -> None:
        self.routes[routespec] = {"routespec": routespec, "target": target, "data": data}

    async def delete_route(self, routespec: str) -> None:
        self.routes.pop(routespec, None)

    async def get_all_routes(self) -> dict[str, dict[str, Any]]:
        return dict(self.routes)

    def targets(self) -> dict[str, str]:
        return {spec: route["target"] for spec, route in self.routes.items()}


class App:
    """What a proxy reads of the hub's application."""

    hub = Hub(routespec="/", ip="127.0.0.1", port=8081)
    subdomain_host = ""


@pytest.fixture
async def proxy() -> MemoryProxy:
    proxy = MemoryProxy(app=App(), hub=App.hub)
    await proxy.add_hub_route(App.hub)
    return proxy


async def check(proxy: MemoryProxy, *users: Any) -> dict[str, str]:
    await proxy.check_routes({user.orm_user.id: user for user in users}, {})
    return proxy.targets()


async def test_the_address_of_a_stopped_named_server_is_the_hubs_and_stays_so(site, proxy):
    ann = site.users["ann"]
    for name in ("", "lab"):
        await start(ann, name, profile="cpu")
        await proxy.add_user(ann, name)
    own = proxy.targets()["/user/ann/lab/"]
    await proxy.delete_user(ann, "lab")
    await ann.stop("lab")
    for _ in range(2):
        assert (await check(proxy, ann))["/user/ann/lab/"] == HUB
    await start(ann, "lab", profile="cpu")
    await proxy.add_user(ann, "lab")
    targets = await check(proxy, ann)
    assert targets["/user/ann/lab/"] not in (HUB, own)
    assert targets["/user/ann/"] not in (HUB, own)


async def test_after_a_restart_of_the_proxy_the_address_is_found_again(site, proxy):
    ann = site.users["ann"]
    for name in ("", "lab"):
        await start(ann, name, profile="cpu")
    await ann.stop("lab")
    targets = await check(proxy, ann)
    assert targets["/user/ann/lab/"] == HUB
    assert targets["/user/ann/"] != HUB


async def test_without_a_default_server_nothing_is_in_the_way(site, proxy):
    ann = site.users["ann"]
    await start(ann, "lab", profile="cpu")
    await ann.stop("lab")
    await proxy.add_route("/user/ann/lab/", HUB, {"hub": True})
    assert await check(proxy, ann) == {"/": HUB}


async def test_a_default_servers_own_route_is_only_taken_away(site, proxy):
    ann = site.users["ann"]
    await start(ann, profile="cpu")
    await proxy.add_user(ann)
    await proxy.delete_user(ann)
    assert proxy.targets() == {"/": HUB}
