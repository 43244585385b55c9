"""The GPU-aware spawners: flavored.py is engine-neutral, docker.py runs containers."""
