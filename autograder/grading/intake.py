"""Takes a submission in: says what cannot be graded, and puts test cells back as they were released."""

# mypy: allow-untyped-calls
# (nbformat has types, but not everywhere)

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
from nbformat.reader import NotJSONError
from nbformat.v4 import new_code_cell, new_markdown_cell
from nbgrader.api import Gradebook
from nbgrader.preprocessors import ClearHiddenTests, OverwriteCells
from nbgrader.utils import parse_utc


def obstacle(folder: Path, unit: str) -> str:
    """Why what lies in a folder cannot be graded as this unit, in plain words; empty where it can.

    Args:
        folder: what one student handed in for one unit.
        unit: its name, which is also the name of its notebook.
    """
    path = folder / f"{unit}.ipynb"
    if not path.is_file():
        others = sorted(other.name for other in folder.glob("*.ipynb"))
        if not others:
            return f"no notebook was handed in: {path.name} is missing"
        return f"{path.name} is missing (there is {', '.join(others)}): rename the right one"
    if not path.stat().st_size:
        return f"{path.name} is empty (0 bytes)"
    try:
        notebook = nbformat.read(path, as_version=4)
        cells = notebook.get("cells")
    except UnicodeDecodeError:
        return f"{path.name} is not in UTF-8: save it from JupyterLab again"
    except NotJSONError:
        return f"{path.name} is no notebook, or was cut off: it is not valid JSON"
    except Exception as error:
        return f"{path.name} is no notebook: {type(error).__name__}: {error}"
    if not cells:
        return f"{path.name} has no cells"
    stamp = folder / "timestamp.txt"
    try:
        if stamp.is_file():
            parse_utc(stamp.read_text().strip() or None)
    except ValueError as error:
        return f"timestamp.txt cannot be read as a date: {error}"
    return ""


class Restore(OverwriteCells):  # type: ignore[misc]  # nbgrader is untyped
    """nbgrader's OverwriteCells, which also restores a cell's role, and notes what it put right.

    The notes are a list of sentences in the notebook's metadata, under `autograder.repairs`.
    """

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        """Restore the notebook in place."""
        self._repairs: list[str] = []
        self._roles: dict[str, dict[str, Any]] = {}
        # As nbgrader's method, which this one has to run before.
        self.notebook_id = resources["nbgrader"]["notebook"]
        self.assignment_id = resources["nbgrader"]["assignment"]
        self.gradebook = Gradebook(resources["nbgrader"]["db_url"])
        with self.gradebook:
            self._recognise(nb)
        nb, resources = super().preprocess(nb, resources)
        nb.metadata["autograder"] = {"repairs": self._repairs}
        return nb, resources

    def _recognise(self, nb: Any) -> None:
        """Give cells their grade ids back where an editor dropped nbgrader's metadata.

        Raises:
            ValueError: not one answer can be recognised; to put in the test cells alone would give nothing for
                answers that may all be there.
        """
        released = self._released()
        there = {_grade_id(cell) for cell in nb.cells}
        back = []
        for cell in nb.cells:
            # A unit's cells have their grade ids for their own ids too, which most editors keep.
            name = cell.get("id")
            if _grade_id(cell) is None and name in released and name not in there:
                cell.metadata["nbgrader"] = {"grade_id": name, **released[name], "schema_version": 3}
                back.append(name)
        if back:
            self._note(f"nbgrader's metadata had been lost and was put back: {', '.join(back)}")
        answers = {name for name, role in released.items() if role["solution"]}
        if answers and not answers & {_grade_id(cell) for cell in nb.cells}:
            raise ValueError(
                "no cell for an answer is there: nbgrader's metadata has been lost, or it is another notebook"
            )

    def preprocess_cell(self, cell: Any, resources: Any, index: int) -> tuple[Any, Any]:
        """Restore one cell in place."""
        role = cell.metadata.get("nbgrader")
        if role is None:
            return cell, resources
        released = self._released().get(role.get("grade_id"))
        if released is None:
            if not role:
                # What nbgrader's DeduplicateIds leaves of every copy but the last.
                self._note(f"cell {index + 1} had a copy further down; the last copy counted")
            del cell.metadata["nbgrader"]
            return cell, resources
        self._changes = {key for key, value in released.items() if role.get(key, False) != value}
        role.update(released, schema_version=3)
        submitted = cell.source
        cell, resources = super().preprocess_cell(cell, resources, index)
        # A cell with hidden tests always comes back without them, as it was released.
        if self._changes == {"checksum"} and _visible(cell.source) == submitted.rstrip():
            self._changes = set()
        if self._changes:
            self._note(f"cell {role['grade_id']} had been changed; the released one was used")
        return cell, resources

    def report_change(self, name: str, attr: str, old: Any, new: Any) -> None:
        """Take note of what nbgrader puts right; it calls this for each attribute of a cell."""
        self._changes.add(attr)

    def add_missing_grade_cells(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        """Put deleted test cells and locked cells back, each behind the last cell before it that is there.

        nbgrader's own method fails where the cell before is a deleted solution or locked text.
        """
        behind = 0
        notebook = self.gradebook.find_notebook(self.notebook_id, self.assignment_id)
        for source in notebook.source_cells:
            role = self._released()[source.name]
            at = next((i for i, cell in enumerate(nb.cells) if _grade_id(cell) == source.name), None)
            if at is None and (role["grade"] or source.locked):
                new_cell = new_code_cell if source.cell_type == "code" else new_markdown_cell
                role = {**role, "grade_id": source.name, "checksum": source.checksum, "schema_version": 3}
                nb.cells.insert(behind, new_cell(source.source, metadata={"nbgrader": role}))
                self._note(f"cell {source.name} had been deleted; it was put back")
                at = behind
            if at is not None:
                behind = at + 1
        return nb, resources

    def _released(self) -> dict[str, dict[str, Any]]:
        """What each cell of the released notebook is for, by its id."""
        if not self._roles:
            notebook = self.gradebook.find_notebook(self.notebook_id, self.assignment_id)
            maximum = {cell.name: cell.max_score for cell in [*notebook.grade_cells, *notebook.task_cells]}
            grades = {cell.name for cell in notebook.grade_cells}
            solutions = {cell.name for cell in notebook.solution_cells}
            tasks = {cell.name for cell in notebook.task_cells}
            for cell in notebook.source_cells:
                self._roles[cell.name] = {
                    "grade": cell.name in grades,
                    "solution": cell.name in solutions,
                    "task": cell.name in tasks,
                    "locked": cell.locked,
                }
                if cell.name in maximum:
                    self._roles[cell.name]["points"] = maximum[cell.name]
        return self._roles

    def _note(self, repair: str) -> None:
        self.log.warning("%s", repair)
        self._repairs.append(repair)


def _grade_id(cell: Any) -> str | None:
    return cell.metadata.get("nbgrader", {}).get("grade_id")  # type: ignore[no-any-return]


def _visible(source: str) -> str:
    """A test cell's source as students see it."""
    cell = new_code_cell(source)
    ClearHiddenTests()._remove_hidden_test_region(cell)
    return str(cell.source).rstrip()
