"""The commands as a user runs them: in a process of their own, in a course's folder."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import parse_qs, quote, urlsplit
from urllib.request import Request, urlopen

import nbformat
import pytest
from conftest import hand_in, make_course
from nbgrader.api import Gradebook

from autograder.grading import batch
from autograder.grading.course import Course

UNIT = "01-first"
BIN = Path(sys.executable).parent


def run(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command of the environment to its end."""
    return subprocess.run([str(BIN / command[0]), *command[1:]], cwd=cwd, capture_output=True, text=True)


def get(address: str) -> Any:
    with urlopen(address, timeout=30) as answer:
        return json.load(answer)


def wait_for(address: str) -> None:
    """Until the server answers: Jupyter prints its address a moment before."""
    parts = urlsplit(address)
    for _ in range(100):
        with suppress(ConnectionRefusedError), socket.create_connection((parts.hostname, parts.port)):
            return
        time.sleep(0.1)
    pytest.fail(f"nothing answers at {address}")


@contextmanager
def serving(*command: str, cwd: Path, pattern: str) -> Iterator[tuple[re.Match[str], list[str]]]:
    """Run a server until the block ends, from the line of its output that matches; ended by Ctrl-C."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [str(BIN / command[0]), *command[1:]],
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    lines: list[str] = []
    try:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if match := re.search(pattern, line):
                break
        else:
            pytest.fail("the server ended:\n" + "".join(lines))
        yield match, lines
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 0
    finally:
        process.kill()
        process.communicate()


def api(address: str, path: str) -> str:
    """The address of the server's API at a path, with the token of `address`."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}{path}?token={parse_qs(parts.query)['token'][0]}"


def test_help_says_what_there_is(tmp_path: Path):
    """Each command explains itself with examples; the version is the package's."""
    overview = run("autograder", "--help", cwd=tmp_path).stdout
    assert all(command in overview for command in ("lab", "grade"))
    for command in ("lab", "grade"):
        text = run("autograder", command, "--help", cwd=tmp_path).stdout
        assert f"Examples: autograder {command}" in text
    assert re.fullmatch(r"autograder \d+\.\d+\.\d+\n", run("autograder", "--version", cwd=tmp_path).stdout)


def test_start_is_light(tmp_path: Path):
    """Asking for help loads neither nbgrader nor JupyterLab nor TensorFlow."""
    code = (
        "import sys, autograder.cli\n"
        "print([name for name in ('nbgrader', 'jupyterlab', 'tensorflow', 'numpy') if name in sys.modules])"
    )
    assert run("python", "-c", code, cwd=tmp_path).stdout == "[]\n"


@pytest.mark.parametrize("command", ["lab", "grade"])
def test_no_course_is_a_clear_error(tmp_path: Path, command: str):
    """Outside a course the error says how to name one, with status 2 and no traceback."""
    for arguments, words in (((), "--course DIR"), (("--course", str(tmp_path)), "is no course")):
        result = run("autograder", command, *arguments, cwd=tmp_path)
        assert result.returncode == 2
        assert words in result.stderr
        assert "Traceback" not in result.stderr


def test_the_course_is_found_from_below(course: Course):
    """In any folder of the course, and in the one above, the course is the one you are in."""
    for folder in (course.root.parent, course.root, course.source / UNIT):
        result = run("autograder", "grade", cwd=folder)
        assert result.returncode == 0
        assert str(course.submitted) in result.stdout


def test_nothing_handed_in(course: Course):
    """Without submissions it says where they belong; as JSON the list is empty."""
    result = run("autograder", "grade", cwd=course.root)
    assert result.returncode == 0
    assert f"{course.submitted}/ada/01-tensor-tracking/01-tensor-tracking.ipynb" in result.stdout
    document = json.loads(run("autograder", "grade", "--json", cwd=course.root).stdout)
    assert document["submissions"] == []


def test_grade_in_words_and_as_json(course: Course):
    """The table has a row and reasons for each submission, --json is one document; status 1 asks for a person."""
    hand_in(
        course,
        "ada",
        {"double": "import os\n\nos.system('echo noise')\n\n\ndef double(x):\n    return 2 * x"},
    )
    hand_in(course, "ben", {"double": "def double(x):\n    return x * x"})
    result = run("autograder", "grade", "--json", cwd=course.root)
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    assert set(document) == {"seconds", "submissions"}
    ada, ben = document["submissions"]
    assert set(ada) == {"student", "unit", "score", "max", "status", "reasons", "seconds"}
    assert (ada["student"], ada["unit"], ada["score"], ada["max"], ada["status"]) == (
        "ada",
        UNIT,
        20,
        20,
        "graded",
    )
    assert (ben["score"], ben["reasons"]) == (12, ["double: expected: double(4) is 8"])

    (course.submitted / "ben" / UNIT / f"{UNIT}.ipynb").write_text("")
    result = run("autograder", "grade", cwd=course.root)
    assert result.returncode == 1
    assert re.search(rf"ada +{UNIT} +20 / 20 +graded", result.stdout)
    assert re.search(rf"ben +{UNIT} +12 / 20 +needs-person\n +{UNIT}.ipynb is empty", result.stdout)
    assert "earlier run" in result.stdout
    assert re.search(r"2 submissions in \d+ s, 1 for a person to look at", result.stdout)
    assert result.stderr == ""

    result = run("autograder", "grade", "--student", "ada", "--force", "--verbose", cwd=course.root)
    assert result.returncode == 0
    assert "ben" not in result.stdout
    assert "INFO Autograding" in result.stderr
    assert "INFO Autograding" in course.log.read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["9-none"], "no unit is called '9-none'; there are 01-first"),
        (["--student", "zoe"], "no student 'zoe' has handed in; there are: ada"),
        (["--demo", "--student", "ada"], "--demo grades a class of its own"),
        (["--workers", "4"], "No such option"),
    ],
)
def test_wrong_usage(course: Course, arguments: list[str], words: str):
    """What cannot be meant is refused with status 2 and what would be right."""
    hand_in(course, "ada")
    result = run("autograder", "grade", *arguments, cwd=course.root)
    assert result.returncode == 2
    assert words in result.stderr
    assert result.stdout == ""


def test_a_slip_in_the_settings_is_named(course: Course):
    """Where nbgrader_config.py cannot be run, the error names the file and what is wrong in it."""
    (course.root / "nbgrader_config.py").write_text("c = get_config(\n")
    hand_in_folder = course.submitted / "ada" / UNIT
    hand_in_folder.mkdir(parents=True)
    result = run("autograder", "lab", "--prepare-only", cwd=course.root)
    assert result.returncode == 2
    assert "nbgrader_config.py: SyntaxError" in result.stderr


def test_demo(course: Course, tmp_path: Path):
    """A class of twelve: full marks for the right answers; each wrong one has lost its exercise's points."""
    before = sorted(course.root.rglob("*"))
    result = run("autograder", "grade", "--demo", cwd=course.root)
    assert result.returncode == 0, result.stderr
    rows = re.findall(
        r"(student-\d\d) +01-first +([\d.]+) / 20 +graded +(.+)\n(?: +(\w+): (.+)\n)?", result.stdout
    )
    assert len(rows) == 12
    assert rows[0][:3] == ("student-01", "20", "all right")
    lost = {"double": "12", "last": "13"}
    for _, score, what, exercise, message in rows[1:]:
        wrong = what.split(" wrong (")[0]
        assert (exercise, score) == (wrong, lost[wrong])
        assert message.startswith("expected:")
    assert {row[3] for row in rows[1:]} == set(lost)
    assert sorted(course.root.rglob("*")) == before
    folder = re.search(r"cd (\S+) && ", result.stdout)
    assert folder is not None
    assert len(list(Path(folder[1]).glob("feedback/*/*/*.html"))) == 12


def test_nbgraders_own_commands(course: Course):
    """The three commands of nbgrader work unchanged, give the same points, and hide the hidden tests."""
    shout = "import sys\n\n\ndef double(x):\n    print('TFA', file=sys.stderr)\n    return 2 * x"
    hand_in(course, "shout", {"double": shout})
    hand_in(course, "nan", {"marks": "def marks():\n    return float('nan')"})
    hand_in(course, "wrong", {"double": "def double(x):\n    return 8"})
    for command in ("generate_assignment", "autograde", "generate_feedback"):
        result = run("nbgrader", command, UNIT, cwd=course.root)
        assert result.returncode == 0, result.stderr
    assert "no answer yet" in (course.root / "release" / UNIT / f"{UNIT}.ipynb").read_text()
    expected = {"shout": 20, "nan": 15, "wrong": 12}
    with Gradebook(f"sqlite:///{course.root / 'gradebook.db'}") as gradebook:
        assert {name: gradebook.find_submission(UNIT, name).score for name in expected} == expected
    assert {result.student: result.score for result in batch.grade(course, course.submissions())} == expected
    feedback = (course.feedback / "wrong" / UNIT / f"{UNIT}.html").read_text()
    assert "secret_number" not in feedback
    assert "the double of another number is 42" in feedback


def test_formgrader_grades_the_same(course: Course):
    """What formgrader's button does gives full marks in spite of messages on stderr, and shows them."""
    shout = "import sys\n\n\ndef double(x):\n    print('TFA', file=sys.stderr)\n    return 2 * x"
    hand_in(course, "ada", {"double": shout})
    assert run("nbgrader", "generate_assignment", UNIT, cwd=course.root).returncode == 0
    options = ["--no-browser", "--port=0", "--ServerApp.disable_check_xsrf=True"]
    if os.geteuid() == 0:
        options.append("--allow-root")
    command = ("jupyter-lab", *options)
    with serving(*command, cwd=course.root, pattern=r"http://127\.0\.0\.1\S+token=\S+") as (address, _):
        wait_for(address[0])
        button = api(address[0], f"/formgrader/api/submission/{UNIT}/ada/autograde")
        with urlopen(Request(button, method="POST"), timeout=120) as answer:
            assert json.load(answer)["success"]
        (submission,) = get(api(address[0], f"/formgrader/api/submissions/{UNIT}"))
        assert (submission["score"], submission["max_score"]) == (20, 20)
        (shown,) = get(api(address[0], f"/formgrader/api/submitted_notebooks/{UNIT}/{UNIT}"))
        page = api(address[0], f"/formgrader/submissions/{shown['id']}/")
        with urlopen(page, timeout=60) as answer:
            assert "TFA" in answer.read().decode()


@contextmanager
def lab(course: Course, *arguments: str) -> Iterator[tuple[str, str]]:
    """`autograder lab`, with its address and what it printed before."""
    command = ("autograder", "lab", "--no-browser", *arguments)
    with serving(*command, cwd=course.root, pattern=r"JupyterLab is at (\S+)") as (match, lines):
        yield match[1], "".join(lines)


def test_lab_serves_the_learners_folder(course: Course):
    """The address opens the first unit; JupyterLab shows the learner's folder and no more; Ctrl-C ends it."""
    with lab(course) as (address, _):
        assert urlsplit(address).path == f"/lab/tree/{UNIT}/{UNIT}.ipynb"
        with urlopen(address, timeout=60) as page:
            config = re.search(
                r'id="jupyter-config-data"[^>]*>(.*?)</script>', page.read().decode(), re.DOTALL
            )
        assert config is not None
        assert "@jupyter/nbgrader" in json.loads(config[1])["disabledExtensions"]
        assert [entry["name"] for entry in get(api(address, "/api/contents"))["content"]] == [UNIT]
        notebook = get(api(address, f"/api/contents/{UNIT}/{quote(UNIT)}.ipynb"))
        assert "return 2 * x" not in json.dumps(notebook)
        with pytest.raises(HTTPError, match="403"):
            urlopen(address.split("?")[0].replace("/lab/tree/", "/api/contents/"), timeout=30)
    assert (course.root.parent / "my-work" / UNIT / f"{UNIT}.ipynb").is_file()


def test_lab_keeps_what_was_changed_and_takes_a_free_port(course: Course):
    """With the port in use the address is the true one; a newer version lies beside a changed file, and is named."""
    assert run("autograder", "lab", "--prepare-only", cwd=course.root).returncode == 0
    mine = course.root.parent / "my-work" / UNIT / f"{UNIT}.ipynb"
    mine.write_text(mine.read_text().replace("# A unit", "# My unit"))
    source = course.source / UNIT / f"{UNIT}.ipynb"
    source.write_text(source.read_text().replace("# A unit", "# A better unit"))
    with socket.create_server(("localhost", 0)) as taken:
        port = taken.getsockname()[1]
        with lab(course, "--port", str(port)) as (address, printed):
            assert f"Port {port} is in use" in printed
            assert f"{UNIT} (new version).ipynb" in printed
            assert urlsplit(address).port != port
            names = [entry["name"] for entry in get(api(address, f"/api/contents/{UNIT}"))["content"]]
            assert sorted(names) == [f"{UNIT} (new version).ipynb", f"{UNIT}.ipynb"]
    assert nbformat.read(mine, as_version=4).cells[0].source == "# My unit"


def test_lab_opens_an_orientation_first(tmp_path: Path):
    """Units are studied by name; one called 00-… comes before 01-…."""
    course = make_course(tmp_path / "course", ("01-first", "00-start"))
    with lab(course, "--dir", str(tmp_path / "here and there")) as (address, printed):
        assert urlsplit(address).path == "/lab/tree/00-start/00-start.ipynb"
        assert f"Your work is in {tmp_path / 'here and there'}" in printed


def test_lab_refuses_a_folder_that_cannot_be_used(course: Course):
    """A file in the place of the folder is an error that names it and --dir, with status 2."""
    (course.root.parent / "my-work").write_text("")
    result = run("autograder", "lab", "--no-browser", cwd=course.root)
    assert result.returncode == 2
    assert "my-work" in result.stderr
    assert "--dir" in result.stderr
