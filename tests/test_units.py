"""Every unit as a learner and an instructor meet it: solution, released notebook, right and wrong answers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbgrader.api import Gradebook

from autograder import answers

COURSE = Path(__file__).parents[1] / "course"
UNITS = sorted(folder.name for folder in (COURSE / "source").iterdir() if folder.is_dir())
GIB = 2**30

PEAK = """\
import re, resource, sys
if sys.platform == "linux":  # ru_maxrss begins with what the parent used when it forked
    peak = int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024
else:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
peak
"""
"""The largest resident memory of a kernel so far, in bytes."""


def source(unit):
    return nbformat.read(COURSE / "source" / unit / f"{unit}.ipynb", as_version=4)


def corpus(unit):
    return answers.read(COURSE / "answers" / f"{unit}.md")


def check_cells(notebook):
    cells = {cell.metadata.get("nbgrader", {}).get("grade_id"): cell for cell in notebook.cells}
    return {name: cell for name, cell in cells.items() if name and cell.metadata.nbgrader.get("grade")}


def run(notebook, folder):
    """Execute as grading does, errors allowed, and give back the peak memory of the kernel in bytes."""
    notebook = nbformat.from_dict(notebook)
    notebook.cells.append(nbformat.v4.new_code_cell(PEAK))
    environment = os.environ | {"NBGRADER_EXECUTION": "autograde", "TF_CPP_MIN_LOG_LEVEL": "3"}
    client = NotebookClient(
        notebook,
        timeout=300,
        allow_errors=True,
        kernel_name="python3",
        resources={"metadata": {"path": folder}},
    )
    # Beside what cells print, which comes back in their outputs, a kernel only chatters.
    client.execute(env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return notebook, int(notebook.cells.pop().outputs[0].data["text/plain"])


def failure(cell):
    """The message of the error in a cell's outputs, or None."""
    errors = [output for output in cell.outputs if output.output_type == "error"]
    return f"{errors[0].ename}: {errors[0].evalue}" if errors else None


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A copy of the course with everything released by nbgrader's own command."""
    folder = tmp_path_factory.mktemp("course")
    shutil.copy(COURSE / "nbgrader_config.py", folder)
    shutil.copytree(COURSE / "source", folder / "source")
    for unit in UNITS:
        nbgrader(folder, "generate_assignment", unit)
    return folder


def nbgrader(folder, *arguments):
    result = subprocess.run(
        [sys.executable, "-m", "nbgrader", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert result.returncode == 0, result.stderr


@pytest.fixture(scope="module", params=UNITS)
def executed(request, tmp_path_factory):
    """A unit, run once with its solutions and then with every answer: (unit, notebook, answers, peak in bytes)."""
    notebook, placed = with_every_answer(request.param)
    notebook, peak = run(notebook, tmp_path_factory.mktemp("unit"))
    return request.param, notebook, placed, peak


def test_the_solution_passes_every_check_in_silence(executed, capsys):
    """No error anywhere, nothing on stderr in a check cell, and under 1 GiB of memory."""
    unit, notebook, _, peak = executed
    for cell in notebook.cells[: len(source(unit).cells)]:
        if cell.cell_type == "code":
            assert failure(cell) is None, cell.source
            quiet = not cell.metadata.get("nbgrader", {}).get("grade")
            assert quiet or [output for output in cell.outputs if output.get("name") == "stderr"] == [], (
                cell.source
            )
    with capsys.disabled():
        print(f"\n  {unit}: {peak / 2**20:.0f} MiB at its peak")
    assert peak < GIB


@pytest.mark.parametrize("unit", UNITS)
def test_the_released_notebook_fails_every_check_readably(unit, course, tmp_path):
    """No check passes before anything is written, and each says what it expected and found."""
    released = nbformat.read(course / "release" / unit / f"{unit}.ipynb", as_version=4)
    text = nbformat.writes(released)
    assert "BEGIN SOLUTION" not in text
    assert "HIDDEN TESTS" not in text
    notebook, _ = run(released, tmp_path)
    for name, cell in check_cells(notebook).items():
        message = failure(cell)
        assert message is not None, f"{name} passes"
        assert re.match(r"(CheckFailed: expected: |NotImplementedError: )", message), f"{name}: {message}"


def with_every_answer(unit):
    """The unit's notebook with all its answers, one after another, each followed by the checks of its exercise.

    A check depends on nothing that a later cell rebinds, so one kernel serves for all, and TensorFlow is imported
    once. Cells that are nobody's (pictures, training to look at) run once, at the start.
    """
    notebook = source(unit)
    checks = check_cells(notebook)
    placed = []
    for answer in corpus(unit):
        cell = nbformat.v4.new_code_cell(answer.code)
        own = [
            nbformat.from_dict(checks[name]) for name in checks if name.startswith(f"{answer.exercise}-check")
        ]
        for copy in own:
            copy.id = nbformat.v4.new_code_cell().id
        notebook.cells.extend([cell, *own])
        placed.append((answer, own))
    return notebook, placed


def test_every_right_answer_passes_and_every_wrong_one_is_caught(executed):
    """A right answer fails no check of its exercise; a wrong one fails the check that is meant, for its reason."""
    _, notebook, placed, _ = executed
    by_id = {cell.id: cell for cell in notebook.cells}
    wrong = []
    for answer, own in placed:
        messages = {cell.metadata.nbgrader.grade_id: failure(by_id[cell.id]) for cell in own}
        failed = {name: message for name, message in messages.items() if message}
        label = f"{answer.exercise}, {'right' if answer.right else 'wrong'}: {answer.name}"
        if answer.right and failed:
            wrong.append(f"{label}: {failed}")
        elif not answer.right and answer.caught_by not in failed:
            wrong.append(f"{label}: not caught by {answer.caught_by}, failed: {failed}")
        elif not answer.right and answer.message not in failed[answer.caught_by]:
            wrong.append(f"{label}: message lacks {answer.message!r}: {failed[answer.caught_by]}")
    assert wrong == []


@pytest.mark.parametrize("unit", UNITS)
def test_every_exercise_has_right_and_wrong_answers(unit):
    """At least one right and one wrong answer for each exercise, and points for each check, 20 in all."""
    notebook = source(unit)
    exercises = set(answers.solution_cells(notebook))
    assert {answer.exercise for answer in corpus(unit) if answer.right} == exercises
    assert {answer.exercise for answer in corpus(unit) if not answer.right} == exercises
    checks = check_cells(notebook)
    assert all(any(name.startswith(f"{exercise}-check") for exercise in exercises) for name in checks)
    assert {answer.caught_by for answer in corpus(unit) if not answer.right} <= set(checks)
    assert sum(cell.metadata.nbgrader.points for cell in checks.values()) == 20


def test_nbgraders_own_commands_work_on_the_course(course):
    """generate_assignment, autograde and generate_feedback: the solutions get full marks and feedback."""
    for unit in UNITS:
        folder = course / "submitted" / "ada" / unit
        folder.mkdir(parents=True)
        shutil.copy(course / "source" / unit / f"{unit}.ipynb", folder)
        nbgrader(course, "autograde", unit)
        nbgrader(course, "generate_feedback", unit)
        assert (course / "feedback" / "ada" / unit / f"{unit}.html").stat().st_size > 10_000
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        scores = {unit: gradebook.find_submission(unit, "ada") for unit in UNITS}
        assert {unit: (found.score, found.max_score) for unit, found in scores.items()} == dict.fromkeys(
            UNITS, (20.0, 20.0)
        )
        assert not any(found.needs_manual_grade for found in scores.values())
