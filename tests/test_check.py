"""Claims of test cells: right answers pass, wrong ones get a message that names the cause."""

from __future__ import annotations

import json
import subprocess
import sys

import models
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.keras import Input, Model, layers

from autograder import check
from autograder.check import judge, measure


def message(call, *args, **kwargs):
    with pytest.raises(check.CheckFailed) as failed:
        call(*args, **kwargs)
    return str(failed.value)


def test_a_claim_that_holds_returns_none():
    """A test cell whose claim holds shows nothing."""
    zoo = models.autoencoder()
    model, encoder = zoo["model"], zoo["encoder"]
    assert check.parameters(model, total=28_241, trainable=28_241, frozen=0, state=0) is None
    assert check.shapes(models.owned_constant()["model"], [(1, 1), (1, 11), (11,)]) is None
    assert check.contains(model, *encoder.layers) is None
    assert check.excludes(encoder, model.layers[-1]) is None
    assert check.shares(model, encoder, 18_672) is None
    assert check.trains(models.owned_constant()["model"], 23) is None
    assert check.output_shape(encoder, (None, 16)) is None
    assert check.equal_outputs(encoder, encoder, np.ones((2, 28, 28, 1), "float32")) is None


def test_parameters_names_expected_found_and_the_cause():
    """The message holds both counts, the variables that count, and what is wrong with the model."""
    text = message(check.parameters, models.untracked_subgraph()["model"], trainable=22)
    assert "expected: 22 trainable parameters" in text
    assert "found:    0 trainable parameters" in text
    assert "as a constant" in text


def test_parameters_names_each_count_that_is_off():
    """Counts that hold are not mentioned."""
    text = message(check.parameters, models.batch_normalization()["model"], trainable=22, state=7, total=99)
    assert "99 parameters in all, 7 state parameters" in text
    assert "trainable parameter" not in text


def test_shapes_names_what_is_missing_and_what_is_too_much():
    """Shapes are compared as a multiset."""
    text = message(check.shapes, models.nobody_added_it()["model"], [(5, 10), (5, 10)])
    assert "no trainable variable has the shape (5, 10)" in text
    assert "dense/bias (10,)" in text


def test_contains_says_why_a_layer_is_outside():
    """The layer's own story is told: it was called on a variable."""
    zoo = models.untracked_subgraph()
    text = message(check.contains, zoo["model"], zoo["dense_softmax"])
    assert "'denseSoftmax' (Dense, 22 parameters)" in text
    assert "called on a tf.Variable" in text


def test_calls_counts_calls_inside_nested_models():
    """Two calls of a submodel, one call of each of its layers inside."""
    zoo = models.siamese()
    check.calls(zoo["model"], zoo["tower"], 2)
    assert "found:    2 calls" in message(check.calls, zoo["model"], zoo["tower"], 1)


def test_sharing_is_identity():
    """Equal configuration and equal values share nothing, and the message says so."""
    x = Input((3,))
    first, second = layers.Dense(2, kernel_initializer="ones"), layers.Dense(2, kernel_initializer="ones")
    text = message(check.shares, Model(x, first(x)), Model(x, second(x)), 8)
    assert "share 0 parameters" in text
    assert "equal shapes are not enough" in text


def test_trains_names_what_stands_still():
    """A cut gradient and a loose variable are each named with the place."""
    text = message(check.trains, models.stopped_gradients()["model"])
    assert "cut/kernel (2, 3) does not move: no gradient passes 'tf.stop_gradient'" in text
    assert "belongs to no layer" in message(check.trains, models.loose_variable()["model"], 22)


def test_trains_wants_something_to_train():
    """A model without trainable parameters does not pass by having none that stand still."""
    assert "something to train" in message(check.trains, models.untracked_subgraph()["model"])


def test_equal_outputs_tells_shapes_and_differences():
    """Another shape, other values and a function that fails are different words."""
    ones = tf.ones((2, 5))
    model, other = models.nobody_added_it()["model"], models.nobody_added_it()["model"]
    assert "differ by up to" in message(check.equal_outputs, model, other, ones)
    assert "shape (2, 1)" in message(check.equal_outputs, lambda x: x[:, :1], model, ones)
    assert "ZeroDivisionError" in message(check.equal_outputs, lambda x: 1 / 0, model, ones)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_values_that_are_no_numbers_are_not_equal(value):
    """NaN differs from everything."""
    ones = tf.ones((1, 2))
    assert "differ by" in message(check.equal_outputs, lambda x: x * value, lambda x: x, ones)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (3, 3),
        (np.int64(3), 3),
        (tf.constant(3), 3),
        (["a", "b"], ("a", "b")),
        ({"a": 1}, {"a": 1}),
        ("a ", "a"),
        (3.0, 3),
    ],
)
def test_equal_takes_any_plain_form(found, expected):
    """NumPy's and TensorFlow's numbers, tuples and lists, blanks around a text."""
    check.equal(found, expected, "the value")


class EqualToAll:
    """Says that it equals whatever it is compared with."""

    def __eq__(self, _other):
        return True

    __hash__ = None


@pytest.mark.parametrize("found", [4, "3", True, None, ..., EqualToAll(), [3], lambda: 3])
def test_equal_is_not_deceived(found):
    """Neither by another type nor by an object that is equal to everything."""
    assert "expected: " in message(check.equal, found, 3, "the value")


def test_equal_names_the_entry():
    """Lists part somewhere, and the place is told."""
    assert "entry 1: 'b' where 'c' was expected" in message(check.equal, ["a", "b"], ["a", "c"], "names")


def test_prediction_never_tells_the_answer():
    """A wrong guess hears what it would mean; the right value is not in the message."""
    text = message(
        check.prediction, 22, 41, "parameters of the model", implies={22: "Then the Dense counts."}
    )
    assert "41" not in text
    assert "Then the Dense counts." in text
    assert "41" not in message(check.prediction, ..., 41, "parameters of the model")
    check.prediction(41, 41, "parameters of the model")


@pytest.mark.parametrize("claim", ["parameters", "shapes", "contains", "trains", "output_shape", "calls"])
@pytest.mark.parametrize("value", [None, ..., "tensor", "layer", "unbuilt"], ids=str)
def test_what_is_no_model_is_answered_kindly(claim, value):
    """An unfinished cell gets words, never a traceback from inside a check."""
    layer = layers.Dense(1)
    value = {"tensor": layer(Input((1,))), "layer": layer, "unbuilt": models.never_built()["model"]}.get(
        value, value
    )
    extra = {
        "parameters": {"total": 1},
        "shapes": {"shapes": [(1,)]},
        "output_shape": {"shape": (None, 1)},
        "calls": {"layer": layer, "times": 1},
    }
    args = (layer,) if claim == "contains" else ()
    text = message(getattr(check, claim), value, *args, **extra.get(claim, {}))
    assert text.startswith("expected: ")


def test_measurements_are_data():
    """Every measurement goes through JSON and is judged the same afterwards."""
    zoo = models.siamese()
    model = zoo["model"]
    for measured in (
        measure.parameters(model),
        measure.membership(model, (zoo["tower"],)),
        measure.calls(model, zoo["tower"]),
        measure.sharing(model, zoo["tower"]),
        measure.training(model, None, None),
        measure.output_shape(model),
        measure.value(np.float32(2), 1),
        measure.equal_outputs(zoo["tower"], zoo["tower"], (tf.ones((1, 6)),)),
    ):
        assert json.loads(json.dumps(measured)) == measured
    measured = json.loads(json.dumps(measure.parameters(model)))
    assert judge.parameters(measured, {"total": 41}).holds


def test_judging_loads_no_tensorflow():
    """A grader judges in a process that has never imported TensorFlow."""
    code = (
        "import sys; from autograder.check import judge; "
        "v = judge.sharing({'first': 'a', 'second': 'b', 'shared': 3, 'lookalikes': []}, 3); "
        "print(v.holds, 'tensorflow' in sys.modules, 'keras' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["True", "False", "False"]


def test_parts_of_the_points(capsys):
    """One claim of two earns its part, and the message of the other is shown."""
    model = models.nobody_added_it()["model"]
    parts = check.Parts()
    with parts(2):
        check.parameters(model, trainable=60)
    with parts(4):
        check.parameters(model, frozen=60)
    assert parts.score() == 2
    shown = capsys.readouterr().out
    assert shown.startswith("2 of 6 points")
    assert "60 frozen parameters" in shown


def test_all_parts_and_no_part():
    """All claims give None, as any check does; none raises with every message, an error of the code among them."""
    parts = check.Parts()
    with parts(3):
        check.equal(1, 1, "one")
    assert parts.score() is None
    parts = check.Parts()
    with parts(1):
        check.equal(1, 2, "the first")
    with parts(2):
        _ = 1 / 0
    text = message(parts.score)
    assert "the first" in text
    assert "ZeroDivisionError" in text


def test_a_frozen_layer_is_named_where_parameters_are_missed():
    """What is switched off is no fault, but it is a cause."""
    assert "`norm` (6 parameters) is switched off" in message(
        check.parameters, models.batch_normalization(frozen=True)["model"], trainable=22
    )


def test_prediction_says_where_to_look():
    """The default sends the learner to the code below; a cell without such code says something else."""
    assert "Run the code below" in message(check.prediction, 1, 2, "x")
    assert message(check.prediction, 1, 2, "x", look="Read the report again.").endswith(
        "Read the report again."
    )


class EqualNumber(int):
    """A whole number that says that it equals whatever it is compared with."""

    def __eq__(self, _other):
        return True

    __hash__ = int.__hash__


def test_a_number_of_a_class_of_ones_own_is_compared_by_value():
    """A subclass of int is taken for the number that it is."""
    assert "expected: " in message(check.equal, EqualNumber(4), 3, "the value")
    assert "expected: " in message(check.prediction, EqualNumber(4), 3, "the value")


def test_several_outputs_are_compared_one_by_one():
    """Models with several outputs, and outputs that are no numbers."""
    x = Input((3, 2))
    model = Model(x, layers.LSTM(4, return_state=True)(x))
    ones = tf.ones((2, 3, 2))
    check.equal_outputs(model, model, ones)
    check.equal_outputs(lambda x: x * 2, lambda x: [[2.0, 4.0]], tf.constant([[1.0, 2.0]]))
    assert "shape (2, 4)" in message(check.equal_outputs, lambda x: model(x)[0], model, ones)
    assert "differ" in message(check.equal_outputs, lambda x: x > 1, lambda x: x > 0, ones)


def test_inputs_changed_in_place_deceive_nobody():
    """The learner's function gets a copy of the inputs."""
    ones = np.ones(3)
    assert "differ" in message(check.equal_outputs, lambda x: (x.fill(0.0), x)[1], lambda x: x * 1.0, ones)
    assert ones.all()


def test_an_attribute_is_not_on_the_way():
    """A layer that the model merely holds is tracked, and no way back from the outputs leads to it."""
    model = models.nobody_added_it()["model"]
    model.extra = layers.Dense(2, name="extra")
    model.extra.build((None, 2))
    check.excludes(model, model.extra)
    assert "'extra'" in message(check.contains, model, model.extra)


def test_a_layer_inside_a_model_called_twice_runs_twice():
    """Calls inside a nested model count at each of its calls."""
    zoo = models.siamese()
    check.calls(zoo["model"], zoo["tower"].layers[0], 2)


def test_a_call_written_by_the_learner_is_run():
    """Where a Functional model's `call` is overridden, training runs that one, and so does the check."""

    class Own(Model):
        def call(self, x, training=None):
            raise RuntimeError("not yet written")

    x = Input((3,))
    assert "RuntimeError" in message(check.trains, Own(x, layers.Dense(1)(x)))


def test_a_letter_may_be_a_capital():
    """B is b."""
    check.prediction("B", "b", "the letter")
    assert "both count" in message(
        check.prediction, "a", "B", "the letter", implies={"A": "Then both count."}
    )
