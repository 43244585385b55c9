"""The state tree that the simulated driver answers from: made, changed and mounted here.

Files are replaced by rename, so a reader sees the old state or the new one. A bind-mounted *file* would keep
showing the old inode after that: hence one folder for each device, and folders are what gets mounted.
"""

import fcntl
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from nbgpu.core.errors import SetupError
from nbgpu.nvml.simulator.build import LIBRARY_NAME, ensure_library
from nbgpu.nvml.simulator.profiles import DRIVER, PROFILES

CONTAINER_ROOT = Path("/run/nbgpu-simulator")  # what the library reads when NBGPU_SIMULATOR_ROOT is not set
Value = str | int | bytes | None


class SimulatedDriver:
    """One simulated machine, in the folder `root`. Several processes may use it at once."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def create(self, profile: str) -> None:
        """Make the tree of a profile; one that is there already with the same profile keeps its state.

        Raises SetupError for a profile that does not exist.
        """
        if profile not in PROFILES:
            raise SetupError(f'There is no simulator profile "{profile}"; there are: {", ".join(PROFILES)}.')
        self.root.mkdir(mode=0o755, parents=True, exist_ok=True)
        with self._locked():
            if self.profile == profile:
                return
            (self.root / "profile").unlink(missing_ok=True)
            shutil.rmtree(self.root / "devices", ignore_errors=True)
            _write(self.root / "driver", DRIVER)
            (self.root / "devices").mkdir(mode=0o755)
            for uuid, values in PROFILES[profile].items():
                _write(self._folder(uuid), values)
            (self.root / "profile").write_text(profile)  # last: a half-made tree is made anew

    @property
    def profile(self) -> str | None:
        """The slug of the profile that the tree was made from; None without a tree."""
        try:
            return (self.root / "profile").read_text()
        except FileNotFoundError:
            return None

    @property
    def uuids(self) -> tuple[str, ...]:
        """The UUIDs of all devices, sorted."""
        return tuple(sorted(path.parent.name for path in self.root.glob("devices/*/state")))

    def read(self, uuid: str) -> dict[str, str]:
        """Return the lines of one device. KeyError when there is none of this UUID."""
        return _read(self._existing(uuid))

    def read_driver(self) -> dict[str, str]:
        """Return the lines of the driver."""
        return _read(self.root / "driver")

    def set(self, uuid: str, **values: Value) -> None:
        """Change lines of a device: `set(uuid, gpu_utilization=90, **{"fault.nvmlDeviceGetName": "UNKNOWN"})`.

        None removes a line; a name in bytes is answered as these bytes. KeyError without such a device.
        """
        with self._locked():
            folder = self._existing(uuid)
            _write(folder, _changed(_read(folder), values))

    def unset(self, uuid: str, *keys: str) -> None:
        """Remove lines of a device; those that are not there are fine."""
        self.set(uuid, **dict.fromkeys(keys))

    def raise_xid(self, uuid: str, xid: int) -> None:
        """Have a device report an Xid event, once, to whoever watches it."""
        with self._locked():
            folder = self._existing(uuid)
            lines = _read(folder)
            earlier = [each for each in lines.get("xid_events", "").split(",") if each][-16:]
            number = int(earlier[-1].partition(":")[0]) + 1 if earlier else 1
            _write(folder, lines | {"xid_events": ",".join([*earlier, f"{number}:{xid}"])})

    def set_driver(self, **values: Value) -> None:
        """Change lines of the driver, as `set` does: `set_driver(**{"fault.nvmlInit": "DRIVER_NOT_LOADED"})`."""
        with self._locked():
            folder = self.root / "driver"
            _write(folder, _changed(_read(folder), values))

    def add(self, uuid: str, **values: Value) -> None:
        """Add a device, or replace all lines of one."""
        with self._locked():
            _write(self._folder(uuid), _changed({}, values))

    def remove(self, uuid: str) -> None:
        """Take a device away, as a MIG instance that is destroyed or a GPU that leaves the bus."""
        with self._locked():
            shutil.rmtree(self._existing(uuid))

    def mounts(self, device_uuids: tuple[str, ...]) -> dict[Path, Path]:
        """Return the read-only bind mounts (host path -> container path) that show a container these devices only.

        Without devices there is nothing to mount: a CPU server sees no driver, as with NVIDIA's toolkit.
        KeyError for an unknown device.
        """
        if not device_uuids:
            return {}
        library = ensure_library(self.library_folder)
        triplet = f"{platform.machine()}-linux-gnu"
        folders = [self.root / "driver", *[self._existing(uuid) for uuid in device_uuids]]
        shown = {folder: CONTAINER_ROOT / folder.relative_to(self.root) for folder in folders}
        return {library: Path("/usr/lib") / triplet / LIBRARY_NAME} | shown

    @property
    def library_folder(self) -> Path:
        """Where `ensure_library` puts the library of this tree."""
        return self.root / "lib"

    def _folder(self, uuid: str) -> Path:
        if not uuid or uuid.startswith(".") or "/" in uuid:
            raise KeyError(uuid)
        return self.root / "devices" / uuid

    def _existing(self, uuid: str) -> Path:
        folder = self._folder(uuid)
        if not (folder / "state").is_file():
            raise KeyError(uuid)
        return folder

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the tree's lock: two changes at once must not lose one another."""
        with (self.root / ".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _changed(before: Mapping[str, str], values: Mapping[str, Value]) -> dict[str, str]:
    """Return the lines with `values` put in. ValueError for what would break a line."""
    lines = dict(before)
    for key, value in values.items():
        lines.pop(key, None)
        if key == "name":
            lines.pop("name_hex", None)
        if isinstance(value, bytes):
            lines[f"{key}_hex"] = value.hex()
        elif value is not None:
            lines[key] = str(value)
    if any("\n" in text for pair in lines.items() for text in pair):
        raise ValueError("a line of the simulator's state can't hold a line break")
    return lines


def _read(folder: Path) -> dict[str, str]:
    try:
        text = (folder / "state").read_text(errors="replace")
    except FileNotFoundError:
        return {}
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def _write(folder: Path, lines: Mapping[str, str]) -> None:
    """Replace the state file of a folder in one step, readable for any uid in a container."""
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    folder.chmod(0o755)  # the umask may have taken bits away
    with tempfile.NamedTemporaryFile("w", dir=folder, prefix=".state-", delete=False) as draft:
        draft.writelines(f"{key}={value}\n" for key, value in lines.items())
        os.fchmod(draft.fileno(), 0o644)
    Path(draft.name).replace(folder / "state")
