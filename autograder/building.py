"""Explain the errors that people meet while they build a model; in a notebook, under the traceback.

`%load_ext autograder` adds the explanation as an output of its own. The traceback stays whole and as it was.
"""

from __future__ import annotations

import ast
import logging
import math
import sys
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from autograder.place import Place, place_of, text_of

if TYPE_CHECKING:
    from autograder.graph import keras2_errors as raised


@dataclass(frozen=True)
class Explanation:
    """An error in three sentences. Shows itself as text and, in a notebook, as HTML."""

    what: str
    """What happened, with the names of the layers and tensors at hand."""
    why: str
    """The rule behind it."""
    fix: str
    """What to do."""

    def __str__(self) -> str:
        return f"{self.what}\n{self.why}\n→ {self.fix}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        style = "border-left: 4px solid #0072B2; padding: 0.2em 0.8em; white-space: normal"
        return f"<div style='{style}'>{_html(self.what)}<br>{_html(self.why)}<br><b>→</b> {_html(self.fix)}</div>"


def explain_error(error: BaseException) -> Explanation | None:
    """Explain an error that came up while a model was built.

    Args:
        error: the exception with its traceback; it is only read.

    Returns:
        None for an error of another kind, and where no Keras is loaded.
    """
    if "keras" not in sys.modules:
        return None
    # Only now: loading the extension must not load TensorFlow.
    from autograder.graph import keras2_errors as raised

    fact = raised.fact_of(error)
    if fact is None:
        return None
    place = place_of(error) or Place("", 0, {})
    match fact:
        case raised.Disconnected():
            return _disconnected(fact, place)
        case raised.Unused():
            return _unused(fact)
        case raised.NoTensor():
            return _no_tensor(fact)
        case raised.LayerGiven():
            return _layer_given(fact, place)
        case raised.NeedsNumbers():
            return _needs_numbers(fact, place)
        case raised.GivesNothing():
            return _gives_nothing(fact, place)
        case raised.Undecidable():
            return _undecidable(fact, place)
        case raised.Uniterable():
            return _uniterable(fact, place)
        case raised.Unhashable():
            return _unhashable(fact)
        case raised.LambdaVariables():
            return _lambda_variables(fact)
        case raised.RepeatedName():
            return _repeated_name(fact)


def load_ipython_extension(ipython: Any) -> None:
    """Explain errors of building a model from the next cell on."""
    ipython.events.register("post_run_cell", _show)


def unload_ipython_extension(ipython: Any) -> None:
    """Leave errors alone again."""
    if _show in ipython.events.callbacks["post_run_cell"]:
        ipython.events.unregister("post_run_cell", _show)


def _show(result: Any) -> None:
    """Show the explanation of the error that a cell ended in, if there is one."""
    try:
        explanation = explain_error(result.error_in_exec) if result.error_in_exec else None
        if explanation:
            from IPython.display import display

            display(explanation)  # type: ignore[no-untyped-call]
    except Exception:  # the learner has one error to look at; ours must not become a second one
        logging.getLogger(__name__).debug("No explanation, because of an error in here.", exc_info=True)


def _disconnected(fact: raised.Disconnected, place: Place) -> Explanation:
    from autograder.graph import keras2 as keras

    needed, reader = _named(fact.missing), fact.reader.name
    given = _listed(_named(tensor) for tensor in fact.inputs)
    what = f"`{reader}` needs {needed}, which is not among the model's inputs ({given})."
    inner = _model_that_starts_at(fact.missing, fact.outputs)
    if inner is not None:
        on_the_way = [
            t for t in fact.outputs if any(node is keras.node_of(fact.missing) for node in _behind(t))
        ]
        wanted = keras.maker_of(on_the_way[0]).name if on_the_way else reader
        calls = len(keras.nodes_of(keras.maker_of(on_the_way[0]))) if on_the_way else 0
        only = f"The only call of `{wanted}` is" if calls == 1 else f"This call of `{wanted}` is"
        return Explanation(
            f"The output of `{wanted}` needs {needed}, the input of `{inner.name}`'s own graph, which is not among "
            f"the model's inputs ({given}).",
            f"{only} the one in `{inner.name}`'s graph. Calling `{inner.name}` on a new input is one call of "
            f"`{inner.name}` as a whole: in the new graph the result of `{wanted}` was never made.",
            f"Make a model that gives both and call that on the new input: `Model({inner.name}.inputs, "
            f'{inner.name}.outputs + [{inner.name}.get_layer("{wanted}").output])`.',
        )
    names = place.names_of(fact.missing)
    why = "A model is computed from its inputs alone, so every Input that is met on the way back must be one of them."
    if not names and place.file and _replaced(fact):
        why += (
            f" No name holds {needed} any more: a name that is assigned a second Input lets go of the first, "
            f"and `{reader}` still hangs on the first."
        )
        fix = f"Make the Input once: give the model the same one that `{reader}` was called on."
    else:
        tensor = f"`{names[0]}`" if names else needed
        fix = f"Add {tensor} to the model's inputs, or call `{reader}` on a tensor that comes from {given}."
    return Explanation(what, why, fix)


def _replaced(fact: raised.Disconnected) -> bool:
    """Whether an input of the model looks like the missing one made anew."""
    return any(tensor.shape.as_list() == fact.missing.shape.as_list() for tensor in fact.inputs)


def _model_that_starts_at(tensor: Any, outputs: list[Any]) -> Any:
    """The model, called on the way to the outputs, that has the tensor among the inputs of its own graph."""
    from autograder.graph import keras2 as keras

    waiting = [node.layer for output in outputs if keras.is_keras_tensor(output) for node in _behind(output)]
    met: set[int] = set()
    while waiting:
        layer = waiting.pop(0)
        if id(layer) in met:
            continue
        met.add(id(layer))
        ends = keras.inputs_and_outputs(layer) if keras.is_model(layer) else None
        if ends and any(tensor is one for one in ends[0]):
            return layer
        waiting.extend(keras.sublayers_of(layer))
    return None


def _behind(tensor: Any) -> list[Any]:
    """The calls that a tensor comes from, nearest first."""
    from autograder.graph import keras2 as keras

    waiting, met = [keras.node_of(tensor)], dict[int, Any]()
    while waiting:
        node = waiting.pop(0)
        if id(node) not in met:
            met[id(node)] = node
            waiting.extend(keras.node_of(a) for a in keras.arguments_of(node) if keras.is_keras_tensor(a))
    return list(met.values())


def _unused(fact: raised.Unused) -> Explanation:
    names = _listed(_named(tensor) for tensor in fact.inputs)
    return Explanation(
        f"No output of the model needs {names}, which is among its inputs.",
        "`Model(inputs, outputs)` walks back from the outputs; where an input is the result of a layer, the walk has "
        "to meet each of them.",
        "Leave that input out, or let an output depend on it.",
    )


def _no_tensor(fact: raised.NoTensor) -> Explanation:
    from autograder.graph import keras2 as keras
    from autograder.graph.trace import describe

    value = fact.value
    shape = f" of shape {tuple(value.shape)}" if keras.is_eager(value) else ""
    given = f"a value{shape} that holds numbers" if shape else describe(value)
    what = f"The model was given {given} as an {fact.end}; it takes Keras tensors."
    rule = "`Model(inputs, outputs)` finds its layers by walking back from the outputs, along Keras tensors' memory."
    if keras.is_model(value) or keras.is_input(value):
        return Explanation(what, rule, f"Give it the tensor: `{value.name}.{fact.end}`.")
    if keras.is_layer(value):
        return Explanation(what, rule, f"Call `{value.name}` on a Keras tensor, and give what it returns.")
    if keras.is_eager(value) or keras.is_variable(value):
        return Explanation(
            what,
            f"{rule} A value with numbers in it remembers nothing: it was computed at once, since no Keras tensor went "
            "into it.",
            "Start from `Input(…)`, and compute the output from it.",
        )
    return Explanation(
        what, rule, "Start from `Input(…)`, and give what a layer returned when it was called."
    )


def _layer_given(fact: raised.LayerGiven, place: Place) -> Explanation:
    name = fact.value.name
    called = f"`{place.text}`" if place.text else "A layer"
    return Explanation(
        f"{called} was given the layer `{name}` itself ({type(fact.value).__name__}), not a tensor.",
        "A layer object is only the recipe with its weights; its result exists once it is called.",
        f"Call `{name}` on a tensor first, and hand on what it returns.",
    )


def _needs_numbers(fact: raised.NeedsNumbers, place: Place) -> Explanation:
    node = place.expression
    holder = node.value if isinstance(node, ast.Subscript) else None
    subject = place.names.get(holder.id) if isinstance(holder, ast.Name) else fact.tensor
    tensor = _named(subject) if subject is not None else "a tensor"
    asking = f"`{place.text}`" if place.text else "This"
    why = (
        "A tensor of a model that is being built says which layer makes a result and of what shape, no more."
    )
    if _is_tensorflow(place):
        why += " Keras makes layers of most TensorFlow functions that are called on it, but not of this one."
    return Explanation(
        f"{asking} needs the numbers in {tensor}, and there are none while the model is built.",
        why,
        _instead(place),
    )


def _is_tensorflow(place: Place) -> bool:
    node = place.expression
    if not isinstance(node, ast.Call):
        return False
    owner = place.names.get(ast.unparse(node.func).partition(".")[0])
    return getattr(owner, "__name__", "").partition(".")[0] == "tensorflow"


_IN_A_LAYER = (
    "Put it into the `call` of a layer of your own (a subclass of `tf.keras.layers.Layer`), where it works on the "
    "values of each batch, and call that layer on the tensor."
)


def _instead(place: Place) -> str:
    node = place.expression
    if isinstance(node, ast.Attribute) and node.attr == "numpy":
        return "For numbers make a model, `Model(inputs, tensor)`, and call it on data."
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
        return (
            "A tensor is never changed in place: make a new one, for example with `tf.where` or `tf.concat`."
        )
    if not isinstance(node, ast.Call):
        return _IN_A_LAYER
    function = ast.unparse(node.func)
    module, _, name = function.rpartition(".")
    if name == "numpy":
        return "For numbers make a model, `Model(inputs, tensor)`, and call it on data."
    if getattr(place.names.get(module), "__name__", "") in ("numpy", "math"):
        if name in ("array", "asarray"):
            return "Leave the conversion out: layers and TensorFlow functions take the Keras tensor as it is."
        twin = _twin(name)
        return f"Use TensorFlow's own `{twin}`, which becomes a part of the model." if twin else _IN_A_LAYER
    if name in ("Variable", "constant") and _is_tensorflow(place):
        return (
            "Use the Keras tensor as it is. For a weight of your own use `add_weight` in a layer: its first value "
            "cannot depend on the input."
        )
    if function in ("int", "float", "range"):
        return (
            "For a size that is fixed use `tensor.shape[1]`; otherwise stay with TensorFlow (`tf.cast`, `tf.range`), "
            "or do it in the `call` of a layer of your own."
        )
    return _IN_A_LAYER


def _twin(name: str) -> str:
    """TensorFlow's function for one of numpy's or of `math`'s."""
    import tensorflow as tf

    special = {"dot": "matmul", "concatenate": "concat", "absolute": "abs", "power": "pow"}
    for candidate in (special.get(name, name), f"reduce_{name}"):
        for module, prefix in ((tf, "tf"), (tf.math, "tf.math")):
            if callable(getattr(module, candidate, None)):
                return f"{prefix}.{candidate}"
    return ""


def _gives_nothing(fact: raised.GivesNothing, place: Place) -> Explanation:
    node = place.expression
    name = (
        ast.unparse(node.func)
        if isinstance(node, ast.Call)
        else getattr(fact.function, "__name__", "function")
    )
    return Explanation(
        f"`{name}` was called on a Keras tensor, and it gives no tensor back.",
        "While a model is built, each TensorFlow function becomes a layer, and a layer must give a tensor.",
        f"Call `{name}` in the `call` of a layer of your own that returns its input, or on the model's results.",
    )


_DECISIONS = {
    ast.If: "if",
    ast.While: "while",
    ast.IfExp: "… if … else …",
    ast.Assert: "assert",
    ast.BoolOp: "and/or",
    ast.Not: "not",
}


def _undecidable(fact: raised.Undecidable, place: Place) -> Explanation:
    tensor = _named(fact.tensor) if fact.tensor is not None else "a tensor"
    node = place.expression
    called = ast.unparse(node.func) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
    if called == "len":
        return Explanation(
            f"`{place.text}` asks {tensor} for its length, and that is not known while the model is built.",
            "The first dimension is the batch, which is of another size for every batch.",
            "Use `tensor.shape[1]` for a dimension that is fixed, `tf.shape(tensor)[0]` for the batch size.",
        )
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
        return Explanation(
            f"`{place.text}` compares Keras tensors by their values, and they have none while the model is built.",
            "`in` asks `==` of every element, and `==` on Keras tensors makes a new Keras tensor, not True or False.",
            "Compare by identity: `any(one is tensor for one in tensors)`.",
        )
    kind = _decision(place)
    why = (
        "Python decides once, while the model is built; a model has to decide anew for every batch, so the choice "
        "must be an operation in it."
    )
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq | ast.NotEq):
        fix = (
            "To ask whether it is the same tensor write `is`; for a choice by value use `tf.where`, or write the `if` "
            "in the `call` of a layer of your own."
        )
    elif called in ("min", "max", "sorted"):
        fix = "Use `tf.maximum`, `tf.minimum` or `tf.sort`."
    elif isinstance(node, ast.Name) and kind:
        fix = f"To ask whether there is a tensor write `{node.id} is not None`; for a choice by value use `tf.where`."
    else:
        fix = "Use `tf.where(condition, a, b)`, or write the `if` in the `call` of a layer of your own."
    subject = (
        f"A Python `{kind}` on `{place.text}`" if kind else f"`{place.text}`" if place.text else "Python"
    )
    return Explanation(
        f"{subject} asks {tensor} for True or False, and it has no value while the model is built.", why, fix
    )


def _decision(place: Place) -> str:
    """The Python keyword that asked an expression whether it is true."""
    if isinstance(place.expression, ast.BoolOp):
        return "and/or"
    for inner, outer in zip(place.around, place.around[1:], strict=False):
        if isinstance(outer, ast.UnaryOp) and isinstance(outer.op, ast.Not):
            return "not"
        word = _DECISIONS.get(type(outer), "")
        if word and (isinstance(outer, ast.BoolOp) or getattr(outer, "test", None) is inner):
            return word
        if isinstance(outer, ast.comprehension) and inner in outer.ifs:
            return "if"
    return ""


def _uniterable(fact: raised.Uniterable, place: Place) -> Explanation:
    asking = f"`{place.text}`" if place.text else "Python"
    tensor = _named(fact.tensor)
    why = "A loop or an unpacking goes over the first dimension, which is the batch, and its size is not known yet."
    fix = "Take slices (`tensor[:, 0]`), or `tf.unstack(tensor, axis=1)` over a dimension that is fixed."
    if isinstance(place.expression, ast.Tuple | ast.List) and len(place.around) > 1:
        assigned = place.around[1]
        right = text_of(assigned.value) if isinstance(assigned, ast.Assign) else "the right side"
        return Explanation(
            f"`{right}` gives one Keras tensor ({tensor}), and it was to be taken apart into {asking}.",
            why,
            f"{fix} If a layer is to give its states too, make it with `return_state=True`.",
        )
    node = place.expression
    called = ast.unparse(node.func) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
    if called in ("sum", "min", "max", "any", "all"):
        fix = f"Use `tf.reduce_{called}`, which becomes a part of the model."
    looped = len(place.around) > 1 and isinstance(place.around[1], ast.For | ast.comprehension)
    goes = f"A loop over {asking} goes" if looped else f"{asking} goes"
    return Explanation(f"{goes} through the parts of {tensor} one by one.", why, fix)


def _unhashable(fact: raised.Unhashable) -> Explanation:
    return Explanation(
        f"{_capital(_named(fact.tensor))} was put into a set, or used as the key of a dict.",
        "Sets and keys compare with `==`, and `==` on Keras tensors makes a new Keras tensor, not True or False.",
        "Use `tensor.ref()` as the key, or keep the tensors in a list.",
    )


def _lambda_variables(fact: raised.LambdaVariables) -> Explanation:
    parameters = sum(math.prod(variable.shape.as_list()) for variable in fact.variables)
    number = len(fact.variables)
    made = f"{number} variable{'s' if number > 1 else ''} ({parameters:,} parameter{'s' if parameters != 1 else ''})"
    why = (
        "A Lambda owns no variables: nothing would train or save them, and each call of the function might make new "
        "ones."
    )
    if fact.layers:
        names = _listed(f"`{layer.name}`" for layer in fact.layers)
        return Explanation(
            f"Lambda `{fact.layer.name}` called {names} inside its function, and that made {made}.",
            why,
            f"Call {names} on the Keras tensor, outside the Lambda.",
        )
    return Explanation(
        f"The function of Lambda `{fact.layer.name}` made {made} while it was called.",
        why,
        "Make layers outside the Lambda and call them on the Keras tensor; make variables with `add_weight` in the "
        "`build` of a layer of your own.",
    )


def _repeated_name(fact: raised.RepeatedName) -> Explanation:
    kinds = _listed(f"one {type(layer).__name__}{_size(layer)}" for layer in fact.layers)
    return Explanation(
        f"{len(fact.layers)} different layers of the model are named `{fact.name}` ({kinds}).",
        "In one model every layer needs a name of its own, since weights are saved under it. A common name shares "
        "nothing: the layers have weights of their own.",
        "Give one of them another `name=`, or leave `name` out; if one layer was meant, make one and call it twice.",
    )


def _size(layer: Any) -> str:
    from autograder.graph import keras2 as keras

    parameters = sum(math.prod(variable.shape.as_list()) for variable in keras.variables_of(layer))
    return f" of {parameters:,} parameters" if parameters else ""


def _named(tensor: Any) -> str:
    """A Keras tensor by the layer that made it."""
    from autograder.graph import keras2 as keras

    if not keras.is_keras_tensor(tensor):
        return "a Keras tensor"
    layer = keras.maker_of(tensor)
    if keras.is_input(layer):
        return f"Input `{layer.name}`"
    name = keras.operation_name(layer) if keras.is_operation(layer) else layer.name
    return f"the result of `{name}`"


def _listed(words: Any) -> str:
    words = list(words)
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else "none"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _html(text: str) -> str:
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if odd % 2 else part for odd, part in enumerate(parts))
