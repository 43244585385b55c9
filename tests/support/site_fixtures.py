"""Fixtures of sites on the fake engine, for the folders that import them into their conftest."""

from pathlib import Path

import pytest

from support.fake_docker import FakeDockerClient
from support.site import Site, build_site


@pytest.fixture
def make_site(tmp_path):
    """Return a function that makes a site with that many GPUs; `config` is the spawner's."""
    sites: list[Site] = []

    def make(gpus: int = 2, *, folder: Path = tmp_path, **config: object) -> Site:
        client = FakeDockerClient()
        client.add_image("sha256:base", environment=("NVIDIA_VISIBLE_DEVICES=all",))
        sites.append(build_site(folder, client, gpus=gpus, **config))
        return sites[-1]

    yield make
    for site in sites:
        site.close()


@pytest.fixture
def site(make_site) -> Site:
    return make_site()
