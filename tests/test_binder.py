"""What mybinder.org builds: its requirements, its plan, and what a visitor finds."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
BINDER = ROOT / "binder"


@pytest.fixture(scope="module")
def update() -> ModuleType:
    """The script binder/update.py as a module."""
    spec = importlib.util.spec_from_file_location("binder_update", BINDER / "update.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def plan() -> str:
    """The Dockerfile that repo2docker means to build, without building it."""
    if sys.platform == "win32":
        pytest.skip("repo2docker does not run on Windows")
    command = [sys.executable, "-m", "repo2docker", "--no-build", "--debug", str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def opened() -> str:
    """The path that README's Binder link opens in JupyterLab, relative to the repository."""
    links = re.findall(r"https://mybinder\.org/v2/\S+", (ROOT / "README.md").read_text("utf-8"))
    assert len(links) == 1
    return links[0].partition("/main?urlpath=lab/tree/")[2]


# ── Requirements ─────────────────────────────────────────────────────────────────────────────────────────


def test_requirements_are_in_step_with_the_lock(update: ModuleType) -> None:
    """binder/requirements.txt is what update.py makes from uv.lock."""
    assert update.REQUIREMENTS.read_text() == update.requirements(update.export()), (
        "run `uv run python binder/update.py`"
    )


def test_requirements_are_the_locked_versions_for_linux(update: ModuleType) -> None:
    """Packages of other systems are left out, markers are gone, and tensorflow-cpu stands for tensorflow."""
    exported = (
        "tensorflow==2.15.1 ; sys_platform == 'linux' or sys_platform == 'darwin'\n"
        "numpy==1.26.4\n"
        "colorama==0.4.6 ; platform_machine == 'AMD64' and sys_platform == 'win32'\n"
        "tensorflow-cpu-aws==2.15.1 ; platform_machine == 'aarch64' and sys_platform == 'linux'\n"
    )
    lines = [line for line in update.requirements(exported).splitlines() if not line.startswith("#")]
    assert lines == ["numpy==1.26.4", "tensorflow-cpu==2.15.1"]


def test_requirements_without_tensorflow_are_refused(update: ModuleType) -> None:
    """A lock without the package to be swapped is an error that names it, not a silent gap."""
    with pytest.raises(ValueError, match=r"no tensorflow: mend SWAP in binder/update\.py"):
        update.requirements("numpy==1.26.4\n")


def test_requirements_hold_what_the_course_needs_and_no_more() -> None:
    """Every line is one exact version; neither GPU nor development packages are there."""
    lines = [line for line in (BINDER / "requirements.txt").read_text().splitlines() if line[0] != "#"]
    assert [line for line in lines if not re.fullmatch(r"[a-z0-9._-]+==[^\s;=*]+", line)] == []
    names = {line.partition("==")[0] for line in lines}
    assert {"jupyterlab", "nbgrader", "tensorflow-cpu", "tensorflow-addons"} <= names
    assert not {"tensorflow", "pytest", "ruff", "keras-parameters-course"} & names
    assert not [name for name in names if name.startswith("nvidia")]


def test_an_old_file_fails_the_check(
    update: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--check` fails and writes nothing when the file is old; without it the file is mended."""
    file = tmp_path / "requirements.txt"
    file.write_text("numpy==1.0\n")
    monkeypatch.setattr(update, "REQUIREMENTS", file)
    monkeypatch.setattr(sys, "argv", ["update.py", "--check"])
    assert update.main() == 1
    assert "out of step" in capsys.readouterr().err
    assert file.read_text() == "numpy==1.0\n"
    monkeypatch.setattr(sys, "argv", ["update.py"])
    assert update.main() == 0
    assert file.read_text() == (BINDER / "requirements.txt").read_text()


# ── repo2docker's plan ───────────────────────────────────────────────────────────────────────────────────


def test_plan_uses_python_311(plan: str) -> None:
    """The image has the Python of .python-version."""
    version = (ROOT / ".python-version").read_text().strip()
    assert f"Building conda environment for python={version}" in plan


def test_plan_installs_the_pinned_requirements_alone(plan: str) -> None:
    """The only packages installed by pip are those of binder/requirements.txt."""
    installs = re.findall(r"^RUN .*pip install .*$", plan, re.MULTILINE)
    assert installs == [
        'RUN ${KERNEL_PYTHON_PREFIX}/bin/pip install --no-cache-dir -r "binder/requirements.txt"'
    ]


def test_plan_runs_post_build(plan: str) -> None:
    """binder/postBuild is run, after the repository has been copied."""
    copied, run = plan.index("COPY --chown"), plan.index("RUN ./binder/postBuild")
    assert copied < run


# ── What a visitor finds ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.skipif(sys.platform == "win32", reason="postBuild is a script for bash")
def test_post_build_releases_the_units(tmp_path: Path) -> None:
    """postBuild, run in a fresh copy, installs this package and leaves the notebook that README's link opens."""
    copy = tmp_path / "copy"
    made = (".*", "__pycache__", "my-work", "release", "submitted", "autograded", "feedback", "gradebook.db*")
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*made))
    # An environment with pip, as repo2docker's is, that already holds the requirements: this one's.
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    python = environment / "bin" / "python"
    site = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    Path(site, "zz_requirements.pth").write_text(sysconfig.get_path("purelib"))

    variables = {
        name: value for name, value in os.environ.items() if name not in {"VIRTUAL_ENV", "PYTHONPATH"}
    }
    variables["PATH"] = f"{environment / 'bin'}{os.pathsep}{variables['PATH']}"
    done = subprocess.run(
        ["./binder/postBuild"], cwd=copy, env=variables, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr

    where = subprocess.run(
        [python, "-c", "import autograder; print(autograder.__file__)"],
        cwd=tmp_path,
        env=variables,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert Path(where.strip()).is_relative_to(copy)
    notebook = copy / opened()
    assert notebook.is_file()
    assert "### BEGIN SOLUTION" not in notebook.read_text("utf-8")
    first = sorted(path.stem for path in (ROOT / "course" / "source").glob("*/*.ipynb"))[0]
    assert notebook.stem == first
