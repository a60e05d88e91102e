"""What a picture of a model shows: boxes, links between them, and words. Neither Keras nor matplotlib.

Two pictures of one program are equal, because boxes are named by position, as calls are in a graph. `describe`
puts the same content into text, for those who can't see the picture.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal

from autograder.graph.model import Call, Constant, Flow, Graph, Layer, Shape, Variable

Kind = Literal["input", "layer", "operation", "model", "constant", "variable", "apart"]

TIMES = "\N{MULTIPLICATION SIGN}"

LARGEST = 1000
"""Above so many boxes a picture can't be read, and takes minutes."""

_INSIDE = 8
"""A nested model of so many calls is drawn with what is in it; a larger one as a single box."""
_HELD = 4
"""So many held layers are named in a box."""
_LONGEST = 34
"""Longer names are shortened in the middle."""


@dataclass(frozen=True, slots=True)
class Box:
    """One call of a layer, or one thing that a call uses."""

    key: str
    """Its name in the drawing: `call 3`, `variable 1`, `constant 3.0`; inside a nested model `call 3/call 1`."""
    kind: Kind
    title: str
    lines: tuple[str, ...]
    band: int | None = None
    """Which set of shared weights it uses, counted from 0; boxes of one number share."""
    frozen: bool = False
    """Whether it has parameters and all that could be trained are switched off."""
    owns: bool = False
    """Whether it has parameters."""
    output: bool = False
    """Whether one of its tensors is an output of the model."""
    reach: Literal["all", "some", "none"] | None = None
    """How many of its trainable variables a gradient reaches; None where there are none, or nobody asked."""
    cut: bool = False
    """Whether a gradient arrives and ends here."""
    differs: bool = False
    """Whether a comparison with a target found something different here."""
    inside: Drawing | None = None
    """What a nested model consists of, where it is drawn."""


@dataclass(frozen=True, slots=True)
class Link:
    """A value that goes from one box to another."""

    source: str
    """The key of a box."""
    target: str
    count: int = 1
    """How many tensors."""
    kind: Literal["tensor", "value", "once"] = "tensor"
    """`tensor`: recorded by Keras; `value`: a constant or variable; `once`: computed while building, by something
    that is no part of the model."""
    backward: bool | None = None
    """Whether a gradient comes back along it; None where nobody asked."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """The content of a picture."""

    title: str
    boxes: tuple[Box, ...]
    links: tuple[Link, ...]
    note: str = ""
    """What the reader must know about it, in a sentence."""
    apart: tuple[Box, ...] = ()
    """What is not in the model and is shown beside it."""
    apart_links: tuple[Link, ...] = ()
    """Links from these, among themselves or into the model."""

    def all_boxes(self) -> Iterator[Box]:
        """All boxes at any depth, those apart last."""
        for box in (*self.boxes, *self.apart):
            yield box
            if box.inside:
                yield from box.inside.all_boxes()

    def shared(self) -> Iterator[tuple[str, str]]:
        """Pairs of boxes, one after the other, that use the same weights."""
        bands: dict[int, list[str]] = {}
        for box in self.all_boxes():
            if box.band is not None:
                bands.setdefault(box.band, []).append(box.key)
        for keys in bands.values():
            yield from pairwise(keys)


@dataclass(frozen=True, slots=True)
class Backward:
    """What a probe step showed, as far as it is drawn."""

    reached: frozenset[int]
    """Positions of variables that a gradient reaches."""
    calls: frozenset[int]
    """Positions of calls that a gradient reaches from behind."""
    passed: frozenset[tuple[int, int]] | None
    """Pairs of calls: the first one passes on to the second one what reaches it. None where the model runs
    code of its own, so that nothing is known of the ways."""
    cut_by: Mapping[int, str] = field(default_factory=dict)
    """For a variable that it does not reach: what cuts it off."""
    loss: str = ""
    """The loss, in words."""


def sketch(graph: Graph, backward: Backward | None = None) -> Drawing:
    """Decide what a picture of a graph shows.

    Args:
        graph: a traced model.
        backward: what a probe step showed, to be drawn into it.

    Raises:
        ValueError: the model has too many calls for a picture.
    """
    if len(graph.calls or graph.held) > LARGEST:
        raise ValueError(
            f"Expected a model of at most {LARGEST:,} calls, since a larger picture can't be read. Received: "
            f"'{graph.name}' with {len(graph.calls or graph.held):,}. Draw a nested model by itself, or use "
            "`model.summary()`."
        )
    return _Sketcher(graph, backward).sketch()


def describe(graph: Graph | Drawing) -> str:
    """The content of a picture in words, one line for each box, each with the numbers of those before it."""
    drawing = sketch(graph) if isinstance(graph, Graph) else graph
    numbers = {box.key: index for index, box in enumerate(drawing.all_boxes(), 1)}
    bands: dict[int, list[int]] = {}
    for box in drawing.all_boxes():
        if box.band is not None:
            bands.setdefault(box.band, []).append(numbers[box.key])
    lines = [drawing.title, *([drawing.note] if drawing.note else [])]
    links = [*drawing.links, *drawing.apart_links]
    lines.extend(_lines(drawing.boxes, links, numbers, bands, ""))
    if drawing.apart:
        lines.append("Not in the model:")
        lines.extend(_lines(drawing.apart, links, numbers, bands, ""))
    return "\n".join(lines)


def _lines(
    boxes: Iterable[Box],
    links: Sequence[Link],
    numbers: Mapping[str, int],
    bands: Mapping[int, list[int]],
    indent: str,
) -> Iterator[str]:
    for box in boxes:
        number = numbers[box.key]
        line = f"{indent}[{number}] {' · '.join([box.title, *box.lines])}"
        before = []
        for link in links:
            if link.target == box.key:
                times = f" {TIMES}{link.count}" if link.count > 1 else ""
                grey = " (once, while building)" if link.kind == "once" else ""
                back = {None: "", True: " (gradient back)", False: " (no gradient back)"}[link.backward]
                before.append(f"[{numbers[link.source]}]{times}{grey}{back}")
        if before:
            line += f" ← {', '.join(before)}"
        if box.band is not None:
            others = ", ".join(f"[{other}]" for other in bands[box.band] if other != number)
            line += f" (same weights: {others})"
        yield line
        if box.inside:
            yield from _lines(box.inside.boxes, box.inside.links, numbers, bands, indent + "    ")


def count(parameters: int) -> str:
    """A number of parameters in words."""
    return f"{parameters:,} parameter{'' if parameters == 1 else 's'}"


def shortened(name: str) -> str:
    """A name that fits a box: the middle of a long one is left out."""
    if len(name) <= _LONGEST:
        return name
    half = (_LONGEST - 1) // 2
    return f"{name[:half]}…{name[-half:]}"


class _Sketcher:
    """Makes the drawing of one graph."""

    def __init__(self, graph: Graph, backward: Backward | None) -> None:
        self._graph = graph
        self._backward = backward
        self._opened: set[int] = set()
        self._used: dict[str, frozenset[int]] = {}
        self._thing: dict[str, str] = {}
        self._times: dict[str, tuple[int, int]] = {}

    def sketch(self) -> Drawing:
        graph = self._graph
        if graph.flow is None:
            boxes = tuple(self._layer_box(f"layer {index}", graph.layers[index]) for index in graph.held)
            drawing = Drawing(self._title(), boxes, (), self._without_flow())
        else:
            boxes, links = self._flow("", graph.flow, outermost=True)
            drawing = Drawing(self._title(), boxes, links, self._about_gradients())
        return self._with_bands(drawing)

    # Words -----------------------------------------------------------------------------------------------------

    def _title(self) -> str:
        name = f"Model '{shortened(self._graph.name)}'"
        if not self._graph.known:
            return f"{name}: number of parameters not known yet"
        counts = self._graph.parameters
        if counts.total == 0:
            return f"{name}: 0 parameters"
        return f"{name}: {_roles(counts.trainable, counts.frozen, counts.state)}"

    def _without_flow(self) -> str:
        if self._graph.kind == "sequential":
            return "Not built yet, so Keras has recorded no calls. These are its layers, in their order."
        if not self._graph.held:
            return "Keras records no calls of a subclassed model, and this one holds no layers."
        return "Keras records no calls of a subclassed model: what its code does with these layers can't be read."

    def _about_gradients(self) -> str:
        if not self._backward:
            return ""
        if self._backward.passed is None:
            return (
                f"Backward pass: where the gradient of {self._backward.loss} arrives. Its ways are not known, since "
                "the model runs code of its own."
            )
        return (
            f"Backward pass: thick arrows show where the gradient of {self._backward.loss} goes, upwards from the "
            "outputs."
        )

    def _layer_box(self, key: str, layer: Layer) -> Box:
        """A box for a layer, whatever call it is."""
        kind: Kind = "layer"
        if layer.operation:
            kind = "operation"
        elif layer.flow is not None:
            kind = "model"
        variables = self._graph.variables_of(layer)
        self._thing[key] = f"layer {layer.index}"
        self._used[key] = frozenset(variable.index for variable in variables)
        lines = []
        if layer.operation:
            # Keras names it after the operation, with a number where there are several.
            lines.append("TensorFlow operation")
        else:
            what = layer.type
            if not self._graph_knows(layer):
                what += " · parameters not known yet"
            elif variables:
                what += f" · {count(sum(variable.parameters for variable in variables))}"
            lines.append(what)
        lines.extend(_switched(variables))
        if layer.flow is not None:
            lines.append(f"{len(layer.flow.calls)} calls inside")
        else:
            lines.extend(self._held(layer))
        trained = [variable for variable in variables if variable.role == "trainable"]
        return Box(
            key,
            kind,
            shortened(layer.name),
            tuple(lines),
            frozen=not trained and any(variable.role == "frozen" for variable in variables),
            owns=bool(variables),
        )

    def _graph_knows(self, layer: Layer) -> bool:
        return layer.built and all(self._graph.layers[index].built for index in layer.sublayers)

    def _held(self, layer: Layer) -> Iterator[str]:
        held = [self._graph.layers[index] for index in layer.sublayers]
        if [inner.type for inner in held] == [f"{layer.type}Cell"]:
            return  # Keras' own way to make an LSTM, and nothing that its user knows of
        for inner in held[:_HELD]:
            number = self._graph.parameters_of(inner)
            yield f"holds {shortened(inner.name)}" + (f": {number:,}" if number else "")
        if len(held) > _HELD:
            yield f"and {len(held) - _HELD} more"

    # Calls -----------------------------------------------------------------------------------------------------

    def _flow(
        self, prefix: str, flow: Flow, *, outermost: bool = False
    ) -> tuple[tuple[Box, ...], tuple[Link, ...]]:
        times: dict[int, int] = {}
        for call in flow.calls:
            times[call.layer] = times.get(call.layer, 0) + 1
        boxes: dict[str, Box] = {}
        links: list[Link] = []
        for call in flow.calls:
            key = f"{prefix}call {call.index}"
            for value in self._values(prefix, call):
                boxes.setdefault(value.key, value)
                links.append(Link(value.key, key, kind="value"))
            self._times[key] = (call.number + 1, times[call.layer])
            boxes[key] = self._call_box(key, call, flow, outermost)
            sources = Counter(tensor.call for tensor in call.inputs)
            for source, tensors in sources.items():
                back = self._back(call, source, flow, outermost)
                links.append(Link(f"{prefix}call {source}", key, tensors, backward=back))
        return tuple(boxes.values()), tuple(links)

    def _back(self, call: Call, source: int, flow: Flow, outermost: bool) -> bool | None:
        """Whether a gradient goes back from a call to one of those before it; None where nobody asks for it."""
        inputs = {tensor.call for tensor in flow.inputs}
        if self._backward is None or self._backward.passed is None or not outermost or source in inputs:
            return None
        return call.index in self._backward.calls and (call.index, source) in self._backward.passed

    def _ends(self, call: Call, flow: Flow) -> bool:
        """Whether a gradient arrives at a call and goes no further, though there is something to train there."""
        assert self._backward is not None
        sources = {tensor.call for tensor in call.inputs}
        if call.index not in self._backward.calls or not sources:
            return False
        if any(self._back(call, source, flow, outermost=True) is not False for source in sources):
            return False
        waiting, seen = list(sources), set(sources)
        while waiting:
            behind = flow.calls[waiting.pop()]
            variables = self._graph.variables_of(self._graph.layer_of(behind))
            if any(variable.role == "trainable" for variable in variables):
                return True
            new = {tensor.call for tensor in behind.inputs} - seen
            seen |= new
            waiting.extend(new)
        return False

    def _call_box(self, key: str, call: Call, flow: Flow, outermost: bool) -> Box:
        layer = self._graph.layer_of(call)
        box = self._layer_box(key, layer)
        lines = [*box.lines, _shapes([tensor.shape for tensor in call.outputs])]
        kind = box.kind
        if not call.arguments and any(tensor.call == call.index for tensor in flow.inputs):
            kind = "input"
            if outermost:
                lines.extend(self._cut_from(call, flow))
        if layer.operation:
            lines[0] = _operation(layer, call)
        number, times = self._times[key]
        if times > 1:
            lines.append(f"call {number} of {times}")
        outputs = [i for i, tensor in enumerate(flow.outputs, 1) if tensor.call == call.index]
        if outputs and outermost:
            which = f" {', '.join(map(str, outputs))} of {len(flow.outputs)}" if len(flow.outputs) > 1 else ""
            lines.append(f"↳ output{which} of the model")
        box = replace(box, kind=kind, output=bool(outputs) and outermost)
        if self._backward and outermost:
            box, words = self._with_gradient(box, call, layer, self._ends(call, flow))
            lines.extend(words)
        elif layer.flow is not None and self._opens(layer):
            self._opened.add(layer.index)
            boxes, links = self._flow(f"{key}/", layer.flow)
            # Its own number of calls is seen now.
            lines = [line for line in lines if not line.endswith(" calls inside")]
            box = replace(box, inside=Drawing("", boxes, links))
        return replace(box, lines=tuple(lines))

    def _opens(self, layer: Layer) -> bool:
        return (
            layer.flow is not None
            and layer.index not in self._opened
            and len(layer.flow.calls) <= _INSIDE
            and len(self._graph.calls) <= LARGEST // _INSIDE
        )

    def _cut_from(self, call: Call, flow: Flow) -> Iterator[str]:
        for (place, _), name in zip(self._graph.cut, self._graph.cut_from, strict=True):
            if flow.inputs[place].call == call.index:
                yield f"in place of what {shortened(name)} gave"

    def _with_gradient(self, box: Box, call: Call, layer: Layer, cut: bool) -> tuple[Box, list[str]]:
        assert self._backward is not None
        name = layer.type if layer.operation else layer.name
        words = []
        if name in self._backward.cut_by.values() and not layer.variables:
            cut, words = True, ["✕ lets no gradient through"]
        elif cut:
            words = ["✕ the gradient ends here"]
        trained = [v for v in self._graph.variables_of(layer) if v.role == "trainable"]
        if not trained:
            return replace(box, cut=cut), words
        reached = [variable for variable in trained if variable.index in self._backward.reached]
        parameters = sum(variable.parameters for variable in reached)
        if len(reached) == len(trained):
            return replace(box, cut=cut, reach="all"), [*words, f"✓ gradient: {parameters:,}"]
        total = sum(variable.parameters for variable in trained)
        if reached:
            return replace(box, cut=cut, reach="some"), [*words, f"gradient: {parameters:,} of {total:,}"]
        causes = {self._backward.cut_by.get(variable.index, "") for variable in trained} - {"", layer.name}
        by = f", cut by {shortened(min(causes))}" if causes else ""
        return replace(box, cut=cut, reach="none"), [*words, f"✕ no gradient{by}"]

    # Values ----------------------------------------------------------------------------------------------------

    def _values(self, prefix: str, call: Call) -> Iterator[Box]:
        for position, constant in enumerate(call.constants):
            if constant.variable is None:
                yield _constant_box(f"{prefix}constant {call.index}.{position}", constant)
            else:
                yield self._variable_box(
                    f"{prefix}variable {constant.variable}", self._graph.variables[constant.variable]
                )

    def _variable_box(self, key: str, variable: Variable) -> Box:
        self._thing[key] = f"variable {variable.index}"
        self._used[key] = frozenset([variable.index])
        owners = self._graph.owners(variable)
        if owners:
            belongs = f"of {shortened(owners[0].name)}"
        elif variable.tracked:
            belongs = "held by the model itself"
        else:
            belongs = "in no layer: never trained"
        lines = [f"tf.Variable · {count(variable.parameters)}", _shape(variable.shape), belongs]
        if self._backward and not variable.tracked:
            arrives = variable.index in self._backward.reached
            lines.append("a gradient arrives, in vain" if arrives else "✕ no gradient")
        return Box(key, "variable", shortened(variable.name), tuple(lines))

    # Shared weights --------------------------------------------------------------------------------------------

    def _with_bands(self, drawing: Drawing) -> Drawing:
        """Number the sets of boxes that share variables, and say it in the boxes."""
        sets = [keys for keys in self._sets(drawing) if len(keys) > 1]
        band = {key: number for number, keys in enumerate(sets) for key in keys}

        def marked(box: Box) -> Box:
            if box.inside:
                box = replace(box, inside=replace(box.inside, boxes=tuple(map(marked, box.inside.boxes))))
            if box.key not in band:
                return box
            lines = list(box.lines)
            number, times = self._times.get(box.key, (1, 1))
            if times > 1:
                lines[lines.index(f"call {number} of {times}")] = f"call {number} of {times}: same weights"
            elif box.kind != "variable":
                others = [self._used[key] for key in sets[band[box.key]] if key != box.key]
                common = self._used[box.key] & frozenset().union(*others)
                parameters = sum(self._graph.variables[index].parameters for index in common)
                lines.append(f"shares {count(parameters)}")
            return replace(box, band=band[box.key], lines=tuple(lines))

        return replace(drawing, boxes=tuple(map(marked, drawing.boxes)))

    def _sets(self, drawing: Drawing) -> list[list[str]]:
        """The keys of boxes, those with common variables together.

        A nested model that is called twice shares as a whole: what is inside is then not linked once more.
        """
        boxes = [box.key for box in drawing.all_boxes() if self._used.get(box.key)]
        leader = {key: key for key in boxes}

        def find(key: str) -> str:
            while leader[key] != key:
                leader[key] = leader[leader[key]]
                key = leader[key]
            return key

        # What a box stands for, what is around it, and what is in it: a nested model shares nothing with its parts.
        family = {key: self._around(key) for key in boxes}
        for key in boxes:
            for around in _prefixes(key):
                family.setdefault(around, set()).add(self._thing[key])
        # For each variable, one box of each layer that uses it.
        users: dict[int, dict[str, str]] = {}
        for key in boxes:
            own = self._thing[key]
            for variable in sorted(self._used[key]):
                met = users.setdefault(variable, {})
                for thing, other in met.items():
                    if thing == own or not family[key] & family[other]:
                        leader[find(key)] = find(other)
                met.setdefault(own, key)
        sets: dict[str, list[str]] = {}
        for key in boxes:
            sets.setdefault(find(key), []).append(key)
        return list(sets.values())

    def _around(self, key: str) -> set[str]:
        """What a box stands for, and what the nested models around it stand for."""
        return {self._thing[part] for part in _prefixes(key)}


def _prefixes(key: str) -> Iterator[str]:
    """The keys of the nested models around a box, and its own."""
    parts = key.split("/")
    for depth in range(1, len(parts) + 1):
        yield "/".join(parts[:depth])


def _constant_box(key: str, constant: Constant) -> Box:
    what = "one number" if constant.shape == () else _shape(constant.shape)
    return Box(key, "constant", "constant", (what, "baked in: never changes"))


def _switched(variables: Sequence[Variable]) -> Iterator[str]:
    """A line on parameters that are not trained, if there are any."""
    roles = {"trainable": 0, "frozen": 0, "state": 0}
    for variable in variables:
        roles[variable.role] += variable.parameters
    if roles["frozen"] and not roles["trainable"] and not roles["state"]:
        yield "all frozen"
    elif roles["frozen"] or roles["state"]:
        yield _parts(roles["trainable"], roles["frozen"], roles["state"])


def _roles(trainable: int, frozen: int, state: int) -> str:
    total = count(trainable + frozen + state)
    if not frozen and not state:
        return f"{total}, all trainable"
    return f"{total}: {_parts(trainable, frozen, state)}"


def _parts(trainable: int, frozen: int, state: int) -> str:
    parts = {"trainable": trainable, "frozen": frozen, "state": state}
    return ", ".join(f"{number:,} {role}" for role, number in parts.items() if number)


def _operation(layer: Layer, call: Call) -> str:
    settings = [part for part in call.settings.split(", ") if part not in ("", "None")]
    # A slice has lost its colons on the way.
    if layer.type.endswith("getitem") or not 0 < len(", ".join(settings)) <= 20:
        return "TensorFlow operation"
    return f"TensorFlow operation with {', '.join(settings)}"


def _shapes(shapes: Sequence[Shape]) -> str:
    words = list(dict.fromkeys(_shape(shape) for shape in shapes))
    if len(shapes) == 1:
        return words[0]
    if len(words) == 1:
        return f"{len(shapes)} {TIMES} {words[0]}"
    return f"{words[0]} and {len(shapes) - 1} more"


def _shape(shape: Shape) -> str:
    return str(tuple(shape))
