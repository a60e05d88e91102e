"""What a learner holds beside a model: layers and variables that no way back from its outputs leads to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from autograder.graph import keras2 as keras
from autograder.graph.drawing import Box, Drawing, Link, count, shortened
from autograder.graph.trace import Trace, describe


def with_beside(drawing: Drawing, trace: Trace, beside: Sequence[Any]) -> Drawing:
    """Add layers and variables to a drawing, and where a value of theirs was baked into the model.

    Args:
        drawing: of the traced model.
        trace: the model.
        beside: layers and variables.

    Raises:
        TypeError: something is neither layer nor variable.
        ValueError: something belongs to the model.
    """
    for value in beside:
        _refuse_own(trace, value)
    variables = {f"apart {i}": value for i, value in enumerate(beside) if keras.is_variable(value)}
    layers = {f"apart {i}": value for i, value in enumerate(beside) if keras.is_layer(value)}
    links: list[Link] = []
    for key, layer in layers.items():
        for variable_key, variable in variables.items():
            baked = list(_baked(trace, layer, variable))
            if baked:
                links.append(Link(variable_key, key, kind="once"))
                links.extend(Link(key, constant, kind="once") for constant in baked)
    boxes = [_box(f"apart {i}", value) for i, value in enumerate(beside)]
    return replace(drawing, apart=tuple(boxes), apart_links=tuple(links))


def _refuse_own(trace: Trace, value: Any) -> None:
    if not (keras.is_layer(value) or keras.is_variable(value)):
        raise TypeError(f"Expected layers and variables beside the model. Received: {describe(value)}.")
    tracked = [
        live for live, record in zip(trace.variables, trace.graph.variables, strict=True) if record.tracked
    ]
    if any(value is own for own in (*trace.layers, trace.model, *tracked)):
        raise ValueError(
            f"Expected only what is not in the model to be drawn beside it. Received: {describe(value)}, which "
            f"belongs to model '{trace.graph.name}'."
        )


def _box(key: str, value: Any) -> Box:
    if keras.is_variable(value):
        shape = tuple(value.shape.as_list())
        lines = [f"tf.Variable · {count(int(np.prod(shape)))}", str(shape)]
        return Box(key, "variable", shortened(str(value.name)), tuple(lines))
    variables = keras.variables_of(value)
    size = count(sum(int(np.prod(variable.shape)) for variable in variables))
    what = f"{type(value).__name__} · {size if value.built else 'not built'}"
    return Box(key, "apart", shortened(str(value.name)), (what,), owns=bool(variables))


def _baked(trace: Trace, layer: Any, variable: Any) -> Iterator[str]:
    """The constants in the model that hold what the layer gives for the variable."""
    if not layer.built or not keras.called_on(layer):
        return
    try:
        with keras.unchanged_random_state([layer]):
            value = np.asarray(layer(variable))
    except Exception:  # this layer does not take this variable: then it was not called on it
        return
    for call, node in zip(trace.graph.calls, trace.nodes.get(-1, ()), strict=True):
        plain = [
            argument
            for argument in keras.arguments_of(node)
            if not keras.is_keras_tensor(argument)
            and hasattr(argument, "shape")
            and hasattr(argument, "dtype")
        ]
        for position, constant in enumerate(call.constants):
            live = plain[position]
            if constant.digest and tuple(live.shape) == value.shape and np.allclose(live, value, 1e-4, 1e-6):
                yield f"constant {call.index}.{position}"
