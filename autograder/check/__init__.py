"""What a test cell can claim of a learner's model, one function a claim.

Each function returns None where the claim holds and raises `CheckFailed` where it does not, with what was
expected, what was found and where to look. None, `...` or a tensor in the place of a model is answered in
the same way. A check first *measures* (live objects to plain data), then *judges* (data and claim to a
verdict); it leaves models as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

from autograder.check import judge
from autograder.check.judge import CheckFailed
from autograder.check.parts import Parts

__all__ = [
    "CheckFailed",
    "Parts",
    "calls",
    "contains",
    "equal",
    "equal_outputs",
    "excludes",
    "matches",
    "output_shape",
    "parameters",
    "prediction",
    "shapes",
    "shares",
    "trains",
]


def parameters(
    model: Any,
    *,
    trainable: int | None = None,
    total: int | None = None,
    frozen: int | None = None,
    state: int | None = None,
) -> None:
    """The model has so many parameters, over distinct variables.

    Args:
        model: a Keras model whose variables exist.
        trainable: parameters that training may change.
        total: all of them.
        frozen: parameters that the user switched off.
        state: parameters never trained by design, such as moving statistics.

    Raises:
        CheckFailed: a count is another one.
    """
    claim = {"total": total, "trainable": trainable, "frozen": frozen, "state": state}
    _require(judge.parameters(_measure().parameters(model), claim), model)


def shapes(model: Any, shapes: Sequence[Sequence[int]], *, role: str = "trainable") -> None:
    """The model's variables in this role have just these shapes, in any order.

    Args:
        model: a Keras model whose variables exist.
        shapes: one shape for each variable expected.
        role: trainable, frozen or state.

    Raises:
        CheckFailed: a shape is missing, or one is there that was not asked for.
    """
    _require(judge.shapes(_measure().parameters(model), shapes, role), model)


def contains(model: Any, *layers: Any) -> None:
    """A way back from the model's outputs leads to each of these layers, held layers (cells) among them.

    Raises:
        CheckFailed: a layer is not in the model.
    """
    _require(judge.membership(_measure().membership(model, layers), True), model, *layers)


def excludes(model: Any, *layers: Any) -> None:
    """No way back from the model's outputs leads to any of these layers.

    Raises:
        CheckFailed: a layer is in the model.
    """
    _require(judge.membership(_measure().membership(model, layers), False), model)


def calls(model: Any, layer: Any, times: int) -> None:
    """The layer is called so many times in the model.

    Raises:
        CheckFailed: it is called more or fewer times.
    """
    _require(judge.calls(_measure().calls(model, layer), times), model)


def shares(model: Any, other: Any, parameters: int) -> None:
    """Two models or layers hold so many parameters in common: the same variables, not equal ones.

    Raises:
        CheckFailed: they share more or fewer.
    """
    _require(judge.sharing(_measure().sharing(model, other), parameters))


def matches(model: Any, target: Any) -> None:
    """The model is the target up to names, order of creation and ways of writing.

    What differs is told in up to three sentences: a layer that is missing, a setting, an edge, the order of
    inputs, weights that are not shared, what is frozen. See `autograder.graph.compare`.

    Args:
        model: a Keras model whose variables exist.
        target: a functional or Sequential model, or its Graph.

    Raises:
        CheckFailed: they differ.
    """
    _require(judge.matching(_measure().matching(model, target)))


def trains(model: Any, parameters: int | None = None, *, data: Any = None, loss: Any = None) -> None:
    """One training step moves variables with so many parameters; the model is afterwards as it was.

    Args:
        model: a Keras model whose variables exist.
        parameters: how many; by default all trainable ones, of which there must be some.
        data: inputs, or a pair (inputs, targets); by default made from the model's inputs.
        loss: a Keras loss; by default the compiled one, or a mean of the outputs.

    Raises:
        CheckFailed: more or fewer parameters move.
    """
    _require(judge.training(_measure().training(model, loss, data), parameters), model)


def equal_outputs(
    found: Callable[..., Any], expected: Callable[..., Any], *inputs: Any, tolerance: float = 1e-5
) -> None:
    """Two models or functions give equal values on the same inputs.

    Args:
        found: the learner's.
        expected: the one to agree with.
        inputs: positional arguments for both.
        tolerance: how far a value may be off, absolute below 1 and relative above.

    Raises:
        CheckFailed: the shapes or the values differ, or the learner's does not run.
    """
    _require(judge.equal_outputs(_measure().equal_outputs(found, expected, inputs), tolerance), found)


def output_shape(model: Any, shape: Sequence[int | None]) -> None:
    """The model's only output has this shape, None standing for a free dimension.

    Raises:
        CheckFailed: it has another.
    """
    _require(judge.output_shape(_measure().output_shape(model), shape))


def equal(found: Any, expected: Any, what: str) -> None:
    """A plain value (a number, a text, a list or dict of them) is the expected one.

    Args:
        found: the learner's value.
        expected: the right one; the message tells it.
        what: what the value is, in words.

    Raises:
        CheckFailed: it is another, or no plain value.
    """
    _require(judge.equal(_measure().value(found, expected), expected, what))


def prediction(
    answer: Any, actual: Any, what: str, *, implies: Mapping[Any, str] | None = None, look: str = ""
) -> None:
    """A learner's guess is what really happens; the message never tells what that is.

    Args:
        answer: the guess, a number, a letter or a list of them.
        actual: the truth, measured in the test cell on a live model, so that no answer is stored.
        what: what was to be predicted, in words.
        implies: for a wrong guess, one sentence on what it would mean.
        look: what to do after a wrong guess; by default to run the code below and look at its picture.

    Raises:
        CheckFailed: the guess is wrong, or there is none yet.
    """
    measured = _measure().value(answer, actual)
    _require(judge.prediction(measured, actual, what, dict(implies or {}), look))


def _measure() -> ModuleType:
    # Measuring needs TensorFlow; a grader that only judges must not load it.
    from autograder.check import measure

    return measure


def _require(verdict: judge.Verdict, model: Any = None, *layers: Any) -> None:
    if verdict.holds:
        return
    if not verdict.look and model is not None:
        # Looked for only now: most checks hold, and a probe step costs more than a count.
        verdict = replace(verdict, look=_measure().causes(model, *layers))
    raise CheckFailed(verdict)
