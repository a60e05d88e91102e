"""A class of submissions, graded by nbgrader in real kernels: what students do to a notebook, and what comes of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from conftest import SETUP, copy_course, hand_in, make_course
from nbformat.v4 import new_code_cell
from nbgrader.api import Gradebook

from autograder.grading import batch, steps
from autograder.grading.course import Course, CourseError
from autograder.grading.report import Result

UNIT = "01-first"


def by_id(notebook: Any, name: str) -> Any:
    return next(cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade_id") == name)


def marks(value: str) -> dict[str, str]:
    return {"marks": f"def marks():\n    return {value}"}


def tag(notebook: Any) -> None:
    for cell in notebook.cells:
        cell.metadata["tags"] = ["skip-execution", "raises-exception"]


def delete(*names: str) -> Callable[[Any], None]:
    def change(notebook: Any) -> None:
        for name in names:
            notebook.cells.remove(by_id(notebook, name))

    return change


def weaken(notebook: Any) -> None:
    by_id(notebook, "double-check").source = "assert True"


def retype(notebook: Any) -> None:
    check = by_id(notebook, "double-check")
    check.cell_type = "markdown"
    del check["outputs"], check["execution_count"]


def demote(notebook: Any) -> None:
    by_id(notebook, "double-check").metadata.nbgrader["grade"] = False


def copy_cells(notebook: Any) -> None:
    for name in ("double", "double-check"):
        copy = nbformat.from_dict(by_id(notebook, name))
        copy.id = f"{name}-copy"
        notebook.cells.append(copy)


def forge(notebook: Any) -> None:
    """Outputs, a count and notes on repairs that the grader did not make; a grade cell of the student's own."""
    check = by_id(notebook, "last-check")
    check.execution_count = 7
    notebook.metadata["autograder"] = {"repairs": ["forged"]}
    role = {"grade_id": "bonus", "grade": True, "solution": False, "locked": True, "points": 100}
    role |= {"schema_version": 3, "task": False}
    notebook.cells.append(new_code_cell("1", metadata={"nbgrader": role}))


def other_kernel(notebook: Any) -> None:
    notebook.metadata["kernelspec"] = {
        "name": "python3.9-myenv",
        "display_name": "mine",
        "language": "python",
    }


SHOUT = "import sys, warnings\n\n\ndef double(x):\n    warnings.warn('TFA is at its end')\n"
SHOUT += "    print('noise', file=sys.stderr)\n    return 2 * x"
ENDLESS = "def last():\n    while True:\n        pass"
DEAF = "import time\n\n\ndef last():\n    while True:\n        try:\n            time.sleep(1)\n"
DEAF += "        except KeyboardInterrupt:\n            pass"
DIE = "import os\n\n\ndef marks():\n    os._exit(0)"

STUDENTS: dict[str, dict[str, Any]] = {
    "right": {},
    "wrong": {"answers": {"double": "def double(x):\n    return x * x"}},
    "unanswered": {"answers": {"double": 'raise NotImplementedError("no answer yet")'}},
    "slip": {"answers": {"double": "def double(x) return x"}},
    "shout": {"answers": {"double": SHOUT}},
    "partly": {"answers": marks("2.5")},
    "nothing": {"answers": marks("0.0")},
    "nan": {"answers": marks("float('nan')")},
    "negative": {"answers": marks("-1")},
    "too-much": {"answers": marks("500")},
    "text": {"answers": marks("'full'")},
    "true": {"answers": marks("True")},
    "skip": {"answers": {"double": "double = None"}, "change": tag},
    "deleted": {"change": delete("double-check", "setup")},
    "weakened": {"answers": {"double": "double = abs"}, "change": weaken},
    "retyped": {"change": retype},
    "demoted": {"change": demote},
    "copied": {"change": copy_cells},
    "forged": {"answers": {"last": "last = None"}, "change": forge},
    "kernel": {"change": other_kernel},
    "died": {"answers": {"marks": DIE}},
    "endless": {"answers": {"last": ENDLESS}},
    "deaf": {"answers": {"double": DEAF.replace("last()", "double(x)")}},
    "asks": {"answers": {"last": "def last():\n    return input()"}},
    "quits": {"answers": {"double": "import sys\n\n\ndef double(x):\n    sys.exit(0)"}},
    "Zoë [1] +x": {},
}


@pytest.fixture(scope="module")
def school(tmp_path_factory: pytest.TempPathFactory) -> tuple[Course, dict[str, Result]]:
    """A class, graded once, with the results by student."""
    course = make_course(tmp_path_factory.mktemp("school") / "course")
    for student, work in STUDENTS.items():
        hand_in(course, student, work.get("answers"), change=work.get("change"))
    for student, content in {
        "cut-off": hand_in(course, "cut-off").read_bytes()[:500],
        "no-bytes": b"",
        "no-notebook": b"[1, 2]",
        "latin": "{'ä': 1}".encode("latin-1"),
        "no-cells": b'{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}',
    }.items():
        folder = course.submitted / student / UNIT
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{UNIT}.ipynb").write_bytes(content)
    hand_in(course, "renamed").rename(course.submitted / "renamed" / UNIT / f"{UNIT} (1).ipynb")
    (course.submitted / "empty" / UNIT).mkdir(parents=True)
    hand_in(course, "elsewhere").parent.rename(course.submitted / "elsewhere" / "first")
    stray = hand_in(course, "stray")
    stray.rename(course.submitted / "stray" / f"{UNIT}.ipynb")
    stray.parent.rmdir()
    (course.submitted / f"{UNIT}.ipynb").write_text("{}")
    (hand_in(course, "dateless").parent / "timestamp.txt").write_text("yesterday, or so")
    submissions = course.submissions()
    return course, {result.student: result for result in batch.grade(course, submissions)}


@pytest.mark.parametrize(
    ("student", "score", "status", "reasons"),
    [
        ("right", 20, "graded", []),
        ("wrong", 12, "graded", ["double: expected: double(4) is 8"]),
        ("unanswered", 12, "graded", ["double: NotImplementedError: no answer yet"]),
        ("slip", 12, "graded", ["double: SyntaxError: expected ':'"]),
        ("shout", 20, "graded", []),
        ("partly", 17.5, "graded", ["marks: 2.5 of 5 points"]),
        ("nothing", 15, "graded", ["marks: 0 of 5 points"]),
        ("nan", 15, "needs-person", ["marks-check: its last value, nan, is no number of points from 0 to 5"]),
        ("negative", 15, "needs-person", ["marks-check: its last value, -1, is no"]),
        ("too-much", 15, "needs-person", ["marks-check: its last value, 500, is no"]),
        ("text", 15, "needs-person", ["marks-check: its last value, 'full', is no"]),
        ("true", 15, "needs-person", ["marks-check: its last value, True, is no"]),
        ("skip", 12, "graded", ["double: TypeError: 'NoneType' object is not callable"]),
        ("deleted", 20, "repaired", ["cell setup had been deleted", "cell double-check had been deleted"]),
        (
            "weakened",
            12,
            "repaired",
            ["cell double-check had been changed", "double: expected: double(4) is 8"],
        ),
        ("retyped", 20, "repaired", ["cell double-check had been changed"]),
        ("demoted", 20, "repaired", ["cell double-check had been changed"]),
        ("copied", 20, "repaired", ["cell 3 had a copy further down", "cell 4 had a copy further down"]),
        ("forged", 13, "graded", ["last: TypeError: 'NoneType' object is not callable"]),
        ("kernel", 20, "graded", []),
        (
            "died",
            8,
            "graded",
            ["marks: the kernel died while", "last: not run: the kernel had died in cell 6"],
        ),
        ("endless", 13, "graded", ["last: out of time: the limit is 8 s a cell"]),
        (
            "deaf",
            0,
            "graded",
            ["double: out of time (8 s), and could not be interrupted", "marks, last: not run"],
        ),
        ("asks", 13, "graded", ["last: StdinNotImplementedError: raw_input was called"]),
        ("quits", 12, "graded", ["double: SystemExit: 0"]),
        ("Zoë [1] +x", 20, "graded", []),
        ("cut-off", 0, "needs-person", ["01-first.ipynb is no notebook, or was cut off"]),
        ("no-bytes", 0, "needs-person", ["01-first.ipynb is empty (0 bytes)"]),
        ("no-notebook", 0, "needs-person", ["01-first.ipynb is no notebook"]),
        ("latin", 0, "needs-person", ["01-first.ipynb is not in UTF-8"]),
        ("no-cells", 0, "needs-person", ["01-first.ipynb has no cells"]),
        ("renamed", 0, "needs-person", ["01-first.ipynb is missing (there is 01-first (1).ipynb): rename"]),
        ("empty", 0, "needs-person", ["no notebook was handed in"]),
        ("elsewhere", 0, "needs-person", ["no unit has this name; there are 01-first"]),
        ("stray", 0, "needs-person", ["01-first.ipynb lies beside the units' folders"]),
        ("?", 0, "needs-person", ["01-first.ipynb lies beside the students' folders"]),
        ("dateless", 0, "needs-person", ["timestamp.txt cannot be read as a date"]),
    ],
)
def test_every_submission_ends_in_a_result_with_a_reason(
    school: tuple[Course, dict[str, Result]], student: str, score: float, status: str, reasons: list[str]
):
    """Points, status and reasons are the submission's own, whatever the others in the class did."""
    result = school[1][student]
    assert (result.score, result.status) == (score, status), result.reasons
    assert len(result.reasons) == len(reasons), result.reasons
    for reason, words in zip(result.reasons, reasons, strict=True):
        assert reason.startswith(words)


def test_the_gradebook_and_the_folders_are_nbgraders(school: tuple[Course, dict[str, Result]]):
    """Graded work has its points in the gradebook, an executed notebook and feedback; what failed has none."""
    course, results = school
    graded = {path.parent.parent.name for path in course.autograded.glob("*/*/*.ipynb")}
    assert graded == set(STUDENTS)
    assert {path.parent.parent.name for path in course.feedback.glob("*/*/*.html")} == graded
    with Gradebook(f"sqlite:///{course.root / 'gradebook.db'}") as gradebook:
        for student in graded:
            assert gradebook.find_submission(UNIT, student).score == results[student].score
        waiting = {s.student.id for s in gradebook.assignment_submissions(UNIT) if s.needs_manual_grade}
    assert waiting == {"nan", "negative", "too-much", "text", "true"}


def test_feedback_shows_the_finding_but_no_hidden_test(school: tuple[Course, dict[str, Result]]):
    """What was claimed, expected and found is in the feedback; the hidden test and its traceback are not."""
    course, _ = school
    for student in ("right", "wrong", "weakened"):
        feedback = (course.feedback / student / UNIT / f"{UNIT}.html").read_text()
        assert "secret_number" not in feedback
        assert "HIDDEN" not in feedback
        assert "doubles numbers" in feedback
    assert "double(4) is 8" in (course.feedback / "wrong" / UNIT / f"{UNIT}.html").read_text()
    assert "secret_number" in (course.autograded / "wrong" / UNIT / f"{UNIT}.ipynb").read_text()


def test_stderr_stays_in_sight(school: tuple[Course, dict[str, Result]]):
    """Messages on stderr cost no points, and are still there to read."""
    notebook = nbformat.read(school[0].autograded / "shout" / UNIT / f"{UNIT}.ipynb", as_version=4)
    streams = [output.name for output in by_id(notebook, "double-check").outputs]
    assert streams == ["stderr"]


@pytest.fixture(scope="module")
def graded_once(tmp_path_factory: pytest.TempPathFactory) -> Course:
    """A course with two submissions, both graded."""
    course = make_course(tmp_path_factory.mktemp("graded") / "course")
    hand_in(course, "ada")
    hand_in(course, "ben", {"last": "last = None"})
    assert [result.score for result in batch.grade(course, course.submissions())] == [20, 13]
    return course


@pytest.fixture
def graded(graded_once: Course, tmp_path: Path) -> Course:
    """A copy of it, to change."""
    return copy_course(graded_once, tmp_path / "course")


def run_again(course: Course, **options: Any) -> tuple[list[float], list[str]]:
    """Grade once more: all scores, and whose notebooks were run now."""
    paths = list(course.autograded.glob("*/*/*.ipynb"))
    before = {path: path.stat().st_mtime_ns for path in paths}
    scores = [result.score for result in batch.grade(course, course.submissions(), **options)]
    return scores, sorted(p.parent.parent.name for p in paths if p.stat().st_mtime_ns != before[p])


def test_only_what_changed_is_run_again(graded: Course):
    """Unchanged work keeps its points without a run; changed work, a changed unit and --force are run."""
    assert run_again(graded) == ([20, 13], [])
    hand_in(graded, "ben")
    assert run_again(graded) == ([20, 20], ["ben"])
    assert run_again(graded, force=True) == ([20, 20], ["ada", "ben"])
    source = graded.source / UNIT / f"{UNIT}.ipynb"
    source.write_text(source.read_text().replace(" is {expected}", " must be {expected}"))
    assert SETUP.replace(" is {", " must be {") in nbformat.read(source, as_version=4).cells[1].source
    assert run_again(graded) == ([20, 20], ["ada", "ben"])


def test_a_persons_marks_count_and_are_kept(graded: Course):
    """Points that a person gave count at once; after another run a person is asked whether they still hold."""
    with Gradebook(f"sqlite:///{graded.root / 'gradebook.db'}") as gradebook:
        gradebook.find_grade("last-check", UNIT, UNIT, "ben").manual_score = 5
        gradebook.db.commit()
    assert run_again(graded) == ([20, 18], [])
    results = list(batch.grade(graded, graded.submissions(students=["ben"]), force=True))
    assert [(r.score, r.status, r.reasons[0]) for r in results] == [
        (18, "needs-person", "last-check: to be marked by a person")
    ]


def test_a_unit_with_other_cells_asks_for_a_person(graded: Course):
    """A test cell cannot be added to a unit that has submissions: that is said, with the command that helps."""
    path = graded.source / UNIT / f"{UNIT}.ipynb"
    source = nbformat.read(path, as_version=4)
    more = nbformat.from_dict(source.cells[-1])
    more.id = more.metadata.nbgrader["grade_id"] = "last-check-more"
    source.cells.append(more)
    nbformat.write(source, path)
    results = list(batch.grade(graded, graded.submissions()))
    assert {result.status for result in results} == {"needs-person"}
    assert f"nbgrader db assignment remove {UNIT} --force" in results[0].reasons[0]


def test_a_broken_unit_does_not_stop_the_others(tmp_path: Path):
    """Work on a unit whose source is at fault waits for a person; the other unit is graded."""
    course = make_course(tmp_path / "course", ("01-first", "02-second"))
    hand_in(course, "ada")
    hand_in(course, "ada", name="02-second")
    path = course.source / "01-first" / "01-first.ipynb"
    path.write_text(path.read_text().replace("### END SOLUTION", ""))
    first, second = batch.grade(course, course.submissions())
    assert (first.unit, first.status) == ("01-first", "needs-person")
    assert "the unit itself is at fault: RuntimeError: no end solution" in first.reasons[0]
    assert (second.unit, second.score, second.status) == ("02-second", 20, "graded")


def test_a_missing_package_is_not_the_students_fault(course: Course):
    """Where a cell of the course's own cannot import something, a person is asked."""
    path = course.source / UNIT / f"{UNIT}.ipynb"
    path.write_text(path.read_text().replace("import CheckFailed", "import NoSuchThing, CheckFailed"))
    hand_in(course, "ada")
    (result,) = batch.grade(course, course.submissions())
    assert result.status == "needs-person"
    assert result.reasons[0].startswith(
        "setup: missing package: ImportError: cannot import name 'NoSuchThing'"
    )


def test_a_fault_of_the_grader_is_called_so(course: Course, monkeypatch: pytest.MonkeyPatch):
    """An error that nobody foresaw is the grader's, and does not stop the next submission."""
    hand_in(course, "ada")
    hand_in(course, "ben")
    autograde = steps.autograde

    def fail_once(course: Course, unit: str, student: str) -> None:
        if student == "ada":
            raise ZeroDivisionError("a slip")
        autograde(course, unit, student)

    monkeypatch.setattr(steps, "autograde", fail_once)
    ada, ben = batch.grade(course, course.submissions())
    assert ada.status == "needs-person"
    assert ada.reasons == ("the grader is at fault, not the student: ZeroDivisionError: a slip",)
    assert ben.score == 20


def test_find_lists_what_exists(course: Course):
    """An unknown unit or student is an error that lists the known ones; a filter keeps the rest out."""
    hand_in(course, "ada")
    hand_in(course, "ben")
    assert [s.student for s in course.submissions([UNIT], ["ben"])] == ["ben"]
    with pytest.raises(CourseError, match=r"no unit is called 'first'; there are 01-first"):
        course.submissions(["first"])
    with pytest.raises(CourseError, match=r"no student 'cy' has handed in; there are: ada, ben"):
        course.submissions(students=["cy"])


def test_marks_say_what_they_were_made_from(graded: Course):
    """Beside an executed notebook lie the digests of the work and of the grader; feedback holds none of it."""
    mark = graded.autograded / "ada" / UNIT / ".autograder.json"
    assert set(json.loads(mark.read_text())) == {"submission", "grader"}
    assert [path.name for path in (graded.feedback / "ada" / UNIT).iterdir()] == [f"{UNIT}.html"]


def test_the_environment_need_not_be_activated(course: Course, monkeypatch: pytest.MonkeyPatch):
    """Called by its path, as by cron, the grader finds `alembic`, with which nbgrader makes a new gradebook."""
    hand_in(course, "ada")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    (result,) = batch.grade(course, course.submissions())
    assert (result.status, result.score) == ("graded", 20)


def test_a_lost_gradebook_does_not_stop_the_class(graded: Course):
    """Every submission still gets a result with a reason."""
    (graded.root / "gradebook.db").write_text("no database")
    results = list(batch.grade(graded, graded.submissions(), force=True))
    assert [result.status for result in results] == ["needs-person", "needs-person"]
    assert all("the gradebook cannot be read" in result.reasons[0] for result in results)


def test_a_notebook_that_lost_nbgraders_metadata(course: Course):
    """Cells are known again by their own ids; where those are gone too, a person is asked, and not 0 given."""

    def without_metadata(notebook: Any, *, ids: bool) -> None:
        for number, cell in enumerate(notebook.cells):
            cell.metadata = nbformat.from_dict({})
            if not ids:
                cell.id = f"cell-{number}"

    hand_in(course, "ada", change=lambda notebook: without_metadata(notebook, ids=True))
    hand_in(course, "ben", change=lambda notebook: without_metadata(notebook, ids=False))
    ada, ben = batch.grade(course, course.submissions())
    assert (ada.status, ada.score) == ("repaired", 20)
    assert ada.reasons[0].startswith("nbgrader's metadata had been lost and was put back: setup, double")
    assert ben.status == "needs-person"
    assert "metadata has been lost" in ben.reasons[0]
