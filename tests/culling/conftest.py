"""What the culler is tried on: a stub of the hub's API and of our service."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from nbgpu.wiring.culler import Culler, Service
from nbgpu.wiring.deployment import open_deployment
from support.stub_hub import TOKEN, StubHub, serving


@pytest.fixture
def stub() -> Iterator[Callable[..., StubHub]]:
    """Return what serves a stub until the test's end."""
    with ExitStack() as stack:

        def make(users: int, **more: Any) -> StubHub:
            return stack.enter_context(serving(StubHub(users, **more)))

        yield make


@pytest.fixture
def culler_of(tmp_path: Path) -> Callable[[StubHub], Culler]:
    """Return what makes the culler of a stub."""

    def make(hub: StubHub) -> Culler:
        deployment = open_deployment(tmp_path / "data")
        (deployment.data / "service-port").write_text(f"{hub.port}\n")
        return Culler(service=Service(deployment, TOKEN), hub_url=hub.url, token=TOKEN, pause=0.01)

    return make
