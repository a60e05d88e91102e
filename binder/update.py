"""Writes binder/requirements.txt, the packages that mybinder.org installs, from uv.lock.

Run it after every change of uv.lock: `uv run python binder/update.py`. With `--check` it writes nothing and
fails if the file is out of step.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "binder" / "requirements.txt"

# Binder's images are Linux on x86-64, whatever this script runs on.
BINDER = {
    "implementation_name": "cpython",
    "os_name": "posix",
    "platform_machine": "x86_64",
    "platform_python_implementation": "CPython",
    "platform_system": "Linux",
    "python_full_version": "3.11.0",
    "python_version": "3.11",
    "sys_platform": "linux",
}

# The same TensorFlow without its GPU code: half the size, and Binder has no GPU.
SWAP = {"tensorflow": "tensorflow-cpu"}

HEADER = """\
# Made from uv.lock by `uv run python binder/update.py`; change pyproject.toml, not this file.
# tensorflow-cpu stands for tensorflow, since Binder has no GPU.
"""


def export() -> str:
    """Returns the locked packages without the development group, as uv writes them for pip.

    Raises:
        RuntimeError: If uv is missing, or cannot read the lock.
    """
    uv = os.environ.get("UV", "uv")
    command = [uv, "export", "--frozen", "--no-dev", "--no-emit-project", "--no-hashes", "--no-annotate"]
    try:
        done = subprocess.run([*command, "--no-header"], cwd=ROOT, capture_output=True, text=True)
    except FileNotFoundError:
        raise RuntimeError("uv was not found. Install it with `pip install uv`.") from None
    if done.returncode:
        raise RuntimeError(f"uv could not export uv.lock:\n{done.stderr}")
    return done.stdout


def requirements(exported: str) -> str:
    """Returns the text of binder/requirements.txt.

    Args:
        exported: Pinned requirements with markers, one a line, as `export` returns them.

    Raises:
        ValueError: If a package to be swapped is not among them.
    """
    missing = set(SWAP)
    lines = []
    for line in exported.splitlines():
        requirement = Requirement(line)
        if requirement.marker and not requirement.marker.evaluate(BINDER):
            continue
        missing.discard(requirement.name)
        lines.append(f"{SWAP.get(requirement.name, requirement.name)}{requirement.specifier}")
    if missing:
        raise ValueError(
            f"uv.lock has no {', '.join(sorted(missing))}: mend SWAP in binder/update.py, or the lock."
        )
    return HEADER + "\n".join(sorted(lines)) + "\n"


def main() -> int:
    """Writes or checks the file; returns the exit status."""
    parser = argparse.ArgumentParser(description="Writes binder/requirements.txt from uv.lock.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the file is out of step")
    check = parser.parse_args().check
    try:
        text = requirements(export())
    except (RuntimeError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    if REQUIREMENTS.exists() and REQUIREMENTS.read_text() == text:
        print("binder/requirements.txt is in step with uv.lock.")
        return 0
    if check:
        print(
            "binder/requirements.txt is out of step with uv.lock: run `uv run python binder/update.py`.",
            file=sys.stderr,
        )
        return 1
    REQUIREMENTS.write_text(text)
    print("binder/requirements.txt written.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
