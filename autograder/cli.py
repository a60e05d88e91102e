"""The commands of `autograder`, and nothing else: each one calls a room of the package and shows what it says."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

if TYPE_CHECKING:
    from autograder.grading.course import Course
    from autograder.grading.report import Result

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="A course on which layers and parameters belong to a Keras model, and the grading of it.",
    epilog="To study: autograder lab. To see a class graded: autograder grade --demo.",
)

CourseOption = Annotated[
    Path | None,
    typer.Option("--course", metavar="DIR", help="The course's folder; the one you are in, without it."),
]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"autograder {version('keras-parameters-course')}")
        raise typer.Exit


def _wrong_usage(message: object) -> NoReturn:
    typer.echo(f"autograder: {message}", err=True)
    raise typer.Exit(2)


@app.callback()
def main(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Commands: see below."""


@app.command(epilog="Examples: autograder lab; autograder lab --no-browser --port 9000")
def lab(
    folder: Annotated[
        Path | None,
        typer.Option("--dir", metavar="DIR", help="Your folder; my-work/ beside the course, without it."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Port to serve on; the next free one where it is in use."),
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
    prepare_only: Annotated[
        bool, typer.Option("--prepare-only", help="Lay the units out, and do not start JupyterLab.")
    ] = False,
    course: CourseOption = None,
) -> None:
    """Study: lay the units into my-work/ and open JupyterLab on the first one.

    A file that you changed is never overwritten. If the course has a newer version of it, that one is laid
    beside yours.
    """
    from autograder import workspace
    from autograder.grading.course import Course, CourseError

    try:
        found = Course.find(course)
        folder = (folder or found.root.parent / "my-work").resolve()
        laid = workspace.lay(found, folder)
        first = found.units[0]
    except (CourseError, workspace.WorkspaceError) as error:
        _wrong_usage(error)
    typer.echo(f"Your work is in {folder}")
    for name in laid.refreshed:
        typer.echo(f"  brought up to date: {name}")
    for yours, newer in laid.beside:
        typer.echo(f"  you changed {yours}; the course's newer version lies beside it: {newer}")
    if prepare_only:
        return

    def announce(address: str, taken: int) -> None:
        if port is not None and taken != port:
            typer.echo(f"Port {port} is in use; JupyterLab took {taken}.")
        typer.echo(f"JupyterLab is at {address}\nCtrl-C stops it.")
        sys.stdout.flush()

    sys.stdout.flush()
    workspace.serve(folder, f"{first}/{first}.ipynb", announce, port=port, browser=not no_browser)


@app.command(
    epilog="Examples: autograder grade; autograder grade 03-untracked-subgraph --student ada; "
    "autograder grade --demo"
)
def grade(
    units: Annotated[
        list[str] | None, typer.Argument(metavar="[UNIT...]", help="Units to grade; all, without one.")
    ] = None,
    course: CourseOption = None,
    students: Annotated[
        list[str] | None,
        typer.Option("--student", metavar="ID", help="Only this student; may be given more than once."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Run again what has not changed since.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document, and nothing else.")
    ] = False,
    demo: Annotated[
        bool,
        typer.Option(
            "--demo", help="Grade a class of twelve submissions made for show, in a temporary copy."
        ),
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show nbgrader's messages.")] = False,
) -> None:
    """Grade what lies in submitted/STUDENT/UNIT/UNIT.ipynb.

    Executed notebooks go to autograded/, what students get back to feedback/, points to gradebook.db. What
    has not changed since an earlier run is not run again. The exit status is 1 where a submission needs a
    person.
    """
    from autograder.answers import AnswersError
    from autograder.grading.course import Course, CourseError

    started = time.monotonic()
    handed_in: dict[tuple[str, str], str] = {}
    try:
        found = Course.find(course)
        if demo:
            if units or students:
                _wrong_usage("--demo grades a class of its own: leave out UNIT and --student")
            from autograder.grading.demo import make

            found, handed_in = make(found, Path(mkdtemp(prefix="autograder-demo-")))
        submissions = found.submissions(units or [], students or [])
        if not submissions and not as_json:
            typer.echo(_nothing_handed_in(found.submitted))
            return
        from autograder.grading import batch, report, steps

        steps.log_to(found.log, verbose=verbose)
        results = _with_progress(batch.grade(found, submissions, force=force), len(submissions))
    except (AnswersError, CourseError) as error:
        _wrong_usage(error)
    except KeyboardInterrupt:
        typer.echo("Stopped. What was graded so far stays; the same command goes on with the rest.", err=True)
        raise typer.Exit(130) from None
    seconds = time.monotonic() - started
    if as_json:
        typer.echo(json.dumps(report.document(results, seconds), indent=1))
    else:
        _show(results, found, handed_in, seconds)
    if any(result.status == "needs-person" for result in results):
        raise typer.Exit(1)


@app.command(
    epilog="Examples: autograder explain my_model.py; autograder explain my_model.py:encoder --draw encoder.svg; "
    "autograder explain my_model.keras --json"
)
def explain(
    target: Annotated[
        str, typer.Argument(metavar="FILE", help="FILE.py, FILE.py:NAME, FILE.keras or FILE.h5.")
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document, and nothing else.")
    ] = False,
    drawing: Annotated[
        Path | None,
        typer.Option("--draw", metavar="FILE", help="Draw the model's graph into FILE.png or FILE.svg."),
    ] = None,
) -> None:
    """Say which parameters of a model are trained, which are not, and why.

    A Python file is run, except what stands under `if __name__ == "__main__":`. NAME is what the model is
    called in it, needed where there are several. What the file prints goes to standard error. The exit status
    is 1 where something is likely to be wrong with the model.
    """
    from autograder import modelfile, terminal

    # Both are read at the first import of TensorFlow and of matplotlib, which may be in the file.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("MPLBACKEND", "Agg")
    out = terminal.keep_stdout()
    try:
        modelfile.find(target)
        if drawing is not None:
            _check_picture(drawing)
        loaded = modelfile.load(target)
    except modelfile.ModelFileError as error:
        _wrong_usage(error)
    from autograder.findings import explain as report_on

    report = report_on(loaded.model, loaded.namespace)
    if as_json:
        out.write(json.dumps(report.to_dict(), indent=1) + "\n")
    else:
        terminal.show(report, out, note=loaded.note)
    out.flush()
    if drawing is not None:
        from autograder.graph.draw import draw

        try:
            draw(loaded.model).savefig(drawing)
        except (OSError, ValueError) as error:
            _wrong_usage(f"there is no picture: {error}")
    if any(finding.accuses for finding in report.findings):
        raise typer.Exit(1)


def _check_picture(path: Path) -> None:
    """Say at once, and not after minutes, that a picture cannot be written."""
    from matplotlib.backend_bases import FigureCanvasBase

    kinds = FigureCanvasBase.filetypes
    if path.suffix.lower().removeprefix(".") not in kinds:
        _wrong_usage(f"{path}: a picture's name ends in .png or .svg (also: {', '.join(sorted(kinds))})")
    if not os.access(path if path.exists() else path.parent, os.W_OK) or path.is_dir():
        _wrong_usage(f"{path} cannot be written: no such folder, or no right to write there")


def _with_progress(results: Iterator[Result], total: int) -> list[Result]:
    """All results; meanwhile a bar on stderr, with what is left."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        return list(results)
    columns = (TextColumn("Grading"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    done = []
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=total)
        for result in results:
            done.append(result)
            progress.advance(task)
    return done


def _show(
    results: list[Result], course: Course, handed_in: dict[tuple[str, str], str], seconds: float
) -> None:
    """The table, and where to go from it."""
    from rich.console import Console

    from autograder.grading import report

    console = Console(highlight=False)
    console.print(report.table(results, handed_in), soft_wrap=not console.is_terminal)
    waiting = sum(result.status == "needs-person" for result in results)
    console.print(
        f"\n{len(results)} {'submission' if len(results) == 1 else 'submissions'} in {seconds:.0f} s"
        + (f", {waiting} for a person to look at" if waiting else "")
        + f".\nFeedback for the students is in {course.feedback},\nnbgrader's messages are in {course.log}.",
        soft_wrap=True,
    )
    formgrader = f"cd {shlex.quote(str(course.root))} && {shlex.quote(sys.executable)} -m jupyterlab"
    console.print(
        f"To look at each in formgrader: {formgrader}\nand there the menu Nbgrader, Formgrader.",
        soft_wrap=True,
    )


def _nothing_handed_in(submitted: Path) -> str:
    return (
        f"Nothing has been handed in: there is no notebook in {submitted}.\n"
        "Put what each student hands in into a folder STUDENT/UNIT, for example\n"
        f"  {submitted / 'ada' / '01-tensor-tracking' / '01-tensor-tracking.ipynb'}\n"
        "and run `autograder grade` again. To see how it works first: autograder grade --demo"
    )


if __name__ == "__main__":
    app()
