"""Write FCS files that violate the standard: every number in its own bits, by Python's integers only."""

import re
import struct
from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Channel:
    name: str
    bits: int = 32
    amplified: str = "0,0"
    gain: str = ""
    most: str = "262144"
    marker: str | None = None
    kind: str = ""


@dataclass(frozen=True)
class Odd:
    """Describe a file by its rows, and its deviations from the standard."""

    channels: tuple = (Channel("FSC-A"), Channel("FL1-A"), Channel("FL2-A"))
    rows: tuple = ((1037.75, 960.5, 1192.125), (2.0, -3.5, 4.25), (8192.0, 16.5, 0.0), (7.5, 33.25, 21.0))
    version: str = "3.1"
    kind: str = "F"
    order: str = "1,2,3,4"
    words: tuple = ()  # further keywords and values, in order
    changed: tuple = ()  # keywords of every file, and other values; None leaves one out
    delimiter: str = "/"
    escape: bool = True
    more: tuple | None = None  # supplemental TEXT
    more_behind: bool = False
    header: object = (0, 0)  # DATA's first and last byte: what is added to them, or a function of them
    said: object = (0, 0)
    text_end: int = 0
    no_last: bool = False
    lead: bytes = b""
    trail: bytes = b""
    pad: bytes = b""
    tail: bytes = b""
    encoding: str = "utf-8"

    def but(self, **changes):
        """Return another file; names in capitals are keywords with other values, or further keywords."""
        for key in [name for name in changes if name.isupper()]:
            part, pair = "changed" if _known(key) else "words", (f"${key}", changes.pop(key))
            changes[part] = (*changes.get(part, getattr(self, part)), pair)
        return replace(self, **changes)

    def build(self):
        """Return the bytes of the file."""
        data = self.data()
        places = dict.fromkeys(("more", "more_end", "data"), 0)
        for _ in range(3):
            text, more = self.text(places, len(data)), self.supplement()
            begin = 256 + len(text)
            behind = begin + len(self.trail) + len(self.pad)
            if more and not self.more_behind:
                places |= {"more": behind, "more_end": behind + len(more) - 1}
                behind += len(more)
            places["data"] = behind
            if more and self.more_behind:
                behind += len(data)
                places |= {"more": behind, "more_end": behind + len(more) - 1}
        first, last = places["data"], places["data"] + len(data) - 1
        own = _moved(self.header, first, last) if last < 10**8 else (0, 0)
        head = f"FCS{self.version}    ".encode()
        for at in (256, begin - 1 + self.text_end, *own, 0, 0):
            head += at if isinstance(at, bytes) else b"%8d" % at
        before = text + self.trail + self.pad + (more if not self.more_behind else b"")
        return head.ljust(256) + before + data + (more if self.more_behind else b"") + self.tail

    def text(self, places, n_bytes):
        said = _moved(self.said, places["data"], places["data"] + n_bytes - 1)
        words = {
            "$BEGINSTEXT": f"{places['more']:08d}",
            "$ENDSTEXT": f"{places['more_end']:08d}",
            "$BEGINANALYSIS": "0",
            "$ENDANALYSIS": "0",
            "$BEGINDATA": said[0] if isinstance(said[0], str) else f"{said[0]:08d}",
            "$ENDDATA": said[1] if isinstance(said[1], str) else f"{said[1]:08d}",
            "$BYTEORD": self.order,
            "$DATATYPE": self.kind,
            "$MODE": "L",
            "$NEXTDATA": "0",
            "$PAR": str(len(self.channels)),
            "$TOT": str(len(self.rows)),
        }
        for at, own in enumerate(self.channels, 1):
            words |= {f"$P{at}N": own.name, f"$P{at}B": str(own.bits), f"$P{at}E": own.amplified}
            words |= {f"$P{at}R": own.most} | ({f"$P{at}G": own.gain} if own.gain else {})
            words |= {} if own.marker is None else {f"$P{at}S": own.marker}
            words |= {f"$P{at}DATATYPE": own.kind} if own.kind else {}
        changed = dict(self.changed)
        pairs = [(key, changed.get(key, value)) for key, value in words.items()]
        pairs = [(key, value) for key, value in pairs if value is not None] + list(self.words)
        text = self.lead + self.encoded(pairs)
        return text[:-1] if self.no_last else text

    def supplement(self):
        return b"" if self.more is None else self.encoded(self.more)

    def encoded(self, pairs):
        apart = self.delimiter
        words = [word for pair in pairs for word in pair]
        words = [word.replace(apart, apart * 2) if self.escape else word for word in words]
        return (apart + apart.join([*words, ""])).encode(self.encoding)

    def data(self):
        """Encode each number as an integer of its bits, its bytes in the order of $BYTEORD."""
        kinds = [own.kind or self.kind for own in self.channels]
        widths = [{"F": 32, "D": 64}.get(kind, own.bits) for kind, own in zip(kinds, self.channels)]
        order = [int(digit) for digit in self.order if digit.isdigit()]
        little = order == sorted(order)
        wholes = [[_as_whole(kind, value) for kind, value in zip(kinds, row)] for row in self.rows]
        if any(width % 8 for width in widths):
            return _stream(wholes, widths, little)
        body = b""
        for row in wholes:
            for value, width in zip(row, widths):
                low_first = value.to_bytes(width // 8, "little")
                if little or len(low_first) == 1:
                    body += low_first
                elif order == sorted(order)[::-1]:
                    body += low_first[::-1]
                else:
                    body += bytes(low_first[digit - 1] for digit in order)
        return body


def _known(key):
    """Return True for a keyword that every file has."""
    return re.fullmatch(r"(BEGIN|END)\w+|BYTEORD|DATATYPE|MODE|NEXTDATA|PAR|TOT|P\d+[NBER]", key) is not None


def _moved(how, first, last):
    return how(first, last) if callable(how) else (first + how[0], last + how[1])


def _as_whole(kind, value):
    if kind == "I":
        return int(value)
    code = {"F": "f", "D": "d"}[kind]
    return int.from_bytes(struct.pack(f"<{code}", value), "little")


def _stream(rows, widths, little):
    """Concatenate numbers without gaps: beginning with the lowest bit, or with the highest."""
    whole = n_bits = 0
    for row in rows:
        for value, width in zip(row, widths):
            whole = whole | value << n_bits if little else whole << width | value
            n_bits += width
    room = -(-n_bits // 8)
    return whole.to_bytes(room, "little") if little else (whole << 8 * room - n_bits).to_bytes(room, "big")


SPILL = "2,FL1-A,FL2-A,1,0.25,0,1"
MATRIX = ("$SPILLOVER", SPILL)
FLOAT = Odd()
WHOLE = Odd(
    channels=(
        Channel("FSC-H", 16, most="1024"),
        Channel("FL1-H", 16, most="1024"),
        Channel("FL2-H", 16, most="1024"),
    ),
    rows=((10, 512, 100), (1023, 20, 0), (5, 6, 7), (1, 2, 1000)),
    kind="I",
)


@dataclass(frozen=True)
class Case:
    name: str
    content: bytes
    X: np.ndarray | None = None  # None if the file is refused
    says: str = ""  # text of the warning, or of the error
    spillover: bool | None = None  # True if there is one, of 0.25
    channels: tuple | None = None
    gains: tuple | None = None
    markers: tuple | None = None
    data_set: int | None = None


def right(name, odd, X=None, says="", **more):
    return Case(name, odd.build(), np.array(odd.rows if X is None else X, float), says, **more)


def wrong(name, odd, says):
    return Case(name, odd if isinstance(odd, bytes) else odd.build(), None, says)


def widths(*bits, most=None):
    """Return whole numbers of these bits, including the largest."""
    top = [2**own - 1 if own < 64 else 2**53 for own in bits]
    rows = tuple(
        tuple((line * 37 + at) % 100 % (value + 1) for at, value in enumerate(top)) for line in range(7)
    )
    named = [Channel(f"FL{at}-A", own, most=most or str(2**own)) for at, own in enumerate(bits, 1)]
    return Odd(channels=tuple(named), rows=(*rows, tuple(top)), kind="I")
