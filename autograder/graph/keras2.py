"""What Keras 2.15 remembers of a model, under the names it gives to it.

Together with `trace` the only place that reads Keras' underscore attributes: for another version of Keras,
write another module with these functions. Read from keras 2.15.0: `engine/node.py` (a node is one call),
`engine/base_layer.py` (tracking of sublayers and weights), `engine/functional_utils.py` (cutting a graph).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf
from keras.src.engine.keras_tensor import KerasTensor

VERSION: str = keras.__version__

_OPERATIONS = frozenset(
    {"TFOpLambda", "SlicingOpLambda", "ClassMethod", "InstanceMethod", "InstanceProperty"}
)


def is_model(value: Any) -> bool:
    """Whether the value is a Keras model."""
    return isinstance(value, keras.Model)


def is_layer(value: Any) -> bool:
    """Whether the value is a Keras layer or model."""
    return isinstance(value, keras.layers.Layer)


def is_keras_tensor(value: Any) -> bool:
    """Whether the value is a placeholder that remembers the call that made it."""
    return isinstance(value, KerasTensor) and hasattr(value, "_keras_history")


def is_variable(value: Any) -> bool:
    """Whether the value is a TensorFlow variable."""
    return isinstance(value, tf.Variable)


def is_operation(layer: Any) -> bool:
    """Whether the layer is a raw TensorFlow operation that Keras wrapped."""
    return type(layer).__name__ in _OPERATIONS


def operation_name(layer: Any) -> str:
    """The operation that such a layer runs, such as `tf.math.multiply`."""
    symbol = getattr(layer, "symbol", None)
    if symbol is None:
        return "tf.__operators__.getitem" if type(layer).__name__ == "SlicingOpLambda" else str(layer.name)
    return f"tf.{symbol}"


def inputs_and_outputs(model: Any) -> tuple[list[Any], list[Any]] | None:
    """The Keras tensors at both ends of a model's graph, or None where Keras has recorded no graph."""
    if not getattr(model, "_is_graph_network", False) or model.outputs is None:
        return None
    return list(model.inputs), list(model.outputs)


def node_of(tensor: Any) -> Any:
    """The call that made a Keras tensor."""
    return tensor.node


def maker_of(tensor: Any) -> Any:
    """The layer whose call made a Keras tensor."""
    return tensor._keras_history.layer


def position_of(tensor: Any) -> int:
    """Which of its call's outputs a Keras tensor is."""
    return int(tensor._keras_history.tensor_index)


def nodes_of(layer: Any) -> list[Any]:
    """Every call of a layer on Keras tensors, in whatever model, in order."""
    return list(layer._inbound_nodes)


def arguments_of(node: Any) -> list[Any]:
    """What the layer was called with, nested structures flattened, keyword arguments last."""
    return list(node._flat_arguments)


def outputs_of(node: Any) -> list[Any]:
    """The Keras tensors that the call made."""
    return list(tf.nest.flatten(node.outputs))


def sublayers_of(layer: Any) -> Iterator[Any]:
    """The layers that a layer holds directly, those in tracked lists and dicts among them."""
    return layer._flatten_layers(recursive=False, include_self=False)  # type: ignore[no-any-return]


def own_variables_of(layer: Any) -> list[Any]:
    """The variables that a layer owns itself, the trainable ones first, as Keras lists them."""
    return [*layer._trainable_weights, *layer._non_trainable_weights]


def made_to_train(layer: Any, variable: Any) -> bool:
    """Whether the layer made the variable to be trained, whatever its switch says now."""
    return any(own is variable for own in layer._trainable_weights)


def called_on(layer: Any) -> str:
    """What kind of value a layer was first called on, if ever: `variable`, `tensor` or the empty string.

    Keras keeps the specification of the first call's inputs for saving; a `tf.Variable` leaves a
    `VariableSpec` there, whether or not the call was recorded in a graph.
    """
    specs = tf.nest.flatten(getattr(layer, "_saved_model_inputs_spec", None))
    specs = [spec for spec in specs if spec is not None]
    if any(type(spec).__name__ == "VariableSpec" for spec in specs):
        return "variable"
    return "tensor" if specs else ""


def cut_source(tensor: Any) -> Any:
    """The layer that made the tensor which a model input stands for, where the input was cut out of a graph.

    `Model(intermediate, outputs)` clones the calls on the way and puts a new Input where the intermediate
    tensor was. What is left of it: the layer called on the new Input has an earlier call, with the same
    shapes, on the tensor that was replaced.

    Returns:
        The layer, or None where the input is an ordinary Input.
    """
    for node in tensor._keras_history.layer._outbound_nodes:
        arguments = arguments_of(node)
        places = [place for place, argument in enumerate(arguments) if argument is tensor]
        for earlier in node.layer._inbound_nodes:
            if earlier is node:
                break
            for place in places:
                twin = arguments_of(earlier)[place : place + 1]
                if (
                    twin
                    and is_keras_tensor(twin[0])
                    and not twin[0].node.is_input
                    and twin[0].shape.as_list() == tensor.shape.as_list()
                    and _placeholder_of_a_cut(tensor)
                ):
                    return maker_of(twin[0])
    return None


def _placeholder_of_a_cut(tensor: Any) -> bool:
    # An Input that the user makes is named after its layer; the one made for a cut keeps the name of the
    # nameless placeholder that `functional_utils._clone_keras_tensor` made.
    return str(tensor.name).startswith("Placeholder")
