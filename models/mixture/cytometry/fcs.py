"""Read samples from FCS files, and write them."""

from __future__ import annotations

import re

import numpy as np

from ...shared import InputError, PathLike, printable, reading, replacing, warn
from .channels import is_mass
from .parts import number, read_parts
from .samples import SPILLOVER, Sample, numbered, parse_spillover

_OWN = re.compile(r"p\d+(b|e|n|r|s|datatype)")  # keywords that are computed from a sample's other fields
_STRUCTURE = (
    *("begindata", "enddata", "beginstext", "endstext", "beginanalysis", "endanalysis", "nextdata"),
    *("byteord", "datatype", "mode", "par", "tot"),
)
_STANDARD = re.compile(  # optional keywords of the standard, which begin with "$"
    r"p\d+\w+|abrt|b?e?tim|(begin|end)datetime|carrier(id|type)|cells|com|comp|cs\w+|cyt|cytsn|date|exp|fil|"
    r"flowrate|g\d+\w+|gat(e|ing)|inst|last_modifi\w+|locationid|lost|op|originality|pkn?\d+|"
    r"plate(id|name)|proj|r\d+[iw]|smno|spillover|src|sys|timestep|tr|unicode|unstained\w+|vol|wellid"
)
_DELIMITERS = "/|\\!*~^;:@#%&?=<>\x0c\x1e\x1f\x1d\x1c"  # the first character that no word contains is used
_MANTISSA = 2.0**53
_STRANGE = 1e20  # floats beyond it, or below its inverse, indicate wrong bytes
_SHARE = 0.1  # share of such floats that is reported
_MOST_LOOKED_AT = 10_000  # numbers of a channel that are checked, about
_DECADES = (1.0, 7.0)  # range of the decades of logarithmic amplifiers


def read_fcs(path, name, data_set=None):
    """Read a sample with the given name from an FCS file.

    Raises
    ------
    InputError
        The file is damaged or ambiguous, or contains several data sets and none is chosen.

    Warns
    -----
    UserWarning
        Something in the file is doubtful; the message describes how it was read.
    """
    with reading(path):
        try:
            parts = read_parts(path, data_set)
            found = _sample(parts, name)
        except InputError as error:
            raise InputError(f"'{path}' cannot be read as FCS: {error}") from error
    if parts.notes:
        warn(printable(f"'{path}': {'; '.join(parts.notes)}"), UserWarning)
    return found


def write(
    sample: Sample,
    path: PathLike,
    extra: dict[str, np.ndarray] | None = None,
    keywords: dict[str, str] | None = None,
) -> None:
    """Write a sample to an FCS 3.1 file, in float32, with all keywords and optional additional columns. The
    file is written completely or not at all.

    Parameters
    ----------
    sample : Sample
    path : path
    extra : dict of arrays, shape (n_cells,), optional
        Columns by name: one with the name of a channel replaces it, the others follow the channels.
    keywords : dict of str, optional
        Additional keywords and their values.

    Raises
    ------
    InputError
        No character is left for a delimiter: keywords and values contain all candidates.
    StorageError
        The file cannot be written.
    """
    extra = extra or {}
    behind = {name: column for name, column in extra.items() if name not in sample.channels}
    body = np.column_stack([sample.X, *behind.values()]).astype("<f4", order="C")
    for name in set(extra) - set(behind):
        body[:, sample.channels.index(name)] = extra[name]
    words = _described(sample, behind)
    for key, value in {**sample.keywords, **(keywords or {})}.items():
        key = str(key).strip().lstrip("$").lower()
        if key and not _OWN.fullmatch(key) and key not in _STRUCTURE and str(value).strip():
            words.setdefault(f"${key}" if _STANDARD.fullmatch(key) else key, str(value))
    with replacing(path, "path") as beside, beside.open("wb") as file:
        file.write(_header_and_text(words, body.nbytes))
        file.write(body)


def _header_and_text(words, n_bytes):
    """Return the bytes of HEADER, and of TEXT from byte 256 on; the events follow directly."""
    every = "".join([*words, *words.values()])
    delimiter = next((own for own in _DELIMITERS if own not in every), None)
    if delimiter is None:
        raise InputError(f"keywords and names hold all of {_DELIMITERS!r}; one is needed as a delimiter")
    begin = last = 0
    for _ in range(2):  # the offsets, padded to their largest width, are part of the text
        own = {"$BEGINDATA": f"{begin:015d}", "$ENDDATA": f"{last:015d}"} | words
        parts = [part for key, value in own.items() for part in (key.upper(), value)]
        text = (delimiter + delimiter.join([*parts, ""])).encode()
        begin = 256 + len(text)
        last = begin + max(n_bytes, 1) - 1
    places = (256, begin - 1, begin, last, 0, 0) if last < 10**8 else (256, begin - 1, 0, 0, 0, 0)
    return ("FCS3.1    " + "".join(f"{at:8d}" for at in places)).ljust(256).encode() + text


def _described(sample, behind):
    """Return the required keywords, those of channels, and the spillover matrix."""
    channels = [*zip(sample.channels, sample.markers), *((name, "") for name in behind)]
    words = {f"${key}": "0" for key in ("BEGINSTEXT", "ENDSTEXT", "BEGINANALYSIS", "ENDANALYSIS", "NEXTDATA")}
    words |= {"$BYTEORD": "1,2,3,4", "$DATATYPE": "F", "$MODE": "L"}
    words |= {"$PAR": str(len(channels)), "$TOT": str(sample.n_cells)}
    for n, (name, marker) in enumerate(channels, 1):
        words |= {f"$P{n}B": "32", f"$P{n}E": "0,0", f"$P{n}N": name}
        if marker:
            words[f"$P{n}S"] = marker
    words |= {f"$p{n}g": _text(gain) for n, gain in enumerate(sample.gains, 1)}
    for n, column in enumerate((*sample.X.T, *behind.values()), 1):
        above = np.floor(np.max(column, initial=0.0, where=np.isfinite(column))) + 1.0
        words[f"$p{n}r"] = _text(above)  # a range that contains all numbers
    for n, limit in enumerate(sample.limits, 1):
        said = sample.keywords.get(f"p{n}r", words[f"$p{n}r"])
        words[f"$p{n}r"] = _text(limit + 1.0) if np.isfinite(limit) else said
    if sample.spillover is not None:
        names, matrix = sample.spillover
        words["$spillover"] = ",".join([str(len(names)), *names, *(repr(float(v)) for v in matrix.ravel())])
    return words


def _sample(parts, name):
    """Return the data set as a Sample on a linear scale; floats remain identical bit for bit."""
    channels, markers = _names(parts)
    X, limits, gains, dropped = _events(parts, channels)
    if is_mass(channels) or re.search("CYTOF|DVS|HELIOS", parts.word("cyt").upper()):
        limits = np.full(len(channels), np.inf)
    spillover = _spillover(parts, channels)
    dropped = {*dropped, *_STRUCTURE, *(() if spillover is None else SPILLOVER)}
    ranges = {f"p{n}r" for n in range(1, len(channels) + 1)}  # needed for channels without a limit
    kept = {
        key: word
        for key, word in parts.words.items()
        if key in ranges or not (key in dropped or _OWN.fullmatch(key))
    }
    return Sample(X, channels, markers, name, limits, spillover, gains, kept)


def _names(parts):
    """Return the names of channels and markers; a channel whose name is missing or occurs twice gets its
    number."""
    numbers = range(1, len(parts.kinds) + 1)
    channels, markers = (
        [printable(parts.words.get(f"p{at}{what}", "")).strip() for at in numbers] for what in "ns"
    )
    for at in numbers:
        if not channels[at - 1]:
            parts.notes.append(f"$P{at}N is missing; the channel is called 'P{at}'")
            channels[at - 1] = f"P{at}"
    channels, notes = numbered(channels)
    parts.notes.extend(notes)
    return tuple(channels), tuple(markers)


def _events(parts, channels):
    """Return X, limits, gains, and the keywords that are no longer valid for X."""
    numbers, is_time = range(1, len(channels) + 1), [own.lower() == "time" for own in channels]
    gains = np.array([parts.number(f"p{at}g", 1.0) or 1.0 for at in numbers])
    gains[is_time] = 1.0  # some programs write $TIMESTEP as the gain of time
    if (gains < 0.0).any():
        at = int(np.argmin(gains)) + 1
        raise InputError(f"$P{at}G is {gains[at - 1]:g}; expected a positive number")
    ranges = np.array([parts.number(f"p{at}r", 0.0) for at in numbers])
    for at in numbers:
        if ranges[at - 1] <= 0.0 and not parts.word(f"p{at}r"):
            parts.notes.append(f"$P{at}R is missing; no cell counts as saturated in {channels[at - 1]}")
    limits = np.where(ranges > 1.0, ranges - 1.0, np.inf)  # a range of 0 or 1 carries no information
    scales = [_amplified(parts, at) for at in numbers]
    dtype = np.float32 if set(parts.kinds) == {"F"} else np.float64
    X = np.empty((len(parts.columns[0]), len(channels)), dtype)
    for place, (kind, column) in enumerate(zip(parts.kinds, parts.columns)):
        scale, most = scales[place], ranges[place]
        if kind == "I":
            column = _linear(parts, place + 1, column, most, scale)
            if scale[0] > 0.0:
                limits[place] = _exponential(scale, limits[place], most)
        else:
            _look_at(parts, place + 1, column, scale, most)
        with np.errstate(invalid="ignore"):  # raised by a signalling NaN
            X[:, place] = column
    if "I" not in parts.kinds:
        return X, limits, gains, []
    X[:, is_time] *= parts.number("timestep", 1.0)
    dropped = ["timestep", *(f"p{at}g" for at in numbers)]
    return X / gains, limits / gains, np.ones(len(channels)), dropped


def _amplified(parts, at):
    """Return the number of decades of a logarithmic amplifier, 0 for a linear one, and the intensity at
    number 0."""
    text, whole = parts.word(f"p{at}e"), parts.kinds[at - 1] == "I"
    if not text:
        if whole:
            parts.notes.append(f"$P{at}E is missing; the channel is read as linear")
        return 0.0, 0.0
    words = text.split(",")
    if len(words) != 2:
        raise InputError(f"$P{at}E is '{text[:40]}'; expected two numbers, 0,0 for a linear channel")
    decades, least = (number(word, f"$P{at}E") for word in words)
    if decades < 0.0 or least < 0.0:
        raise InputError(f"$P{at}E is '{text[:40]}'; expected positive decades and least value, or 0,0")
    if whole and (decades > 0.0) != (least > 0.0):
        how = f"as {decades:g} decades from 1 on" if decades else "as linear"
        parts.notes.append(f"$P{at}E is '{text}', which is neither 0,0 nor logarithmic; it is read {how}")
    elif whole and decades and not _DECADES[0] <= decades <= _DECADES[1]:
        parts.notes.append(f"$P{at}E says {decades:g} decades, as which it is read")
    return decades, least or float(decades > 0.0)


def _linear(parts, at, column, most, scale):
    """Return integers on their linear scale; bits above $PnR are removed first."""
    n_bits = int(most - 1.0).bit_length() if most > 1.0 else 64
    if n_bits < parts.bits[at - 1]:
        masked = column & column.dtype.type((1 << n_bits) - 1)
        changed = np.flatnonzero(masked != column)
        if changed.size:
            parts.notes.append(
                f"{changed.size} of {len(column)} numbers of $P{at} have bits above $P{at}R of {most:g}: by "
                f"the standard these do not count, and {column[changed[0]]} is read as {masked[changed[0]]}"
            )
        column = masked
    if column.size and column.max() > _MANTISSA:
        parts.notes.append(f"$P{at} holds {column.max()}, more than 2^53; such numbers are rounded")
    column = column.astype(np.float64)
    if scale[0] == 0.0:
        return column
    if most <= 1.0:
        raise InputError(f"$P{at}R is missing or {most:g}, but $P{at}E is logarithmic; expected a range")
    if most != 2.0**n_bits:
        parts.notes.append(f"$P{at}E is logarithmic, with a range $P{at}R of {most:g}, no power of two")
    return _exponential(scale, column, most)


def _exponential(scale, x, most):
    """Return the intensities on a linear scale of numbers of a logarithmic amplifier."""
    with np.errstate(over="ignore"):
        return 10.0 ** (scale[0] * x / most) * scale[1]


def _look_at(parts, at, column, scale, most):
    """Note doubtful values in a channel of floats."""
    own = np.abs(column[:: 1 + len(column) // _MOST_LOOKED_AT])
    strange = int(((own > _STRANGE) | ((own > 0.0) & (own < 1.0 / _STRANGE))).sum())
    if strange > _SHARE * len(own):
        parts.notes.append(
            f"{strange} of {len(own)} numbers of $P{at} are beyond 1e20 or below 1e-20: $BYTEORD or "
            "$DATATYPE may be wrong, or an offset"
        )
    if scale[0] > 0.0 and len(column):
        example = np.float64(column[0])
        other = _exponential(scale, example, max(most, 1.0))
        parts.notes.append(
            f"$P{at}E is '{parts.word(f'p{at}e')}' in a channel of floats, whose numbers are read "
            f"as linear; if they are logarithmic, {example:g} means {other:g}"
        )


def _spillover(parts, channels):
    """Return channels and spillover matrix, or None; note a matrix that cannot be used."""
    words = parts.words
    said = [words[key] for key in SPILLOVER if parts.word(key)]
    if len(said) == 2 and said[0].replace(" ", "") != said[1].replace(" ", ""):
        parts.notes.append("SPILLOVER and SPILL are two matrices; the first is used")
    others = [key for key in words if re.fullmatch(r"dfc\d+to\d+|comp", key) or _like_matrix(key, words[key])]
    if others:
        parts.notes.append(
            f"{', '.join(map(str.upper, others[:4]))} may be a matrix of compensation, of a kind that is not "
            "used; compensation= takes it"
        )
    try:
        return parse_spillover(said[0], channels) if said else None
    except InputError as error:
        parts.notes.append(f"{error}; to compensate, give a matrix by compensation=")
        return None


def _like_matrix(key, text):
    """Return True if an unknown keyword has the form of a spillover matrix."""
    found = re.match(r"\s*([0-9]{1,3})\s*,", text)
    n = int(found[1]) if found else 0
    return key not in SPILLOVER and n > 1 and text.count(",") == n + n * n


def _text(value):
    return str(int(value)) if float(value).is_integer() else repr(float(value))
