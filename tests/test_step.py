"""Walking back through a model, step by step."""

from __future__ import annotations

from typing import Any

import models
import pytest
import tensorflow as tf
from matplotlib.text import Text
from tensorflow.keras import Input, Model, layers

from autograder import trace
from autograder.graph.draw import Picture
from autograder.graph.step import Walk, walk_back


@pytest.fixture(autouse=True)
def _first_names() -> None:
    """Keras numbers names within a session: begin anew."""
    tf.keras.backend.clear_session()


def pale(picture: Picture) -> set[str]:
    """The keys of the boxes whose words are drawn pale."""
    return {
        (text.get_gid() or "").removeprefix("words ")
        for text in picture.findobj(Text)
        if (text.get_gid() or "").startswith("words ") and (text.get_alpha() or 1) < 1
    }


def test_untracked_subgraph() -> None:
    """The walk ends at a constant, and never meets the Dense that computed it."""
    namespace = models.untracked_subgraph()
    walk = walk_back(namespace["model"], beside=[namespace["variable"], namespace["dense_softmax"]])
    assert str(walk).splitlines() == [
        "0. `Model(inputs, outputs)` starts from the output tensor. Nothing is in the model yet.",
        "1. `multiply` (Multiply) made an output, so it is in. It was called on what `inputs` gave and a constant, "
        "which has no history. So far: 0 parameters.",
        "2. `inputs` is an input of the model. Here the way back ends. So far: 0 parameters.",
        "3. No way back is left. What was met is the model: 0 parameters. Never met: `Variable:0`, `denseSoftmax`.",
    ]
    assert pale(walk.picture(2)) == {"apart 0", "apart 1"}
    assert pale(walk.picture(3)) == set()


def test_shared_layer_is_met_twice_and_counted_once() -> None:
    """The second call of a layer adds no parameters."""
    walk = walk_back(models.basic_decoder(100, 10, 512)["model"])
    words = [step.words for step in walk.steps if "`shared` (Embedding)" in step.words]
    assert len(words) == 2
    assert "with 1,000 parameters" in words[0]
    assert "a layer that is in already, with its weights" in words[1]
    assert "2,194,508 parameters" in walk.steps[-1].words


@pytest.mark.parametrize(
    "build",
    [build for build in models.RIGHT if build is not models.subclassed],
    ids=lambda build: build.__name__,
)
def test_every_call_is_met_once(build: Any) -> None:
    """The walk meets every call once, each after one that was called on its result, and tells the total."""
    model = build()["model"]
    graph = trace(model)
    walk = walk_back(graph)
    order = [step.current for step in walk.steps[1:-1]]
    assert sorted(order) == list(range(len(graph.calls)))
    outputs = {tensor.call for tensor in graph.outputs}
    readers = {
        call.index: {reader.index for reader in graph.calls if call.index in {t.call for t in reader.inputs}}
        for call in graph.calls
    }
    for position, index in enumerate(order):
        # What nothing reads, and is no output, is an added loss or an unused input.
        assert index in outputs or not readers[index] or readers[index] & set(order[:position])
        assert walk.steps[position + 1].met == set(order[: position + 1])
    assert f"{graph.parameters.total:,} parameter" in walk.steps[-1].words


def test_unused_input_is_met_last() -> None:
    """An input that nothing uses belongs to the model: it is met when all ways back are at their end."""
    x, unused = Input((3,), name="used"), Input((3,), name="unused")
    walk = walk_back(Model([unused, x], layers.Dense(2)(x)))
    assert "`unused` is an input" in walk.steps[-2].words


def test_added_loss_is_in() -> None:
    """A loss that was added to the model is met after the ways from the outputs, and what only it uses is in."""
    walk = walk_back(models.added_losses()["model"])
    added = next(step for step in walk.steps if "was added to the model" in step.words)
    assert "`add_loss`" in added.words
    assert "`only_in_the_loss`" in walk.steps[-2].words


def test_pictures_fill_up() -> None:
    """At the start all is pale, with every step one call less, at the end nothing; the boxes stay in place."""
    walk = walk_back(models.siamese()["model"])
    counts = [len({key for key in pale(walk.picture(i)) if "/" not in key}) for i in range(len(walk))]
    assert counts == [6, 5, 4, 3, 2, 1, 0, 0]
    sizes = {tuple(walk.picture(i).get_size_inches()) for i in range(len(walk))}
    assert len(sizes) == 1


def test_nested_model_fills_up_as_one() -> None:
    """What is inside a nested model is pale until the model's call is met."""
    walk = walk_back(models.siamese()["model"])
    inside = {key for key in pale(walk.picture(0)) if "/" in key}
    call = {key.split("/")[0] for key in inside}
    assert len(inside) == 3
    assert len(call) == 1
    for number in range(len(walk)):
        now = pale(walk.picture(number))
        assert inside <= now if call <= now else not inside & now


def test_buttons_and_slider() -> None:
    """The buttons move the slider, the slider changes the page, and both ends are ends."""
    walk = walk_back(models.nobody_added_it()["model"])
    (back, on, slider), page = walk.widget.children[0].children, walk.widget.children[1]
    assert (slider.min, slider.max) == (0, len(walk) - 1)
    assert back.disabled
    assert "Nothing is in the model yet" in page.value
    on.click()
    assert slider.value == 1
    assert "<code>dense</code> (Dense) made an output" in page.value
    assert not back.disabled
    slider.value = slider.max
    assert on.disabled
    on.click()
    assert slider.value == slider.max
    back.click()
    assert slider.value == slider.max - 1


def test_without_widgets() -> None:
    """Where there are no widgets the steps are a list under one picture, whose boxes bear their numbers."""
    walk = walk_back(models.nobody_added_it()["model"])
    bundle = walk._repr_mimebundle_()
    assert set(bundle) == {"application/vnd.jupyter.widget-view+json", "text/html", "text/plain"}
    assert bundle["text/html"].count("<li>") == len(walk) == 4
    assert 'alt="Step 3: No way back is left.' in bundle["text/html"]
    assert (
        "dense · Dense · 60 parameters · (None, 10) · ↳ output of the model · step 1" in bundle["text/html"]
    )
    assert bundle["text/plain"] == str(walk)


def test_no_such_step() -> None:
    """A step that does not exist is refused with those that do."""
    walk = walk_back(models.nobody_added_it()["model"])
    with pytest.raises(IndexError, match=r"from 0 to 3\. Received: 4"):
        walk.picture(4)


@pytest.mark.parametrize("build", [models.subclassed, models.never_built], ids=lambda build: build.__name__)
def test_no_calls_recorded(build: Any) -> None:
    """A model without recorded calls has no way back, and the error says why."""
    with pytest.raises(ValueError, match="which has none to walk back"):
        walk_back(build()["model"])


def test_no_model() -> None:
    """A tensor is no model."""
    with pytest.raises(TypeError, match="Expected a Keras model"):
        walk_back(models.nobody_added_it()["y"])


def test_walk_of_a_graph() -> None:
    """A graph walks as its model."""
    model = models.two_inputs_two_outputs()["model"]
    walk = walk_back(trace(model))
    assert isinstance(walk, Walk)
    assert walk.steps == walk_back(model).steps
