"""The first half of a check: from live objects to plain data.

Every function returns something that JSON can hold. Where there is nothing to measure (no model yet, the
wrong kind of object) the result holds a `problem` instead, so that a learner's unfinished cell gets an
answer and not a traceback.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np

from autograder.check.judge import Measurement
from autograder.findings import explain
from autograder.graph import keras2 as keras
from autograder.graph.compare import compare
from autograder.graph.gradient import ProbeError, probe
from autograder.graph.model import Variable
from autograder.graph.trace import Trace, describe, read


def problem(expected: str, found: Any, look: str = "") -> Measurement:
    """The measurement of something that can't be measured."""
    return {
        "problem": {
            "expected": expected,
            "found": found if isinstance(found, str) else what(found),
            "look": look,
        }
    }


def what(value: Any) -> str:
    """What a value is, in words that fit an unfinished exercise too."""
    if value is None:
        return "None: nothing has been written here yet"
    if value is Ellipsis:
        return "`...`: the gap has not been filled yet"
    return describe(value)


def causes(model: Any, *others: Any) -> str:
    """What may have made a model fail a check, in one sentence each.

    Args:
        model: the model; for anything else there is nothing to say.
        others: layers that the check asked for.
    """
    try:
        report = explain(model, {f"layer{i}": other for i, other in enumerate(others)}, suspicious=True)
    except (TypeError, ValueError):
        return ""
    telling = [finding.why for finding in report.findings if finding.accuses or finding.kind == "frozen"]
    return " ".join([*telling[:3], report.note])


def _trace(model: Any, *, configs: bool = False) -> Trace | Measurement:
    if not keras.is_model(model):
        look = ""
        if keras.is_keras_tensor(model):
            look = "a tensor is what a model is cut out of: Model(inputs, outputs) makes the model"
        elif keras.is_layer(model):
            look = "a layer is a part of a model: Model(inputs, outputs) makes the model"
        return problem("a Keras model", model, look)
    trace = read(model, configs=configs)
    if not trace.graph.known:
        unbuilt = [layer.name for layer in trace.graph.layers if not layer.built] or [trace.graph.name]
        return problem(
            "a model whose variables exist",
            f"model '{trace.graph.name}' with layers that are not built: {', '.join(unbuilt[:4])}",
            "variables come when a layer is first called, or built with an input shape",
        )
    return trace


def _variable(variable: Variable) -> dict[str, Any]:
    return {
        "name": variable.name.removesuffix(":0"),
        "shape": list(variable.shape),
        "role": variable.role,
        "parameters": variable.parameters,
    }


def parameters(model: Any) -> Measurement:
    """The counts of a model's parameters and its tracked variables."""
    trace = _trace(model)
    if not isinstance(trace, Trace):
        return trace
    counts = trace.graph.parameters
    return {
        "model": trace.graph.name,
        "parameters": {
            "total": counts.total,
            "trainable": counts.trainable,
            "frozen": counts.frozen,
            "state": counts.state,
        },
        "variables": [_variable(v) for v in trace.graph.variables if v.tracked],
    }


def membership(model: Any, layers: tuple[Any, ...]) -> Measurement:
    """For each layer, whether a way back from the model's outputs leads to it, at any depth."""
    trace = _trace(model)
    if not isinstance(trace, Trace):
        return trace
    reached = trace.graph.reached()
    measured = []
    for layer in layers:
        if not keras.is_layer(layer):
            return problem("a Keras layer", layer)
        measured.append(
            {
                "name": str(layer.name),
                "type": type(layer).__name__,
                "built": bool(layer.built),
                "parameters": keras.parameters_in(layer),
                "inside": layer is model or trace.index_of(layer) in reached,
            }
        )
    return {"model": trace.graph.name, "layers": measured}


def calls(model: Any, layer: Any) -> Measurement:
    """How many times a layer is called in the model, calls inside nested models among them."""
    trace = _trace(model)
    if not isinstance(trace, Trace):
        return trace
    if not keras.is_layer(layer):
        return problem("a Keras layer", layer)
    index = trace.index_of(layer)
    times = 0 if index is None else trace.graph.times_called(index)
    return {"model": trace.graph.name, "layer": str(layer.name), "calls": times}


def sharing(first: Any, second: Any) -> Measurement:
    """How many parameters two models or layers have in common, by identity of their variables."""
    held = []
    for one in (first, second):
        if not keras.is_layer(one):
            return problem("a Keras model or layer", one)
        held.append({id(variable): variable for variable in keras.variables_of(one)})
    common = held[0].keys() & held[1].keys()
    own = [[v for key, v in variables.items() if key not in common] for variables in held]
    shapes = [{tuple(v.shape) for v in variables} for variables in own]
    return {
        "first": str(first.name),
        "second": str(second.name),
        "shared": sum(int(np.prod(held[0][key].shape)) for key in common),
        "lookalikes": [
            f"{v.name.removesuffix(':0')} {tuple(v.shape)}" for v in own[0] if tuple(v.shape) in shapes[1]
        ][:4],
    }


def matching(model: Any, target: Any) -> Measurement:
    """What differs between a model and the one that it should be, in sentences.

    Raises:
        TypeError: the target is no model.
        ValueError: the target has no graph of calls.
    """
    trace = _trace(model, configs=True)
    if not isinstance(trace, Trace):
        return trace
    comparison = compare(trace.graph, target)
    return {
        "model": trace.graph.name,
        "differences": [
            {"kind": difference.kind, "sentence": difference.sentence}
            for difference in comparison.differences
        ],
    }


def training(model: Any, loss: Any, data: Any) -> Measurement:
    """Which variables one training step moves; the model is afterwards as it was."""
    trace = _trace(model)
    if not isinstance(trace, Trace):
        return trace
    try:
        probed = probe(trace, loss=loss, data=data)
    except ProbeError as error:
        return problem("a model that runs", str(error))
    graph = trace.graph
    return {
        "model": graph.name,
        "trainable": graph.parameters.trainable,
        "moved": [_variable(graph.variables[i]) for i in probed.moved],
        "still": [
            _variable(v) | {"cut_by": probed.cut_by[v.index]}
            for v in graph.variables
            if v.tracked and v.role == "trainable" and v.index not in probed.moved
        ],
        "untracked": [
            {
                "name": str(use.variable.name).removesuffix(":0"),
                "shape": use.variable.shape.as_list(),
                "where": use.where,
            }
            for use in probed.untracked
        ],
    }


def equal_outputs(found: Any, expected: Any, inputs: tuple[Any, ...]) -> Measurement:
    """How far the output values of two callables are apart on the same inputs, output by output."""
    if not callable(found):
        return problem("a model, or a function, that can be called on the inputs", found)
    # The learner's may change its inputs in place, so it comes last and gets copies.
    target = keras.values_in(expected(*deepcopy(inputs)))
    try:
        mine = keras.values_in(found(*deepcopy(inputs)))
    except Exception as error:
        return problem("a model that runs on the inputs", keras.reason_of(error))
    shapes = [[list(value.shape) for value in values] for values in (mine, target)]
    difference = 0.0
    if shapes[0] == shapes[1]:
        difference = max(
            (_distance(one, other) for one, other in zip(mine, target, strict=True)), default=0.0
        )
    return {"shapes": shapes[0], "expected_shapes": shapes[1], "difference": difference}


def _distance(found: Any, expected: Any) -> float:
    """The largest difference, absolute below 1 and relative above; for what is no number, 0 or infinity."""
    if not (np.issubdtype(found.dtype, np.number) and np.issubdtype(expected.dtype, np.number)):
        return 0.0 if np.array_equal(found, expected) else float("inf")
    if not expected.size:
        return 0.0
    scale = np.maximum(1.0, np.abs(expected))
    return float(np.max(np.abs(found - expected) / scale))


def output_shape(model: Any) -> Measurement:
    """The shapes of a model's outputs."""
    trace = _trace(model)
    if not isinstance(trace, Trace):
        return trace
    return {"model": trace.graph.name, "shapes": [list(out.shape) for out in trace.graph.outputs]}


def value(found: Any, like: Any) -> Measurement:
    """A plain value: numbers, text, lists and dicts of them; NumPy's and TensorFlow's become Python's.

    Args:
        found: the learner's value.
        like: a value of the kind that is asked for, to say what was expected.
    """
    try:
        return {"value": _plain(found)}
    except TypeError:
        return problem(_kind(like), found)


_KINDS: dict[type, str] = {bool: "True or False", int: "a whole number", float: "a number", str: "a text"}


def _kind(like: Any) -> str:
    if isinstance(like, list | tuple):
        return "a list"
    return _KINDS.get(type(like), f"a {type(like).__name__}")


def _plain(found: Any) -> Any:
    """Numbers, texts, lists and dicts of Python's own types: a subclass might say that it equals everything."""
    if isinstance(found, np.generic):
        found = found.item()
    if isinstance(found, bool):
        return found
    if isinstance(found, int):
        return int.__add__(found, 0)
    if isinstance(found, float):
        return float.__add__(found, 0.0)
    if isinstance(found, str):
        return str.__str__(found)
    if isinstance(found, list | tuple):
        return [_plain(entry) for entry in list(found)]
    if isinstance(found, dict):
        return {_plain(key): _plain(entry) for key, entry in dict(found).items()}
    if isinstance(found, np.ndarray):
        return _plain(found.tolist())
    if hasattr(found, "numpy") and not callable(found):
        return _plain(np.asarray(found.numpy()).tolist())
    raise TypeError(f"no plain value: {type(found).__name__}")
