"""`autograder explain` as a person runs it: in a process of its own, in the folder of the file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from xml.etree import ElementTree

import pytest

UNTRACKED = """
import atexit, subprocess
import tensorflow as tf
from tensorflow.keras import Input, Model, layers

print("hello from the file")
subprocess.run(["echo", "hello from a child"])
atexit.register(print, "good-bye")
inputs = Input((11,), name="inputs")
variable = tf.Variable([[1.0]])
dense_softmax = layers.Dense(11, activation="softmax", name="denseSoftmax")
model = Model(inputs, layers.multiply([inputs, dense_softmax(variable)]), name="untracked")

if __name__ == "__main__":
    raise RuntimeError("training must not start")
"""
RIGHT = """
from tensorflow.keras import Input, Model, layers
x = Input((4,), name="x")
model = Model(x, layers.Dense(3, name="h")(x), name="right")
"""


@pytest.fixture
def run(tmp_path):
    """Run the command in a folder with `untracked.py` and `right.py`."""
    (tmp_path / "untracked.py").write_text(UNTRACKED)
    (tmp_path / "right.py").write_text(RIGHT)

    def command(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "autograder.cli", "explain", *arguments],
            cwd=tmp_path,
            env={**os.environ, "COLUMNS": "80"},
            capture_output=True,
            text=True,
            timeout=120,
        )

    return command


def test_a_model_that_needs_a_person(run):
    """The Dense that belongs to nobody is found by its name in the file, and the exit status is 1."""
    done = run("untracked.py")
    assert done.returncode == 1
    assert "! unreached-layer: denseSoftmax (Dense, 22 parameters)" in done.stdout
    assert done.stdout.startswith("Model untracked (functional, Keras 2.15")
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "\x1b" not in done.stdout
    assert done.stderr.splitlines() == ["hello from the file", "hello from a child", "good-bye"]


def test_one_json_document_and_nothing_else(run):
    """What the file prints, its children, and what it prints at the end do not come between."""
    done = run("untracked.py", "--json")
    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert report["parameters"] == {"total": 0, "trainable": 0, "frozen": 0, "state": 0, "trained": 0}
    first = report["findings"][0]
    assert (first["kind"], first["name"], first["parameters"]) == ("unreached-layer", "denseSoftmax", 22)


def test_a_right_model(run):
    """Exit status 0, and nothing on standard error."""
    done = run("right.py:model")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "Nothing accuses this model."


def test_a_saved_model(run, tmp_path):
    """A .keras file gives the report of the model in it."""
    (tmp_path / "save.py").write_text(f"{RIGHT}\nmodel.compile('sgd', 'mse')\nmodel.save('right.keras')\n")
    assert run("save.py").returncode == 0
    done = run("right.keras", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["parameters"]["trained"] == 15


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_the_picture(run, tmp_path, suffix):
    """It is written where it was asked for, in the format that its name says."""
    assert run("right.py", "--draw", f"model.{suffix}").returncode == 0
    picture = tmp_path / f"model.{suffix}"
    if suffix == "png":
        assert picture.read_bytes().startswith(b"\x89PNG")
    else:
        assert ElementTree.parse(picture).getroot().tag.endswith("svg")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["none.py"], "autograder: There is no file none.py"),
        (
            ["right.py:nope"],
            "autograder: right.py has no `nope`.\nSay which one is meant, such as right.py:model",
        ),
        (["right.py", "--draw", "model.txt"], "a picture's name ends in .png or .svg"),
        (["right.py", "--draw", "no/folder.png"], "cannot be written: no such folder"),
        (["broken.py", "--json"], "`h` needs Input `a`, which is not among the model's inputs (Input `b`)."),
        ([], "Missing argument 'FILE'"),
    ],
)
def test_wrong_usage(run, tmp_path, arguments, says):
    """Exit status 2, a message on standard error, and nothing on standard output."""
    (tmp_path / "broken.py").write_text(
        "from tensorflow.keras import Input, Model, layers\n"
        "a, b = Input((4,), name='a'), Input((4,), name='b')\n"
        "model = Model(b, layers.Dense(3, name='h')(a))\n"
    )
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr


def test_help_says_what_to_give(run):
    """With examples, and without loading TensorFlow."""
    done = run("--help")
    assert done.returncode == 0
    assert "FILE.py, FILE.py:NAME, FILE.keras or FILE.h5" in " ".join(done.stdout.split())
    assert "Examples: autograder explain my_model.py" in " ".join(done.stdout.split())
