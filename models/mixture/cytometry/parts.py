"""Read the parts of an FCS file: HEADER, TEXT and DATA, versions 2.0 to 3.2 (Spidlen et al. 2010, 2021).

HEADER contains the offsets of the first and last bytes of the other segments, TEXT keywords and values
between delimiters, DATA the events. The offsets of DATA are in HEADER and in TEXT, and one of the two is
often wrong. The pair that is used agrees with the number of events and the width of each.
"""

import itertools
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from portable.errors import InputError

from ...shared.files import ordinary
from .decoding import decode

VERSIONS = ("2.0", "3.0", "3.1", "3.2")
_HEADER = 58  # bytes of HEADER
_BLANK = b" \0\r\n\t"
_MOST_SEEN = 1 << 20  # bytes outside of all segments that are searched for lost keywords, at most
_KEYWORD = rb"\$[A-Z]+[0-9]*[A-Z0-9]*"
_BITS = {"I": None, "F": 32, "D": 64}  # regardless of $PnB
_CHECKSUM = re.compile(rb"([0-9A-Fa-f ]{8})?[ \0\r\n\t]*")
_NEEDED = re.compile(
    r"\$(P[0-9]+(B|E|G|N|R|DATATYPE)|PAR|TOT|DATATYPE|BYTEORD|MODE|NEXTDATA|(BEGIN|END)\w+)", re.IGNORECASE
)


@dataclass
class Parts:
    """A data set of an FCS file.

    Parameters
    ----------
    words : dict of str
        Keywords in lower case without the "$", and their values.
    notes : list of str
        Descriptions of doubtful parts of the file, and of how these were read.
    kinds : str
        "I", "F" or "D" for each channel.
    bits : list of int
        Width of the numbers of each channel.
    columns : list of ndarrays, shape (n_events,)
        Numbers in the form in which they are stored: unsigned integers, float32 or float64.
    """

    words: dict[str, str]
    notes: list[str]
    kinds: str = ""
    bits: Sequence[int] = ()
    columns: Sequence[np.ndarray] = ()

    def word(self, key):
        """Return a keyword's value without blanks at its ends; "" if the keyword is missing."""
        return self.words.get(key, "").strip()

    def integer(self, key, default=None):
        """Return the integer value of a keyword; `default` if the keyword is missing or empty."""
        text = self.word(key)
        if not text:
            return default
        if not re.fullmatch(r"\+?[0-9]{1,18}", text):
            raise InputError(f"${key.upper()} is '{text[:40]}'; expected a whole number")
        return int(text)

    def required(self, key):
        """Return the integer value of a required keyword."""
        found = self.integer(key)
        if found is None:
            raise InputError(f"the keyword ${key.upper()} is missing")
        return found

    def offset(self, key):
        """Return a keyword's offset; 0 if it is missing or not a number, since HEADER may contain it."""
        return _offset(self.words.get(key, "").encode())

    def number(self, key, default):
        """Return the number of a keyword; `default` if the keyword is missing or empty."""
        text = self.word(key)
        return number(text, f"${key.upper()}") if text else default


def number(text, name):
    """Return the finite number that a keyword's value represents.

    Raises
    ------
    InputError
    """
    if re.fullmatch(r"\s*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,3})?\s*", text):
        found = float(text)
        if np.isfinite(found):
            return found
    raise InputError(f"{name} is '{text[:40]}'; expected a number")


@dataclass
class _Extent:
    """Bytes `begin` to `stop` - 1, according to the part `by` of the file."""

    begin: int
    stop: int
    by: str

    def __str__(self):
        return f"bytes {self.begin} to {self.stop - 1} by {self.by}"


def read_parts(path, data_set=None):
    """Read a data set of an FCS file.

    Parameters
    ----------
    path : path
    data_set : int, optional
        Its number, from 1; if not given, the file must have only one.

    Raises
    ------
    InputError
        The file is not FCS of these versions, is damaged or ambiguous, does not have this data set, or has
        several.
    OSError
    """
    with open(path, "rb", opener=ordinary) as file:
        size = os.fstat(file.fileno()).st_size
        found = _DataSet(file, 0, size)
        for at in range(1, data_set or 1):
            if not found.following():
                raise InputError(f"data_set is {data_set}, but the file holds {at}")
            found = _DataSet(file, found.following(), size)
        following = found.following()
        if following and data_set is None:
            raise InputError("it holds several data sets; choose one by data_set=1, 2, ... of cytometry.read")
        return found.parts(following or size)


class _DataSet:
    """HEADER and TEXT of the data set that begins at byte `base` of a file."""

    def __init__(self, file, base, size):
        self.file, self.base, self.size = file, base, size - base
        head = self.read(0, _HEADER)
        if head[:3] != b"FCS":
            raise InputError("it does not begin with 'FCS'")
        version = head[3:6].decode("latin-1")
        if version not in VERSIONS:
            raise InputError(f"its version is 'FCS{version}'; expected one of {', '.join(VERSIONS)}")
        if len(head) < _HEADER:
            raise InputError(f"it ends after {len(head)} bytes, within its HEADER of {_HEADER}")
        self.old = version == "2.0"
        self.header = _offsets(head[10:])
        begin, last = self.header[:2]
        if not _HEADER <= begin < last:
            raise InputError(f"HEADER says that TEXT is bytes {begin} to {last}")
        after = [at for at in self.header[2::2] if at > begin]
        self.text, self.delimiter, words = _keywords(self, begin, last, after)
        self.more = self._supplement(words)
        self.found = _unique(words)
        begin, last = (self.found.offset(f"{end}analysis") for end in ("begin", "end"))
        self.analysis = (begin, last) if begin else tuple(self.header[4:])

    def read(self, begin, stop):
        """Return bytes `begin` to `stop` - 1 of the data set; fewer at the end of the file."""
        self.file.seek(self.base + begin)
        return self.file.read(max(0, min(stop, self.size) - begin))

    def following(self):
        """Return the offset of the next data set in the file; 0 if there is none."""
        text = self.found.word("nextdata")
        at = int(text) if re.fullmatch("[0-9]{1,18}", text) else 0
        return self.base + at if at > 0 and self.read(at, at + 3) == b"FCS" else 0

    def _supplement(self, words):
        """Add the keywords of supplemental TEXT to `words`; return the offsets of its first and last byte."""
        own = _unique(words)
        begin, last = own.integer("beginstext", 0), own.integer("endstext", 0)
        if begin == last or self.text[0] <= begin <= last <= self.text[1]:
            return self.text
        if not _HEADER <= begin < last < self.size:
            raise InputError(
                f"$BEGINSTEXT and $ENDSTEXT say that supplemental TEXT is bytes {begin} to {last}, where the "
                f"file has {self.size}"
            )
        place, _, more = _keywords(self, begin, last, self.header[2:], self.delimiter)
        words += more
        return place

    def parts(self, end):
        """Return the complete data set, which ends before byte `end` of the file."""
        self.size = min(self.size, end - self.base)
        found = self.found
        mode = found.word("mode").upper() or "L"
        if mode != "L":
            raise InputError(f"$MODE is '{mode}'; expected L, a list of events")
        found.kinds, layouts = _layouts(found)
        extent, found.bits, n_events = _located(self, layouts)
        self._note_lost(extent)
        self.file.seek(self.base + extent.begin)
        stream = np.fromfile(self.file, np.uint8, extent.stop - extent.begin)
        columns = decode(stream, found.kinds, found.bits, found.words.get("byteord", ""), found.notes)
        found.columns = [own[:n_events] for own in columns]
        return found

    def _note_lost(self, extent):
        """Note bytes outside of all segments that contain keywords, a data set, or more than a checksum."""
        # HEADER is followed by offsets of a program's private segments
        other, notes = _offsets(self.read(_HEADER, self.text[0])), self.found.notes
        known = [(0, _HEADER - 1), (extent.begin, extent.stop - 1), self.text, self.more, self.analysis]
        known += [own for own in zip(other[::2], other[1::2]) if own[0]]
        apart, at = re.escape(self.delimiter), 0
        sign = rb"(?:^|%b)(\$[A-Z]\w*|SPILL\w*)%b|FCS[23]\.[0-9] {4}" % (apart, apart)
        for begin, last in [*sorted(known), (self.size, self.size)]:
            between = self.read(at, min(begin, at + _MOST_SEEN)) if begin > at else b""
            lost = re.search(sign, between, re.IGNORECASE)
            if lost:
                notes.append(
                    f"bytes {at} to {begin - 1} belong to no segment, but hold {_decoded(lost[0])!r}: "
                    "keywords or events may be lost"
                )
            elif at >= extent.stop and not _CHECKSUM.fullmatch(between):
                notes.append(
                    f"bytes {at} to {begin - 1}, behind DATA, belong to no segment; bytes may have been added"
                )
            at = max(at, last + 1)


def _offset(text):
    """Return an offset of HEADER; 0 if it is blank or not a number."""
    text = text.strip(_BLANK)
    return int(text) if text.isdigit() and len(text) <= 18 else 0


def _offsets(text):
    return [_offset(text[at : at + 8]) for at in range(0, len(text) - 7, 8)]


def _ambiguous_places(places):
    return " and ".join(map(str, places)) or "nowhere"


def _keywords(own, begin, last, after, wanted=None):
    """Split a segment of TEXT into keywords and values.

    A doubled delimiter is one character of a value; directly after a keyword it is an empty value, which the
    standard forbids but instruments write. Keywords are assumed to contain no delimiter.

    Parameters
    ----------
    own : _DataSet
    begin, last : int
        Offsets of the first and the last byte.
    after : sequence of int
        Offsets at which other segments begin.
    wanted : bytes, optional
        The delimiter, if it is already known.

    Returns
    -------
    (begin, last)
        Offsets of the first and the last byte, after corrections.
    delimiter : bytes
    words : list of (str, str)

    Raises
    ------
    InputError
        The segment ends within a value, or can be read in two ways.
    """
    if last > own.size:
        raise InputError(f"TEXT reaches to byte {last}, where the file has {own.size} bytes")
    body = own.read(begin, last + 2)
    body, behind = body[: last + 1 - begin], body[last + 1 - begin :]
    lead = len(body) - len(body.lstrip(b" "))
    body, begin = body[lead:], begin + lead
    delimiter = body[:1]
    if not delimiter or delimiter.isalnum() or delimiter in b" $.,-+\0" or delimiter > b"\x7e":
        raise InputError(f"TEXT begins with {delimiter!r} at byte {begin}; expected a delimiter")
    if wanted not in (None, delimiter):
        raise InputError(f"supplemental TEXT begins with {delimiter!r}, where the delimiter is {wanted!r}")
    body = (body[:-1] if last in after else body).rstrip(_BLANK.replace(delimiter, b""))
    if not body.endswith(delimiter):
        if behind == delimiter:
            body += behind
        elif body[:-1].endswith(delimiter):
            body = body[:-1]
        elif behind.strip(_BLANK) and last + 1 not in after:
            raise InputError(f"TEXT ends at byte {last} within a value, {_decoded(body[-20:])!r}")
    try:
        pairs = _pairs(body, delimiter)
    except InputError:
        if behind != delimiter:
            raise
        body += behind  # the last offset is one too small, within an empty value
        pairs = _pairs(body, delimiter)
    return (begin, begin + len(body) - 1), delimiter, pairs


def _pairs(body, delimiter):
    """Return keywords and values as written in TEXT."""
    body, apart, found, at = body.lstrip(delimiter), re.escape(delimiter), [], 0
    other = b"[^" + apart + b"]"
    doubt = re.compile(apart + apart + _KEYWORD, re.IGNORECASE)
    key_of_standard = re.compile(_KEYWORD, re.IGNORECASE)
    pair = re.compile(b"(%b+)%b((?:%b++|%b%b)*+)(?:%b|\\Z)" % (other, apart, other, apart, apart, apart))
    for match in iter(lambda: pair.match(body, at), None):
        key, value, at = match[1].strip(), match[2], match.end()
        if at == len(body):  # after the last value one delimiter too many, or a keyword without a value
            value = value.removesuffix(delimiter * 2)
            at -= (len(match[1]) + 1) * (match[0] == match[1] + delimiter)
            if at < len(body):
                break
        two = doubt.search(value)
        if two or (not key.startswith(b"$") and key_of_standard.fullmatch(value.strip())):
            raise InputError(
                f"the value of {_decoded(key)} is {_decoded(value)[:60]!r}: it is unclear whether a keyword "
                "begins within it"
            )
        if key:
            found.append((_decoded(key), _decoded(value.replace(delimiter * 2, delimiter))))
    if body[at:].strip(_BLANK + delimiter):
        raise InputError(
            f"TEXT has a keyword without a value, {_decoded(body[at:])[:40]!r}: a delimiter is missing or "
            "one too many"
        )
    return found


def _decoded(text):
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text.decode("latin-1")


def _unique(words):
    """Return Parts with keywords in lower case without "$"; a keyword of the standard, with "$", has
    precedence over one without it."""
    found, notes = {}, []
    for key, value in words:
        key = key.lower()
        if found.setdefault(key, value).strip() != value.strip():
            if _NEEDED.fullmatch(key):
                raise InputError(f"{key.upper()} is both '{found[key][:40]}' and '{value[:40]}'")
            notes.append(f"{key.upper()} is '{found[key][:40]}' and again '{value[:40]}'; the first counts")
    order = sorted(found, key=lambda key: key.startswith("$"))
    return Parts({key.lstrip("$"): found[key] for key in order}, notes)


def _layouts(found):
    """Return the kinds of the channels, and possible widths of their numbers in bits: those in TEXT, and
    those of files in which TEXT is wrong."""
    kind = found.word("datatype").upper()
    kinds, bits, n = [], [], found.required("par")
    if not 0 < n <= len(found.words):
        raise InputError(f"$PAR says {n} channels, where TEXT has {len(found.words)} keywords")
    for at in range(1, n + 1):
        own = found.word(f"p{at}datatype").upper() or kind
        if own not in _BITS:
            raise InputError(
                f"$DATATYPE is {own or 'missing'}, for channel {at}; expected I (whole numbers), F or D"
                " (floats)"
            )
        width = _BITS[own] or found.required(f"p{at}b")
        if not 0 < width <= 64:
            raise InputError(f"$P{at}B is {width}; expected 1 to 64 bits")
        kinds.append(own)
        bits.append(width)
    # a number of 10 bits may be stored in a word of 16
    rounded = [max(8, 1 << (width - 1).bit_length()) for width in bits]
    return "".join(kinds), [bits] + [rounded] * (rounded != bits)


def _located(own, layouts):
    """Return the extent of DATA, the widths of the numbers in bits, and the number of events."""
    found, total, behind = own.found, own.found.integer("tot"), own.text[1] + 1
    places = [
        _Extent(found.offset("begindata"), found.offset("enddata") + 1, "TEXT"),
        _Extent(own.header[2], own.header[3] + 1, "HEADER"),
    ]
    places = [place for place in (places[::-1] if own.old else places) if _HEADER <= place.begin <= own.size]
    if total is None:
        return _counted(own, places, layouts[0])
    if total == 0 and all(place.stop - place.begin <= 1 for place in places):
        return _Extent(own.size, own.size, "$TOT"), layouts[0], 0
    for grade, bits in itertools.product(range(5), layouts):
        n_bytes = -(-total * sum(bits) // 8)
        right = [place for place in places if _agrees(own, place, n_bytes, sum(bits) / 8, grade)]
        if grade == 4 and not places and _blank_around(own, behind, behind + n_bytes):
            right = [_Extent(behind, own.size, "the end of TEXT")]
        if right:
            _check_fit(found, right, places, bits, layouts, grade, total)
            return _Extent(right[0].begin, right[0].begin + n_bytes, right[0].by), bits, total
    raise InputError(
        f"$TOT says {total} events of {sum(layouts[0]) / 8:g} bytes, {-(-total * sum(layouts[0]) // 8)} in "
        f"all; DATA is {_ambiguous_places(places)}, TEXT ends at {own.text[1]}, the file at {own.size - 1}"
    )


def _agrees(own, place, n_bytes, width, grade):
    """Return True if DATA may be at `place`. Its length is that of the events (grade 0), one byte more (1),
    more by less than an event (2), or impossible, while only blanks surround the events (3)."""
    more = place.stop - place.begin - n_bytes
    if place.begin <= own.text[1] or place.begin + n_bytes > own.size:
        return False
    if grade < 3:
        return (more == 0, more == 1, 0 < more < width)[grade]
    meant = place.begin + 1 < place.stop <= own.size + 1
    return grade == 3 and not meant and _blank_around(own, place.begin, place.begin + n_bytes)


def _check_fit(found, right, places, bits, layouts, grade, total):
    """Raise InputError if two places fit equally well; note a place that does not fit exactly."""
    if len({place.begin for place in right}) > 1:
        raise InputError(f"DATA is {_ambiguous_places(right)}, and both would hold {total} events")
    if bits != layouts[0]:
        said, read = (", ".join(map(str, dict.fromkeys(own))) for own in (layouts[0], bits))
        found.notes.append(
            f"$PnB says {said} bits a number, but by its length DATA has {read}, as it was read"
        )
    if grade == 2 or (grade == 1 and len(right) < 2) or (grade == 4):
        found.notes.append(
            f"DATA is {_ambiguous_places(places)}, where $TOT says {total} events; they were read from "
            f"byte {right[0].begin} on"
        )


def _blank_around(own, begin, stop):
    """Return True if the bytes between TEXT and `begin`, and those after `stop`, are blank, except for a
    checksum of 8 bytes at the end."""
    others = sorted(at for at in (own.more[0], own.header[4]) if at > own.text[1])
    if begin <= own.text[1] or any(begin <= at < stop for at in others) or stop > own.size:
        return False
    until = next((at for at in others if at >= stop), own.size)
    if until - stop > 8 and own.read(stop, min(until, stop + _MOST_SEEN)).strip(_BLANK):
        return False
    before = max(at for at in (own.text[1], own.more[1], own.header[5]) if at < begin)
    return begin - before < _MOST_SEEN and not own.read(before + 1, begin).strip(_BLANK)


def _counted(own, places, bits):
    """Return the same as `_located` if $TOT is missing, with the number of events from the length of DATA."""
    width, excess = divmod(sum(bits), 8)
    for over in (0, 1) if not excess else ():
        ends = {
            (place.begin, place.stop - over): place.by
            for place in places[::-1]
            if place.begin < place.stop <= own.size + over and (place.stop - place.begin) % width == over
        }
        if len(ends) == 1 and _blank_around(own, *min(ends)):
            (begin, stop), by = ends.popitem()
            return _Extent(begin, stop, by), bits, (stop - begin) // width
    raise InputError(
        f"the keyword $TOT is missing, and DATA is {_ambiguous_places(places)}: no whole number of events "
        f"of {sum(bits) / 8:g} bytes, or more than one"
    )
