"""What NVML's error codes mean to a person: what was found and what to do.

The codes are NVML's, as in its reference ("nvmlReturn_t").
"""

from nbgpu.core.texts import mark

_DRIVER = {
    4: mark("This process may not use the NVIDIA driver: check the permissions of /dev/nvidiactl and /dev/nvidia*."),
    9: mark("The NVIDIA driver is not loaded: install it, or load it with `modprobe nvidia`."),
    10: mark("The NVIDIA driver does not answer in time: restart this machine if this lasts."),
    12: mark(
        "The NVIDIA driver's library libnvidia-ml.so.1 is not found: install the driver, or on a container host "
        "the NVIDIA container toolkit."
    ),
    13: mark("The NVIDIA driver's library is too old for this program: update the driver."),
    17: mark("The operating system keeps this process from the NVIDIA driver (cgroup or container rules)."),
    18: mark("The NVIDIA driver was updated: restart this machine to use its GPUs again."),
    999: mark(
        "The NVIDIA driver answers with an unknown error. In a container this comes after `systemctl daemon-reload` "
        "on the host: save your work and start the server again. On the host: restart the machine if it lasts."
    ),
}

_DEVICE = {
    4: mark("This GPU may not be used by this process: check the permissions of /dev/nvidia*."),
    8: mark("This GPU lacks external power: check its power cables."),
    11: mark("This GPU's interrupts do not arrive: check the kernel log."),
    15: mark("This GPU is lost: it fell off the bus or was shut down. Restart this machine; see `dmesg | grep Xid`."),
    16: mark("This GPU needs a reset: stop what uses it, then run `nvidia-smi --gpu-reset`, or restart this machine."),
    999: mark(
        "This GPU answers with an unknown error. In a container this comes after `systemctl daemon-reload` on the "
        "host: save your work and start the server again. On the host: see `dmesg | grep Xid`."
    ),
}


def describe_driver_error(code: int) -> str:
    """Return a sentence for an error that concerns the whole driver."""
    return _DRIVER.get(code, f"The NVIDIA driver can't be asked (NVML error {code}): run `nvidia-smi` on this machine.")


def describe_device_error(code: int) -> str:
    """Return a sentence for an error that concerns one device."""
    return _DEVICE.get(code, f"This GPU can't be asked (NVML error {code}): run `nvidia-smi` on this machine.")
