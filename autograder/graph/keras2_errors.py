"""What an error that Keras 2.15 raises while a model is built leaves behind: the live objects in its frames.

Beside `keras2` and `trace` the only place that knows Keras' private names: for another version of Keras,
write another module that gives the same facts. A frame is recognised by the identity of its code, so a
function of the same name elsewhere is never taken for Keras' own.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType, TracebackType
from typing import Any, Literal

import tensorflow as tf
from keras.src.engine import functional, functional_utils, input_spec
from keras.src.engine.keras_tensor import KerasTensor
from keras.src.engine.sequential import Sequential
from keras.src.layers.core import tf_op_layer
from keras.src.layers.core.lambda_layer import Lambda

from autograder.graph import keras2 as keras


@dataclass(frozen=True)
class Disconnected:
    """A model's outputs need an Input that is not among the model's inputs."""

    missing: Any
    """The Keras tensor that is needed."""
    reader: Any
    """The layer whose call needs it."""
    inputs: list[Any]
    outputs: list[Any]


@dataclass(frozen=True)
class Unused:
    """A model was cut out of a graph, and an input that was named is not on the way to its outputs."""

    inputs: list[Any]
    """The Keras tensors that no output needs."""


@dataclass(frozen=True)
class NoTensor:
    """A model was given something else than a Keras tensor for an input or an output."""

    value: Any
    end: Literal["input", "output"]


@dataclass(frozen=True)
class LayerGiven:
    """A layer was called on a layer, not on the tensor that it made."""

    value: Any
    """The layer that was given."""


@dataclass(frozen=True)
class NeedsNumbers:
    """A function that Keras cannot wrap was given a Keras tensor, or a Python function that holds one."""

    tensor: Any
    """The Keras tensor; None where it is known only that there was one."""
    function: Any = None
    """The function that Keras tried to wrap, where it did."""


@dataclass(frozen=True)
class GivesNothing:
    """A TensorFlow function that Keras wraps gives no tensor, such as `tf.print`."""

    function: Any


@dataclass(frozen=True)
class Undecidable:
    """Python asked a tensor without values whether it is true, or how long it is."""

    tensor: Any
    """The Keras tensor; None for the placeholder that a layer's function is traced with."""


@dataclass(frozen=True)
class Uniterable:
    """Python asked a Keras tensor for its parts, and their number is not known."""

    tensor: Any


@dataclass(frozen=True)
class Unhashable:
    """A Keras tensor was put into a set, or used as a key."""

    tensor: Any


@dataclass(frozen=True)
class LambdaVariables:
    """Variables were made while a Lambda was called."""

    layer: Any
    """The Lambda, or the layer that wraps a TensorFlow function."""
    variables: list[Any]
    layers: list[Any]
    """The layers that the Lambda's function reaches and that own them."""


@dataclass(frozen=True)
class RepeatedName:
    """Layers of one model have one name."""

    name: str
    layers: list[Any]


Fact = (
    Disconnected
    | Unused
    | NoTensor
    | LayerGiven
    | NeedsNumbers
    | GivesNothing
    | Undecidable
    | Uniterable
    | Unhashable
    | LambdaVariables
    | RepeatedName
)


def fact_of(error: BaseException) -> Fact | None:
    """What happened, told from the traceback of an error; None for an error of another kind."""
    steps = []
    step = error.__traceback__
    while step is not None:
        steps.append(step)
        step = step.tb_next
    for step in reversed(steps):
        read = _READERS.get(step.tb_frame.f_code)
        if read is not None:
            return read(step.tb_frame.f_locals, error)
    return _without_a_reader(error, steps[-1]) if steps else None


def _code(function: Any) -> CodeType:
    code: CodeType = inspect.unwrap(function).__code__
    return code


def _mapping(names: dict[str, Any], error: BaseException) -> Fact | None:
    """`Model(inputs, outputs)` walks back, then compares the names of the layers it met."""
    if {"all_names", "name", "layers"} <= names.keys():
        repeated = names["name"]
        return RepeatedName(repeated, [layer for layer in names["layers"] if layer.name == repeated])
    if {"x", "layer", "inputs", "outputs"} <= names.keys():
        return Disconnected(
            names["x"],
            names["layer"],
            list(tf.nest.flatten(names["inputs"])),
            list(tf.nest.flatten(names["outputs"])),
        )
    return None


def _cutting(names: dict[str, Any], error: BaseException) -> Fact | None:
    """`Model(inputs, outputs)` with an intermediate tensor among the inputs."""
    if "unvisited_inputs" in names:
        return Unused(list(names["unvisited_inputs"]))
    if "kt" in names and "node" in names:
        return Disconnected(
            names["kt"], names["node"].layer, names["end_keras_tensors"], names["start_keras_tensors"]
        )
    if "t" in names:
        at_the_end = any(names["t"] is tensor for tensor in names["start_keras_tensors"])
        return NoTensor(names["t"], "output" if at_the_end else "input")
    return None


def _validating(names: dict[str, Any], error: BaseException) -> Fact | None:
    value = names.get("x")
    if "x" not in names or keras.is_keras_tensor(value):
        return None
    inputs = list(tf.nest.flatten(names["self"].inputs))
    return NoTensor(value, "input" if any(value is one for one in inputs) else "output")


def _input_expected(names: dict[str, Any], error: BaseException) -> Fact | None:
    return NoTensor(names["tensor"], "input") if isinstance(error, ValueError) else None


def _layer_called(names: dict[str, Any], error: BaseException) -> Fact | None:
    value = names.get("x")
    return LayerGiven(value) if isinstance(error, TypeError) and keras.is_layer(value) else None


def _creating(names: dict[str, Any], error: BaseException) -> Fact | None:
    variables = list(names.get("untracked_new_vars", ()))
    if not variables:
        return None
    made = {id(variable) for variable in variables}
    owners = [
        layer
        for layer in _reached_by(names["self"].function)
        if keras.is_layer(layer) and any(id(own) in made for own in keras.variables_of(layer))
    ]
    return LambdaVariables(names["self"], variables, owners)


def _adding(names: dict[str, Any], error: BaseException) -> Fact | None:
    """`Sequential.add` compares the name of a layer with those that are there."""
    model, new = names["self"], names["layer"]
    name = getattr(new, "name", None)
    same = [layer for layer in model.layers if layer.name == name and layer is not new]
    return RepeatedName(str(name), [*same, new]) if same and isinstance(error, ValueError) else None


def _wrapping(names: dict[str, Any], error: BaseException) -> Fact | None:
    """Keras makes a layer of a TensorFlow function that is called on a Keras tensor."""
    function, given = names["op"], [*names["args"], *names["kwargs"].values()]
    for argument in given:
        if callable(argument) and not hasattr(argument, "dtype"):
            tensor = next((value for value in _reached_by(argument) if keras.is_keras_tensor(value)), None)
            if tensor is not None:
                return NeedsNumbers(tensor, function)
    # The frames that showed the operation are filtered out, so here only the text is left.
    if isinstance(error, TypeError) and "TypeSpec for name:" in str(error):
        return GivesNothing(function)
    return None


_READERS: dict[CodeType, Callable[[dict[str, Any], BaseException], Fact | None]] = {
    _code(functional._map_graph_network): _mapping,
    _code(functional_utils.find_nodes_by_inputs_and_outputs): _cutting,
    _code(functional_utils.is_input_keras_tensor): _input_expected,
    _code(functional.Functional._validate_graph_inputs_and_outputs): _validating,
    _code(input_spec.assert_input_compatibility): _layer_called,
    _code(Lambda._check_variables): _creating,
    _code(tf_op_layer.TFOpLambda._check_variables): _creating,
    _code(Sequential.add): _adding,
    _code(tf_op_layer.KerasOpDispatcher.handle): _wrapping,
    _code(KerasTensor.__array__): lambda names, error: NeedsNumbers(names["self"]),
    _code(KerasTensor.op.fget): lambda names, error: NeedsNumbers(names["self"]),
    _code(KerasTensor.__len__): lambda names, error: Undecidable(names["self"]),
    _code(KerasTensor.__iter__): lambda names, error: Uniterable(names["self"]),
    _code(KerasTensor.__hash__): lambda names, error: Unhashable(names["self"]),
}


def _without_a_reader(error: BaseException, last: TracebackType) -> Fact | None:
    if isinstance(error, tf.errors.OperatorNotAllowedInGraphError):
        return Undecidable(None)
    if isinstance(error, NotImplementedError) and "symbolic tf.Tensor" in str(error):
        return NeedsNumbers(None)
    if isinstance(error, AttributeError):
        # Any other name is a slip of the pen.
        return (
            NeedsNumbers(error.obj) if isinstance(error.obj, KerasTensor) and error.name == "numpy" else None
        )
    code = last.tb_frame.f_code
    in_tensorflow = any(name in code.co_filename for name in ("tensorflow", "numpy"))
    raised_by_hand = dis.opname[code.co_code[last.tb_lasti]] == "RAISE_VARARGS"
    if KerasTensor.__name__ not in str(error) or not (in_tensorflow or not raised_by_hand):
        return None
    if isinstance(error, TypeError | ValueError) and "__format__" not in str(error):
        # Raised in C (`int(t)`, `t[0] = 1`) or by TensorFlow: both name the type in their message.
        held = [value for value in last.tb_frame.f_locals.values() if isinstance(value, KerasTensor)]
        return NeedsNumbers(held[0] if len(held) == 1 else None)
    return None


def _reached_by(function: Any) -> Iterator[Any]:
    """What a function's code can reach: its closure and the global names that it uses."""
    function = getattr(function, "__func__", function)
    for cell in getattr(function, "__closure__", None) or ():
        try:
            yield cell.cell_contents
        except ValueError:  # a name that has no value yet
            continue
    code = getattr(function, "__code__", None)
    if code is not None:
        yield from (function.__globals__[name] for name in code.co_names if name in function.__globals__)
