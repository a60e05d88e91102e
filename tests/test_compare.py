"""Comparing models: what is equal stays equal however it is written, and what differs is told in words."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import dataclass, field, replace
from typing import Any

import models
import pytest
import tensorflow as tf
from tensorflow.keras import Input, Model, Sequential, layers

from autograder import check, trace
from autograder.check import judge, measure
from autograder.graph.compare import compare
from autograder.graph.trace import read


def told(found: Any, target: Any) -> str:
    """The only difference, in words."""
    (difference,) = compare(found, target).differences
    return difference.sentence


def on_input(size: int, build: Any, name: str = "x") -> Any:
    x = Input((size,), name=name)
    return Model(x, build(x))


# Pairs that are equal ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("build", [b for b in models.RIGHT if b is not models.subclassed])
def test_a_model_equals_itself_built_anew(build):
    """Building a model a second time gives other names and other variables, and an equal model."""
    comparison = compare(build()["model"], build()["model"])
    assert comparison
    assert comparison.differences == ()
    assert str(comparison) == "Equal up to names and order of creation."


def test_no_two_models_of_the_zoo_are_equal():
    """Models that do different things are told apart."""
    graphs = {build: trace(build()["model"]) for build in models.RIGHT if build is not models.subclassed}
    for one, found in graphs.items():
        for other, target in graphs.items():
            assert compare(found, target).equal == (one is other), (one, other)


def dense_relu_dense() -> Any:
    return on_input(4, lambda x: layers.Dense(2)(layers.Dense(3, activation="relu")(x)))


@pytest.mark.parametrize(
    "build",
    [
        lambda: Sequential([Input((4,)), layers.Dense(3, activation="relu"), layers.Dense(2)]),
        lambda: Sequential([layers.Dense(3, "relu", input_shape=(4,), name="a"), layers.Dense(2, name="b")]),
        lambda: on_input(4, lambda x: layers.Dense(2)(layers.Activation("relu")(layers.Dense(3)(x)))),
        lambda: on_input(4, lambda x: layers.Dense(2)(layers.ReLU()(layers.Dense(3)(x)))),
        lambda: on_input(4, lambda x: layers.Dense(2)(tf.nn.relu(layers.Dense(3)(x), name="r"))),
        lambda: on_input(4, lambda x: layers.Dense(2)(layers.Dense(3, activation=layers.ReLU())(x))),
        lambda: on_input(
            4, lambda x: Sequential([layers.Dense(2, activation="linear")])(layers.Dense(3, "relu")(x))
        ),
        lambda: on_input(
            4, lambda x: on_input(4, lambda y: Sequential([layers.Dense(3, "relu"), layers.Dense(2)])(y))(x)
        ),
    ],
)
def test_the_way_of_writing_makes_no_difference(build):
    """Sequential, nested, `activation=`, an Activation, a ReLU and TensorFlow's relu all say the same."""
    assert compare(build(), dense_relu_dense()).equal


def two_branches(merge: Any) -> Any:
    x, y = Input((3,)), Input((3,))
    return Model([x, y], layers.Dense(1)(merge(layers.Dense(4)(x), layers.Dense(4)(y))))


@pytest.mark.parametrize(
    ("layer", "others"),
    [
        (layers.Add, [lambda a, b: a + b, lambda a, b: tf.add(b, a), lambda a, b: tf.add_n([a, b])]),
        (layers.Multiply, [lambda a, b: b * a, lambda a, b: tf.multiply(a, b, name="product")]),
        (layers.Maximum, [lambda a, b: tf.maximum(b, a), lambda a, b: layers.maximum([b, a])]),
        (layers.Minimum, [lambda a, b: tf.minimum(a, b)]),
        (layers.Average, [lambda a, b: layers.average([b, a])]),
        (layers.Subtract, [lambda a, b: a - b, lambda a, b: tf.subtract(a, b)]),
        (layers.Concatenate, [lambda a, b: tf.concat([a, b], 1), lambda a, b: tf.concat([a, b], axis=-1)]),
    ],
)
def test_an_operation_equals_the_merge_layer_that_means_the_same(layer, others):
    """Raw operations and merge layers are the same, and what commutes may be turned round."""
    target = two_branches(lambda a, b: layer()([a, b]))
    for merge in others:
        assert compare(two_branches(merge), target).equal


def test_the_order_of_operands_counts_where_it_matters():
    """Subtraction and concatenation are told when they are the other way round."""
    for layer in (layers.Subtract, layers.Concatenate):
        found = two_branches(lambda a, b, layer=layer: layer(name="merge")([b, a]))
        target = two_branches(lambda a, b, layer=layer: layer()([a, b]))
        assert told(found, target) == "`merge` takes its inputs the other way round in the target"


def test_a_sum_of_sums_is_one_sum():
    """`a + b + c` is an Add of three, unless the inner sum is used elsewhere too."""

    def build(how: int) -> Any:
        x = Input((3,))
        a, b, c = (layers.Dense(3)(x) for _ in range(3))
        inner = b + c
        total = [lambda: layers.Add()([c, a, b]), lambda: a + inner, lambda: (b + a) + c][how % 3]()
        return Model(x, [total, inner] if how > 2 else total)

    assert compare(build(0), build(1))
    assert compare(build(1), build(2))
    assert not compare(build(3), build(4))


def test_sums_of_unequal_ranks_are_not_written_as_layers():
    """Keras lines up a vector and a matrix from the left, TensorFlow from the right."""

    def build(merge: Any) -> Any:
        x, y = Input((3,)), Input((3, 3))
        return Model([x, y], merge(x, y))

    assert not compare(build(lambda x, y: layers.Add()([x, y])), build(lambda x, y: x + y))


def test_numbers_are_the_same_on_both_sides():
    """`2 * x` is `x * 2`, and not `x * 3`."""
    double = on_input(3, lambda x: 2.0 * x)
    assert compare(on_input(3, lambda x: x * 2.0), double)
    assert "the number that" in told(on_input(3, lambda x: x * 3.0), double)
    assert not compare(on_input(3, lambda x: 2.0 - x), on_input(3, lambda x: x - 2.0))


def test_lambda_expressions_are_compared_by_what_they_compute():
    """Two lambdas on two lines with other argument names are the same where they compute the same."""

    def build(function: Any) -> Any:
        return on_input(3, lambda x: layers.Lambda(function, name="fn")(x))

    target = build(lambda t: t * 2)
    assert compare(build(lambda other: other * 2), target)
    assert told(build(lambda t: t * 3), target) == "`fn` has another function than the target"


def test_seeds_and_first_batches_make_no_difference():
    """A seed is no part of a graph, nor is the number of rows that a model saw first."""
    late = Sequential([layers.Dropout(0.5, seed=1), layers.Dense(2)])
    late(tf.ones((7, 3)))
    assert compare(late, Sequential([Input((3,)), layers.Dropout(0.5), layers.Dense(2)]))


# Pairs that differ ---------------------------------------------------------------------------------------------


def chain(*parts: Any) -> Any:
    def build(x: Any) -> Any:
        for part in parts:
            x = part(x)
        return x

    return on_input(4, build)


def dense(units: int, name: str, activation: Any = None, **settings: Any) -> Any:
    return layers.Dense(units, activation, name=name, **settings)


def test_units():
    """Another number of units is told, and not the shapes that follow from it."""
    found = chain(dense(5, "h"), dense(3, "g"), dense(1, "out"))
    target = chain(dense(4, "h1"), dense(3, "g1"), dense(1, "out1"))
    assert told(found, target) == "`h` has 5 units, the target 4"


@pytest.mark.parametrize(
    ("part", "twin", "sentence"),
    [
        (dense(3, "h", use_bias=False), dense(3, "t"), "`h` has no bias, the target one"),
        (dense(3, "h", "relu"), dense(3, "t", "tanh"), "`h` has the activation relu, the target tanh"),
        (
            dense(3, "h", kernel_initializer="ones"),
            dense(3, "t"),
            "`h` has kernel_initializer Ones, the target GlorotUniform",
        ),
        (
            dense(3, "h"),
            dense(3, "t", kernel_regularizer=tf.keras.regularizers.L2(0.5)),
            "`h` has kernel_regularizer none, the target L2(l2=0.5)",
        ),
        (layers.Dropout(0.5, name="d"), layers.Dropout(0.25), "`d` has rate 0.5, the target 0.25"),
        (layers.Dropout(0.5, name="d"), layers.ELU(0.5), "`d` is a Dropout; the target has an ELU there"),
        (dense(3, "h"), dense(3, "t", "relu"), "relu is missing between `h` and `out`"),
        (dense(3, "h", "relu"), dense(3, "t"), "relu behind `h` is not in the target"),
        (tf.nn.relu, tf.nn.elu, "the activation behind `x` is relu, in the target elu"),
        (
            lambda x: tf.reshape(x, (-1, 4)),
            lambda x: tf.reshape(x, (-1, 2)),
            "is called with -1, 4, in the target with -1, 2",
        ),
        (
            lambda x: tf.reduce_sum(x, -1, True),
            lambda x: tf.reduce_mean(x, -1, True),
            "stands, the target has tf.math.reduce_mean",
        ),
    ],
)  # fmt: skip
def test_settings(part, twin, sentence):
    """A setting, an activation or a layer that is another one is named, with both values."""
    found, target = chain(part, dense(1, "out")), chain(twin, dense(1, "last"))
    assert sentence in told(found, target)


def test_settings_of_what_a_layer_holds():
    """A difference inside a wrapper, an RNN or a decoder is told of the layer that is set otherwise."""

    def steps(layer: Any) -> Any:
        x = Input((5, 4))
        return Model(x, layer(x))

    def bidirectional(units: int) -> Any:
        return steps(layers.Bidirectional(layers.LSTM(units, name="l")))

    def cells(units: int) -> Any:
        return steps(layers.RNN([layers.LSTMCell(2), layers.GRUCell(units, name="high")]))

    assert "`forward_l` has 4 units, the target 3" in told(bidirectional(4), bidirectional(3))
    assert told(cells(4), cells(3)) == "`high` has 4 units, the target 3"
    sentences = [
        difference.sentence
        for difference in compare(
            models.basic_decoder(units=17)["model"], models.basic_decoder(units=16)["model"]
        ).differences
    ]
    assert sentences == ["`encoder` has 17 units, the target 16", "`cell` has 17 units, the target 16"]


def test_a_missing_layer():
    """A missing layer is named by its type, its parameters and its place among the learner's layers."""
    target = chain(dense(4, "a"), dense(4, "b"), layers.Dropout(0.5), dense(2, "c"))
    found = chain(dense(4, "a"), dense(4, "b"), dense(2, "c"))
    assert told(found, target) == "the Dropout is missing between `b` and `c`"
    target = chain(dense(4, "a"), dense(3, "b", "relu"), dense(2, "c"))
    found = chain(dense(4, "one"), dense(2, "two"))
    sentence = "the Dense of 15 parameters with relu is missing between `one` and `two`"
    assert told(found, target) == sentence


def test_a_layer_too_many():
    """A layer that the target has not is named."""
    found = chain(dense(4, "a"), dense(6, "b"), dense(2, "c"))
    target = chain(dense(4, "a"), dense(2, "c"))
    assert told(found, target) == "`b` (Dense, 30 parameters) is not in the target"


def test_a_missing_half():
    """Many missing steps in a row are one difference."""
    zoo = models.autoencoder()
    sentence = told(zoo["encoder"], zoo["model"])
    assert sentence.startswith("6 steps are missing behind `global_max_pooling2d")
    assert "the Conv2DTranspose of 160 parameters with relu" in sentence


def test_layers_the_other_way_round():
    """Two layers that have changed places are one difference, whatever they are."""
    parts = [dense(4, "a"), dense(3, "b")]
    twins = [dense(3, "t"), dense(4, "u")]
    assert told(chain(*parts), chain(*twins)) == "`a` and `b` are the other way round in the target"
    norm = layers.BatchNormalization
    found = chain(dense(4, "a", "relu"), norm(name="norm"), dense(1, "out"))
    target = chain(norm(), dense(4, "b", "relu"), dense(1, "last"))
    assert told(found, target) == "`a` and `norm` are the other way round in the target"
    target = chain(dense(4, "b"), norm(), layers.Activation("relu"), dense(1, "last"))
    assert "the relu of `a` and `norm` are the other way round" in told(found, target)


def residual(how: str) -> Any:
    x = Input((4,), name="x")
    a = layers.Dense(4, name="a")(x)
    b = layers.Dense(4, name="b")(a)
    taken = {"right": [b, x], "other": [b, a], "more": [b, x, a]}
    merged = b if how == "none" else layers.Add(name="sum")(taken[how])
    return Model(x, layers.Dense(1, name="out")(merged))


@pytest.mark.parametrize(
    ("found", "target", "sentence"),
    [
        ("none", "right", "the Add of `b` and `x` is missing before `out`"),
        ("other", "right", "`sum` is called on `a`, in the target on `x`"),
        ("right", "more", "`sum` takes 2 inputs, the target 3: `a` is missing among them"),
        ("more", "right", "`sum` takes 3 inputs, the target 2: `a` should not be among them"),
    ],
)
def test_edges(found, target, sentence):
    """An edge that is missing, too much or elsewhere is told with both of its ends."""
    assert told(residual(found), residual(target)) == sentence


def sequence_model(*, shared: bool = True, swapped: bool = False) -> Any:
    source, target = (Input((None,), dtype="int32", name=name) for name in ("source", "target"))
    embedding = layers.Embedding(100, 10, name="embedding")
    other = embedding if shared else layers.Embedding(100, 10, name="embedding_again")
    _, h, c = layers.LSTM(12, return_state=True, name="encoder")(embedding(source))
    steps = layers.LSTM(12, return_sequences=True, name="decoder")(other(target), initial_state=[h, c])
    inputs = [target, source] if swapped else [source, target]
    return Model(inputs, layers.Dense(100, activation="softmax")(steps))


def test_a_second_embedding():
    """A layer of one's own where the target shares one is told with its parameters."""
    assert told(sequence_model(shared=False), sequence_model()) == (
        "the Embedding `embedding_again` behind `target` is a second one: 1,000 parameters of its own; "
        "the target shares those of `embedding`"
    )
    assert told(sequence_model(), sequence_model(shared=False)) == (
        "`embedding` is used with the same 1,000 parameters in 2 places; "
        "the target has 2 layers there, each with weights of its own"
    )


def test_one_layer_called_thrice():
    """A loop that calls one layer again and again is not a loop that makes layers."""
    same, other = dense(4, "same"), dense(4, "other")
    loop = chain(same, same, same)
    three = chain(dense(4, "a"), dense(4, "b"), dense(4, "c"))
    assert "`same` is used with the same 20 parameters in 3 places" in told(loop, three)
    assert len(compare(three, loop).differences) == 2
    sentence = told(chain(same, other, same), loop)
    assert sentence.startswith("the Dense `other` behind call 1 of `same` is a second one: 20 parameters")
    assert told(chain(other, other), loop) == (
        "a further call of `other` is missing behind call 2 of `other`"
    )


def test_a_call_of_the_wrong_layer():
    """Of two shared layers, one is called where the target calls the other."""

    def build(first: str) -> Any:
        parts = {name: layers.Dense(4, name=name) for name in ("g", "h")}
        x, y, z = Input((4,), name="x"), Input((4,), name="y"), Input((4,), name="z")
        return Model([x, y, z], [parts[first](x), parts["g"](y), parts["h"](z)])

    assert told(build("g"), build("h")) == "call 1 of `g` behind `x` is a call of `h` in the target"


def test_tied_weights():
    """An output layer with a matrix of its own is no output layer that uses the embedding's."""

    class Unembed(layers.Layer):
        def __init__(self, embedding: Any) -> None:
            super().__init__(name="unembed")
            self.embedding = embedding

        def call(self, x: Any) -> Any:
            return tf.matmul(x, self.embedding.embeddings, transpose_b=True)

    def build(tied: bool) -> Any:
        tokens = Input((None,), dtype="int32")
        embedding, other = layers.Embedding(9, 4, name="embedding"), layers.Embedding(9, 4)
        other.build(None)
        return Model(tokens, Unembed(embedding if tied else other)(embedding(tokens)))

    assert compare(build(True), build(True))
    assert told(build(False), build(True)) == (
        "`unembed` behind `embedding` has 36 parameters of its own; the target shares those of `embedding`"
    )
    assert not compare(build(True), build(False))


def test_frozen():
    """What trains here and not in the target is told once for all its layers."""

    def build(*frozen: str, name: str = "m") -> Any:
        model = chain(dense(4, "a"), dense(4, "b"), dense(1, "c"))
        for layer in frozen:
            model.get_layer(layer).trainable = False
        return model

    assert told(build("a"), build()) == "`a` is frozen (20 parameters); in the target it trains"
    assert told(build(), build("a", "b")) == (
        "`a` and `b` train (40 parameters); in the target they are frozen"
    )
    whole = build()
    whole.trainable = False
    assert compare(whole, build("a", "b", "c"))


def test_batch_normalization():
    """Frozen, it uses its moving statistics, also where it has nothing to train."""

    def build(frozen: bool, **settings: Any) -> Any:
        norm = layers.BatchNormalization(name="norm", **settings)
        norm.trainable = not frozen
        return chain(norm)

    assert told(build(True), build(False)) == "`norm` is frozen (8 parameters); in the target it trains"
    bare = {"center": False, "scale": False}
    assert told(build(True, **bare), build(False, **bare)) == (
        "`norm` is frozen, so it uses its moving statistics; in the target it is not frozen"
    )


def test_inputs():
    """The order, the shape, the type and the number of inputs count."""
    assert told(sequence_model(swapped=True), sequence_model()) == (
        "the inputs are in another order: `target`, `source`; in the target `source`, `target`"
    )
    found = on_input(5, dense(1, "out"))
    assert told(found, on_input(4, dense(1, "out"))) == (
        "the input `x` has the shape (None, 5), the target's (None, 4)"
    )

    def build(count: int) -> Any:
        x, y = Input((3,), name="x"), Input((4,), name="y")
        return Model([x, y][:count], layers.Dense(1, name="out")(x))

    assert told(build(1), build(2)) == "an input of shape (None, 4) and type float32 is missing"
    assert told(build(2), build(1)) == "`y` (an input) is not in the target"


def test_outputs():
    """The order and the number of outputs count, and which tensor they are."""

    def build(*names: str) -> Any:
        x = Input((4,), name="x")
        a = layers.Dense(3, name="a")(x)
        b = layers.Dense(2, name="b")(a)
        _, h, c = layers.LSTM(3, return_state=True, name="lstm")(x[:, None])
        made = {"a": a, "b": b, "h": h, "c": c}
        return Model(x, [made[name] for name in names])

    assert told(build("b", "a"), build("a", "b")) == (
        "the outputs are in another order: `b`, `a`; in the target `a`, `b`"
    )
    assert told(build("b"), build("b", "a")) == "the model has 1 output, the target 2"
    assert told(build("b", "b"), build("b", "a")) == (
        "output 2 is what `b` gives, in the target what `a` gives"
    )
    assert told(build("h"), build("c")) == "the output is output 2 of `lstm`, in the target output 3"


def test_what_is_baked_in_is_told_first():
    """A layer called on a variable leaves a fixed value where the target has a layer."""
    comparison = compare(models.untracked_subgraph()["model"], models.owned_constant()["model"])
    kinds = [difference.kind for difference in comparison.differences]
    assert kinds == ["constant", "missing"]
    assert "takes a fixed value of shape (1, 11), computed once while building" in str(comparison)
    assert "the Dense of 22 parameters" in str(comparison)


def test_a_loose_variable_is_told():
    """A variable that an operation takes, and that no layer owns, is named."""
    target = chain(dense(3, "h"), dense(1, "out"))
    assert "with the variable `scale` of 3 parameters, which belongs to no layer" in told(
        models.loose_variable()["model"], target
    )


def test_variables_of_layers_without_settings():
    """Where a layer does not tell its settings, the shapes of its variables are compared."""

    class Scale(layers.Layer):
        def __init__(self, shape: Any) -> None:
            super().__init__(name="scale")
            self.scale = self.add_weight("scale", shape)
            self.shape = shape

        def get_config(self) -> Any:
            raise NotImplementedError

        def call(self, x: Any) -> Any:
            return x * self.scale

    assert compare(chain(Scale((1, 4))), chain(Scale((1, 4))))
    assert told(chain(Scale((1, 1))), chain(Scale((1, 4)))) == (
        "the variable `scale` has shape (1, 1), in the target shape (1, 4)"
    )


def test_layers_that_are_held_and_never_called():
    """A layer that the model holds counts, also where no call leads to it."""
    found = chain(dense(1, "out"))
    found.extra = layers.Dense(3, name="extra")
    found.extra.build((None, 4))
    target = chain(dense(1, "out"))
    assert told(found, target) == "`extra` (Dense, 15 parameters) is held by the model and never called"
    assert told(target, found) == "the target also holds a Dense of 15 parameters that is never called"


# Where it is, and what can't be compared -----------------------------------------------------------------------


def test_places_for_a_picture():
    """A difference says which calls and layers it concerns in both graphs, at every depth."""
    found = on_input(4, lambda x: Sequential([layers.Dense(3, name="a"), dense(5, "b")], name="tower")(x))
    target = chain(dense(3, "a"), dense(2, "b"))
    graph = trace(found)
    (difference,) = compare(graph, trace(target)).differences
    tower = next(layer.index for layer in graph.layers if layer.name == "tower")
    outer, inner = difference.calls
    assert outer == (-1, 1)
    assert graph.layers[graph.calls[1].layer].name == "tower"
    assert inner[0] == tower
    assert graph.layers[graph.layers[tower].flow.calls[inner[1]].layer].name == "b"
    assert [graph.layers[index].name for index in difference.layers] == ["b"]
    assert difference.reference_calls == ((-1, 2),)


def test_models_without_a_graph():
    """Such a model is not equal to anything, and is no target."""
    target = chain(dense(1, "out"))
    assert "runs Python code of its own" in told(models.subclassed()["model"], target)
    assert "begin it with an Input" in told(models.never_built()["model"], target)
    with pytest.raises(ValueError, match="no graph of calls to compare with"):
        compare(target, models.subclassed()["model"])
    with pytest.raises(TypeError, match="Expected a Keras model"):
        compare(None, target)
    with pytest.raises(ValueError, match="without the layers' settings"):
        compare(read(target, configs=False).graph, target)


def test_graphs_are_compared_without_tensorflow():
    """Two graphs are data: comparing them loads no TensorFlow."""
    code = "import sys, autograder.graph.compare; print({'tensorflow', 'keras'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_symmetric_models_are_compared_at_once():
    """Layers that look alike from everywhere are matched, and one that does not is found."""

    def fan(width: int, odd: int = 3) -> Any:
        x = Input((3,))
        low = [layers.Dense(3)(x) for _ in range(width)]
        high = [layers.Dense(odd if not i else 3)(layers.Add()(low)) for i in range(width)]
        return trace(Model(x, layers.Concatenate()(high)))

    assert compare(fan(20), fan(20))
    assert "has 4 units, the target 3" in told(fan(20, odd=4), fan(20))


def long_chain(length: int, odd: int = 3) -> Any:
    """A row of Dense layers, the middle one with other settings: Keras itself could not build it as deep."""
    graph = trace(on_input(3, dense(3, "layer_0")))
    layer, call = graph.layers[1], graph.calls[1]
    odd_config = layer.config.replace('"units": 3', f'"units": {odd}')
    chained, calls, variables = [graph.layers[0]], [graph.calls[0]], []
    for place in range(1, length + 1):
        config = odd_config if place == length // 2 else layer.config
        owned = (2 * place - 2, 2 * place - 1)
        chained.append(replace(layer, index=place, name=f"layer_{place}", config=config, variables=owned))
        tensors = (replace(call.outputs[0], call=place - 1),), (replace(call.outputs[0], call=place),)
        calls.append(replace(call, index=place, layer=place, arguments=tensors[0], outputs=tensors[1]))
        pairs = zip(owned, graph.variables, strict=True)
        variables += [replace(variable, index=index) for index, variable in pairs]
    flow = replace(graph.flow, calls=tuple(calls), outputs=calls[-1].outputs)
    return replace(graph, layers=tuple(chained), variables=tuple(variables), flow=flow)


def test_long_chains_need_no_recursion():
    """Thousands of layers in a row are compared within the recursion limit."""
    assert compare(long_chain(3000), long_chain(3000))
    assert told(long_chain(3000, 4), long_chain(3000)) == "`layer_1500` has 4 units, the target 3"


# Random models -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Node:
    """One step of a random model: what it does, on which steps, and whose layer it is."""

    kind: str
    arguments: tuple[int, ...] = ()
    units: int = 0
    activation: str | None = None
    layer: int = -1
    rate: float = 0.0


@dataclass
class Recipe:
    """A random model, to be built in many ways."""

    nodes: list[Node]
    names: dict[int, str] = field(default_factory=dict)


def recipe(rng: random.Random) -> Recipe:
    """A random graph of inputs, shared and unshared Dense layers, merges and dropouts."""
    nodes = [Node("input", units=4) for _ in range(rng.randint(1, 3))]
    width = [4] * len(nodes)
    for _ in range(rng.randint(5, 14)):
        kind = rng.choice(["dense", "dense", "again", "merge", "concatenate", "dropout"])
        one = rng.randrange(len(nodes))
        alike = [i for i, size in enumerate(width) if size == width[one] and i != one]
        earlier = [n for n in nodes if n.kind == "dense" and width[n.arguments[0]] == width[one]]
        if kind == "again" and earlier:
            # A layer is called again.
            nodes.append(replace(rng.choice(earlier), arguments=(one,)))
        elif kind == "merge" and alike:
            nodes.append(Node(rng.choice(["add", "multiply", "maximum"]), (one, rng.choice(alike))))
        elif kind == "concatenate":
            nodes.append(Node("concatenate", tuple(rng.choices(range(len(nodes)), k=3))))
        elif kind == "dropout":
            nodes.append(Node("dropout", (one,), rate=rng.choice([0.1, 0.2])))
        else:
            activation = rng.choice([None, "relu", "tanh"])
            nodes.append(Node("dense", (one,), rng.choice([3, 4]), activation, layer=len(nodes)))
        last = nodes[-1]
        sizes = [width[i] for i in last.arguments]
        width.append(last.units or (sum(sizes) if last.kind == "concatenate" else sizes[0]))
    sinks = set(range(len(nodes))) - {i for node in nodes for i in node.arguments}
    nodes.append(Node("concatenate", (*sorted(sinks), 0)))
    nodes.append(Node("dense", (len(nodes) - 1,), 1, layer=len(nodes)))
    return Recipe(nodes)


def built(what: Recipe, rng: random.Random) -> Any:
    """Build a recipe: other names, another order of creation, another way of writing each time."""
    made: dict[int, Any] = {}
    shared: dict[int, Any] = {}
    waiting = [i for i, node in enumerate(what.nodes)]
    letters = rng.sample(range(1000, 10_000), len(waiting))
    what.names.clear()
    while waiting:
        ready = [i for i in waiting if all(a in made for a in what.nodes[i].arguments)]
        place = rng.choice(ready)
        waiting.remove(place)
        node, name = what.nodes[place], f"n{letters[place]}"
        values = [made[i] for i in node.arguments]
        if node.kind == "input":
            made[place] = Input((node.units,), name=name)
        elif node.kind == "dense":
            apart = rng.random() < 0.5
            # Two calls of a layer agree on whether it has its activation itself.
            layer = shared.setdefault(
                node.layer, (layers.Dense(node.units, None if apart else node.activation, name=name), apart)
            )
            what.names.setdefault(node.layer, layer[0].name)
            made[place] = layer[0](values[0])
            if layer[1] and node.activation:
                own = f"{layer[0].name}_{node.activation}_{place}"
                if rng.random() < 0.5:
                    made[place] = layers.Activation(node.activation, name=own)(made[place])
                else:
                    made[place] = getattr(tf.nn, node.activation)(made[place], name=own)
        elif node.kind == "dropout":
            made[place] = layers.Dropout(node.rate, name=name)(values[0])
        elif node.kind == "concatenate":
            made[place] = layers.Concatenate(name=name)(values)
        else:
            rng.shuffle(values)
            raw = getattr(tf, node.kind)
            made[place] = rng.choice([lambda v, f=raw: f(*v), getattr(layers, node.kind)])(values)
        what.names.setdefault(place, name)
    inputs = [made[i] for i, node in enumerate(what.nodes) if node.kind == "input"]
    model = Model(inputs, made[len(what.nodes) - 1])
    if rng.random() < 0.3:
        again = [Input(value.shape[1:]) for value in inputs]
        return Model(again, model(again))
    return model


@pytest.mark.parametrize("seed", range(25))
def test_random_models_equal_themselves_however_they_are_built(seed):
    """Renaming, another order of creation, turned operands, nesting and other ways of writing keep it equal."""
    rng = random.Random(seed)
    what = recipe(rng)
    comparison = compare(built(what, rng), built(what, rng))
    assert comparison, str(comparison)


def mutated(what: Recipe, kind: str, rng: random.Random) -> tuple[Recipe, int] | None:
    """A recipe with one change, and the step that was changed."""
    nodes = list(what.nodes)
    denses = [i for i, node in enumerate(nodes) if node.kind == "dense"]
    calls = [node.layer for node in nodes if node.kind == "dense"]
    if kind == "unshared":
        twice = [i for i in denses if nodes[i].layer not in (-1, i) and calls.count(nodes[i].layer) > 1]
        places, change = twice, lambda node, i: replace(node, layer=1000 + i)
    elif kind == "edge":
        places = [i for i, node in enumerate(nodes[:-2]) if node.kind == "concatenate"]
        change = lambda node, i: replace(node, arguments=node.arguments[1:])  # noqa: E731
    else:
        places = [i for i in denses[:-1] if calls.count(nodes[i].layer) == 1]
        if kind == "units":
            change = lambda node, i: replace(node, units=node.units + 3)  # noqa: E731
        else:
            change = lambda node, i: replace(node, activation="relu" if node.activation == "tanh" else "tanh")  # noqa: E731
    if not places:
        return None
    place = rng.choice(places)
    nodes[place] = change(nodes[place], place)
    return Recipe(nodes), place


@pytest.mark.parametrize("kind", ["units", "edge", "unshared", "activation"])
def test_random_changes_are_found_and_named(kind):
    """A random change makes a random model differ, and one of the sentences shown names the changed layer."""
    tried = 0
    for seed in range(60):
        rng = random.Random(f"{kind} {seed}")
        what = recipe(rng)
        change = mutated(what, kind, rng)
        if change is None:
            continue
        try:
            found = built(change[0], rng)
        except ValueError:
            continue  # the change does not fit its surroundings, and Keras says so
        comparison = compare(found, built(what, rng))
        assert not comparison
        place = change[1]
        layer = change[0].nodes[place].layer
        name = change[0].names[layer if layer in change[0].names else place]
        assert name in str(comparison), (seed, name, str(comparison))
        tried += 1
        if tried == 15:
            return
    pytest.fail(f"only {tried} of the random models could be changed in this way")


# The claim of a test cell --------------------------------------------------------------------------------------


def test_a_check_tells_what_differs():
    """`check.matches` is silent where the two are equal, and else tells up to three differences."""
    target = chain(dense(4, "t1"), dense(3, "t2"), dense(1, "t3"))
    assert check.matches(chain(dense(4, "a"), dense(3, "b"), dense(1, "c")), target) is None
    with pytest.raises(check.CheckFailed) as failed:
        check.matches(chain(dense(5, "a"), dense(3, "b", "relu"), dense(1, "c")), target)
    assert "2 differences, the first of which: `a` has 5 units, the target 4" in failed.value.found
    assert failed.value.look == "relu behind `b` is not in the target"


def test_a_check_answers_what_is_no_model():
    """An exercise that is not done yet is told as in every other check."""
    target = chain(dense(1, "out"))
    for value, words in (
        (None, "nothing has been written"),
        (..., "the gap"),
        (target.output, "a Keras tensor"),
    ):
        with pytest.raises(check.CheckFailed, match=words):
            check.matches(value, target)


def test_a_grader_judges_the_measurement_again():
    """What was measured is plain data, from which the verdict can be found again."""
    measured = measure.matching(chain(dense(2, "h")), chain(dense(3, "t")))
    assert judge.matching(json.loads(json.dumps(measured))).found.endswith("`h` has 2 units, the target 3")
