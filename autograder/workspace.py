"""The learner's own copies of the units, which are never overwritten once changed, and JupyterLab on them."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

from autograder.grading.course import Course

_MANIFEST = ".autograder.json"
"""In the learner's folder: for each file the digest of what was laid down there last."""

_NBGRADERS_TOOLS = ("formgrader", "course_list", "assignment_list", "validate_assignment")


class WorkspaceError(Exception):
    """The learner's folder cannot be used; the message says what to do."""


@dataclass
class Laid:
    """What laying the units into a folder did, as paths relative to it.

    Attributes:
        new: files that were not there.
        refreshed: files that the learner had not changed, brought up to the course's newer version.
        kept: files that the learner changed, left alone.
        beside: newer versions of such files, laid beside them: (the learner's file, the newer one).
    """

    new: list[str] = field(default_factory=list)
    refreshed: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    beside: list[tuple[str, str]] = field(default_factory=list)


def lay(course: Course, folder: Path) -> Laid:
    """Lay the released units into a learner's folder.

    Args:
        course: where the units come from. Its gradebook and its release/ stay as they are.
        folder: the learner's; made if it is not there.

    Raises:
        WorkspaceError: the folder cannot be made or written.
        StepError: nbgrader refuses a unit.
    """
    from autograder.grading import steps

    laid = Laid()
    with TemporaryDirectory() as scratch:
        released = Path(scratch)
        for unit in course.units:
            steps.release(course, unit, released)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            manifest = _read_manifest(folder)
            for path in sorted(path for path in released.rglob("*") if path.is_file()):
                _lay_file(path.relative_to(released), path.read_bytes(), folder, manifest, laid)
            _write(folder / _MANIFEST, json.dumps(manifest, indent=1, sort_keys=True).encode())
        except OSError as error:
            raise WorkspaceError(
                f"cannot write to {folder}: {error.strerror or error}; choose another folder with --dir"
            ) from error
    return laid


def serve(
    folder: Path,
    notebook: str,
    announce: Callable[[str, int], None],
    *,
    port: int | None = None,
    browser: bool = True,
) -> None:
    """Serve JupyterLab on a folder until it is interrupted.

    Args:
        folder: the only folder that JupyterLab shows.
        notebook: the notebook that it opens first, as a path relative to the folder.
        announce: called with address and port as soon as the server answers there.
        port: the first port to try; another one is taken where it is in use.
        browser: whether to open the address in the user's browser.
    """
    from jupyterlab.labapp import LabApp  # type: ignore[import-untyped]

    # Kernels get the environment of the server.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    arguments = [
        f"--ServerApp.root_dir={folder}",
        f"--LabApp.default_url=/lab/tree/{quote(notebook)}",
        "--Application.log_level=WARN",
        # What it would fetch from elsewhere has nothing to do with the course.
        "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]
    # nbgrader's tools are for instructors: there is no course to work on in a learner's folder.
    tools = {f"nbgrader.server_extensions.{name}": False for name in _NBGRADERS_TOOLS}
    arguments.append(f"--ServerApp.jpserver_extensions={tools}")
    if port is not None:
        arguments.append(f"--ServerApp.port={port}")
    if not browser:
        arguments.append("--ServerApp.open_browser=False")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        arguments.append("--ServerApp.allow_root=True")
    jupyter = LabApp.initialize_server(argv=arguments)
    jupyter.web_app.settings["page_config_hook"] = _without_extras
    # It says the same once more, for a port that it may not get.
    jupyter.log.addFilter(lambda record: "To access the server" not in record.getMessage())
    # Ctrl-C stops it and its kernels without a question, as a termination does.
    signal.signal(signal.SIGINT, signal.getsignal(signal.SIGTERM))
    # Comes after the callback that binds the port.
    jupyter.io_loop.add_callback(lambda: announce(jupyter.display_url.split()[0], jupyter.port))
    jupyter.start()


def _without_extras(handler: object, page: dict[str, Any]) -> dict[str, Any]:
    """JupyterLab's page without the buttons of nbgrader's tools and the question about news."""
    extras = ["@jupyter/nbgrader", "@jupyterlab/apputils-extension:announcements"]
    page["disabledExtensions"] = [*page.get("disabledExtensions", ()), *extras]
    return page


def _lay_file(name: Path, content: bytes, folder: Path, manifest: dict[str, str], laid: Laid) -> None:
    key, digest = name.as_posix(), _digest(name, content)
    target = folder / name
    present = _digest(name, target.read_bytes()) if target.is_file() else None
    if present is None:
        _write(target, content)
        laid.new.append(key)
    elif present == digest:
        pass
    elif present == manifest.get(key):
        _write(target, content)
        laid.refreshed.append(key)
    else:
        laid.kept.append(key)
        # The manifest knows the newest version that the learner has been given, beside or not.
        if manifest.get(key) != digest:
            beside = next(
                other
                for other in _names_beside(name)
                if not (folder / other).exists()
                or _digest(other, (folder / other).read_bytes()) in (digest, manifest.get(other.as_posix()))
            )
            _write(folder / beside, content)
            manifest[beside.as_posix()] = digest
            laid.beside.append((key, beside.as_posix()))
    manifest[key] = digest


def _names_beside(name: Path) -> Iterator[Path]:
    yield name.with_name(f"{name.stem} (new version){name.suffix}")
    for number in count(2):
        yield name.with_name(f"{name.stem} (new version {number}){name.suffix}")


def _read_manifest(folder: Path) -> dict[str, str]:
    try:
        manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        # Without it every file that differs from the course's counts as changed by the learner.
        return {}
    return manifest if isinstance(manifest, dict) else {}


def _write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(content)
    part.replace(path)


def _digest(name: Path, content: bytes) -> str:
    """A digest of what a learner can see in a file.

    JupyterLab rewrites a notebook that is merely opened: the kernel's name and version go into its metadata.
    """
    if name.suffix == ".ipynb":
        try:
            cells = json.loads(content)["cells"]
            content = json.dumps(cells, sort_keys=True).encode()
        except (ValueError, KeyError, TypeError):
            pass  # no notebook any more, so changed
    return hashlib.sha256(content).hexdigest()
