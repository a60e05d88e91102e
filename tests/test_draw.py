"""Pictures of models. `uv run python tests/test_draw.py` makes README's anew."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib.pyplot as plt
import models
import nbclient
import nbformat
import pytest
import tensorflow as tf
from matplotlib.colors import to_hex
from matplotlib.patches import Patch
from matplotlib.text import Text
from PIL import Image
from tensorflow.keras import Input, Model, layers

from autograder import trace
from autograder.graph.draw import Picture, describe, draw

ROOT = Path(__file__).resolve().parent.parent
README_PICTURE = ROOT / "course" / "images" / "untracked.png"
NOTEBOOK_WIDTH = 900
"""CSS pixels that JupyterLab has for an output in a window of ordinary width."""


def long_chain() -> models.Namespace:
    """Sixty layers in a row."""
    x = start = Input((8,))
    for _ in range(59):
        x = layers.Dense(8)(x)
    model = Model(start, x)
    return locals()


def wide_fan() -> models.Namespace:
    """Twelve branches side by side."""
    start = Input((8,))
    branches = [layers.Dense(3, name=f"branch_{i}")(start) for i in range(12)]
    model = Model(start, layers.Concatenate()(branches))
    return locals()


def residual() -> models.Namespace:
    """Blocks with a way around each."""
    x = start = Input((8, 8, 4))
    for _ in range(4):
        y = layers.BatchNormalization()(layers.Conv2D(4, 3, padding="same")(x))
        x = layers.Add()([x, layers.ReLU()(y)])
    model = Model(start, x)
    return locals()


def dead_branch_and_frozen() -> models.Namespace:
    """A branch that leads to no output, a frozen layer, a layer called twice, three inputs and outputs."""
    x, a, b = Input((6,)), Input((3,), name="a"), Input((3,), name="b")
    twice = layers.Dense(6, name="twice")
    dead = layers.Dense(2, name="dead")(a)
    frozen = layers.Dense(4, name="frozen", trainable=False)(a)
    model = Model([x, a, b], [twice(twice(x)), layers.Add()([frozen, layers.Dense(4)(b)]), frozen])
    return locals()


PICTURES = [
    *models.RIGHT,
    models.untracked_subgraph,
    models.zero_trick,
    models.stopped_gradients,
    models.loose_variable,
    models.lambda_closure,
    models.never_built,
    long_chain,
    wide_fan,
    residual,
    dead_branch_and_frozen,
]


def named(figure: Picture, kind: type, name: str) -> list[Any]:
    """The drawn things of a kind whose id matches a pattern."""
    return [thing for thing in figure.findobj(kind) if re.fullmatch(name, thing.get_gid() or "")]


def boxes_of(figure: Picture) -> dict[str, Any]:
    """The outline of each box by its key, in CSS pixels from the lower left corner."""
    scale = figure.dpi / 96
    found = {}
    for patch in named(figure, Patch, r"(\w+/)?((call|constant|variable|layer|apart) [\d.]+/?)+"):
        found[patch.get_gid()] = (
            patch.get_path()
            .get_extents(patch.get_transform())
            .transformed(plt.matplotlib.transforms.Affine2D().scale(1 / scale))
        )
    return found


@pytest.mark.parametrize("build", PICTURES, ids=lambda build: build.__name__)
def test_legible(build: Any) -> None:
    """No boxes overlap, every text is in its box, all is on the page, and no text is smaller than 9 points."""
    namespace = build()
    picture = draw(namespace["model"])
    boxes = boxes_of(picture)
    assert len(boxes) == describe(trace(namespace["model"])).count("\n") + 1 - header_lines(picture)
    for (one, a), (other, b) in combinations(boxes.items(), 2):
        if one.startswith(f"{other}/") or other.startswith(f"{one}/"):
            continue  # a nested model and what is in it
        assert not (a.x0 < b.x1 and b.x0 < a.x1 and a.y0 < b.y1 and b.y0 < a.y1), f"{one} overlaps {other}"
    page = picture.get_window_extent()
    renderer = picture.canvas.get_renderer()  # type: ignore[attr-defined]
    for text in picture.findobj(Text):
        if not text.get_text():
            continue
        assert text.get_fontsize() >= 9
        extent = text.get_window_extent(renderer)
        assert page.x0 <= extent.x0
        assert extent.x1 <= page.x1
        kind, _, key = (text.get_gid() or "").partition(" ")
        if kind in ("words", "badge"):
            box, scale = boxes[key], picture.dpi / 96
            assert box.x0 <= extent.x0 / scale
            assert extent.x1 / scale <= box.x1
            assert box.y0 <= extent.y0 / scale
            assert extent.y1 / scale <= box.y1


def header_lines(picture: Picture) -> int:
    """How many lines of the description are about the whole."""
    return sum(not line.lstrip().startswith("[") for line in picture.alternative.splitlines())


@pytest.mark.parametrize(
    "build",
    [models.autoencoder, models.basic_decoder, models.untracked_subgraph, long_chain, wide_fan, residual],
    ids=lambda build: build.__name__,
)
def test_fits_a_notebook(build: Any) -> None:
    """A picture is no wider than a notebook, and has two dots to a pixel."""
    picture = draw(build()["model"])
    assert picture.get_figwidth() * 96 <= NOTEBOOK_WIDTH
    assert picture.dpi == 192


def test_autoencoder_fits_a_screen() -> None:
    """The autoencoder is set in columns, so that it is seen without scrolling."""
    assert draw(models.autoencoder()["model"]).get_figheight() * 96 < 650


def test_shared_weights_have_one_colour_and_a_line() -> None:
    """The two calls of the shared Embedding bear one coloured mark of Okabe and Ito's, and a line joins them."""
    picture = draw(models.basic_decoder()["model"])
    lines = named(picture, Patch, r"shared .*")
    assert [line.get_gid() for line in lines] == ["shared call 3 call 4"]
    colour = to_hex(lines[0].get_edgecolor())
    assert colour == "#e69f00"
    marked = [patch for patch in picture.findobj(Patch) if to_hex(patch.get_facecolor()) == colour]
    assert len(marked) == 2
    assert [text.get_text() for text in named(picture, Text, r"badge .*")] == ["A", "A"]


def test_kinds_differ_in_shape() -> None:
    """Constants and loose variables are told from layers by shape and dashes, not by colour alone."""
    picture = draw(models.zero_trick()["model"])
    shapes = {
        gid.split()[0]: (type(patch).__name__, patch.get_linestyle())
        for patch in picture.findobj(Patch)
        if (gid := patch.get_gid() or "").startswith(("call", "constant", "variable"))
    }
    assert shapes["call"] == ("FancyBboxPatch", "-")
    assert shapes["constant"][0] == "Polygon"
    assert shapes["variable"][0] == "Ellipse"
    assert shapes["constant"][1] == shapes["variable"][1] != "-"


def test_gradient_arrows() -> None:
    """The way of the gradient is drawn just where it goes: not through stop_gradient, not behind it."""
    picture = draw(models.stopped_gradients()["model"], gradients=True)
    backward = {patch.get_gid() for patch in named(picture, Patch, r"back .*")}
    assert backward == {
        "back call 1 call 3",
        "back call 2 call 4",
        "back call 3 call 4",
        "back call 4 call 7",
        "back call 6 call 7",
        "back call 7 call 8",
    }


def test_target_beside_yours() -> None:
    """Two models are drawn side by side under the words yours and target."""
    namespace = models.autoencoder()
    picture = draw(namespace["encoder"], target=namespace["model"])
    captions = [text.get_text() for text in picture.findobj(Text) if text.get_text() in ("yours", "target")]
    assert captions == ["yours", "target"]
    boxes = boxes_of(picture)
    yours = [box for key, box in boxes.items() if key.startswith("yours/")]
    target = [box for key, box in boxes.items() if key.startswith("target/")]
    assert (len(yours), len(target)) == (7, 13)
    assert max(box.x1 for box in yours) < min(box.x0 for box in target)
    assert picture.alternative.startswith("yours:\nModel 'encoder'")
    assert "\n\ntarget:\nModel 'autoencoder'" in picture.alternative


def test_same_program_same_picture() -> None:
    """Two runs of one program make the same file, byte for byte."""
    files = []
    for _ in range(2):
        tf.keras.backend.clear_session()
        files.append(draw(models.siamese()["model"]).png())
    assert files[0] == files[1]


def test_no_window_is_left() -> None:
    """Drawing makes no pyplot figure that somebody would have to close."""
    draw(models.siamese()["model"])
    assert plt.get_fignums() == []


def test_the_style_of_other_figures_does_not_matter() -> None:
    """What a notebook sets for its own plots changes no picture."""
    model = models.tied_weights()["model"]
    plain = draw(model).png()
    with plt.rc_context({"font.size": 20, "font.family": "serif", "figure.dpi": 50, "lines.linewidth": 9}):
        assert draw(model).png() == plain


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_saved_file_holds_the_words(suffix: str, tmp_path: Path) -> None:
    """A saved PNG or SVG carries the content in words, for those who can't see it."""
    picture = draw(models.nobody_added_it()["model"])
    path = tmp_path / f"model.{suffix}"
    picture.savefig(path)
    if suffix == "png":
        with Image.open(path) as image:
            assert image.info["Description"] == picture.alternative
    else:
        words = " ".join("".join(ElementTree.parse(path).getroot().itertext()).split())
        assert " ".join(picture.alternative.split()) in words


def test_other_files() -> None:
    """Kinds of files without a place for a description are written as matplotlib writes them."""
    buffer = io.BytesIO()
    draw(models.nobody_added_it()["model"]).savefig(buffer, format="pdf")
    assert buffer.getvalue().startswith(b"%PDF")


def test_shows_itself_in_a_notebook(tmp_path: Path) -> None:
    """As a cell's last value a picture shows itself, with alternative text, without any magic command."""
    source = "import models\nfrom autograder import draw\ndraw(models.siamese()['model'])"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    resources = {"metadata": {"path": str(ROOT / "tests")}}
    nbclient.NotebookClient(notebook, timeout=120, resources=resources).execute()
    results = [output for output in notebook.cells[0].outputs if output.output_type == "execute_result"]
    data = results[0].data
    assert data["text/plain"].startswith("Model 'model': 41 parameters")
    assert 'alt="Model &#x27;model&#x27;: 41 parameters' in data["text/html"]
    assert "image/png" in data


def test_a_graph_is_drawn_without_keras() -> None:
    """Who has a graph as data can draw it where there is no TensorFlow."""
    code = (
        "import sys\n"
        "from autograder.graph.draw import draw\n"
        "from autograder.graph.model import Call, Flow, Graph, Layer, Tensor\n"
        "tensor = Tensor(0, 0, (None, 3), 'float32')\n"
        "layer = Layer(0, 'x', 'InputLayer', False, (), (), True, True)\n"
        "flow = Flow((Call(0, 0, 0, (), (tensor,)),), (tensor,), (tensor,))\n"
        "graph = Graph('small', 'functional', '2.15.0', (layer,), (), flow)\n"
        "assert len(draw(graph).png()) > 1000\n"
        "print(sorted({'tensorflow', 'keras', 'matplotlib.pyplot'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_graph_draws_as_its_model() -> None:
    """`draw(trace(model))` and `draw(model)` are one picture."""
    model = models.two_inputs_two_outputs()["model"]
    assert draw(trace(model)).png() == draw(model).png()


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({}, TypeError, "Expected a Keras model.*Received: a Keras tensor, made by layer 'dense"),
        ({"gradients": True}, TypeError, "Expected a Keras model"),
    ],
)
def test_no_model(arguments: Any, error: type[Exception], words: str) -> None:
    """A learner who hands in the tensor is told what it is."""
    tensor = models.nobody_added_it()["y"]
    with pytest.raises(error, match=words):
        draw(tensor, **arguments)


def test_a_graph_has_no_gradients() -> None:
    """Gradients need the live model, and the error says so."""
    graph = trace(models.nobody_added_it()["model"])
    with pytest.raises(TypeError, match="needs the model itself"):
        draw(graph, gradients=True)
    with pytest.raises(TypeError, match="needs the model itself"):
        draw(graph, beside=[tf.Variable(1.0)])


def test_beside_only_what_is_not_in_the_model() -> None:
    """A layer that is in the model can't be drawn beside it, and a number is no layer."""
    namespace = models.zero_trick()
    with pytest.raises(ValueError, match=r"the layer 'denseSoftmax' \(Dense\), which belongs to"):
        draw(namespace["model"], beside=[namespace["dense_softmax"]])
    with pytest.raises(TypeError, match="Expected layers and variables"):
        draw(namespace["model"], beside=[3])


def test_beside_does_not_build() -> None:
    """A layer that is not built is drawn as that, and stays so."""
    namespace = models.nobody_added_it()
    spare = layers.Dense(3, name="spare")
    picture = draw(namespace["model"], beside=[tf.Variable([[1.0]]), spare])
    assert "spare · Dense · not built" in picture.alternative
    assert not spare.built


def readme_picture() -> Picture:
    """The third scenario: a model of 0 parameters, and beside it what its author thought was in it."""
    tf.keras.backend.clear_session()
    namespace = models.untracked_subgraph()
    return draw(namespace["model"], beside=[namespace["variable"], namespace["dense_softmax"]])


def test_readme_picture_is_in_step() -> None:
    """README's picture shows what `draw` shows now, sharp and small."""
    with Image.open(README_PICTURE) as image:
        assert image.info["Description"] == readme_picture().alternative, (
            "run `uv run python tests/test_draw.py`"
        )
        assert image.width == pytest.approx(1400, rel=0.05)
    assert README_PICTURE.stat().st_size < 150_000


if __name__ == "__main__":
    README_PICTURE.parent.mkdir(exist_ok=True)
    README_PICTURE.write_bytes(readme_picture().png())


def test_what_differs_from_the_target_is_marked_in_both():
    """The calls that a comparison names carry a mark; equal models carry none."""
    mine, target = models.zero_trick()["model"], models.owned_constant()["model"]
    words = draw(mine, target=target).alternative
    yours, _, wanted = words.partition("target:")
    assert "✕ differs" in yours
    assert "✕ differs" in wanted
    assert "✕ differs" not in draw(target, target=models.owned_constant()["model"]).alternative
