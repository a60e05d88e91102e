"""What reading and explaining a model costs, beside what Keras needs to build and to summarize it.

    uv run python -m tests.benchmarks.understand [SIZE…]

Chains and trees of 100, 1,000 and 10,000 layers (the largest takes Keras some minutes to build). Every figure is
a median of several runs in this one process, and what counts are the ratios.
"""

from __future__ import annotations

import gc
import io
import os
import sys
import threading
import time
from collections.abc import Callable
from statistics import median
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from rich.console import Console
from rich.table import Table
from tensorflow.keras import Input, Model, layers

from autograder import explain
from autograder.graph.trace import trace

REPEATS = 5


def chain(size: int) -> Model:
    """Dense layers one after another."""
    x = start = Input((2,))
    for _ in range(size):
        x = layers.Dense(2)(x)
    return Model(start, x)


def tree(size: int) -> Model:
    """Dense layers on one input, added up in pairs until one tensor is left."""
    start = Input((2,))
    level = [layers.Dense(2)(start) for _ in range((size + 1) // 2)]
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=False)
        level = [layers.Add()(pair) for pair in pairs] + ([level[-1]] if len(level) % 2 else [])
    return Model(start, level[0])


def built_deep(build: Callable[[int], Model], size: int) -> tuple[Model, float]:
    """A model and the seconds Keras took. Keras walks the graph by recursion, so it gets a deep stack."""
    made: list[Any] = []

    def run() -> None:
        begin = time.perf_counter()
        made.append(build(size))
        made.append(time.perf_counter() - begin)

    limit = sys.getrecursionlimit()
    threading.stack_size(1 << 29)
    sys.setrecursionlimit(10 * size + 10_000)
    try:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    finally:
        sys.setrecursionlimit(limit)
        threading.stack_size(0)
    return made[0], made[1]


def seconds(action: Callable[[], Any]) -> float:
    """The median time of some runs, without the garbage collector's pauses for what Keras built."""
    times = []
    for _ in range(REPEATS):
        gc.collect()
        gc.disable()
        begin = time.perf_counter()
        action()
        times.append(time.perf_counter() - begin)
        gc.enable()
    return median(times)


def main(sizes: list[int]) -> None:
    """Measure and print."""
    table = Table(title="Reading and explaining a model")
    for column in (
        "model",
        "layers",
        "build",
        "trace",
        "trace ÷ build",
        "growth ÷ linear",
        "summary",
        "explain ÷ summary",
    ):
        table.add_column(column, justify="left" if column == "model" else "right")
    chain(10)  # TensorFlow's first layer costs more than any other
    for build in (chain, tree):
        before = None
        for size in sizes:
            model, building = built_deep(build, size)
            tracing = seconds(lambda model=model: trace(model))
            summary = seconds(lambda model=model: model.summary(print_fn=io.StringIO().write))
            explaining = seconds(lambda model=model: explain(model, gradients=False))
            growth = "" if before is None else f"{tracing / before[1] / (size / before[0]):.2f}"
            table.add_row(
                build.__name__,
                f"{size:,}",
                f"{building:.2f} s",
                f"{tracing:.4f} s",
                f"{tracing / building:.3f}",
                growth,
                f"{summary:.3f} s",
                f"{explaining / summary:.2f}",
            )
            before = size, tracing
    Console().print(table)


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]] or [100, 1_000, 10_000])
