"""The normal form of a graph: one way of writing for all the ways of building the same computation.

Nested models are laid out in line, an `activation=` becomes a step of its own, a raw operation that means the
same as a merge layer is written as that layer, sums of sums are one sum, and what does nothing is left out.
Names and what depends on them are gone, so that two normal forms can be compared step by step.
"""

from __future__ import annotations

import base64
import hashlib
import json
import marshal
import re
from dataclasses import dataclass, replace
from functools import cached_property
from types import CodeType
from typing import Any, Literal

import numpy as np

from autograder.graph.model import Call, Constant, Flow, Graph, Layer

Kind = Literal["input", "layer", "activation", "merge", "operation"]

Place = tuple[int, int]
"""Where a call is: the position in `Graph.layers` of the nested model whose flow it is in (-1 for the
outermost flow), and its position in `Flow.calls`."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where an argument comes from."""

    step: int
    """Position of the step that makes it, in `NormalForm.steps`."""
    output: int
    """Which of that step's outputs."""


Argument = Source | Constant


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happens in the forward pass; every step stands after those that made its arguments."""

    kind: Kind
    type: str
    """`Dense`, `Add`, `relu`, `tf.reshape`; `Input` for an input."""
    layer: int
    """Position in `Graph.layers` of the layer whose call this is."""
    part: bool
    """Whether it is the activation that another layer was given as `activation=`."""
    calls: tuple[Place, ...]
    """The call, after the calls of the nested models that it is inside of."""
    arguments: tuple[Argument, ...]
    config: str
    """The settings that matter, as JSON."""
    settings: str
    """The arguments that are no tensors, as text."""
    held: str
    """What the layer's sublayers do, as text."""
    variables: tuple[int, ...]
    """Positions in `Graph.variables` of those that the layer and its sublayers own."""
    inference: bool = False
    """Whether it is a batch normalization that was switched off, and so uses its moving statistics."""

    @property
    def commutative(self) -> bool:
        """Whether the order of the arguments makes no difference."""
        return self.type in _COMMUTATIVE

    @property
    def does(self) -> tuple[str, ...]:
        """What it does, whatever its arguments and whichever its variables."""
        return (self.kind, self.type, self.config, self.settings, self.held)


@dataclass(frozen=True)
class NormalForm:
    """The steps of a model's forward pass."""

    graph: Graph
    steps: tuple[Step, ...]
    inputs: tuple[int, ...]
    """The steps that the model's inputs are, in their order."""
    outputs: tuple[Source, ...]
    spare: tuple[int, ...]
    """Positions in `Graph.layers` of layers with variables that the model holds and no step uses."""

    @cached_property
    def users(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """For every step, the steps that take one of its outputs, each with the place among its arguments."""
        found: list[list[tuple[int, int]]] = [[] for _ in self.steps]
        for index, step in enumerate(self.steps):
            for place, argument in enumerate(step.arguments):
                if isinstance(argument, Source):
                    found[argument.step].append((index, place))
        return tuple(tuple(users) for users in found)

    @cached_property
    def ends(self) -> tuple[tuple[int, ...], ...]:
        """For every step, which of the model's outputs come from it."""
        found: list[list[int]] = [[] for _ in self.steps]
        for place, source in enumerate(self.outputs):
            found[source.step].append(place)
        return tuple(tuple(places) for places in found)

    @cached_property
    def uses(self) -> dict[int, tuple[tuple[int, int], ...]]:
        """For every variable, the steps that use it, each with the place among what it uses.

        The variables of the step's layer come first, then those that are arguments of the call.
        """
        found: dict[int, list[tuple[int, int]]] = {}
        for index, step in enumerate(self.steps):
            for place, variable in enumerate(used(step)):
                found.setdefault(variable, []).append((index, place))
        return {variable: tuple(places) for variable, places in found.items()}


def used(step: Step) -> tuple[int, ...]:
    """The variables that a step uses: those of its layer, then those it was called with."""
    called_with = (a.variable for a in step.arguments if isinstance(a, Constant) and a.variable is not None)
    return (*step.variables, *called_with)


def normal_form(graph: Graph) -> NormalForm:
    """Write a graph in its normal form.

    Two things the graph does not tell, and so they go by what they are called: a layer of a class of one's
    own by its class, a function in a `Lambda` by its name (a lambda expression by its code). Seeds of random
    numbers are left out.

    Args:
        graph: of a model that has a flow.

    Raises:
        ValueError: the graph has no flow.
    """
    if graph.flow is None:
        raise ValueError(f"Model '{graph.name}' has no graph of calls to put into a normal form.")
    return _Writer(graph).write(graph.flow)


def settings_of(layer: Layer) -> dict[str, Any]:
    """The settings of a layer that matter: without names, seeds, and what follows from where it is called."""
    return dict(_plain(json.loads(layer.config or "{}")))


# Layers whose class is one of these run the graph that they hold; another class may do anything in `call`.
_MODELS = frozenset({"Functional", "Sequential", "Model"})

_ASSOCIATIVE = frozenset({"Add", "Multiply", "Maximum", "Minimum"})

_COMMUTATIVE = _ASSOCIATIVE | {
    "Average",
    "tf.math.equal",
    "tf.math.not_equal",
    "tf.math.logical_and",
    "tf.math.logical_or",
    "tf.math.logical_xor",
    "tf.math.squared_difference",
}

_MERGES = {
    "tf.math.add": "Add",
    "tf.math.add_n": "Add",
    "tf.__operators__.add": "Add",
    "tf.math.multiply": "Multiply",
    "tf.math.maximum": "Maximum",
    "tf.math.minimum": "Minimum",
    "tf.math.subtract": "Subtract",
    "tf.concat": "Concatenate",
}

_ACTIVATIONS = {
    "tf.nn.relu": "relu",
    "tf.nn.relu6": "relu6",
    "tf.nn.elu": "elu",
    "tf.nn.selu": "selu",
    "tf.nn.gelu": "gelu",
    "tf.nn.silu": "swish",
    "tf.nn.swish": "swish",
    "tf.nn.softmax": "softmax",
    "tf.nn.softsign": "softsign",
    "tf.math.exp": "exponential",
    "tf.math.sigmoid": "sigmoid",
    "tf.math.softplus": "softplus",
    "tf.math.tanh": "tanh",
}

# The layers that apply `activation=` last, so that it is the same as an Activation behind them.
_ACTIVATED = frozenset(
    {
        "Dense",
        "EinsumDense",
        "Conv1D",
        "Conv2D",
        "Conv3D",
        "Conv1DTranspose",
        "Conv2DTranspose",
        "Conv3DTranspose",
        "DepthwiseConv1D",
        "DepthwiseConv2D",
        "SeparableConv1D",
        "SeparableConv2D",
        "LocallyConnected1D",
        "LocallyConnected2D",
    }
)

# Layers without variables that may themselves be given as `activation=`.
_ACTIVATION_LAYERS = frozenset({"ReLU", "LeakyReLU", "ELU", "Softmax", "ThresholdedReLU"})

# They say how a layer is called, where its class lives, or repeat the shape of what it was called on.
_LEFT_OUT = frozenset(
    {
        "batch_input_shape",
        "build_config",
        "input_layers",
        "key_shape",
        "module",
        "name",
        "output_layers",
        "output_shape_module",
        "query_shape",
        "registered_name",
        "seed",
        "trainable",
        "value_shape",
    }
)

_ZEROS = (0, 0.0, "array(0., dtype=float32)")

# Operations in which a text can only be the `name=` that the user gave.
_NAMED_ONLY = re.compile(
    r"tf\.(math|__operators__)\..*"
    r"|tf\.(concat|expand_dims|gather|identity|linalg\.matmul|one_hot|ones_like|repeat|reshape|squeeze|stack"
    r"|stop_gradient|tile|transpose|where|zeros_like)"
)


class _Writer:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._steps: list[Step] = []
        self._does: dict[int, str] = {}
        self._variables: dict[int, tuple[int, ...]] = {}
        self._configs: dict[str, dict[str, Any]] = {}

    def write(self, flow: Flow) -> NormalForm:
        outputs = self._lay_out(-1, flow, None, (), "")
        inputs = {place: index for index, step in enumerate(self._steps) for place in step.calls}
        steps, moved = _join(self._steps, {source.step for source in outputs if isinstance(source, Source)})
        met = {variable for step in steps for variable in used(step)}
        spare = tuple(
            layer.index for layer in self._graph.layers if layer.variables and met.isdisjoint(layer.variables)
        )
        return NormalForm(
            graph=self._graph,
            steps=tuple(steps),
            inputs=tuple(moved[inputs[(-1, tensor.call)]] for tensor in flow.inputs),
            outputs=tuple(Source(moved[s.step], s.output) for s in outputs if isinstance(s, Source)),
            spare=spare,
        )

    def inside(self, owner: int, flow: Flow) -> str:
        """What a model does that another layer holds, as text."""
        outputs = self._lay_out(owner, flow, None, (), "")
        return f"{[(step.does, step.arguments) for step in self._steps]} {outputs}"

    def _lay_out(
        self,
        owner: int,
        flow: Flow,
        given: tuple[Argument, ...] | None,
        path: tuple[Place, ...],
        settings: str,
    ) -> list[Argument]:
        """Write the steps of a flow; returns what its outputs are.

        Args:
            owner: the nested model whose flow it is; -1 for the outermost.
            flow: the calls.
            given: what the nested model was called on; None for the outermost.
            path: the calls of the nested models around it.
            settings: what else the nested model was called with, such as `training`.
        """
        made: dict[tuple[int, int], Argument] = {}
        ends = {tensor.call for tensor in flow.inputs}
        if given is not None:
            made = {(t.call, t.output): source for t, source in zip(flow.inputs, given, strict=True)}
        for call in flow.calls:
            place = (*path, (owner, call.index))
            if call.index in ends:
                if given is None:
                    made[(call.index, 0)] = self._input(call, place)
                continue
            layer = self._graph.layers[call.layer]
            arguments = tuple(
                a if isinstance(a, Constant) else made[(a.call, a.output)] for a in call.arguments
            )
            words = ", ".join(filter(None, [_settings(layer, call), settings]))
            if layer.flow and layer.type in _MODELS and len(arguments) == len(layer.flow.inputs):
                # Nesting is as deep as a person writes it, so this recursion is safe.
                results = self._lay_out(call.layer, layer.flow, arguments, place, words)
            else:
                results = self._call(call, layer, arguments, place, words)
            made.update({(call.index, output): result for output, result in enumerate(results)})
        return [made[(tensor.call, tensor.output)] for tensor in flow.outputs]

    def _add(self, step: Step, outputs: int = 1) -> list[Argument]:
        self._steps.append(step)
        return [Source(len(self._steps) - 1, output) for output in range(outputs)]

    def _input(self, call: Call, place: tuple[Place, ...]) -> Argument:
        tensor = call.outputs[0]
        config = json.loads(self._graph.layers[call.layer].config or "{}")
        # The number of rows is the caller's; a Sequential that saw one batch remembers its size.
        told: dict[str, Any] = {"shape": [None, *tensor.shape[1:]], "dtype": tensor.dtype}
        told |= {key: True for key in ("ragged", "sparse") if config.get(key)}
        step = Step("input", "Input", call.layer, False, place, (), json.dumps(told), "", "", ())
        return self._add(step)[0]

    def _call(
        self, call: Call, layer: Layer, arguments: tuple[Argument, ...], place: tuple[Place, ...], words: str
    ) -> list[Argument]:
        step = Step(
            kind="operation" if layer.operation else "layer",
            type=layer.type,
            layer=layer.index,
            part=False,
            calls=place,
            arguments=arguments,
            config="",
            settings=words,
            held="",
            variables=(),
        )
        config = self._config(layer)
        merge = _merge(step, call, config)
        if merge is not None:
            return self._add(merge)
        name = _activation(step, config)
        if name == "linear":
            return list(arguments)
        if name:
            return self._add(replace(step, kind="activation", type=name, settings=""))
        step = replace(
            step,
            variables=self._variables_of(layer),
            inference=layer.type.endswith("BatchNormalization") and not layer.trainable,
        )
        last = self._last(layer, config)
        if last is None:
            held, settings = self._held(layer, ""), json.dumps(config, sort_keys=True)
            return self._add(replace(step, config=settings, held=held), len(call.outputs))
        given = config["activation"]
        held_out = str(given["class_name"]) if isinstance(given, dict) else ""
        rest = json.dumps(
            {key: value for key, value in config.items() if key != "activation"}, sort_keys=True
        )
        results = self._add(replace(step, config=rest, held=self._held(layer, held_out)))
        if last.type == "linear":
            return results
        return self._add(replace(last, calls=place, arguments=tuple(results)))

    def _last(self, layer: Layer, config: dict[str, Any]) -> Step | None:
        """The step that a layer's `activation=` is, still without arguments; None where it can't be split."""
        given = config.get("activation")
        # A penalty on the layer's activity is on what comes out behind the activation.
        if layer.type not in _ACTIVATED or not given or config.get("activity_regularizer"):
            return None
        empty = Step("activation", "", layer.index, True, (), (), "", "", "", ())
        if isinstance(given, str):
            return replace(empty, type=_alias(given))
        if isinstance(given, dict) and given.get("class_name") in _ACTIVATION_LAYERS:
            own = dict(given.get("config", {}))
            own_step = replace(empty, kind="layer", type=str(given["class_name"]))
            name = _activation(own_step, own)
            if name:
                return replace(empty, type=name)
            return replace(own_step, config=json.dumps(own, sort_keys=True))
        return None

    def _config(self, layer: Layer) -> dict[str, Any]:
        # Many layers have the same settings: a text is read once.
        if layer.config not in self._configs:
            self._configs[layer.config] = settings_of(layer)
        return self._configs[layer.config]

    def _variables_of(self, layer: Layer) -> tuple[int, ...]:
        if layer.index not in self._variables:
            found = self._graph.variables_of(layer)
            self._variables[layer.index] = tuple(variable.index for variable in found)
        return self._variables[layer.index]

    def _held(self, layer: Layer, left_out: str) -> str:
        """What a layer's sublayers do, but for those of one type."""
        held = (self._graph.layers[index] for index in layer.sublayers)
        return ", ".join(self._what(one) for one in held if one.type != left_out)

    def _what(self, layer: Layer) -> str:
        """What a held layer does, as text."""
        if layer.index not in self._does:
            self._does[layer.index] = layer.type  # for a layer that holds its holder
            if layer.flow and layer.type in _MODELS:
                text = f"{layer.type} {_Writer(self._graph).inside(layer.index, layer.flow)}"
            else:
                text = f"{layer.type} {json.dumps(self._config(layer), sort_keys=True)}"
                held = self._held(layer, "")
                text += f" holds ({held})" if held else ""
            self._does[layer.index] = text
        return self._does[layer.index]


def _join(steps: list[Step], ends: set[int]) -> tuple[list[Step], dict[int, int]]:
    """Write a sum of sums as one sum, where nothing else takes the inner one; likewise products and so on.

    Returns:
        The steps that remain, and for each old position the new one.
    """
    users: dict[int, int] = {}
    for step in steps:
        for argument in step.arguments:
            if isinstance(argument, Source):
                users[argument.step] = users.get(argument.step, 0) + 1
    joined: dict[int, Step] = {}
    absorbed: set[int] = set()
    for index, step in enumerate(steps):
        if step.type in _ASSOCIATIVE and not step.settings and not step.config:
            arguments: list[Argument] = []
            for argument in step.arguments:
                inner = joined.get(argument.step) if isinstance(argument, Source) else None
                if (
                    isinstance(argument, Source)
                    and inner is not None
                    and (inner.type, inner.settings, inner.config) == (step.type, "", "")
                    and users[argument.step] == 1
                    and argument.step not in ends
                ):
                    arguments.extend(inner.arguments)
                    absorbed.add(argument.step)
                else:
                    arguments.append(argument)
            step = replace(step, arguments=tuple(arguments))
        joined[index] = step
    kept = [index for index in range(len(steps)) if index not in absorbed]
    moved = {index: place for place, index in enumerate(kept)}
    result = []
    for index in kept:
        arguments = [
            Source(moved[a.step], a.output) if isinstance(a, Source) else a for a in joined[index].arguments
        ]
        result.append(replace(joined[index], arguments=tuple(arguments)))
    return result, moved


def _merge(step: Step, call: Call, config: dict[str, Any]) -> Step | None:
    """The step as a merge layer, where it is one or means the same; else None."""
    kind = _MERGES.get(step.type, "") if step.kind == "operation" else step.type
    if kind not in _MERGES.values() and kind != "Average":
        return None
    rank = len(call.outputs[0].shape)
    if kind == "Concatenate":
        axis = config.get("axis") if step.kind == "layer" else _number(step.settings)
        if not isinstance(axis, int | float):
            return None
        place = int(axis) % rank if rank else int(axis)
        return replace(step, kind="merge", type=kind, config=json.dumps({"axis": place}), settings="")
    arguments, settings = step.arguments, step.settings
    if step.kind == "operation" and (value := _number(settings)) is not None:
        # `x * 2.0` keeps the number among the settings, `2.0 * x` makes a constant of it.
        dtype = call.inputs[0].dtype
        digest = hashlib.sha256(np.asarray(value, dtype).tobytes()).hexdigest()[:16]
        arguments, settings = (*arguments, Constant((), dtype, digest=digest)), ""
    ranks = {len(argument.shape) for argument in call.arguments} - {0}
    # Arguments of unequal ranks are lined up from the left by Keras and from the right by TensorFlow.
    told = json.dumps({"lined up by": "Keras" if step.kind == "layer" else "TensorFlow"})
    return replace(
        step,
        kind="merge",
        type=kind,
        config=told if len(ranks) > 1 else "",
        settings=settings,
        arguments=arguments,
    )


def _activation(step: Step, config: dict[str, Any]) -> str:
    """The name of the activation that the step is; empty where it is something else."""
    if step.kind == "operation":
        plain = step.settings in ("", "-1") if step.type == "tf.nn.softmax" else not step.settings
        return _ACTIVATIONS.get(step.type, "") if plain else ""
    if step.type == "Activation" and isinstance(config.get("activation"), str):
        return _alias(config["activation"])
    if step.type == "ReLU" and config.get("negative_slope") in _ZEROS and config.get("threshold") in _ZEROS:
        top = config.get("max_value")
        return "relu" if top is None else "relu6" if top in (6, "array(6., dtype=float32)") else ""
    if step.type == "ELU" and config.get("alpha") in (1, "array(1., dtype=float32)"):
        return "elu"
    if step.type == "Softmax" and config.get("axis") == -1:
        return "softmax"
    return ""


def _alias(activation: str) -> str:
    return "swish" if activation == "silu" else activation


def _settings(layer: Layer, call: Call) -> str:
    """A call's settings without the name it was given and without defaults at the end."""
    if layer.type == "tf.__operators__.getitem":
        return call.settings  # every None in a slice has its place
    words = call.settings.split(", ") if call.settings else []
    if layer.operation and (_NAMED_ONLY.fullmatch(layer.type) or layer.type in _ACTIVATIONS):
        words = [word for word in words if not word.startswith(("'", '"'))]
    while words and words[-1] == "None":
        words.pop()
    return ", ".join(words)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _plain(value: Any) -> Any:
    """A layer's settings without names, seeds, places in memory and places in a file."""
    if isinstance(value, dict):
        if value.get("class_name") in _MODELS:
            return value["class_name"]  # the model's graph is among the layers that the layer holds
        return {key: _plain(entry) for key, entry in value.items() if key not in _LEFT_OUT}
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    if isinstance(value, str):
        return _code(value) or re.sub(r" at 0x[0-9a-f]+", "", value)
    return value


def _code(text: str) -> str:
    """What a lambda expression computes, for Keras' serialized form of one; empty for any other text.

    That form also holds the file and the line where the expression stands, and the names of its arguments.
    """
    if not text.startswith("4w"):  # a code object, in marshal's format, in base64
        return ""
    try:
        code = marshal.loads(base64.b64decode(text))
    except (EOFError, TypeError, ValueError):
        return ""
    return hashlib.sha256(_instructions(code).encode()).hexdigest() if isinstance(code, CodeType) else ""


def _instructions(code: CodeType) -> str:
    inside = [
        _instructions(c) if isinstance(c, CodeType) else repr(c)
        for c in code.co_consts
        # A nested function's qualified name is kept among the constants.
        if not (isinstance(c, str) and "<lambda>" in c)
    ]
    return f"{code.co_code.hex()} {inside} {code.co_names} {code.co_freevars}"
