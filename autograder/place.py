"""The place in a person's own code where an error came up: the expression, and the live names around it."""

from __future__ import annotations

import ast
import linecache
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any

_LONGEST = 60


@dataclass(frozen=True)
class Place:
    """Where the innermost line of a person's own code was when the error came up."""

    file: str
    line: int
    names: Mapping[str, Any]
    """What the names there stand for, local ones before global ones."""
    around: tuple[ast.AST, ...] = field(default=())
    """The expression that was being evaluated, then what it stands in, from the inside out; empty where the
    source is not at hand."""

    @property
    def expression(self) -> ast.AST | None:
        """The expression that was being evaluated."""
        return self.around[0] if self.around else None

    @property
    def text(self) -> str:
        """The expression as text on one line, shortened; empty where the source is not at hand."""
        return text_of(self.expression) if self.expression is not None else ""

    def names_of(self, value: Any) -> list[str]:
        """The names that the value has there, by identity. IPython's `_`, `_3`, … are not among them."""
        return [name for name, own in self.names.items() if own is value and not name.startswith("_")]


def text_of(node: ast.AST) -> str:
    """A piece of source on one line, shortened in the middle."""
    text = " ".join(ast.unparse(node).split())
    if len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST // 2]} … {text[-(_LONGEST // 2 - 3) :]}"


def is_own(file: str) -> bool:
    """Whether a file is a person's own code: neither an installed package nor Python's library nor ours."""
    if file.startswith("<frozen") or not file:
        return False
    path = Path(file)
    if {"site-packages", "dist-packages"} & set(path.parts):
        return False
    return not any(path.is_relative_to(folder) for folder in _LIBRARIES)


_LIBRARIES = tuple(
    {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), str(Path(__file__).parent)}
)


def place_of(error: BaseException) -> Place | None:
    """The innermost place in a person's own code on the way to the error; None where there is none."""
    own = [step for step in _steps(error.__traceback__) if is_own(step.tb_frame.f_code.co_filename)]
    if not own:
        return None
    step = own[-1]
    code = step.tb_frame.f_code
    names = {**step.tb_frame.f_globals, **step.tb_frame.f_locals}
    position = next(islice(code.co_positions(), step.tb_lasti // 2, None), None)
    around = _around(code.co_filename, position) if position else ()
    return Place(code.co_filename, step.tb_lineno, names, around)


def _steps(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _around(
    file: str, position: tuple[int | None, int | None, int | None, int | None]
) -> tuple[ast.AST, ...]:
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):  # not the text that ran: a file that was edited meanwhile
        return ()
    line, end_line, column, end_column = position
    wanted = (line, column, end_line, end_column)
    parents: dict[ast.AST, ast.AST] = {}
    found: ast.AST | None = None
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            parents[child] = node
        # Breadth first, so of two nodes at one position (a statement and its expression) the inner one wins.
        if _position(node) == wanted:
            found = node
    chain = []
    if found is not None and (asked := _asked(found)) is not None:
        chain.append(asked)
    while found is not None:
        chain.append(found)
        found = parents.get(found)
    return tuple(chain)


def _asked(node: ast.AST) -> ast.AST | None:
    """The part of a statement that is evaluated first: Python 3.11 gives the whole one's position for it."""
    if isinstance(node, ast.If | ast.While | ast.IfExp | ast.Assert):
        return node.test
    if isinstance(node, ast.For):
        return node.iter
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return node.operand
    return None


def _position(node: ast.AST) -> tuple[Any, ...]:
    return tuple(
        getattr(node, name, None) for name in ("lineno", "col_offset", "end_lineno", "end_col_offset")
    )
