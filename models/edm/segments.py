"""Segments: replicates, subjects or sites, one after the other in a table; and the arguments that define the
candidates and the points of a search, checked in one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self, TypeAlias, Union

import numpy as np

from ..shared import ArrayLike, InputError, Names, Result, ShapeError, annotations, check_count, check_labels
from .checks import check_embedding, check_horizon, check_valid, check_windows


class Segments(Result):
    """Replicates one after the other in a table: no point, target, radius, surrogate or block of a bootstrap
    crosses from one to another.

    Attributes
    ----------
    names : tuple of str
    windows : tuple of (begin, end)
        First row and end (exclusive) of each, from 0, ascending. Other rows are left out.

    Raises
    ------
    ShapeError, DTypeError, InputError
        Two segments have the same name, or share a row; the message names it.
    """

    names: Names
    windows: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        names, windows, end = tuple(map(str, self.names)), [], 0
        if len(names) != len(self.windows) or not names:
            raise ShapeError(f"{len(names)} names and {len(self.windows)} windows; expected one for each")
        for number, (name, (first, last)) in enumerate(zip(names, self.windows)):
            if name in names[:number]:
                raise InputError(
                    f"segment {name!r} begins again at row {first}; expected its rows together, in the "
                    "order of time"
                )
            begin = check_count(first, f"begin of segment {name!r}, behind others,", end)
            end = check_count(last, f"end of segment {name!r}", begin + 1)
            windows.append((begin, end))
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "windows", tuple(windows))

    @classmethod
    def of(cls, labels: ArrayLike) -> Self:
        """Return the Segments of a column with the name of the replicate of each row.

        Parameters
        ----------
        labels : array-like of str or number, shape (n_times,)

        Returns
        -------
        Segments

        Raises
        ------
        ShapeError, InputError
            A row has no name, or rows of one name are not successive; the message names the row.
        """
        given = check_labels(labels, "segments")
        whole = given.dtype.kind == "f" and (given == np.rint(given)).all()
        text = np.array(list(map(str, (given.astype(int) if whole else given).tolist())))
        begins = [0, *(np.flatnonzero(text[1:] != text[:-1]) + 1).tolist()]
        return cls(tuple(text[begins].tolist()), tuple(zip(begins, [*begins[1:], len(text)])))


Replicates: TypeAlias = Union[Segments, ArrayLike, annotations.Label, None]
Windows: TypeAlias = Union[annotations.Windows, str, Sequence[str], None]  # or names of segments
Columns: TypeAlias = Union[annotations.Label, Sequence[annotations.Label], None]


def number_of(segments, times):
    """Return the segment of each time, counted from 0; -1 outside all segments."""
    begins, ends = np.array(segments.windows).T
    number = np.searchsorted(begins, times, side="right") - 1
    return np.where(times < ends[number], number, -1)


def check_segments(segments, n_times) -> Segments:
    """Return Segments, or the Segments of a label for each time; raise unless they fit n_times."""
    found = segments if isinstance(segments, Segments) else Segments.of(segments)
    name, (begin, end) = found.names[-1], found.windows[-1]
    if end > n_times or (found is not segments and end < n_times):
        raise ShapeError(
            f"the last segment, {name!r}, is rows {begin} to {end - 1}; the library has {n_times} times"
        )
    return found


def windows_in(windows, name, n_times, segments):
    """Return windows from `check_windows`, cut at the ends of segments; names of segments select theirs."""
    asked = [windows] if isinstance(windows, str) else windows
    if isinstance(asked, (list, tuple)) and asked and all(isinstance(one, str) for one in asked):
        found = dict(zip(segments.names, segments.windows)) if segments else {}
        for one in asked:
            if one not in found:
                known = f"they are {', '.join(found)}" if found else "segments= tells them"
                raise InputError(f"{name}: there is no segment {one!r}; {known}")
        return sorted({found[one] for one in asked})
    if segments is None:
        return check_windows(windows, name, n_times)
    if windows is None:
        return list(segments.windows)
    cut = [
        (max(begin, first), min(end, last))
        for begin, end in check_windows(windows, name, n_times)
        for first, last in segments.windows
        if max(begin, first) < min(end, last)
    ]
    if not cut:
        raise InputError(f"{name} is {windows!r}, which contains no segment")
    return cut


def check_length(segments, windows, E, tau):
    """Raise if a segment within the windows is shorter than an embedding."""
    for name, (first, last) in zip(segments.names, segments.windows) if segments else ():
        if last - first <= (E - 1) * tau and any(b < last and e > first for b, e in windows):
            raise ShapeError(
                f"segment {name!r}, rows {first} to {last - 1}, has {last - first} times; an embedding with "
                f"E = {E} and tau = {tau} needs {(E - 1) * tau + 1}: expected a smaller E, or lib and "
                "pred without it"
            )


class Window(NamedTuple):
    """Arguments of `simplex` that define candidates and points, as they are given or as `checked`."""

    tau: Any
    Tp: Any
    k: Any
    exclusion_radius: Any
    lib: Any
    pred: Any
    valid: Any
    segments: Any

    def checked(self, E, name, n_times, cut, points=None):
        """Return E as an integer, and the Window with checked arguments: integers, lists of windows cut at
        the ends of segments, and the Segments; raise unless they fit series of n_times and each other.

        name : of the library, in messages
        cut : Segments of the library, or None
        points : number of times and Segments of the queried series; None if it is the library
        """
        E, tau = check_embedding(E, self.tau, n_times, name)
        n_asked, asked_cut = points or (n_times, cut)
        check_embedding(E, tau, n_asked, "points")
        Tp = check_horizon(self.Tp, n_times, E, tau)
        radius = check_count(self.exclusion_radius, "exclusion_radius", 0)
        k, valid = None if self.k is None else check_count(self.k, "k"), check_valid(self.valid, n_times)
        lib = windows_in(self.lib, "lib", n_times, cut)
        pred = windows_in(self.pred, "pred", n_asked, asked_cut)
        check_length(cut, lib, E, tau)
        check_length(asked_cut, pred, E, tau)
        return E, Window(tau, Tp, k, radius, lib, pred, valid, cut)
