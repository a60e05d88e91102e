"""Make data that a model can be run on, from nothing but its inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from autograder.graph import keras2 as keras
from autograder.graph.model import Flow, Tensor
from autograder.graph.trace import Trace

ROWS = 8
"""Batch size of made data: enough that not every row lands on the flat side of a relu."""
STEPS = (5, 32, 128)
"""Lengths to try for every dimension that is not fixed, such as the time steps of a sequence."""


def has_free_dimensions(trace: Trace) -> bool:
    """Whether an input of the model leaves a dimension open, beside the batch's."""
    return any(None in tensor.shape[1:] for tensor in trace.graph.inputs)


def make_inputs(trace: Trace, rows: int = ROWS, steps: int = STEPS[0]) -> Any:
    """Data of the structure that the model's inputs ask for, the same at every call.

    Floats are standard normal; integers lie in the range of the Embedding that they are looked up in;
    integers of shape (rows,) that are given as sequence lengths are `steps`, since a length of 0 gives no
    gradient; booleans are true.

    Args:
        trace: a traced model.
        rows: the batch size.
        steps: the length of every free dimension.

    Returns:
        One array for each model input, in order, of shape (rows, …). For a subclassed model the structure that
        it was first called on.

    Raises:
        ValueError: nothing is known of the model's inputs, or one of them holds strings.
    """
    random = np.random.default_rng(0)
    flow = trace.graph.flow
    if flow is None:
        structure = keras.first_called_with(trace.model)
        if structure is None:
            raise ValueError("it has never been called, so no data can be made for it: hand some in")
        return keras.fill_structure(
            structure, lambda shape, dtype: _array(shape, dtype, (0, 0), random, rows, steps)
        )
    return [
        _array(tensor.shape, tensor.dtype, _range(trace, flow, tensor), random, rows, steps)
        for tensor in flow.inputs
    ]


def _array(
    dimensions: tuple[int | None, ...],
    dtype: str,
    indices: tuple[int, int],
    random: np.random.Generator,
    rows: int,
    steps: int,
) -> Any:
    if dtype == "string":
        raise ValueError("it takes strings, which cannot be made up: hand some in")
    shape = tuple(
        (rows if axis == 0 else steps) if size is None else size for axis, size in enumerate(dimensions)
    )
    low, high = indices
    kind = np.dtype("float32" if dtype == "bfloat16" else dtype).kind
    if kind == "b":
        return np.ones(shape, bool)
    if kind in "iu":
        if not high and len(shape) == 1:
            return np.full(shape, steps, dtype)
        return random.integers(low, high or 2, shape).astype(dtype)
    if high:  # indices that come as floats
        return np.floor(random.uniform(low, high, shape)).astype(dtype)
    return random.standard_normal(shape).astype("float32" if dtype == "bfloat16" else dtype)


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
