"""Measurements of cost, each a module that prints a table: `uv run python -m tests.benchmarks.understand`."""
