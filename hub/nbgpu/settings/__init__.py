"""nbgpu.toml to typed settings; every error names file, key, value and what is allowed."""
