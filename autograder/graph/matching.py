"""Lay one normal form over another: are they the same, and where not, which step is meant by which?

*The same* is decided by colours and by networkx. A step's colour stands for all that lies before and behind
it; steps of unequal colours are never the same. The forward pass has no cycles, so one sweep forward and one
backward carry a colour as far as many rounds of Weisfeiler and Lehman's algorithm would, and a chain of any
length costs two sweeps. Sweeps are repeated until the colours of shared variables settle too. A step that is
alone in its colour has only one partner; what remains are parts that look alike from everywhere, such as
fifty equal branches. They are apart from each other once the steps that are alone are taken out, and each
part is handed to networkx' VF2.

*Which is meant by which* is decided by growing an alignment from the inputs and the outputs, the surest pair
first. Graph edit distance (`networkx.optimize_graph_edit_distance`) would give a shortest list of edits, but
takes exponential time from a dozen steps on, and it does not know that two calls share a layer.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import networkx as nx
from networkx.algorithms.isomorphism import DiGraphMatcher, categorical_edge_match, categorical_node_match

from autograder.graph.model import Constant
from autograder.graph.normal import Argument, NormalForm, Source, Step, used

Label = Callable[[NormalForm, int], Hashable]


class Colours:
    """Gives the same small number to the same description."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}

    def of(self, description: Hashable) -> int:
        """The number of a description."""
        return self._numbers.setdefault(description, len(self._numbers))

    def forward(self, form: NormalForm, start: Sequence[Hashable]) -> list[int]:
        """For every step, a colour for it and all that lies before it."""
        found: list[int] = []
        for step, label in zip(form.steps, start, strict=True):
            before: list[tuple[int, int]] = [
                (found[a.step], a.output) if isinstance(a, Source) else (-1, self.of(_constant(a)))
                for a in step.arguments
            ]
            found.append(self.of((label, tuple(sorted(before) if step.commutative else before))))
        return found

    def backward(self, form: NormalForm, start: Sequence[Hashable], ends: Sequence[Hashable]) -> list[int]:
        """For every step, a colour for it and all that lies behind it.

        Args:
            form: the steps.
            start: what is known of each step.
            ends: what is known of each output of the model.
        """
        found = [0] * len(form.steps)
        for index in reversed(range(len(form.steps))):
            behind: list[Any] = []
            for user, place in form.users[index]:
                step = form.steps[user]
                output = _output(step.arguments[place])
                behind.append((found[user], -1 if step.commutative else place, output))
            leaving = sorted((form.outputs[end].output, ends[end]) for end in form.ends[index])
            found[index] = self.of((start[index], tuple(sorted(behind)), tuple(leaving)))
        return found

    def rounds(self, form: NormalForm, start: Sequence[Hashable], count: int) -> list[list[int]]:
        """Colours for what lies up to so many steps before a step, and for what lies behind it."""
        found = []
        before, behind = ([self.of(label) for label in start] for _ in range(2))
        for _ in range(count):
            made_by = [[before[a.step] for a in s.arguments if isinstance(a, Source)] for s in form.steps]
            used_by = [sorted(behind[user] for user, _ in users) for users in form.users]
            before = [self.of((c, tuple(sorted(some)))) for c, some in zip(before, made_by, strict=True)]
            behind = [self.of((c, tuple(some))) for c, some in zip(behind, used_by, strict=True)]
            found += [before, behind]
        return found


def _constant(constant: Constant) -> tuple[Hashable, ...]:
    # Which variable it is, is a matter of sharing and not of the step.
    return ("variable" if constant.variable is not None else constant.digest, constant.shape, constant.dtype)


def _output(argument: Argument) -> int:
    return argument.output if isinstance(argument, Source) else 0


def same(first: NormalForm, second: NormalForm) -> bool:
    """Whether two normal forms are equal up to names and order: steps, arguments, variables and their roles."""
    forms = (first, second)
    if len({(len(f.steps), len(f.inputs), len(f.outputs), len(f.uses)) for f in forms}) > 1:
        return False
    if len({tuple(sorted(_spare(form))) for form in forms}) > 1:
        return False
    colours = Colours()
    steps = [[colours.of(_label(form, index)) for index in range(len(form.steps))] for form in forms]
    variables: list[dict[int, int]] = [
        {v: colours.of(_variable(form, v)) for v in form.uses} for form in forms
    ]
    classes = 0
    while True:
        for which, form in enumerate(forms):
            start = [
                (colour, tuple(variables[which][v] for v in used(step)))
                for colour, step in zip(steps[which], form.steps, strict=True)
            ]
            ends = [str(place) for place in range(len(form.outputs))]
            steps[which] = colours.backward(form, colours.forward(form, start), ends)
            variables[which] = {
                v: colours.of((variables[which][v], tuple(sorted((steps[which][s], p) for s, p in uses))))
                for v, uses in form.uses.items()
            }
        counts = [Counter([*steps[w], *variables[w].values()]) for w in (0, 1)]
        if counts[0] != counts[1]:
            return False
        if len(counts[0]) == classes:
            break
        classes = len(counts[0])
    parts = [_alike(form, steps[w], variables[w], counts[w]) for w, form in enumerate(forms)]
    return _same_parts(*parts)


def _label(form: NormalForm, index: int) -> Hashable:
    step = form.steps[index]
    place = form.inputs.index(index) if index in form.inputs else -1
    return (step.does, step.inference, place)


def _variable(form: NormalForm, index: int) -> Hashable:
    variable = form.graph.variables[index]
    return (variable.shape, variable.dtype, variable.role, variable.tracked)


def _spare(form: NormalForm) -> Iterator[tuple[str, str]]:
    for index in form.spare:
        layer = form.graph.layers[index]
        yield layer.type, repr([_variable(form, v) for v in layer.variables])


def _alike(
    form: NormalForm, steps: Sequence[int], variables: dict[int, int], count: Counter[int]
) -> list[nx.DiGraph]:
    """The connected parts of what is not alone in its colour: steps, and variables that tie them together."""
    graph = nx.DiGraph()
    for index, colour in enumerate(steps):
        if count[colour] > 1:
            graph.add_node(("step", index), colour=colour)
    for index, colour in variables.items():
        if count[colour] > 1:
            graph.add_node(("variable", index), colour=colour)
    labels: defaultdict[tuple[Any, Any], list[Any]] = defaultdict(list)
    for index, step in enumerate(form.steps):
        for place, argument in enumerate(step.arguments):
            if isinstance(argument, Source):
                edge = ("step", argument.step), ("step", index)
                labels[edge].append((argument.output, -1 if step.commutative else place))
        for place, variable in enumerate(used(step)):
            labels[("variable", variable), ("step", index)].append((0, place))
    for (tail, head), label in labels.items():
        if tail in graph and head in graph:
            graph.add_edge(tail, head, label=tuple(sorted(label)))
    return [graph.subgraph(part).copy() for part in nx.weakly_connected_components(graph)]


def _same_parts(first: list[nx.DiGraph], second: list[nx.DiGraph]) -> bool:
    """Whether every part on one side is one on the other. Any pairing will do: alike is alike."""
    waiting: defaultdict[Hashable, list[nx.DiGraph]] = defaultdict(list)
    for part in second:
        waiting[_colours_of(part)].append(part)
    for part in first:
        candidates = waiting[_colours_of(part)]
        place = next((i for i, other in enumerate(candidates) if _isomorphic(part, other)), None)
        if place is None:
            return False
        candidates.pop(place)
    return True


def _colours_of(part: nx.DiGraph) -> Hashable:
    return tuple(sorted(colour for _, colour in part.nodes(data="colour")))


def _isomorphic(first: nx.DiGraph, second: nx.DiGraph) -> bool:
    matcher = DiGraphMatcher(
        first, second, categorical_node_match("colour", None), categorical_edge_match("label", None)
    )
    try:
        return bool(matcher.is_isomorphic())
    finally:
        matcher.reset_recursion_limit()  # it was raised for all of Python


# Which step is meant by which ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Alignment:
    """Which step of one normal form is meant by which of the other."""

    partner: dict[int, int]
    """From steps of the first to steps of the second; those without a partner are missing."""
    inputs: tuple[int | None, ...]
    """For each input of the first, the place of its partner among the inputs of the second."""
    outputs: tuple[int | None, ...]
    """The same for the outputs."""


def alignments(first: NormalForm, second: NormalForm) -> Iterator[Alignment]:
    """Ways to lay one normal form over the other: first by the order of inputs and outputs, then without it."""
    colours = Colours()
    labels = [[colours.of(step.does) for step in form.steps] for form in (first, second)]
    forms = (first, second)
    backward = [colours.backward(f, labels[w], [""] * len(f.outputs)) for w, f in enumerate(forms)]
    forward = [colours.forward(form, labels[w]) for w, form in enumerate(forms)]
    inputs = [[(labels[w][i], backward[w][i]) for i in f.inputs] for w, f in enumerate(forms)]
    outputs = [
        [(labels[w][source.step], forward[w][source.step], source.output) for source in f.outputs]
        for w, f in enumerate(forms)
    ]
    ways_in = dict.fromkeys([_in_order(*inputs), _by_look(*inputs)])
    ways_out = dict.fromkeys([_in_order(*outputs), _by_look(*outputs)])
    for way_in in ways_in:
        for way_out in ways_out:
            yield _Grower(first, second, way_in, way_out).grow()


def _in_order(first: list[Any], second: list[Any]) -> tuple[int | None, ...]:
    return tuple(place if place < len(second) else None for place in range(len(first)))


def _by_look(first: list[Any], second: list[Any]) -> tuple[int | None, ...]:
    """Pairs what looks alike, as exactly as can be; on equal terms what stands in the same place."""
    found: list[int | None] = [None] * len(first)
    free = set(range(len(second)))
    for known in range(len(first[0]) if first else 0, -1, -1):
        for place, look in enumerate(first):
            if found[place] is not None:
                continue
            alike = [other for other in sorted(free) if second[other][:known] == look[:known]]
            if alike:
                found[place] = place if place in alike else alike[0]
                free.discard(found[place])
    return tuple(found)


def category(step: Step) -> str:
    """Steps of one category may stand for one another, such as one merge for another."""
    return step.kind if step.kind in ("activation", "merge") else step.type


class _Grower:
    """Grows an alignment from pairs that are sure to the steps next to them."""

    def __init__(
        self,
        first: NormalForm,
        second: NormalForm,
        way_in: tuple[int | None, ...],
        way_out: tuple[int | None, ...],
    ) -> None:
        self._forms = (first, second)
        self._way_in, self._way_out = way_in, way_out
        colours = Colours()
        starts = [[colours.of(step.does) for step in form.steps] for form in self._forms]
        self._labels = [list(start) for start in starts]
        named_in = (way_in, range(len(second.inputs)))
        named_out = (way_out, range(len(second.outputs)))
        for start, form, names in zip(starts, self._forms, named_in, strict=True):
            for index, name in zip(form.inputs, names, strict=True):
                start[index] = colours.of((start[index], name))
        self._before = [colours.forward(f, start) for f, start in zip(self._forms, starts, strict=True)]
        self._behind = [
            colours.backward(f, start, [str(name) for name in names])
            for f, start, names in zip(self._forms, starts, named_out, strict=True)
        ]
        self._near = [colours.rounds(f, start, 4) for f, start in zip(self._forms, starts, strict=True)]
        self._partner: dict[int, int] = {}
        self._taken: set[int] = set()
        self._votes: Counter[tuple[int, int]] = Counter()
        self._heap: list[tuple[int, int, int, int, int]] = []

    def grow(self) -> Alignment:
        first, second = self._forms
        for place, other in enumerate(self._way_in):
            if other is not None:
                self._pair(first.inputs[place], second.inputs[other])
        for place, other in enumerate(self._way_out):
            if other is not None:
                self._propose(first.outputs[place].step, second.outputs[other].step)
        self._follow()
        while self._anchor():
            self._follow()
        self._replace()
        return Alignment(dict(sorted(self._partner.items())), self._way_in, self._way_out)

    def _distance(self, one: int, other: int) -> int | None:
        """How unlike two steps are; None where they can't be partners."""
        if category(self._forms[0].steps[one]) != category(self._forms[1].steps[other]):
            return None
        before, behind = (side[0][one] == side[1][other] for side in (self._before, self._behind))
        if before:
            return 0 if behind else 1
        if behind:
            return 2
        return 3 if self._labels[0][one] == self._labels[1][other] else 4

    def _propose(self, one: int, other: int) -> None:
        if one in self._partner or other in self._taken:
            return
        distance = self._distance(one, other)
        if distance is not None:
            self._votes[one, other] += 1
            alike = sum(a[one] == b[other] for a, b in zip(*self._near, strict=True))
            heapq.heappush(self._heap, (distance, -alike, -self._votes[one, other], one, other))

    def _follow(self) -> None:
        while self._heap:
            *_, one, other = heapq.heappop(self._heap)
            if one not in self._partner and other not in self._taken:
                self._pair(one, other)

    def _pair(self, one: int, other: int) -> None:
        """Make two steps partners and propose what is next to them."""
        first, second = self._forms
        self._partner[one] = other
        self._taken.add(other)
        step, twin = first.steps[one], second.steps[other]
        free = step.commutative or twin.commutative or len(step.arguments) != len(twin.arguments)
        for place, argument in enumerate(step.arguments):
            if isinstance(argument, Source):
                places = range(len(twin.arguments)) if free else range(place, place + 1)
                for there in places:
                    if there < len(twin.arguments) and isinstance(source := twin.arguments[there], Source):
                        self._propose(argument.step, source.step)
        for user, _ in first.users[one]:
            for twin_user, _ in second.users[other]:
                self._propose(user, twin_user)
        # The other calls of the same layer.
        for variable, twin_variable in zip(step.variables, twin.variables, strict=False):
            for user, _ in first.uses[variable][:8]:
                for twin_user, _ in second.uses[twin_variable][:8]:
                    self._propose(user, twin_user)

    def _anchor(self) -> bool:
        """Pair steps of which only one of the kind is left on each side."""
        left: list[dict[int, list[int]]] = [{}, {}]
        for which, taken in enumerate((self._partner.keys(), self._taken)):
            for index, label in enumerate(self._labels[which]):
                if index not in taken and self._forms[which].steps[index].kind != "input":
                    left[which].setdefault(label, []).append(index)
        pairs = [
            (alone[0], left[1][label][0])
            for label, alone in left[0].items()
            if len(alone) == 1 and len(left[1].get(label, ())) == 1
        ]
        # An activation or a merge that moved is another one: there are too few kinds of them.
        pairs = [(one, other) for one, other in pairs if self._forms[0].steps[one].variables]
        for one, other in pairs:
            self._propose(one, other)
        return bool(pairs)

    def _replace(self) -> None:
        """Pair what is left over at the same place on both sides: one thing stands where another should."""
        first, second = self._forms
        for one, step in enumerate(first.steps):
            if one in self._partner or step.kind == "input":
                continue
            candidates = {
                user
                for argument in step.arguments
                if isinstance(argument, Source) and argument.step in self._partner
                for user, _ in second.users[self._partner[argument.step]]
                if user not in self._taken
            }
            behind = {self._partner[user] for user, _ in first.users[one] if user in self._partner}
            leaving = {self._way_out[end] for end in first.ends[one]}
            for other in sorted(candidates):
                users = {user for user, _ in second.users[other]}
                if users & behind or leaving & set(second.ends[other]):
                    self._partner[one] = other
                    self._taken.add(other)
                    break
