"""A sample: cells in the form in which an instrument wrote them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import field, replace

import numpy as np

from ...shared import Array, DTypeError, Frozen, InputError, Names, ShapeError, as_numbers, check_kind, refuse
from .channels import is_detector, is_mass

SPILLOVER = ("spillover", "spill")  # keywords of a spillover matrix
_NO_CELL = "every cell is saturated, or not a number, in some channel"
_BITS = (10, 18, 22)  # bits of instruments' analog-to-digital converters


class Sample(Frozen, eq=False):
    """Cells of one tube or well, with the values that the instrument wrote.

    Parameters
    ----------
    X : array-like, shape (n_cells, n_channels)
        Intensities, neither compensated nor transformed.
    channels : sequence of str
        The detectors' names, $PnN, each once.
    markers : sequence of str, optional
        The stained markers, $PnS; "" if there is none.
    name : str
    limits : array-like, shape (n_channels,), optional
        The largest values of detectors, $PnR - 1: a cell that reaches one is saturated. If not given, the
        largest number of 10, 18 or 22 bits, the fewest bits that hold all values of detectors; infinity for a
        mass cytometer. Time and other channels that are not detectors have no limit.
    spillover : (sequence of str, array-like of shape (n, n)), optional
        Channels, and the share of the light of each (rows) that each detector measures (columns).
    gains : array-like, shape (n_channels,), optional
        $PnG, by which X is divided for a linear scale; 1 if not given.
    keywords : dict of str, optional
        The file's other keywords, in lower case without the "$". A matrix that cannot be used remains here as
        "spillover" or "spill".
    left_out : array-like of int, shape (n_cells,), optional
        Cells with a number other than 0 are not used. See `clean`.

    Raises
    ------
    ShapeError, InputError
        Lengths disagree, a channel occurs twice, or the spillover matrix has no inverse.
    """

    X: Array
    channels: Names
    markers: Names = ()
    name: str = "sample"
    limits: Array | None = None
    spillover: tuple[Names, Array] | None = None
    gains: Array | None = None
    keywords: dict[str, str] = field(default_factory=dict)
    left_out: Array | None = None

    def __post_init__(self):
        channels = tuple(map(str, self.channels))
        n, X = len(channels), as_numbers(self.X, f"{self.name}: X")
        markers = tuple(str(marker).strip() for marker in self.markers) or ("",) * n
        if X.ndim != 2 or X.shape[1] != n or len(markers) != n:
            raise ShapeError(
                f"{self.name}: X has shape {X.shape}, but there are {n} channels and {len(markers)} markers"
            )
        self._check_left_out(len(X))
        _check_names(self.name, channels)
        limits = _limits(X, channels) if self.limits is None else self._numbers("limits", n)
        gains = self._numbers("gains", n, 0.0)
        spillover = None if self.spillover is None else check_spillover(self.name, *self.spillover)
        limits = np.where([*map(is_detector, channels)], limits, np.inf)
        checked = {"X": X, "channels": channels, "markers": markers, "limits": limits, "gains": gains}
        for name, value in (checked | {"spillover": spillover}).items():
            object.__setattr__(self, name, value)

    def _check_left_out(self, n):
        if self.left_out is not None and np.shape(self.left_out) != (n,):
            raise ShapeError(f"{self.name}: left_out has shape {np.shape(self.left_out)}; expected {(n,)}")

    def _numbers(self, name, n, above=-np.inf):
        what, value = f"{self.name}: {name}", getattr(self, name)
        if value is None:
            return np.ones(n)
        value = as_numbers(value, what).astype(np.float64)
        if value.shape != (n,):
            raise ShapeError(f"{what} has shape {value.shape}; expected {(n,)}")
        refuse(~(value > above), value, what, f"more than {above:g}")
        return value

    @property
    def n_cells(self) -> int:
        return len(self.X)

    def take(self, cells: Array) -> Sample:
        """Return the sample with only some of its cells, selected by numbers or a mask."""
        left_out = None if self.left_out is None else self.left_out[cells]
        return replace(self, X=self.X[cells], left_out=left_out)

    def place(self, channel: str) -> int:
        """Return the position of a channel, given its name or that of its marker.

        Raises
        ------
        InputError
            There is no such channel, or there are several.
        """
        if channel in self.channels:
            return self.channels.index(channel)
        found = [place for place, marker in enumerate(self.markers) if marker and marker == channel]
        if len(found) != 1:
            named = [f"{c} ({m})" if m else c for c, m in zip(self.channels, self.markers)]
            raise InputError(
                f"{self.name} has {len(found) or 'no'} channel{'s' * bool(found)} '{channel}': it has "
                f"{', '.join(named)}"
            )
        return found[0]


def check_samples(samples, name="samples"):
    """Raise an error unless `samples` holds samples, at least one; `name` is that of the argument."""
    if isinstance(samples, Sample):
        raise DTypeError(f"{name} is one cytometry.Sample; expected a list of them")
    if not samples:
        raise InputError(f"{name} is empty; expected at least one")
    for sample in samples:
        check_kind(sample, name, Sample, "hold cytometry.Sample")


def check_used(sample, good, channels):
    """Raise InputError if no cell is left, and name those of the channels without any number."""
    if not good.any():
        seen = dict(zip(sample.channels, np.isfinite(sample.X).any(axis=0)))
        empty = ", ".join(channel for channel in channels if not seen[channel])
        why = f"no cell has a number in {empty}; leave such channels out"
        raise InputError(f"{sample.name}: {why if empty else _NO_CELL}")


def numbered(channels):
    """Append the channel's number to names that occur more than once; return the names, and a sentence about
    each change."""
    times = {own: n for own, n in Counter(channels).items() if n > 1 and own}
    found = [f"{own} {at}" if own in times else own for at, own in enumerate(channels, 1)]
    return found, [
        f"{n} channels are called '{own}'; they are read as "
        + ", ".join(f"'{new}'" for old, new in zip(channels, found) if old == own)
        for own, n in times.items()
    ]


def _check_names(sample, channels):
    stripped = list(map(str.strip, channels))
    if "" in stripped:
        raise InputError(f"{sample}: the name of channel {stripped.index('') + 1} is empty")
    new, _ = numbered(channels)
    own = next((own for own in channels if own not in new), None)
    if own is not None:
        raise InputError(
            f"{sample}: {channels.count(own)} channels are called '{own}'; expected distinct names, "
            f"such as '{own} {channels.index(own) + 1}'"
        )


def parse_spillover(text, channels):
    """Return channels and matrix from a text "n,name1,...,namen,v11,v12,...,vnn"; None if n is 0.

    Raises
    ------
    InputError
        The text has another form, or the matrix has no inverse.
    """
    number, _, rest = text.partition(",")
    n = int(number) if re.fullmatch(r"\s*[0-9]{1,4}\s*", number) else -1
    if n == 0 and not rest.strip(" ,"):
        return None
    words, wanted = list(map(str.strip, rest.split(","))), n + n * n
    while len(words) > wanted and not words[-1]:
        del words[-1]
    if len(words) > wanted > 0:  # names of channels may contain commas
        words = _with_commas(words, n, channels)
    if n < 1 or len(words) != wanted:
        raise InputError(
            f"the spillover matrix '{text[:40]}' cannot be read: expected n, n names and n * n numbers "
            "with commas between them"
        )
    names = words[:n]
    if all(name.isdigit() and 1 <= int(name) <= len(channels) and name not in channels for name in names):
        names = [channels[int(name) - 1] for name in names]
    try:
        matrix = np.array(words[n:], np.float64).reshape(n, n)
    except ValueError as error:
        raise InputError(f"the spillover matrix '{text[:40]}' cannot be read: {error}") from error
    return check_spillover("the file", names, matrix)


def _with_commas(words, n, channels):
    """Return the words of a matrix after parts of channel names that contain commas are joined again."""
    names = {tuple(map(str.strip, name.split(","))): name for name in channels}
    longest_first, found = sorted(names, key=len, reverse=True), []
    while len(found) < n and words:
        own = next((own for own in longest_first if tuple(words[: len(own)]) == own), (words[0],))
        found.append(names.get(own, words[0]))
        words = words[len(own) :]
    return found + words


def check_spillover(name, channels, matrix):
    """Return channels and a matrix that is invertible; raise an error whose message begins with `name`
    otherwise."""
    matrix = as_numbers(matrix, f"{name}: the spillover matrix").astype(np.float64)
    channels = tuple(map(str, channels))
    if matrix.shape != (len(channels),) * 2 or len(set(channels)) < len(channels):
        raise ShapeError(
            f"{name}: the spillover matrix has shape {matrix.shape} for the channels {', '.join(channels)}"
        )
    if not np.isfinite(matrix).all() or np.linalg.cond(matrix) > 1e6:
        raise InputError(f"{name}: the spillover matrix of {', '.join(channels)} is singular, or nearly so")
    return channels, matrix


def _limits(X, channels):
    """Return limits from the smallest usual number of bits that holds all values of the detectors."""
    seen = X[:, [*map(is_detector, channels)]]
    most = seen.max(initial=0.0, where=np.isfinite(seen))
    bits = next((bits for bits in _BITS if most < 2.0**bits), np.inf)
    return np.full(len(channels), np.inf if is_mass(channels) else 2.0**bits - 1.0)
