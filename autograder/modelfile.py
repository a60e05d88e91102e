"""Get a Keras model out of a file: FILE.py[:NAME], FILE.keras or FILE.h5."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from traceback import StackSummary, TracebackException
from types import ModuleType
from typing import Any

from autograder.place import is_own

SUFFIXES = (".py", ".keras", ".h5")

_HDF5 = b"\x89HDF\r\n\x1a\n"
"""What every HDF5 file begins with."""


class ModelFileError(Exception):
    """There is no model to be had from the file; the message says why, and what to do."""


@dataclass(frozen=True)
class Loaded:
    """A model and what was beside it."""

    model: Any
    namespace: Mapping[str, Any] | None
    """The names of the Python file; None for a saved model."""
    note: str = ""
    """What could not be restored; empty where all could."""


def find(target: str) -> tuple[Path, str | None]:
    r"""Take FILE and NAME apart and see whether there is such a file. Loads no TensorFlow.

    Args:
        target: FILE.py, FILE.py:NAME, FILE.keras or FILE.h5. A drive's letter (`C:\model.py`) is no FILE.

    Raises:
        ModelFileError: there is no such file, it has another suffix, or NAME cannot be one.
    """
    file, colon, name = target.rpartition(":")
    if not colon or Path(target).exists() or Path(file).suffix.lower() not in SUFFIXES:
        file, colon, name = target, "", ""
    path = Path(file)
    suffix = path.suffix.lower()
    if suffix == ".ipynb":
        raise ModelFileError(f"{file} is a notebook. Call `autograder.explain(model, globals())` in it.")
    if suffix not in SUFFIXES:
        raise ModelFileError(
            f"{file} is not a kind of file that holds a model: give FILE.py, FILE.py:NAME, FILE.keras or FILE.h5."
        )
    if path.is_dir():
        raise ModelFileError(f"{file} is a folder. Give a file: FILE.py, FILE.keras or FILE.h5.")
    if not path.exists():
        raise ModelFileError(f"There is no file {file} (seen from {Path.cwd()}).")
    if not colon:
        return path, None
    if suffix != ".py":
        raise ModelFileError(f"{file} holds one model: leave out `:{name}`. A NAME goes with a Python file.")
    if not name.isidentifier():
        given = f"`{name}` is no name" if name else "there is none"
        raise ModelFileError(f"After {file}: comes the name that the model has in the file; {given}.")
    return path, name


def load(target: str) -> Loaded:
    """Get the model.

    A Python file is run as a module of its own folder, which stays on `sys.path`; what stands under
    `if __name__ == "__main__":` does not run.

    Args:
        target: see `find`.

    Raises:
        ModelFileError: there is no model, or more than one to choose from, or the file cannot be used.
    """
    path, name = find(target)
    if path.suffix.lower() == ".py":
        return _choose(vars(_run(path)), path, name)
    return _restore(path)


# Python files --------------------------------------------------------------------------------------------------


def _run(path: Path) -> ModuleType:
    # TensorFlow first: a file in the folder named like one of its modules must not take its place.
    import tensorflow  # noqa: F401

    stem = re.sub(r"\W", "_", path.stem)
    taken = stem in sys.modules or importlib.util.find_spec(stem) is not None
    spec = importlib.util.spec_from_file_location(f"_{stem}" if taken else stem, path.resolve())
    if spec is None or spec.loader is None:
        raise ModelFileError(f"Python cannot run {path}.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(path.resolve().parent))
    arguments, sys.argv = sys.argv, [str(path)]
    try:
        spec.loader.exec_module(module)
    except SystemExit as end:
        raise ModelFileError(
            f"{path} ended itself (sys.exit, exit status {end.code}) before it was through.\n\n"
            f'{_shortened(end)}\n\nPut what ends the program under `if __name__ == "__main__":`.'
        ) from end
    except Exception as error:
        from autograder.building import explain_error

        explanation = explain_error(error)
        raise ModelFileError(
            f"{path} raises an error, so there is no model to explain.\n\n{_shortened(error)}"
            + (f"\n\n{explanation}" if explanation else "")
        ) from error
    finally:
        sys.argv = arguments
    return module


def _shortened(error: BaseException) -> str:
    """The traceback with the lines of the person's own files only."""
    whole = TracebackException.from_exception(error)
    waiting: list[TracebackException | None] = [whole]
    while waiting:
        part = waiting.pop()
        if part is not None:
            part.stack = StackSummary.from_list([frame for frame in part.stack if is_own(frame.filename)])
            waiting += [part.__cause__, part.__context__]
    return "".join(whole.format()).strip("\n")


def _choose(namespace: Mapping[str, Any], path: Path, name: str | None) -> Loaded:
    from autograder.graph import keras2 as keras
    from autograder.graph.trace import describe

    models = {key: value for key, value in namespace.items() if keras.is_model(value)}
    if name is not None:
        if name in models:
            return Loaded(models[name], namespace)
        problem = (
            f"`{name}` in {path} is no Keras model but {describe(namespace[name])}."
            if name in namespace
            else f"{path} has no `{name}`."
        )
        raise ModelFileError(f"{problem}\n{_listed(models, path)}")
    if len({id(model) for model in models.values()}) == 1:
        return Loaded(next(iter(models.values())), namespace)
    if models:
        raise ModelFileError(f"{path} holds several models. {_listed(models, path)}")
    raise ModelFileError(_listed(models, path))


def _listed(models: Mapping[str, Any], path: Path) -> str:
    """The models to choose from."""
    if not models:
        return (
            f"There is no Keras model in {path}: no name at its top level stands for one. Give it one, such as "
            '`model = build()`, outside of functions and of `if __name__ == "__main__":`.'
        )
    width = max(map(len, models))
    kinds = {name: type(model).__name__ for name, model in models.items()}
    lines = [
        f"  {name:<{width}}  {kinds[name]:<{max(map(len, kinds.values()))}}  {_size(model)}"
        for name, model in models.items()
    ]
    first = next(iter(models))
    return "\n".join([f"Say which one is meant, such as {path}:{first}", *lines])


def _size(model: Any) -> str:
    if not model.built:
        return "not built"
    return f"{model.count_params():,} parameters"


# Saved models --------------------------------------------------------------------------------------------------


def _restore(path: Path) -> Loaded:
    try:
        if zipfile.is_zipfile(path):
            saved_by, config = _read_zip(path)
        elif _begins_with(path, _HDF5):
            saved_by, config = _read_hdf5(path)
        else:
            raise ModelFileError(
                f"{path} is no saved model: it is neither a .keras archive nor an HDF5 file, or it is damaged. "
                "Save the model again: `model.save(…)`."
            )
    except (OSError, zipfile.BadZipFile, ValueError, KeyError) as error:
        raise ModelFileError(f"{path} cannot be read, it may be damaged: {error}") from error
    here = version("keras")
    if saved_by.partition(".")[0] not in (here.partition(".")[0], ""):
        raise ModelFileError(
            f"{path} was saved by Keras {saved_by}, which Keras {here} here cannot read. Build the model from its "
            "code with the Keras here, and give that: FILE.py."
        )
    unsafe = [part["config"].get("name", "lambda") for part in _parts(config) if _holds_code(part)]
    if unsafe:
        raise ModelFileError(
            f"{path} holds Python code, in Lambda {_names(unsafe)}. Code from a saved file is not run unasked. If you "
            "trust it, give a FILE.py that says "
            f"`model = tf.keras.models.load_model({path.name!r}, safe_mode=False)`."
        )
    return _with_keras(path, saved_by, config)


def _begins_with(path: Path, mark: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(mark)) == mark


def _read_zip(path: Path) -> tuple[str, Any]:
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        if "metadata.json" not in names or "config.json" not in names:
            raise ModelFileError(
                f"{path} is a zip archive without a Keras model in it (no metadata.json and config.json)."
            )
        metadata = json.loads(archive.read("metadata.json"))
        return str(metadata.get("keras_version", "")), json.loads(archive.read("config.json"))


def _read_hdf5(path: Path) -> tuple[str, Any]:
    import h5py  # type: ignore[import-untyped]

    with h5py.File(path, "r") as file:
        config = file.attrs.get("model_config")
        if config is None:
            raise ModelFileError(
                f"{path} holds weights, or other data, and no model: weights alone do not say how the layers are "
                "connected. Save the whole model, `model.save(…)`, or give the FILE.py that builds it."
            )
        return _text(file.attrs.get("keras_version", "")), json.loads(_text(config))


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _with_keras(path: Path, saved_by: str, config: Any) -> Loaded:
    import keras

    def restore(*, compiled: bool) -> Any:
        return keras.models.load_model(path, compile=compiled)

    note = ""
    try:
        model = restore(compiled=True)
    except Exception as error:  # Keras raises nearly anything here
        try:
            model = restore(compiled=False)
        except Exception as fatal:
            raise ModelFileError(_why_not(path, saved_by, config, fatal)) from fatal
        note = (
            f"What `compile` had set could not be restored ({_first_sentence(error)}), so the gradient is that of "
            "a loss of ours."
        )
    if not isinstance(model, keras.Model):
        raise ModelFileError(f"{path} holds no Keras model but {type(model).__name__}.")
    return Loaded(model, None, note)


def _why_not(path: Path, saved_by: str, config: Any, error: Exception) -> str:
    missing = list(dict.fromkeys(_missing(config)))
    if missing:
        return (
            f"{path} needs classes or functions that are not Keras' own: {_names(missing)}. Give a FILE.py that "
            "defines them and says `model = tf.keras.models.load_model("
            f"{path.name!r}, custom_objects={{…}})`."
        )
    here = version("keras")
    other = f" It was saved by Keras {saved_by}; here is Keras {here}." if saved_by not in (here, "") else ""
    return f"Keras cannot load {path}: {_first_sentence(error)}{other}"


def _parts(config: Any) -> Iterator[dict[str, Any]]:
    """Every object in a saved configuration: what has a class name and a configuration of its own."""
    waiting = [config]
    while waiting:
        value = waiting.pop(0)
        if isinstance(value, dict):
            if isinstance(value.get("class_name"), str) and "config" in value:
                yield value
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)


def _holds_code(part: Mapping[str, Any]) -> bool:
    config = part["config"]
    return isinstance(config, dict) and (
        part["class_name"] == "__lambda__" or config.get("function_type") == "lambda"
    )


def _missing(config: Any) -> Iterator[str]:
    """The names of the classes and functions in a saved configuration that Keras here does not know."""
    import keras

    makers: tuple[Callable[..., Any], ...] = (
        keras.layers.deserialize,
        keras.initializers.deserialize,
        keras.regularizers.deserialize,
        keras.constraints.deserialize,
    )
    for part in _parts(config):
        name = part["class_name"]
        if name == "function":
            if keras.saving.get_registered_object(str(part["config"])) is None:
                yield str(part["config"])
        elif "registered_name" in part:
            foreign = part.get("module") is None or not str(part["module"]).startswith(("keras", "builtins"))
            if foreign and keras.saving.get_registered_object(part["registered_name"]) is None:
                yield name
        elif not (
            keras.saving.get_registered_object(name)
            or hasattr(keras.mixed_precision, name)
            or any(_knows(maker, name) for maker in makers)
        ):
            yield name


def _knows(maker: Callable[..., Any], name: str) -> bool:
    """Whether one of Keras' functions that make objects from configurations has a class of this name."""
    try:
        maker({"class_name": name, "config": {}}, use_legacy_format=True)
    except ValueError as error:
        return not str(error).startswith("Unknown")
    except Exception:  # it has one, which wants a fuller configuration than this
        return True
    return True


def _names(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _first_sentence(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0].partition('. ')[0] if lines else ''}".rstrip(".: ")
