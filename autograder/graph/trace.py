"""Read a model: walk back from its outputs and write down what is met."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from autograder.graph import keras2 as keras
from autograder.graph.model import Call, Constant, Flow, Graph, Layer, Role, Shape, Tensor, Variable


@dataclass(frozen=True)
class Trace:
    """A graph beside the live objects that it was read from, position by position."""

    graph: Graph
    model: Any
    layers: tuple[Any, ...]
    """The Keras layer of each entry of `graph.layers`."""
    variables: tuple[Any, ...]
    """The TensorFlow variable of each entry of `graph.variables`."""
    nodes: dict[int, tuple[Any, ...]]
    """Keras' record of each call: those of `graph.calls` under -1, those inside a nested model under the
    position of that model in `graph.layers`."""

    def index_of(self, layer: Any) -> int | None:
        """The position of a live layer in `graph.layers`, by identity; None where it is not in the model."""
        return next((index for index, own in enumerate(self.layers) if own is layer), None)


def trace(model: Any) -> Graph:
    """Read which layers, calls and variables belong to a Keras model.

    A Functional or Sequential model is walked back from its outputs to its inputs, nested models inside it
    too. A subclassed model has no record of calls: its layers and variables are read, `flow` is None.

    Args:
        model: a Keras 2.15 model. It is only read.

    Returns:
        The graph; equal for two runs of one program.

    Raises:
        TypeError: the argument is not a Keras model.
    """
    return read(model).graph


def read(model: Any, *, configs: bool = True) -> Trace:
    """The graph of a model together with its live layers and variables.

    Args:
        model: a Keras model.
        configs: whether to read each layer's settings, which costs more than all the rest.

    Raises:
        TypeError: the argument is not a Keras model.
    """
    if not keras.is_model(model):
        raise TypeError(
            f"Expected a Keras model (tf.keras.Model, Sequential or a subclass). Received: {describe(model)}."
        )
    return _Reader(configs).read(model)


def describe(value: Any) -> str:
    """What a value is, in a few words, for messages: a learner often hands in the tensor for the model."""
    if keras.is_keras_tensor(value):
        return f"a Keras tensor, made by layer '{keras.maker_of(value).name}'"
    if keras.is_model(value):
        return f"the model '{value.name}'"
    if keras.is_layer(value):
        return f"the layer '{value.name}' ({type(value).__name__})"
    if keras.is_variable(value):
        return f"a tf.Variable of shape {tuple(value.shape.as_list())}"
    if value is None:
        return "None"
    return f"{type(value).__name__} {value!r:.60}"


class _Reader:
    """One reading of one model; holds what has been met so far, by identity."""

    def __init__(self, configs: bool) -> None:
        self._configs = configs
        self._layers: list[Any] = []
        self._layer_at: dict[int, int] = {}
        self._variables: list[Any] = []
        self._variable_at: dict[int, int] = {}
        self._flow_of: dict[int, Flow] = {}
        self._nodes: dict[int, tuple[Any, ...]] = {}

    def read(self, model: Any) -> Trace:
        ends = keras.inputs_and_outputs(model)
        flow = self._walk(-1, *ends, keras.loss_ends_of(model)) if ends else None
        cut, cut_from = self._cuts(ends[0]) if ends else ((), ())
        held = list(keras.sublayers_of(model))
        self._meet_all(held)
        for variable in keras.own_variables_of(model):
            self._meet_variable(variable)

        records: list[Layer] = []
        for index, layer in enumerate(self._layers):
            records.append(self._record(index, layer))
        variables = self._record_variables(model)
        graph = Graph(
            name=str(model.name),
            kind=self._kind(model, ends is not None),
            keras=keras.VERSION,
            layers=tuple(records),
            variables=variables,
            flow=flow,
            held=tuple(self._layer_at[id(layer)] for layer in held),
            cut=cut,
            cut_from=cut_from,
            built=bool(model.built),
        )
        return Trace(graph, model, tuple(self._layers), tuple(self._variables), self._nodes)

    @staticmethod
    def _kind(model: Any, recorded: bool) -> Literal["functional", "sequential", "subclassed"]:
        if any(base.__name__ == "Sequential" for base in type(model).__mro__):
            return "sequential"
        return "functional" if recorded else "subclassed"

    def _walk(self, owner: int, inputs: list[Any], outputs: list[Any], losses: list[Any]) -> Flow:
        """Collect the calls behind the outputs. Without recursion: a model may be 10,000 layers deep."""
        order: list[Any] = []  # nodes, each after the nodes that it needs
        placed: set[int] = set()
        entered: set[int] = set()
        input_nodes = {id(keras.node_of(tensor)) for tensor in inputs}
        # Unused inputs belong to the model too, so the walk starts from them as well.
        waiting = [keras.node_of(tensor) for tensor in reversed([*inputs, *outputs, *losses])]
        while waiting:
            node = waiting[-1]
            if id(node) in placed:
                waiting.pop()
                continue
            if id(node) in entered or id(node) in input_nodes:
                waiting.pop()
                placed.add(id(node))
                order.append(node)
                continue
            entered.add(id(node))
            behind = [keras.node_of(a) for a in keras.arguments_of(node) if keras.is_keras_tensor(a)]
            waiting.extend(before for before in reversed(behind) if id(before) not in placed)

        self._nodes[owner] = tuple(order)
        position = {id(node): index for index, node in enumerate(order)}
        self._meet_all(node.layer for node in order)
        numbers: dict[int, int] = {}
        calls: list[Call] = []
        for index, node in enumerate(order):
            layer = self._layer_at[id(node.layer)]
            number = numbers.get(layer, 0)
            numbers[layer] = number + 1
            arguments, settings = self._arguments(node, position) if id(node) not in input_nodes else ((), "")
            tensors = tuple(self._tensor(tensor, position) for tensor in keras.outputs_of(node))
            calls.append(Call(index, layer, number, arguments, tensors, settings))
        return Flow(
            calls=tuple(calls),
            inputs=tuple(self._tensor(tensor, position) for tensor in inputs),
            outputs=tuple(self._tensor(tensor, position) for tensor in outputs),
        )

    def _arguments(self, node: Any, position: dict[int, int]) -> tuple[tuple[Tensor | Constant, ...], str]:
        arguments: list[Tensor | Constant] = []
        settings: list[str] = []
        for argument in keras.arguments_of(node):
            if keras.is_keras_tensor(argument):
                arguments.append(self._tensor(argument, position))
            elif keras.is_variable(argument):
                index = self._meet_variable(argument)
                arguments.append(Constant(_shape(argument), _dtype(argument), variable=index))
            elif hasattr(argument, "shape") and hasattr(argument, "dtype"):
                value = np.asarray(argument)
                digest = hashlib.sha256(value.tobytes()).hexdigest()[:16]
                arguments.append(Constant(value.shape, str(value.dtype), digest=digest))
            else:
                settings.append(_plain(argument))
        return tuple(arguments), ", ".join(settings)

    @staticmethod
    def _tensor(tensor: Any, position: dict[int, int]) -> Tensor:
        node = keras.node_of(tensor)
        return Tensor(position[id(node)], keras.position_of(tensor), _shape(tensor), _dtype(tensor))

    def _meet_all(self, layers: Iterable[Any]) -> None:
        """Give numbers to layers and to all that they hold, each held layer after its holder."""
        waiting = list(reversed(list(layers)))
        while waiting:
            layer = waiting.pop()
            if id(layer) in self._layer_at:
                continue
            self._layer_at[id(layer)] = len(self._layers)
            self._layers.append(layer)
            for variable in keras.own_variables_of(layer):
                self._meet_variable(variable)
            ends = keras.inputs_and_outputs(layer) if keras.is_model(layer) else None
            if ends:
                # Nesting is as deep as a person writes it, so this one recursion is safe.
                self._flow_of[id(layer)] = self._walk(
                    self._layer_at[id(layer)], *ends, keras.loss_ends_of(layer)
                )
            waiting.extend(reversed(list(keras.sublayers_of(layer))))

    def _meet_variable(self, variable: Any) -> int:
        index = self._variable_at.setdefault(id(variable), len(self._variables))
        if index == len(self._variables):
            self._variables.append(variable)
        return index

    def _record(self, index: int, layer: Any) -> Layer:
        operation = keras.is_operation(layer)
        return Layer(
            index=index,
            name=str(layer.name),
            type=keras.operation_name(layer) if operation else type(layer).__name__,
            operation=operation,
            variables=tuple(self._variable_at[id(variable)] for variable in keras.own_variables_of(layer)),
            sublayers=tuple(dict.fromkeys(self._layer_at[id(held)] for held in keras.sublayers_of(layer))),
            trainable=bool(layer.trainable),
            # An operation has nothing to build and never says that it is built.
            built=operation or bool(layer.built) or keras.is_input(layer),
            flow=self._flow_of.get(id(layer)),
            config=_config(layer) if self._configs and not operation else "",
        )

    def _record_variables(self, model: Any) -> tuple[Variable, ...]:
        weights = keras.weights_of(model)
        if weights is None:  # not built: what there is already belongs to layers that were built beforehand
            weights = self._variables, [variable for variable in self._variables if variable.trainable]
        tracked, trained = ({id(variable) for variable in some} for some in weights)
        records = []
        for index, variable in enumerate(self._variables):
            role: Role = "state"
            if id(variable) in trained:
                role = "trainable"
            elif variable.trainable:
                # Made to be trained, and yet not: switched off, if it is the model's at all.
                role = "frozen" if id(variable) in tracked else "trainable"
            records.append(
                Variable(
                    index=index,
                    name=str(variable.name),
                    shape=_shape(variable),
                    dtype=_dtype(variable),
                    role=role,
                    tracked=id(variable) in tracked,
                )
            )
        return tuple(records)

    def _cuts(self, inputs: list[Any]) -> tuple[tuple[tuple[int, int], ...], tuple[str, ...]]:
        cuts, names = [], []
        for place, tensor in enumerate(inputs):
            source = keras.cut_source(tensor)
            if source is not None:
                cuts.append((place, self._layer_at.get(id(source), -1)))
                names.append(str(source.name))
        return tuple(cuts), tuple(names)


def _shape(value: Any) -> Shape:
    if value.shape.rank is None:
        return ()
    return tuple(value.shape.as_list())


def _dtype(value: Any) -> str:
    return str(value.dtype.name)


# An address differs from run to run, and a graph must not.
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def _plain(value: Any) -> str:
    name = getattr(value, "__name__", None)
    return str(name) if callable(value) and name else _ADDRESS.sub("", repr(value))


def _config(layer: Any) -> str:
    try:
        config = dict(layer.get_config())
    except Exception:  # a custom layer may have no config, or one that raises: then it equals only itself
        return ""
    config.pop("name", None)
    config.pop("layers", None)  # a nested model's graph is compared call by call
    return _ADDRESS.sub("", json.dumps(config, sort_keys=True, default=_plain))
