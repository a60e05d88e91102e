"""What grading came to: one result a submission, as a table, as JSON, and with a reason for each lost point."""

# mypy: allow-untyped-calls
# (nbformat has types, but not everywhere)

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import nbformat
from nbgrader import utils
from nbgrader.api import Gradebook, MissingEntry
from rich.cells import cell_len, set_cell_size
from rich.text import Text

from autograder.grading.course import Course
from autograder.grading.score import Points, points

Status = Literal["graded", "repaired", "needs-person"]


@dataclass(frozen=True)
class Result:
    """What one student's work on one unit came to.

    Attributes:
        student: who handed it in.
        unit: the unit's name.
        score: points, as the gradebook has them (a person's marks included, a late penalty taken off).
        max: points that can be had.
        status: graded; repaired: graded after cells were put right; needs-person: see the reasons.
        reasons: for repairs, lost points and what a person has to look at, a sentence each.
        seconds: how long it took now; near 0 where an earlier run still holds.
    """

    student: str
    unit: str
    score: float
    max: float
    status: Status
    reasons: tuple[str, ...]
    seconds: float = 0.0


def read(course: Course, unit: str, student: str) -> Result:
    """The result of a submission that has been autograded, from the gradebook and the executed notebook."""
    score, maximum, manual = _gradebook(course, unit, student)
    notebook = nbformat.read(course.autograded / student / unit / f"{unit}.ipynb", as_version=4)
    repairs = notebook.metadata.get("autograder", {}).get("repairs", [])
    doubts = _doubts(notebook)
    known = {doubt.split(":")[0] for doubt in doubts}
    doubts += [f"{cell}: to be marked by a person" for cell in manual if cell not in known]
    status: Status = "needs-person" if doubts else "repaired" if repairs else "graded"
    return Result(student, unit, score, maximum, status, (*doubts, *repairs, *lost_points(notebook)))


def ungraded(course: Course, unit: str, student: str, reason: str) -> Result:
    """The result of a submission that could not be graded."""
    try:
        score, maximum, _ = _gradebook(course, unit, student)
    except Exception as error:
        # Whatever has become of the gradebook, the submission still gets its reason.
        reason += f" (the gradebook cannot be read: {type(error).__name__})"
        score, maximum = 0.0, 0.0
    if score:
        reason += " (the points shown are those of an earlier run)"
    return Result(student, unit, score, maximum, "needs-person", (reason,))


def lost_points(notebook: Any) -> list[str]:
    """Why points were lost, as `exercise: message`, in the notebook's order.

    Args:
        notebook: an executed notebook.
    """
    answers = {cell.metadata.nbgrader["grade_id"]: cell for cell in notebook.cells if utils.is_solution(cell)}
    exercises: dict[str, list[str]] = {}
    for cell in notebook.cells:
        if not utils.is_grade(cell) or utils.is_solution(cell) or cell.cell_type != "code":
            continue
        result = points(cell)
        if result.earned == result.maximum or result.doubt:
            continue
        exercise = exercise_of(cell.metadata.nbgrader["grade_id"], answers)
        error = _last_error(cell)
        if error is None:
            message = _partly(cell, result)
        else:
            # Where the answer itself broke off, the check can only stumble over what is not there.
            if exercise in answers and error.ename not in ("AssertionError", "CheckFailed", "NotRun"):
                error = _last_error(answers[exercise]) or error
            message = _first_line(error)
        exercises.setdefault(message, [])
        if exercise not in exercises[message]:
            exercises[message].append(exercise)
    return [f"{', '.join(names)}: {message}" for message, names in exercises.items()]


def exercise_of(check: str, exercises: Iterable[str]) -> str:
    """The exercise that a check cell belongs to, by its grade id (`owning-layer-check-loss` → `owning-layer`)."""
    candidates = [exercise for exercise in exercises if check.startswith(f"{exercise}-check")]
    return max(candidates, key=len, default=check)


def document(results: Sequence[Result], seconds: float) -> dict[str, Any]:
    """What `autograder grade --json` prints."""
    rows = [{**asdict(result), "seconds": round(result.seconds, 1)} for result in results]
    return {"seconds": round(seconds, 1), "submissions": rows}


def table(results: Sequence[Result], handed_in: Mapping[tuple[str, str], str] | None = None) -> Text:
    """One row a submission, its reasons below it.

    Args:
        results: one or more.
        handed_in: what is known beforehand of a (student, unit), shown as one more column.
    """
    known = handed_in or {}
    rows = [("student", "unit", "score", "status", "handed in" if known else "")]
    for result in results:
        score = f"{result.score:g} / {result.max:g}"
        rows.append(
            (result.student, result.unit, score, result.status, known.get((result.student, result.unit), ""))
        )
    widths = [max(cell_len(row[column]) for row in rows) for column in range(4)]
    colours = {"graded": "green", "repaired": "yellow", "needs-person": "red"}
    drawn = Text()
    for number, row in enumerate(rows):
        cells = [set_cell_size(cell, width) for cell, width in zip(row, widths, strict=False)]
        cells[2] = " " * (widths[2] - cell_len(row[2])) + row[2]
        style = "bold" if number == 0 else ""
        drawn.append("  ".join(cells[:3]) + "  ", style)
        drawn.append(cells[3], style or colours[row[3]])
        drawn.append(f"  {row[4]}".rstrip() + "\n", style)
        for reason in results[number - 1].reasons if number else ():
            drawn.append(f"    {reason}\n", "dim")
    drawn.rstrip()
    return drawn


def _gradebook(course: Course, unit: str, student: str) -> tuple[float, float, list[str]]:
    """Score, maximum, and the grade cells that wait for a person."""
    from nbgrader.coursedir import CourseDirectory

    with Gradebook(CourseDirectory(config=course.config).db_url) as gradebook:
        try:
            submission = gradebook.find_submission(unit, student)
        except MissingEntry:
            try:
                return 0.0, gradebook.find_assignment(unit).max_score, []
            except MissingEntry:
                return 0.0, 0.0, []
        penalty = sum(notebook.late_submission_penalty or 0.0 for notebook in submission.notebooks)
        waiting = [
            grade.cell.name
            for notebook in submission.notebooks
            for grade in notebook.grades
            if grade.needs_manual_grade
        ]
        return submission.score - penalty, submission.max_score, waiting


def _doubts(notebook: Any) -> list[str]:
    """What the student may not be at fault for: values that are no score, packages that are not there."""
    doubts = []
    for cell in notebook.cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id")
        if utils.is_grade(cell) and (doubt := points(cell).doubt):
            doubts.append(f"{name}: {doubt}")
        error = _last_error(cell)
        if (
            utils.is_locked(cell)
            and error is not None
            and error.ename in ("ImportError", "ModuleNotFoundError")
        ):
            doubts.append(f"{name}: missing package: {_first_line(error)}")
    return doubts


def _last_error(cell: Any) -> Any:
    errors = [output for output in cell.get("outputs", []) if output.output_type == "error"]
    return errors[-1] if errors else None


def _partly(cell: Any, result: Points) -> str:
    """Of a cell that gave a number: the points, and what a check printed of the first claim that does not hold."""
    if cell.execution_count is None:
        return "not run"
    printed = "".join(o.text for o in cell.outputs if o.output_type == "stream" and o.name == "stdout")
    expected = next((line for line in printed.split("\n") if line.startswith("expected:")), "")
    return f"{result.earned:g} of {result.maximum:g} points" + (f", {expected}" if expected else "")


def _first_line(error: Any) -> str:
    """An error output in one line."""
    line = error.evalue.strip().split("\n")[0]
    if error.ename in ("AssertionError", "CheckFailed", "CellTimeoutError", "KernelDied", "NotRun") and line:
        return str(line)
    return f"{error.ename}: {line}" if line else str(error.ename)
