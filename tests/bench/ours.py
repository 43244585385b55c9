"""Our hub for the benchmarks: the committed settings, and what it runs with."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from e2e.running import Deployment, deployed
from nbgpu.machine.host import Host
from nbgpu.machine.proxy import default_cache, ensure_proxy

ROOT = Path(__file__).parents[2]


@contextlib.contextmanager
def our_hub(*, extra_settings: str = "", extra_config: str = "") -> Iterator[Deployment]:
    """Run a deployment for a while."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder, "nbgpu.toml")
        settings.write_text((ROOT / "nbgpu.toml").read_text() + extra_settings)
        (settings.parent / "config.d").mkdir()
        (settings.parent / "config.d" / "bench.py").write_text(extra_config)
        with deployed(Path(folder, "data"), settings) as deployment:
            yield deployment


def proxy_command() -> list[str]:
    """Return the command of the proxy that both hubs use."""
    return list(ensure_proxy(Host(), default_cache(), lambda _: None))
