"""The records a traced model is made of: plain data, no Keras.

A Keras layer may be called many times, so the graph's nodes are *calls*; its edges are *tensors*. Everything
is named by its position (the third call, the second variable), never by a memory address or by a name that
may repeat, so that tracing the same program twice gives equal graphs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Literal

Shape = tuple[int | None, ...]

Role = Literal["trainable", "frozen", "state"]


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable that the forward pass uses or a layer owns, counted once however often it is met."""

    index: int
    """Position in `Graph.variables`."""
    name: str
    """Keras' own name, such as `dense/kernel:0`; names may repeat."""
    shape: Shape
    """The static shape; None for a dimension that is not fixed."""
    dtype: str
    role: Role
    """`trainable`; `frozen`: switched off by the user; `state`: never trained by design."""
    tracked: bool
    """Whether the model lists it among its weights: only then can `fit` move it."""

    @property
    def parameters(self) -> int:
        """How many numbers it holds; a dimension that is not fixed counts as one."""
        return prod(size or 1 for size in self.shape)


@dataclass(frozen=True, slots=True)
class Tensor:
    """One output of one call: an edge of the graph."""

    call: int
    """Position of the call that made it, in `Flow.calls`."""
    output: int
    """Which of that call's outputs."""
    shape: Shape
    """With None for the batch dimension and others that are not fixed."""
    dtype: str


@dataclass(frozen=True, slots=True)
class Constant:
    """An argument that is no Keras tensor: a number, an array, an eager tensor or a loose variable."""

    shape: Shape
    dtype: str
    variable: int | None = None
    """Position in `Graph.variables` where the argument is a variable, whose value is read at every call;
    None for a value that was computed once and baked in."""
    digest: str = ""
    """A fingerprint of a baked value, equal for equal values; empty for a variable."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a layer (Keras: node)."""

    index: int
    """Position in `Flow.calls`: every call stands after those that made its inputs."""
    layer: int
    """Position of the called layer in `Graph.layers`."""
    number: int
    """The how-manieth call of this layer in this flow, from 0."""
    arguments: tuple[Tensor | Constant, ...]
    """Positional, then keyword arguments, nested structures flattened."""
    outputs: tuple[Tensor, ...]
    settings: str = ""
    """The remaining arguments (axes, names, slices), as text."""

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The arguments that are Keras tensors."""
        return tuple(argument for argument in self.arguments if isinstance(argument, Tensor))

    @property
    def constants(self) -> tuple[Constant, ...]:
        """The arguments that are not."""
        return tuple(argument for argument in self.arguments if isinstance(argument, Constant))


@dataclass(frozen=True, slots=True)
class Flow:
    """The calls between a model's inputs and its outputs, in forward order."""

    calls: tuple[Call, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer, whether it is called in the graph or held by another layer (a cell, a wrapped layer)."""

    index: int
    """Position in `Graph.layers`."""
    name: str
    type: str
    """Its class, such as `Dense`; for a raw TensorFlow operation its name, such as `tf.math.multiply`."""
    operation: bool
    """Whether it is a raw TensorFlow operation that Keras wrapped into a layer."""
    variables: tuple[int, ...]
    """The variables that it owns itself, those of its sublayers not among them."""
    sublayers: tuple[int, ...]
    """The layers that it holds: the layers of a nested model, an RNN's cell, a decoder's output layer."""
    trainable: bool
    """Its switch, as the user set it."""
    built: bool
    """Whether its variables exist; where not, its number of parameters is unknown, which is not 0."""
    flow: Flow | None = None
    """The graph inside, where the layer is itself a Functional or Sequential model."""
    config: str = ""
    """Its settings without its name, as text, to tell whether two layers do the same."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """Numbers of parameters, over distinct tracked variables."""

    total: int
    trainable: int
    frozen: int
    state: int


@dataclass(frozen=True)
class Graph:
    """What belongs to a model: its layers, its variables and, where Keras records one, the flow of calls."""

    name: str
    kind: Literal["functional", "sequential", "subclassed"]
    """A `subclassed` model runs Python code of its own: it has variables and layers, but no flow."""
    keras: str
    """The version of Keras that it was read from."""
    layers: tuple[Layer, ...]
    """Every layer that the model holds at any depth, in the order in which the walk back meets them."""
    variables: tuple[Variable, ...]
    """Those that its layers own, then those that are used and not tracked."""
    flow: Flow | None
    held: tuple[int, ...] = ()
    """Layers that the model holds directly (`model.layers`)."""
    cut: tuple[tuple[int, int], ...] = field(default=())
    """For each model input that was cut out of a longer graph: the input's position and the position, in
    `layers`, of the layer whose tensor it was; -1 where that layer is not in this model."""
    cut_from: tuple[str, ...] = ()
    """The names of those layers, in the order of `cut`."""
    built: bool = True
    """Whether the model itself says that its variables exist."""

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls of the outermost flow; empty for a subclassed model."""
        return self.flow.calls if self.flow else ()

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The model's inputs; empty for a subclassed model."""
        return self.flow.inputs if self.flow else ()

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """The model's outputs; empty for a subclassed model."""
        return self.flow.outputs if self.flow else ()

    @property
    def known(self) -> bool:
        """Whether all variables exist, so that the counts are known."""
        # In a flow every layer has been called, whatever else the model may hold. A subclassed model that was
        # never called has all its variables if its layers have theirs.
        if self.flow is not None:
            return True
        return all(layer.built for layer in self.layers) if self.layers else self.built

    @property
    def parameters(self) -> Parameters:
        """Counts over the distinct variables that the model tracks.

        Layers that are not built yet add nothing, though their number of parameters is unknown: see `known`.
        """
        counts: dict[str, int] = {"trainable": 0, "frozen": 0, "state": 0}
        for variable in self.variables:
            if variable.tracked:
                counts[variable.role] += variable.parameters
        return Parameters(total=sum(counts.values()), **counts)

    def layer_of(self, call: Call) -> Layer:
        """The layer that was called."""
        return self.layers[call.layer]

    def variables_of(self, layer: Layer) -> tuple[Variable, ...]:
        """The distinct variables of a layer and of all that it holds, in order of first meeting."""
        met: dict[int, None] = {}
        seen: set[int] = set()
        waiting = [layer.index]
        while waiting:
            index = waiting.pop()
            if index in seen:
                continue
            seen.add(index)
            met.update(dict.fromkeys(self.layers[index].variables))
            waiting.extend(reversed(self.layers[index].sublayers))
        return tuple(self.variables[index] for index in met)

    def parameters_of(self, layer: Layer) -> int:
        """The number of parameters in the distinct variables of a layer and of all that it holds."""
        return sum(variable.parameters for variable in self.variables_of(layer))

    def owners(self, variable: Variable) -> tuple[Layer, ...]:
        """The layers that own a variable themselves: several where weights are tied, none for a loose one."""
        return tuple(self.layers[index] for index in self._owners.get(variable.index, ()))

    @cached_property
    def _owners(self) -> dict[int, list[int]]:
        owners: dict[int, list[int]] = {}
        for layer in self.layers:
            for variable in layer.variables:
                owners.setdefault(variable, []).append(layer.index)
        return owners

    def reached(self) -> frozenset[int]:
        """Positions of the layers that a way back from the outputs leads to, and of those that they hold.

        A layer that the model merely has as an attribute is not among them. Of a subclassed model, whose calls
        are not recorded, all layers are.
        """
        if self.flow is None:
            return frozenset(layer.index for layer in self.layers)
        met: set[int] = set()
        waiting = [call.layer for call in self.flow.calls]
        while waiting:
            index = waiting.pop()
            if index not in met:
                met.add(index)
                waiting.extend(self.layers[index].sublayers)
        return frozenset(met)

    def times_called(self, layer: int) -> int:
        """How often the layer runs in one run of the model: calls inside a nested model count at each of its calls."""

        def count(flow: Flow) -> int:
            times = 0
            for call in flow.calls:
                inner = self.layers[call.layer].flow
                times += (call.layer == layer) + (count(inner) if inner else 0)
            return times

        return count(self.flow) if self.flow else 0

    def flows(self) -> Iterator[tuple[Layer | None, Flow]]:
        """Every flow at any depth, the outermost first (with None for its layer)."""
        if self.flow:
            yield None, self.flow
        for layer in self.layers:
            if layer.flow:
                yield layer, layer.flow
