"""The rules of the house: what may import what, and what the repository holds."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "autograder"
UNITS = sorted((ROOT / "course" / "source").glob("*/*.ipynb"))

TOP_LEVEL = {
    ".ci",
    ".github",
    ".gitignore",
    ".pre-commit-config.yaml",
    ".python-version",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "README.md",
    "autograder",
    "binder",
    "course",
    "pyproject.toml",
    "tests",
    "uv.lock",
}


def committed() -> list[Path]:
    """The files in git, relative to the root; skips where this is no clone."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"not a git clone: {done.stderr.strip()}")
    return [Path(name) for name in done.stdout.split("\0") if name]


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imported(path: Path) -> set[str]:
    """The absolute names of all modules that a file imports anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = path.relative_to(ROOT).with_suffix("").parts[: -node.level]
                base = ".".join([*package, *filter(None, [base])])
            names.add(base)
            names.update(f"{base}.{alias.name}" for alias in node.names)
    return names


def imports_any(path: Path, *modules: str) -> list[str]:
    return sorted(
        name for name in imported(path) if any(name == m or name.startswith(f"{m}.") for m in modules)
    )


def private_reads(source: str) -> Iterator[tuple[int, str]]:
    """Line and name of each attribute with one leading underscore that is read from another object."""
    for node in ast.walk(ast.parse(source)):
        name = None
        if isinstance(node, ast.Attribute):
            owner = node.value
            own = isinstance(owner, ast.Name) and owner.id in {"self", "cls"}
            by_super = (
                isinstance(owner, ast.Call) and isinstance(owner.func, ast.Name) and owner.func.id == "super"
            )
            name = None if own or by_super else node.attr
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in {"getattr", "hasattr", "setattr", "delattr"}
            and len(node.args) > 1
            and isinstance(node.args[1], ast.Constant)
        ):
            name = str(node.args[1].value)
        if name and name.startswith("_") and not name.startswith("__"):
            yield node.lineno, name


def run_python(code: str) -> str:
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# ── What may import what ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "statement",
    [
        "import autograder",
        "import autograder.cli",
        "import autograder.graph.model",
        "import autograder.grading",
    ],
)
def test_import_loads_no_tensorflow(statement: str) -> None:
    """Importing the package, its commands, its data model or its grading loads neither TensorFlow nor Keras."""
    measured = json.loads(
        run_python(
            "import json, sys, time\n"
            "start = time.perf_counter()\n"
            f"{statement}\n"
            "seconds = time.perf_counter() - start\n"
            "print(json.dumps([seconds, sorted({name.split('.')[0] for name in sys.modules})]))"
        )
    )
    seconds, modules = measured
    # Shown and not asserted: a busy machine is no bug.
    print(f"{statement}: {seconds:.3f} s")
    assert not {"tensorflow", "tensorflow_addons", "keras"} & set(modules)


def test_import_of_the_package_loads_no_third_party() -> None:
    """`import autograder` loads nothing but the standard library, which is why it takes milliseconds."""
    modules = json.loads(
        run_python(
            "import json, sys\n"
            "before = set(sys.modules)\n"
            "import autograder\n"
            "new = {name.split('.')[0] for name in set(sys.modules) - before}\n"
            "print(json.dumps(sorted(new - sys.stdlib_module_names)))"
        )
    )
    assert modules == ["autograder"]


@pytest.mark.parametrize("first", ["autograder.findings", "autograder.check.measure"])
def test_explain_is_the_function_in_any_order(first: str) -> None:
    """`from autograder import explain` gives the function also when the module of that name came first."""
    kind = run_python(f"import {first}\nfrom autograder import explain\nprint(type(explain).__name__)")
    assert kind.strip() == "function"


def test_only_the_readers_of_keras_read_private_names() -> None:
    """Outside trace.py and keras2.py, nothing in the package reads another object's underscore attribute."""
    readers = {PACKAGE / "graph" / "trace.py", *(PACKAGE / "graph").glob("keras*.py")}
    # It never meets a Keras object, and builds on nbgrader's classes.
    grading = set((PACKAGE / "grading").rglob("*.py"))
    found = [
        f"{relative(path)}:{line} {name}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path not in readers | grading
        for line, name in private_reads(path.read_text("utf-8"))
    ]
    assert not found, "move these into graph/trace.py or graph/keras2*.py:\n" + "\n".join(found)


def test_the_readers_of_keras_do_read_private_names() -> None:
    """The rule above finds what it looks for: keras2.py would break it."""
    assert list(private_reads((PACKAGE / "graph" / "keras2.py").read_text("utf-8")))


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("tensor._keras_history", ["_keras_history"]),
        ("getattr(layer, '_inbound_nodes', [])", ["_inbound_nodes"]),
        ("model.layers[0]._flatten_layers()", ["_flatten_layers"]),
        ("self._cache; cls._known; super()._run(); layer.__class__; layer.trainable", []),
    ],
)
def test_private_reads(source: str, names: list[str]) -> None:
    """An underscore attribute counts when it is read from anything but the object's own class."""
    assert [name for _, name in private_reads(source)] == names


@pytest.mark.parametrize(
    ("room", "forbidden"),
    [
        ("graph", ("autograder.grading", "nbgrader")),
        ("check", ("autograder.grading", "nbgrader")),
        ("grading", ("tensorflow", "tensorflow_addons", "keras")),
    ],
)
def test_rooms_keep_apart(room: str, forbidden: tuple[str, ...]) -> None:
    """graph/ and check/ import nothing of grading, and grading/ imports no TensorFlow, anywhere in a file."""
    files = sorted((PACKAGE / room).rglob("*.py"))
    assert files, f"autograder/{room} has no modules"
    assert {relative(f): found for f in files if (found := imports_any(f, *forbidden))} == {}


@pytest.mark.parametrize("path", ["graph/model.py", "check/judge.py"])
def test_data_is_free_of_keras(path: str) -> None:
    """The graph as data, and the judging of measurements, import no Keras: a grader can use them alone."""
    assert imports_any(PACKAGE / path, "tensorflow", "keras") == []


# ── What the repository holds ────────────────────────────────────────────────────────────────────────────


def test_there_are_units() -> None:
    """A unit is a folder with one notebook of the same name, and its answers."""
    assert UNITS
    for notebook in UNITS:
        assert notebook.stem == notebook.parent.name
        assert (ROOT / "course" / "answers" / f"{notebook.stem}.md").is_file()


@pytest.mark.parametrize("notebook", UNITS, ids=lambda path: path.stem)
def test_notebook_is_clean(notebook: Path) -> None:
    """A committed unit carries no outputs and no execution counts."""
    for cell in json.loads(notebook.read_text("utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [], f"cell {cell['id']}: run `uv run nbstripout --keep-id {notebook}`"
            assert cell["execution_count"] is None, f"cell {cell['id']}"


def test_top_level() -> None:
    """The top level of the repository holds these entries and no others."""
    assert {path.parts[0] for path in committed()} == TOP_LEVEL


def test_nothing_generated_is_committed() -> None:
    """What nbgrader, the commands and Python make is not in git."""
    folders = {
        "release",
        "submitted",
        "autograded",
        "feedback",
        "my-work",
        "__pycache__",
        ".ipynb_checkpoints",
    }
    suffixes = {".db", ".log", ".pyc"}
    assert [str(p) for p in committed() if folders & set(p.parts[:-1]) or p.suffix in suffixes] == []


def test_lock_is_in_step() -> None:
    """uv.lock is what pyproject.toml asks for."""
    uv = os.environ.get("UV", "uv")
    done = subprocess.run([uv, "lock", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, f"run `uv lock`:\n{done.stderr}"


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_lead_to_files(page: str) -> None:
    """Every relative link and picture of a page leads to a file."""
    links = re.findall(r"\]\(([^)#\s]+)\)", (ROOT / page).read_text("utf-8"))
    assert [link for link in links if "://" not in link and not (ROOT / link).exists()] == []


def test_readme_names_every_unit() -> None:
    """README's table has each unit of the course."""
    text = (ROOT / "README.md").read_text("utf-8")
    assert [notebook.stem for notebook in UNITS if f"`{notebook.stem}`" not in text] == []


def test_python_version_is_one() -> None:
    """pyproject.toml and .python-version ask for the same Python."""
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["requires-python"]
    assert wanted == f"=={(ROOT / '.python-version').read_text().strip()}.*"
