"""The points of a test cell, and the only place that writes them to the gradebook."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from nbgrader import utils
from nbgrader.preprocessors import SaveAutoGrades

_NUMPY_SCALAR = re.compile(r"np\.\w+\((?P<number>[^()]*)\)")


@dataclass(frozen=True)
class Points:
    """What a grade cell earned.

    Attributes:
        earned: points, from 0 to `maximum`; None where a person has to give them.
        maximum: points of the cell.
        doubt: why a person should look at it; empty where nobody has to.
    """

    earned: float | None
    maximum: float
    doubt: str = ""


def points(cell: Any) -> Points:
    """The points of an executed grade cell.

    As in nbgrader an error earns nothing, a last value that is a number earns so many points, and no value
    earns all. Unlike there, messages on stderr cost nothing (TensorFlow and its libraries write them), a cell
    that was not run earns nothing, and a last value that is no number from 0 to the maximum earns nothing and
    is left to a person.

    Args:
        cell: a grade cell of an executed notebook.

    Raises:
        ValueError: the cell is no grade cell.
    """
    if not utils.is_grade(cell):
        raise ValueError("not a grade cell")
    maximum = float(cell.metadata.nbgrader["points"])
    if utils.is_solution(cell) or cell.cell_type != "code":
        earned, _ = utils.determine_grade(cell)
        return Points(earned, maximum)
    if cell.execution_count is None or any(output.output_type == "error" for output in cell.outputs):
        return Points(0.0, maximum)
    for output in cell.outputs:
        if output.output_type == "execute_result":
            return _partial(output.data.get("text/plain", ""), maximum)
    return Points(maximum, maximum)


def _partial(text: str, maximum: float) -> Points:
    """The points that a last value, as text, stands for."""
    scalar = _NUMPY_SCALAR.fullmatch(text)
    try:
        value = float(scalar["number"] if scalar else text)
    except ValueError:
        value = math.nan
    if 0 <= value <= maximum:
        return Points(abs(value), maximum)
    shown = text if len(text) <= 40 else f"{text[:40]}…"
    return Points(0.0, maximum, f"its last value, {shown}, is no number of points from 0 to {maximum:g}")


class Score(SaveAutoGrades):  # type: ignore[misc]  # nbgrader is untyped
    """nbgrader's SaveAutoGrades with the points of `points`."""

    def _add_score(self, cell: Any, resources: Any) -> None:
        grade = self.gradebook.find_grade(
            cell.metadata.nbgrader["grade_id"], self.notebook_id, self.assignment_id, self.student_id
        )
        result = points(cell)
        grade.auto_score = result.earned
        # A score that a person gave stays; whether it still holds after another run is for a person to say.
        grade.needs_manual_grade = bool(
            grade.manual_score is not None or result.earned is None or result.doubt
        )
        self.gradebook.db.commit()
