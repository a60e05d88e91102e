"""nbgrader's converters, each on one folder: release a unit, autograde a submission, write its feedback."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

from nbgrader.converters import Autograde, GenerateAssignment, GenerateFeedback
from nbgrader.coursedir import CourseDirectory
from sqlalchemy.exc import SAWarning

from autograder.grading.course import Course, CourseError, StepError

log = logging.getLogger("autograder.nbgrader")
"""Where nbgrader's own messages go: nowhere, until `log_to` is called."""
log.addHandler(logging.NullHandler())
log.propagate = False


def log_to(path: Path, *, verbose: bool = False) -> None:
    """Keep nbgrader's messages in a file, and show them on stderr as well if `verbose`.

    Raises:
        CourseError: the file cannot be written.
    """
    try:
        handlers: list[logging.Handler] = [logging.FileHandler(path, encoding="utf-8")]
    except OSError as error:
        raise CourseError(f"cannot write to {path.parent}: {error.strerror}") from error
    if verbose:
        handlers.append(logging.StreamHandler())
    for handler in log.handlers:
        handler.close()
    log.handlers = handlers
    for handler in handlers:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.setLevel(logging.INFO)


class _OneFolder:
    """Mixed into a converter: its input is one folder, and the reason of a failure is kept.

    nbgrader looks for its input by a glob pattern, in which a bracket in a student's name or in the path of
    the course has a meaning of its own, and it logs an exception instead of passing it on.
    """

    reason: BaseException | None = None

    def init_notebooks(self: Any) -> None:
        folder = self._format_source(self.coursedir.assignment_id, self.coursedir.student_id)
        # Joined as text: nbgrader matches the "." of source/./UNIT, which a Path would leave out.
        names = sorted(path.name for path in Path(folder).glob("*.ipynb"))
        self.assignments = {folder: [f"{folder}{os.sep}{name}" for name in names]}
        self.notebooks = list[str]()

    def init_assignment(self: Any, assignment_id: str, student_id: str) -> None:
        self._keep_reason(super().init_assignment, assignment_id, student_id)  # type: ignore[misc]

    def convert_single_notebook(self: Any, notebook_filename: str) -> None:
        self._keep_reason(super().convert_single_notebook, notebook_filename)  # type: ignore[misc]

    def _keep_reason(self, do: Callable[..., None], *arguments: str) -> None:
        try:
            do(*arguments)
        except Exception as error:
            self.reason = error
            raise


class _Release(_OneFolder, GenerateAssignment):  # type: ignore[misc]  # nbgrader is untyped
    step = "generate_assignment"


class _Autograde(_OneFolder, Autograde):  # type: ignore[misc]
    step = "autograde"


class _Feedback(_OneFolder, GenerateFeedback):  # type: ignore[misc]
    step = "generate_feedback"


def release(course: Course, unit: str, into: Path | None = None) -> None:
    """Make the students' version of a unit.

    Args:
        course: where source/UNIT is.
        unit: name of the unit.
        into: a folder to write UNIT/ to, leaving gradebook and release/ alone; without it both are brought up
            to date, as by `nbgrader generate_assignment`.

    Raises:
        StepError: nbgrader refuses the unit.
    """
    config = deepcopy(course.config)
    if into is not None:
        config.CourseDirectory.release_directory = str(into)
        config.GenerateAssignment.no_database = True
        config.SaveCells.enabled = False
    _convert(_Release, config, unit, ".")


def autograde(course: Course, unit: str, student: str) -> None:
    """Run a submission and write its points to the gradebook, as `nbgrader autograde --force`.

    Raises:
        StepError: nbgrader cannot grade it.
    """
    _convert(_Autograde, course.config, unit, student)


def feedback(course: Course, unit: str, student: str) -> None:
    """Write the feedback on a graded submission, as `nbgrader generate_feedback --force`.

    Raises:
        StepError: nbgrader cannot write it.
    """
    _convert(_Feedback, course.config, unit, student)


def _convert(converter_class: Any, config: Any, unit: str, student: str) -> None:
    coursedir = CourseDirectory(config=config, log=log)
    coursedir.assignment_id, coursedir.student_id = unit, student
    converter = converter_class(coursedir=coursedir, config=config, log=log, force=True)
    try:
        _activate()
        with warnings.catch_warnings():
            # nbgrader 0.9.6 makes SQLAlchemy 2.1 warn for each new submission; neither does harm.
            warnings.simplefilter("ignore", SAWarning)
            converter.start()
    except Exception as error:
        raise StepError(converter_class.step, unit, converter.reason or error) from error


def _activate() -> None:
    """Let commands be found that nbgrader calls by their names, such as `alembic`, in its own environment."""
    path = os.environ.get("PATH", "").split(os.pathsep)
    here = str(Path(sys.executable).parent)
    if here not in path:
        os.environ["PATH"] = os.pathsep.join([here, *path])
