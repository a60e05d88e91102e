"""A zoo of small named models, each built anew at every call.

A function returns its local names, as a notebook's namespace would hold them; the model that matters is under
`model`. Those in the first half stand for things that people reported in public, for years; the reports'
numbers are in the comments.
"""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf
from tensorflow.keras import Input, Model, Sequential, layers

Namespace = dict[str, Any]


# What people met ---------------------------------------------------------------------------------------------


def loose_variable() -> Namespace:
    """A loose variable of 3 values scales what a Dense gives (tensorflow#26792, tensorflow#48535)."""
    scale = tf.Variable(tf.ones([3]), name="scale")
    x = Input((4,))
    h = layers.Dense(3, name="h")(x)
    out = layers.Dense(1, name="out")(h * scale)
    model = Model(x, out)
    return locals()


def dense_on_variable() -> Namespace:
    """A Dense is called on a variable, and its value is added to the model's (keras#8166)."""
    seed = tf.Variable(tf.random.normal([1, 10]), name="seed")
    side_layer = layers.Dense(2, name="side_layer")
    side = side_layer(seed)
    x = Input((4,))
    main = layers.Dense(2, name="main")(x)
    model = Model(x, main + side)
    return locals()


def lambda_closure() -> Namespace:
    """A Lambda calls a layer that was built beforehand (keras#9740, EconML#606)."""
    inner = layers.Dense(4, name="inner")
    inner.build((None, 4))
    x = Input((4,))
    h = layers.Lambda(lambda t: inner(t), name="via_lambda")(x)
    model = Model(x, layers.Dense(1, name="out")(h))
    return locals()


def list_grown_later() -> Namespace:
    """A list is concatenated, and a branch is appended to it afterwards (IterNet#5)."""
    x = Input((4,))
    branches = [layers.Dense(2, name="a")(x), layers.Dense(2, name="b")(x)]
    joined = layers.Concatenate(name="joined")(branches)
    branches.append(layers.Dense(2, name="late")(x))
    model = Model(x, layers.Dense(1, name="out")(joined))
    return locals()


def inner_tensor_exposed() -> Namespace:
    """The outer model lists a tensor of the inner model's own graph (tensorflow#42017, tensorflow#44608)."""
    inner_input = Input((4,), name="inner_input")
    mid = layers.Dense(3, name="mid")(inner_input)
    inner = Model(inner_input, layers.Dense(2, name="top")(mid), name="inner")
    outer_input = Input((4,), name="outer_input")
    out = layers.Dense(1, name="out")(inner(outer_input))
    with pytest.raises(ValueError, match="Graph disconnected") as error:
        Model(outer_input, [out, mid])
    return locals()


def stopped_gradients() -> Namespace:
    """One layer is stopped on one of its two ways, another on its only one (keras#20124, tensorflow#26557)."""
    x = Input((2,))
    b = layers.Dense(4, name="b")(x)
    c = layers.Dense(4, name="c")(b)
    both = tf.stop_gradient(b) + c
    cut = layers.Dense(3, name="cut")(x)
    joined = layers.Concatenate()([both, tf.stop_gradient(cut)])
    model = Model(x, layers.Dense(1, name="out")(joined))
    return locals()


def plain_object_hides_layer() -> Namespace:
    """A layer keeps one part in a plain object, another in a list (tensorflow#29073, keras#16797)."""

    class Bag:
        pass

    class Block(layers.Layer):
        def __init__(self) -> None:
            super().__init__(name="block")
            self.bag = Bag()
            self.bag.hidden = layers.Dense(3, name="hidden")
            self.parts = [layers.Dense(3, name="listed")]

        def call(self, x: Any) -> Any:
            return self.parts[0](self.bag.hidden(x))

    x = Input((4,))
    model = Model(x, layers.Dense(1, name="out")(Block()(x)))
    return locals()


def batch_normalization(*, frozen: bool = False) -> Namespace:
    """Moving statistics are never trained; the scale and shift may be frozen (keras#8676)."""
    x = Input((4,))
    h = layers.Dense(3, use_bias=False, name="h")(x)
    norm = layers.BatchNormalization(name="norm")
    norm.trainable = not frozen
    model = Model(x, layers.Dense(1, name="out")(norm(h)))
    return locals()


def sliced_sequential() -> Namespace:
    """One Sequential is made of another's layers (handson-ml2#454, handson-ml2#143)."""
    first = Sequential([Input((4,)), layers.Dense(3, name="h1"), layers.Dense(2, name="out_a")], name="first")
    model = Sequential(first.layers[:-1], name="second")
    model.add(layers.Dense(1, name="out_b"))
    model.build((None, 4))
    return locals()


def list_of_one_layer_twice() -> Namespace:
    """A list is multiplied, so it holds one layer twice (handson-ml2#143)."""
    twins = [layers.Dense(4, name="twin")] * 2
    x = Input((4,))
    model = Model(x, twins[1](twins[0](x)))
    return locals()


def basic_decoder(vocabulary: int = 20, embedding: int = 8, units: int = 16) -> Namespace:
    """The textbook encoder and decoder with teacher forcing: a right model (handson-ml2#202)."""
    tfa = pytest.importorskip("tensorflow_addons", reason="no wheel of tensorflow-addons for this system")
    encoder_input = Input((None,), dtype=tf.int32, name="encoder_input")
    decoder_input = Input((None,), dtype=tf.int32, name="decoder_input")
    lengths = Input((), dtype=tf.int32, name="lengths")
    shared = layers.Embedding(vocabulary, embedding, name="shared")
    _, h, c = layers.LSTM(units, return_state=True, name="encoder")(shared(encoder_input))
    cell = layers.LSTMCell(units, name="cell")
    projection = layers.Dense(vocabulary, name="projection")
    sampler = tfa.seq2seq.TrainingSampler()
    decoder = tfa.seq2seq.BasicDecoder(cell, sampler, output_layer=projection)
    outputs, _, _ = decoder(shared(decoder_input), initial_state=[h, c], sequence_length=lengths)
    model = Model([encoder_input, decoder_input, lengths], tf.nn.softmax(outputs.rnn_output))
    return locals()


def rebound_name() -> Namespace:
    """One name is bound again and again, and three models are cut out (Stack Overflow 73303284, keras#5074)."""
    start = Input((6,))
    x = layers.Dense(4, name="e1")(start)
    x = layers.Dense(2, name="e2")(x)
    code = x
    encoder = Model(start, code, name="encoder")
    x = layers.Dense(4, name="d1")(code)
    x = layers.Dense(6, name="d2")(x)
    model = Model(start, x, name="auto")
    decoder = Model(code, x, name="decoder")
    return locals()


# The four scenarios of the course ------------------------------------------------------------------------------


def nobody_added_it() -> Namespace:
    """A Dense is in the model though nobody added it."""
    x = Input((5,))
    y = layers.Dense(10, name="dense")(x)
    model = Model(x, y)
    return locals()


def autoencoder() -> Namespace:
    """Encoder and autoencoder for images of 28 by 28, every step under one name."""
    start = Input((28, 28, 1))
    x = layers.Conv2D(16, 3, activation="relu")(start)
    x = layers.Conv2D(32, 3, activation="relu")(x)
    x = layers.MaxPooling2D(3)(x)
    x = layers.Conv2D(32, 3, activation="relu")(x)
    x = layers.Conv2D(16, 3, activation="relu")(x)
    x = layers.GlobalMaxPooling2D()(x)
    encoder = Model(start, x, name="encoder")
    x = layers.Reshape((4, 4, 1))(x)
    x = layers.Conv2DTranspose(16, 3, activation="relu")(x)
    x = layers.Conv2DTranspose(32, 3, activation="relu")(x)
    x = layers.UpSampling2D(3)(x)
    x = layers.Conv2DTranspose(16, 3, activation="relu")(x)
    x = layers.Conv2DTranspose(1, 3, activation="relu")(x)
    model = Model(start, x, name="autoencoder")
    return locals()


def untracked_subgraph() -> Namespace:
    """0 trainable parameters: the Dense was called on a variable."""
    inputs = Input((11,), name="inputs")
    variable = tf.Variable([[1.0]])
    dense_softmax = layers.Dense(11, activation="softmax", name="denseSoftmax")
    model = Model(inputs, layers.multiply([inputs, dense_softmax(variable)], name="multiply"))
    return locals()


def zero_trick() -> Namespace:
    """22: zero times the input makes the Dense reachable; the variable still belongs to nobody."""
    inputs = Input((11,), name="inputs")
    variable = tf.Variable([[1.0]])
    dense_softmax = layers.Dense(11, activation="softmax", name="denseSoftmax")
    model = Model(inputs, inputs * dense_softmax(0.0 * inputs[:, :1] + variable))
    return locals()


class OwnedConstant(layers.Layer):
    """Gives a trainable constant for every row of its input. Output shape: (batch, 1)."""

    def build(self, _input_shape: Any) -> None:
        self.constant = self.add_weight("constant", (1, 1), initializer="ones")

    def call(self, x: Any) -> Any:
        return tf.repeat(self.constant, tf.shape(x)[0], axis=0)


def owned_constant() -> Namespace:
    """23: a layer owns the constant."""
    inputs = Input((11,), name="inputs")
    model = Model(inputs, inputs * layers.Dense(11, activation="softmax")(OwnedConstant()(inputs)))
    return locals()


def embedded_constant() -> Namespace:
    """23: an Embedding with one row owns it."""
    inputs = Input((11,), name="inputs")
    zeros = tf.zeros_like(inputs[:, 0])
    model = Model(inputs, inputs * layers.Dense(11, activation="softmax")(layers.Embedding(1, 1)(zeros)))
    return locals()


# Right models of every structure -------------------------------------------------------------------------------


def two_inputs_two_outputs() -> Namespace:
    """Named inputs and outputs in dicts."""
    left, right = Input((3,), name="left"), Input((4,), name="right")
    joined = layers.Concatenate()([layers.Dense(2)(left), layers.Dense(2)(right)])
    model = Model(
        {"left": left, "right": right},
        {"sum": layers.Dense(1, name="sum")(joined), "label": layers.Dense(5, activation="softmax")(joined)},
    )
    return locals()


def siamese() -> Namespace:
    """One submodel is called on two inputs."""
    tower = Sequential([Input((6,)), layers.Dense(4, activation="relu"), layers.Dense(2)], name="tower")
    left, right = Input((6,)), Input((6,))
    distance = layers.Subtract()([tower(left), tower(right)])
    model = Model([left, right], layers.Dense(1)(distance))
    return locals()


def nested_twice() -> Namespace:
    """A model in a model in a model, the innermost also called from outside."""
    x = Input((3,))
    core = Model(x, layers.Dense(3, name="deep")(x), name="core")
    y = Input((3,))
    middle = Model(y, layers.Dense(2)(core(core(y))), name="middle")
    z = Input((3,))
    model = Model(z, [middle(z), core(z)])
    return locals()


def wrapped() -> Namespace:
    """TimeDistributed keeps the layer it is given; Bidirectional copies it and keeps a template."""
    template = layers.LSTM(3, name="template", return_sequences=True)
    every_step = layers.Dense(4, name="every_step")
    x = Input((7, 5))
    h = layers.TimeDistributed(every_step)(x)
    model = Model(x, layers.Bidirectional(template)(h))
    return locals()


def stacked_cells() -> Namespace:
    """An RNN over two cells."""
    cells = [layers.LSTMCell(4, name="low"), layers.GRUCell(3, name="high")]
    x = Input((None, 2))
    model = Model(x, layers.RNN(cells)(x))
    return locals()


def tied_weights() -> Namespace:
    """An output layer uses the Embedding's matrix, transposed: one variable, two owners."""

    class Unembed(layers.Layer):
        def __init__(self, embedding: layers.Embedding) -> None:
            super().__init__(name="unembed")
            self.embedding = embedding

        def call(self, x: Any) -> Any:
            return tf.matmul(x, self.embedding.embeddings, transpose_b=True)

    tokens = Input((None,), dtype="int32")
    embedding = layers.Embedding(9, 4, mask_zero=True, name="embedding")
    model = Model(tokens, Unembed(embedding)(layers.LSTM(4, return_sequences=True)(embedding(tokens))))
    return locals()


def matmul_on_owned_matrix() -> Namespace:
    """A raw operation uses a matrix that a layer of the model owns: no false alarm."""
    x = Input((4,))
    dense = layers.Dense(4, name="dense")
    h = dense(x)
    model = Model(x, tf.matmul(h, dense.kernel))
    return locals()


def raw_operations() -> Namespace:
    """TensorFlow's own functions between layers, with constants that are meant."""
    x = Input((4,))
    mean = tf.constant([[0.1, 0.2, 0.3, 0.4]])
    h = layers.Dense(4)((x - mean) / 2.0)
    h = tf.concat([h, tf.nn.relu(h)[:, :2]], axis=-1)
    model = Model(x, layers.Dense(1)(tf.reshape(h, (-1, 6))))
    return locals()


def noisy() -> Namespace:
    """Layers that draw random numbers, one with a seed of its own."""
    x = Input((4,))
    h = layers.GaussianNoise(0.5)(layers.Dense(8, activation="relu")(x))
    h = layers.BatchNormalization()(layers.Dropout(0.5, seed=3)(h))
    model = Model(x, layers.Dense(1)(h))
    return locals()


def mixed_precision() -> Namespace:
    """Keras wraps the variables of layers that compute in half precision."""
    before = tf.keras.mixed_precision.global_policy()
    tf.keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        x = Input((4,))
        model = Model(x, layers.Dense(2, dtype="float32")(layers.Dense(3, activation="relu")(x)))
    finally:
        tf.keras.mixed_precision.set_global_policy(before)
    return locals()


def compiled_without_loss() -> Namespace:
    """A model with a training loop of its own."""
    x = Input((4,))
    model = Model(x, layers.Dense(2)(x))
    model.compile("adam")
    return locals()


def losses_by_key() -> Namespace:
    """Outputs in a dict whose keys are not the layers' names, with a loss for each key."""
    x = Input((4,))
    model = Model(x, {"mean": layers.Dense(1)(x), "label": layers.Dense(3, activation="softmax")(x)})
    model.compile("adam", {"mean": "mse", "label": "sparse_categorical_crossentropy"})
    return locals()


def vocabulary() -> Namespace:
    """A lookup's vocabulary stands among Keras' weights and is no variable."""
    words = Input((), dtype="string")
    index = layers.StringLookup(vocabulary=["a", "b"])(words)
    model = Model(words, layers.Dense(1)(layers.Embedding(3, 2)(index)))
    return locals()


def added_losses() -> Namespace:
    """Losses added to the model and by a layer, and a metric of a layer's own."""

    class Penalty(layers.Layer):
        def call(self, x: Any) -> Any:
            self.add_loss(tf.reduce_mean(tf.square(x)))
            self.add_metric(tf.reduce_mean(x), name="mean")
            return x

    x = Input((4,))
    code = Penalty()(layers.Dense(2, activity_regularizer="l2")(x))
    side = layers.Dense(3, name="only_in_the_loss")(code)
    model = Model(x, layers.Dense(4)(code))
    model.add_loss(tf.reduce_mean(tf.square(side)))
    return locals()


def stateful() -> Namespace:
    """An RNN that keeps its state from batch to batch, in variables that are no weights."""
    x = Input(batch_shape=(8, 5, 2))
    model = Model(x, layers.LSTM(3, stateful=True)(x))
    return locals()


def long_enough() -> Namespace:
    """Free dimensions that must not be too short for the poolings behind them."""
    x = h = Input((None, 2))
    for _ in range(3):
        h = layers.MaxPooling1D(2)(layers.Conv1D(2, 3)(h))
    model = Model(x, layers.Dense(1)(layers.GlobalMaxPooling1D()(h)))
    return locals()


def subclassed() -> Namespace:
    """Python code of its own: no graph of calls."""

    class Net(Model):
        def __init__(self) -> None:
            super().__init__(name="net")
            self.hidden = layers.Dense(3)
            self.out = layers.Dense(1)

        def call(self, x: Any) -> Any:
            return self.out(self.hidden(x))

    model = Net()
    model(tf.ones((2, 4)))
    return locals()


def never_built() -> Namespace:
    """A Sequential that does not know its input's shape yet."""
    model = Sequential([layers.Dense(3, name="later")])
    return locals()


def hard_choice() -> Namespace:
    """An argmax between a layer and the loss."""
    x = Input((4,))
    scores = layers.Dense(3, name="scores")(x)
    chosen = tf.one_hot(tf.argmax(scores, axis=-1), 3)
    model = Model(x, layers.Dense(1, name="out")(chosen))
    return locals()


RIGHT = [
    nobody_added_it,
    autoencoder,
    owned_constant,
    embedded_constant,
    basic_decoder,
    batch_normalization,
    sliced_sequential,
    list_of_one_layer_twice,
    two_inputs_two_outputs,
    siamese,
    nested_twice,
    wrapped,
    stacked_cells,
    tied_weights,
    matmul_on_owned_matrix,
    raw_operations,
    noisy,
    mixed_precision,
    compiled_without_loss,
    losses_by_key,
    vocabulary,
    added_losses,
    stateful,
    long_enough,
    subclassed,
]
"""Models in which nothing is wrong."""
