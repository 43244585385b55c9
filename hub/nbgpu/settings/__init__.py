"""nbgpu.toml to typed settings; every error names file, key, value and what is allowed."""

from nbgpu.settings.load import load
from nbgpu.settings.schema import Settings

__all__ = ["Settings", "load"]
