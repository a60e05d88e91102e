"""The learner's own copies: nothing that was changed is ever lost."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from conftest import make_course

from autograder.grading.course import Course, StepError
from autograder.workspace import WorkspaceError, lay

NAME = "01-first/01-first.ipynb"
BESIDE = "01-first/01-first (new version).ipynb"


def publish(course: Course, text: str) -> None:
    """Bring out a newer version of the unit, with another title."""
    path = course.source / NAME
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[0].source = text
    nbformat.write(notebook, path)


def title(path: Path) -> str:
    return str(nbformat.read(path, as_version=4).cells[0].source)


def change(path: Path, text: str = "# mine") -> bytes:
    """Edit a notebook as a learner does; returns what is in it now."""
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[0].source = text
    nbformat.write(notebook, path)
    return path.read_bytes()


def test_units_are_laid_without_solutions(course: Course, tmp_path: Path):
    """The learner gets released notebooks: no solution, no hidden test, no trace in the course's folder."""
    (course.source / "01-first" / "images").mkdir()
    (course.source / "01-first" / "images" / "graph.svg").write_text("<svg/>")
    before = sorted(course.root.rglob("*"))
    laid = lay(course, tmp_path / "work")
    assert laid.new == [NAME, "01-first/images/graph.svg"]
    text = (tmp_path / "work" / NAME).read_text()
    assert "return 2 * x" not in text
    assert "secret_number" not in text
    assert "no answer yet" in text
    assert (tmp_path / "work" / "01-first" / "images" / "graph.svg").read_text() == "<svg/>"
    assert sorted(course.root.rglob("*")) == before


def test_laying_again_changes_nothing(course: Course, tmp_path: Path):
    """A second time finds everything in place, and the release is the same to the byte."""
    work = tmp_path / "work"
    lay(course, work)
    before = {path: path.read_bytes() for path in work.rglob("*") if path.is_file()}
    laid = lay(course, work)
    assert (laid.new, laid.refreshed, laid.kept, laid.beside) == ([], [], [], [])
    assert {path: path.read_bytes() for path in work.rglob("*") if path.is_file()} == before


def test_a_pristine_file_is_brought_up_to_date(course: Course, tmp_path: Path):
    """A file that the learner never changed is replaced by the course's newer version."""
    work = tmp_path / "work"
    lay(course, work)
    publish(course, "# newer")
    assert lay(course, work).refreshed == [NAME]
    assert title(work / NAME) == "# newer"


def test_a_notebook_that_was_only_opened_is_pristine(course: Course, tmp_path: Path):
    """The kernel's version, which JupyterLab writes into every notebook that it opens, is no change."""
    work = tmp_path / "work"
    lay(course, work)
    notebook = nbformat.read(work / NAME, as_version=4)
    notebook.metadata["language_info"] = {"name": "python", "version": "3.11.99"}
    notebook.metadata["kernelspec"]["display_name"] = "Python 3 (ipykernel)"
    nbformat.write(notebook, work / NAME)
    assert lay(course, work).kept == []
    publish(course, "# newer")
    assert lay(course, work).refreshed == [NAME]


def test_outputs_are_a_change(course: Course, tmp_path: Path):
    """What a learner's run gave is the learner's: it is kept as an edit is."""
    work = tmp_path / "work"
    lay(course, work)
    notebook = nbformat.read(work / NAME, as_version=4)
    notebook.cells[1].execution_count = 1
    nbformat.write(notebook, work / NAME)
    publish(course, "# newer")
    assert lay(course, work).beside == [(NAME, BESIDE)]


@pytest.mark.parametrize("content", [b"", b"<<<<<<< HEAD", b"[]", b"\xff"])
def test_a_spoilt_notebook_is_kept_too(course: Course, tmp_path: Path, content: bytes):
    """A file that is no notebook any more is the learner's to mend or delete."""
    work = tmp_path / "work"
    lay(course, work)
    (work / NAME).write_bytes(content)
    assert lay(course, work).kept == [NAME]
    assert (work / NAME).read_bytes() == content


def test_a_changed_file_is_kept(course: Course, tmp_path: Path):
    """Without a newer version nothing at all happens to a changed file."""
    work = tmp_path / "work"
    lay(course, work)
    mine = change(work / NAME)
    laid = lay(course, work)
    assert (laid.kept, laid.beside) == ([NAME], [])
    assert (work / NAME).read_bytes() == mine
    assert not (work / BESIDE).exists()


def test_a_newer_version_is_laid_beside_a_changed_file(course: Course, tmp_path: Path):
    """The changed file stays; the newer version lies beside it, once, and is itself kept up to date."""
    work = tmp_path / "work"
    lay(course, work)
    mine = change(work / NAME)
    publish(course, "# newer")
    assert lay(course, work).beside == [(NAME, BESIDE)]
    assert (work / NAME).read_bytes() == mine
    assert title(work / BESIDE) == "# newer"
    (work / BESIDE).unlink()
    assert lay(course, work).beside == []
    assert not (work / BESIDE).exists()
    publish(course, "# newest")
    lay(course, work)
    publish(course, "# newest of all")
    assert lay(course, work).beside == [(NAME, BESIDE)]
    assert title(work / BESIDE) == "# newest of all"
    assert (work / NAME).read_bytes() == mine


def test_a_changed_newer_version_is_kept_too(course: Course, tmp_path: Path):
    """Where the learner went on in the newer version, the next one gets a name of its own."""
    work = tmp_path / "work"
    lay(course, work)
    change(work / NAME)
    publish(course, "# newer")
    lay(course, work)
    mine = change(work / BESIDE, "# mine, newer")
    publish(course, "# newest")
    second = "01-first/01-first (new version 2).ipynb"
    assert lay(course, work).beside == [(NAME, second)]
    assert (work / BESIDE).read_bytes() == mine
    assert title(work / second) == "# newest"


def test_a_deleted_file_comes_back(course: Course, tmp_path: Path):
    """Deleting a file is the way to start a unit afresh."""
    work = tmp_path / "work"
    lay(course, work)
    change(work / NAME)
    (work / NAME).unlink()
    assert lay(course, work).new == [NAME]
    assert title(work / NAME) == "# A unit"


@pytest.mark.parametrize("manifest", [None, "{cut off", "[]"])
def test_without_its_manifest_nothing_is_overwritten(course: Course, tmp_path: Path, manifest: str | None):
    """Where it is not known what was laid down, a file that differs counts as the learner's."""
    work = tmp_path / "work"
    lay(course, work)
    mine = change(work / NAME)
    if manifest is None:
        (work / ".autograder.json").unlink()
    else:
        (work / ".autograder.json").write_text(manifest)
    assert lay(course, work).beside == [(NAME, BESIDE)]
    assert (work / NAME).read_bytes() == mine


def test_a_folder_that_cannot_be_written_is_named(course: Course, tmp_path: Path):
    """Where a file is in the way, the error names the folder and the option to choose another one."""
    (tmp_path / "work").write_text("a file")
    with pytest.raises(WorkspaceError, match=r"cannot write to .*work.*--dir"):
        lay(course, tmp_path / "work")


def test_a_unit_that_cannot_be_released_is_named(course: Course, tmp_path: Path):
    """A slip in a unit's source ends in an error with the unit's name, and lays nothing."""
    path = course.source / NAME
    path.write_text(path.read_text().replace("### END SOLUTION", ""))
    with pytest.raises(StepError, match=r"01-first.*no end solution"):
        lay(course, tmp_path / "work")
    assert not (tmp_path / "work").exists()


def test_brackets_in_the_path_mean_nothing(tmp_path: Path):
    """A checkout in a folder whose name looks like a pattern works as any other."""
    course = make_course(tmp_path / "my [course] *")
    assert lay(course, tmp_path / "work [1]").new == [NAME]
