"""Reading the NVIDIA driver: the only package that imports pynvml, and the simulated driver beside it."""

from nbgpu.nvml.binding import binding_problem
from nbgpu.nvml.inventory import NvmlInventory
from nbgpu.nvml.open import open_inventory

__all__ = ["NvmlInventory", "binding_problem", "open_inventory"]
