"""A class of twelve submissions made out of the corpus of answers, to see grading at work."""

# mypy: allow-untyped-calls
# (nbformat has types, but not everywhere)

from __future__ import annotations

import math
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat

from autograder.answers import Answer, fill, read, solution_cells
from autograder.grading import steps
from autograder.grading.course import CONFIG, Course

SUBMISSIONS = 12


def make(course: Course, folder: Path) -> tuple[Course, dict[tuple[str, str], str]]:
    """Make a copy of a course in which a class has handed in.

    The first student answers everything right; each other one has one exercise wrong in each unit.

    Args:
        course: where source/ and answers/ are taken from.
        folder: an empty folder for the copy.

    Returns:
        The copy, and for each (student, unit) what was handed in, in words.

    Raises:
        AnswersError: an answer is not in the format, or its exercise not in the unit.
        StepError: nbgrader refuses a unit.
    """
    ignored = shutil.ignore_patterns(".ipynb_checkpoints", "__pycache__")
    shutil.copytree(course.source, folder / "source", ignore=ignored)
    if (course.root / CONFIG).is_file():
        shutil.copy(course.root / CONFIG, folder)
    copy = Course(folder)
    units = copy.units
    handed_in = {}
    for turn, unit in enumerate(units):
        corpus = course.root / "answers" / f"{unit}.md"
        answers = read(corpus) if corpus.is_file() else ()
        released = _released(copy, unit)
        solved = fill(released, _model_answers(copy, unit))
        for number in range(math.ceil(SUBMISSIONS / len(units))):
            chosen = _choose(answers, number, turn)
            student = f"student-{number + 1:02}"
            path = copy.submitted / student / unit / f"{unit}.ipynb"
            path.parent.mkdir(parents=True)
            nbformat.write(fill(solved, {exercise: answer.code for exercise, answer in chosen.items()}), path)
            wrong = [
                f"{answer.exercise} wrong ({answer.name})" for answer in chosen.values() if not answer.right
            ]
            handed_in[student, unit] = wrong[0] if wrong else "all right"
    return copy, handed_in


def _choose(answers: tuple[Answer, ...], number: int, turn: int) -> dict[str, Answer]:
    """The answers of student `number` to the unit that comes as `turn`: one wrong, unless he is the first."""
    right: dict[str, list[Answer]] = {}
    wrong: dict[str, list[Answer]] = {}
    for answer in answers:
        (right if answer.right else wrong).setdefault(answer.exercise, []).append(answer)
    chosen = {exercise: choices[number % len(choices)] for exercise, choices in right.items()}
    if number and wrong:
        exercises = list(wrong)
        exercise = exercises[(number - 1 + turn) % len(exercises)]
        choices = wrong[exercise]
        chosen[exercise] = choices[(number - 1) // len(exercises) % len(choices)]
    return chosen


def _released(course: Course, unit: str) -> Any:
    with TemporaryDirectory() as folder:
        steps.release(course, unit, Path(folder))
        return nbformat.read(Path(folder) / unit / f"{unit}.ipynb", as_version=4)


def _model_answers(course: Course, unit: str) -> dict[str, str]:
    """The solutions of the source, without the marks around them."""
    source = nbformat.read(course.source / unit / f"{unit}.ipynb", as_version=4)
    marks = ("BEGIN SOLUTION", "END SOLUTION")
    return {
        exercise: "\n".join(
            line for line in cell.source.split("\n") if not any(mark in line for mark in marks)
        )
        for exercise, cell in solution_cells(source).items()
    }
