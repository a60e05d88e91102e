"""Runs a submitted notebook to its end, whatever its cells do to the kernel."""

# mypy: allow-untyped-calls
# (nbformat has types, but not everywhere)

from __future__ import annotations

import os
import subprocess
from typing import Any

from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat.v4 import new_output
from nbgrader.preprocessors import Execute
from traitlets import Dict, Unicode


class Run(Execute):  # type: ignore[misc]  # nbgrader is untyped
    """nbgrader's Execute, but a notebook always comes back, with a reason in each cell that did not run.

    nbgrader gives a submission up when its kernel dies, with all points earned until then. Here the cell in
    which it died gets an error output `KernelDied`, and every code cell after it an error output `NotRun`. No
    tag has an effect: `skip-execution` on a test cell would make it pass.
    """

    environment = Dict(
        value_trait=Unicode(),
        default_value={"TF_CPP_MIN_LOG_LEVEL": "3"},
        help="Environment variables of the kernel, beside those of the process that grades.",
    ).tag(config=True)

    def setup_kernel(self, **kwargs: Any) -> Any:
        """A running kernel, as a context; see `nbclient.NotebookClient.setup_kernel`."""
        # What cells print comes back in their outputs; beside that a kernel only chatters.
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return super().setup_kernel(env={**os.environ, **self.environment}, **quiet, **kwargs)

    def preprocess(self, nb: Any, resources: Any, km: Any = None) -> tuple[Any, Any]:
        """Execute the notebook in place.

        Args:
            nb: the notebook, without outputs.
            resources: nbconvert's; `resources["metadata"]["path"]` is the working directory.
            km: a kernel manager to use instead of one of its own.

        Returns:
            The executed notebook and the resources.
        """
        self._lost = ""
        self.error_on_timeout = _error(
            "CellTimeoutError", f"out of time: the limit is {self.timeout} s a cell"
        )
        return super().preprocess(nb, resources, km)  # type: ignore[no-any-return]

    def preprocess_cell(self, cell: Any, resources: Any, index: int) -> tuple[Any, Any]:
        """Execute one cell in place, or say in its outputs why it was not run."""
        cell.metadata.pop("tags", None)
        if cell.cell_type != "code":
            return cell, resources
        if self._lost:
            cell.outputs = [new_output("error", **_error("NotRun", f"not run: {self._lost}"))]
            return cell, resources
        try:
            return super().preprocess_cell(cell, resources, index)  # type: ignore[no-any-return]
        except DeadKernelError:
            self._lost = f"the kernel had died in cell {index + 1}"
            reason = _error("KernelDied", "the kernel died while this cell ran")
        except CellTimeoutError:
            self._lost = f"cell {index + 1} was out of time and could not be interrupted"
            reason = _error(
                "CellTimeoutError", f"out of time ({self.timeout} s), and could not be interrupted"
            )
        cell.outputs.append(new_output("error", **reason))
        return cell, resources


def _error(name: str, message: str) -> dict[str, Any]:
    return {"ename": name, "evalue": message, "traceback": [f"\x1b[0;31m{name}\x1b[0m: {message}"]}
