"""One probe step: which variables does a gradient reach, and which call cuts it off.

The model is run once, call by call, on real data under a tape, a loss is differentiated, and one step of
plain gradient descent is taken. Weights, optimizer, random state and what `compile` set are afterwards as
they were.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeVar

import numpy as np
import tensorflow as tf

from autograder.graph import keras2 as keras
from autograder.graph.model import Flow
from autograder.graph.sample import STEPS, has_free_dimensions, make_inputs
from autograder.graph.trace import Trace

Reach = Literal["nonzero", "zero", "none"]
Outcome = TypeVar("Outcome")


class ProbeError(ValueError):
    """The model could not be run on the data, or its loss could not be computed."""


@dataclass(frozen=True)
class Use:
    """A variable that a call read although no layer of the model owns it."""

    variable: Any
    """The live variable."""
    where: str
    """The layer or operation whose call read it."""


@dataclass(frozen=True)
class Probe:
    """What one step showed."""

    loss: str
    """Which loss was differentiated, in words."""
    reach: tuple[Reach, ...]
    """For each entry of `graph.variables`: whether a gradient reaches it, and whether it is all zeros."""
    cut_by: tuple[str, ...]
    """For each entry of `graph.variables`: the layer or operation that stops the gradient on its way there;
    empty where a gradient arrives, or where no single call can be named."""
    moved: tuple[int, ...]
    """The entries of `graph.variables` that one step on the model's trainable variables changed."""
    reached_calls: tuple[int, ...]
    """Positions in `graph.calls` of those that a gradient reaches from behind."""
    cuts: tuple[int, ...]
    """Positions in `graph.calls` of those that are reached and pass nothing on to their inputs."""
    untracked: tuple[Use, ...]
    """Variables that were read and belong to no layer of the model, with the place."""


def probe(trace: Trace, *, loss: Any = None, data: Any = None) -> Probe:
    """Run, differentiate and step once, then put everything back.

    Args:
        trace: a traced model; see `autograder.graph.trace.read`.
        loss: a Keras loss (name, function of targets and outputs, or object). Default: the loss that the
            model was compiled with, else the mean of the outputs under fixed random weights.
        data: inputs, or a pair (inputs, targets), as `fit` takes them. Default: made from `model.inputs`;
            targets are made from the shapes of the outputs.

    Raises:
        ProbeError: the model has no recorded inputs and no data were given, or it fails on the data.
    """
    try:
        return on_data(trace, data, lambda inputs, targets, kept: _step(trace, kept, inputs, targets, loss))
    except Exception as error:
        raise ProbeError(f"Model '{trace.graph.name}' does not run: {keras.reason_of(error)}") from error


def on_data(trace: Trace, data: Any, action: Callable[[Any, Any, Kept], Outcome]) -> Outcome:
    """Do something with a model on the data, or on the shortest made data that it runs on; leave no trace.

    A convolution or pooling may need more steps than a dimension that is left free has at first.

    Args:
        trace: a traced model.
        data: inputs, a pair (inputs, targets), or None to have inputs made.
        action: called with inputs, targets (None without any) and the values that are put back afterwards.

    Raises:
        ValueError: no data can be made.
    """
    layers = [*trace.layers, trace.model]
    kept = Kept()
    kept.keep([*trace.variables, *keras.states_of(layers), *keras.metric_variables_of(trace.model, layers)])
    with keras.unchanged_random_state(trace.layers):
        for steps in STEPS:
            if isinstance(data, tuple) and len(data) == 2:
                inputs, targets = data
            else:
                inputs, targets = (make_inputs(trace, steps=steps) if data is None else data), None
            try:
                with keras.unchanged(layers):
                    return action(inputs, targets, kept)
            except (tf.errors.InvalidArgumentError, ValueError):
                if data is not None or steps == STEPS[-1] or not has_free_dimensions(trace):
                    raise
            finally:
                kept.restore()
    raise AssertionError("the last try returns or raises")


class Kept:
    """Values of variables, to be put back."""

    def __init__(self) -> None:
        self._values: dict[int, tuple[Any, Any]] = {}

    def keep(self, variables: list[Any]) -> None:
        """Remember the present values of variables that are not remembered yet."""
        for variable in variables:
            if id(variable) not in self._values:
                self._values[id(variable)] = (variable, tf.identity(variable))

    def restore(self) -> None:
        """Give all of them their values back."""
        for variable, value in self._values.values():
            variable.assign(value)


@dataclass(eq=False)
class _Place:
    """One call at any depth, on real values; equal only to itself."""

    name: str
    call: int
    """Position in the outermost flow; -1 for a call inside a nested model."""
    owner: int
    """Position of the called layer in `graph.layers`."""
    given: list[Any]
    results: list[Any]


@dataclass
class _Run:
    """One forward pass."""

    outputs: list[Any] = field(default_factory=list)
    places: list[_Place] = field(default_factory=list)
    untracked: list[Use] = field(default_factory=list)


def _step(trace: Trace, kept: Kept, inputs: Any, targets: Any, loss: Any) -> Probe:
    with tf.GradientTape(persistent=True) as tape:
        for variable in trace.variables:
            # Frozen ones too: switched off is not cut off.
            if variable.dtype.is_floating:
                tape.watch(variable)
        run = _Forward(trace, tape, kept).run(inputs)
        _forbid_new_variables(trace)
        value, words = _loss(trace, run.outputs, targets, loss)
    reach = tuple(_reach(gradient) for gradient in tape.gradient(value, list(trace.variables)))
    reached_calls, cuts, cut_by = _cuts(trace, run, tape, value, reach)
    trained = list(trace.model.trainable_variables)
    pairs = [
        (gradient, variable)
        for gradient, variable in zip(tape.gradient(value, trained), trained, strict=True)
        if gradient is not None
    ]
    before = [tf.identity(variable) for variable in trained]
    if pairs:
        keras.plain_descent().apply_gradients(pairs)
    position = {id(variable): index for index, variable in enumerate(trace.variables)}
    moved = tuple(
        position[id(variable)]
        for variable, old in zip(trained, before, strict=True)
        if not np.array_equal(old.numpy(), variable.numpy())
    )
    return Probe(words, reach, cut_by, moved, reached_calls, cuts, tuple(run.untracked))


def _forbid_new_variables(trace: Trace) -> None:
    """A layer that makes variables in its `call` makes new ones each time, and none of them is trained for long.

    Raises:
        ValueError: a layer did; the message names it.
    """
    known = {id(variable) for variable in trace.variables}
    for layer in trace.layers:
        new = [variable for variable in keras.own_variables_of(layer) if id(variable) not in known]
        if new:
            raise ValueError(
                f"layer '{layer.name}' makes new variables each time it is called; make them in __init__ or build"
            )


class _Forward:
    """One forward pass, call by call, so that every value in between can be asked for its gradient."""

    def __init__(self, trace: Trace, tape: Any, kept: Kept) -> None:
        self._trace = trace
        self._tape = tape
        self._kept = kept
        weights = [*keras.variables_of(trace.model), *keras.states_of(trace.layers)]
        self._tracked = {keras.identity(variable) for variable in weights}
        self._run = _Run()
        self._met: set[tuple[int, str]] = set()

    def run(self, inputs: Any) -> _Run:
        graph, model = self._trace.graph, self._trace.model
        flow = graph.flow
        if flow is None or not keras.runs_its_graph(model):
            results = self._watched(graph.name, lambda: model(inputs, training=True))
            self._run.outputs = tf.nest.flatten(results)
            return self._run
        flat = in_order(self._trace, flow, inputs)
        for value in flat:
            if value.dtype.is_floating:
                self._tape.watch(value)
        with keras.training(model):
            self._run.outputs = self._flow(-1, flow, flat)
        return self._run

    def _flow(self, owner: int, flow: Flow, flat: list[Any]) -> list[Any]:
        """Run the calls of the model (-1) or of a nested model, and give its outputs."""
        nodes = self._trace.nodes[owner]
        values: dict[int, Any] = {}
        for tensor, value in zip(flow.inputs, flat, strict=True):
            values[id(keras.outputs_of(nodes[tensor.call])[tensor.output])] = value
        for call, node in zip(flow.calls, nodes, strict=True):
            results_of = keras.outputs_of(node)
            if all(id(tensor) in values for tensor in results_of):
                continue  # an input
            layer = self._trace.graph.layer_of(call)
            given = [values[id(a)] for a in keras.arguments_of(node) if keras.is_keras_tensor(a)]
            name = layer.type if layer.operation else layer.name
            inside = layer.flow
            plain = not call.constants and set(call.settings.split(", ")) <= {"", "None"}
            if inside and plain and keras.runs_its_graph(self._trace.layers[layer.index]):
                results = self._flow(layer.index, inside, given)
            else:
                results = self._watched(name, partial(keras.call_again, node, values))
            for result in results:
                # A value behind a cut descends from nothing watched: watch it, to see what reaches it.
                if tf.is_tensor(result) and result.dtype.is_floating:
                    self._tape.watch(result)
            at = call.index if owner == -1 else -1
            self._run.places.append(_Place(name, at, layer.index, given, results))
            values.update({id(tensor): value for tensor, value in zip(results_of, results, strict=True)})
        return [values[id(keras.outputs_of(nodes[out.call])[out.output])] for out in flow.outputs]

    def _watched(self, name: str, call: Callable[[], Any]) -> Any:
        """Run something and note which variables it reads that the model does not own."""
        with tf.GradientTape() as inner:
            results = call()
        for variable in inner.watched_variables():
            if keras.identity(variable) in self._tracked:
                continue
            self._kept.keep([variable])
            if (id(variable), name) not in self._met:
                self._met.add((id(variable), name))
                self._run.untracked.append(Use(variable, name))
        return results


def in_order(trace: Trace, flow: Flow, inputs: Any) -> list[Any]:
    """The tensors of a dict, list or single array of inputs, one for each input of the model's outermost flow.

    Raises:
        ValueError: there are more or fewer.
    """
    if isinstance(inputs, dict):
        inputs = [inputs[name] for name in keras.names_of_inputs(trace.model)]
    flat = tf.nest.flatten(inputs)
    if len(flat) != len(flow.inputs):
        raise ValueError(f"the model has {len(flow.inputs)} inputs, and data for {len(flat)} came")
    return [tf.cast(value, to.dtype) for value, to in zip(flat, flow.inputs, strict=True)]


def _reach(gradient: Any) -> Reach:
    if gradient is None:
        return "none"
    values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
    return "nonzero" if np.any(values.numpy()) else "zero"


def _cuts(
    trace: Trace, run: _Run, tape: Any, value: Any, reach: tuple[Reach, ...]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[str, ...]]:
    """Which calls are reached, which cut, and for each variable without a gradient which call cuts it off."""
    tensors = {id(t): t for place in run.places for t in [*place.given, *place.results] if tf.is_tensor(t)}
    asked = list(tensors.values())
    gradients = tape.gradient(value, asked) if asked else []
    alive = {id(t) for t, gradient in zip(asked, gradients, strict=True) if gradient is not None}
    alive |= {id(t) for t in tensors.values() if t is value}

    def reached(place: _Place) -> bool:
        return any(id(result) in alive for result in place.results)

    def cuts(place: _Place) -> bool:
        return bool(place.given) and reached(place) and not any(id(t) in alive for t in place.given)

    readers: dict[int, list[_Place]] = {}
    for place in run.places:
        for tensor in place.given:
            readers.setdefault(id(tensor), []).append(place)

    def cut_after(start: list[_Place]) -> str:
        """Follow the values forward to the first call that lets no gradient through."""
        waiting, seen = list(start), {id(place) for place in start}
        while waiting:
            place = waiting.pop(0)
            if _is_discrete(place) and place not in start:
                return place.name
            for result in place.results:
                for reader in readers.get(id(result), []):
                    if id(result) not in alive and reached(reader) and not _is_discrete(place):
                        return reader.name
                    if id(reader) not in seen:
                        seen.add(id(reader))
                        waiting.append(reader)
        return ""

    holders: dict[int, set[int]] = {}
    for layer in trace.graph.layers:
        for variable in trace.graph.variables_of(layer):
            holders.setdefault(variable.index, set()).add(layer.index)
    for constant_user in trace.graph.calls:
        for constant in constant_user.constants:
            if constant.variable is not None:
                holders.setdefault(constant.variable, set()).add(constant_user.layer)
    cut_by = []
    for index, state in enumerate(reach):
        start = [place for place in run.places if place.owner in holders.get(index, ())]
        if state != "none" or any(reached(place) for place in start):
            # A call that is reached and does not pass the gradient on to its own variable cuts it itself.
            inner = next((place.name for place in start if reached(place)), "") if state == "none" else ""
            cut_by.append(inner)
        else:
            cut_by.append(cut_after(start))
    outermost = [place for place in run.places if place.call >= 0]
    return (
        tuple(place.call for place in outermost if reached(place)),
        tuple(place.call for place in outermost if cuts(place) and _passes_nothing_on(place, trace)),
        tuple(cut_by),
    )


def _is_discrete(place: _Place) -> bool:
    return all(tf.is_tensor(result) and not result.dtype.is_floating for result in place.results)


def _passes_nothing_on(place: _Place, trace: Trace) -> bool:
    # An Embedding takes integers, which have no gradient and need none.
    return any(tf.is_tensor(t) and t.dtype.is_floating for t in place.given)


def _loss(trace: Trace, outputs: list[Any], targets: Any, loss: Any) -> tuple[Any, str]:
    """The loss on the outputs, the regularizers' part of it included."""
    chosen = loss if loss is not None else keras.compiled_loss(trace.model)
    if chosen is None:
        if not any(output.dtype.is_floating for output in outputs):
            raise ValueError("its outputs are no floating-point numbers: it is there to be used, not trained")
        random = np.random.default_rng(1)
        value = tf.zeros([])
        for output in outputs:
            if output.dtype.is_floating:
                weights = random.standard_normal(output.shape)
                value += tf.reduce_mean(tf.cast(output, tf.float32) * tf.cast(weights, tf.float32))
        words = "the mean of the outputs under fixed random weights"
    else:
        value, words = keras.loss_value(trace.model, chosen, outputs, targets)
    for penalty in keras.added_losses_of([*trace.layers, trace.model]):
        value += tf.reduce_mean(tf.cast(penalty, value.dtype))
    return value, words
