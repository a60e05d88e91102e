"""Step through what `Model(inputs, outputs)` does: walk back from the outputs, call by call."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from typing import Any

from autograder.graph.draw import Picture, drawing_of, paint
from autograder.graph.drawing import Drawing, count
from autograder.graph.model import Call, Flow, Graph


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the walk."""

    words: str
    """What happens, for people."""
    met: frozenset[int]
    """Positions in `Graph.calls` of all calls that are in the model by now."""
    current: int | None
    """The one that was met just now; None at the start and at the end."""


class Walk:
    """The steps, and a picture of each. In a notebook, a slider leads through them.

    Where there are no widgets (a page without a kernel, a printed notebook), it shows one picture with the
    number of its step in each box, and the steps below it.
    """

    def __init__(self, graph: Graph, drawing: Drawing) -> None:
        self.steps = _steps(graph, drawing)
        """All steps, the start first."""
        number = {f"call {step.current}": index for index, step in enumerate(self.steps)}
        self._drawing = replace(
            drawing,
            boxes=tuple(
                replace(box, lines=(*box.lines, f"step {number[box.key]}")) if box.key in number else box
                for box in drawing.boxes
            ),
        )
        self._shown: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self.steps)

    def picture(self, number: int) -> Picture:
        """The model at a step: what has been met is drawn, what has not is pale.

        Raises:
            IndexError: there is no such step.
        """
        if not 0 <= number < len(self.steps):
            raise IndexError(f"Expected a step from 0 to {len(self.steps) - 1}. Received: {number}.")
        step = self.steps[number]
        near = {f"call {index}" for index in step.met}
        near |= {link.source for link in self._drawing.links if link.kind == "value" and link.target in near}
        last = number == len(self.steps) - 1
        faded = [
            box.key
            for box in self._drawing.all_boxes()
            if box.key.split("/")[0] not in near and not (last and box in self._drawing.apart)
        ]
        current = None if step.current is None else f"call {step.current}"
        picture = paint([self._drawing], faded=faded, current=current)
        picture.alternative = f"Step {number}: {step.words}\n{picture.alternative}"
        return picture

    @cached_property
    def widget(self) -> Any:
        """A slider, two buttons, the words and the picture of the step (ipywidgets)."""
        import ipywidgets as widgets

        last = len(self.steps) - 1
        slider = widgets.IntSlider(
            value=0,
            min=0,
            max=last,
            description="step",
            continuous_update=False,
            layout=widgets.Layout(width="420px"),
        )
        back = widgets.Button(description="back", icon="arrow-left", disabled=True)
        on = widgets.Button(description="next", icon="arrow-right", disabled=last == 0)
        page = widgets.HTML(self._html(0))

        def show(change: Any) -> None:
            page.value = self._html(change["new"])
            back.disabled = change["new"] == 0
            on.disabled = change["new"] == last

        def move(by: int) -> None:
            slider.value = min(max(slider.value + by, 0), last)

        slider.observe(show, names="value")
        back.on_click(lambda _: move(-1))
        on.on_click(lambda _: move(1))
        return widgets.VBox([widgets.HBox([back, on, slider]), page])

    def _html(self, number: int) -> str:
        if number not in self._shown:
            words = (
                f'<p role="status" style="min-height:3em;margin:6px 0">{_code(self.steps[number].words)}</p>'
            )
            self._shown[number] = words + self.picture(number).html()
        return self._shown[number]

    def __str__(self) -> str:
        return "\n".join(f"{number}. {step.words}" for number, step in enumerate(self.steps))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        items = "".join(f"<li>{_code(step.words)}</li>" for step in self.steps)
        picture = self.picture(len(self.steps) - 1)
        return {
            "application/vnd.jupyter.widget-view+json": self.widget.get_view_spec(),
            "text/html": f'{picture.html()}<ol start="0">{items}</ol>',
            "text/plain": str(self),
        }


def walk_back(model_or_graph: Any, *, beside: Iterable[Any] = ()) -> Walk:
    """Step through how Keras finds out what belongs to a model.

    Args:
        model_or_graph: a Functional or Sequential model, or what `trace` gave for one.
        beside: layers and variables that are not in the model, to see that they are never met.

    Returns:
        The steps. As the last value of a notebook's cell they show themselves.

    Raises:
        TypeError: no model and no graph.
        ValueError: Keras records no calls of this model, so there is no way back.
    """
    if isinstance(model_or_graph, Graph):
        graph = model_or_graph
    else:
        from autograder.graph.trace import trace

        graph = trace(model_or_graph)
    if graph.flow is None:
        raise ValueError(
            f"Expected a model of which Keras has recorded the calls (Functional, or Sequential and built). "
            f"Received: '{graph.name}' ({graph.kind}), which has none to walk back."
        )
    return Walk(graph, drawing_of(model_or_graph, beside=beside))


def _steps(graph: Graph, drawing: Drawing) -> tuple[Step, ...]:
    flow = graph.flow
    assert flow is not None
    outputs = "the output tensor" if len(flow.outputs) == 1 else f"{len(flow.outputs)} output tensors"
    start = f"`Model(inputs, outputs)` starts from {outputs}. Nothing is in the model yet."
    steps = [Step(start, frozenset(), None)]
    met: set[int] = set()
    parameters: set[int] = set()
    for call in _order(flow):
        layer = graph.layer_of(call)
        variables = {variable.index for variable in graph.variables_of(layer) if variable.tracked}
        known = any(flow.calls[index].layer == call.layer for index in met)
        new = variables - parameters
        parameters |= variables
        met.add(call.index)
        total = sum(graph.variables[index].parameters for index in parameters)
        gained = sum(graph.variables[index].parameters for index in new)
        words = f"{_found(graph, flow, call, known, gained)} {_onwards(graph, flow, call)}"
        steps.append(Step(f"{words} So far: {count(total)}.", frozenset(met), call.index))
    total = graph.parameters.total
    end = f"No way back is left. What was met is the model: {count(total)}."
    if drawing.apart:
        names = ", ".join(f"`{box.title}`" for box in drawing.apart)
        end += f" Never met: {names}."
    return (*steps, Step(end, frozenset(met), None))


def _order(flow: Flow) -> list[Call]:
    """All calls in the order in which a walk back meets them, depth first, as Keras walks."""
    order: list[Call] = []
    seen: set[int] = set()
    read = {tensor.call for call in flow.calls for tensor in call.inputs}
    waiting = [tensor.call for tensor in reversed(flow.outputs)]
    # What nothing reads belongs to the model all the same: an added loss, an unused input.
    waiting = [call.index for call in reversed(flow.calls) if call.index not in read] + waiting
    while waiting:
        index = waiting.pop()
        if index in seen:
            continue
        seen.add(index)
        call = flow.calls[index]
        order.append(call)
        waiting.extend(tensor.call for tensor in reversed(call.inputs))
    return order


def _found(graph: Graph, flow: Flow, call: Call, known: bool, gained: int) -> str:
    layer = graph.layer_of(call)
    if any(tensor.call == call.index for tensor in flow.inputs):
        return f"`{layer.name}` is an input of the model."
    made = "made that tensor"
    if any(tensor.call == call.index for tensor in flow.outputs):
        made = "made an output"
    elif all(tensor.call != call.index for other in flow.calls for tensor in other.inputs):
        made = "was added to the model, beside its outputs"
    what = "" if layer.operation else f" ({layer.type})"
    if known:
        return f"A call of `{layer.name}`{what} {made}: a layer that is in already, with its weights."
    return f"`{layer.name}`{what} {made}, so it is in" + (f", with {count(gained)}." if gained else ".")


def _onwards(graph: Graph, flow: Flow, call: Call) -> str:
    if not call.arguments:
        return "Here the way back ends."
    names = list(dict.fromkeys(f"`{graph.layer_of(flow.calls[tensor.call]).name}`" for tensor in call.inputs))
    parts = [f"what {_listed(names)} gave"] if names else []
    for constant in call.constants:
        if constant.variable is None:
            parts.append("a constant, which has no history")
        else:
            parts.append(f"`{graph.variables[constant.variable].name}`, which has no history")
    return f"It was called on {_listed(parts)}."


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _code(text: str) -> str:
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if odd % 2 else part for odd, part in enumerate(parts))
