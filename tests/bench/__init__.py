"""Benchmarks: `make bench`. Every figure is a ratio against a yardstick measured in the same run."""
