"""Errors while building: each one is really raised, and what is said about it names what is at hand."""

from __future__ import annotations

import sys
import traceback
from itertools import pairwise
from subprocess import run
from types import SimpleNamespace

import models
import nbformat
import numpy as np
import pytest
import tensorflow as tf
from nbclient import NotebookClient
from tensorflow.keras import Input, Model, Sequential, layers

from autograder import building
from autograder.building import Explanation, explain_error


def explained(build, *args):
    """The explanation of the error that `build` raises, as text."""
    with pytest.raises(Exception) as error:  # noqa: PT011
        build(*args)
    explanation = explain_error(error.value)
    assert explanation is None or 3 <= len(str(explanation).splitlines()) <= 4
    return None if explanation is None else explanation


def test_an_input_that_the_model_lacks():
    """The layer, the Input that it hangs on and the model's own input are named."""

    def build():
        a, b = Input((4,), name="a"), Input((4,), name="b")
        Model(a, layers.Concatenate(name="joined")([a, layers.Dense(2, name="h")(b)]))

    explanation = explained(build)
    assert explanation.what == "`h` needs Input `b`, which is not among the model's inputs (Input `a`)."
    assert "Add `b` to the model's inputs" in explanation.fix


def test_the_name_of_the_variable_counts_and_not_that_of_the_layer():
    """The fix speaks of the tensor by the name that the learner gave to it."""

    def build():
        pixels = Input((4,), name="input_of_pixels")
        other = Input((3,), name="other")
        Model(other, layers.Dense(2)(pixels))

    assert "Add `pixels` to the model's inputs" in explained(build).fix


def test_an_input_assigned_anew():
    """When no name holds the Input any more, the second assignment is named as the cause."""

    def build():
        x = Input((4,), name="first")
        y = layers.Dense(3, name="h")(x)
        x = Input((4,), name="second")
        Model(x, y)

    explanation = explained(build)
    assert explanation.what.startswith("`h` needs Input `first`, which is not among")
    assert "No name holds Input `first` any more" in explanation.why
    assert "Make the Input once" in explanation.fix


def test_a_tensor_from_inside_a_nested_model():
    """The activation has one call, in the inner model's graph, and none in the outer one."""
    error = models.inner_tensor_exposed()["error"].value
    explanation = explain_error(error)
    assert "`mid` needs Input `inner_input`, the input of `inner`'s own graph" in explanation.what
    assert "The only call of `mid` is the one in `inner`'s graph" in explanation.why
    assert "the result of `mid` was never made" in explanation.why
    assert 'inner.outputs + [inner.get_layer("mid").output]' in explanation.fix


def test_the_fix_for_the_nested_tensor_works():
    """What the explanation says to do builds a model with both outputs."""
    zoo = models.inner_tensor_exposed()
    inner = zoo["inner"]
    both = Model(inner.inputs, [*inner.outputs, inner.get_layer("mid").output])
    outer = Model(zoo["outer_input"], both(zoo["outer_input"]))
    assert [tuple(tensor.shape) for tensor in outer.outputs] == [(None, 2), (None, 3)]


def test_a_tensor_from_two_models_deep():
    """The inner model is found where it is called by another nested model."""

    def build():
        a = Input((3,), name="a")
        mid = layers.Dense(3, name="mid")(a)
        core = Model(a, layers.Dense(3)(mid), name="core")
        b = Input((3,), name="b")
        middle = Model(b, core(b), name="middle")
        c = Input((3,), name="c")
        Model(c, [middle(c), mid])

    assert "the input of `core`'s own graph" in explained(build).what


def test_a_cut_that_leaves_a_second_way():
    """Cutting at one branch leaves the other one hanging on the Input."""

    def build():
        a = Input((4,), name="a")
        h, g = layers.Dense(3, name="h")(a), layers.Dense(3, name="g")(a)
        Model(h, layers.Add()([h, g]))

    assert explained(build).what == (
        "`g` needs Input `a`, which is not among the model's inputs (the result of `h`)."
    )


def test_a_cut_at_a_tensor_that_no_output_needs():
    """An intermediate tensor among the inputs has to be on the way."""

    def build():
        a = Input((4,), name="a")
        h, side = layers.Dense(3, name="h")(a), layers.Dense(3, name="side")(a)
        Model([h, side], layers.Dense(1)(h))

    assert "No output of the model needs the result of `side`" in explained(build).what


@pytest.mark.parametrize(
    ("source", "what", "fix"),
    [
        ("tf.Variable(h)", "`tf.Variable(h)` needs the numbers in the result of `h`", "add_weight"),
        ("np.array(h)", "`np.array(h)` needs the numbers", "Leave the conversion out"),
        ("np.mean(h)", "`np.mean(h)` needs the numbers", "tf.reduce_mean"),
        ("np.exp(h)", "`np.exp(h)` needs the numbers", "tf.exp"),
        ("np.dot(h, np.ones((3, 1)))", "needs the numbers", "tf.matmul"),
        ("tf.cond(tf.reduce_sum(h) > 0, lambda: h, lambda: -h)", "`tf.cond(", "`call` of a layer"),
        ("tf.while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, t), [0, h])", "`tf.while_loop(", "`call`"),
        (
            "tf.map_fn(lambda t: t, h)",
            "`tf.map_fn(lambda t: t, h)` needs the numbers in the result",
            "`call`",
        ),
        ("tf.function(lambda t: t)(h)", "needs the numbers in the result of `h`", "`call`"),
        ("tf.data.Dataset.from_tensor_slices(h)", "needs the numbers in the result of `h`", "`call`"),
        ("tf.Variable(tf.zeros((1, 3))).assign(h)", "needs the numbers in the result of `h`", "`call`"),
        ("h.numpy()", "`h.numpy` needs the numbers in the result of `h`", "`Model(inputs, tensor)`"),
        ("int(tf.shape(h)[0])", "`int(tf.shape(h)[0])` needs the numbers", "tensor.shape[1]"),
        ("range(tf.shape(h)[0])", "`range(tf.shape(h)[0])` needs the numbers", "tf.range"),
        ("h[:, 0] = 1", "`h[:, 0]` needs the numbers in the result of `h`", "never changed in place"),
        ("tf.print(h)", "`tf.print` was called on a Keras tensor, and it gives no tensor back", "`call`"),
        ("layers.Lambda(lambda t: np.exp(t))(h)", "`np.exp(t)` needs the numbers", "tf.exp"),
    ],
)
def test_functions_that_keras_cannot_wrap(tmp_path, source, what, fix):
    """The expression is quoted, the tensor named by its layer, and the way out fits the function."""
    explanation = explained(run_source, tmp_path, source)
    assert what in explanation.what
    assert fix in explanation.fix


@pytest.mark.parametrize(
    ("source", "what", "fix"),
    [
        ("if h: pass", "A Python `if` on `h` asks the result of `h` for True or False", "`h is not None`"),
        ("if tf.reduce_sum(h) > 0: pass", "`if` on `tf.reduce_sum(h) > 0` asks the result of", "`tf.where("),
        ("while h > 0: pass", "A Python `while` on `h > 0` asks", "`tf.where("),
        ("assert h", "A Python `assert` on `h` asks", "`h is not None`"),
        ("y = not h", "A Python `not` on `h` asks", "`h is not None`"),
        ("y = h and h", "A Python `and/or` on `h and h` asks", "`tf.where("),
        ("y = 1 if h else 2", "A Python `… if … else …` on `h` asks", "`h is not None`"),
        ("y = [1 for i in range(2) if h > i]", "A Python `if` on `h > i` asks", "`tf.where("),
        ("bool(h)", "`bool(h)` asks the result of `h` for True or False", "`tf.where("),
        ("if h == x: pass", "`if` on `h == x` asks", "the same tensor write `is`"),
        ("h in [x]", "`h in [x]` compares Keras tensors by their values", "any(one is tensor"),
        ("max(h, h)", "`max(h, h)` asks the result of `tf.math.greater`", "`tf.maximum`"),
        ("len(h)", "`len(h)` asks the result of `h` for its length", "`tf.shape(tensor)[0]`"),
        ("for part in h: pass", "A loop over `h` goes through the parts of the result of `h`", "tf.unstack"),
        ("sum(h)", "`sum(h)` goes through the parts of the result of `h`", "`tf.reduce_sum`"),
        ("a, b, c = h", "`h` gives one Keras tensor", "return_state=True"),
        ("{h: 1}", "The result of `h` was put into a set, or used as the key", "tensor.ref()"),
        (
            "layers.Lambda(lambda t: t if tf.reduce_sum(t) > 0 else -t)(h)",
            "`… if … else …` on `tf.reduce_sum(t) > 0` asks a tensor for True",
            "`tf.where(",
        ),
    ],
)
def test_python_asks_a_tensor(tmp_path, source, what, fix):
    """A decision, a length, a loop: what Python asked and of which layer's result."""
    explanation = explained(run_source, tmp_path, source)
    assert what in explanation.what
    assert fix in explanation.fix


def run_source(folder, source):
    """Run one line where `x` is an Input and `h` a Dense on it, as a file, so that its text can be found."""
    file = folder / "learner.py"
    file.write_text(f"x = Input((4,))\nh = layers.Dense(3, name='h')(x)\n{source}\n")
    exec(
        compile(file.read_text(), str(file), "exec"),
        {"Input": Input, "layers": layers, "tf": tf, "np": np, "__name__": "learner"},
    )


def test_a_layer_made_inside_a_lambda():
    """The layer that the Lambda's function reaches is named, with the number of parameters."""
    inner = layers.Dense(2, name="inner")
    explanation = explained(lambda: layers.Lambda(lambda t: inner(t), name="via")(Input((4,))))
    assert explanation.what == (
        "Lambda `via` called `inner` inside its function, and that made 2 variables (10 parameters)."
    )
    assert explanation.fix == "Call `inner` on the Keras tensor, outside the Lambda."


def test_a_variable_made_inside_a_lambda():
    """Where no layer made it, the function itself did."""
    explanation = explained(lambda: layers.Lambda(lambda t: t * tf.Variable(2.0), name="via")(Input((4,))))
    assert (
        explanation.what == "The function of Lambda `via` made 1 variable (1 parameter) while it was called."
    )
    assert "add_weight" in explanation.fix


def repeated():
    x = Input((4,))
    return Model(x, layers.Dense(2, name="d")(layers.Dense(4, name="d")(x)))


def repeated_in_a_sequential():
    return Sequential([Input((4,)), layers.Dense(4, name="d"), layers.Dense(2, name="d")])


def test_one_name_for_two_layers():
    """Both layers are told apart by their kind and size."""
    assert explained(repeated).what == (
        "2 different layers of the model are named `d` (one Dense of 20 parameters and one Dense of 10 parameters)."
    )
    assert "2 different layers of the model are named `d`" in explained(repeated_in_a_sequential).what


@pytest.mark.parametrize(
    ("given", "what", "fix"),
    [
        (lambda x: Model(x, layers.Dense(2, name="d")), "the layer 'd' (Dense) as an output", "Call `d` on"),
        (
            lambda x: Model(x, tf.zeros((1, 4))),
            "a value of shape (1, 4) that holds numbers as an output",
            "Input(…)",
        ),
        (lambda x: Model(x, None), "given None as an output", "Input(…)"),
        (lambda x: Model(tf.zeros((1, 4)), x), "that holds numbers as an input", "Input(…)"),
        (lambda x: Model(layers.InputLayer((4,), name="i"), x), "the layer 'i' (InputLayer)", "`i.input`"),
        (lambda x: layers.Dense(3)(layers.Dense(2, name="d")), "was given the layer `d` itself", "Call `d`"),
    ],
)
def test_something_else_than_a_tensor(given, what, fix):
    """What was given is named, and the tensor that was meant."""
    explanation = explained(given, Input((4,)))
    assert what in explanation.what
    assert fix in explanation.fix


def their_own_error():
    raise TypeError(f"I do not like {Input((4,))}")


@pytest.mark.parametrize(
    "other",
    [
        lambda: 1 / 0,
        lambda: Input((4,)).shpae,
        lambda: Input((4,)) + Input((3,)),
        lambda: tf.matmul(Input((4,)), tf.zeros((3, 2))),
        lambda: layers.Concatenate(axis=1)([Input((4, 3)), Input((4, 2))]),
        lambda: layers.Conv2D(3, 3)(Input((4,))),
        lambda: f"{Input((4,)):.2f}",
        their_own_error,
        lambda: {np.zeros(3)},
    ],
)
def test_other_errors_are_left_alone(other):
    """A shape that does not fit, a slip of the pen, an error of the learner's own: nothing is said."""
    assert explained(other) is None


def test_the_error_is_only_read():
    """Its traceback, its text and its notes are afterwards what they were."""
    with pytest.raises(ValueError, match="used 2 times") as error:
        repeated()
    before = traceback.format_exception(error.value)
    assert explain_error(error.value) is not None
    assert traceback.format_exception(error.value) == before


def test_an_explanation_shows_itself_as_text_and_html():
    """Names stand in code style, and nothing in them is taken for HTML."""
    explanation = Explanation("`<b>` is odd.", "Why.", "Do `x`.")
    assert str(explanation) == "`<b>` is odd.\nWhy.\n→ Do `x`."
    assert "<code>&lt;b&gt;</code> is odd." in explanation._repr_html_()


def test_an_error_in_the_explanation_stays_inside(monkeypatch, capsys):
    """The learner has one error to look at: a second one never comes from here."""
    monkeypatch.setattr(building, "explain_error", lambda error: 1 / 0)
    building._show(SimpleNamespace(error_in_exec=ValueError("theirs")))
    assert capsys.readouterr() == ("", "")


def test_loading_the_extension_loads_no_tensorflow():
    """`%load_ext autograder` costs no time, and no error without Keras is looked at."""
    code = (
        "import sys, autograder\n"
        "from types import SimpleNamespace\n"
        "events = SimpleNamespace(register=lambda *a: None)\n"
        "autograder.load_ipython_extension(SimpleNamespace(events=events))\n"
        "from autograder.building import explain_error\n"
        "assert explain_error(ValueError('no')) is None\n"
        "assert 'tensorflow' not in sys.modules and 'keras' not in sys.modules\n"
    )
    run([sys.executable, "-c", code], check=True)


CELLS = [
    "import os; os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'\n"
    "from tensorflow.keras import Input, Model, layers\n"
    "x = Input((4,), name='first')\ny = layers.Dense(3, name='h')(x)\nx = Input((4,), name='second')",
    "Model(x, y)",
    "%load_ext autograder",
    "Model(x, y)",
    "if x > 0:\n    pass",
    "1 / 0",
    "from autograder import building\n"
    "kept, building.explain_error = building.explain_error, lambda error: undefined_name\n"
    "Model(x, y)",
    "building.explain_error = kept\n%reload_ext autograder",
    "Model(x, y)",
    "%unload_ext autograder",
    "Model(x, y)",
]


@pytest.fixture(scope="module")
def executed():
    """A notebook run in a real kernel, cell by cell, going on after errors."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in CELLS])
    NotebookClient(notebook, kernel_name="python3", allow_errors=True, timeout=120).execute()
    return notebook.cells


def kinds(cell):
    return [output.output_type for output in cell.outputs]


def test_in_a_kernel_the_explanation_stands_under_the_traceback(executed):
    """Beside the error, which is word for word what it is without the extension, stands one more output."""
    plain, explained_cell = executed[1], executed[3]
    assert kinds(plain) == ["error"]
    assert kinds(explained_cell) == ["error", "display_data"]
    one, other = plain.outputs[0], explained_cell.outputs[0]
    assert (one.ename, one.evalue) == (other.ename, other.evalue)
    assert [line for line in one.traceback[1:] if "Cell" not in line] == [
        line for line in other.traceback[1:] if "Cell" not in line
    ]
    data = explained_cell.outputs[1].data
    assert data["text/plain"].startswith("`h` needs Input `first`, which is not among the model's inputs")
    assert "No name holds Input `first` any more" in data["text/plain"]
    assert "<code>h</code> needs Input" in data["text/html"]


def test_in_a_kernel_the_cell_is_quoted(executed):
    """The expression is found in the cell's own text."""
    assert "A Python `if` on `x > 0` asks" in executed[4].outputs[1].data["text/plain"]


def test_in_a_kernel_other_errors_have_no_explanation(executed):
    """A division by zero is shown as always."""
    assert kinds(executed[5]) == ["error"]


def test_in_a_kernel_our_own_error_is_not_seen(executed):
    """When the explanation itself fails the learner's error is all there is."""
    assert kinds(executed[6]) == ["error"]
    assert executed[6].outputs[0].ename == "ValueError"


def test_in_a_kernel_loading_twice_explains_once_and_unloading_ends_it(executed):
    """`%reload_ext` leaves one explanation; `%unload_ext` leaves none."""
    assert kinds(executed[8]) == ["error", "display_data"]
    assert kinds(executed[10]) == ["error"]


def test_nothing_goes_to_stderr(executed):
    """A graded cell that writes to stderr would cost points."""
    assert not any(
        getattr(output, "name", "") == "stderr" for cell in executed[2:] for output in cell.outputs
    )
    assert all(first.execution_count < second.execution_count for first, second in pairwise(executed))
