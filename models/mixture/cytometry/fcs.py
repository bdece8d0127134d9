"""FCS files, in and out, by flowio."""

from __future__ import annotations

import os
import re
import warnings
from array import array
from pathlib import Path

import numpy as np

from portable.errors import InputError, printable

from ...shared.files import replacing
from .channels import is_mass
from ...shared.extras import need
from .samples import Sample

_OWN = re.compile(r"p\d+[benrs]")  # keywords that follow from a sample's other fields
_STRUCTURE = (
    *("begindata", "enddata", "beginstext", "endstext", "beginanalysis", "endanalysis", "nextdata"),
    *("byteord", "datatype", "mode", "par", "tot"),
)
_SPILLOVER = ("spillover", "spill")
_LENIENT = (  # what real files get wrong, in the order in which it is forgiven; the number of events decides
    {},
    {"ignore_offset_error": True},
    {"ignore_offset_error": True, "ignore_offset_discrepancy": True},
    {"ignore_offset_error": True, "use_header_offsets": True},
)


def read_fcs(path: Path, name: str) -> Sample:
    """A sample of an FCS file; `name` is the sample's.

    Raises
    ------
    InputError
        flowio is not installed, or the file is damaged or holds several data sets.
    """
    flowio = need("flowio", "cytometry", f"reading '{path}'")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return _sample(_parsed(flowio, path), name)
    except InputError:
        raise
    except Exception as error:  # a foreign reader may fail in any way at bytes that are no FCS
        raise InputError(f"'{path}' cannot be read as FCS: {type(error).__name__}: {error}") from error


def write(
    sample: Sample,
    path: str | os.PathLike,
    extra: dict[str, np.ndarray] | None = None,
    keywords: dict[str, str] | None = None,
) -> None:
    """Write an FCS 3.1 file, in float32, with all keywords and perhaps more columns; it is whole or not
    there.

    Of keywords' values "$" is lost, which flowio takes for a mark, and a "/" at an end gets a space beside
    it.

    Parameters
    ----------
    sample : Sample
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
    create_fcs = need("flowio", "cytometry", "writing FCS files").create_fcs
    extra = {} if extra is None else extra
    behind = {name: column for name, column in extra.items() if name not in sample.channels}
    words = _described(sample, behind)
    for key, value in {**sample.keywords, **(keywords or {})}.items():
        if not _OWN.fullmatch(key) and not key.endswith("/") and str(value).strip():
            words.setdefault(key, _framed(str(value)))
    names = [_framed(name) for name in (*sample.channels, *behind)]
    markers = [_framed(marker) for marker in sample.markers] + [""] * len(behind)
    with replacing(path, "path") as beside, beside.open("wb") as file:
        create_fcs(file, _values(sample, extra, behind), names, markers, words)


def _values(sample, extra, behind):
    """The events as flowio wants them, float32, cell by cell."""
    body = np.column_stack([sample.X, *behind.values()]).astype("=f4", order="C")
    for name in set(extra) - set(behind):
        body[:, sample.channels.index(name)] = extra[name]
    values = array("f")
    values.frombytes(body.tobytes())
    return values


def _described(sample, behind):
    """Keywords of channels, and the spillover matrix."""
    words = {f"p{n}g": _text(gain) for n, gain in enumerate(sample.gains, 1)}
    for n, (limit, column) in enumerate(zip(sample.limits, sample.X.T), 1):
        if np.isfinite(limit):
            words[f"p{n}r"] = _text(limit + 1.0)
        else:
            words[f"p{n}r"] = sample.keywords.get(f"p{n}r", _above(column))
    for n, column in enumerate(behind.values(), len(sample.channels) + 1):
        words[f"p{n}r"] = _above(column)
    if sample.spillover is not None:
        names, matrix = sample.spillover
        words["spillover"] = ",".join([str(len(names)), *names, *(repr(float(v)) for v in matrix.ravel())])
    return words


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
            said.append(
                f"{'no' if data.events is None else len(data.events)} numbers, where {wanted} are announced"
            )
        else:
            raise InputError(f"'{path}' cannot be read as FCS: {said[0]}")
        following = int(data.text.get("nextdata", "0"))
        file.seek(max(following, 0))
        if following > 0 and file.read(3) == b"FCS":
            raise InputError(
                f"'{path}' holds several data sets; write each to a file of its own "
                "(flowio.read_multiple_data_sets)"
            )
    return data


def _sample(data, name):
    """What flowio read, on a linear scale; floats stay as they are, to the bit."""
    n = data.channel_count
    if len(data.pnn_labels) != n:
        raise InputError(f"{len(data.pnn_labels)} channels have names, where $PAR is {n}")
    X, limits, gains, dropped = _events(data)
    channels, markers = map(_clean, (data.pnn_labels, data.pns_labels))
    if is_mass(channels) or re.search("CYTOF|DVS|HELIOS", data.text.get("cyt", "").upper()):
        limits = np.full(n, np.inf)
    spillover = _spillover(data.text, channels)
    return Sample(X, channels, markers, name, limits, spillover, gains, _keywords(data, dropped))


def _events(data):
    """X, limits, gains, and keywords that no longer hold."""
    n = data.channel_count
    described = [data.channels[number] for number in range(1, n + 1)]
    gains, ranges = (np.array([own[key] or 1.0 for own in described]) for key in ("png", "pnr"))
    limits = np.where(ranges > 1.0, ranges - 1.0, np.inf)  # a range of 0 or 1 says nothing
    if data.data_type.upper() == "F" and not any(own["pne"][0] for own in described):
        return np.asarray(data.events, np.float32).reshape(-1, n), limits, gains, []
    limits = _linear_limits(described, ranges, limits) / gains
    # Linear from here on: float32 without gains, as flowio writes it.
    return data.as_array(), limits, np.ones(n), ["timestep", *(f"p{number}g" for number in range(1, n + 1))]


def _keywords(data, dropped):
    """Those that a sample does not hold otherwise, and the ranges, for channels without a limit."""
    dropped = {*dropped, *_STRUCTURE, *_SPILLOVER}
    kept = {key: word for key, word in data.text.items() if key not in dropped and not _OWN.fullmatch(key)}
    return kept | {f"p{n}r": data.text[f"p{n}r"] for n in range(1, data.channel_count + 1)}


def _linear_limits(described, ranges, limits):
    """Limits on the linear scale, on which flowio puts the events of logarithmic amplifiers."""
    found = limits.copy()
    for place, own in enumerate(described):
        decades, least = own["pne"]
        if decades > 0.0:
            found[place] = 10.0 ** (decades * limits[place] / ranges[place]) * least
    return found


def _clean(labels):
    return tuple(printable(label).strip() for label in labels)


def _spillover(keywords, channels):
    """Channels and matrix of "n,name1,...,namen,v11,v12,...,vnn", or None."""
    text = next((keywords[key] for key in _SPILLOVER if keywords.get(key, "").strip()), None)
    if text is None:
        return None
    words = [word.strip() for word in text.split(",")]
    n = int(words[0]) if words[0].isdigit() else 0
    if n < 1 or len(words) != 1 + n + n * n:
        raise InputError(
            f"the spillover matrix '{text[:40]}...' has {len(words)} words; n, n names and n * n numbers are "
            "wanted"
        )
    names = words[1 : 1 + n]
    if all(name.isdigit() and 1 <= int(name) <= len(channels) and name not in channels for name in names):
        names = [channels[int(name) - 1] for name in names]
    return tuple(names), np.array(words[1 + n :], np.float64).reshape(n, n)


def _above(column):
    """A range, $PnR, that holds a column."""
    return _text(np.floor(np.max(column, initial=0.0, where=np.isfinite(column))) + 1.0)


def _text(value):
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def _framed(text):
    """flowio parts words by "/" and takes a doubled one for a letter, but not at the ends of a word."""
    text = f" {text}" if text.startswith("/") else text
    return f"{text} " if text.endswith("/") else text
