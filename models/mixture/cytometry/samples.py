"""Samples of cells: in from FCS, CSV and .npz, out to FCS."""

from __future__ import annotations

import contextlib
import os
import re
import warnings
from array import array
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from portable.errors import InputError, ShapeError, printable

from ...files import check_file, numbers, read_csv, read_npz, replacing
from .channels import is_detector, is_mass
from .extras import need

KINDS = (".fcs", ".lmd", ".npz", ".csv", ".csv.gz")
_BITS = (10, 18, 22)  # of instruments' analog to digital converters
_OWN = re.compile(r"p\d+[benrs]")  # keywords that follow from a sample's other fields
_STRUCTURE = ("begindata", "enddata", "beginstext", "endstext", "beginanalysis", "endanalysis", "byteord", "datatype", "mode",
              "nextdata", "par", "tot", "spill", "spillover", "comp")
_LENIENT = (  # what real files get wrong, in the order in which it is forgiven; the number of events decides
    {}, {"ignore_offset_error": True}, {"ignore_offset_error": True, "ignore_offset_discrepancy": True},
    {"ignore_offset_error": True, "use_header_offsets": True})
SPILLOVER = ("spillover", "spill", "comp")


@dataclass(frozen=True, eq=False)
class Sample:
    """Cells of one tube or well, as the instrument wrote them.

    Parameters
    ----------
    X : array-like, shape (n_cells, n_channels)
        Not compensated, not transformed.
    channels : sequence of str
        The detectors' names, $PnN, each once.
    markers : sequence of str, optional
        What was stained, $PnS; "" where nothing was.
    name : str
    limits : array-like, shape (n_channels,), optional
        What detectors give at most, $PnR - 1: a cell that reaches it is saturated. If not given, the largest number
        of 10, 18 or 22 bits, the fewest that hold what detectors gave; infinity for a mass cytometer. Time and what
        else is no detector's has none.
    spillover : (sequence of str, array-like of shape (n, n)), optional
        Channels, and what share of the light of each (rows) each detector sees (columns).
    gains : array-like, shape (n_channels,), optional
        $PnG, by which X is divided for a linear scale; 1 if not given.
    keywords : dict of str, optional
        What else the file says, names in lower case without the "$".

    Raises
    ------
    ShapeError, InputError
        Lengths disagree; a channel occurs twice; a spillover matrix without inverse.
    """

    X: np.ndarray
    channels: tuple[str, ...]
    markers: tuple[str, ...] = ()
    name: str = "sample"
    limits: np.ndarray | None = None
    spillover: tuple[tuple[str, ...], np.ndarray] | None = None
    gains: np.ndarray | None = None
    keywords: dict[str, str] = field(default_factory=dict)

    def __post_init__(self):
        X, channels = np.asarray(self.X), tuple(map(str, self.channels))
        markers = tuple(str(marker).strip() for marker in self.markers) or ("",) * len(channels)
        if X.ndim != 2 or X.shape[1] != len(channels) or len(markers) != len(channels):
            raise ShapeError(f"{self.name}: X has shape {X.shape}, but there are {len(channels)} channels and "
                             f"{len(markers)} markers")
        for channel in channels:
            if not channel.strip():
                raise InputError(f"{self.name}: the name of channel {channels.index(channel) + 1} is empty")
            if channels.count(channel) > 1:
                raise InputError(f"{self.name}: {channels.count(channel)} channels are called '{channel}'; names that differ "
                                 "are wanted")
        limits = _limits(X, channels) if self.limits is None else np.asarray(self.limits, np.float64)
        gains = np.ones(len(channels)) if self.gains is None else np.asarray(self.gains, np.float64)
        for name, value in (("limits", limits), ("gains", gains)):
            if value.shape != (len(channels),):
                raise ShapeError(f"{self.name}: {name} has shape {value.shape}; {(len(channels),)} is wanted")
        limits = np.where([is_detector(channel) for channel in channels], limits, np.inf)
        spillover = None if self.spillover is None else _checked(self.name, *self.spillover)
        for name, value in (("X", X), ("channels", channels), ("markers", markers), ("limits", limits), ("gains", gains),
                            ("spillover", spillover)):
            object.__setattr__(self, name, value)

    @property
    def n_cells(self) -> int:
        return len(self.X)

    def place(self, channel: str) -> int:
        """Where a channel is, by its name or its marker's.

        Raises
        ------
        InputError
            There is none, or there are several.
        """
        if channel in self.channels:
            return self.channels.index(channel)
        found = [place for place, marker in enumerate(self.markers) if marker and marker == channel]
        if len(found) != 1:
            named = [f"{c} ({m})" if m else c for c, m in zip(self.channels, self.markers)]
            raise InputError(f"{self.name} has {'no' if not found else len(found)} channel{'s' * bool(found)} '{channel}': it has "
                             f"{', '.join(named)}")
        return found[0]

    def write(self, path: str | os.PathLike, extra: dict[str, np.ndarray] | None = None,
              keywords: dict[str, str] | None = None) -> None:
        """Write an FCS 3.1 file, in float32, with all keywords and perhaps more columns; it is whole or not there.

        Of keywords' values "$" is lost, which flowio takes for a mark, and a "/" at an end gets a space beside it.

        Parameters
        ----------
        path : path
        extra : dict of arrays, shape (n_cells,), optional
            Columns behind the channels, by their names, or in the place of the channel of that name.
        keywords : dict of str, optional
            More of them.

        Raises
        ------
        InputError
            flowio is not installed.
        StorageError
            The file cannot be written.
        """
        create_fcs = need("flowio", "writing FCS files").create_fcs
        again = {self.channels.index(name): column for name, column in (extra or {}).items() if name in self.channels}
        extra = {name: column for name, column in (extra or {}).items() if name not in self.channels}
        body = np.column_stack([self.X, *extra.values()]).astype("=f4", order="C")
        for place, column in again.items():
            body[:, place] = column
        values = array("f")
        values.frombytes(body.tobytes())
        words = {f"p{n}g": _text(gain) for n, gain in enumerate(self.gains, 1)}
        for n, (limit, column) in enumerate(zip(self.limits, self.X.T), 1):
            most = limit + 1.0 if np.isfinite(limit) else np.floor(np.nanmax(column, initial=0.0)) + 1.0
            words[f"p{n}r"] = _text(most) if np.isfinite(limit) else self.keywords.get(f"p{n}r", _text(most))
        words |= {f"p{len(self.channels) + n}r": _text(np.floor(column.max(initial=0.0)) + 1.0)
                  for n, column in enumerate(extra.values(), 1)}
        if self.spillover is not None:
            names, matrix = self.spillover
            words["spillover"] = ",".join([str(len(names)), *names, *(repr(float(v)) for v in matrix.ravel())])
        for key, value in {**self.keywords, **(keywords or {})}.items():
            if not _OWN.fullmatch(key) and not key.endswith("/") and str(value).strip():
                words.setdefault(key, _framed(str(value)))
        names, labels = [*self.channels, *extra], [*self.markers, *[""] * len(extra)]
        with replacing(path, "path") as beside, beside.open("wb") as file:
            create_fcs(file, values, [_framed(name) for name in names], [_framed(label) for label in labels], words)


def read(path: str | os.PathLike) -> Sample:
    """Read a sample.

    Parameters
    ----------
    path : path
        FCS 2.0 to 3.1 (wants flowio), a .csv or .csv.gz file whose first line names the channels, or an .npz file
        with X, shape (n_cells, n_channels), `channels`, and `markers` if known. Integer channels of FCS, and those on a
        logarithmic amplifier, are put on their linear scale.

    Returns
    -------
    Sample
        Called as the file is, without its ending.

    Raises
    ------
    InputError
        No such file, not one of these kinds, damaged, or of several data sets; the message names it.
    """
    kind, path = check_file(path, KINDS), Path(path)
    name = printable(path.name[: -len(kind)])
    if kind in (".fcs", ".lmd"):
        return _read_fcs(path, name)
    if kind == ".npz":
        data = read_npz(path, lambda names: [name for name in names if name in ("X", "channels", "markers")])
        if "X" not in data or "channels" not in data:
            raise InputError(f"'{path}' holds {', '.join(sorted(data)) or 'nothing'}; 'X' and 'channels' are wanted")
        X, channels = data["X"], [printable(channel).strip() for channel in np.ravel(data["channels"])]
        markers = [printable(marker).strip() for marker in np.ravel(data.get("markers", [""] * len(channels)))]
        if X.dtype.kind not in "fiu":
            raise InputError(f"'{path}': X has dtype {X.dtype}; numbers are wanted")
    else:
        columns = read_csv(path)
        channels, markers = list(map(printable, columns)), ()
        if not all(channels):
            raise InputError(f"'{path}', cell {channels.index('') + 1} of the header is empty; names of channels are wanted")
        X = np.column_stack([numbers(column, channel, path) for channel, column in columns.items()] or [[]])
    with _naming(path):
        return Sample(X, tuple(channels), tuple(markers), name)


def read_spillover(path: str | os.PathLike) -> tuple[tuple[str, ...], np.ndarray]:
    """Channels and spillover matrix of a .csv file: a line of names, and a line for each of them, perhaps with its name in front.

    Raises
    ------
    InputError
        No such file, or no square table of numbers with an inverse.
    """
    check_file(path, (".csv",))
    columns = read_csv(path)
    rows = next(iter(columns.values()), [])
    names = list(columns)
    if len(names) == len(rows) + 1 and [row.strip() for row in rows] == names[1:]:
        del columns[names[0]]
    with _naming(path):
        return _checked("spillover", tuple(columns), np.column_stack([numbers(column, name, path) for name, column in columns.items()] or [[]]))


def _read_fcs(path, name):
    flowio = need("flowio", f"reading '{path}'")
    with _naming(path):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                data = _parsed(flowio, path)
                return _of_fcs(data, name)
        except InputError:
            raise
        except Exception as error:  # a foreign reader may fail in any way at bytes that are no FCS
            raise InputError(f"'{path}' cannot be read as FCS: {type(error).__name__}: {error}") from error


def _parsed(flowio, path):
    """The file, forgiven what can be: as many events as it says must come out."""
    said = []
    with path.open("rb") as file:
        if file.read(3) != b"FCS":
            raise InputError(f"'{path}' cannot be read as FCS: it does not begin with 'FCS'")
        for options in _LENIENT:
            try:
                with warnings.catch_warnings():
                    if options:
                        warnings.simplefilter("ignore")
                    with path.open("rb") as own:
                        data = flowio.FlowData(own, nextdata_offset=0, **options)
            except flowio.exceptions.FCSParsingError as error:
                said.append(str(error))
                continue
            wanted = data.event_count * data.channel_count
            if data.events is not None and len(data.events) == wanted:
                break
            said.append(f"{'no' if data.events is None else len(data.events)} numbers, where {wanted} are announced")
        else:
            raise InputError(f"'{path}' cannot be read as FCS: {said[0]}")
        following = int(data.text.get("nextdata", "0"))
        file.seek(max(following, 0))
        if following > 0 and file.read(3) == b"FCS":
            raise InputError(f"'{path}' holds several data sets; write each to a file of its own "
                             "(flowio.read_multiple_data_sets)")
    return data


def _of_fcs(data, name):
    n = data.channel_count
    if len(data.pnn_labels) != n:
        raise InputError(f"{len(data.pnn_labels)} channels have names, where $PAR is {n}")
    described = [data.channels[number] for number in range(1, n + 1)]
    logarithmic = np.array([own["pne"][0] > 0.0 for own in described])
    gains = np.array([own["png"] or 1.0 for own in described])
    ranges = np.array([own["pnr"] for own in described])
    keywords = {key: value for key, value in data.text.items() if key not in _STRUCTURE and not _OWN.fullmatch(key)}
    if data.data_type.upper() == "F" and not logarithmic.any():
        X, limits = np.asarray(data.events, np.float32).reshape(-1, n), ranges - 1.0
    else:  # written as float32 on a linear scale, as FCS 3.1 asks of it
        X, limits = data.as_array(), (ranges - 1.0) / gains
        for place in np.flatnonzero(logarithmic):
            decades, least = described[place]["pne"]
            limits[place] = 10.0 ** (decades * (ranges[place] - 1.0) / ranges[place]) * least / gains[place]
        gains = np.ones(n)
        keywords = {key: value for key, value in keywords.items() if key != "timestep" and not re.fullmatch(r"p\d+g", key)}
    channels = tuple(printable(label).strip() for label in data.pnn_labels)
    if is_mass(channels) or re.search("CYTOF|DVS|HELIOS", data.text.get("cyt", "").upper()):
        limits = np.full(n, np.inf)
    keywords |= {f"p{number}r": data.text[f"p{number}r"] for number in range(1, n + 1)}
    spilled = next((data.text[key] for key in SPILLOVER if data.text.get(key, "").strip()), None)
    return Sample(X, channels, tuple(printable(label).strip() for label in data.pns_labels), name, limits,
                  None if spilled is None else _spillover(spilled, channels), gains, keywords)


def _spillover(text, channels):
    """Channels and matrix of "n,name1,...,namen,v11,v12,...,vnn"; None for the matrix that changes nothing."""
    words = [word.strip() for word in text.split(",")]
    n = int(words[0]) if words[0].isdigit() else 0
    if n < 1 or len(words) != 1 + n + n * n:
        raise InputError(f"the spillover matrix '{text[:40]}...' has {len(words)} words; n, n names and n * n numbers are wanted")
    names = words[1:1 + n]
    if all(name.isdigit() and 1 <= int(name) <= len(channels) and name not in channels for name in names):
        names = [channels[int(name) - 1] for name in names]
    matrix = np.array(words[1 + n:], np.float64).reshape(n, n)
    return None if np.array_equal(matrix, np.eye(n)) else (tuple(names), matrix)


def _checked(name, channels, matrix):
    channels, matrix = tuple(map(str, channels)), np.asarray(matrix, np.float64)
    if matrix.shape != (len(channels),) * 2 or len(set(channels)) < len(channels):
        raise ShapeError(f"{name}: the spillover matrix has shape {matrix.shape} for the channels {', '.join(channels)}")
    if not np.isfinite(matrix).all() or np.linalg.cond(matrix) > 1e6:
        raise InputError(f"{name}: the spillover matrix of {', '.join(channels)} has no inverse worth using")
    return channels, matrix


def _limits(X, channels):
    """Those of an instrument whose numbers have as many bits as hold them."""
    detectors = [place for place, channel in enumerate(channels) if is_detector(channel)]
    seen = X[:, detectors]
    most = seen.max(initial=0.0, where=np.isfinite(seen))
    bits = next((bits for bits in _BITS if most < 2.0**bits), None)
    limits = np.full(len(channels), np.inf)
    if bits is not None and not is_mass(channels):
        limits[detectors] = 2.0**bits - 1.0
    return limits


@contextlib.contextmanager
def _naming(path):
    """Messages that do not name the file yet begin with it."""
    try:
        yield
    except InputError as error:
        if str(path) in str(error):
            raise
        raise type(error)(f"'{path}': {error}") from error


def _text(value):
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def _framed(text):
    """flowio parts words by "/" and takes a doubled one for a letter, but not at the ends of a word."""
    text = f" {text}" if text.startswith("/") else text
    return f"{text} " if text.endswith("/") else text
