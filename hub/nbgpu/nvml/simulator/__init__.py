"""The simulated driver: a small NVML library in C and the state tree it answers from.

It exists so that the whole product runs on machines without a GPU through the real binding. It computes nothing
and isolates nothing: it only answers what a driver would answer.
"""

from nbgpu.nvml.simulator.activate import activate
from nbgpu.nvml.simulator.build import ensure_library
from nbgpu.nvml.simulator.profiles import PROFILES
from nbgpu.nvml.simulator.state import SimulatedDriver

__all__ = ["PROFILES", "SimulatedDriver", "activate", "ensure_library"]
