"""Reads the corpus of right and wrong answers, `course/answers/UNIT.md`, and puts answers into notebooks.

The format, which an instructor can read and add to:

    # 03-untracked-subgraph
    Free text.
    ## owning-layer
    ### right: add_weight in build
    ```python
    code in place of the whole solution cell
    ```
    ### wrong: a loose tf.Variable
    - misconception: 13
    - caught by: owning-layer-check
    - message: belongs to no layer
    ```python
    …
    ```
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from markdown_it import MarkdownIt
from markdown_it.token import Token

_KEYS = ("misconception", "caught by", "message")


class AnswersError(Exception):
    """A file of answers, or an answer's place in a notebook, that is not as it should be."""


@dataclass(frozen=True)
class Answer:
    """One answer to one exercise.

    Attributes:
        unit: name of the unit.
        exercise: id of the exercise, which is the grade id of its solution cell.
        name: what is particular to the answer, in words.
        right: whether it deserves full marks.
        code: the source of the solution cell.
        misconception: of a wrong answer, its number in the course's list, or None for a plain slip.
        caught_by: of a wrong answer, the grade id of the check cell that must fail.
        message: of a wrong answer, words that the message of that check must hold.
    """

    unit: str
    exercise: str
    name: str
    right: bool
    code: str
    misconception: int | None = None
    caught_by: str | None = None
    message: str | None = None


def read(path: Path) -> tuple[Answer, ...]:
    """The answers of one file, in its order.

    Raises:
        AnswersError: the file is missing or not in the format; the message names file and line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise AnswersError(f"{path}: cannot be read: {error}") from error
    return _Reader(path).read(MarkdownIt("commonmark").parse(text))


def fill(notebook: Any, answers: Mapping[str, str]) -> Any:
    """A copy of a notebook with code in its solution cells.

    Args:
        notebook: an nbformat notebook of a unit, source or release.
        answers: the source of the solution cell, by exercise id. Other solution cells stay as they are.

    Raises:
        AnswersError: an exercise is not in the notebook.
    """
    filled = deepcopy(notebook)
    cells = solution_cells(filled)
    for exercise, code in answers.items():
        if exercise not in cells:
            known = ", ".join(cells) or "none"
            raise AnswersError(f"the notebook has no exercise '{exercise}' (it has: {known})")
        cells[exercise].source = code
    return filled


def solution_cells(notebook: Any) -> dict[str, Any]:
    """The solution cells of a notebook by exercise id, in its order."""
    roles = ((cell.metadata.get("nbgrader", {}), cell) for cell in notebook.cells)
    return {role["grade_id"]: cell for role, cell in roles if role.get("solution")}


class _Reader:
    """Walks over the blocks of one file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.line = 1
        self.exercise = ""
        self.answers: list[Answer] = []
        self.open: dict[str, Any] | None = None
        self.opened = 1

    def read(self, tokens: list[Token]) -> tuple[Answer, ...]:
        title = None
        for before, token in zip([None, *tokens], tokens, strict=False):
            self.line = token.map[0] + 1 if token.map else self.line
            if token.type == "inline" and before is not None and before.type == "heading_open":
                text = token.content.strip()
                if before.tag == "h1":
                    title = text
                elif before.tag == "h2":
                    self.finish()
                    self.exercise = text
                elif before.tag == "h3":
                    self.finish()
                    self.begin(text)
            elif token.type == "inline" and token.level == 3 and self.open is not None:
                self.key(token.content.strip())
            elif token.type == "fence" and self.open is not None:
                self.code(token)
        self.finish()
        if title != self.path.stem:
            self.line = 1
            self.fail(f"the first line must be '# {self.path.stem}', the unit's name, as the file's")
        return tuple(self.answers)

    def begin(self, heading: str) -> None:
        kind, colon, name = heading.partition(":")
        if kind.strip() not in ("right", "wrong") or not colon or not name.strip():
            self.fail(f"expected '### right: NAME' or '### wrong: NAME', found '### {heading}'")
        if not self.exercise:
            self.fail(f"'### {heading}' stands before the first '## EXERCISE'")
        self.open = {"right": kind.strip() == "right", "name": name.strip()}
        self.opened = self.line

    def key(self, item: str) -> None:
        assert self.open is not None
        key, colon, value = (part.strip() for part in item.partition(":"))
        if not colon or key not in _KEYS or not value:
            self.fail(f"expected '- KEY: VALUE' with one of {', '.join(_KEYS)}, found '- {item}'")
        if self.open["right"]:
            self.fail(f"a right answer has no '{key}'")
        if key == "misconception" and not value.isdecimal():
            self.fail(f"a misconception is a number, found '{value}'")
        if key == "caught by" and not value.startswith(f"{self.exercise}-check"):
            self.fail(f"the check '{value}' is none of the exercise '{self.exercise}'")
        self.open[key.replace(" ", "_")] = int(value) if key == "misconception" else value

    def code(self, token: Token) -> None:
        assert self.open is not None
        if token.info.strip() != "python":
            self.fail("an answer's code starts with ```python")
        if "code" in self.open:
            self.fail(f"'{self.open['name']}' has two blocks of code; an answer is one")
        self.open["code"] = token.content.rstrip("\n")

    def finish(self) -> None:
        """Close the answer that is open, if there is one."""
        if self.open is None:
            return
        here, self.line = self.line, self.opened
        name = self.open["name"]
        if "code" not in self.open:
            self.fail(f"'{name}' has no block of code")
        if not self.open["right"]:
            for key in ("caught by", "message"):
                if key.replace(" ", "_") not in self.open:
                    self.fail(f"the wrong answer '{name}' does not say '- {key}: …'")
        if any(other.exercise == self.exercise and other.name == name for other in self.answers):
            self.fail(f"the exercise '{self.exercise}' has two answers called '{name}'")
        self.answers.append(Answer(unit=self.path.stem, exercise=self.exercise, **self.open))
        self.open, self.line = None, here

    def fail(self, message: str) -> NoReturn:
        raise AnswersError(f"{self.path}:{self.line}: {message}")
