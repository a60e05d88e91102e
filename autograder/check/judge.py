"""The second half of a check: from what was measured and what was claimed to a verdict.

Pure functions on plain data, without Keras: a grader can judge a measurement again in a process of its own,
where nothing that a submission did to its process has any effect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import isclose
from typing import Any

Measurement = dict[str, Any]
"""What a function of `measure` returns: JSON-able, with a `problem` where nothing could be measured."""


class CheckFailed(AssertionError):  # noqa: N818 - the name is part of what users see
    """A claim that does not hold, with what was expected, what was found and where to look."""

    def __init__(self, verdict: Verdict) -> None:
        self.expected = verdict.expected
        self.found = verdict.found
        self.look = verdict.look
        lines = [f"expected: {verdict.expected}", f"found:    {verdict.found}"]
        if verdict.look:
            lines.append(f"look at:  {verdict.look}")
        super().__init__("\n".join(lines))

    def _render_traceback_(self) -> list[str]:
        """What IPython shows: the message alone, since the place in a test cell tells a learner nothing."""
        return ["\x1b[31mNot yet.\x1b[0m", *str(self).splitlines()]


@dataclass(frozen=True)
class Verdict:
    """Whether a claim holds, and what to tell where it does not."""

    holds: bool
    expected: str = ""
    found: str = ""
    look: str = ""


def problem(measured: Measurement) -> Verdict | None:
    """The verdict on something that could not be measured at all, such as None in place of a model."""
    if "problem" not in measured:
        return None
    trouble = measured["problem"]
    return Verdict(False, trouble["expected"], trouble["found"], trouble["look"])


def parameters(measured: Measurement, claim: dict[str, int | None]) -> Verdict:
    """Are the counts as claimed? `claim` maps total, trainable, … to numbers; None claims nothing."""
    if (trouble := problem(measured)) is not None:
        return trouble
    counts = measured["parameters"]
    claimed = {kind: number for kind, number in claim.items() if number is not None}
    holds = all(counts[kind] == number for kind, number in claimed.items())
    wrong = {kind: number for kind, number in claimed.items() if counts[kind] != number}
    expected = ", ".join(_count(number, kind) for kind, number in wrong.items())
    found = ", ".join(_count(counts[kind], kind) for kind in wrong)
    listed = [v for v in measured["variables"] if "total" in wrong or v["role"] in wrong]
    if listed:
        found += f" ({_variables(listed)})"
    return Verdict(holds, expected, f"{found} in model '{measured['model']}'")


def shapes(measured: Measurement, claim: Sequence[Sequence[int]], role: str) -> Verdict:
    """Does the model track variables of just these shapes in this role, in any order?"""
    if (trouble := problem(measured)) is not None:
        return trouble
    variables = [v for v in measured["variables"] if v["role"] == role]
    found = Counter(tuple(v["shape"]) for v in variables)
    wanted = Counter(tuple(shape) for shape in claim)
    missing, extra = wanted - found, found - wanted
    look = []
    if missing:
        look.append(f"no {role} variable has the shape {_shapes(missing)}")
    if extra:
        surplus = [v for v in variables if tuple(v["shape"]) in extra]
        look.append(f"not asked for: {_variables(surplus)}")
    return Verdict(
        not missing and not extra,
        f"{_number(sum(wanted.values()), f'{role} variable')} of certain shapes",
        f"{_number(len(variables), f'{role} variable')} in model '{measured['model']}'",
        "; ".join(look),
    )


def membership(measured: Measurement, inside: bool) -> Verdict:
    """Do all the layers asked for belong to the model (or, with `inside` false, none of them)?"""
    if (trouble := problem(measured)) is not None:
        return trouble
    wrong = [layer for layer in measured["layers"] if layer["inside"] != inside]
    names = ", ".join(_layer(layer) for layer in wrong)
    model = f"model '{measured['model']}'"
    if inside:
        return Verdict(
            not wrong,
            f"{names} in {model}",
            f"no way back from the outputs of {model} leads to {'it' if len(wrong) == 1 else 'them'}",
        )
    return Verdict(
        not wrong, f"{names} not in {model}", f"a way back from the outputs of {model} leads there"
    )


def calls(measured: Measurement, times: int) -> Verdict:
    """Is the layer called so many times in the model?"""
    if (trouble := problem(measured)) is not None:
        return trouble
    layer, model = measured["layer"], measured["model"]
    return Verdict(
        measured["calls"] == times,
        f"{_number(times, 'call')} of layer '{layer}' in model '{model}'",
        _number(measured["calls"], "call"),
        "" if measured["calls"] else f"no way back from the outputs leads to a call of '{layer}'",
    )


def sharing(measured: Measurement, parameters: int) -> Verdict:
    """Do the two hold variables with so many parameters in common, by identity?"""
    if (trouble := problem(measured)) is not None:
        return trouble
    first, second = measured["first"], measured["second"]
    look = ""
    if measured["shared"] < parameters and measured["lookalikes"]:
        look = (
            f"equal shapes are not enough: '{first}' has variables of its own where '{second}' has others, "
            f"such as {', '.join(measured['lookalikes'])}"
        )
    return Verdict(
        measured["shared"] == parameters,
        f"'{first}' and '{second}' share {_number(parameters, 'parameter')}",
        f"they share {_number(measured['shared'], 'parameter')}",
        look,
    )


def matching(measured: Measurement) -> Verdict:
    """Is there no difference between the model and the target?"""
    if (trouble := problem(measured)) is not None:
        return trouble
    sentences = [difference["sentence"] for difference in measured["differences"]]
    found = "; ".join(sentences[:1])
    if len(sentences) > 1:
        found = f"{_number(len(sentences), 'difference')}, the first of which: {found}"
    return Verdict(
        not sentences,
        "the same graph as the target's, whatever its names and the order of creation",
        f"in model '{measured['model']}', {found}",
        "; ".join(sentences[1:3]),
    )


def training(measured: Measurement, parameters: int | None) -> Verdict:
    """Does one training step move variables with so many parameters, or (None) every trainable one?"""
    if (trouble := problem(measured)) is not None:
        return trouble
    wanted = measured["trainable"] if parameters is None else parameters
    moved = sum(v["parameters"] for v in measured["moved"])
    still = list(measured["still"])
    look = []
    for variable in still:
        cut = variable["cut_by"]
        why = f"no gradient passes '{cut}' on the way to it" if cut else "its gradient is none or zero"
        look.append(f"{_variable(variable)} does not move: {why}")
    look.extend(
        f"{_variable(variable)} is used in '{variable['where']}' and belongs to no layer of the model, "
        "so no step moves it"
        for variable in measured["untracked"]
    )
    if wanted == 0 and parameters is None:
        return Verdict(
            False, "a model with something to train", "0 trainable parameters", "; ".join(look[:3])
        )
    return Verdict(
        moved == wanted,
        f"one training step moves {_number(wanted, 'parameter')}",
        f"it moves {_number(moved, 'parameter')} of model '{measured['model']}'",
        "; ".join(look[:3]),
    )


def equal_outputs(measured: Measurement, tolerance: float) -> Verdict:
    """Are all output values equal within an absolute and relative tolerance?"""
    if (trouble := problem(measured)) is not None:
        return trouble
    if measured["shapes"] != measured["expected_shapes"]:
        return Verdict(
            False,
            f"outputs of shape {_shape_list(measured['expected_shapes'])}",
            f"outputs of shape {_shape_list(measured['shapes'])}",
        )
    return Verdict(
        # A difference that is not a number is no equality.
        bool(measured["difference"] <= tolerance),
        f"equal output values, within {tolerance:g}",
        f"values that differ by up to {measured['difference']:.3g}",
    )


def output_shape(measured: Measurement, claim: Sequence[int | None]) -> Verdict:
    """Is the shape of the model's only output as claimed, None standing for a free dimension?"""
    if (trouble := problem(measured)) is not None:
        return trouble
    found = [tuple(shape) for shape in measured["shapes"]]
    return Verdict(
        found == [tuple(claim)],
        f"output shape {tuple(claim)}",
        " and ".join(str(shape) for shape in found) or "no recorded outputs (a subclassed model has none)",
        f"the outputs of model '{measured['model']}'",
    )


def equal(measured: Measurement, expected: Any, what: str, *, tell: bool = True) -> Verdict:
    """Is a plain value the expected one, of the same kind? With `tell` false the message keeps it back."""
    if (trouble := problem(measured)) is not None:
        return trouble
    found = measured["value"]
    return Verdict(
        _same(found, expected),
        f"{what}: {expected!r}" if tell else what,
        repr(found),
        _difference(found, expected) if tell else "",
    )


def prediction(
    measured: Measurement,
    actual: Any,
    what: str,
    implies: dict[Any, str] | None = None,
    look: str = "",
) -> Verdict:
    """Was the guess right? Where it was not, the message says what the guess would mean, never the answer."""
    if (trouble := problem(measured)) is not None:
        return trouble
    answer = measured["value"]
    meaning = next((text for guess, text in (implies or {}).items() if _same_guess(answer, guess)), "")
    go_on = look or "Run the code below, look at its picture, then come back and change your prediction."
    return Verdict(
        _same_guess(answer, actual),
        what,
        f"{answer!r}, which is not what happens",
        f"{meaning} {go_on}".strip(),
    )


def _same_guess(found: Any, expected: Any) -> bool:
    """As `_same`, but a letter is a letter, small or capital."""
    if isinstance(found, str) and isinstance(expected, str):
        return found.strip().casefold() == expected.strip().casefold()
    return _same(found, expected)


def _same(found: Any, expected: Any) -> bool:
    if isinstance(expected, bool) or isinstance(found, bool):
        return type(found) is type(expected) and found == expected
    if isinstance(expected, list | tuple) and isinstance(found, list | tuple):
        return len(found) == len(expected) and all(map(_same, found, expected))
    if isinstance(expected, dict) and isinstance(found, dict):
        return found.keys() == expected.keys() and all(_same(found[key], expected[key]) for key in found)
    if isinstance(expected, str) and isinstance(found, str):
        return found.strip() == expected.strip()
    if isinstance(expected, float) and isinstance(found, float):
        return isclose(found, expected, rel_tol=1e-9)
    return isinstance(found, int | float | type(None)) and bool(found == expected)


def _difference(found: Any, expected: Any) -> str:
    """Where two lists first part."""
    if not (isinstance(found, list | tuple) and isinstance(expected, list | tuple)):
        return ""
    for place, (one, other) in enumerate(zip(found, expected, strict=False)):
        if not _same(one, other):
            return f"entry {place}: {one!r} where {other!r} was expected"
    return f"{len(found)} entries instead of {len(expected)}" if len(found) != len(expected) else ""


def _shape_list(shapes: Sequence[Sequence[int]]) -> str:
    return " and ".join(str(tuple(shape)) for shape in shapes) or "no outputs"


def _number(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _count(number: int, kind: str) -> str:
    return (
        f"{_number(number, 'parameter')} in all" if kind == "total" else _number(number, f"{kind} parameter")
    )


def _variable(variable: dict[str, Any]) -> str:
    return f"{variable['name']} {tuple(variable['shape'])}"


def _variables(variables: list[dict[str, Any]]) -> str:
    shown = [_variable(variable) for variable in variables[:6]]
    if len(variables) > 6:
        shown.append(f"and {len(variables) - 6} more")
    return ", ".join(shown)


def _layer(layer: dict[str, Any]) -> str:
    size = _number(layer["parameters"], "parameter") if layer["built"] else "not built yet"
    return f"layer '{layer['name']}' ({layer['type']}, {size})"


def _shapes(shapes: Counter[tuple[int, ...]]) -> str:
    return ", ".join(
        str(shape) + (f" ({times} times)" if times > 1 else "") for shape, times in shapes.items()
    )
