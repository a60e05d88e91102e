"""The normal form: one way of writing for all the ways of building the same computation."""

from __future__ import annotations

import models
import pytest
import tensorflow as tf
from tensorflow.keras import Input, Model, Sequential, layers

from autograder import trace
from autograder.graph.normal import Source, normal_form, settings_of


def form_of(model):
    return normal_form(trace(model))


def types(model):
    return [step.type for step in form_of(model).steps]


def test_an_activation_is_a_step_of_its_own():
    """`activation=` becomes a step behind the layer that it was given to, and has the same place."""
    x = Input((3,))
    form = form_of(Model(x, layers.Dense(2, activation="softmax")(x)))
    assert [step.type for step in form.steps] == ["Input", "Dense", "softmax"]
    assert [step.part for step in form.steps] == [False, False, True]
    assert form.steps[1].calls == form.steps[2].calls == ((-1, 1),)
    assert form.outputs == (Source(2, 0),)


def test_an_activation_inside_a_layer_stays_there():
    """What an LSTM applies within, or a layer before its penalty, is no step behind it."""
    x = Input((5, 3))
    assert types(Model(x, layers.LSTM(2, activation="relu")(x))) == ["Input", "LSTM"]
    penalized = layers.Dense(2, activation="relu", activity_regularizer="l2")
    assert types(Model(x, penalized(x))) == ["Input", "Dense"]


def test_nested_models_are_laid_out_in_line():
    """Each call of a nested model gives steps of its own, whose places lead through all models around them."""
    model = models.nested_twice()["model"]
    graph = trace(model)
    form = normal_form(graph)
    assert [step.type for step in form.steps] == ["Input", "Dense", "Dense", "Dense", "Dense"]
    middle, core = (
        next(layer.index for layer in graph.layers if layer.name == n) for n in ("middle", "core")
    )
    assert form.steps[1].calls == ((-1, 1), (middle, 1), (core, 1))
    assert form.steps[2].calls == ((-1, 1), (middle, 2), (core, 1))
    assert form.steps[1].variables == form.steps[2].variables == form.steps[4].variables


def test_a_model_with_code_of_its_own_stays_one_step():
    """A class that writes its own `call` may do anything with the graph that it holds."""

    class Twice(Model):
        def call(self, inputs, training=None, mask=None):
            return 2 * super().call(inputs, training, mask)

    inner = Input((3,))
    twice = Twice(inner, layers.Dense(3)(inner))
    x = Input((3,))
    assert types(Model(x, twice(x))) == ["Input", "Twice"]


def test_what_a_nested_model_is_called_with_reaches_its_steps():
    """`training=True` given to a nested model is a setting of all that it does."""
    tower = Sequential([Input((3,)), layers.Dropout(0.5)])
    x = Input((3,))
    assert [step.settings for step in form_of(Model(x, tower(x, training=True))).steps] == ["", "True"]


def test_what_does_nothing_is_left_out():
    """An Activation of `linear` is no step."""
    x = Input((3,))
    assert types(Model(x, layers.Activation("linear")(layers.Dense(2)(x)))) == ["Input", "Dense"]


def test_settings_leave_out_names_and_seeds():
    """Two layers that differ in name, seed and switch have the same settings."""
    x = Input((3,))
    one, other = layers.Dense(2, name="one"), layers.Dense(2, name="other")
    other.kernel_initializer.seed, other.trainable = 3, False
    graph = trace(Model(x, [one(x), other(x)]))
    first, second = (layer for layer in graph.layers if layer.type == "Dense")
    assert settings_of(first) == settings_of(second)
    assert settings_of(first)["units"] == 2


def test_slices_keep_their_places():
    """`x[:, 1]` and `x[:, 1:]` are different operations."""
    x = Input((4,))
    first, second = (step for step in form_of(Model(x, [x[:, 1], x[:, 1:]])).steps if step.kind != "input")
    assert first.does != second.does


def test_layers_that_no_step_uses_are_spare():
    """Layers with variables that are held and not called are listed apart."""
    x = Input((3,))
    model = Model(x, layers.Dense(2)(x))
    model.extra = layers.Dense(2, name="extra")
    model.extra.build((None, 3))
    graph = trace(model)
    assert [graph.layers[index].name for index in normal_form(graph).spare] == ["extra"]


def test_a_model_without_a_flow_has_no_normal_form():
    """The error names the model."""
    with pytest.raises(ValueError, match="'net' has no graph of calls"):
        form_of(models.subclassed()["model"])


def test_loose_variables_are_among_what_a_step_uses():
    """A variable that an operation takes is used by that step."""
    form = form_of(models.loose_variable()["model"])
    (loose,) = [v.index for v in form.graph.variables if not v.tracked]
    ((step, place),) = form.uses[loose]
    assert (form.steps[step].type, place) == ("Multiply", 0)


def test_ragged_inputs_are_told():
    """An input that takes ragged tensors is another one."""
    x, y = Input((None,), dtype=tf.int32), Input((None,), dtype=tf.int32, ragged=True)
    assert form_of(Model(x, x + 1)).steps[0].does != form_of(Model(y, y + 1)).steps[0].does


def test_a_model_that_a_wrapper_holds_is_told_by_what_it_does():
    """Two wrapped models are alike where their graphs are, and not where one has another layer in it."""

    def held(*parts):
        inner = Sequential([Input((3,)), *parts])
        x = Input((5, 3))
        return form_of(Model(x, layers.TimeDistributed(inner)(x))).steps[1].does

    assert held(layers.Dense(2, "relu")) == held(layers.Dense(2, "relu", name="named"))
    assert held(layers.Dense(2, "relu")) == held(layers.Dense(2), layers.ReLU())
    assert held(layers.Dense(2, "relu")) != held(layers.Dense(2, "tanh"))
