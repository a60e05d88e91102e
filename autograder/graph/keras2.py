"""What Keras 2.15 remembers of a model, under the names it gives to it.

Together with `trace` the only place that reads Keras' underscore attributes: for another version of Keras,
write another module with these functions. Read from keras 2.15.0: `engine/node.py` (a node is one call),
`engine/base_layer.py` (tracking of sublayers and weights), `engine/functional_utils.py` (cutting a graph).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras.src import backend
from keras.src.engine.base_layer import AddLoss, AddMetric
from keras.src.engine.base_layer_utils import call_context
from keras.src.engine.functional import Functional
from keras.src.engine.keras_tensor import KerasTensor
from tensorflow.python.eager import context
from tensorflow.python.ops import stateful_random_ops

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


def identity(variable: Any) -> int:
    """What tells one variable from another. Under mixed precision Keras wraps the variable that a tape sees."""
    return id(getattr(variable, "_variable", variable))


def is_eager(value: Any) -> bool:
    """Whether the value is a plain tensor that holds numbers."""
    return isinstance(value, tf.Tensor) and hasattr(value, "numpy")


def is_input(layer: Any) -> bool:
    """Whether the layer is what `Input(…)` makes."""
    return isinstance(layer, keras.layers.InputLayer)


def is_operation(layer: Any) -> bool:
    """Whether the layer is a raw TensorFlow operation that Keras wrapped."""
    return type(layer).__name__ in _OPERATIONS


def operation_name(layer: Any) -> str:
    """The operation that such a layer runs, such as `tf.math.multiply`."""
    symbol = getattr(layer, "symbol", None)
    if symbol is None:
        return "tf.__operators__.getitem" if type(layer).__name__ == "SlicingOpLambda" else str(layer.name)
    return f"tf.{symbol}"


def reason_of(error: BaseException) -> str:
    """What an error says in one line. Keras' first line names the layer, and the reason stands below it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith("Exception encountered when calling"):
        lines = lines[1:]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def inputs_and_outputs(model: Any) -> tuple[list[Any], list[Any]] | None:
    """The Keras tensors at both ends of a model's graph, or None where Keras has recorded no graph."""
    if not getattr(model, "_is_graph_network", False) or model.outputs is None:
        return None
    return list(model.inputs), list(model.outputs)


def loss_ends_of(model: Any) -> list[Any]:
    """What `model.add_loss(tensor)` and `model.add_metric(tensor)` hang on a graph beside its outputs."""
    ends: list[Any] = []
    for layer in sublayers_of(model):
        if isinstance(layer, AddLoss | AddMetric):
            ends.extend(tensor for node in layer._inbound_nodes for tensor in outputs_of(node))
    return ends


def names_of_inputs(model: Any) -> list[str]:
    """The keys under which data for a model's inputs may come, in the order of its inputs."""
    nested = getattr(model, "_nested_inputs", None)
    return sorted(nested) if isinstance(nested, dict) else list(model.input_names)


def names_of_outputs(model: Any) -> list[str]:
    """The keys under which losses and targets may come, in the order of the outputs; empty if there are none."""
    nested = getattr(model, "_nested_outputs", None)
    return sorted(nested) if isinstance(nested, dict) else list(getattr(model, "output_names", None) or [])


def first_called_with(model: Any) -> Any:
    """The structure of `tf.TensorSpec` that a model was first called on; None before its first call."""
    return getattr(model, "_saved_model_inputs_spec", None)


def fill_structure(structure: Any, make: Callable[[tuple[int | None, ...], str], Any]) -> Any:
    """The structure of `first_called_with` with a value in place of each specification.

    Args:
        structure: as from `first_called_with`.
        make: gives the value for a shape and a dtype.
    """
    return tf.nest.map_structure(lambda spec: make(tuple(spec.shape.as_list()), spec.dtype.name), structure)


def values_in(outputs: Any) -> list[Any]:
    """The arrays in what a model gave, one for each output; lists of plain numbers are one array."""
    values = tf.nest.flatten(outputs)
    if all(isinstance(value, bool | int | float) for value in values):
        return [np.asarray(outputs)]
    return [np.asarray(value) for value in values]


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
    """The variables that a layer owns itself or in a plain `tf.Module`, the trainable ones first."""
    modules = layer._flatten_modules(recursive=False, include_self=False)
    held = [variable for module in modules if not is_layer(module) for variable in module.variables]
    own = [*layer._trainable_weights, *layer._non_trainable_weights, *held]
    # A vocabulary (StringLookup, TextVectorization) stands among the weights and is no variable.
    return [variable for variable in own if is_variable(variable)]


def variables_of(layer: Any) -> list[Any]:
    """The distinct variables that a layer or model tracks; none before a model is built."""
    try:
        return list({id(variable): variable for variable in layer.weights if is_variable(variable)}.values())
    except ValueError:
        return []


def parameters_in(layer: Any) -> int:
    """The number of parameters in the distinct variables that a layer or model tracks."""
    return sum(int(np.prod(variable.shape)) for variable in variables_of(layer))


def weights_of(model: Any) -> tuple[list[Any], list[Any]] | None:
    """All the variables that a model tracks and those that `fit` trains; None before it is built."""
    try:
        weights = [variable for variable in model.weights if is_variable(variable)]
        return weights, list(model.trainable_variables)
    except ValueError:
        return None


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


def call_again(node: Any, values: dict[int, Any]) -> list[Any]:
    """Repeat a recorded call on real values.

    Args:
        node: the recorded call.
        values: the value to put for each Keras tensor among the arguments, by the tensor's `id`.

    Returns:
        What the layer gave, flattened, in the order of `outputs_of(node)`.
    """
    flat = [values[id(a)] if is_keras_tensor(a) else a for a in arguments_of(node)]
    args, kwargs = tf.nest.pack_sequence_as((node.call_args, node.call_kwargs), flat)
    return list(tf.nest.flatten(node.layer(*args, **kwargs)))


def runs_its_graph(model: Any) -> bool:
    """Whether calling the model runs its recorded graph, and not a `call` that a subclass wrote."""
    return type(model).call in (Functional.call, keras.Sequential.call)


def training(model: Any) -> AbstractContextManager[Any]:
    """While it is entered, layers that are called behave as in `fit` (dropout drops, statistics move)."""
    return call_context().enter(layer=model, inputs=None, build_graph=False, training=True)  # type: ignore[no-any-return]


def states_of(layers: Iterable[Any]) -> list[Any]:
    """The variables in which stateful RNNs keep their state from batch to batch; they are no weights."""
    states = [state for layer in layers for state in tf.nest.flatten(getattr(layer, "states", None))]
    return [state for state in states if is_variable(state)]


def metric_variables_of(model: Any, layers: Iterable[Any]) -> list[Any]:
    """The variables of all metrics, those that layers add for themselves among them."""
    metrics = [*model.metrics, *(metric for layer in layers for metric in layer._metrics)]
    return [variable for metric in metrics for variable in metric.variables]


def added_losses_of(layers: Iterable[Any]) -> list[Any]:
    """What layers added to the loss since `unchanged` was entered: activity, `add_loss`, and regularizers."""
    losses = []
    for layer in layers:
        losses.extend(layer._eager_losses)
        losses.extend(loss for regularizer in layer._callable_losses if (loss := regularizer()) is not None)
    return losses


@contextmanager
def unchanged(layers: Iterable[Any]) -> Iterator[None]:
    """Leave what layers gather while they are called (losses, metrics, variables made late) as it was."""
    lists = [
        own
        for layer in layers
        for own in (layer._trainable_weights, layer._non_trainable_weights, layer._metrics)
    ]
    lengths = [len(own) for own in lists]
    losses = [(layer, layer._eager_losses) for layer in layers]
    for layer, _ in losses:
        layer._eager_losses = []
    try:
        yield
    finally:
        for own, length in zip(lists, lengths, strict=True):
            del own[length:]
        for layer, before in losses:
            layer._eager_losses = before


@contextmanager
def unchanged_random_state(layers: Iterable[Any]) -> Iterator[None]:
    """Draw from other random streams meanwhile; leave those of TensorFlow, Keras and the layers alone.

    Putting a seed counter back is not enough: TensorFlow keeps a generator for every seed that an eager
    operation was called with, and that generator would have moved on. So other seeds are used inside.

    Args:
        layers: the layers that will be called.
    """
    drawers = [layer._random_generator for layer in layers if hasattr(layer, "_random_generator")]
    seeds = [drawer._seed for drawer in drawers]
    generators = [drawer._generator for drawer in drawers if getattr(drawer, "_generator", None)]
    shared = stateful_random_ops.global_generator
    states = [generator.state for generator in [*generators, *([shared] if shared else [])]]
    kept = [tf.identity(state) for state in states]
    eager = context.context()
    operation_seeds = getattr(eager, "_rng", None)  # only there once a global seed was set
    keras_seeds = getattr(backend._SEED_GENERATOR, "generator", None)
    python_state, numpy_state = random.getstate(), np.random.get_state()  # noqa: NPY002
    other = random.Random(f"autograder {eager._seed}")
    try:
        if operation_seeds:
            eager._rng = other
        if keras_seeds:
            backend._SEED_GENERATOR.generator = other
        for drawer, seed in zip(drawers, seeds, strict=True):
            if seed is not None:
                drawer._seed = other.randrange(2**30, 2**31 - 1)
        yield
    finally:
        if operation_seeds:
            eager._rng = operation_seeds
        if keras_seeds:
            backend._SEED_GENERATOR.generator = keras_seeds
        for drawer, seed in zip(drawers, seeds, strict=True):
            drawer._seed = seed
        for state, before in zip(states, kept, strict=True):
            state.assign(before)
        random.setstate(python_state)
        np.random.set_state(numpy_state)  # noqa: NPY002


def plain_descent() -> Any:
    """Gradient descent with a step of 1: it moves whatever has a gradient that is not zero."""
    return keras.optimizers.SGD(1.0)


def compiled_loss(model: Any) -> Any:
    """The loss given to `compile`, in the form in which it was given; None for a model not compiled."""
    # `compile` without a loss leaves an empty dict.
    return getattr(model, "loss", None) or None


def loss_value(model: Any, loss: Any, outputs: list[Any], targets: Any) -> tuple[Any, str]:
    """The sum of the losses of all outputs, without touching the model's own loss objects and metrics.

    Args:
        model: the model whose outputs they are.
        loss: what `compile(loss=…)` takes: a name, a function, an object, or a list or dict of them.
        outputs: the model's output values.
        targets: what `fit` takes, or None: then targets are made from the outputs.

    Returns:
        A scalar tensor and the names of the losses.

    Raises:
        ValueError: a loss is given for an output that the model does not have.
    """
    names = names_of_outputs(model) or [str(place) for place in range(len(outputs))]
    if isinstance(loss, dict):
        if unknown := set(loss) - set(names):
            raise ValueError(
                f"a loss for {', '.join(map(repr, unknown))}, but the outputs are {', '.join(names)}"
            )
        losses = [loss.get(name) for name in names]
    else:
        losses = list(loss) if isinstance(loss, list | tuple) else [loss] * len(outputs)
    if isinstance(targets, dict):
        wanted = [targets.get(name) for name in names]
    else:
        wanted = [None] * len(outputs) if targets is None else list(tf.nest.flatten(targets))
    total = tf.zeros([])
    words = []
    for one, output, target in zip(losses, outputs, wanted, strict=True):
        if one is None:
            continue
        function = keras.losses.get(one)
        name = getattr(function, "name", None) or getattr(function, "__name__", type(function).__name__)
        words.append(str(name))
        given = _made_target(str(name), output) if target is None else tf.convert_to_tensor(target)
        total += tf.reduce_mean(tf.cast(function(given, output), tf.float32))
    return total, " + ".join(dict.fromkeys(words))


def _made_target(name: str, output: Any) -> Any:
    random = np.random.default_rng(2)
    if name.startswith("sparse"):
        return tf.constant(random.integers(0, output.shape[-1], output.shape[:-1]))
    if "crossentropy" in name or "kl" in name:
        values = random.random(output.shape)
        if output.shape.rank and output.shape[-1] > 1:
            values /= values.sum(-1, keepdims=True)
        return tf.cast(values, output.dtype)
    return tf.cast(random.standard_normal(output.shape), output.dtype)
