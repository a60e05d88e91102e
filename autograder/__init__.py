"""Reads a Keras model as a graph and says which parameters belong to it, which are trained, and why.

Importing this package loads no TensorFlow; the first use of a name that needs it does.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autograder import check as check
    from autograder.findings import explain as explain
    from autograder.graph.compare import compare as compare
    from autograder.graph.draw import draw as draw
    from autograder.graph.step import walk_back as walk_back
    from autograder.graph.trace import trace as trace

_HOME = {
    "trace": "autograder.graph.trace",
    "explain": "autograder.findings",
    "draw": "autograder.graph.draw",
    "compare": "autograder.graph.compare",
    "walk_back": "autograder.graph.step",
}

__all__ = ["check", "compare", "draw", "explain", "trace", "walk_back"]


def __getattr__(name: str) -> Any:
    if name == "check":
        return import_module("autograder.check")
    if name not in _HOME:
        raise AttributeError(f"module 'autograder' has no attribute '{name}'")
    return getattr(import_module(_HOME[name]), name)


def load_ipython_extension(ipython: Any) -> None:
    """`%load_ext autograder`: errors that come up while a model is built are explained under the traceback."""
    import_module("autograder.building").load_ipython_extension(ipython)


def unload_ipython_extension(ipython: Any) -> None:
    """`%unload_ext autograder`: errors are left alone again."""
    import_module("autograder.building").unload_ipython_extension(ipython)


def __dir__() -> list[str]:
    return sorted(__all__)
