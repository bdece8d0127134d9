"""HTML representation of results for notebooks: a table of their fields."""

import dataclasses
import html
from typing import dataclass_transform

import numpy as np

_LONGEST = 120  # largest number of characters of a value


class Shown:
    """A dataclass with an HTML table for notebooks, a row for each field; arrays are shown by their shape,
    and by their range if they are long."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{field.name}</th><td>{html.escape(_text_of(getattr(self, field.name)))}</td></tr>"
            for field in dataclasses.fields(self)
            if not field.name.startswith("_")
        )
        return f"<table><caption>{type(self).__name__}</caption>{rows}</table>"


@dataclass_transform(frozen_default=True)
class Frozen(Shown):
    """Base of frozen dataclasses, which need no decorator: its arguments are next to the base."""

    def __init_subclass__(cls, **how: bool) -> None:
        by_value = how.get("eq", True) and "__eq__" not in vars(cls)
        dataclasses.dataclass(cls, frozen=True, **how)
        if by_value:
            cls.__eq__ = _equal


def _equal(one, other):
    """Return True if two results have equal fields, with arrays compared element by element."""
    if type(one) is not type(other):
        return NotImplemented
    return all(
        _same(getattr(one, field.name), getattr(other, field.name)) for field in dataclasses.fields(one)
    )


def _same(one, other):
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    if type(one) is not type(other):
        return one == other
    if isinstance(one, dict):
        return _same(list(one.items()), list(other.items()))
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(map(_same, one, other))
    return one == other or (one != one and other != other)  # NaN


def _text_of(value):
    shape = getattr(value, "shape", None)
    if shape and isinstance(value, np.ndarray) and value.size > 6:
        numbers = value.dtype.kind in "iuf" and np.isfinite(value).any()
        span = f", {np.nanmin(value):.6g} to {np.nanmax(value):.6g}" if numbers else ""
        return f"{value.dtype}, shape {shape}{span}"
    text = (
        f"{value:.8g}"
        if isinstance(value, float)
        else str(value)
        if dataclasses.is_dataclass(value) or shape
        else repr(value)
    )
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."
