"""What does not fit when one normal form is laid over another, in the words of the one who wrote the first."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import networkx as nx

from autograder.graph.matching import Alignment
from autograder.graph.model import Constant, Graph, Layer, Variable
from autograder.graph.normal import Argument, NormalForm, Place, Source, Step, settings_of, used

Kind = Literal[
    "no-graph",
    "input",
    "output",
    "order",
    "setting",
    "type",
    "constant",
    "missing",
    "extra",
    "wiring",
    "sharing",
    "frozen",
    "shape",
    "uncalled",
]


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that differs, and where it is in both graphs, so that a picture can mark it."""

    kind: Kind
    sentence: str
    """What differs, for the person who wrote the first model; without a full stop."""
    calls: tuple[Place, ...] = ()
    """In the graph: for each call the position in `Graph.layers` of the nested model that it is inside of (-1
    for none) and its position in that flow. The calls of the nested models around it are among them."""
    reference_calls: tuple[Place, ...] = ()
    """The same in the reference."""
    layers: tuple[int, ...] = ()
    """The layers that it concerns: positions in `Graph.layers`."""
    reference_layers: tuple[int, ...] = ()
    """The same in the reference."""


def differences(mine: NormalForm, theirs: NormalForm, way: Alignment) -> list[Difference]:
    """What differs between two normal forms.

    Args:
        mine: the one to tell about, in the names of its own layers.
        theirs: the target.
        way: which step of one is meant by which of the other.

    Returns:
        All differences, in the order in which one would mend them. What follows from another difference,
        such as the shapes behind it, is left out.
    """
    return _Finder(mine, theirs, way).find()


def everything(mine: NormalForm, theirs: NormalForm) -> Difference:
    """The difference of two normal forms of which no single step can be told to differ."""
    return Difference(
        "wiring",
        "the same layers are there, but they are connected or share their weights in another way",
        _calls(mine.steps),
        _calls(theirs.steps),
    )


def _calls(steps: Iterable[Step]) -> tuple[Place, ...]:
    return tuple(dict.fromkeys(place for step in steps for place in step.calls))


# Words ---------------------------------------------------------------------------------------------------------


def _listed(words: Iterable[str], most: int = 6) -> str:
    shown = list(dict.fromkeys(words))
    if len(shown) > most:
        shown = [*shown[: most - 1], f"{len(shown) - most + 1} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _number(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _a(noun: str) -> str:
    spelled = noun[:2].isupper() and noun[0] in "AEFHILMNORSX"
    return f"an {noun}" if spelled or noun[0] in "AEIOaeio" else f"a {noun}"


def _value(value: Any) -> str:
    """A setting in a few words."""
    if value is None:
        return "none"
    if isinstance(value, dict):
        name = str(value.get("class_name", "another one"))
        inside = value.get("config")
        told = ", ".join(f"{key}={_value(entry)}" for key, entry in inside.items()) if inside else ""
        return f"{name}({told})" if told else name
    if isinstance(value, list):
        return f"({', '.join(map(_value, value))}{',' if len(value) == 1 else ''})"
    return repr(value)


_COUNTED = frozenset({"units", "filters", "groups", "num_heads"})


def _setting(key: str, mine: Any, theirs: Any) -> str:
    """`5 units, the target 4`."""
    if key in _COUNTED:
        return f"{_value(mine)} {key.replace('num_', '')}, the target {_value(theirs)}"
    if key == "use_bias":
        return "a bias, the target none" if mine else "no bias, the target one"
    if key == "function":
        return "another function than the target"
    return f"{key} {_value(mine)}, the target {_value(theirs)}"


# Settings that repeat those of a layer which is held, and which tells them itself.
_HELD = frozenset({"backward_layer", "cell", "cells", "layer"})

_ROLES = {
    "trainable": ("trains", "train"),
    "frozen": ("is frozen", "are frozen"),
    "state": ("is never trained by design", "are never trained by design"),
    "untracked": ("belongs to no layer, so nothing trains it", "belong to no layer, so nothing trains them"),
}


def _role(variable: Variable) -> str:
    return variable.role if variable.tracked else "untracked"


def _name(variable: Variable) -> str:
    return f"`{variable.name.removesuffix(':0')}`"


class _Finder:
    """Tells what does not fit when one normal form is laid over another."""

    def __init__(self, mine: NormalForm, theirs: NormalForm, way: Alignment) -> None:
        self._mine, self._theirs, self._way = mine, theirs, way
        self._partner = way.partner
        self._back = {other: one for one, other in way.partner.items()}
        self._pairs = [(mine.steps[one], theirs.steps[other]) for one, other in way.partner.items()]
        self._called: defaultdict[int, list[int]] = defaultdict(list)
        for index, step in enumerate(mine.steps):
            if not step.part:
                self._called[step.layer].append(index)
        self._tied: dict[tuple[int, int], list[tuple[Step, Step]]] = {}
        for one, other in self._pairs:
            if len(used(one)) == len(used(other)):
                for pair in zip(used(one), used(other), strict=True):
                    self._tied.setdefault(pair, []).append((one, other))
        self._reach: list[int] = []  # for every step, the first of the inputs that lead to it
        for index, step in enumerate(mine.steps):
            before = [self._reach[a.step] for a in step.arguments if isinstance(a, Source)]
            place = mine.inputs.index(index) if step.kind == "input" else len(mine.inputs)
            self._reach.append(min([place, *before]))
        self._own = {other: one for one, other in reversed(self._tied)}

    def find(self) -> list[Difference]:
        """All differences, in the order in which one would mend them."""
        found = [
            *self._inputs(),
            *self._settings(),
            *self._wiring(),
            *self._left_over(),
            *self._outputs(),
            *self._sharing(),
            *self._frozen(),
            *self._uncalled(),
        ]
        # Shapes follow from settings and from what a layer is called on.
        return _merged(found or self._shapes())

    # Names of things, all of them from the learner's model.

    def _step(self, index: int) -> str:
        """A step of the learner's."""
        step = self._mine.steps[index]
        name = f"`{self._mine.graph.layers[step.layer].name}`"
        if step.part:
            return f"the {step.type} of {name}"
        calls = self._called[step.layer]
        return f"call {calls.index(index) + 1} of {name}" if len(calls) > 1 else name

    def _makers(self, arguments: Iterable[Argument], theirs: bool = False) -> list[str]:
        """The learner's names of the steps that make the arguments; those without a partner left out."""
        steps = [argument.step for argument in arguments if isinstance(argument, Source)]
        if theirs:
            steps = [self._back[step] for step in steps if step in self._back]
        return [self._step(step) for step in steps]

    def _target(self, step: Step) -> str:
        """A step of the target, to which the learner has no name."""
        if step.kind == "activation":
            return step.type
        if step.kind == "input":
            told = json.loads(step.config)
            return f"an input of shape {_shape(told['shape'])} and type {told['dtype']}"
        again = [self._own[variable] for variable in step.variables if variable in self._own]
        if again:
            return f"a further call of `{self._owner(again[0]).name}`"
        if step.kind == "merge":
            makers = self._makers(step.arguments, theirs=True)
            return f"the {step.type}" + (f" of {_listed(makers)}" if len(makers) > 1 else "")
        if step.kind == "operation":
            return f"the operation {step.type}"
        size = _size(self._theirs.graph, step.variables)
        return f"the {step.type}" + (f" of {_number(size, 'parameter')}" if size else "")

    def _maker(self, index: int) -> str:
        """A step of the target with the layer that it is a part of."""
        return self._target(self._theirs.steps[self._core(self._theirs, index)])

    def _owner(self, variable: int) -> Layer:
        """The learner's layer that is called where a variable is first used."""
        _, index = self._first_use(variable)
        return self._mine.graph.layers[self._mine.steps[index].layer]

    def _near(self, before: Sequence[str], behind: Sequence[str]) -> str:
        if len(set(before)) == 1 and len(set(behind)) == 1:
            return f" between {before[0]} and {behind[0]}"
        if before:
            return f" behind {_listed(before, 3)}"
        return f" before {_listed(behind, 3)}" if behind else ""

    def _difference(
        self, kind: Kind, sentence: str, mine: Iterable[Step] = (), theirs: Iterable[Step] = ()
    ) -> Difference:
        mine, theirs = list(mine), list(theirs)
        return Difference(
            kind,
            sentence,
            _calls(mine),
            _calls(theirs),
            tuple(dict.fromkeys(step.layer for step in mine)),
            tuple(dict.fromkeys(step.layer for step in theirs)),
        )

    # What can differ.

    def _inputs(self) -> Iterator[Difference]:
        moved = [place for place, other in enumerate(self._way.inputs) if other not in (None, place)]
        if moved and len(self._mine.inputs) == len(self._theirs.inputs):
            names = [self._step(self._mine.inputs[place]) for place in range(len(self._mine.inputs))]
            order = sorted(range(len(names)), key=lambda place: self._way.inputs[place] or 0)
            yield self._difference(
                "order",
                f"the inputs are in another order: {', '.join(names)}; "
                f"in the target {', '.join(names[place] for place in order)}",
                [self._mine.steps[self._mine.inputs[place]] for place in moved],
            )
        for one, other in self._pairs:
            if one.kind == "input" and one.config != other.config:
                told, wanted = json.loads(one.config), json.loads(other.config)
                name = self._mine.graph.layers[one.layer].name
                if told["shape"] != wanted["shape"]:
                    what = f"has the shape {_shape(told['shape'])}, the target's {_shape(wanted['shape'])}"
                elif told["dtype"] != wanted["dtype"]:
                    what = f"has the type {told['dtype']}, the target's {wanted['dtype']}"
                else:
                    what = "takes other tensors (dense, ragged or sparse) than the target's"
                yield self._difference("input", f"the input `{name}` {what}", [one], [other])

    def _settings(self) -> Iterator[Difference]:
        """Partners that do different things; two that have changed places are told as one difference."""
        differ = {
            one: other
            for one, other in self._partner.items()
            if self._mine.steps[one].does != self._theirs.steps[other].does
            and self._mine.steps[one].kind != "input"
        }
        does = {
            one: (self._mine.steps[one].does, self._theirs.steps[other].does) for one, other in differ.items()
        }
        told: set[int] = set()
        for one, other in differ.items():
            if one in told:
                continue
            mirrored = next(
                (t for t in differ if t > one and t not in told and does[t] == does[one][::-1]), None
            )
            step, twin = self._mine.steps[one], self._theirs.steps[other]
            if mirrored is None:
                yield self._unlike(one, step, twin)
                continue
            told.add(mirrored)
            yield self._difference(
                "order",
                f"{self._step(one)} and {self._step(mirrored)} are the other way round in the target",
                [step, self._mine.steps[mirrored]],
                [twin, self._theirs.steps[differ[mirrored]]],
            )

    def _unlike(self, index: int, step: Step, twin: Step) -> Difference:
        name = self._step(index)
        if step.kind == twin.kind == "activation":
            what = f"`{self._mine.graph.layers[step.layer].name}` has the activation {step.type}"
            if not step.part:
                behind = self._near(self._makers(step.arguments), [])
                what = f"the activation{behind} is {step.type}"
            what += f", the target {twin.type}" if step.part else f", in the target {twin.type}"
            return self._difference("setting", what, [step], [twin])
        if step.type != twin.type:
            what = f"{name} is {_a(step.type)}; the target has {_a(twin.type)} there"
            if "operation" in (step.kind, twin.kind):
                what = f"where {name} stands, the target has {twin.type}"
            return self._difference("type", what, [step], [twin])
        layers = self._mine.graph.layers[step.layer], self._theirs.graph.layers[twin.layer]
        told = list(self._unlike_layers(layers[0], layers[1], step, twin))
        if not told and step.settings != twin.settings:
            words = [s.settings or "nothing else" for s in (step, twin)]
            told = [f"{name} is called with {words[0]}, in the target with {words[1]}"]
        return self._difference(
            "setting", "; ".join(told) or f"{name} is set otherwise in the target", [step], [twin]
        )

    def _unlike_layers(self, mine: Layer, theirs: Layer, step: Step, twin: Step) -> Iterator[str]:
        """What is set otherwise in a layer, or in the layers that it holds."""
        yield from self._unlike_held(mine, theirs, json.loads(step.config), json.loads(twin.config))

    def _unlike_held(
        self, mine: Layer, theirs: Layer, told: dict[str, Any], wanted: dict[str, Any]
    ) -> Iterator[str]:
        own = [{key: value for key, value in some.items() if key not in _HELD} for some in (told, wanted)]
        if own[0] != own[1]:
            yield from self._unlike_settings(mine.name, *own)
        elif len(mine.sublayers) == len(theirs.sublayers):
            for one, other in zip(mine.sublayers, theirs.sublayers, strict=True):
                held, meant = self._mine.graph.layers[one], self._theirs.graph.layers[other]
                if held.type != meant.type:
                    yield f"`{held.name}` is {_a(held.type)}; the target has {_a(meant.type)} there"
                else:
                    yield from self._unlike_held(held, meant, settings_of(held), settings_of(meant))

    @staticmethod
    def _unlike_settings(name: str, mine: dict[str, Any], theirs: dict[str, Any]) -> Iterator[str]:
        keys = sorted(key for key in mine.keys() | theirs.keys() if mine.get(key) != theirs.get(key))
        if keys:
            words = "; ".join(_setting(key, mine.get(key), theirs.get(key)) for key in keys[:3])
            yield f"`{name}` has {words}"

    def _wiring(self) -> Iterator[Difference]:
        turned: set[int] = set()
        for first, second in self._turned():
            turned |= {first, second}
            yield self._difference(
                "order",
                f"{self._step(first)} and {self._step(second)} are the other way round in the target",
                [self._mine.steps[first], self._mine.steps[second]],
                [self._theirs.steps[self._partner[one]] for one in (first, second)],
            )
        for one, other in self._partner.items():
            step, twin = self._mine.steps[one], self._theirs.steps[other]
            behind = {self._core(self._mine, a.step) for a in step.arguments if isinstance(a, Source)}
            if one not in turned and not behind & turned:
                yield from self._arguments(one, step, twin)

    def _turned(self) -> Iterator[tuple[int, int]]:
        """Pairs of steps that follow each other, and in the target the other way round."""
        for second, twin in self._partner.items():
            for argument in self._mine.steps[second].arguments:
                if not isinstance(argument, Source):
                    continue
                first = self._core(self._mine, argument.step)
                if first not in self._partner:
                    continue
                behind = self._theirs.steps[self._partner[first]].arguments
                if twin in {self._core(self._theirs, a.step) for a in behind if isinstance(a, Source)}:
                    yield first, second

    def _arguments(self, index: int, step: Step, twin: Step) -> Iterator[Difference]:
        """Partners that are called on different things."""
        given = [self._seen(argument) for argument in step.arguments]
        wanted = [_key(argument, self._theirs) for argument in twin.arguments]
        free = step.commutative and twin.commutative
        if given == wanted or (free and sorted(given) == sorted(wanted)):
            return
        name = self._step(index)
        if sorted(given) == sorted(wanted):
            how = "the other way round" if len(given) == 2 else "in another order"
            yield self._difference("order", f"{name} takes its inputs {how} in the target", [step], [twin])
            return
        if free or len(given) != len(wanted):
            rest = _without(list(zip(given, step.arguments, strict=True)), wanted)
            rest_wanted = _without(list(zip(wanted, twin.arguments, strict=True)), given)
        else:
            places = [place for place in range(len(given)) if given[place] != wanted[place]]
            rest = [step.arguments[place] for place in places]
            rest_wanted = [twin.arguments[place] for place in places]
        if len(given) != len(wanted):
            yield self._count(name, step, twin, rest, rest_wanted)
            return
        for argument, other in zip(rest, rest_wanted, strict=True):
            yield from self._argument(name, step, twin, argument, other)

    def _seen(self, argument: Argument) -> tuple[str, ...]:
        """An argument in terms of the target."""
        if isinstance(argument, Constant):
            return _key(argument, self._mine)
        step = self._partner.get(argument.step)
        return (
            ("own", str(argument.step)) if step is None else _key(Source(step, argument.output), self._theirs)
        )

    def _count(
        self, name: str, step: Step, twin: Step, rest: list[Argument], rest_wanted: list[Argument]
    ) -> Difference:
        sentence = f"{name} takes {_number(len(step.arguments), 'input')}, the target {len(twin.arguments)}"
        missing = self._makers(rest_wanted, theirs=True)
        surplus = self._makers(rest)
        if missing and len(step.arguments) < len(twin.arguments):
            sentence += f": {_listed(missing)} {'is' if len(missing) == 1 else 'are'} missing among them"
        elif surplus and len(step.arguments) > len(twin.arguments):
            sentence += f": {_listed(surplus)} should not be among them"
        return self._difference("wiring", sentence, [step], [twin])

    def _argument(
        self, name: str, step: Step, twin: Step, argument: Argument, other: Argument
    ) -> Iterator[Difference]:
        if isinstance(argument, Source) and isinstance(other, Source):
            # A step that is missing or too much, or that stands elsewhere, is told by itself.
            if argument.step not in self._partner or other.step not in self._back:
                return
            if self._partner[argument.step] == other.step:
                sentence = (
                    f"{name} takes output {argument.output + 1} of {self._step(argument.step)}, "
                    f"in the target output {other.output + 1}"
                )
            else:
                wanted = self._step(self._back[other.step])
                sentence = f"{name} is called on {self._step(argument.step)}, in the target on {wanted}"
            yield self._difference("wiring", sentence, [step], [twin])
            return
        if isinstance(argument, Constant) and isinstance(other, Constant):
            kinds = [constant.variable is None for constant in (argument, other)]
            if all(kinds):
                shape = _shape(argument.shape)
                value = f"fixed value of shape {shape}" if argument.shape else "number"
                sentence = f"the {value} that {name} takes is another in the target"
                yield self._difference("constant", sentence, [step], [twin])
            if kinds[0] == kinds[1]:
                return
        wanted = self._taken(other, self._theirs)
        if isinstance(other, Source):
            maker = self._back.get(other.step)
            wanted = f"what {self._step(maker) if maker is not None else self._maker(other.step)} gives"
        taken = self._taken(argument, self._mine)
        yield self._difference("constant", f"{name} takes {taken}; the target takes {wanted}", [step], [twin])

    def _taken(self, argument: Argument, form: NormalForm) -> str:
        if isinstance(argument, Source):
            return f"what {self._step(argument.step)} gives" if form is self._mine else "a tensor"
        if argument.variable is None:
            if argument.shape == ():
                return "a number"
            return f"a fixed value of shape {_shape(argument.shape)}, computed once while building"
        variable = form.graph.variables[argument.variable]
        size = _number(variable.parameters, "parameter")
        if form is self._theirs:
            return f"a variable of {size}"
        loose = ", which belongs to no layer" if not variable.tracked else ""
        return f"the variable {_name(variable)} of {size}{loose}"

    def _left_over(self) -> Iterator[Difference]:
        """Steps without a partner: missing ones, ones too many, and those that only stand elsewhere."""
        missing = [i for i in range(len(self._theirs.steps)) if i not in self._back]
        extra = [i for i in range(len(self._mine.steps)) if i not in self._partner]
        for one in list(extra):
            step = self._mine.steps[one]
            other = next((i for i in missing if self._theirs.steps[i].does == step.does), None)
            if other is None or step.kind == "input":
                continue
            extra.remove(one)
            missing.remove(other)
            yield self._moved(one, other)
        for part in _parts(self._theirs, missing):
            yield self._missing(part)
        for part in _parts(self._mine, extra):
            yield self._extra(part)

    def _moved(self, one: int, other: int) -> Difference:
        step, twin = self._mine.steps[one], self._theirs.steps[other]
        name = self._step(one)
        users = {user for user, _ in self._mine.users[one]}
        behind = {self._back.get(a.step) for a in twin.arguments if isinstance(a, Source)}
        before = {self._back.get(user) for user, _ in self._theirs.users[other]}
        arguments = {a.step for a in step.arguments if isinstance(a, Source)}
        around = sorted((users & behind) | (arguments & before))
        if around:
            sentence = f"{name} and {self._step(around[0])} are the other way round in the target"
        else:
            here = self._near(self._makers(step.arguments), [])
            there = self._near(
                self._makers(twin.arguments, theirs=True),
                [self._step(i) for i in sorted(i for i in before if i is not None)],
            )
            sentence = f"{name} stands{here or ' here'}, in the target{there or ' elsewhere'}"
        return self._difference("order", sentence, [step], [twin])

    def _missing(self, part: list[int]) -> Difference:
        steps = [self._theirs.steps[index] for index in part]
        inside = set(part)
        before = self._makers(
            (a for s in steps for a in s.arguments if isinstance(a, Source) and a.step not in inside),
            theirs=True,
        )
        behind = [
            self._step(self._back[user])
            for index in part
            for user, _ in self._theirs.users[index]
            if user in self._back
        ]
        words = [
            f"{self._target(step)}{self._with(self._theirs, index, inside)}"
            for index, step in zip(part, steps, strict=True)
            if not (step.part and self._core(self._theirs, index) in inside)
        ]
        near = self._near(before, behind)
        if len(words) == 1:
            if steps[0].kind == "merge" and words[0] != f"the {steps[0].type}":
                near = self._near([], behind)  # what it merges is named already
            sentence = f"{words[0]} is missing{near}"
        else:
            sentence = f"{len(words)} steps are missing{near}: {_listed(words, 4)}"
        kind: Kind = "input" if all(step.kind == "input" for step in steps) else "missing"
        return self._difference(kind, sentence, (), steps)

    def _extra(self, part: list[int]) -> Difference:
        steps = [self._mine.steps[index] for index in part]
        inside = set(part)
        words = []
        for index, step in zip(part, steps, strict=True):
            core = self._core(self._mine, index)
            if step.part and core in inside:
                continue
            if step.kind == "activation":
                where = self._makers(step.arguments)
                words.append(f"{step.type} behind {where[0]}" if where else step.type)
                continue
            words.append(f"{self._step(index)}{self._told(step)}")
        verb = "is" if len(words) == 1 else "are"
        kind: Kind = "input" if all(step.kind == "input" for step in steps) else "extra"
        return self._difference(kind, f"{_listed(words, 4)} {verb} not in the target", steps)

    def _told(self, step: Step) -> str:
        """What a step of the learner's is, in brackets."""
        told = [{"input": "an input", "operation": ""}.get(step.kind, step.type)]
        size = _size(self._mine.graph, step.variables)
        told += [_number(size, "parameter")] if size else []
        loose = [a for a in step.arguments if isinstance(a, Constant) and a.variable is not None]
        told += [f"with {self._taken(argument, self._mine)}" for argument in loose]
        words = ", ".join(filter(None, told))
        return f" ({words})" if words else ""

    @staticmethod
    def _core(form: NormalForm, index: int) -> int:
        """The step whose `activation=` a step is; any other step itself."""
        step = form.steps[index]
        if step.part and isinstance(step.arguments[0], Source):
            return step.arguments[0].step
        return index

    def _with(self, form: NormalForm, index: int, inside: set[int]) -> str:
        """The activation that comes with a step."""
        for user, _ in form.users[index]:
            if user in inside and form.steps[user].part:
                return f" with {form.steps[user].type}"
        return ""

    def _outputs(self) -> Iterator[Difference]:
        mine, theirs = self._mine.outputs, self._theirs.outputs
        if len(mine) != len(theirs):
            yield self._difference(
                "output", f"the model has {_number(len(mine), 'output')}, the target {len(theirs)}"
            )
        elif any(other not in (None, place) for place, other in enumerate(self._way.outputs)):
            names = self._makers(mine)
            order = sorted(range(len(names)), key=lambda place: self._way.outputs[place] or 0)
            yield self._difference(
                "order",
                f"the outputs are in another order: {', '.join(names)}; "
                f"in the target {', '.join(names[place] for place in order)}",
                [self._mine.steps[source.step] for source in mine],
            )
        for place, other in enumerate(self._way.outputs):
            if other is None:
                continue
            given, wanted = mine[place], theirs[other]
            step, twin = self._partner.get(given.step), self._back.get(wanted.step)
            if step is None or twin is None or (step, given.output) == (wanted.step, wanted.output):
                continue
            which = f"output {place + 1}" if len(mine) > 1 else "the output"
            made = f"is what {self._step(given.step)} gives, in the target what {self._step(twin)} gives"
            if step == wanted.step:
                made = (
                    f"is output {given.output + 1} of {self._step(given.step)}, "
                    f"in the target output {wanted.output + 1}"
                )
            yield self._difference(
                "output",
                f"{which} {made}",
                [self._mine.steps[given.step]],
                [self._theirs.steps[wanted.step]],
            )

    def _sharing(self) -> Iterator[Difference]:
        """Variables that stand for several of the target, or several for one."""
        ties = nx.Graph((("mine", one), ("theirs", other)) for one, other in self._tied)
        second: dict[tuple[int, int], list[int]] = {}
        joint: dict[tuple[int, ...], list[int]] = {}
        mixed: list[tuple[list[int], list[int]]] = []
        steps: dict[tuple[int, ...], list[tuple[Step, Step]]] = {}
        for part in nx.connected_components(ties):
            mine = sorted((index for side, index in part if side == "mine"), key=self._first_use)
            theirs = sorted(index for side, index in part if side == "theirs")
            if len(mine) == len(theirs) == 1:
                continue
            owners = tuple(dict.fromkeys(self._owner(v).index for v in mine))
            pairs = [p for tie, ps in self._tied.items() if tie[0] in mine for p in ps]
            if len(theirs) == 1:
                for variable in mine[1:]:
                    key = (self._owner(variable).index, owners[0])
                    second.setdefault(key, []).append(variable)
                    steps.setdefault(key, []).extend(
                        p for tie, ps in self._tied.items() if tie[0] == variable for p in ps
                    )
            elif len(mine) == 1:
                joint.setdefault(owners, []).append(mine[0])
                steps.setdefault(owners, []).extend(pairs)
            else:
                mixed.append((mine, theirs))
        layers = self._mine.graph.layers
        for key, variables in second.items():
            own, first = layers[key[0]], layers[key[1]]
            size = _number(_size(self._mine.graph, variables), "parameter")
            near = self._near(self._makers(steps[key][0][0].arguments), [])
            if own.type == first.type and own is not first:
                what = f"the {own.type} `{own.name}`{near} is a second one: {size} of its own"
            else:
                what = f"`{own.name}`{near} has {size} of its own"
            yield self._difference(
                "sharing", f"{what}; the target shares those of `{first.name}`", *_unzipped(steps[key])
            )
        for owners, variables in joint.items():
            others = {other for one, other in self._tied if one in variables}
            size = _number(_size(self._mine.graph, variables), "parameter")
            calls = len(others) // len(variables)
            yield self._difference(
                "sharing",
                f"`{layers[owners[0]].name}` is used with the same {size} in {calls} places; "
                f"the target has {calls} layers there, each with weights of its own",
                *_unzipped(steps[owners]),
            )
        for mine, theirs in mixed:
            yield from self._mixed(mine, theirs)

    def _mixed(self, mine: list[int], theirs: list[int]) -> Iterator[Difference]:
        """Calls that use the variables of one layer and in the target those of another."""
        votes = nx.Graph()
        for (one, other), pairs in self._tied.items():
            if one in mine and other in theirs:
                votes.add_edge(one, -1 - other, weight=len(pairs))
        meant = {-1 - min(edge): max(edge) for edge in nx.max_weight_matching(votes)}
        free = [v for v in mine if v not in meant.values()]
        for (one, other), pairs in self._tied.items():
            if one not in mine or meant.get(other) == one:
                continue
            wanted = meant.get(other, free[0] if len(free) == 1 else None)
            for step, twin in pairs:
                name = self._step(self._mine.steps.index(step))
                where = self._near(self._makers(step.arguments), [])
                owner = f"`{self._owner(wanted).name}`" if wanted is not None else "another layer"
                yield self._difference(
                    "sharing", f"{name}{where} is a call of {owner} in the target", [step], [twin]
                )

    def _first_use(self, variable: int) -> tuple[int, int]:
        """Variables are told in the order of the inputs that lead to them."""
        return min((self._reach[step], step) for step, _ in self._mine.uses[variable])

    def _frozen(self) -> Iterator[Difference]:
        """Variables that train here and not in the target, or the other way round."""
        groups: dict[tuple[str, str], dict[int, list[int]]] = {}
        steps: defaultdict[tuple[str, str], list[tuple[Step, Step]]] = defaultdict(list)
        for (one, other), pairs in self._tied.items():
            variable, wanted = self._mine.graph.variables[one], self._theirs.graph.variables[other]
            roles = (_role(variable), _role(wanted))
            if roles[0] != roles[1]:
                layer = pairs[0][0].layer
                groups.setdefault(roles, {}).setdefault(layer, []).append(one)
                steps[roles].extend(pairs)
        for roles, layers in groups.items():
            variables = {v for some in layers.values() for v in some}
            names = [f"`{self._mine.graph.layers[layer].name}`" for layer in layers]
            if "untracked" in roles:
                names = [_name(self._mine.graph.variables[v]) for v in sorted(variables)]
            many = len(names) > 1
            size = _number(_size(self._mine.graph, variables), "parameter")
            yield self._difference(
                "frozen",
                f"{_listed(names, 4)} {_ROLES[roles[0]][many]} ({size}); "
                f"in the target {'they' if many else 'it'} {_ROLES[roles[1]][many]}",
                *_unzipped(steps[roles]),
            )
        told = {id(one) for pairs in steps.values() for one, _ in pairs}
        for step, twin in self._pairs:
            if step.inference != twin.inference and id(step) not in told:
                name = self._mine.graph.layers[step.layer].name
                state = ("is frozen", "is not frozen")
                yield self._difference(
                    "frozen",
                    f"`{name}` {state[not step.inference]}, so it uses {_statistics(step)}; "
                    f"in the target it {state[not twin.inference]}",
                    [step],
                    [twin],
                )

    def _shapes(self) -> Iterator[Difference]:
        """Variables of layers that do not tell their settings."""
        for one, other in self._pairs:
            name = self._mine.graph.layers[one.layer].name
            if len(used(one)) != len(used(other)):
                sentence = (
                    f"`{name}` has {_number(len(used(one)), 'variable')}, the target's {len(used(other))}"
                )
                yield self._difference("shape", sentence, [one], [other])
        for (mine, theirs), pairs in self._tied.items():
            variable, wanted = self._mine.graph.variables[mine], self._theirs.graph.variables[theirs]
            if (variable.shape, variable.dtype) != (wanted.shape, wanted.dtype):
                words = [
                    f"shape {_shape(v.shape)}" if variable.shape != wanted.shape else f"type {v.dtype}"
                    for v in (variable, wanted)
                ]
                yield self._difference(
                    "shape",
                    f"the variable {_name(variable)} has {words[0]}, in the target {words[1]}",
                    *_unzipped(pairs),
                )

    def _uncalled(self) -> Iterator[Difference]:
        """Layers that are held and never called."""
        looks = [
            {index: _look(form.graph, form.graph.layers[index]) for index in form.spare}
            for form in (self._mine, self._theirs)
        ]
        surplus, missing = (
            _without([(look, index) for index, look in looks[w].items()], list(looks[1 - w].values()))
            for w in (0, 1)
        )
        for index in surplus:
            layer = self._mine.graph.layers[index]
            size = _number(self._mine.graph.parameters_of(layer), "parameter")
            yield Difference(
                "uncalled",
                f"`{layer.name}` ({layer.type}, {size}) is held by the model and never called",
                layers=(index,),
            )
        for index in missing:
            layer = self._theirs.graph.layers[index]
            size = _number(self._theirs.graph.parameters_of(layer), "parameter")
            yield Difference(
                "uncalled",
                f"the target also holds {_a(layer.type)} of {size} that is never called",
                reference_layers=(index,),
            )


def _shape(shape: Iterable[int | None]) -> str:
    return str(tuple(shape))


def _statistics(step: Step) -> str:
    return "its moving statistics" if step.inference else "the statistics of each batch"


def _size(graph: Graph, variables: Iterable[int]) -> int:
    return sum(graph.variables[index].parameters for index in set(variables))


def _look(graph: Graph, layer: Layer) -> str:
    variables = [graph.variables[index] for index in layer.variables]
    return repr((layer.type, [(v.shape, v.dtype, v.role) for v in variables]))


def _key(argument: Argument, form: NormalForm) -> tuple[str, ...]:
    if isinstance(argument, Source):
        return ("step", str(argument.step), str(argument.output))
    if argument.variable is not None:
        # Which variable it is, is a matter of sharing; which shape it has, of shapes.
        return ("variable",)
    return ("constant", str(argument.shape), argument.dtype, argument.digest)


def _without(keyed: Sequence[tuple[Any, Any]], others: Sequence[Any]) -> list[Any]:
    """The values whose keys are not among the others, each of which counts once."""
    left = list(others)
    rest = []
    for key, value in keyed:
        if key in left:
            left.remove(key)
        else:
            rest.append(value)
    return rest


def _parts(form: NormalForm, indices: Iterable[int]) -> list[list[int]]:
    """Steps in groups that hang together."""
    graph = nx.Graph()
    graph.add_nodes_from(indices)
    graph.add_edges_from(
        (argument.step, index)
        for index in list(graph)
        for argument in form.steps[index].arguments
        if isinstance(argument, Source) and argument.step in graph
    )
    return [sorted(part) for part in nx.connected_components(graph)]


def _merged(found: Iterable[Difference]) -> list[Difference]:
    """What is told of each call of a layer in the same words is told once."""
    told: dict[str, Difference] = {}
    for one in found:
        first = told.get(one.sentence, one)
        told[one.sentence] = Difference(
            one.kind,
            one.sentence,
            tuple(dict.fromkeys((*first.calls, *one.calls))),
            tuple(dict.fromkeys((*first.reference_calls, *one.reference_calls))),
            tuple(dict.fromkeys((*first.layers, *one.layers))),
            tuple(dict.fromkeys((*first.reference_layers, *one.reference_layers))),
        )
    return list(told.values())


def _unzipped(pairs: Iterable[tuple[Step, Step]]) -> tuple[list[Step], list[Step]]:
    pairs = list(pairs)
    return [one for one, _ in pairs], [other for _, other in pairs]
