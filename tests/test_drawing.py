"""What a picture shows, as text: the structure of every scenario of the course."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import models
import pytest
import tensorflow as tf
from tensorflow.keras import Input, Model, layers

from autograder import trace
from autograder.graph.draw import drawing_of
from autograder.graph.drawing import describe, sketch


@pytest.fixture(autouse=True)
def _first_names() -> None:
    """Keras numbers names within a session: begin anew."""
    tf.keras.backend.clear_session()


def golden(text: str) -> str:
    return dedent(text).strip()


def test_nobody_added_it() -> None:
    """The Dense of the first scenario is in the picture, with all that is known of it."""
    assert describe(trace(models.nobody_added_it()["model"])) == golden("""
        Model 'model': 60 parameters, all trainable
        [1] input_1 · InputLayer · (None, 5)
        [2] dense · Dense · 60 parameters · (None, 10) · ↳ output of the model ← [1]
    """)


def test_autoencoder() -> None:
    """The autoencoder's picture has one box for each of its 13 calls, and the encoder's has its first seven."""
    namespace = models.autoencoder()
    text = describe(trace(namespace["model"])).splitlines()
    assert text[0] == "Model 'autoencoder': 28,241 parameters, all trainable"
    assert text[7] == "[7] global_max_pooling2d · GlobalMaxPooling2D · (None, 16) ← [6]"
    assert text[13] == (
        "[13] conv2d_transpose_3 · Conv2DTranspose · 145 parameters · (None, 28, 28, 1) · "
        "↳ output of the model ← [12]"
    )
    encoder = describe(trace(namespace["encoder"])).splitlines()
    assert encoder[0] == "Model 'encoder': 18,672 parameters, all trainable"
    assert encoder[1:7] == text[1:7]


def test_untracked_subgraph() -> None:
    """The model of 0 parameters holds a constant, and the Dense that gave it stands beside the model."""
    namespace = models.untracked_subgraph()
    drawing = drawing_of(namespace["model"], beside=[namespace["variable"], namespace["dense_softmax"]])
    assert describe(drawing) == golden("""
        Model 'model': 0 parameters
        [1] inputs · InputLayer · (None, 11)
        [2] constant · (1, 11) · baked in: never changes ← [5] (once, while building)
        [3] multiply · Multiply · (None, 11) · ↳ output of the model ← [2], [1]
        Not in the model:
        [4] Variable:0 · tf.Variable · 1 parameter · (1, 1)
        [5] denseSoftmax · Dense · 22 parameters ← [4] (once, while building)
    """)


def test_a_value_that_was_baked_in_is_linked_only_while_it_is_the_same() -> None:
    """Once the Dense gives another value, nothing tells that the constant came from it, and no link claims it."""
    namespace = models.untracked_subgraph()
    namespace["dense_softmax"].kernel.assign_add(tf.random.normal([1, 11]))
    drawing = drawing_of(namespace["model"], beside=[namespace["variable"], namespace["dense_softmax"]])
    assert drawing.apart_links == ()


def test_zero_trick() -> None:
    """With the zero trick the Dense is in the model, and the variable is in no layer."""
    assert describe(trace(models.zero_trick()["model"])) == golden("""
        Model 'model': 22 parameters, all trainable
        [1] inputs · InputLayer · (None, 11)
        [2] tf.__operators__.getitem · TensorFlow operation · (None, 1) ← [1]
        [3] constant · one number · baked in: never changes
        [4] tf.math.multiply · TensorFlow operation · (None, 1) ← [3], [2]
        [5] Variable:0 · tf.Variable · 1 parameter · (1, 1) · in no layer: never trained
        [6] tf.__operators__.add · TensorFlow operation · (None, 1) ← [5], [4]
        [7] denseSoftmax · Dense · 22 parameters · (None, 11) ← [6]
        [8] tf.math.multiply_1 · TensorFlow operation · (None, 11) · ↳ output of the model ← [1], [7]
    """)


def test_owned_constant() -> None:
    """Mended, all 23 parameters are in boxes of the model."""
    assert describe(trace(models.owned_constant()["model"])) == golden("""
        Model 'model': 23 parameters, all trainable
        [1] inputs · InputLayer · (None, 11)
        [2] owned_constant · OwnedConstant · 1 parameter · (None, 1) ← [1]
        [3] dense · Dense · 22 parameters · (None, 11) ← [2]
        [4] tf.math.multiply · TensorFlow operation · (None, 11) · ↳ output of the model ← [1], [3]
    """)


def test_seq2seq() -> None:
    """The shared Embedding is two boxes with the same weights; the decoder names the layers that it holds."""
    assert describe(trace(models.basic_decoder(100, 10, 512)["model"])) == golden("""
        Model 'model': 2,194,508 parameters, all trainable
        [1] encoder_input · InputLayer · (None, None)
        [2] decoder_input · InputLayer · (None, None)
        [3] lengths · InputLayer · (None,)
        [4] shared · Embedding · 1,000 parameters · (None, None, 10) · call 1 of 2: same weights ← [2] (same weights: [5])
        [5] shared · Embedding · 1,000 parameters · (None, None, 10) · call 2 of 2: same weights ← [1] (same weights: [4])
        [6] encoder · LSTM · 1,071,104 parameters · 3 × (None, 512) ← [5]
        [7] basic_decoder · BasicDecoder · 1,122,404 parameters · holds cell: 1,071,104 · holds projection: 51,300 · (None, None, 100) and 4 more ← [4], [6] ×2, [3]
        [8] tf.nn.softmax · TensorFlow operation · (None, None, 100) · ↳ output of the model ← [7]
    """)  # noqa: E501, RUF001


def test_nested() -> None:
    """A nested model is opened where it is called first, and a single box where it is called again."""
    assert describe(trace(models.nested_twice()["model"])) == golden("""
        Model 'model': 20 parameters, all trainable
        [1] input_3 · InputLayer · (None, 3)
        [2] middle · Functional · 20 parameters · (None, 2) · ↳ output 1 of 2 of the model ← [1]
            [3] input_2 · InputLayer · (None, 3)
            [4] core · Functional · 12 parameters · (None, 3) · call 1 of 2: same weights ← [3] (same weights: [7], [9])
                [5] input_1 · InputLayer · (None, 3)
                [6] deep · Dense · 12 parameters · (None, 3) ← [5]
            [7] core · Functional · 12 parameters · 2 calls inside · (None, 3) · call 2 of 2: same weights ← [4] (same weights: [4], [9])
            [8] dense · Dense · 8 parameters · (None, 2) ← [7]
        [9] core · Functional · 12 parameters · 2 calls inside · (None, 3) · ↳ output 2 of 2 of the model · shares 12 parameters ← [1] (same weights: [4], [7])
    """)  # noqa: E501


def test_tied_weights() -> None:
    """Two different layers that use one variable say so."""
    text = describe(trace(models.tied_weights()["model"]))
    assert "[2] embedding · Embedding · 36 parameters · (None, None, 4) · shares 36 parameters" in text
    assert text.count("(same weights: ") == 2


def test_variable_of_a_layer_used_by_an_operation() -> None:
    """A raw operation on a matrix that a layer owns is no loose variable: it says whose it is."""
    drawing = drawing_of(models.matmul_on_owned_matrix()["model"])
    variable = next(box for box in drawing.boxes if box.kind == "variable")
    dense = next(box for box in drawing.boxes if box.title == "dense")
    assert "of dense" in variable.lines
    assert variable.band == dense.band == 0


def test_two_sets_of_shared_weights() -> None:
    """Two layers that are each called twice get different bands, and so different colours."""
    x = Input((3,))
    a, b = layers.Dense(3, name="a"), layers.Dense(3, name="b")
    drawing = drawing_of(Model(x, b(a(b(a(x))))))
    assert [(box.title, box.band) for box in drawing.boxes[1:]] == [("a", 0), ("b", 1), ("a", 0), ("b", 1)]


def test_equal_layers_share_nothing() -> None:
    """Two layers of equal settings, even of one name in a nested model, are not drawn as shared."""
    x, y = Input((3,)), Input((3,))
    inner = Model(y, layers.Dense(3, name="same")(y), name="inner")
    drawing = drawing_of(Model(x, layers.Dense(3, name="same")(inner(x))))
    assert list(drawing.shared()) == []


def test_a_layer_without_weights_called_twice() -> None:
    """Its calls are counted, but there are no weights to share."""
    x = Input((3,))
    relu = layers.ReLU()
    drawing = drawing_of(Model(x, relu(relu(x))))
    assert [box.lines[-1] for box in drawing.boxes[:2]] == ["(None, 3)", "call 1 of 2"]
    assert list(drawing.shared()) == []


def test_frozen_and_state() -> None:
    """Frozen layers and moving statistics are told apart from what is trained."""
    text = describe(trace(models.batch_normalization()["model"]))
    assert "norm · BatchNormalization · 12 parameters · 6 trainable, 6 state" in text
    drawing = drawing_of(models.batch_normalization(frozen=True)["model"])
    norm = next(box for box in drawing.boxes if box.title == "norm")
    assert norm.frozen
    assert norm.lines[1] == "6 frozen, 6 state"


def test_cut_input() -> None:
    """A model that was cut out of a longer one says at its input what stood there."""
    namespace = models.rebound_name()
    assert "in place of what e2 gave" in describe(trace(namespace["decoder"]))
    assert "in place of" not in describe(trace(namespace["model"]))


def test_subclassed() -> None:
    """Of a subclassed model only the layers it holds are known, and the picture says that."""
    assert describe(trace(models.subclassed()["model"])) == golden("""
        Model 'net': 19 parameters, all trainable
        Keras records no calls of a subclassed model: what its code does with these layers can't be read.
        [1] dense · Dense · 15 parameters
        [2] dense_1 · Dense · 4 parameters
    """)


def test_not_built() -> None:
    """Where variables do not exist yet, the picture says unknown, and not 0."""
    assert describe(trace(models.never_built()["model"])) == golden("""
        Model 'sequential': number of parameters not known yet
        Not built yet, so Keras has recorded no calls. These are its layers, in their order.
        [1] later · Dense · parameters not known yet
    """)


def test_gradient_is_cut() -> None:
    """A layer that is stopped on one of two ways is reached on the other; one stopped on its only way is not."""
    text = describe(drawing_of(models.stopped_gradients()["model"], gradients=True))
    assert text.splitlines()[2:] == [
        "[1] input_1 · InputLayer · (None, 2)",
        "[2] b · Dense · 12 parameters · (None, 4) · ✓ gradient: 12 ← [1]",
        "[3] tf.stop_gradient · TensorFlow operation · (None, 4) · ✕ lets no gradient through "
        "← [2] (no gradient back)",
        "[4] c · Dense · 20 parameters · (None, 4) · ✓ gradient: 20 ← [2] (gradient back)",
        "[5] tf.__operators__.add · TensorFlow operation · (None, 4) ← [3] (gradient back), [4] (gradient back)",
        "[6] cut · Dense · 9 parameters · (None, 3) · ✕ no gradient, cut by tf.stop_gradient ← [1]",
        "[7] tf.stop_gradient_1 · TensorFlow operation · (None, 3) · ✕ lets no gradient through "
        "← [6] (no gradient back)",
        "[8] concatenate · Concatenate · (None, 7) ← [5] (gradient back), [7] (gradient back)",
        "[9] out · Dense · 8 parameters · (None, 1) · ↳ output of the model · ✓ gradient: 8 ← [8] (gradient back)",
    ]


def test_gradient_ends_at_a_hard_choice() -> None:
    """Behind an argmax no gradient arrives; the last call that one arrives at is marked."""
    boxes = {box.title: box for box in drawing_of(models.hard_choice()["model"], gradients=True).boxes}
    assert boxes["scores"].reach == "none"
    assert boxes["scores"].lines[-1] == "✕ no gradient, cut by tf.math.argmax"
    assert boxes["tf.one_hot"].cut
    assert boxes["out"].reach == "all"


def test_gradient_reaches_a_loose_variable() -> None:
    """A gradient arrives at a loose variable, and is of no use there."""
    boxes = drawing_of(models.zero_trick()["model"], gradients=True).boxes
    variable = next(box for box in boxes if box.kind == "variable")
    assert variable.lines[-2:] == ("in no layer: never trained", "a gradient arrives, in vain")


@pytest.mark.parametrize("build", models.RIGHT, ids=lambda build: build.__name__)
def test_right_models(build: models.Any) -> None:
    """In a right model no box says that a gradient is missing, all calls are drawn, and two runs are equal."""
    model = build()["model"]
    graph = trace(model)
    drawing = sketch(graph)
    calls = [box for box in drawing.boxes if box.key.startswith("call")]
    assert len(calls) == len(graph.calls)
    assert sketch(trace(model)) == drawing
    if graph.flow:
        data = tf.constant(["a", "b"]) if build is models.vocabulary else None
        backward = drawing_of(model, gradients=True, data=data)
        assert not any(box.cut or box.reach in ("some", "none") for box in backward.boxes)
        assert "✕" not in describe(backward)


def test_gradients_on_data_of_ones_own() -> None:
    """Data that can't be made up are handed in; without them the error asks for them."""
    model = models.vocabulary()["model"]
    with pytest.raises(ValueError, match="hand some in"):
        drawing_of(model, gradients=True)
    drawing = drawing_of(model, gradients=True, data=(tf.constant(["a", "b"]), tf.zeros([2, 1])), loss="mse")
    assert "gradient of mean_squared_error" in drawing.note
    assert [box.reach for box in drawing.boxes if box.owns] == ["all", "all"]


def test_model_that_runs_code_of_its_own() -> None:
    """Where a subclass has its own `call`, the ways of the gradient are not known, and none is claimed."""

    class Own(Model):
        def call(self, inputs: Any, training: bool | None = None, mask: Any = None) -> Any:
            return 2 * super().call(inputs, training, mask)

    x = Input((3,))
    drawing = drawing_of(Own(x, layers.Dense(2)(layers.Dense(3)(x))), gradients=True)
    assert "not known" in drawing.note
    assert {link.backward for link in drawing.links} == {None}
    assert [box.reach for box in drawing.boxes[1:]] == ["all", "all"]


def test_keys_are_distinct() -> None:
    """Names may repeat, keys may not: links lead to one box each."""
    drawing = drawing_of(models.nested_twice()["model"])
    keys = [box.key for box in drawing.all_boxes()]
    assert len(set(keys)) == len(keys)
    assert {link.source for link in drawing.links} | {link.target for link in drawing.links} <= set(keys)


def test_a_gradient_picture_leaves_the_model_as_it_was() -> None:
    """Weights and moving statistics are the same bit for bit after the backward pass was drawn."""
    model = models.noisy()["model"]
    before = [weight.numpy() for weight in model.weights]
    drawing_of(model, gradients=True)
    for weight, value in zip(model.weights, before, strict=True):
        assert (weight.numpy() == value).all()


def test_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph of more calls than a picture can show is refused, with both numbers."""
    monkeypatch.setattr("autograder.graph.drawing.LARGEST", 12)
    with pytest.raises(ValueError, match=r"at most 12 calls.*'autoencoder' with 13"):
        sketch(trace(models.autoencoder()["model"]))
    assert len(sketch(trace(models.autoencoder()["encoder"])).boxes) == 7


def test_long_names_are_shortened() -> None:
    """A very long name keeps its beginning and its end."""
    x = Input((1,))
    drawing = drawing_of(Model(x, layers.Dense(1, name="a" * 40 + "z" * 40)(x)))
    assert drawing.boxes[1].title == "a" * 16 + "…" + "z" * 16
