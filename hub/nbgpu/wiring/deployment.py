"""One deployment: a data folder, and the names and files that follow from it.

Two deployments on one machine share nothing: all they write lies in their data folder, and all they create in
Docker carries their prefix and their label.
"""

import hashlib
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

DATA_VARIABLE = "NBGPU_DATA"
DEFAULT_DATA = ".nbgpu"


@dataclass(frozen=True, slots=True)
class Deployment:
    """Paths and Docker names of one data folder (absolute)."""

    data: Path
    prefix: str

    @property
    def network(self) -> str:
        """The Docker network of this deployment's servers."""
        return f"{self.prefix}-net"

    @property
    def database_url(self) -> str:
        """The SQLAlchemy URL of the embedded database."""
        return f"sqlite:///{self.data / 'nbgpu.sqlite'}"

    @property
    def hub_database_url(self) -> str:
        """The SQLAlchemy URL of JupyterHub's own database."""
        return f"sqlite:///{self.data / 'jupyterhub.sqlite'}"

    @property
    def simulator_root(self) -> Path:
        """Where the simulated driver keeps its library and state."""
        return self.data / "simulator"

    @property
    def admin_token_file(self) -> Path:
        """The file with an admin's API token for scripts (mode 0600)."""
        return self.data / "demo-admin-token"

    @property
    def pid_file(self) -> Path:
        """The file with the process id of the running hub."""
        return self.data / "hub.pid"

    def secret(self, name: str, *, bytes_: int = 32) -> str:
        """Return the secret kept in the file `name` of the data folder; make it (mode 0600) on first use."""
        path = self.data / name
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return path.read_text().strip()
        value = secrets.token_hex(bytes_)
        with os.fdopen(descriptor, "w") as file:
            file.write(value + "\n")
        return value


def open_deployment(data: str | os.PathLike[str] | None = None) -> Deployment:
    """Return the deployment of a data folder, made (mode 0700) when it is missing.

    Without an argument it is the folder that `NBGPU_DATA` names, else `.nbgpu` in the working folder. The prefix is
    derived once and kept in the folder: moving the folder keeps containers and home volumes.
    """
    path = Path(data or os.environ.get(DATA_VARIABLE) or DEFAULT_DATA).resolve()
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    kept = path / "prefix"
    if not kept.exists():
        draft = path / f".prefix-{os.getpid()}"
        draft.write_text(f"nbgpu-{hashlib.sha256(os.fsencode(path)).hexdigest()[:6]}\n")
        draft.replace(kept)
    return Deployment(data=path, prefix=kept.read_text().strip())
