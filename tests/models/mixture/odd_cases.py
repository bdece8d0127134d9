"""Odd FCS files, by name: what is right about them, what is said, what is refused."""

from dataclasses import dataclass, replace

import numpy as np

from .odd_fcs import Channel, Odd

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
    X: np.ndarray | None = None  # None where it is refused
    says: str = ""  # of the warning, or of the error
    spillover: bool | None = None  # whether there is one, of 0.25
    channels: tuple | None = None
    gains: tuple | None = None
    markers: tuple | None = None
    data_set: int | None = None


def right(name, odd, X=None, says="", **more):
    return Case(name, odd.build(), np.array(odd.rows if X is None else X, float), says, **more)


def wrong(name, odd, says):
    return Case(name, odd if isinstance(odd, bytes) else odd.build(), None, says)


def widths(*bits, most=None):
    """Whole numbers of these bits, the largest among them."""
    top = [2**own - 1 if own < 64 else 2**53 for own in bits]
    rows = tuple(
        tuple((line * 37 + at) % 100 % (value + 1) for at, value in enumerate(top)) for line in range(7)
    )
    named = [Channel(f"FL{at}-A", own, most=most or str(2**own)) for at, own in enumerate(bits, 1)]
    return Odd(channels=tuple(named), rows=(*rows, tuple(top)), kind="I")


def plain():
    """All versions, kinds of numbers, and orders."""
    made = {"F": FLOAT, "D": FLOAT.but(kind="D", rows=((1.1, 2e-7, -3.0), (4.0, 1 / 3, 1e9)))}
    made |= {f"I{own}": widths(own, own, own) for own in (8, 16, 24, 32, 40, 64)} | {
        "mixed": widths(8, 16, 32, 24)
    }
    for version in ("2.0", "3.0", "3.1", "3.2"):
        for kind, odd in made.items():
            order = "4,3,2,1" if (len(kind) + len(version) + int(version[2])) % 2 else "1,2,3,4"
            yield right(f"{kind} of {version}", odd.but(version=version, order=order))


def delimiters():
    words = (("$COM", "a%b, 100 ~ 7"), ("$FIL", "%data%run%x.fcs"), ("$P2S", "CD3%e"), MATRIX)
    for apart in "/|\\!*^]-?~#;\t\n\f\x1e\x01":
        if apart == "-":  # no delimiter: it begins numbers
            continue
        own = tuple((key, value.replace("%", apart).lstrip(apart)) for key, value in words)
        marker = f"CD3{apart}e".strip()
        yield right(
            f"delimiter {apart!r}",
            FLOAT.but(delimiter=apart, words=own),
            spillover=True,
            markers=("", marker, "") if apart.isprintable() else None,
        )
    yield right("one at a value's end", FLOAT.but(words=(("$FIL", "/a/"), MATRIX)), spillover=True)
    yield wrong("a letter as a delimiter", FLOAT.but(delimiter="Q", escape=False), "a delimiter is wanted")
    yield wrong(
        "a word of two delimiters",
        FLOAT.but(delimiter="/", escape=False, words=(("$P3S", "CD/3"), MATRIX)),
        "without a value|cannot be told",
    )


def empties():
    raw = FLOAT.but(escape=False)
    yield right(
        "an empty marker in front of the matrix", raw.but(words=(("$P3S", ""), MATRIX)), spillover=True
    )
    yield right("two empty ones", raw.but(words=(("$P2S", ""), ("$P3S", ""), MATRIX)), spillover=True)
    yield right(
        "many empty ones",
        raw.but(words=(*((f"$P{at}S", "") for at in (1, 2, 3)), ("CREATOR", ""), MATRIX, ("$OP", ""))),
        spillover=True,
    )
    yield right("in front of a gain", raw.but(words=(("$P3S", ""), ("$P2G", "8"))), gains=(1, 8, 1))
    yield right(
        "in front of a word of its own", raw.but(words=(("$OP", ""), ("SPILL", SPILL))), spillover=True
    )
    yield right("the last one", raw.but(words=(MATRIX, ("$P3S", ""))), spillover=True)
    yield right("an empty gain", raw.but(words=(("$P2G", ""), MATRIX)), spillover=True, gains=(1, 1, 1))
    yield right("an empty time step", raw.but(words=(("$TIMESTEP", ""), MATRIX)), spillover=True)
    required = tuple((f"$P{at}{what}", None) for at in (1, 2, 3) for what in "R")
    behind = raw.but(
        changed=required, words=(("$P1S", ""), ("$P1R", "9"), ("$P2S", ""), ("$P2R", "9"), ("$P3R", "9"))
    )
    yield right("in front of ranges", behind)
    for apart in "\\|\f":
        path = f"C:{apart * 2}data{apart * 2}x.fcs"
        yield right(
            f"with paths between {apart!r}",
            raw.but(delimiter=apart, words=(("$P3S", ""), ("$FIL", path), MATRIX)),
            spillover=True,
        )
    yield wrong("a value that may end before $", raw.but(words=(("$P3S", "CD3/"), MATRIX)), "cannot be told")
    yield wrong("out of step", raw.but(words=(("$P3S", "a/b"), MATRIX)), "without a value|cannot be told")


def supplements():
    for version in ("3.0", "3.1", "3.2"):
        for behind in (False, True):
            place = "behind" if behind else "before"
            yield right(
                f"supplement {place} DATA, {version}",
                FLOAT.but(version=version, more=(MATRIX, ("$P2S", "CD4")), more_behind=behind),
                spillover=True,
                markers=("", "CD4", ""),
            )
    both = (("$BEGINSTEXT", "256"), ("$ENDSTEXT", "400"))
    yield right("supplement that is TEXT itself", FLOAT.but(words=(MATRIX,), changed=both), spillover=True)
    yield right(
        "supplement with an empty value", FLOAT.but(more=(("$P1S", ""), MATRIX), escape=False), spillover=True
    )
    yield wrong(
        "supplement beyond the end",
        FLOAT.but(changed=(("$BEGINSTEXT", "90000"), ("$ENDSTEXT", "90100"))),
        "supplemental TEXT is bytes 90000",
    )
    yield wrong(
        "supplement that ends first",
        FLOAT.but(more=(MATRIX,), changed=(("$ENDSTEXT", "10"),)),
        "supplemental TEXT is bytes",
    )
    yield wrong(
        "supplement of another delimiter",
        FLOAT.but(more=(MATRIX,)).build().replace(b"/$SPILLOVER/", b"|$SPILLOVER/"),
        "where the delimiter is",
    )
    yield right(
        "supplement without offsets",
        FLOAT.but(more=(MATRIX,), changed=(("$BEGINSTEXT", "0"), ("$ENDSTEXT", "0"))),
        says="keywords or events may be lost",
        spillover=False,
    )


def orders():
    one = {"header": lambda first, last: (first, last + 1)}
    for order in ("3,4,1,2", "2,1,4,3", "4,3,2,1", "1,2,3,4"):
        yield right(f"order {order}", FLOAT.but(order=order))
        yield right(f"order {order}, one off", FLOAT.but(order=order, **one))
        yield right(f"order {order} of whole numbers", widths(32, 32).but(order=order, **one))
    for order in ("1, 2, 3, 4", " 4,3,2,1 ", "1,2", "2,1"):
        yield right(f"order {order!r}", FLOAT.but(order=order))
        yield right(f"order {order!r} of 16 bits", WHOLE.but(order=order))
    for order in ("1,2,3,4,5,6,7,8", "8,7,6,5,4,3,2,1", "1,2,3,4", "5,6,7,8,1,2,3,4"):
        yield right(f"order {order} of doubles", FLOAT.but(kind="D", order=order))
    yield right("order 1 of bytes", widths(8, 8, 8).but(order="1"))
    yield right("no order of bytes", widths(8, 8, 8).but(changed=(("$BYTEORD", None),)))
    for order in ("1,2,3", "2,3,4,1", "1234", "0,1,2,3", "1,1,2,2", "little", "3,4,1,2;", "1"):
        odd = FLOAT.but(changed=(("$BYTEORD", order),), **one)
        yield wrong(f"order {order}", odd, r"\$BYTEORD is")
    yield wrong("no order", FLOAT.but(changed=(("$BYTEORD", None),)), r"\$BYTEORD is")
    yield wrong(
        "order 3,4,1,2 of 16 bits", WHOLE.but(changed=(("$BYTEORD", "3,4,1,2"),)), "does not say how 2 bytes"
    )
    yield right(
        "floats in the other order",
        FLOAT.but(changed=(("$BYTEORD", "4,3,2,1"),)),
        np.array(FLOAT.rows, "f4").byteswap(),
        says="may be wrong",
    )


def kinds():
    a, b, c = FLOAT.channels
    ids = ((1.5, 769482, 2.25), (-1.0, 7, 0.125))
    for version in ("3.2", "3.1"):
        yield right(
            f"whole numbers among floats, {version}",
            FLOAT.but(version=version, channels=(a, replace(b, kind="I", most="4294967296"), c), rows=ids),
        )
    yield right(
        "16 bits among floats",
        FLOAT.but(
            version="3.2",
            channels=(a, replace(b, kind="I", bits=16, most="65536"), c),
            rows=((1.5, 40000, 2.25), (-1.0, 7, 0.125)),
            order="4,3,2,1",
        ),
    )
    yield right(
        "doubles among floats",
        FLOAT.but(
            version="3.2",
            channels=(replace(a, kind="D", bits=64), b, c),
            rows=((1e-9 / 3, 1.5, 2.25), (7.1, 0.5, 1.0)),
        ),
    )
    yield right(
        "floats among whole numbers",
        WHOLE.but(
            version="3.2",
            channels=(replace(WHOLE.channels[0], kind="F", bits=32), *WHOLE.channels[1:]),
            rows=((1.5, 512, 100), (-3.25, 20, 0)),
        ),
    )
    yield right(
        "all three",
        FLOAT.but(
            version="3.2",
            channels=(
                replace(a, kind="F"),
                replace(b, kind="D", bits=64),
                replace(c, kind="I", bits=24, most="16777216"),
            ),
            rows=((1.5, 0.1, 16777215), (2.0, 0.7, 3)),
            order="4,3,2,1",
        ),
    )
    yield right("kinds in small letters", FLOAT.but(kind="F", changed=(("$DATATYPE", "f"), ("$MODE", "l"))))
    yield right(
        "floats of 16 bits by $PnB", FLOAT.but(channels=(replace(a, bits=16), replace(b, bits=16), c))
    )
    yield (
        wrong("kind X", FLOAT.but(channels=(replace(a, kind="X"), b, c)).but(rows=()), "X")
        if False
        else wrong("kind X", FLOAT.but(words=(("$P1DATATYPE", "X"),)), r"\$DATATYPE is X, for channel 1")
    )
    yield wrong("text", FLOAT.but(changed=(("$DATATYPE", "A"),)), r"\$DATATYPE is A")
    yield wrong("no kind", FLOAT.but(changed=(("$DATATYPE", None),)), "missing")
    yield wrong(
        "doubles that are floats", FLOAT.but(changed=(("$DATATYPE", "D"),)), "4 events of 24 bytes, 96 in all"
    )
    yield right(
        "whole numbers that are floats",
        FLOAT.but(changed=(("$DATATYPE", "I"),)),
        np.array(FLOAT.rows, "f4").view("u4") & 0x3FFFF,
        says="bits above .P1R",
    )


def amplifiers():
    def with_log(text, most="1024"):
        first, second, third = WHOLE.channels
        return WHOLE.but(channels=(first, replace(second, amplified=text, most=most), third))

    def linear(decades, least, most=1024):
        X = np.array(WHOLE.rows, float)
        X[:, 1] = 10 ** (decades * X[:, 1] / most) * least
        return X

    yield right("logarithmic", with_log("4,1"), linear(4, 1))
    yield right("logarithmic, from 0.1", with_log("4.0,0.1"), linear(4, 0.1))
    yield right("logarithmic, of 5.4", with_log("5.4,1"), linear(5.4, 1))
    yield right("logarithmic from 0", with_log("4,0"), linear(4, 1), says="neither 0,0 nor logarithmic")
    yield right("logarithmic without decades", with_log("0,1"), says="as linear")
    yield right("many decades", with_log("9,1"), linear(9, 1), says="says 9 decades")
    yield right(
        "logarithmic, range 1000", with_log("4,1", "1000"), linear(4, 1, 1000), says="no power of two"
    )
    yield right("linear as floats", with_log("0.0,0.0"))
    yield right("no amplification", WHOLE.but(changed=(("$P2E", None),)), says=r"\$P2E is missing")
    yield right(
        "whole numbers with a gain", WHOLE.but(words=(("$P2G", "2"),)), np.array(WHOLE.rows) / [1, 2, 1]
    )
    yield right("a gain of 0", FLOAT.but(words=(("$P2G", "0"),)), gains=(1, 1, 1))
    first, second, third = FLOAT.channels
    for text in ("5.22472,100", "4,1", "4,0"):
        yield right(
            f"floats of {text}",
            FLOAT.but(channels=(first, replace(second, amplified=text), third)),
            says=f"if they are logarithmic, 960.5 means",
        )
    yield right("floats without it", FLOAT.but(changed=(("$P2E", None),)))
    yield right(
        "time steps",
        WHOLE.but(changed=(("$P3N", "Time"),), words=(("$TIMESTEP", "0.5"), ("$P3G", "9"))),
        np.array(WHOLE.rows) * [1, 1, 0.5],
    )
    for text, word in (
        ("4;1", "two numbers"),
        ("-4,1", "positive"),
        ("4,x", "a number is wanted"),
        ("nan,1", "a number is wanted"),
        ("4", "two numbers"),
    ):
        yield wrong(f"amplified {text}", with_log(text), word)
    yield wrong("logarithmic without a range", with_log("4,1", "0"), "a range is wanted")
    for text, word in (
        ("-2", "positive"),
        ("two", "a number is wanted"),
        ("1e999", "a number is wanted"),
        ("1,5", "a number is wanted"),
    ):
        yield wrong(f"gain {text}", FLOAT.but(words=(("$P2G", text),)), word)
    yield wrong("time step x", WHOLE.but(words=(("$TIMESTEP", "x"),)), "TIMESTEP is 'x'")


def matrices():
    yield right("SPILL", FLOAT.but(words=(("SPILL", SPILL),)), spillover=True)
    yield right("a comma at the end", FLOAT.but(words=(("$SPILLOVER", SPILL + ","),)), spillover=True)
    yield right("blanks in it", FLOAT.but(words=(("$SPILLOVER", SPILL.replace(",", " , ")),)), spillover=True)
    yield right("numbers for names", FLOAT.but(words=(("$SPILLOVER", "2,2,3,1,0.25,0,1"),)), spillover=True)
    yield right("SPILL and SPILLOVER alike", FLOAT.but(words=(MATRIX, ("SPILL", SPILL))), spillover=True)
    yield right(
        "two that differ",
        FLOAT.but(words=(("SPILL", SPILL.replace("0.25", "0.5")), MATRIX)),
        says="two matrices",
        spillover=True,
    )
    a, b, c = FLOAT.channels
    commas = FLOAT.but(
        channels=(a, replace(b, name="FITC, CD3"), c), words=(("$SPILLOVER", "2,FITC, CD3,FL2-A,1,0.25,0,1"),)
    )
    yield right("a comma in a name", commas, spillover=True)
    yield right("0", FLOAT.but(words=(("$SPILLOVER", "0"),)), spillover=False)
    for text, word in (
        ("2;FL1-A;FL2-A;1;0.25;0;1", "cannot be read"),
        ("2,FL1-A,FL2-A,1,0.25,0", "cannot be read"),
        ("2,FL1-A,FL2-A,1,0.25,0,one", "could not convert"),
        ("2,FL1-A,FL2-A,1,1,1,1", "no inverse"),
        ("2,FL1-A,FL2-A,1,nan,1,1", "no inverse"),
        ("2,FL1-A,FL1-A,1,0,0,1", "has shape"),
        ("x", "cannot be read"),
        ("-1", "cannot be read"),
        ("99999999,FL1-A", "cannot be read"),
        ("9999,FL1-A", "cannot be read"),
    ):
        yield right(f"matrix {text}", FLOAT.but(words=(("$SPILLOVER", text),)), says=word, spillover=False)
    for key, text in (
        ("$COMP", "2,1,0.25,0,1"),
        ("$DFC1TO2", "12.5"),
        ("$SPILLOWER", SPILL),
        ("$DFC2TO1", "0"),
    ):
        yield right(
            f"matrix in {key}",
            FLOAT.but(words=((key, text),)),
            says=f"{key[1:]} may be a matrix",
            spillover=False,
        )


def offsets():
    nothing = lambda first, last: (0, 0)
    longer = lambda first, last: (first, last + 1)
    missing = (("$BEGINDATA", None), ("$ENDDATA", None))
    for version in ("3.0", "3.1", "3.2"):
        own = FLOAT.but(version=version)
        yield right(f"HEADER of zeros, {version}", own.but(header=nothing))
        yield right(f"HEADER of others, {version}", own.but(header=lambda first, last: (300, 400)))
        yield right(f"no BEGINDATA, {version}", own.but(changed=missing))
    yield right("no MODE", FLOAT.but(changed=(("$MODE", None),)))
    yield right("no NEXTDATA", FLOAT.but(changed=(("$NEXTDATA", None),)))
    for text in ("500", "x", "-7", "99999999999", ""):
        yield right(f"NEXTDATA {text!r}", FLOAT.but(changed=(("$NEXTDATA", text),), escape=False))
    yield right(
        "no BEGINSTEXT",
        FLOAT.but(
            changed=(
                ("$BEGINSTEXT", None),
                ("$ENDSTEXT", None),
                ("$BEGINANALYSIS", None),
                ("$ENDANALYSIS", None),
            )
        ),
    )
    for version in ("2.0", "3.1"):
        yield right(f"no TOT, {version}", FLOAT.but(version=version, changed=(("$TOT", None),)))
        yield right(
            f"no TOT, one longer, {version}",
            FLOAT.but(version=version, changed=(("$TOT", None),), header=longer, said=longer),
        )
        yield right(f"both one longer, {version}", FLOAT.but(version=version, header=longer, said=longer))
    yield right("2.0 without TEXT's offsets", FLOAT.but(version="2.0", changed=(*missing, ("$TOT", None))))
    yield right(
        "2.0, HEADER one longer",
        FLOAT.but(version="2.0", changed=missing, header=longer),
        says="DATA is bytes",
    )
    yield right("TEXT one longer", FLOAT.but(said=longer))
    yield right("HEADER one longer", FLOAT.but(header=longer))
    yield right("HEADER one shorter", FLOAT.but(header=lambda first, last: (first, last - 1)))
    yield right("HEADER begins one late", FLOAT.but(header=lambda first, last: (first + 1, last)))
    yield right("ENDDATA is BEGINDATA", FLOAT.but(said=lambda first, last: (first, first), header=nothing))
    yield right(
        "ENDDATA is BEGINDATA, HEADER too",
        FLOAT.but(said=lambda first, last: (first, first), header=lambda first, last: (first, first)),
    )
    yield right("ENDDATA of 0", FLOAT.but(said=lambda first, last: (first, 0), header=nothing))
    yield right("HEADER of nines", FLOAT.but(header=lambda first, last: (99999999, 99999999)))
    yield right(
        "HEADER of nines alone",
        FLOAT.but(changed=missing, header=lambda first, last: (99999999, 99999999)),
        says="DATA is nowhere",
    )
    yield right("HEADER of blanks", FLOAT.but(header=lambda first, last: (b" " * 8, b" " * 8)))
    yield right("HEADER of words", FLOAT.but(header=lambda first, last: (b"********", b"   -1   ")))
    yield right("HEADER on the left", FLOAT.but(header=lambda first, last: (b"%-8d" % first, b"%-8d" % last)))
    yield right("offsets of stars", FLOAT.but(said=lambda first, last: ("********", "********")))
    yield right(
        "offsets with blanks", FLOAT.but(said=lambda first, last: (f"   {first:08d}", f"{last:08d}  "))
    )
    for pad in (b" " * 100, b"\0" * 333, b"\r\n"):
        yield right(f"{len(pad)} bytes between", FLOAT.but(pad=pad))
    for tail in (b"00000000", b"    1A2B", b"\0", b"\0" * 512, b"00000000\r\n", bytes(range(1, 251)) * 20):
        yield right(f"{len(tail)} bytes behind, from {tail[:1]!r}", FLOAT.but(tail=tail))
    yield right("a checksum, no TOT", FLOAT.but(tail=b"00000000", changed=(("$TOT", None),)))
    yield right(
        "padded within DATA",
        FLOAT.but(
            tail=b"\0" * 5,
            header=lambda first, last: (first, last + 5),
            said=lambda first, last: (first, last + 5),
        ),
        says="where .TOT says 4 events",
    )
    none = FLOAT.but(rows=())
    yield right("no event", none.but(changed=(*missing,), header=nothing), np.zeros((0, 3)))
    yield right("no event, offsets", none.but(header=lambda first, last: (first, first)), np.zeros((0, 3)))
    yield right("TOT with blanks", FLOAT.but(changed=(("$TOT", "    4 "),)))
    yield right("TOT with zeros", FLOAT.but(changed=(("$TOT", "0000000004"),)))
    for text, word in (
        ("5", "says 5 events"),
        ("3", "says 3 events"),
        ("0", "says 0 events"),
        ("4.0", "a whole number"),
        ("-4", "a whole number"),
        ("9" * 18, "events of 12 bytes"),
        ("9" * 30, "a whole number"),
        ("four", "a whole number"),
    ):
        yield wrong(f"TOT {text}", FLOAT.but(changed=(("$TOT", text),)), word)
    for text, word in (
        ("2", "in all"),
        ("4", "P4B is missing|in all|P4"),
        ("0", "says 0 channels"),
        ("999999999", "says 999999999 channels"),
        ("x", "whole number"),
        (None, "PAR is missing"),
    ):
        yield wrong(f"PAR {text}", FLOAT.but(changed=(("$PAR", text),)), word)
    for text in ("C", "U", "c", "list"):
        yield wrong(f"MODE {text}", FLOAT.but(changed=(("$MODE", text),)), r"\$MODE is")
    whole = FLOAT.build()
    for cut in (1, 4, 8, 47, 48, 100, 400):
        yield wrong(f"{cut} bytes cut", whole[:-cut], "in all|TEXT reaches")
    twice = replace(FLOAT, rows=FLOAT.rows * 2, changed=(("$TOT", "4"),))
    yield wrong(
        "two places",
        twice.but(
            said=lambda first, last: (first, first + 47), header=lambda first, last: (first + 48, last)
        ),
        "and both would hold 4 events",
    )
    yield wrong(
        "neither TOT nor offsets",
        FLOAT.but(changed=(("$TOT", None), *missing), header=nothing),
        "TOT is missing",
    )
    yield wrong(
        "no TOT, and half an event",
        FLOAT.but(changed=(("$TOT", None),), said=lambda f, l: (f, l - 5), header=lambda f, l: (f, l - 5)),
        "TOT is missing",
    )
    yield wrong(
        "DATA within TEXT",
        FLOAT.but(said=lambda f, l: (f - 60, l - 60), header=lambda f, l: (f - 60, l - 60)),
        "TEXT ends at",
    )


def wholes():
    for order in ("4,3,2,1", "1,2,3,4"):
        says = "" if order[0] == "4" else "from the lowest bit"
        for bits in ((10, 10, 10), (12, 12), (10, 16, 20, 3), (1, 9), (20, 20, 20, 20), (33, 17)):
            yield right(f"{bits} bits, {order}", widths(*bits).but(order=order), says=says)
    ten = WHOLE.but(changed=tuple((f"$P{at}B", "10") for at in (1, 2, 3)))
    yield right("10 bits in words of 16", ten, says="DATA has 16")
    yield right(
        "12 bits in words of 16",
        WHOLE.but(changed=tuple((f"$P{at}B", "12") for at in (1, 2, 3))),
        says="DATA has 16",
    )
    yield right("8, 16 and 32 bits", widths(8, 8, 16, 8, 32))
    high = WHOLE.but(rows=((1024 + 7, 5, 2048 + 9), (1, 2, 3)))
    yield right("bits above the range", high, ((7, 5, 9), (1, 2, 3)), says="1031 is read as 7")
    yield right("range 1000", widths(16, 16, most="1000").but(rows=((999, 3), (1010, 4))))
    for text in ("262144.0", "2.62144E5", "4294967296", "0", "1"):
        yield right(f"range {text}", widths(32, 32, most=text).but(rows=((262143, 3), (17, 4))))
    yield right("range of 64 bits", widths(64, most="18446744073709551616").but(rows=((2**40,), (3,))))
    yield right("no range", WHOLE.but(changed=(("$P2R", None),)), says=r"\$P2R is missing")
    yield right("no range of floats", FLOAT.but(changed=(("$P2R", None),)), says=r"\$P2R is missing")
    yield right(
        "beyond doubles", widths(64).but(rows=((2**60 + 1,), (3,))), ((2.0**60,), (3.0,)), says="are rounded"
    )
    for text in ("0", "65", "x", "-8", "", "1e3"):
        yield wrong(f"{text!r} bits", WHOLE.but(changed=(("$P2B", text),), escape=False), r"P2B")
    yield wrong("63 bits", widths(16, 16).but(changed=(("$P1B", "63"), ("$P2B", "63"))), "in all")
    yield wrong("range x", FLOAT.but(changed=(("$P2R", "x"),)), "P2R is 'x'")


def names():
    a, b, c = FLOAT.channels
    twice = FLOAT.but(channels=(a, b, b))
    yield right(
        "one name twice",
        twice,
        says="2 channels are called 'FL1-A'",
        channels=("FSC-A", "FL1-A 2", "FL1-A 3"),
    )
    yield right(
        "one name thrice",
        FLOAT.but(channels=(a, a, a)),
        says="3 channels",
        channels=("FSC-A 1", "FSC-A 2", "FSC-A 3"),
    )
    yield right(
        "a matrix of a name twice",
        twice.but(words=(MATRIX,)),
        says="2 channels",
        channels=("FSC-A", "FL1-A 2", "FL1-A 3"),
    )
    yield right(
        "no name",
        FLOAT.but(changed=(("$P2N", None),)),
        says=r"\$P2N is missing",
        channels=("FSC-A", "P2", "FL2-A"),
    )
    for encoding, name in (("utf-8", "µ-α CD45"), ("latin-1", "µ é"), ("utf-8", "抗体")):
        odd = FLOAT.but(channels=(a, replace(b, marker=name), c), encoding=encoding)
        yield right(f"{name} in {encoding}", odd, markers=("", name, ""))
    small = FLOAT.but(words=(MATRIX,))
    content = small.build()
    lowered = content[:256] + content[256:].replace(b"$SPILLOVER", b"$spillover").replace(b"$P2N", b"$p2n")
    yield Case("small letters", lowered, np.array(FLOAT.rows), spillover=True)
    yield Case(
        "blanks around keywords",
        FLOAT.but(words=((" $SPILLOVER ", SPILL), ("\n$P2S", "CD3"))).build(),
        np.array(FLOAT.rows),
        spillover=True,
        markers=("", "CD3", ""),
    )
    yield right("a keyword twice, alike", FLOAT.but(words=(("$PAR", "3"),)))
    yield right("a remark twice", FLOAT.but(words=(("$COM", "a"), ("$COM", "b"))), says="the first counts")
    yield wrong("PAR twice", FLOAT.but(words=(("$PAR", "4"),)), r"\$PAR is both '3' and '4'")
    yield wrong("a range twice", FLOAT.but(words=(("$P2R", "1024"),)), r"\$P2R is both")
    yield right(
        "one of its own beside one of the standard",
        FLOAT.but(words=(("PAR", "7"), ("tot", "9"), ("P2R", "5"))),
    )


def texts():
    own = FLOAT.but(words=(MATRIX,))
    yield right("no last delimiter", own.but(no_last=True), spillover=True)
    yield right("TEXT ends one early", own.but(text_end=-1), spillover=True)
    yield right("TEXT ends one late", own.but(text_end=1), spillover=True)
    yield right("TEXT ends in blanks", own.but(trail=b" " * 40, text_end=40), spillover=True)
    yield right("TEXT ends in NULs", own.but(trail=b"\0" * 40, text_end=40), spillover=True)
    yield right("TEXT ends in a line", own.but(trail=b"\r\n", text_end=2), spillover=True)
    yield right("blanks in front of TEXT", own.but(lead=b"   "), spillover=True)
    yield right("two last delimiters", own.but(trail=b"/", text_end=1), spillover=True)
    yield right("two first delimiters", own.but(lead=b"/"), spillover=True)
    yield wrong("TEXT ends within a value", own.but(text_end=-9), "within a value|without a value")
    yield right(
        "TEXT ends before a keyword",
        own.but(text_end=-len(SPILL) - len("$SPILLOVER//")),
        says="keywords or events may be lost",
        spillover=False,
    )
    yield wrong("a keyword alone", own.but(trail=b"LONELY/", text_end=7), "without a value")
    for version in ("4.0", "1.0", "3.3", "   ", "3,1"):
        yield wrong(f"version {version}", FLOAT.but(version=version), "its version is")
    yield wrong("another kind of file", b"PK" + FLOAT.build()[2:], "does not begin with 'FCS'")
    yield wrong("nothing", b"", "does not begin")
    yield wrong("a mark of order", b"\xef\xbb\xbf" + FLOAT.build(), "does not begin")
    yield wrong("half a HEADER", FLOAT.build()[:50], "within its HEADER")
    yield wrong(
        "TEXT of no length", FLOAT.build()[:10] + b"     256     256" + FLOAT.build()[26:], "TEXT is bytes"
    )
    yield wrong(
        "TEXT beyond the file", FLOAT.build()[:10] + b"     256 9999999" + FLOAT.build()[26:], "TEXT reaches"
    )


def chained(*odds):
    """Data sets one behind the other."""
    lengths = [len(odd.but(changed=(*odd.changed, ("$NEXTDATA", "00000000"))).build()) for odd in odds]
    ends = [*(f"{length:08d}" for length in lengths[:-1]), "00000000"]
    return b"".join(
        odd.but(changed=(*odd.changed, ("$NEXTDATA", end))).build() for odd, end in zip(odds, ends)
    )


def instruments():
    """In the manner of instruments: orders, delimiters, ranges and words of theirs."""
    time = Channel("Time", most="262144", gain="0.01")
    scatter = [Channel(name, most="262144", gain="1.0") for name in ("FSC-A", "SSC-A")]
    diva = Odd(
        channels=(time, *scatter, Channel("FITC-A", gain="1.0", marker="CD3"), Channel("PE-A", gain="1.0")),
        rows=((0.5, 100.25, 200.5, -3.125, 7.0), (1.5, 262143.0, 3.5, 9.0, 11.25)),
        version="3.0",
        order="4,3,2,1",
        delimiter="\f",
        words=(
            ("SPILL", "2,FITC-A,PE-A,1,0.25,0,1"),
            ("$CYT", "LSRFortessa"),
            ("$TIMESTEP", "0.01"),
            ("P1DISPLAY", "LIN"),
            ("APPLY COMPENSATION", "TRUE"),
            ("EXPORT USER NAME", "x"),
            ("FSC ASF", "0.78"),
            ("$P3V", "450"),
        ),
    )
    yield right("FACSDiva", diva, spillover=True, gains=(1, 1, 1, 1, 1))
    yield right("FACSDiva, no marker", diva.but(escape=False, changed=(("$P4S", ""),)), spillover=True)
    calibur = Odd(
        channels=tuple(
            Channel(name, 16, scale, most="1024")
            for name, scale in (("FSC-H", "0,0"), ("FL1-H", "4,0.01"), ("Time", "0,0"))
        ),
        rows=((7, 512, 1), (1023, 256, 2)),
        version="2.0",
        kind="I",
        order="4,3,2,1",
        delimiter="\\",
        words=(("$CYT", "FACSCalibur"), ("CREATOR", "CELLQuest 3.3"), ("$TIMESTEP", "1")),
        changed=(("$BEGINDATA", None), ("$ENDDATA", None)),
        tail=b"00000000",
    )
    yield right("FACSCalibur", calibur, ((7, 1.0, 1), (1023, 0.1, 2)))
    accuri = widths(32, 32, 32, most="16777216").but(
        version="3.0",
        order="1,2,3,4",
        delimiter="!",
        rows=((1, 16777215, 3), (4, 5, 6)),
        words=(("$CYT", "BD Accuri C6"), ("$P2S", "")),
        escape=False,
    )
    yield right("Accuri", accuri)
    cytexpert = FLOAT.but(
        version="3.0",
        delimiter="|",
        words=(("$CYT", "CytoFLEX"), ("$SPILLOVER", SPILL), ("$P1G", "1"), ("$FIL", "01-Tube-1.fcs")),
        pad=b" " * 60,
    )
    yield right("CytExpert", cytexpert, spillover=True)
    ten = WHOLE.but(version="2.0", order="1,2,3,4", delimiter="\f", words=(("$CYT", "Navios"),))
    kaluza = FLOAT.but(version="3.0", delimiter="\f", words=(("$CYT", "Navios"),))
    list_mode = chained(ten, kaluza)
    yield Case("Kaluza's two, the first", list_mode, np.array(WHOLE.rows), data_set=1)
    yield Case("Kaluza's two, the second", list_mode, np.array(FLOAT.rows), data_set=2)
    yield wrong("Kaluza's two", list_mode, "several data sets; choose one by data_set=1, 2")
    yield Case(
        "a third of three",
        chained(ten, kaluza, kaluza.but(rows=((1.5, 2.5, 3.5),))),
        np.array(((1.5, 2.5, 3.5),)),
        data_set=3,
    )
    yield Case("a third of two", list_mode, None, "data_set is 3, but the file holds 2", data_set=3)
    lost = list_mode.replace(chained(ten, kaluza)[256:].split(b"$NEXTDATA\f")[1][:8], b"00000000", 1)
    yield Case(
        "a second that nothing points to", lost, np.array(WHOLE.rows), "keywords or events may be lost"
    )
    cytek = FLOAT.but(
        version="3.1",
        words=(
            ("$CYT", "Aurora"),
            ("$P1TYPE", "Raw_Fluorescence"),
            ("$VOL", "22.5"),
            ("$SPILLOVER", SPILL),
            ("$PLATENAME", ""),
            ("GROUPNAME", "x"),
        ),
        escape=False,
    )
    yield right("Cytek", cytek, spillover=True)
    yield right("Cytek xP5", widths(24, 24, 24).but(version="3.0", order="4,3,2,1", words=(("$CYT", "xP5"),)))
    sony = FLOAT.but(
        version="3.1",
        order="4,3,2,1",
        words=(("$CYT", "ID7000"), ("$SPILLOVER", SPILL), ("$LAST_MODIFIED", "01-JAN-2025 10:00:00")),
        tail=b"\0" * 64,
    )
    yield right("Sony", sony, spillover=True)
    attune = FLOAT.but(
        version="3.1",
        delimiter="|",
        words=(("$CYT", "Attune NxT"), ("$P1S", ""), ("$P2S", ""), ("$SPILLOVER", SPILL), ("$P3V", "")),
        escape=False,
        said=lambda first, last: (first, last + 1),
    )
    yield right("Attune", attune, spillover=True)
    yield right(
        "iQue",
        FLOAT.but(
            version="3.1",
            said=lambda first, last: (first, first),
            header=lambda first, last: (first, first),
            words=(("$CYT", "iQue"),),
        ),
    )
    yield right(
        "FlowJo's",
        FLOAT.but(
            version="3.0",
            changed=(("$BEGINDATA", None), ("$ENDDATA", None)),
            words=(("CREATOR", "FlowJo"), ("SPILL", SPILL)),
        ),
        spillover=True,
    )
    mass = Odd(
        channels=tuple(
            Channel(name, most="10000") for name in ("Time", "Event_length", "Yb172Di", "Ir191Di")
        ),
        rows=((1.0, 20.0, 3.5, 0.0), (2.0, 21.0, 0.25, 100.5)),
        version="3.0",
        order="4,3,2,1",
        delimiter="\f",
        words=(("$CYT", "DVSSCIENCES-CYTOF"),),
    )
    yield right("CyTOF", mass)
    s8 = FLOAT.but(
        version="3.2",
        channels=(*FLOAT.channels, Channel("Id", 32, kind="I", most="4294967296")),
        rows=((1.5, 2.5, 3.5, 4000000000), (0.5, 0.25, 8.0, 7)),
        changed=(
            ("$MODE", None),
            ("$BEGINSTEXT", None),
            ("$ENDSTEXT", None),
            ("$BEGINANALYSIS", None),
            ("$ENDANALYSIS", None),
        ),
        words=(("$CYT", "FACSDiscover S8"), ("$BEGINDATETIME", "2025-01-01T10:00:00Z")),
    )
    yield right("FACSDiscover S8", s8)


GROUPS = (
    plain,
    delimiters,
    empties,
    supplements,
    orders,
    kinds,
    amplifiers,
    matrices,
    offsets,
    wholes,
    names,
    texts,
    instruments,
)
CASES = [case for group in GROUPS for case in group()]
