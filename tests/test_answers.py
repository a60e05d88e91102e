"""The corpus of answers: what is read from Markdown, and where it goes in a notebook."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import ANSWERS, unit

from autograder.answers import AnswersError, fill, read


def write(folder: Path, text: str) -> Path:
    path = folder / "01-first.md"
    path.write_text(text)
    return path


def test_answers_are_read_in_order(tmp_path: Path):
    """Each answer comes with its exercise, name, code and, where wrong, what must catch it."""
    answers = read(write(tmp_path, ANSWERS))
    assert [(answer.exercise, answer.right, answer.name) for answer in answers] == [
        ("double", True, "by addition"),
        ("double", False, "squared"),
        ("last", True, "a name"),
        ("last", False, "the start"),
    ]
    squared = answers[1]
    assert squared.unit == "01-first"
    assert squared.code == "def double(x):\n    return x * x"
    assert (squared.misconception, squared.caught_by, squared.message) == (4, "double-check", "8")
    assert answers[3].misconception is None
    assert answers[2].code.count("\n") == 4


def test_a_code_block_may_hold_what_looks_like_markdown(tmp_path: Path):
    """Lines of code that start with # or - are code, not headings or keys."""
    text = "# 01-first\n## double\n### right: odd\n```python\n# a comment\n- 1\n## more\n```\n"
    (answer,) = read(write(tmp_path, text))
    assert answer.code == "# a comment\n- 1\n## more"


WRONG = "### wrong: w\n- caught by: double-check\n- message: m\n"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("# other\n", 1, "the unit's name"),
        ("## double\n### right: a\n```python\n1\n```\n", 1, "# 01-first"),
        ("# 01-first\n### right: a\n```python\n1\n```\n", 2, "before the first '## EXERCISE'"),
        ("# 01-first\n## double\n### maybe: a\n", 3, "expected '### right: NAME'"),
        ("# 01-first\n## double\n### right:\n", 3, "expected '### right: NAME'"),
        ("# 01-first\n## double\n### right: a\n\ntext\n", 3, "'a' has no block of code"),
        ("# 01-first\n## double\n### right: a\n```python\n1\n```\n```python\n2\n```\n", 7, "two blocks"),
        ("# 01-first\n## double\n### right: a\n```\n1\n```\n", 4, "```python"),
        ("# 01-first\n## double\n### right: a\n- message: m\n```python\n1\n```\n", 4, "no 'message'"),
        ("# 01-first\n## double\n### wrong: a\n- caught by: double-check\n```python\n1\n```\n", 3, "message"),
        ("# 01-first\n## double\n### wrong: a\n- message: m\n```python\n1\n```\n", 3, "caught by"),
        (f"# 01-first\n## double\n{WRONG}- misconception: four\n```python\n1\n```\n", 6, "is a number"),
        (f"# 01-first\n## double\n{WRONG}- colour: red\n```python\n1\n```\n", 6, "one of misconception"),
        ("# 01-first\n## double\n### wrong: a\n- caught by: last-check\n", 4, "none of the exercise"),
        ("# 01-first\n## double\n" + "### right: a\n```python\n1\n```\n" * 2, 7, "two answers called 'a'"),
    ],
)
def test_a_slip_in_the_file_is_named_with_its_line(tmp_path: Path, text: str, line: int, words: str):
    """What is not in the format ends in an error with file, line and what was expected."""
    path = write(tmp_path, text)
    with pytest.raises(AnswersError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert words in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path):
    """A file that is not there is named in the error."""
    with pytest.raises(AnswersError, match=r"nowhere\.md: cannot be read"):
        read(tmp_path / "nowhere.md")


def test_fill_puts_code_into_a_copy():
    """The copy's solution cell holds the code, everything else and the original stay as they were."""
    notebook = unit()
    filled = fill(notebook, {"double": "double = 1"})
    changed = [(old, new) for old, new in zip(notebook.cells, filled.cells, strict=True) if old != new]
    assert [(old.id, new.source) for old, new in changed] == [("double", "double = 1")]
    assert "BEGIN SOLUTION" in notebook.cells[2].source


def test_fill_refuses_an_exercise_that_is_not_there():
    """An unknown exercise is an error that lists the known ones; a check cell is no exercise."""
    with pytest.raises(AnswersError, match=r"no exercise 'double-check' .*double, marks, last"):
        fill(unit(), {"double-check": "pass"})
