"""Compare a model with a reference: equal up to names and order, or what differs, in words.

Whether they are equal is decided on normal forms (see `normal`) by colours and an isomorphism (see
`matching`). Where they are not, each step of one is laid over the step of the other that it is most likely
meant to be, and what does not fit is told: the layer that is missing, the setting that is another, the
variable that is not shared. Of several ways to lay them over each other the one with the fewest differences
counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from autograder.graph.difference import Difference, differences, everything
from autograder.graph.matching import alignments, same
from autograder.graph.model import Graph
from autograder.graph.normal import normal_form


@dataclass(frozen=True, slots=True)
class Comparison:
    """The outcome of a comparison; true where the two are equal."""

    differences: tuple[Difference, ...]
    """In the order in which one would mend them; empty where the two are equal."""

    @property
    def equal(self) -> bool:
        """Whether the two are the same up to names, order of creation and ways of writing."""
        return not self.differences

    def __bool__(self) -> bool:
        return self.equal

    def __str__(self) -> str:
        if self.equal:
            return "Equal up to names and order of creation."
        lines = [f"· {difference.sentence}" for difference in self.differences[:_SHOWN]]
        if len(self.differences) > _SHOWN:
            lines.append(f"· and {len(self.differences) - _SHOWN} more differences")
        return "\n".join(lines)


_SHOWN = 3


def compare(graph: Any, reference: Any) -> Comparison:
    """Compare a model with the one that it should be.

    Names, the order of creation, the order of what is added or multiplied, and the way of writing (Sequential
    or functional, nested or in line, `activation=` or Activation, `+` or Add) make no difference. Settings,
    sharing of variables, what is frozen, and the order of inputs and outputs do. A layer of a class of one's
    own is known by its class, its settings, its variables and the layers it holds: what its `call` does is
    not looked at.

    Args:
        graph: a Graph or a Keras model, which is only read.
        reference: the Graph or Keras model to compare with; it needs a graph of calls.

    Returns:
        What differs; the sentences use the names of `graph` alone.

    Raises:
        TypeError: one of the two is neither a Graph nor a Keras model.
        ValueError: the reference has no graph of calls, or a graph was read without the layers' settings.
    """
    mine, theirs = _graph(graph), _graph(reference)
    if theirs.flow is None:
        raise ValueError(
            f"The reference '{theirs.name}' has no graph of calls to compare with. "
            "Make it with Model(inputs, outputs) or as a Sequential with an Input."
        )
    if mine.flow is None:
        return Comparison((_no_graph(mine),))
    first, second = normal_form(mine), normal_form(theirs)
    if same(first, second):
        return Comparison(())
    found = [differences(first, second, way) for way in alignments(first, second)]
    # An alignment in which all seems to fit has missed what differs.
    found = [told for told in found if told] or [[everything(first, second)]]
    fewest = min(found, key=_extent)
    return Comparison(tuple(fewest))


def _graph(value: Any) -> Graph:
    if not isinstance(value, Graph):
        # Loads TensorFlow, which two graphs can do without.
        from autograder.graph.trace import trace

        return trace(value)
    if any(layer.type == "InputLayer" and not layer.config for layer in value.layers):
        raise ValueError(f"The graph '{value.name}' was read without the layers' settings: use trace(model).")
    return value


def _no_graph(graph: Graph) -> Difference:
    if graph.kind == "sequential":
        why = "does not know the shape of its input yet, so it has no graph: begin it with an Input"
    else:
        why = "runs Python code of its own and keeps no graph of calls: make it with Model(inputs, outputs)"
    return Difference("no-graph", f"the model '{graph.name}' {why}")


def _extent(told: list[Difference]) -> tuple[int, int]:
    return len(told), sum(len(one.calls) + len(one.reference_calls) for one in told)
