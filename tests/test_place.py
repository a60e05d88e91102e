"""Where in a person's own code an error came up."""

from __future__ import annotations

import ast
import json
import sysconfig

import pytest

from autograder.place import is_own, place_of, text_of


def place_in(folder, source, **names):
    """The place of the error that a file of this text ends in."""
    file = folder / "learner.py"
    file.write_text(source)
    with pytest.raises(Exception) as error:  # noqa: PT011
        exec(compile(source, str(file), "exec"), {"__name__": "learner", **names})
    return place_of(error.value)


def test_the_expression_and_what_it_stands_in(tmp_path):
    """The expression that was being evaluated comes first, then what holds it, up to the file."""
    place = place_in(tmp_path, "a = 1\nif a + len(3) > 2:\n    pass\n")
    assert place.line == 2
    assert place.text == "len(3)"
    assert [type(node) for node in place.around] == [ast.Call, ast.BinOp, ast.Compare, ast.If, ast.Module]


def test_the_innermost_own_line_counts(tmp_path):
    """An error deep inside a library is placed at the line that called the library."""
    place = place_in(tmp_path, "def read(text):\n    return json.loads(text)\nread('{')\n", json=json)
    assert (place.line, place.text, place.names["text"]) == (2, "json.loads(text)", "{")


@pytest.mark.parametrize(
    "statement", ["if x: pass", "while x: pass", "assert x", "y = not x", "y = 1 if x else 2"]
)
def test_of_a_decision_the_part_that_decides(tmp_path, statement):
    """Python gives the whole statement's position for it; the part that was asked is meant."""

    class Odd:
        def __bool__(self):
            return len(3)

    # The class is defined in this file, which is a person's own code too, so the last place is in here.
    place = place_in(tmp_path, f"{statement}\n", x=Odd())
    assert place.text == "len(3)"

    class Longer:
        __len__ = len

    assert place_in(tmp_path, f"{statement}\n", x=Longer()).text == "x"


def test_names_by_identity(tmp_path):
    """Local names come before global ones, and IPython's history does not count."""
    value = object()
    place = place_in(tmp_path, "def f(own):\n    1 / 0\nf(given)\n", given=value, _3=value, other=object())
    assert sorted(place.names_of(value)) == ["given", "own"]


def test_without_the_source_there_is_no_text():
    """Code that came from a string has a line and names, and no text."""
    with pytest.raises(ZeroDivisionError) as error:
        exec("1 / 0", {"__name__": "nowhere"})
    place = place_of(error.value)
    assert (place.line, place.text, place.around) == (1, "", ())


def test_what_is_a_persons_own():
    """Python's library, installed packages and this package are not."""
    assert is_own("/home/anna/model.py")
    assert is_own("/tmp/ipykernel_7/123.py")
    assert not is_own("/somewhere/site-packages/keras/layers.py")
    assert not is_own(f"{sysconfig.get_path('stdlib')}/json/decoder.py")
    assert not is_own(is_own.__code__.co_filename)
    assert not is_own("<frozen importlib._bootstrap>")


def test_long_expressions_are_shortened_in_the_middle():
    """A message stays readable."""
    text = text_of(ast.parse(f"f({', '.join(['some_name'] * 30)})").body[0])
    assert len(text) <= 60
    assert text.startswith("f(some_name")
    assert " … " in text
