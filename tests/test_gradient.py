"""One probe step: what it sees, and that it leaves no trace."""

from __future__ import annotations

import random

import models
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.keras import Input, Model, layers
from test_trace import random_model

from autograder.graph.gradient import ProbeError, probe
from autograder.graph.sample import STEPS, make_inputs
from autograder.graph.trace import read


def reach_of(zoo, **kwargs):
    trace = read(zoo["model"])
    probed = probe(trace, **kwargs)
    return {v.name.removesuffix(":0"): probed.reach[v.index] for v in trace.graph.variables}, probed, trace


def test_a_stop_on_one_of_two_ways_does_not_condemn_a_layer():
    """`b` is reached through `c`; `cut` is reached by nothing, and the operation that cuts is named."""
    reach, probed, trace = reach_of(models.stopped_gradients())
    assert reach["b/kernel"] == "nonzero"
    assert reach["cut/kernel"] == reach["cut/bias"] == "none"
    (kernel,) = [v.index for v in trace.graph.variables if v.name == "cut/kernel:0"]
    assert probed.cut_by[kernel] == "tf.stop_gradient"
    assert [trace.graph.layer_of(trace.graph.calls[i]).type for i in probed.cuts] == ["tf.stop_gradient"]


def test_a_hard_choice_cuts():
    """No gradient passes argmax."""
    reach, probed, _ = reach_of(models.hard_choice())
    assert reach["scores/kernel"] == "none"
    assert probed.cut_by[0] == "tf.math.argmax"


def test_zero_is_not_none():
    """A gradient that is all zeros (a dead relu) is told apart from one that does not exist."""
    x = Input((3,))
    dead = layers.Dense(
        2, activation="relu", name="dead", bias_initializer=tf.keras.initializers.Constant(-99)
    )
    reach, probed, _ = reach_of({"model": Model(x, dead(x))})
    assert reach == {"dead/kernel": "zero", "dead/bias": "zero"}
    assert probed.moved == ()


def test_a_loose_variable_has_a_gradient_and_is_not_moved():
    """A gradient is not training: no step of the model's moves a variable that no layer owns."""
    reach, probed, trace = reach_of(models.loose_variable())
    (scale,) = [v.index for v in trace.graph.variables if v.name == "scale:0"]
    assert reach["scale"] == "nonzero"
    assert scale not in probed.moved
    assert [(use.variable.name, use.where) for use in probed.untracked] == [("scale:0", "tf.math.multiply")]


@pytest.mark.parametrize(
    ("build", "place", "parameters"),
    [(models.lambda_closure, "via_lambda", 20), (models.plain_object_hides_layer, "block", 15)],
)
def test_hidden_layers_show_themselves_when_the_model_runs(build, place, parameters):
    """Variables of a layer that a closure or a plain object hides are named with the place that reads them."""
    _, probed, _ = reach_of(build())
    assert {use.where for use in probed.untracked} == {place}
    assert sum(int(np.prod(use.variable.shape)) for use in probed.untracked) == parameters


def test_frozen_layers_let_gradients_through():
    """Switched off is not cut off: what lies before a frozen layer still learns."""
    x = Input((3,))
    first, last = layers.Dense(3, name="first"), layers.Dense(1, name="last")
    last.trainable = False
    reach, probed, trace = reach_of({"model": Model(x, last(first(x)))})
    assert reach["first/kernel"] == reach["last/kernel"] == "nonzero"
    assert {trace.graph.variables[i].name for i in probed.moved} == {"first/kernel:0", "first/bias:0"}


@pytest.mark.parametrize(
    "build", [models.basic_decoder, models.embedded_constant, models.tied_weights, models.nested_twice]
)
def test_every_variable_of_a_right_model_moves(build):
    """Shared, tied, nested and looked-up variables are all moved by one step on made data."""
    _, probed, trace = reach_of(build())
    trainable = [v.index for v in trace.graph.variables if v.role == "trainable"]
    assert list(probed.moved) == trainable


def test_made_data_fit_the_inputs():
    """Integers lie in the Embedding's range, without the masked 0, and sequence lengths are not 0."""
    tokens, targets, lengths = make_inputs(read(models.basic_decoder(7)["model"]))
    assert tokens.shape == targets.shape == (8, STEPS[0])
    assert tokens.max() < 7
    assert set(lengths) == {STEPS[0]}
    (masked,) = make_inputs(read(models.tied_weights()["model"]))
    assert masked.min() >= 1


def test_the_compiled_loss_is_used():
    """The probe differentiates what `fit` would, sparse targets included."""
    x = Input((4,))
    model = Model(x, layers.Dense(3, activation="softmax")(x))
    assert probe(read(model)).loss.startswith("the mean")
    model.compile("adam", "sparse_categorical_crossentropy")
    assert probe(read(model)).loss == "sparse_categorical_crossentropy"


def test_data_and_loss_can_be_handed_in():
    """(inputs, targets) as for `fit`, and any Keras loss."""
    model = models.nobody_added_it()["model"]
    data = np.ones((2, 5)), np.zeros((2, 10))
    assert probe(read(model), data=data, loss="mse").loss == "mean_squared_error"


def test_what_does_not_run_says_what_to_hand_in():
    """Data of the wrong shape, or none for a subclassed model, end in one clear error."""
    with pytest.raises(ProbeError, match="does not run: ValueError"):
        probe(read(models.nobody_added_it()["model"]), data=np.ones((2, 99)))
    with pytest.raises(ProbeError, match="never been called"):
        probe(read(tf.keras.Sequential([layers.Dense(2)])))


@pytest.mark.parametrize(
    "build", [models.noisy, models.basic_decoder, models.batch_normalization, models.added_losses]
)
def test_the_probe_leaves_the_model_as_it_was(build):
    """Weights are bit-equal, the optimizer has taken no step, metrics and loss stay as compiled."""
    model = build()["model"]
    model.compile("adam", "mse", metrics=["mae"])
    weights = [w.tobytes() for w in model.get_weights()]
    losses = len(model.losses)
    metrics = [float(metric.result()) for metric in model.metrics]
    probe(read(model))
    assert len(model.losses) == losses
    assert [float(metric.result()) for metric in model.metrics] == metrics
    assert [w.tobytes() for w in model.get_weights()] == weights
    assert int(model.optimizer.iterations) == 0
    assert model.loss == "mse"


def draws(model):
    """What every source of random numbers gives next."""
    return [
        tf.random.uniform((2,)).numpy().tolist(),
        model(tf.ones((3, 4)), training=True).numpy().tolist(),
        np.random.rand(2).tolist(),  # noqa: NPY002
        random.random(),
        tf.random.get_global_generator().normal((2,)).numpy().tolist(),
        layers.Dense(2)(tf.ones((1, 2))).numpy().tolist(),
    ]


def test_the_probe_leaves_random_states_as_they_were():
    """After a probe, TensorFlow, Keras, NumPy, Python and a Dropout of its own seed draw what they would have."""

    def run(with_probe):
        tf.keras.utils.set_random_seed(7)
        tf.random.set_global_generator(tf.random.Generator.from_seed(7))
        model = models.noisy()["model"]
        model(tf.ones((3, 4)), training=True)
        if with_probe:
            probe(read(model))
        return draws(model)

    assert run(True) == run(False)


@pytest.mark.parametrize("batch", range(5))
def test_random_models_are_left_as_they_were(batch):
    """Over 100 random models: bit-equal weights, and what moves is trainable and has a gradient."""
    for seed in range(1000 + batch * 20, 1020 + batch * 20):
        model = random_model(seed)
        before = [w.tobytes() for w in model.get_weights()]
        trace = read(model)
        probed = probe(trace)
        assert [w.tobytes() for w in model.get_weights()] == before, seed
        for index in probed.moved:
            assert trace.graph.variables[index].role == "trainable", seed
            assert probed.reach[index] == "nonzero", seed


def test_floats_given_to_a_layer_that_holds_an_embedding_stay_floats():
    """An Embedding inside a layer of one's own need not look up that layer's input."""

    class Owner(layers.Layer):
        def __init__(self):
            super().__init__()
            self.table = layers.Embedding(1, 1)

        def call(self, x):
            return self.table(tf.zeros_like(x[:, 0], tf.int32))

    x = Input((3,))
    (made,) = make_inputs(read(Model(x, x * layers.Dense(3)(Owner()(x)))))
    assert np.any(made < 0)


def test_a_model_for_use_is_not_trained():
    """Where the outputs are integers there is no loss to differentiate, and the error says so."""
    x = Input((3,))
    with pytest.raises(ProbeError, match="to be used, not trained"):
        probe(read(Model(x, tf.argmax(layers.Dense(3)(x), axis=-1))))


def test_variables_made_in_call_are_named_and_dropped():
    """A layer that makes a weight in its call is named, and has afterwards no more weights than before."""

    class Careless(layers.Layer):
        def call(self, x):
            return x * self.add_weight("careless", (1,), initializer="ones")

    x = Input((3,))
    careless = Careless(name="careless")
    model = Model(x, careless(x))
    before = len(model.weights)
    with pytest.raises(ProbeError, match="layer 'careless' makes new variables each time"):
        probe(read(model))
    assert len(model.weights) == before
