"""What a student gets back: the claim, what was expected and found, but no hidden test."""

# mypy: allow-untyped-calls
# (nbformat has types, but not everywhere)

from __future__ import annotations

import re
from typing import Any

from nbconvert.filters import strip_ansi
from nbgrader import utils
from nbgrader.preprocessors import ClearHiddenTests
from traitlets import List, Unicode


class HideTests(ClearHiddenTests):  # type: ignore[misc]  # nbgrader is untyped
    """Takes hidden tests out of grade cells, and out of the tracebacks that quote them.

    It changes the feedback only; the autograded notebook keeps both for the instructor.
    """

    display_data_priority = List(Unicode(), help="Unused; HTMLExporter sets it everywhere.").tag(config=True)

    def preprocess_cell(self, cell: Any, resources: Any, index: int) -> tuple[Any, Any]:
        """Hide the tests of one cell, in place."""
        if not (utils.is_grade(cell) and cell.cell_type == "code"):
            # The delimiters in a cell of the student's own mean nothing.
            return cell, resources
        if self._remove_hidden_test_region(cell):
            cell.source = cell.source.rstrip()
            own = re.compile(rf"\s*(Cell|File) (In\s*\[{cell.execution_count}\]|.*ipykernel_)")
            for output in cell.outputs:
                if output.output_type == "error":
                    output.traceback = [
                        frame for frame in output.traceback if not own.match(strip_ansi(frame))
                    ]
        return cell, resources
