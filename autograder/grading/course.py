"""A course folder: where it is, which units it has, who handed in, and nbgrader's configuration for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

CONFIG = "nbgrader_config.py"


class CourseError(Exception):
    """Something about a course folder that a person must put right; the message says what and how."""


class StepError(CourseError):
    """A converter of nbgrader gave up.

    Attributes:
        reason: why, as far as nbgrader tells.
    """

    def __init__(self, step: str, unit: str, reason: BaseException) -> None:
        self.reason = f"{type(reason).__name__}: {str(reason).strip()}"
        super().__init__(f"nbgrader's {step} gave up on {unit}: {self.reason}")


@dataclass(frozen=True)
class Submission:
    """One student's work on one unit, in submitted/STUDENT/UNIT/.

    Attributes:
        student: the student's name.
        unit: the unit's name.
        misplaced: why it lies in no place that can be graded; empty where it does.
    """

    student: str
    unit: str
    misplaced: str = ""


@dataclass(frozen=True)
class Course:
    """An nbgrader course.

    Attributes:
        root: the folder that holds `nbgrader_config.py` and `source/`.
    """

    root: Path

    @classmethod
    def find(cls, folder: Path | None = None) -> Course:
        """The course in `folder`, or, without one, the course that the working directory belongs to.

        Raises:
            CourseError: there is none.
        """
        if folder is not None:
            if not (folder / "source").is_dir():
                raise CourseError(f"{folder} is no course: it has no folder source/ with units in it")
            return cls(folder.resolve())
        here = Path.cwd()
        for parent in [here, *here.parents]:
            for root in (parent, parent / "course"):
                if (root / CONFIG).is_file() and (root / "source").is_dir():
                    return cls(root)
        raise CourseError(
            f"no course in {here} or above it (a folder with {CONFIG} and source/): "
            "go to your copy of the course first, or name it with --course DIR"
        )

    @property
    def units(self) -> list[str]:
        """Names of the units, in the order in which they are studied.

        Raises:
            CourseError: there is none.
        """
        found = sorted(path.parent.name for path in self.source.glob("*/*.ipynb"))
        if not found:
            raise CourseError(f"{self.source} holds no unit (a folder NAME with a notebook NAME.ipynb)")
        return list(dict.fromkeys(found))

    @property
    def students(self) -> list[str]:
        """Names of those who handed something in."""
        return sorted({path.parent.name for path in self.submitted.glob("*/*")})

    def submissions(self, units: Sequence[str] = (), students: Sequence[str] = ()) -> list[Submission]:
        """What has been handed in, by student and unit.

        Args:
            units: only these; all, without one.
            students: only these; all, without one.

        Raises:
            CourseError: one of the units or students does not exist; the message lists those that do.
        """
        known = self.units
        for name in units:
            if name not in known:
                raise CourseError(f"no unit is called '{name}'; there are {', '.join(known)}")
        for name in students:
            if name not in self.students:
                there = ", ".join(self.students) or "none so far"
                raise CourseError(f"no student '{name}' has handed in; there are: {there}")
        found = []
        for student in students or self.students:
            for path in sorted((self.submitted / student).iterdir()):
                unit = path.stem if path.suffix == ".ipynb" else path.name
                if unit.startswith(".") or (units and unit not in units):
                    continue
                if path.is_dir():
                    wrong = "" if unit in known else f"no unit has this name; there are {', '.join(known)}"
                elif path.suffix == ".ipynb":
                    wrong = (
                        f"{path.name} lies beside the units' folders: move it to submitted/{student}/UNIT/"
                    )
                else:
                    continue
                found.append(Submission(student, unit, wrong))
        if not units and not students:
            for path in sorted(self.submitted.glob("*.ipynb")):
                wrong = f"{path.name} lies beside the students' folders: move it to submitted/STUDENT/UNIT/"
                found.append(Submission("?", path.stem, wrong))
        return found

    @property
    def source(self) -> Path:
        """The instructors' version of the units."""
        return self.root / "source"

    @property
    def submitted(self) -> Path:
        """What students handed in: submitted/STUDENT/UNIT/UNIT.ipynb."""
        return self.root / "submitted"

    @property
    def autograded(self) -> Path:
        """The executed submissions."""
        return self.root / "autograded"

    @property
    def feedback(self) -> Path:
        """What students get back."""
        return self.root / "feedback"

    @property
    def log(self) -> Path:
        """The file in which nbgrader's messages are kept."""
        return self.root / ".nbgrader.log"

    @cached_property
    def config(self) -> Any:
        """The configuration of nbgrader, as traitlets' Config.

        Raises:
            CourseError: nbgrader_config.py cannot be run.
        """
        from traitlets.config.loader import Config, PyFileConfigLoader

        config = Config()
        if (self.root / CONFIG).is_file():
            try:
                config = PyFileConfigLoader(CONFIG, path=str(self.root)).load_config()
            except Exception as error:
                raise CourseError(f"{self.root / CONFIG}: {type(error).__name__}: {error}") from error
        config.CourseDirectory.root = str(self.root)
        return config
