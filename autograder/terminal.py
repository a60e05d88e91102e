"""Show a report on the terminal, and keep standard output for it alone."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from autograder.findings import Finding, Report


_WIDEST = 100
"""Longer lines are hard to read, however wide the window is."""


def keep_stdout() -> TextIO:
    """Give standard output to the caller alone: from now on whatever others print goes to standard error.

    That holds for what libraries written in C print and for what is printed at the end of the process too, so
    it is not undone.

    Returns:
        The standard output that was.
    """
    out = sys.stdout
    out.flush()
    try:
        own = out.fileno() == 1
    except (OSError, ValueError):  # replaced by an object in memory
        own = False
    if own:
        out = os.fdopen(os.dup(1), "w", encoding=out.encoding, errors="replace")
        os.dup2(2, 1)
    sys.stdout = sys.stderr
    return out


def show(report: Report, out: TextIO, *, note: str = "") -> None:
    """Print a report: coloured on a terminal, plain in a pipe or file.

    Args:
        report: what was found.
        out: where to print it.
        note: one more remark, printed last.
    """
    page = _Page(out)
    graph = report.graph
    page.print(Text.assemble("Model ", (graph.name, "bold"), f" ({graph.kind}, Keras {graph.keras})"))
    for count in _counts(report):
        page.print(count, "  ")
    for finding in report.findings:
        colour = "bold yellow" if finding.accuses else "cyan"
        mark = "!" if finding.accuses else "·"
        page.print()
        page.print(Text.assemble((f"{mark} {finding.kind}", colour), f": {finding.name} ({_what(finding)})"))
        page.print(_code(finding.why), "  ")
        if finding.fix:
            page.print(_code(finding.fix), "  → ", "    ")
    page.print()
    accusing = sum(finding.accuses for finding in report.findings)
    things = {0: "Nothing accuses", 1: "1 finding accuses"}.get(accusing, f"{accusing} findings accuse")
    page.print(Text(f"{things} this model.", "bold"))
    for remark in filter(None, (report.note, note)):
        page.print(_code(remark))


class _Page:
    """Prints texts wrapped to the width of the terminal, with an indent and no blanks at the end of a line."""

    def __init__(self, out: TextIO) -> None:
        self._console = Console(file=out, highlight=False)
        self._width = min(self._console.width, _WIDEST)

    def print(self, text: Text | None = None, first: str = "", others: str | None = None) -> None:
        indent = first if others is None else others
        lines = (text or Text()).wrap(self._console, self._width - len(indent)) or [Text()]
        for number, line in enumerate(lines):
            line.rstrip()
            self._console.print(Text.assemble(indent if number else first, line), soft_wrap=True)


def _counts(report: Report) -> list[Text]:
    if not report.graph.known:
        return [Text("The number of parameters is not known yet.")]
    counts = report.graph.parameters
    rows = [
        (counts.total, "parameters"),
        (counts.trainable, "trainable"),
        (counts.frozen, "frozen: switched off"),
        (counts.state, "state: never trained by design"),
    ]
    if report.trained is not None:
        rows.append((report.trained, f"reached by a gradient of {report.loss}"))
    width = max(len(f"{number:,}") for number, _ in rows)
    return [Text.assemble((f"{number:>{width},}", "bold"), f"  {what}") for number, what in rows]


def _what(finding: Finding) -> str:
    if not finding.parameters:
        return finding.type
    return f"{finding.type}, {finding.parameters:,} parameter{'' if finding.parameters == 1 else 's'}"


def _code(text: str) -> Text:
    """What stands between backticks in bold."""
    parts = text.split("`")
    return Text.assemble(*((f"`{part}`", "bold") if odd % 2 else part for odd, part in enumerate(parts)))
