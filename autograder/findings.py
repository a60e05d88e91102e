"""Say which parameters a model trains, which not, and why: a graph and a namespace become a report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any, Literal

import numpy as np

from autograder.graph import keras2 as keras
from autograder.graph.gradient import Probe, ProbeError, probe
from autograder.graph.model import Call, Constant, Graph, Layer, Variable
from autograder.graph.trace import Trace, read

Kind = Literal[
    "unreached-layer",
    "untracked-variable",
    "no-gradient",
    "frozen",
    "shared",
    "constant-branch",
    "cut-input",
    "unbuilt",
]

INFORMING: frozenset[Kind] = frozenset({"shared", "frozen"})
"""Kinds that a correct model may have."""


@dataclass(frozen=True)
class Finding:
    """One thing worth knowing about a model."""

    kind: Kind
    name: str
    """Of the layer or variable, as Keras names it."""
    type: str
    """Its class."""
    shape: tuple[int | None, ...] | None
    """Of the variable or of the baked value; None for a layer."""
    parameters: int | None
    """How many it concerns; None where that is unknown, which is not 0."""
    where: str
    """The layer, operation or model where it happens."""
    why: str
    """What is so, and the cause, in one sentence."""
    fix: str
    """What to do about it; empty where nothing needs doing."""

    @property
    def accuses(self) -> bool:
        """Whether something is likely to be wrong."""
        return self.kind not in INFORMING


@dataclass(frozen=True)
class Report:
    """What a model consists of and what was found. Shows itself as text and, in a notebook, as HTML."""

    graph: Graph
    trained: int | None
    """Parameters that are trainable, tracked and reached by a gradient; None where no step could be probed."""
    findings: tuple[Finding, ...]
    loss: str = ""
    """The loss of the probe step, in words."""
    note: str = ""
    """Why there was no probe step."""

    def to_dict(self) -> dict[str, Any]:
        """The report as data for JSON. Counts that are unknown (variables that do not exist yet) are None."""
        counts = self.graph.parameters
        known = self.graph.known
        return {
            "keras": self.graph.keras,
            "parameters": {
                "total": counts.total if known else None,
                "trainable": counts.trainable if known else None,
                "frozen": counts.frozen if known else None,
                "state": counts.state if known else None,
                "trained": self.trained,
            },
            "findings": [
                {
                    "kind": finding.kind,
                    "name": finding.name,
                    "type": finding.type,
                    "shape": None if finding.shape is None else list(finding.shape),
                    "parameters": finding.parameters,
                    "where": finding.where,
                    "why": finding.why,
                    "fix": finding.fix,
                }
                for finding in self.findings
            ],
        }

    def __str__(self) -> str:
        lines = [self._headline()]
        for finding in self.findings:
            mark = "!" if finding.accuses else "·"
            lines.append(f"{mark} {finding.kind}: {finding.why}")
            if finding.fix:
                lines.append(f"    → {finding.fix}")
        if not any(finding.accuses for finding in self.findings):
            lines.append("Nothing accuses this model.")
        if self.note:
            lines.append(self.note)
        return "\n".join(lines)

    __repr__ = __str__

    def _headline(self) -> str:
        if not self.graph.known:
            return f"Model '{self.graph.name}': the number of parameters is not known yet."
        counts = self.graph.parameters
        parts = [f"{counts.trainable:,} trainable"]
        if counts.frozen:
            parts.append(f"{counts.frozen:,} frozen")
        if counts.state:
            parts.append(f"{counts.state:,} never trained by design")
        if self.trained is not None:
            parts.append(f"{self.trained:,} reached by a gradient")
        return f"Model '{self.graph.name}': {counts.total:,} parameters; {', '.join(parts)}."

    def _repr_html_(self) -> str:
        rows = "".join(
            "<tr>"
            f"<td style='text-align:left'>{'⚠' if finding.accuses else '·'} {escape(finding.kind)}</td>"
            f"<td style='text-align:left;white-space:normal;overflow-wrap:anywhere'>{_html(finding.why)}"
            f"{f'<br><b>→</b> {_html(finding.fix)}' if finding.fix else ''}</td>"
            f"<td>{'?' if finding.parameters is None else f'{finding.parameters:,}'}</td>"
            "</tr>"
            for finding in self.findings
        )
        table = (
            "<table style='max-width:100%'><thead><tr><th style='text-align:left'>finding</th>"
            "<th style='text-align:left'>what is so, and what to do</th><th>parameters</th></tr></thead>"
            f"<tbody>{rows}</tbody></table>"
            if self.findings
            else ""
        )
        calm = "" if any(f.accuses for f in self.findings) else "<p>Nothing accuses this model.</p>"
        note = f"<p>{_html(self.note)}</p>" if self.note else ""
        return f"<div><p><b>{_html(self._headline())}</b></p>{table}{calm}{note}</div>"


def explain(
    model: Any,
    namespace: Mapping[str, Any] | None = None,
    *,
    loss: Any = None,
    data: Any = None,
    gradients: bool = True,
    suspicious: bool = False,
) -> Report:
    """Say which layers and parameters belong to a model, which are trained, which not, and why.

    Args:
        model: a Keras model. It is left as it was: weights, optimizer, random state, what `compile` set.
        namespace: where the model was made, such as `globals()`. With it, layers that were made and do not
            belong to the model are found too; without it only what the model itself shows is reported.
        loss: a Keras loss for the probe step. Default: the compiled one, else a mean of the outputs.
        data: inputs, or a pair (inputs, targets). Default: made from the model's inputs.
        gradients: whether to run the probe step; without it `trained` is None.
        suspicious: something is known to be wrong, so name every baked value, also those that may be meant.

    Raises:
        TypeError: `model` is no Keras model.
        ProbeError: `data` or `loss` were given and the model does not run on them.
    """
    trace = read(model, configs=False)
    probed, note = None, ""
    if gradients and trace.graph.known:
        try:
            probed = probe(trace, loss=loss, data=data)
        except ProbeError as error:
            if data is not None or loss is not None:
                raise
            note = f"Gradients were not probed. {error}"
    finder = _Finder(trace, probed, namespace or {}, suspicious)
    trained = None
    if probed:
        trained = sum(
            variable.parameters
            for variable in trace.graph.variables
            if variable.tracked and variable.role == "trainable" and probed.reach[variable.index] != "none"
        )
    return Report(trace.graph, trained, tuple(finder.findings()), probed.loss if probed else "", note)


class _Finder:
    """Looks for every kind of finding in one traced model."""

    def __init__(
        self, trace: Trace, probed: Probe | None, namespace: Mapping[str, Any], suspicious: bool
    ) -> None:
        self._suspicious = suspicious
        self._trace = trace
        self._graph = trace.graph
        self._probe = probed
        self._own = {id(layer) for layer in trace.layers}
        found = list(_values(namespace))
        self._named_values = found
        self._models = _distinct(v for v in found if keras.is_model(v) and v is not trace.model)
        self._layers = _distinct(_layers_among(found))
        self._explained: set[int] = set()
        self._hidden = {id(v) for use in (probed.untracked if probed else ()) for v in (use.variable,)}

    def findings(self) -> Iterator[Finding]:
        yield from self._unbuilt()
        yield from self._untracked()
        yield from self._unreached()
        yield from self._constants()
        yield from self._without_gradient()
        yield from self._cut()
        yield from self._frozen()
        yield from self._shared()

    def _unbuilt(self) -> Iterator[Finding]:
        layers = [layer for layer in self._graph.layers if not layer.built]
        for layer in layers:
            yield Finding(
                "unbuilt",
                layer.name,
                layer.type,
                None,
                None,
                self._graph.name,
                f"`{layer.name}` ({layer.type}) has no variables yet, so its number of parameters is unknown.",
                "Call the model on data, or build it with an input shape.",
            )
        if not layers and not self._graph.known:
            yield Finding(
                "unbuilt",
                self._graph.name,
                self._graph.kind,
                None,
                None,
                self._graph.name,
                f"Model `{self._graph.name}` is not built, so its number of parameters is unknown.",
                "Call it on data, or give it an input shape.",
            )

    def _untracked(self) -> Iterator[Finding]:
        seen: set[int] = set()
        uses: list[tuple[Any, str]] = []
        for _, flow in self._graph.flows():
            for call in flow.calls:
                for constant in call.constants:
                    if constant.variable is None or self._graph.variables[constant.variable].tracked:
                        continue
                    uses.append((self._trace.variables[constant.variable], self._place(call)))
        uses.extend((use.variable, use.where) for use in (self._probe.untracked if self._probe else ()))
        for variable, where in uses:
            if id(variable) in seen:
                continue
            seen.add(id(variable))
            yield self._untracked_finding(variable, where)
        for variable, where in self._baked_variables():
            if id(variable) not in seen:
                seen.add(id(variable))
                yield self._untracked_finding(variable, where, baked=True)

    def _baked_variables(self) -> Iterator[tuple[Any, str]]:
        """Loose variables of the namespace whose value stands as a constant in the graph.

        `variable + tensor` reads the variable at once: TensorFlow asks its left operand first. With the Keras
        tensor on the left the variable itself becomes the argument.
        """
        owned = {id(v) for layer in [*self._layers, *self._models] for v in keras.variables_of(layer)}
        loose = [v for v in self._named_values if keras.is_variable(v) and id(v) not in owned]
        for call, _, live in self._baked():
            for variable in loose:
                same = variable.shape == live.shape and variable.dtype == live.dtype
                if same and np.array_equal(np.asarray(live), variable.numpy()):
                    self._explained.add(id(live))
                    yield variable, self._place(call)

    def _baked(self) -> Iterator[tuple[Call, Constant, Any]]:
        """The numbers in the graph that were computed while it was built, with the call that holds each."""
        for owner, flow in self._graph.flows():
            place = -1 if owner is None else owner.index
            for call, node in zip(flow.calls, self._trace.nodes[place], strict=True):
                if any(constant.digest for constant in call.constants):
                    for constant, live in zip(call.constants, _plain_arguments(node), strict=True):
                        if constant.dtype.startswith(("float", "bfloat", "complex")) and constant.digest:
                            yield call, constant, live

    def _untracked_finding(self, variable: Any, where: str, *, baked: bool = False) -> Finding:
        owner = self._owner(variable, where)
        parameters = int(np.prod(variable.shape))
        what = f"`{variable.name}`{f' of layer `{owner.name}`' if owner is not None else ''} ({_count(parameters)})"
        if baked:
            why = (
                f"{what} was read once, while the model was built, and `{where}` holds its value as a constant; "
                "no layer of the model owns it."
            )
        else:
            why = (
                f"{what} is used in `{where}`, but no layer of the model owns it, so training never changes it "
                "and saving leaves it out."
            )
        if owner is None:
            fix = "Let a layer own it: make it with `add_weight` in a layer of your own."
        else:
            fix = f"Call `{owner.name}` on a Keras tensor, or make it an attribute of a layer of your own."
        shape = tuple(variable.shape.as_list())
        return Finding(
            "untracked-variable", str(variable.name), "Variable", shape, parameters, where, why, fix
        )

    def _owner(self, variable: Any, where: str) -> Any:
        """The layer outside the model that holds an untracked variable, if one can be found."""
        place = next((live for live in self._trace.layers if live.name == where), None)
        for layer in [*self._layers, *(_distinct(_layers_among(_reachable(place))) if place else [])]:
            if not keras.is_model(layer) and any(own is variable for own in keras.variables_of(layer)):
                return layer
        return None

    def _unreached(self) -> Iterator[Finding]:
        elsewhere = {id(held) for model in self._models for held in read(model, configs=False).layers}
        spare = set(elsewhere)
        for layer in self._trace.layers:
            # Bidirectional copies the layer it is given and keeps the original as a template.
            template = vars(layer).get("layer")
            if template is not None:
                spare.add(id(template))
        held_by_others = {id(held) for layer in self._layers for held in keras.sublayers_of(layer)}
        for layer in self._layers:
            if id(layer) in self._own or layer is self._trace.model or keras.is_model(layer):
                continue
            if keras.is_input(layer) or keras.is_operation(layer) or id(layer) in held_by_others:
                continue
            if id(layer) in spare and not self._baked_from(layer):
                continue
            variables = keras.variables_of(layer)
            if variables and all(id(variable) in self._hidden for variable in variables):
                continue  # already named, with the place that uses it
            if not variables and layer.built:
                continue  # nothing in it to train
            if keras.nodes_of(layer) and not self._connected(layer):
                continue  # part of a graph that has nothing to do with this model
            yield self._unreached_finding(layer)

    def _connected(self, layer: Any) -> bool:
        """Whether a call of the layer depends on a tensor of this model."""
        own = {id(node) for node in self._trace.nodes.get(-1, ())}
        waiting, seen = list(keras.nodes_of(layer)), set()
        while waiting:
            node = waiting.pop()
            if id(node) in own:
                return True
            if id(node) not in seen:
                seen.add(id(node))
                waiting.extend(keras.node_of(a) for a in keras.arguments_of(node) if keras.is_keras_tensor(a))
        return False

    def _unreached_finding(self, layer: Any) -> Finding:
        parameters = keras.parameters_in(layer) if layer.built else None
        size = "not built" if parameters is None else _count(parameters)
        start = f"`{layer.name}` ({type(layer).__name__}, {size})"
        calls = keras.nodes_of(layer)
        on = keras.called_on(layer)
        if calls:
            why = (
                f"{start} was called on a Keras tensor, but nothing made from its result leads to the outputs: "
                "no path leads back to it from them."
            )
            fix = "Use its result on the way to the outputs, or drop it."
        elif on:
            value = "a tf.Variable" if on == "variable" else "a plain value"
            why = (
                f"{start} was called on {value}, not on a Keras tensor, so Keras recorded no call: "
                "no path leads to it from the outputs."
            )
            fix = (
                "Call it on a Keras tensor: let a layer of your own hold the constant (`add_weight`) and give "
                f"it out for every row of the input, then call `{layer.name}` on that."
            )
        elif layer.built:
            why = (
                f"{start} was built but never called on a Keras tensor: no path leads to it from the outputs."
            )
            fix = f"Call `{layer.name}` on a tensor on the way to the outputs."
        else:
            why = f"{start} was made but never called: no path leads to it from the outputs."
            fix = f"Call `{layer.name}` on a tensor on the way to the outputs, or drop it."
        return Finding(
            "unreached-layer",
            str(layer.name),
            type(layer).__name__,
            None,
            parameters,
            self._graph.name,
            why,
            fix,
        )

    def _constants(self) -> Iterator[Finding]:
        for call, constant, live in self._baked():
            if id(live) in self._explained:
                continue
            source = self._source(live)
            # A constant may be meant: a mask, a mean. Without the layer that made it, only a model in which
            # nothing is left to train accuses itself.
            suspected = self._suspicious and keras.is_eager(live) and constant.shape
            if source or suspected or self._graph.parameters.total == 0:
                yield self._constant_finding(call, constant, source)

    def _constant_finding(self, call: Call, constant: Constant, source: str) -> Finding:
        where = self._place(call)
        came = (
            f" the value that `{source}` gave while the model was built"
            if source
            else " a value computed once"
        )
        return Finding(
            "constant-branch",
            where,
            self._graph.layer_of(call).type,
            tuple(constant.shape),
            0,
            where,
            f"`{where}` holds{came}, of shape {tuple(constant.shape)}, as a constant: later changes of what made "
            "it do not move the model's output.",
            (
                f"Call `{source}` on a Keras tensor, so that it is computed anew for every batch."
                if source
                else "Compute it from a Keras tensor inside the model, if it is to follow training."
            ),
        )

    def _source(self, value: Any) -> str:
        """The layer outside the model that computed a baked value; empty where none can be named."""
        eager = [layer for layer in self._layers if self._called_outside(layer)]
        for layer in eager:
            if _gave(layer, value, self._named_values):
                return str(layer.name)
        # What was computed from a layer's result in further steps can't be recomputed; the only layer that was
        # called outside any graph is then the one to name.
        if len(eager) == 1 and keras.is_eager(value):
            return str(eager[0].name)
        return ""

    def _baked_from(self, layer: Any) -> bool:
        if not self._called_outside(layer):
            return False
        return any(
            _gave(layer, live, self._named_values)
            for nodes in self._trace.nodes.values()
            for node in nodes
            for live in _plain_arguments(node)
        )

    def _called_outside(self, layer: Any) -> bool:
        return (
            id(layer) not in self._own
            and bool(keras.variables_of(layer))
            and bool(keras.called_on(layer))
            and not keras.is_model(layer)
        )

    def _without_gradient(self) -> Iterator[Finding]:
        if not self._probe:
            return
        groups: dict[tuple[int, str], list[Variable]] = {}
        for variable in self._graph.variables:
            if (
                variable.tracked
                and variable.role == "trainable"
                and self._probe.reach[variable.index] == "none"
            ):
                owners = self._graph.owners(variable)
                key = (owners[0].index if owners else -1, self._probe.cut_by[variable.index])
                groups.setdefault(key, []).append(variable)
        for (owner, cut_by), variables in groups.items():
            parameters = sum(variable.parameters for variable in variables)
            name = self._graph.layers[owner].name if owner >= 0 else self._graph.name
            kind = self._graph.layers[owner].type if owner >= 0 else self._graph.kind
            whole = owner >= 0 and len(variables) == len(self._graph.layers[owner].variables)
            what = f"`{name}`" if whole else ", ".join(f"`{variable.name}`" for variable in variables)
            if cut_by and cut_by != name:
                cause = f"`{cut_by}` lets none through"
            elif self._called(owner):
                cause = "its result does not enter the loss"
            else:
                cause = "it belongs to the model but is not used when the model runs"
            yield Finding(
                "no-gradient",
                name,
                kind,
                variables[0].shape if len(variables) == 1 else None,
                parameters,
                cut_by or name,
                f"{what} ({_count(parameters)}) is tracked and trainable, but no gradient of the loss reaches it: "
                f"{cause}.",
                (
                    f"Replace `{cut_by}` by something that can be differentiated, or lead a second way around it."
                    if cut_by and cut_by != name
                    else "Use its result on the way to the loss, or freeze or drop it."
                ),
            )

    def _called(self, owner: int) -> bool:
        return any(call.layer == owner for _, flow in self._graph.flows() for call in flow.calls)

    def _cut(self) -> Iterator[Finding]:
        for (place, source), name in zip(self._graph.cut, self._graph.cut_from, strict=True):
            tensor = self._graph.inputs[place]
            layer = self._graph.layers[source] if source >= 0 else None
            made = self._trace.layers[source] if layer else keras.cut_source(self._trace.model.inputs[place])
            parameters = keras.parameters_in(made)
            yield Finding(
                "cut-input",
                name,
                type(made).__name__,
                tuple(tensor.shape),
                parameters,
                self._graph.layer_of(self._graph.calls[tensor.call]).name,
                f"Input {place + 1} of model `{self._graph.name}` stands where the result of `{name}` was: what made "
                "that result is not in this model, and the layers behind it were called again on a new Input.",
                "If the whole way is meant, give the Input where it starts. A model of the rest alone is fine.",
            )

    def _frozen(self) -> Iterator[Finding]:
        for layer in self._graph.layers:
            frozen = [self._graph.variables[i] for i in layer.variables]
            frozen = [variable for variable in frozen if variable.role == "frozen" and variable.tracked]
            if frozen:
                parameters = sum(variable.parameters for variable in frozen)
                yield Finding(
                    "frozen",
                    layer.name,
                    layer.type,
                    None,
                    parameters,
                    self._graph.name,
                    f"`{layer.name}` ({_count(parameters)}) is switched off: `trainable` is False for it or for a "
                    "model that holds it.",
                    "",
                )

    def _shared(self) -> Iterator[Finding]:
        for owner, flow in self._graph.flows():
            times: dict[int, int] = {}
            for call in flow.calls:
                times[call.layer] = times.get(call.layer, 0) + 1
            for index, number in times.items():
                layer = self._graph.layers[index]
                parameters = self._graph.parameters_of(layer) if number > 1 else 0
                if parameters:
                    yield self._shared_finding(
                        layer,
                        parameters,
                        owner.name if owner else self._graph.name,
                        f"is called {number} times with the same {_count(parameters)}, which count once",
                    )
        for variable in self._graph.variables:
            owners = self._graph.owners(variable)
            if len(owners) > 1:
                yield self._shared_finding(
                    owners[0],
                    variable.parameters,
                    owners[1].name,
                    f"holds the same variable `{variable.name}` as `{owners[1].name}`: one variable, counted once",
                )
        for model in self._models:
            if id(model) in self._own:
                continue  # a part of this one
            others = {id(variable) for variable in keras.variables_of(model)}
            for layer in self._graph.layers:
                common = [i for i in layer.variables if id(self._trace.variables[i]) in others]
                if common:
                    parameters = sum(self._graph.variables[i].parameters for i in common)
                    yield self._shared_finding(
                        layer,
                        parameters,
                        str(model.name),
                        f"is also in model `{model.name}`: the same {_count(parameters)}, so training one model "
                        "changes the other",
                    )

    @staticmethod
    def _shared_finding(layer: Layer, parameters: int, where: str, why: str) -> Finding:
        return Finding(
            "shared", layer.name, layer.type, None, parameters, where, f"`{layer.name}` {why}.", ""
        )

    def _place(self, call: Call) -> str:
        layer = self._graph.layer_of(call)
        return layer.type if layer.operation else layer.name


def _values(namespace: Mapping[str, Any]) -> Iterator[Any]:
    """What a namespace names, entries of its lists, tuples, sets and dicts among them.

    Names that begin with an underscore are IPython's history of results, and not what a learner named.
    """
    seen: set[int] = set()
    waiting = [value for name, value in reversed(list(namespace.items())) if not name.startswith("_")]
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, list | tuple | set | frozenset):
            waiting.extend(reversed(list(value)))
        elif isinstance(value, dict):
            waiting.extend(value.values())
        else:
            yield value


def _layers_among(values: list[Any] | Iterator[Any]) -> Iterator[Any]:
    """The layers among values, and those whose calls made the Keras tensors among them."""
    walked: set[int] = set()
    for value in values:
        if keras.is_layer(value):
            yield value
        elif keras.is_keras_tensor(value):
            waiting = [keras.node_of(value)]
            while waiting:
                node = waiting.pop()
                if id(node) in walked:
                    continue
                walked.add(id(node))
                yield node.layer
                waiting.extend(keras.node_of(a) for a in keras.arguments_of(node) if keras.is_keras_tensor(a))


def _reachable(layer: Any) -> Iterator[Any]:
    """What a layer's code can reach besides what Keras tracks: closures and attributes of plain objects."""
    for value in vars(layer).values():
        function = getattr(value, "__func__", value)
        for cell in getattr(function, "__closure__", None) or ():
            yield cell.cell_contents
        code = getattr(function, "__code__", None)
        if code is not None:
            yield from (function.__globals__[name] for name in code.co_names if name in function.__globals__)
        if isinstance(value, set | frozenset):
            yield from value
        elif hasattr(value, "__dict__") and not keras.is_layer(value):
            yield from vars(value).values()


def _plain_arguments(node: Any) -> list[Any]:
    """A call's arguments that are values and no Keras tensors, in the order of `Call.constants`."""
    return [
        argument
        for argument in keras.arguments_of(node)
        if not keras.is_keras_tensor(argument) and hasattr(argument, "shape") and hasattr(argument, "dtype")
    ]


def _gave(layer: Any, value: Any, candidates: list[Any]) -> bool:
    """Whether calling the layer on a variable or tensor of the namespace gives just this value."""
    for candidate in candidates:
        if not (keras.is_variable(candidate) or keras.is_eager(candidate)):
            continue
        try:
            result = np.asarray(layer(candidate))
        except Exception:  # the layer does not take this value: then it did not make the other one from it
            continue
        if result.shape == tuple(value.shape) and np.allclose(
            result, np.asarray(value), rtol=1e-4, atol=1e-6
        ):
            return True
    return False


def _distinct(values: Any) -> list[Any]:
    return list({id(value): value for value in values}.values())


def _count(parameters: int) -> str:
    return f"{parameters:,} parameter" if parameters == 1 else f"{parameters:,} parameters"


def _html(text: str) -> str:
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if odd % 2 else part for odd, part in enumerate(parts))
