"""`down` and `purge` over the real engine: what is ours goes, what is somebody else's stays."""

import io
import tarfile

import docker
import pytest

from nbgpu.core.errors import EngineUnavailable, SetupError
from nbgpu.machine.teardown import check_deletable, find_deployment, purge, take_down
from nbgpu.spawner.container import DEPLOYMENT_LABEL
from nbgpu.wiring.deployment import open_deployment

IMAGE = "nbgpu-test-empty:latest"


@pytest.fixture(scope="module")
def client():
    """The real engine, with an image that holds one empty file: containers of it need not run to be ours."""
    client = docker.from_env()
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("empty"))
    client.api.import_image_from_data(content.getvalue(), repository="nbgpu-test-empty", tag="latest")
    yield client
    client.images.remove(IMAGE, force=True)
    client.close()


@pytest.fixture
def two(tmp_path, client):
    """Two deployments, each with a container, a network and a home volume."""
    pair = [open_deployment(tmp_path / name) for name in ("one", "two")]
    for deployment in pair:
        labels = {DEPLOYMENT_LABEL: deployment.prefix}
        client.networks.create(deployment.network, labels=labels)
        client.volumes.create(f"{deployment.prefix}-home", labels=labels)
        client.containers.create(IMAGE, ["/none"], name=f"{deployment.prefix}-ada", labels=labels)
    yield pair
    for deployment in pair:
        if deployment.data.exists():
            purge(deployment, lambda _: None)


def _names(client, deployment):
    """What the engine still has of a deployment."""
    filters = {"label": f"{DEPLOYMENT_LABEL}={deployment.prefix}"}
    return {
        *(item.name for item in client.containers.list(all=True, filters=filters)),
        *(item.name for item in client.networks.list(filters=filters)),
        *(item.name for item in client.volumes.list(filters=filters)),
    }


@pytest.mark.docker
def test_down_keeps_homes_and_the_neighbour(client, two):
    ours, neighbour = two
    said = []
    take_down(ours, said.append)
    assert said == ["Hub: was not running", "Notebooks: 1 ended"]
    assert _names(client, ours) == {f"{ours.prefix}-home"}
    assert len(_names(client, neighbour)) == 3
    assert ours.data.exists()
    take_down(ours, said.append)  # once more changes nothing
    assert said[-1] == "Notebooks: 0 ended"


@pytest.mark.docker
def test_purge_deletes_homes_and_data_too(client, two):
    ours, neighbour = two
    purge(ours, lambda _: None)
    assert _names(client, ours) == set()
    assert not ours.data.exists()
    assert len(_names(client, neighbour)) == 3


def test_a_folder_that_is_no_deployment_is_left_alone(tmp_path):
    assert find_deployment(tmp_path) is None
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(SetupError, match=r"is not deleted"):
        check_deletable(tmp_path)


@pytest.mark.parametrize("what", ["working folder", "parent of it", "checkout"])
def test_a_folder_that_is_more_than_data_is_not_deleted(tmp_path, monkeypatch, what):
    data = tmp_path / "data"
    open_deployment(data)
    (data / "sub").mkdir()
    if what == "checkout":
        (data / ".git").mkdir()
    else:
        monkeypatch.chdir(data if what == "working folder" else data / "sub")
    with pytest.raises(SetupError, match=r"is not deleted"):
        check_deletable(data)


def test_without_an_engine_nothing_is_claimed(tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    deployment = open_deployment(tmp_path / "data")
    with pytest.raises(EngineUnavailable, match=r"nothing was ended there"):
        purge(deployment, lambda _: None)
    assert deployment.data.exists()
