"""The report on the terminal, and standard output kept for it."""

from __future__ import annotations

import io
import subprocess
import sys

import models
import pytest

from autograder import explain, terminal

READING = """
import atexit, os, subprocess, sys
from autograder import terminal
out = terminal.keep_stdout()
print("from Python")
os.write(1, b"from C\\n")
subprocess.run(["echo", "from a child"])
atexit.register(print, "at the end")
out.write("{}\\n")
out.flush()
"""


def shown(zoo, **kwargs):
    out = io.StringIO()
    terminal.show(explain(zoo["model"], zoo), out, **kwargs)
    return out.getvalue()


def test_standard_output_is_for_the_caller_alone():
    """Prints of Python, of C, of children and at the end of the process go to standard error."""
    done = subprocess.run([sys.executable, "-c", READING], capture_output=True, text=True, check=True)
    assert done.stdout == "{}\n"
    assert done.stderr.splitlines() == ["from Python", "from C", "from a child", "at the end"]


def test_an_output_in_memory_is_kept_as_it_is(monkeypatch):
    """Where standard output has been replaced already, nothing below it is touched."""
    memory = io.StringIO()
    monkeypatch.setattr(sys, "stdout", memory)
    assert terminal.keep_stdout() is memory
    assert sys.stdout is sys.stderr


def test_a_report_in_a_pipe():
    """The counts, each finding with its cause and its mending, and a verdict; no colours, no blanks at line ends."""
    text = shown(models.untracked_subgraph())
    assert text.startswith("Model model")
    lines = text.splitlines()
    assert "  0  trainable" in lines
    assert "! unreached-layer: denseSoftmax (Dense, 22 parameters)" in lines
    assert "  `denseSoftmax` (Dense, 22 parameters) was called on a tf.Variable, not on a" in lines
    assert any(line.startswith("  → Call it on a Keras tensor") for line in lines)
    assert lines[-1] == "2 findings accuse this model."
    assert "\x1b" not in text
    assert all(line == line.rstrip() for line in lines)


@pytest.mark.parametrize("columns", [40, 80, 300])
def test_no_line_is_wider_than_the_terminal_or_than_a_page(monkeypatch, columns):
    """Sentences are wrapped under their own indent."""
    monkeypatch.setenv("COLUMNS", str(columns))
    widest = max(map(len, shown(models.untracked_subgraph()).splitlines()))
    assert widest <= min(columns, 100)
    assert widest > min(columns, 100) - 20


def test_findings_that_inform_do_not_accuse():
    """A right model whose parts are shared or frozen."""
    text = shown(models.siamese())
    assert "· shared: tower" in text
    assert text.endswith("Nothing accuses this model.\n")


def test_a_model_that_is_not_built():
    """No number is given where none is known."""
    text = shown(models.never_built())
    assert "  The number of parameters is not known yet.\n" in text
    assert "! unbuilt: later (Dense)\n" in text


def test_a_note_comes_last():
    """What could not be restored is said after all else."""
    assert shown(models.nobody_added_it(), note="The loss was `lost`.").endswith(
        "model.\nThe loss was `lost`.\n"
    )


def test_numbers_stand_under_each_other():
    """The counts are aligned to the right."""
    lines = shown(models.autoencoder()).splitlines()
    assert lines[1:5] == [
        "  28,241  parameters",
        "  28,241  trainable",
        "       0  frozen: switched off",
        "       0  state: never trained by design",
    ]
