"""Pipelines and servers to try holdfast with: what the demo, the tests and the benchmarks run."""
