"""Make odd FCS files whose numbers, or the places of these, are unusual."""

from dataclasses import replace

import numpy as np

from .odd_fcs import FLOAT, WHOLE, right, widths, wrong


def orders():
    one = {"header": lambda first, last: (first, last + 1)}
    for order in "3,4,1,2 2,1,4,3 4,3,2,1 1,2,3,4".split():
        yield right(f"order {order}", FLOAT.but(order=order))
        yield right(f"order {order}, one off", FLOAT.but(order=order, **one))
        yield right(f"order {order} of whole numbers", widths(32, 32).but(order=order, **one))
    for order in ("1, 2, 3, 4", " 4,3,2,1 ", "1,2", "2,1"):
        yield right(f"order {order!r}", FLOAT.but(order=order))
        yield right(f"order {order!r} of 16 bits", WHOLE.but(order=order))
    for order in "1,2,3,4,5,6,7,8 8,7,6,5,4,3,2,1 1,2,3,4 5,6,7,8,1,2,3,4".split():
        yield right(f"order {order} of doubles", FLOAT.but(kind="D", order=order))
    yield right("order 1 of bytes", widths(8, 8, 8).but(order="1"))
    yield right("no order of bytes", widths(8, 8, 8).but(BYTEORD=None))
    for order in "1,2,3 2,3,4,1 1234 0,1,2,3 1,1,2,2 little 3,4,1,2; 1".split():
        odd = FLOAT.but(BYTEORD=order, **one)
        yield wrong(f"order {order}", odd, r"\$BYTEORD is")
    yield wrong("no order", FLOAT.but(BYTEORD=None), r"\$BYTEORD is")
    yield wrong(
        "order 3,4,1,2 of 16 bits",
        WHOLE.but(BYTEORD="3,4,1,2"),
        "does not define the order of 2 bytes",
    )
    yield right(
        "floats in the other order",
        FLOAT.but(BYTEORD="4,3,2,1"),
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
    yield right("kinds in small letters", FLOAT.but(kind="F", DATATYPE="f", MODE="l"))
    yield right(
        "floats of 16 bits by $PnB", FLOAT.but(channels=(replace(a, bits=16), replace(b, bits=16), c))
    )
    yield wrong("kind X", FLOAT.but(P1DATATYPE="X"), r"\$DATATYPE is X, for channel 1")
    yield wrong("text", FLOAT.but(DATATYPE="A"), r"\$DATATYPE is A")
    yield wrong("no kind", FLOAT.but(DATATYPE=None), "missing")
    yield wrong("doubles that are floats", FLOAT.but(DATATYPE="D"), "4 events of 24 bytes, 96 in all")
    yield right(
        "whole numbers that are floats",
        FLOAT.but(DATATYPE="I"),
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
    yield right("no amplification", WHOLE.but(P2E=None), says=r"\$P2E is missing")
    yield right("whole numbers with a gain", WHOLE.but(P2G="2"), np.array(WHOLE.rows) / [1, 2, 1])
    yield right("a gain of 0", FLOAT.but(P2G="0"), gains=(1, 1, 1))
    first, second, third = FLOAT.channels
    for text in ("5.22472,100", "4,1", "4,0"):
        yield right(
            f"floats of {text}",
            FLOAT.but(channels=(first, replace(second, amplified=text), third)),
            says="if they are logarithmic, 960.5 means",
        )
    yield right("floats without it", FLOAT.but(P2E=None))
    yield right(
        "time steps",
        WHOLE.but(P3N="Time", TIMESTEP="0.5", P3G="9"),
        np.array(WHOLE.rows) * [1, 1, 0.5],
    )
    for text, word in (
        ("4;1", "two numbers"),
        ("-4,1", "positive"),
        ("4,x", "expected a number"),
        ("nan,1", "expected a number"),
        ("4", "two numbers"),
    ):
        yield wrong(f"amplified {text}", with_log(text), word)
    yield wrong("logarithmic without a range", with_log("4,1", "0"), "expected a range")
    for text, word in (
        ("-2", "positive"),
        ("two", "expected a number"),
        ("1e999", "expected a number"),
        ("1,5", "expected a number"),
    ):
        yield wrong(f"gain {text}", FLOAT.but(P2G=text), word)
    yield wrong("time step x", WHOLE.but(TIMESTEP="x"), "TIMESTEP is 'x'")


def nothing(first, last):
    return (0, 0)


def longer(first, last):
    return (first, last + 1)


def offsets():
    missing = {"BEGINDATA": None, "ENDDATA": None}
    for version in ("3.0", "3.1", "3.2"):
        own = FLOAT.but(version=version)
        yield right(f"HEADER of zeros, {version}", own.but(header=nothing))
        yield right(f"HEADER of others, {version}", own.but(header=lambda first, last: (300, 400)))
        yield right(f"no BEGINDATA, {version}", own.but(**missing))
    yield right("no MODE", FLOAT.but(MODE=None))
    yield right("no NEXTDATA", FLOAT.but(NEXTDATA=None))
    for text in ("500", "x", "-7", "99999999999", ""):
        yield right(f"NEXTDATA {text!r}", FLOAT.but(NEXTDATA=text, escape=False))
    yield right(
        "no BEGINSTEXT",
        FLOAT.but(BEGINSTEXT=None, ENDSTEXT=None, BEGINANALYSIS=None, ENDANALYSIS=None),
    )
    for version in ("2.0", "3.1"):
        yield right(f"no TOT, {version}", FLOAT.but(version=version, TOT=None))
        yield right(
            f"no TOT, one longer, {version}",
            FLOAT.but(version=version, TOT=None, header=(0, 1), said=(0, 1)),
        )
        yield right(f"both one longer, {version}", FLOAT.but(version=version, header=(0, 1), said=(0, 1)))
    yield right("2.0 without TEXT's offsets", FLOAT.but(version="2.0", **missing, TOT=None))
    yield right(
        "2.0, HEADER one longer",
        FLOAT.but(version="2.0", **missing, header=(0, 1)),
        says="DATA is bytes",
    )
    yield right("TEXT one longer", FLOAT.but(said=(0, 1)))
    yield right("HEADER one longer", FLOAT.but(header=(0, 1)))
    yield right("HEADER one shorter", FLOAT.but(header=(0, -1)))
    yield right("HEADER begins one late", FLOAT.but(header=(1, 0)))
    yield right("ENDDATA is BEGINDATA", FLOAT.but(said=lambda first, last: (first, first), header=nothing))
    yield right(
        "ENDDATA is BEGINDATA, HEADER too",
        FLOAT.but(said=lambda first, last: (first, first), header=lambda first, last: (first, first)),
    )
    yield right("ENDDATA of 0", FLOAT.but(said=lambda first, last: (first, 0), header=nothing))
    yield right("HEADER of nines", FLOAT.but(header=lambda first, last: (99999999, 99999999)))
    yield right(
        "HEADER of nines alone",
        FLOAT.but(**missing, header=lambda first, last: (99999999, 99999999)),
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
    for tail in (b"00000000", b"    1A2B", b"\0", b"\0" * 512, b"00000000\r\n", b"\r\n  "):
        yield right(f"{len(tail)} bytes behind, from {tail[:1]!r}", FLOAT.but(tail=tail))
    yield right("a checksum, no TOT", FLOAT.but(tail=b"00000000", TOT=None))
    yield right(
        "padded within DATA",
        FLOAT.but(
            tail=b"\0" * 5,
            header=(0, 5),
            said=(0, 5),
        ),
        says="where .TOT says 4 events",
    )
    none = FLOAT.but(rows=())
    yield right("no event", none.but(**missing, header=nothing), np.zeros((0, 3)))
    yield right("no event, offsets", none.but(header=lambda first, last: (first, first)), np.zeros((0, 3)))
    yield right("TOT with blanks", FLOAT.but(TOT="    4 "))
    yield right("TOT with zeros", FLOAT.but(TOT="0000000004"))
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
        yield wrong(f"TOT {text}", FLOAT.but(TOT=text), word)
    for text, word in (
        ("2", "in all"),
        ("4", "P4B is missing|in all|P4"),
        ("0", "says 0 channels"),
        ("999999999", "says 999999999 channels"),
        ("x", "whole number"),
        (None, "PAR is missing"),
    ):
        yield wrong(f"PAR {text}", FLOAT.but(PAR=text), word)
    for text in "C U c list".split():
        yield wrong(f"MODE {text}", FLOAT.but(MODE=text), r"\$MODE is")
    whole = FLOAT.build()
    for cut in (1, 4, 8, 47, 48, 100, 400):
        yield wrong(f"{cut} bytes cut", whole[:-cut], "in all|TEXT reaches")
    twice = replace(FLOAT, rows=FLOAT.rows * 2, changed=(("$TOT", "4"),))
    yield wrong(
        "two places",
        twice.but(said=lambda first, last: (first, first + 47), header=(48, 0)),
        "and both would hold 4 events",
    )
    yield wrong(
        "neither TOT nor offsets",
        FLOAT.but(TOT=None, **missing, header=nothing),
        "TOT is missing",
    )
    yield wrong(
        "no TOT, and half an event",
        FLOAT.but(
            TOT=None,
            said=(0, -5),
            header=(0, -5),
        ),
        "TOT is missing",
    )
    yield wrong(
        "DATA within TEXT",
        FLOAT.but(
            said=(-60, -60),
            header=(-60, -60),
        ),
        "TEXT ends at",
    )


def behind():
    for tail in (bytes(range(1, 251)) * 20, b"CHECKED!", b"0000000000"):
        yield right(f"{len(tail)} bytes of no segment", FLOAT.but(tail=tail), says="belong to no segment")


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
    for text in "262144.0 2.62144E5 4294967296 0 1".split():
        yield right(f"range {text}", widths(32, 32, most=text).but(rows=((262143, 3), (17, 4))))
    yield right("range of 64 bits", widths(64, most="18446744073709551616").but(rows=((2**40,), (3,))))
    yield right("no range", WHOLE.but(P2R=None), says=r"\$P2R is missing")
    yield right("no range of floats", FLOAT.but(P2R=None), says=r"\$P2R is missing")
    yield right(
        "beyond doubles", widths(64).but(rows=((2**60 + 1,), (3,))), ((2.0**60,), (3.0,)), says="are rounded"
    )
    for text in ("0", "65", "x", "-8", "", "1e3"):
        yield wrong(f"{text!r} bits", WHOLE.but(P2B=text, escape=False), r"P2B")
    yield wrong("63 bits", widths(16, 16).but(P1B="63", P2B="63"), "in all")
    yield wrong("range x", FLOAT.but(P2R="x"), "P2R is 'x'")
