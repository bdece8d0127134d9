"""Results in files of arrays and text, from which no code is ever executed."""

from __future__ import annotations

import dataclasses
import importlib
import json
from typing import Any, Self

import numpy as np

from portable.errors import InputError

from .annotations import Array, PathLike
from .files import read_npz, replacing
from .notebook_html import Frozen

VERSION = 1
_PACKAGE = __name__.rpartition(".shared.")[0]  # of the families


class Saved:
    """Base of objects that are saved and loaded by their fields: arrays, numbers, strings, and lists, tuples,
    dicts, dataclasses and other Saved of these.
    """

    def _fields(self) -> dict[str, Any]:
        """Return the fields that a file contains, by name."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @classmethod
    def _of(cls, fields: dict[str, Any]) -> Self:
        """Create the object from the result of `_fields`; raise ValueError if the fields are inconsistent."""
        return cls(**fields)

    @classmethod
    def _part(cls, held: dict[str, Any]) -> dict[str, Any] | None:
        """Return the fields of an object of this class within those of a file, or None."""
        return held if held["class"] == _name(cls) else None

    @classmethod
    def _earlier(cls, header: dict[str, Any], arrays: dict[str, Array]) -> Self | None:
        """Read a file in the format of an earlier release; None if it has another format."""
        return None

    def save(self, path: PathLike) -> None:
        """Write the result to a file: NumPy's .npz, without pickles.

        Parameters
        ----------
        path : str or Path
            An existing file is replaced once the new one is complete.

        Raises
        ------
        InputError
            A field is not an array, number, or string, or composed of these.
        StorageError
            The file cannot be written.
        """
        arrays: dict[str, Array] = {}
        header = {"format": _PACKAGE, "version": VERSION, "result": _to_json(self, arrays)}
        with replacing(path, "path") as beside, beside.open("wb") as file:
            np.savez(file, header=np.array(json.dumps(header)), **arrays)

    @classmethod
    def load(cls, path: PathLike) -> Self:
        """Read a result that was written by `save`.

        Parameters
        ----------
        path : str or Path

        Returns
        -------
        object of this class

        Raises
        ------
        InputError
            The file has other content, or is damaged.
        """
        arrays = read_npz(path)
        try:
            header = json.loads(str(arrays["header"]))
            if not header["format"].startswith((_PACKAGE, "models.")):
                raise KeyError("format")
            held, version = header.get("result") or {"class": header["format"]}, header["version"]
            name, own = held["class"], cls._part(held)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"'{path}' holds no result of {_PACKAGE}: {error}") from error
        if version > VERSION:
            raise InputError(f"'{path}' has version {version} of the format; expected {VERSION} or less")
        try:
            found = cls._earlier(header, arrays) if own is None else cls._of(_fields_in(own, arrays))
        except (KeyError, TypeError, ValueError, AttributeError, ImportError) as error:
            raise InputError(f"'{path}' is damaged: {type(error).__name__}: {error}") from error
        if found is None:
            raise InputError(f"'{path}' holds {name}; expected {_name(cls)}")
        return found


class Result(Saved, Frozen):
    """Base of results that can be saved, loaded, and shown in notebooks, which are frozen dataclasses."""


def _name(kind):
    """Return the import path of a class below the families' package: its family, if that exports it."""
    parts, name = kind.__module__.removeprefix(f"{_PACKAGE}.").split("."), kind.__name__
    places = [".".join(parts[:n]) for n in range(1, len(parts) + 1)]
    return next(f"{place}.{name}" for place in places if getattr(_module(place), name, None) is kind)


def _module(place):
    return importlib.import_module(f"{_PACKAGE}.{place}")


def _to_json(value: Any, arrays: dict[str, Array]) -> Any:
    """Return a value in a form for JSON; its arrays are added to `arrays`."""
    if isinstance(value, np.ndarray):
        name = f"array {len(arrays)}"
        arrays[name] = value.astype(str) if value.dtype == object else value
        return {"array": name}
    if isinstance(value, Saved) or dataclasses.is_dataclass(value):
        fields = (type(value) if isinstance(value, Saved) else Saved)._fields(value)
        return {"class": _name(type(value)), "fields": [[k, _to_json(v, arrays)] for k, v in fields.items()]}
    if isinstance(value, dict):
        return {"dict": [[_to_json(part, arrays) for part in pair] for pair in value.items()]}
    if isinstance(value, (tuple, list)):
        return {"tuple" if isinstance(value, tuple) else "list": [_to_json(part, arrays) for part in value]}
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise InputError(f"a result with a part of type {type(value).__name__} cannot be saved")


def _from_json(value: Any, arrays: dict[str, Array]) -> Any:
    """Return the value from the result of `_to_json`."""
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return arrays[value["array"]]
    if "class" in value:
        module, _, name = value["class"].rpartition(".")
        kind = getattr(_module(module), name)
        fields = _fields_in(value, arrays)
        if issubclass(kind, Saved):
            return kind._of(fields)
        if not dataclasses.is_dataclass(kind):
            raise TypeError(f"{value['class']} is no result")
        return kind(**fields)
    if "dict" in value:
        return {_from_json(key, arrays): _from_json(part, arrays) for key, part in value["dict"]}
    ((kind, parts),) = value.items()
    found = [_from_json(part, arrays) for part in parts]
    return tuple(found) if kind == "tuple" else found


def _fields_in(value: dict[str, Any], arrays: dict[str, Array]) -> dict[str, Any]:
    return {name: _from_json(part, arrays) for name, part in value["fields"]}
