"""The doctor's checks. Each takes a site's adapters and returns one finding; an NbgpuError is a finding as well."""

import re
import shutil
import socket
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from docker.errors import APIError, ContainerError, DockerException
from requests.exceptions import RequestException

from nbgpu.core.errors import EngineUnavailable, HubError
from nbgpu.core.findings import Finding, Level, fail, ok, warn
from nbgpu.core.units import render_size
from nbgpu.images.builder import STATES, image_state
from nbgpu.images.built import find_image_id
from nbgpu.images.catalog import load_catalog
from nbgpu.machine.database import examine_database
from nbgpu.machine.host import Host
from nbgpu.machine.processes import hub_pid
from nbgpu.nvml import binding_problem
from nbgpu.wiring.adapters import HUB_API_PORT, Adapters
from nbgpu.wiring.service import read_health

OLDEST_API = (1, 41)  # Docker 20.10
SAFE_TOOLKIT = (1, 17, 8)  # CVE-2025-23266: earlier ones let an image run code on the host
LITTLE_DISK, NO_DISK = 10 * 2**30, 2**30  # bytes
CLOCK_LIMIT = 5.0  # seconds between our clock and Docker's
BASE = "base"
OUT_OF_DATE = STATES[2]
_CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 5).close()"


def check_driver(site: Adapters) -> Finding:
    """Whether the driver answers and what it has."""
    snapshot = site.inventory.snapshot()
    if snapshot.problem is not None:
        return fail(snapshot.problem, "GPU flavors can't start until then; CPU flavors work.")
    gpus = [device for device in snapshot.devices if not device.is_mig]
    slices = len(snapshot.devices) - len(gpus)
    what = f"{len(gpus)} GPUs, {slices} MIG instances, driver {snapshot.driver_version}"
    broken = [device for device in snapshot.devices if device.problem is not None]
    if broken:
        return fail(f"{what}; {broken[0].uuid}: {broken[0].problem}", "It is not leased. See nbgpu gpus.")
    if snapshot.simulated:
        return warn(f"simulated: {what}", "Fine for trying out. For CUDA install NVIDIA's driver and restart the hub.")
    problem = binding_problem()
    return warn(what, problem) if problem else ok(what)


def check_toolkit(site: Adapters) -> Finding:
    """Whether Docker can hand out GPUs, by a toolkit without known holes."""
    if site.inventory.snapshot().simulated:
        return ok("not needed for simulated GPUs")
    tool = shutil.which("nvidia-container-cli") or shutil.which("nvidia-ctk")
    if tool is None:
        return fail("NVIDIA's container toolkit is not installed", "Install nvidia-container-toolkit, restart Docker.")
    match = re.search(r"(\d+)\.(\d+)\.(\d+)", Host().output(tool, "--version"))
    version = tuple(map(int, match.groups())) if match else ()
    shown = ".".join(map(str, version)) or "of unknown version"
    if version < SAFE_TOOLKIT:
        safe = ".".join(map(str, SAFE_TOOLKIT))
        return fail(f"NVIDIA's container toolkit {shown} has known holes", f"Upgrade it to {safe} or later.")
    return ok(f"NVIDIA's container toolkit {shown}")


def check_docker(site: Adapters) -> Finding:
    """Whether Docker answers, is new enough, and keeps containers when it restarts."""
    with _docker_errors():
        version, info = site.docker.version(), site.docker.info()
    what = f"Docker {version['Version']}, {info['Driver']}, cgroup v{info.get('CgroupVersion', '1')}"
    api = tuple(map(int, version["ApiVersion"].split(".")))
    if api < OLDEST_API:
        return fail(f"{what} is too old", "Install Docker 20.10 or later.")
    if not info.get("LiveRestoreEnabled"):
        return warn(
            f"{what}, without live-restore: a restart of Docker ends all notebooks",
            'Put {"live-restore": true} into /etc/docker/daemon.json and reload Docker.',
        )
    return ok(what)


def check_hub(site: Adapters) -> Finding:
    """Whether the hub runs and answers, and agrees with leases and containers."""
    pid = hub_pid(site.deployment)
    if pid is None:
        return warn("the hub does not run", "Start it with nbgpu run.")
    try:
        findings = site.reconciler.compare()
    except HubError as error:
        return fail(f"the hub (process {pid}) runs, but: {error}", f"Look at {site.deployment.data / 'hub.log'}.")
    if findings:
        return warn(f"{len(findings)} sessions to mend: {findings[0].reason}", "Run nbgpu reconcile, or wait a minute.")
    return ok(f"answers (process {pid}), and agrees with leases and containers")


def check_sampler(site: Adapters) -> Finding:
    """Whether GPUs are sampled: what sessions use, and faults, are noticed by that alone."""
    if hub_pid(site.deployment) is None:
        return warn("nothing is sampled: the hub does not run", "Start it with nbgpu run.")
    health = read_health(site.deployment)
    advice = f"Look for nbgpu in {site.deployment.data / 'hub.log'}."
    if health is None:
        return fail("the nbgpu service does not answer: nothing is sampled or metered", advice)
    if "sampler" not in health:
        return warn(f"the nbgpu service is starting: {health.get('problem') or 'a moment'}", advice)
    sampler = health["sampler"]
    if sampler["stale"]:
        age = sampler["sampled_s_ago"]
        since = "not sampled yet" if age is None else f"last sampled {age:.0f} s ago"
        return fail(f"stale: GPUs were {since}. {sampler['problem'] or ''}".strip(), advice)
    late = [name for name, loop in health["loops"].items() if loop["stale"]]
    if late:
        error = health["loops"][late[0]]["error"] or "no error is known"
        return fail(f"GPUs are sampled, but this has not worked for a while: {', '.join(late)} ({error})", advice)
    return ok(f"GPUs were sampled {sampler['sampled_s_ago']:.0f} s ago")


def check_network(site: Adapters) -> Finding:
    """Whether a container on the servers' network reaches the hub's address."""
    image = find_image_id(site.docker, BASE)
    if image is None:
        return fail("can't be tried without the base image", "Build it: nbgpu images build base")
    address = site.hub_url.removeprefix("http://").rpartition(":")[0]
    with _docker_errors(), _listening(address):
        try:
            site.docker.containers.run(
                image,
                ["python3", "-c", _CONNECT, address, str(HUB_API_PORT)],
                network=site.deployment.network,
                remove=True,
            )
        except ContainerError:
            return fail(
                f"a container can't reach the hub at {address}:{HUB_API_PORT}",
                f"Let the network {site.deployment.network} through this machine's firewall (input, that port).",
            )
    return ok(f"a container reaches the hub at {address}:{HUB_API_PORT}")


@contextmanager
def _listening(address: str) -> Iterator[None]:
    """Listen where the hub would, while it does not run."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a hub that just ended leaves its connections
        try:
            listener.bind((address, HUB_API_PORT))
        except OSError:  # the hub has it
            yield
            return
        listener.listen()
        yield


def check_images(site: Adapters) -> Finding:
    """Whether what the menu offers is built."""
    wanted = dict.fromkeys(image for flavor in site.menu.flavors for image in flavor.images)
    missing = [image for image in wanted if find_image_id(site.docker, image) is None]
    stuck = [flavor.slug for flavor in site.menu.flavors if set(flavor.images) <= set(missing)]
    advice = f"nbgpu images build {' '.join(missing)}"
    if stuck:
        return fail(f"{', '.join(stuck)} can't start: no image of theirs is built", advice)
    if missing:
        return warn(f"not built: {', '.join(missing)}", advice)
    old = _find_old(site, wanted)
    if old:
        return warn(f"{', '.join(old)}: out of date", f"nbgpu images build {' '.join(old)}")
    return ok(f"{', '.join(wanted)}: built")


def _find_old(site: Adapters, slugs: Iterable[str]) -> list[str]:
    """Return those of the catalogue's images that its files, or what they stand on, are newer than."""
    catalog = load_catalog()
    known = {image.slug: image for image in catalog}
    with _docker_errors():
        return [
            each for each in slugs if each in known and image_state(site.docker, known[each], catalog) == OUT_OF_DATE
        ]


def check_clock(site: Adapters) -> Finding:
    """Whether our clock and Docker's agree: bills are counted from container times."""
    with _docker_errors():
        theirs = datetime.fromisoformat(site.docker.info()["SystemTime"])
    apart = abs((datetime.now(UTC) - theirs).total_seconds())
    if apart > CLOCK_LIMIT:
        return fail(f"Docker's clock is {apart:.0f} s away from ours", "Have both synchronised (NTP), then restart.")
    return ok("agrees with Docker's")


def check_disk(site: Adapters) -> Finding:
    """Whether there is room for data, images and homes."""
    places = {"data": site.deployment.data}
    if not site.is_local:
        with _docker_errors():
            places["Docker"] = Path(site.docker.info()["DockerRootDir"])
    free = {name: shutil.disk_usage(path).free for name, path in places.items() if path.exists()}
    what = ", ".join(f"{render_size(size)} free for {name}" for name, size in free.items())
    advice = "Delete unused images (docker image prune) and old homes, or add disk."
    if min(free.values()) < NO_DISK:
        return fail(what, advice)
    return warn(what, advice) if min(free.values()) < LITTLE_DISK else ok(what)


def check_database(site: Adapters) -> Finding:
    """Whether the database is sound and can be written: the worst of what `nbgpu db check` lists."""
    findings = examine_database(site.database)
    for level in (Level.FAIL, Level.WARN):
        worst = next((finding for finding in findings if finding.level is level), None)
        if worst is not None:
            return worst
    return ok(f"{site.database.dialect.name}, sound and writable")


def check_secrets(site: Adapters) -> Finding:
    """Whether nobody but the hub's account can read passwords, tokens and the databases."""
    data = site.deployment.data
    open_ = [path for path in (data, *_secret_files(data)) if stat.S_IMODE(path.stat().st_mode) & 0o077]
    inside = [path for path in open_ if path != data]
    if data in open_:
        return fail(f"{data} can be entered by others", f"chmod 700 {data}")
    if inside:
        names = ", ".join(path.name for path in inside)
        return fail(f"others may read: {names}", f"chmod 600 {' '.join(str(path) for path in inside)}")
    return ok("readable by this account only")


def _secret_files(data: Path) -> Iterator[Path]:
    for pattern in ("*-token", "*-password", "jupyterhub_cookie_secret"):
        yield from data.glob(pattern)


@contextmanager
def _docker_errors() -> Iterator[None]:
    """Turn what the SDK raises into an error of ours."""
    try:
        yield
    except (APIError, DockerException, RequestException) as error:
        raise EngineUnavailable(f"Docker does not answer as it should: {error}") from error
