"""A tiny nbgrader course that needs no TensorFlow, and submissions to it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from autograder.answers import fill
from autograder.grading import steps
from autograder.grading.course import Course

ROOT = Path(__file__).resolve().parent.parent
CONFIG = ROOT / "course" / "nbgrader_config.py"

SETUP = """\
from autograder.check.judge import CheckFailed, Verdict


def equal(found, expected, what):
    if found != expected:
        raise CheckFailed(Verdict(False, f"{what} is {expected}", str(found)))"""

DOUBLE = """\
def double(x):
    ### BEGIN SOLUTION
    return 2 * x
    ### END SOLUTION"""

DOUBLE_CHECK = '''\
"""`double` doubles numbers."""
equal(double(4), 8, "double(4)")
### BEGIN HIDDEN TESTS
secret_number = 21
equal(double(secret_number), 42, "the double of another number")
### END HIDDEN TESTS'''

MARKS = """\
def marks():
    ### BEGIN SOLUTION
    return 5.0
    ### END SOLUTION"""

MARKS_CHECK = '''\
"""`marks` are as many points."""
marks()'''

LAST = """\
def last():
    ### BEGIN SOLUTION
    return "end"
    ### END SOLUTION"""

LAST_CHECK = '''\
"""`last` is the end."""
equal(last(), "end", "last()")'''


def cell(kind: str, grade_id: str, source: str, points: int | None = None) -> Any:
    """A cell of a unit: kind is locked, solution or grade."""
    role = {"grade_id": grade_id, "schema_version": 3, "task": False}
    role |= {"grade": kind == "grade", "solution": kind == "solution", "locked": kind != "solution"}
    if points is not None:
        role["points"] = points
    return new_code_cell(source, id=grade_id, metadata={"nbgrader": role})


def unit() -> Any:
    """A unit of 20 points with three exercises: double (8), marks (5) and last (7)."""
    cells = [
        new_markdown_cell("# A unit", id="title"),
        cell("locked", "setup", SETUP),
        cell("solution", "double", DOUBLE),
        cell("grade", "double-check", DOUBLE_CHECK, 8),
        cell("solution", "marks", MARKS),
        cell("grade", "marks-check", MARKS_CHECK, 5),
        cell("solution", "last", LAST),
        cell("grade", "last-check", LAST_CHECK, 7),
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return new_notebook(cells=cells, metadata={"kernelspec": kernel})


ANSWERS = """\
# 01-first

## double
### right: by addition
```python
def double(x):
    return x + x
```
### wrong: squared
- misconception: 4
- caught by: double-check
- message: 8
```python
def double(x):
    return x * x
```

## last
### right: a name
```python
END = "end"


def last():
    return END
```
### wrong: the start
- caught by: last-check
- message: end
```python
def last():
    return "start"
```
"""

MODEL_ANSWERS = {
    "double": "def double(x):\n    return 2 * x",
    "marks": "def marks():\n    return None",
    "last": 'def last():\n    return "end"',
}


def make_course(folder: Path, units: tuple[str, ...] = ("01-first",)) -> Course:
    """A course with these units, nbgrader's settings of the real one, and short time limits."""
    for name in units:
        path = folder / "source" / name / f"{name}.ipynb"
        path.parent.mkdir(parents=True)
        nbformat.write(unit(), path)
    limits = "c.Execute.timeout = 8\nc.Execute.iopub_timeout = 2\n"
    (folder / "nbgrader_config.py").write_text(f"{CONFIG.read_text()}\n{limits}")
    answers = folder / "answers" / "01-first.md"
    answers.parent.mkdir()
    answers.write_text(ANSWERS)
    return Course(folder)


@pytest.fixture
def course(tmp_path: Path) -> Course:
    """A tiny course of one unit, 01-first."""
    return make_course(tmp_path / "course")


def released(course: Course, name: str = "01-first") -> Any:
    """A unit as students get it."""
    with TemporaryDirectory() as folder:
        steps.release(course, name, Path(folder))
        return nbformat.read(Path(folder) / name / f"{name}.ipynb", as_version=4)


def hand_in(
    course: Course,
    student: str,
    answers: Mapping[str, str] | None = None,
    *,
    name: str = "01-first",
    change: Callable[[Any], None] | None = None,
) -> Path:
    """Put a submission into submitted/: right answers but for `answers`, then changed as a student may."""
    notebook = fill(released(course, name), {**MODEL_ANSWERS, **(answers or {})})
    if change is not None:
        change(notebook)
    path = course.submitted / student / name / f"{name}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)
    return path


def copy_course(course: Course, folder: Path) -> Course:
    """A copy of a course with all that lies in it."""
    shutil.copytree(course.root, folder)
    return Course(folder)
