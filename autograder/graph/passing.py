"""Which of its inputs a call passes a gradient on to, found by running each call by itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from autograder.graph import keras2 as keras
from autograder.graph.model import Flow
from autograder.graph.sample import STEPS, make_inputs
from autograder.graph.trace import Trace


def passing(trace: Trace, *, data: Any = None) -> frozenset[tuple[int, int]] | None:
    """Pairs of calls of the outermost flow: the second one is passed a gradient by the first one.

    That a gradient reaches two neighbouring calls does not mean that it takes the way between them: what
    `stop_gradient` stops on one way may arrive on another. So each call is differentiated alone. The model is
    left as it was.

    Args:
        trace: a traced model that a probe step has been made of.
        data: the inputs of that step, or a pair (inputs, targets). Default: made from the model's inputs.

    Returns:
        The pairs; None where the model runs code of its own instead of its recorded calls.
    """
    flow = trace.graph.flow
    if flow is None or not keras.runs_its_graph(trace.model):
        return None
    layers = [*trace.layers, trace.model]
    states = [*trace.variables, *keras.states_of(layers), *keras.metric_variables_of(trace.model, layers)]
    kept = [(variable, tf.identity(variable)) for variable in states]
    with keras.unchanged_random_state(trace.layers), keras.unchanged(layers):
        for steps in STEPS:
            inputs = make_inputs(trace, steps=steps) if data is None else data
            try:
                return frozenset(_pairs(trace, flow, inputs[0] if isinstance(inputs, tuple) else inputs))
            except (tf.errors.InvalidArgumentError, ValueError):
                # Too short for a convolution or pooling; the probe step has shown that a length fits.
                if data is not None or steps == STEPS[-1]:
                    raise
            finally:
                for variable, value in kept:
                    variable.assign(value)
    raise AssertionError("the last try returns or raises")


def _pairs(trace: Trace, flow: Flow, inputs: Any) -> Iterator[tuple[int, int]]:
    nodes = trace.nodes[-1]
    if isinstance(inputs, dict):
        inputs = [inputs[name] for name in keras.names_of_inputs(trace.model)]
    values = {
        id(keras.outputs_of(nodes[tensor.call])[tensor.output]): tf.cast(value, tensor.dtype)
        for tensor, value in zip(flow.inputs, tf.nest.flatten(inputs), strict=True)
    }
    for call, node in zip(flow.calls, nodes, strict=True):
        outputs = keras.outputs_of(node)
        if all(id(tensor) in values for tensor in outputs):
            continue  # an input
        given = [argument for argument in keras.arguments_of(node) if keras.is_keras_tensor(argument)]
        # By call, since one that gave several tensors is one box.
        floats = [
            (values[id(tensor)], argument.call)
            for tensor, argument in zip(given, call.inputs, strict=True)
            if values[id(tensor)].dtype.is_floating
        ]
        with tf.GradientTape() as tape:
            tape.watch([value for value, _ in floats])
            results = keras.call_again(node, values)
        differentiable = [result for result in results if result.dtype.is_floating]
        if differentiable and floats:
            gradients = tape.gradient(differentiable, [value for value, _ in floats])
            for (_, source), gradient in zip(floats, gradients, strict=True):
                if gradient is not None:
                    yield call.index, source
        values.update({id(tensor): result for tensor, result in zip(outputs, results, strict=True)})
