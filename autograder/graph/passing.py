"""Which of its inputs a call passes a gradient on to, found by running each call by itself."""

from __future__ import annotations

import tensorflow as tf

from autograder.graph import keras2 as keras
from autograder.graph.sample import make_inputs
from autograder.graph.trace import Trace


def passing(trace: Trace) -> frozenset[tuple[int, int]]:
    """Pairs of calls of the outermost flow: the second one is passed a gradient by the first one.

    That a gradient reaches two neighbouring calls does not mean that it takes the way between them: what
    `stop_gradient` stops on one way may arrive on another. So each call is differentiated alone, on data made
    from the model's inputs. The model is left as it was.

    Args:
        trace: a traced model with a flow.
    """
    flow = trace.graph.flow
    if flow is None:
        return frozenset()
    kept = [(variable, tf.identity(variable)) for variable in trace.variables]
    with keras.unchanged_random_state(trace.layers):
        try:
            return frozenset(_pairs(trace))
        finally:
            for variable, value in kept:
                variable.assign(value)


def _pairs(trace: Trace) -> set[tuple[int, int]]:
    flow = trace.graph.flow
    assert flow is not None
    nodes = trace.nodes[-1]
    values = {
        id(keras.outputs_of(nodes[tensor.call])[tensor.output]): tf.cast(value, tensor.dtype)
        for tensor, value in zip(flow.inputs, tf.nest.flatten(make_inputs(trace)), strict=True)
    }
    pairs: set[tuple[int, int]] = set()
    for call, node in zip(flow.calls, nodes, strict=True):
        outputs = keras.outputs_of(node)
        if all(id(tensor) in values for tensor in outputs):
            continue  # an input
        given = [argument for argument in keras.arguments_of(node) if keras.is_keras_tensor(argument)]
        with tf.GradientTape() as tape:
            for tensor in given:
                if values[id(tensor)].dtype.is_floating:
                    tape.watch(values[id(tensor)])
            results = keras.call_again(node, values)
        float_results = [result for result in results if result.dtype.is_floating]
        float_given = [tensor for tensor in given if values[id(tensor)].dtype.is_floating]
        if float_results and float_given:
            gradients = tape.gradient(float_results, [values[id(tensor)] for tensor in float_given])
            sources = {id(tensor): argument.call for tensor, argument in zip(given, call.inputs, strict=True)}
            pairs.update(
                (call.index, sources[id(tensor)])
                for tensor, gradient in zip(float_given, gradients, strict=True)
                if gradient is not None
            )
        values.update({id(tensor): result for tensor, result in zip(outputs, results, strict=True)})
    return pairs
