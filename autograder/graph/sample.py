"""Make data that a model can be run on, from nothing but its inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from autograder.graph.model import Flow, Tensor
from autograder.graph.trace import Trace

ROWS = 8
"""Batch size of made data: enough that not every row lands on the flat side of a relu."""
STEPS = 5
"""Length put for every dimension that is not fixed, such as the time steps of a sequence."""


def make_inputs(trace: Trace, rows: int = ROWS) -> list[np.ndarray[Any, Any]]:
    """Data of the structure that the model's inputs ask for, the same at every call.

    Floats are standard normal; integers lie in the range of the Embedding that they are looked up in;
    integers of shape (rows,) that are given as sequence lengths are `STEPS`, since a length of 0 gives no
    gradient; booleans are true.

    Returns:
        One array for each model input, in order, of shape (rows, …) with `STEPS` for free dimensions.

    Raises:
        ValueError: the model has no recorded inputs, or one of them holds strings.
    """
    flow = trace.graph.flow
    if flow is None:
        raise ValueError(
            f"Model '{trace.graph.name}' has no recorded inputs, so no data can be made for it. Hand some in."
        )
    random = np.random.default_rng(0)
    arrays = []
    for tensor in flow.inputs:
        shape = tuple(
            (rows if axis == 0 else STEPS) if size is None else size for axis, size in enumerate(tensor.shape)
        )
        kind = np.dtype(tensor.dtype if tensor.dtype != "bfloat16" else "float32").kind
        if tensor.dtype == "string":
            raise ValueError(f"Model '{trace.graph.name}' takes strings. Hand some in.")
        if kind == "b":
            arrays.append(np.ones(shape, bool))
        elif kind in "iu":
            arrays.append(_integers(trace, flow, tensor, shape, random))
        else:
            values = random.standard_normal(shape)
            low, high = _range(trace, flow, tensor)
            if high:  # indices that come as floats
                values = np.floor(random.uniform(low, high, shape))
            arrays.append(values.astype(tensor.dtype))
    return arrays


def _integers(
    trace: Trace, flow: Flow, tensor: Tensor, shape: tuple[int, ...], random: np.random.Generator
) -> np.ndarray[Any, Any]:
    low, high = _range(trace, flow, tensor)
    if not high and len(shape) == 1:
        return np.full(shape, STEPS, tensor.dtype)
    return random.integers(low, high or 2, shape).astype(tensor.dtype)


def _range(trace: Trace, flow: Flow, tensor: Tensor) -> tuple[int, int]:
    """The indices that every Embedding behind an input takes: (lowest, highest + 1), or (0, 0)."""
    low, sizes = 0, []
    waiting = [(flow, (tensor.call, tensor.output))]
    seen = set()
    while waiting:
        here, source = waiting.pop()
        if (id(here), source) in seen:
            continue
        seen.add((id(here), source))
        for call in here.calls:
            if source not in [(t.call, t.output) for t in call.inputs]:
                continue
            layer = trace.graph.layer_of(call)
            live = trace.layers[call.layer]
            if layer.type == "Embedding":
                sizes.append(int(live.input_dim))
                low = max(low, int(bool(live.mask_zero) and live.input_dim > 1))
            elif layer.flow:
                place = [(t.call, t.output) for t in call.inputs].index(source)
                if place < len(layer.flow.inputs):
                    inside = layer.flow.inputs[place]
                    waiting.append((layer.flow, (inside.call, inside.output)))
            elif not layer.variables and not layer.sublayers and not tensor.dtype.startswith("float"):
                # Integers stay indices through slices and reshapes; what an operation makes of floats is not known.
                waiting.extend((here, (t.call, t.output)) for t in call.outputs)
            elif layer.type == "TimeDistributed" or not tensor.dtype.startswith("float"):
                # What a layer of the user's own does with floats is not known, even if it holds an Embedding.
                held = [trace.layers[i] for i in layer.sublayers if trace.graph.layers[i].type == "Embedding"]
                sizes.extend(int(embedding.input_dim) for embedding in held)
    return (low, min(sizes)) if sizes else (0, 0)
