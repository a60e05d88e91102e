"""Reading a model: calls, tensors, layers and variables by identity."""

from __future__ import annotations

import random

import models
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.keras import Input, Model, Sequential, layers

from autograder import trace
from autograder.graph.trace import read


def names(graph):
    return [graph.layer_of(call).name for call in graph.calls]


@pytest.mark.parametrize("build", models.RIGHT, ids=lambda build: build.__name__)
def test_counts_are_keras_own(build):
    """Total and trainable parameters of every right model are what Keras counts."""
    model = build()["model"]
    counts = trace(model).parameters
    assert counts.total == model.count_params()
    assert counts.trainable == sum(int(np.prod(v.shape)) for v in model.trainable_variables)
    assert counts.total == counts.trainable + counts.frozen + counts.state


@pytest.mark.parametrize("build", models.RIGHT, ids=lambda build: build.__name__)
def test_tracing_twice_gives_equal_graphs(build):
    """A graph holds no address and no other thing that differs from one reading to the next."""
    model = build()["model"]
    assert trace(model) == trace(model)


@pytest.mark.parametrize(
    ("build", "total", "trainable"),
    [
        (models.untracked_subgraph, 0, 0),
        (models.zero_trick, 22, 22),
        (models.owned_constant, 23, 23),
        (models.embedded_constant, 23, 23),
        (models.autoencoder, 28_241, 28_241),
        (models.dense_on_variable, 10, 10),
        (models.loose_variable, 19, 19),
        (models.lambda_closure, 5, 5),
        (models.list_grown_later, 25, 25),
        (models.stopped_gradients, 49, 49),
        (models.plain_object_hides_layer, 16, 16),
        (models.batch_normalization, 28, 22),
        (models.sliced_sequential, 19, 19),
        (models.list_of_one_layer_twice, 20, 20),
        (models.basic_decoder, 3700, 3700),
        (models.rebound_name, 80, 80),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_known_counts(build, total, trainable):
    """The counts that people measured on these models."""
    counts = trace(build()["model"]).parameters
    assert (counts.total, counts.trainable) == (total, trainable)


def test_encoder_and_decoder_of_one_graph():
    """The encoder has 18,672 parameters, so the decoder's part of the autoencoder has 9,569."""
    zoo = models.autoencoder()
    encoder, whole = trace(zoo["encoder"]).parameters.total, trace(zoo["model"]).parameters.total
    assert (encoder, whole, whole - encoder) == (18_672, 28_241, 9_569)


def test_seq2seq_has_nine_variables_in_seven_layers():
    """With V=100, E=10, U=512: 2,194,508 parameters; cell and output layer are held, not in model.layers."""
    zoo = models.basic_decoder(100, 10, 512)
    graph = trace(zoo["model"])
    assert graph.parameters.total == 2_194_508
    assert len([v for v in graph.variables if v.tracked]) == 9
    assert len(graph.held) == len(zoo["model"].layers) == 7
    held = {graph.layers[i].name for i in graph.held}
    assert {"cell", "projection"}.isdisjoint(held)
    assert {"cell", "projection"} <= {layer.name for layer in graph.layers}


def test_frozen_and_state_are_told_apart():
    """Moving statistics are never trained by design; scale and shift are frozen when their layer is."""
    counts = trace(models.batch_normalization(frozen=True)["model"]).parameters
    assert (counts.trainable, counts.frozen, counts.state) == (16, 6, 6)


def test_calls_come_after_what_they_need():
    """Calls are in forward order, and a layer called twice has calls 0 and 1."""
    graph = trace(models.list_of_one_layer_twice()["model"])
    assert [(graph.layer_of(call).name, call.number) for call in graph.calls[1:]] == [
        ("twin", 0),
        ("twin", 1),
    ]
    for call in graph.calls:
        assert all(tensor.call < call.index for tensor in call.inputs)


def test_what_is_not_behind_the_outputs_is_not_in_the_graph():
    """A branch appended to a list after the list was used is no part of the model."""
    assert names(trace(models.list_grown_later()["model"]))[1:] == ["a", "b", "joined", "out"]


def test_a_loose_variable_is_read_and_not_tracked():
    """A variable that is an argument of a raw operation is in the graph, and belongs to no layer."""
    graph = trace(models.loose_variable()["model"])
    loose = [variable for variable in graph.variables if not variable.tracked]
    assert [(v.name, v.parameters) for v in loose] == [("scale:0", 3)]
    assert graph.owners(loose[0]) == ()


def test_a_baked_value_is_a_constant():
    """What a layer gave for a variable stands in the graph as a number, without a variable."""
    graph = trace(models.dense_on_variable()["model"])
    (constant,) = [c for call in graph.calls for c in call.constants]
    assert constant.shape == (1, 2)
    assert constant.variable is None
    assert constant.digest


def test_nested_models_have_a_flow_of_their_own():
    """A submodel called twice is two calls of one layer, whose own calls stand inside it once."""
    graph = trace(models.siamese()["model"])
    (tower,) = [layer for layer in graph.layers if layer.name == "tower"]
    assert [call.number for call in graph.calls if call.layer == tower.index] == [0, 1]
    assert tower.flow is not None
    assert [graph.layer_of(call).type for call in tower.flow.calls] == ["InputLayer", "Dense", "Dense"]
    assert graph.parameters_of(tower) == 38


def test_a_cut_out_model_tells_where_it_was_cut():
    """Model(code, out) starts at the result of e2, and holds the same d1 and d2."""
    zoo = models.rebound_name()
    graph = trace(zoo["decoder"])
    assert graph.cut_from == ("e2",)
    assert trace(zoo["model"]).cut == ()
    whole, part = read(zoo["model"]), read(zoo["decoder"])
    assert {id(v) for v in part.variables} < {id(v) for v in whole.variables}


def test_tied_weights_count_once_and_have_one_owner_by_identity():
    """A layer that uses another's matrix holds that layer; the matrix is one variable."""
    zoo = models.tied_weights()
    graph = trace(zoo["model"])
    assert sum(variable.shape == (9, 4) for variable in graph.variables) == 1
    (unembed,) = [layer for layer in graph.layers if layer.name == "unembed"]
    assert graph.parameters_of(unembed) == 36


def test_a_subclassed_model_has_variables_and_no_flow():
    """Keras records no calls of a subclassed model, and the graph says so."""
    graph = trace(models.subclassed()["model"])
    assert graph.kind == "subclassed"
    assert graph.flow is None
    assert graph.parameters.total == 19


def test_unbuilt_is_not_zero():
    """A model whose variables do not exist yet says that its counts are not known."""
    graph = trace(models.never_built()["model"])
    assert not graph.known
    assert graph.variables == ()


def test_names_may_repeat_at_different_depths():
    """Identity decides: two layers of one name in two nested models stay two."""

    def part():
        return Sequential([Input((2,)), layers.Dense(2, name="same")])

    x = Input((2,))
    model = Model(x, part()(part()(x)))
    same = [layer for layer in trace(model).layers if layer.name == "same"]
    assert len(same) == 2
    assert same[0].variables != same[1].variables


def test_variables_in_a_plain_module_belong_to_the_layer_that_holds_it():
    """Keras tracks a tf.Module held by a layer, though it is no layer."""

    class Holder(layers.Layer):
        def __init__(self):
            super().__init__()
            self.module = tf.Module()
            self.module.weight = tf.Variable(tf.ones([3]))

        def call(self, x):
            return x * self.module.weight

    x = Input((3,))
    model = Model(x, Holder()(x))
    graph = trace(model)
    assert graph.parameters.trainable == model.count_params() == 3


def test_a_saved_model_has_an_equal_structure(tmp_path):
    """What comes back from a .keras file has the same layers, calls and counts."""
    model = models.siamese()["model"]
    path = tmp_path / "model.keras"
    model.save(path)
    again = trace(tf.keras.models.load_model(path))
    first = trace(model)
    assert [again.layer_of(call).type for call in again.calls] == [
        first.layer_of(call).type for call in first.calls
    ]
    assert again.parameters == first.parameters


@pytest.mark.parametrize("value", [None, ..., 3, "model", [1]], ids=str)
def test_what_is_no_model_is_named(value):
    """The error says what came in the place of a model."""
    with pytest.raises(TypeError, match="Expected a Keras model"):
        trace(value)


def test_a_tensor_in_the_place_of_a_model_is_named():
    """Handing in the tensor is the most common slip."""
    y = layers.Dense(2, name="mine")(Input((2,)))
    with pytest.raises(TypeError, match="a Keras tensor, made by layer 'mine'"):
        trace(y)


def random_model(seed: int) -> Model:
    """A random Functional model: shared layers, nesting, merges, dead branches, frozen parts, raw operations."""
    choose = random.Random(seed)
    width = choose.choice([2, 3])
    inputs = [Input((width,)) for _ in range(choose.randint(1, 3))]
    pool = list(inputs)
    made: list[layers.Layer] = []
    for _ in range(choose.randint(2, 9)):
        x, y = choose.choice(pool), choose.choice(pool)
        kind = choose.randrange(9)
        if kind == 0 and made:
            pool.append(choose.choice(made)(x))
        elif kind == 1:
            pool.append(layers.Add()([x, y]))
        elif kind == 2:
            pool.append(x * y + 1.0)
        elif kind == 3:
            part = Sequential([Input((width,)), layers.Dense(width), *choose.sample(made, min(1, len(made)))])
            made.append(part)
            pool.append(part(x))
        elif kind == 4:
            pool.append(tf.nn.relu(x - tf.constant([0.5] * width)))
        elif kind == 5:
            pool.append(layers.BatchNormalization(trainable=choose.random() < 0.5)(x))
        elif kind == 6:
            pool.append(layers.Dropout(0.5)(x))
        else:
            layer = layers.Dense(width, activation=choose.choice([None, "relu", "tanh"]))
            layer.trainable = choose.random() < 0.8
            made.append(layer)
            pool.append(layer(x))
    outputs = choose.sample(pool, min(len(pool), choose.randint(1, 2)))
    return Model(inputs, outputs)


@pytest.mark.parametrize("batch", range(10))
def test_random_models_count_as_keras_counts(batch):
    """Over 300 random models: counts equal Keras' own, and the layers on the way are model.layers."""
    for seed in range(batch * 30, batch * 30 + 30):
        model = random_model(seed)
        read_ = read(model)
        counts = read_.graph.parameters
        assert counts.total == model.count_params(), seed
        assert counts.trainable == sum(int(np.prod(v.shape)) for v in model.trainable_variables), seed
        on_the_way = {id(read_.layers[call.layer]) for call in read_.graph.calls}
        assert on_the_way == {id(layer) for layer in model.layers}, seed
