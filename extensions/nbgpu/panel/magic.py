"""The line magic `%gpu`: how the GPUs are now, in words."""

from typing import Any

from nbgpu.panel.shared import shared_sampler
from nbgpu.panel.words import describe

FIRST_READING_S = 12.0  # initialising a driver takes seconds where no persistence daemon runs


def gpu(_line: str = "") -> None:
    """Print a line for each GPU of this session and one for CPU, RAM and /dev/shm."""
    frame = shared_sampler().next_frame(wait_s=FIRST_READING_S)
    print(describe(frame) if frame is not None else "The GPU driver has not answered yet: try again in a moment.")


def load_ipython_extension(ipython: Any) -> None:
    """Let IPython know `%gpu`; it calls this at `%load_ext nbgpu.panel`."""
    ipython.register_magic_function(gpu, "line", "gpu")
