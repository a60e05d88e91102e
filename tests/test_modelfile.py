"""Models out of files: Python files, saved models, and everything that is neither."""

from __future__ import annotations

import json
import sys
import zipfile
from contextlib import nullcontext
from pathlib import Path

import h5py
import keras
import pytest
import tensorflow as tf
from tensorflow.keras import Input, Model, layers

from autograder.modelfile import ModelFileError, find, load

TWO = """
from tensorflow.keras import Input, Model, layers
x = Input((4,))
h = layers.Dense(3)(x)
encoder = Model(x, h, name="encoder")
auto = Model(x, layers.Dense(4)(h), name="auto")
also = later = 7
"""
ONE = """
from tensorflow.keras import Input, Model, layers
x = Input((4,))
model = same = Model(x, layers.Dense(3)(x))
"""


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    """Each test in a folder of its own, and nothing of what its files bring stays."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name, module in list(sys.modules.items()):
        if name not in before and str(getattr(module, "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def problem(target):
    """The message where a model cannot be had."""
    with pytest.raises(ModelFileError) as error:
        load(target)
    return str(error.value)


def saved(name, model=None):
    """Save a model (by default one Dense of 15 parameters) under the name."""
    if model is None:
        x = Input((4,), name="x")
        model = Model(x, layers.Dense(3, name="h")(x), name="saved")
        model.compile("sgd", "mse")
    with pytest.warns(UserWarning, match="HDF5") if name.endswith(".h5") else nullcontext():
        model.save(name)
    return name


# The target -----------------------------------------------------------------------------------------------------


def test_the_letter_of_a_drive_is_no_file():
    """On Windows a path has a colon of its own; NAME stands behind the last one, after `.py`."""
    for target in ("C:\\x.py", "C:\\x.py:model"):
        with pytest.raises(ModelFileError, match=r"There is no file C:\\x\.py \(seen from"):
            find(target)
    Path("C:x.py").write_text(ONE)
    assert find("C:x.py") == (Path("C:x.py"), None)
    assert find("C:x.py:model") == (Path("C:x.py"), "model")


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("none.py", "There is no file none.py"),
        ("none.keras", "There is no file none.keras"),
        ("model.txt", "give FILE.py, FILE.py:NAME, FILE.keras or FILE.h5"),
        ("model", "give FILE.py, FILE.py:NAME, FILE.keras or FILE.h5"),
        ("unit.ipynb", "Call `autograder.explain(model, globals())` in it"),
        ("one.py:", "After one.py: comes the name that the model has in the file; there is none"),
        ("one.py:a.b", "`a.b` is no name"),
        ("one.keras:model", "leave out `:model`"),
        ("folder.py", "folder.py is a folder"),
    ],
)
def test_a_target_that_is_none(target, says):
    """What is wrong with it, and what to give instead."""
    Path("one.py").write_text(ONE)
    Path("one.keras").write_bytes(b"")
    Path("folder.py").mkdir()
    assert says in problem(target)


# Python files ---------------------------------------------------------------------------------------------------


def test_the_only_model_needs_no_name():
    """One model under two names is one; its namespace comes along."""
    Path("one.py").write_text(ONE)
    loaded = load("one.py")
    assert loaded.model.count_params() == 15
    assert loaded.namespace["x"] is loaded.model.inputs[0]


def test_several_models_are_listed():
    """With their names, classes and parameters, and how to say which."""
    Path("two.py").write_text(TWO)
    message = problem("two.py")
    assert "two.py holds several models. Say which one is meant, such as two.py:encoder" in message
    assert "  encoder  Functional  15 parameters" in message
    assert "  auto     Functional  31 parameters" in message
    assert load("two.py:auto").model.name == "auto"


def test_a_name_that_is_none_or_no_model():
    """Both say so, and list what there is."""
    Path("two.py").write_text(TWO)
    assert problem("two.py:missing").startswith("two.py has no `missing`.\nSay which one is meant")
    assert problem("two.py:also").startswith("`also` in two.py is no Keras model but int 7.\nSay which")


def test_no_model():
    """Functions that nobody calls and the main part do not count."""
    Path("none.py").write_text(
        "def build():\n    return 1\nif __name__ == '__main__':\n    raise ValueError\n"
    )
    assert "There is no Keras model in none.py" in problem("none.py")


def test_an_unbuilt_model_is_listed_without_a_number():
    """Its number of parameters is unknown, which is not 0."""
    Path("two.py").write_text(
        f"{TWO}\nimport tensorflow as tf\nnew = tf.keras.Sequential([layers.Dense(2)])\n"
    )
    assert "  new      Sequential  not built" in problem("two.py")


def test_a_file_runs_in_its_own_folder_with_its_own_arguments():
    """It finds the files beside it, and does not see our arguments; the working folder stays."""
    Path("project").mkdir()
    Path("project/blocks_of_mine.py").write_text(ONE)
    Path("project/use.py").write_text(
        "import sys, os\nfrom blocks_of_mine import model\narguments, folder, me = sys.argv, os.getcwd(), __name__\n"
    )
    names = load("project/use.py").namespace
    assert names["arguments"] == [str(Path("project/use.py"))]
    assert names["folder"] == str(Path.cwd())
    assert names["me"] == "use"


def test_a_file_named_like_a_library():
    """`keras.py` or `my model.py` runs, and the library stays what it is."""
    for name in ("keras.py", "random.py", "my model-2.py"):
        Path(name).write_text(ONE)
        assert load(name).model.count_params() == 15
    assert sys.modules["keras"].__version__ == keras.__version__


def test_a_class_of_the_file_knows_its_module():
    """Dataclasses and pickles look their module up by its name."""
    Path("with_classes.py").write_text(
        f"from __future__ import annotations\n{ONE}\nfrom dataclasses import dataclass\nimport pickle\n"
        "@dataclass\nclass Settings:\n    units: int = 3\n"
        "assert pickle.loads(pickle.dumps(Settings(5))).units == 5\n"
    )
    assert load("with_classes.py").model.count_params() == 15


def test_code_that_raises_is_shown_with_its_own_lines_only():
    """The traceback names the person's files, and the explanation of the error follows."""
    Path("parts_of_mine.py").write_text(
        "from tensorflow.keras import Input, Model, layers\n"
        "def build():\n"
        "    a, b = Input((4,), name='a'), Input((4,), name='b')\n"
        "    return Model(b, layers.Dense(3, name='h')(a))\n"
    )
    Path("main.py").write_text("from parts_of_mine import build\nmodel = build()\n")
    message = problem("main.py")
    assert message.startswith("main.py raises an error, so there is no model to explain.\n\nTraceback")
    assert 'main.py", line 2, in <module>' in message
    assert 'parts_of_mine.py", line 4, in build' in message
    assert "site-packages" not in message
    assert "importlib" not in message
    assert "ValueError: Graph disconnected" in message
    assert "`h` needs Input `a`, which is not among the model's inputs (Input `b`)." in message


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("x = (\n", "SyntaxError: '(' was never closed"),
        ("import no_such_library\n", "ModuleNotFoundError: No module named 'no_such_library'"),
        ("import sys\nsys.exit(3)\n", "ended itself (sys.exit, exit status 3)"),
        (
            "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError('k') from e\n",
            "was the direct cause",
        ),
        ("import argparse\nargparse.ArgumentParser().parse_args(['--epochs'])\n", "sys.exit, exit status 2"),
    ],
)
def test_code_that_does_not_get_through(source, says):
    """A slip of the pen, a missing library, an early end: told, with the place."""
    Path("odd.py").write_text(source)
    message = problem("odd.py")
    assert says in message
    assert 'odd.py", line' in message


# Saved models ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["model.keras", "model.h5", "MODEL.H5"])
def test_a_saved_model(name):
    """Comes back with what `compile` had set, and without a namespace."""
    if name == "MODEL.H5":
        Path(saved("model.h5")).rename(name)
    else:
        saved(name)
    loaded = load(name)
    assert loaded.model.count_params() == 15
    assert tf.keras.losses.get(loaded.model.loss) is tf.keras.losses.get("mse")
    assert (loaded.namespace, loaded.note) == (None, "")


def keras_3(name, version="3.4.1"):
    """A file as Keras 3 writes it: the archive's layout and, in HDF5, the attributes are the same."""
    config = {
        "module": "keras.src.models.functional",
        "class_name": "Functional",
        "config": {"name": "functional", "trainable": True, "layers": []},
        "registered_name": "Functional",
    }
    if name.endswith(".keras"):
        with zipfile.ZipFile(name, "w") as archive:
            archive.writestr(
                "metadata.json", json.dumps({"keras_version": version, "date_saved": "2024-07-01"})
            )
            archive.writestr("config.json", json.dumps(config))
            archive.writestr("model.weights.h5", b"")
    else:
        with h5py.File(name, "w") as file:
            file.attrs["keras_version"] = version
            file.attrs["model_config"] = json.dumps(config)
    return name


@pytest.mark.parametrize("name", ["new.keras", "new.h5"])
def test_a_file_of_another_keras(name):
    """Both versions are named, and what can be done."""
    message = problem(keras_3(name))
    assert f"{name} was saved by Keras 3.4.1, which Keras {keras.__version__} here cannot read" in message
    assert "give that: FILE.py" in message


@pytest.mark.parametrize("name", ["model.keras", "model.h5"])
def test_custom_objects_are_all_named(name):
    """The classes and functions that are not Keras' own, each once, and no class of Keras among them."""

    class Twice(layers.Layer):
        def call(self, x):
            return 2 * x

    def squeeze(x):
        return tf.tanh(x)

    x = Input((4,))
    h = layers.Dense(3, activation=squeeze, kernel_regularizer="l2")(Twice()(Twice()(x)))
    saved(name, Model(x, layers.BatchNormalization()(tf.nn.relu(h))))
    message = problem(name)
    assert f"{name} needs classes or functions that are not Keras' own: `Twice`, `squeeze`." in message
    assert "custom_objects=" in message


@pytest.mark.parametrize("name", ["model.keras", "model.h5"])
def test_a_loss_of_ones_own_is_left_out(name):
    """The model comes back without what `compile` had set, and that is said."""

    def my_loss(wanted, found):
        return tf.reduce_mean(wanted - found)

    x = Input((4,))
    model = Model(x, layers.Dense(3)(x))
    model.compile("sgd", my_loss)
    loaded = load(saved(name, model))
    assert loaded.model.count_params() == 15
    assert "`compile` had set could not be restored" in loaded.note
    assert "my_loss" in loaded.note


@pytest.mark.parametrize("name", ["model.keras", "model.h5"])
def test_code_in_a_saved_file_is_not_run(name):
    """A Python lambda in the file is code of whoever made it."""
    x = Input((4,))
    saved(name, Model(x, layers.Lambda(lambda t: 2 * t, name="twice")(layers.Dense(3)(x))))
    message = problem(name)
    assert "holds Python code, in Lambda `twice`" in message
    assert "safe_mode=False" in message


def test_weights_alone_are_no_model():
    """Also under the suffix of a whole model."""
    x = Input((4,))
    model = Model(x, layers.Dense(3)(x))
    for name in ("weights.h5", "new.weights.h5", "weights.keras"):
        model.save_weights(name)
        assert "holds weights, or other data, and no model" in problem(name)


@pytest.mark.parametrize("name", ["model.keras", "model.h5"])
def test_damaged_files(name):
    """Empty, text, cut off: said so."""
    whole = Path(saved(name)).read_bytes()
    for content in (b"", b"hello", whole[: len(whole) // 2]):
        Path(name).write_bytes(content)
        assert "damaged" in problem(name)


def test_another_archive():
    """A zip file without a Keras model in it."""
    with zipfile.ZipFile("photos.keras", "w") as archive:
        archive.writestr("holiday.txt", "sea")
    assert "zip archive without a Keras model" in problem("photos.keras")
