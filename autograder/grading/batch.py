"""Grades many submissions, one after another, so that none stops or changes another one."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import autograder
from autograder.grading import report, steps
from autograder.grading.course import CONFIG, Course, StepError, Submission
from autograder.grading.intake import obstacle
from autograder.grading.report import Result

_MARK = ".autograder.json"
"""Beside an executed submission: what it was made from. nbgrader removes it together with the notebook."""


def grade(course: Course, submissions: Iterable[Submission], *, force: bool = False) -> Iterator[Result]:
    """Grade submissions and yield a result for each, in their order.

    A submission whose files, unit and grader are as they were at an earlier run is not run again.

    Args:
        course: where the submissions are; release/, autograded/, feedback/ and the gradebook are written.
        submissions: as `course.submissions()` returns them.
        force: run them again even so.
    """
    released: dict[str, str] = {}
    for submission in submissions:
        started = time.monotonic()
        try:
            result = _grade(course, submission, released, force)
        except Exception as error:
            steps.log.exception("%s", submission)
            reason = f"the grader is at fault, not the student: {type(error).__name__}: {error}"
            result = report.ungraded(course, submission.unit, submission.student, reason)
        yield replace(result, seconds=time.monotonic() - started)


def _grade(course: Course, submission: Submission, released: dict[str, str], force: bool) -> Result:
    student, unit = submission.student, submission.unit
    if submission.misplaced:
        return report.ungraded(course, unit, student, submission.misplaced)
    folder = course.submitted / student / unit
    mark = course.autograded / student / unit / _MARK
    made_from = {"submission": _digest([folder]), "grader": _grader(course, unit)}
    if not force and mark.is_file() and json.loads(mark.read_text()) == made_from:
        return report.read(course, unit, student)
    if unit not in released:
        released[unit] = _release(course, unit)
    if trouble := released[unit] or obstacle(folder, unit):
        return report.ungraded(course, unit, student, trouble)
    try:
        steps.autograde(course, unit, student)
    except StepError as error:
        return report.ungraded(course, unit, student, f"nbgrader could not grade it: {error.reason}")
    result = report.read(course, unit, student)
    try:
        steps.feedback(course, unit, student)
    except StepError as error:
        trouble = f"graded, but the feedback could not be written: {error.reason}"
        return replace(result, status="needs-person", reasons=(trouble, *result.reasons))
    mark.write_text(json.dumps(made_from))
    return result


def _release(course: Course, unit: str) -> str:
    """Bring the gradebook up to the unit's source; returns why that is impossible, or nothing."""
    try:
        steps.release(course, unit)
    except StepError as error:
        if "there are submissions associated with it" in error.reason:
            return (
                f"the unit has got other test or solution cells since its first submission was graded; to grade "
                f"it all again: cd {course.root} && nbgrader db assignment remove {unit} --force"
            )
        return f"the unit itself is at fault: {error.reason}"
    return ""


def _grader(course: Course, unit: str) -> str:
    package = Path(autograder.__file__).parent
    return _digest([course.source / unit, course.root / CONFIG, package])


def _digest(paths: Iterable[Path]) -> str:
    """A digest of files and of all files in folders, hidden ones and bytecode left out."""
    digest = hashlib.sha256()
    for path in paths:
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            inner = file.relative_to(path)
            if file.is_file() and not any(p.startswith((".", "__pycache__")) for p in inner.parts):
                content = hashlib.sha256(file.read_bytes()).hexdigest()
                digest.update(f"{inner}\0{content}\0".encode())
    return digest.hexdigest()
