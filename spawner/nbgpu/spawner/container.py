"""What a flavor's container looks like to Docker: pure builders, dict out.

Non-root is the image's own setting; here are no capabilities, no way to regain privileges, and every limit.
"""

from typing import Any

from nbgpu.core.devices import Device
from nbgpu.core.flavors import Flavor, FlavorKind
from nbgpu.core.leases import Lease

HOME = "/home/nbgpu"
DEPLOYMENT_LABEL = "org.nbgpu.deployment"  # on containers, networks and volumes; its value is the prefix
SESSION_LABEL = "org.nbgpu.session"
DEVICES_LABEL = "org.nbgpu.devices"  # UUIDs; a device is not leased while a container that was given it runs
SERVER_LABEL = "org.nbgpu.server"
NOTICE_VARIABLE = "NBGPU_NOTICE_FILE"  # names the file in which a server is told of its stop
NOTICE_FILE = "/run/nbgpu/notice.json"
SERVICE_VARIABLE = "NBGPU_SERVICE_URL"  # where a server reaches the `nbgpu` service

# Libraries that start one thread a core of the *machine* unless told the container's share.
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_MAX_THREADS",
    "NUMBA_NUM_THREADS",
    "PYTHON_CPU_COUNT",  # os.cpu_count() from Python 3.13
)


def build_host_config(flavor: Flavor) -> dict[str, Any]:
    """Return the arguments of docker's `create_host_config` that hold the flavor's limits and ours."""
    return {
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "init": True,  # reaps zombies: a dead worker otherwise keeps its GPU memory
        "pids_limit": flavor.pids,
        "mem_limit": flavor.memory,
        "memswap_limit": flavor.memory,  # memory and swap together: no swap
        "shm_size": flavor.shm,
        # A print loop must not fill the host's disk.
        "log_config": {"Type": "json-file", "Config": {"max-size": "10m", "max-file": "2"}},
    }


def build_labels(deployment: str, server_slug: str, lease: Lease) -> dict[str, str]:
    """Return the labels by which containers are found again. No user text and no secret goes in."""
    return {
        DEPLOYMENT_LABEL: deployment,
        SERVER_LABEL: server_slug,
        SESSION_LABEL: lease.session_id,
        DEVICES_LABEL: ",".join(lease.allocation.device_uuids),
    }


def build_environment(flavor: Flavor, lease: Lease, devices: tuple[Device, ...]) -> dict[str, str]:
    """Return the variables that tell software in the container what it was given."""
    threads = str(max(1, int(flavor.cpus)))
    environment = dict.fromkeys(_THREAD_VARIABLES, threads)
    environment |= {
        "NBGPU_SESSION_ID": lease.session_id,
        "NBGPU_FLAVOR": flavor.slug,
        "NBGPU_IMAGE": lease.image,
        "NBGPU_DEVICES": ",".join(lease.allocation.device_uuids),
        NOTICE_VARIABLE: NOTICE_FILE,
    }
    if flavor.kind is FlavorKind.SHARED:
        environment |= _share_environment(flavor, devices)
    return environment


def _share_environment(flavor: Flavor, devices: tuple[Device, ...]) -> dict[str, str]:
    """The share of a slot, for CUDA's MPS server where one runs. A hint elsewhere: time-slicing enforces nothing.

    Names and formats: NVIDIA Multi-Process Service documentation, "Environment variables".
    """
    environment = {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(max(1, 100 // flavor.slots))}
    memory = devices[0].memory_total if devices else None
    if memory is not None:
        share = memory // flavor.slots
        environment["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = f"0={share // 2**20}M"
        environment["NBGPU_GPU_MEMORY_SHARE"] = str(share)  # bytes
    return environment
