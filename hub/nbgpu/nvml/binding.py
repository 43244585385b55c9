"""The only import of pynvml: tolerant calls into it.

A call that one device or driver does not answer is None; it takes no other reading with it. Two errors say more
than "not reported" and are raised: `DeviceLost` and `DriverLost`.
"""

import ctypes
from collections.abc import Callable
from importlib import metadata
from typing import Any

import pynvml

from nbgpu.core.errors import DriverError
from nbgpu.nvml.sentences import describe_device_error, describe_driver_error

Handle = Any  # pynvml's opaque pointer

TEMPERATURE_GPU: int = pynvml.NVML_TEMPERATURE_GPU
CLOCK_SM: int = pynvml.NVML_CLOCK_SM
CLOCK_MEMORY: int = pynvml.NVML_CLOCK_MEM
ECC_CORRECTED: int = pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED
ECC_UNCORRECTED: int = pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
ECC_VOLATILE: int = pynvml.NVML_VOLATILE_ECC
MEMORY_V2: int = pynvml.nvmlMemory_v2
NVLINKS_MAX: int = pynvml.NVML_NVLINK_MAX_LINKS
P2P_NVLINK: int = pynvml.NVML_P2P_CAPS_INDEX_NVLINK
P2P_OK: int = pynvml.NVML_P2P_STATUS_OK
XID_EVENT: int = pynvml.nvmlEventTypeXidCriticalError

_DEVICE_GONE = frozenset({pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED})
_DRIVER_GONE = frozenset(
    {
        pynvml.NVML_ERROR_UNINITIALIZED,
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
    }
)
_NOT_THERE = frozenset({pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_ERROR_INVALID_ARGUMENT})
_ALL_ONES = frozenset({2**32 - 1, 2**64 - 1})  # NVML's "not available" in an answer that succeeded
_SIMULATED_MARK = "nbgpu_simulated"  # a symbol of the simulated driver's library


class DeviceLost(DriverError):
    """One device can't be asked anything; the text says why. `certain`: by its own word it is lost or needs a reset."""

    certain = False


class DriverLost(DriverError):
    """The driver can't be asked anything; the text says why."""


def connect() -> None:
    """Initialise NVML. Raises DriverLost."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise DriverLost(describe_driver_error(error.value)) from error


def disconnect() -> None:
    """Undo one `connect`; a driver that is gone already is fine."""
    try:
        pynvml.nvmlShutdown()
    except pynvml.NVMLError:
        return


def is_simulated() -> bool:
    """Whether the library that pynvml has loaded is the simulated driver's, in a container too."""
    return hasattr(pynvml.nvmlLib, _SIMULATED_MARK)


def is_loaded() -> bool:
    """Whether pynvml has loaded a library: it keeps the first one until the process ends."""
    return pynvml.nvmlLib is not None


def ask(call: str, *args: object) -> Any:
    """Return what `pynvml.<call>(*args)` answers, None where it is not reported.

    Raises DeviceLost and DriverLost. Bytes that are not UTF-8 come back as bytes.
    """
    function: Callable[..., Any] | None = getattr(pynvml, call, None)
    if function is None:  # another version of the binding
        return None
    try:
        return function(*args)
    except UnicodeDecodeError as error:  # the binding decodes names strictly
        return error.object
    except pynvml.NVMLError as error:
        _raise_if_gone(error)
        return None


def count_gpus() -> int:
    """Return how many GPUs the driver shows. Raises DriverLost for any error: without it nothing can be told."""
    try:
        return int(pynvml.nvmlDeviceGetCount())
    except pynvml.NVMLError as error:
        raise DriverLost(describe_driver_error(error.value)) from error


def ask_list(call: str, *args: object) -> list[Any] | None:
    """Return what `pynvml.<call>(*args)` lists; nothing to list is empty, not reported is None. Raises as `ask`."""
    function: Callable[..., Any] | None = getattr(pynvml, call, None)
    if function is None:
        return None
    try:
        return list(function(*args))
    except pynvml.NVMLError as error:
        if error.value == pynvml.NVML_ERROR_NOT_FOUND:
            return []
        _raise_if_gone(error)
        return None


def handle_key(handle: Handle) -> int | None:
    """Return what tells handles apart: NVML gives the same one for a device each time."""
    return ctypes.cast(handle, ctypes.c_void_p).value


def find_handle(call: str, *args: object) -> Handle | None:
    """Return the handle that `pynvml.<call>(*args)` gives, None when nothing is there.

    Raises DeviceLost for any other error, DriverLost when no device can be asked.
    """
    try:
        return getattr(pynvml, call)(*args)
    except pynvml.NVMLError as error:
        if error.value in _NOT_THERE:
            return None
        _raise_if_gone(error)
        raise _lost(error) from error


def text(value: object) -> str | None:
    """Return an answer as text, whatever the binding made of it: bytes, not UTF-8, empty (None)."""
    decoded = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    if not isinstance(decoded, str):
        return None
    cleaned = "".join(letter for letter in decoded if letter.isprintable() and letter != "\N{REPLACEMENT CHARACTER}")
    return cleaned.strip() if any(letter.isalnum() for letter in cleaned) else None


def number(value: object) -> int | None:
    """Return an answer as a number; NVML's "not available" is None."""
    return value if isinstance(value, int) and value not in _ALL_ONES else None


def binding_problem() -> str | None:
    """Say what is wrong with the installed binding, for a start-up check; None when it is NVIDIA's own.

    PyPI's deprecated package "pynvml" installs a module of the same name that returns bytes for text.
    """
    official, wrapper = _version("nvidia-ml-py"), _version("pynvml")
    shadowed = str(pynvml.__file__).endswith("__init__.py")  # NVIDIA's is one file; a folder wins over it
    if official and not shadowed:
        return None
    found = f"the deprecated package pynvml {wrapper}" if wrapper else f"an unknown module at {pynvml.__file__}"
    return f"The NVML binding in use is {found}: run `pip uninstall pynvml` and `pip install nvidia-ml-py`."


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _raise_if_gone(error: Any) -> None:
    if error.value in _DEVICE_GONE:
        raise _lost(error) from error
    if error.value in _DRIVER_GONE:
        raise DriverLost(describe_driver_error(error.value)) from error


def _lost(error: Any) -> DeviceLost:
    lost = DeviceLost(describe_device_error(error.value))
    lost.certain = error.value in _DEVICE_GONE
    return lost
