"""Which of its inputs a call passes a gradient on to, found by running each call by itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from autograder.graph import keras2 as keras
from autograder.graph.gradient import in_order, on_data
from autograder.graph.model import Flow
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
    return on_data(trace, data, lambda inputs, _targets, _kept: frozenset(_pairs(trace, flow, inputs)))


def _pairs(trace: Trace, flow: Flow, inputs: Any) -> Iterator[tuple[int, int]]:
    nodes = trace.nodes[-1]
    values = {
        id(keras.outputs_of(nodes[tensor.call])[tensor.output]): value
        for tensor, value in zip(flow.inputs, in_order(trace, flow, inputs), strict=True)
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
