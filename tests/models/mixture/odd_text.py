"""Make odd FCS files whose HEADER, TEXT or keywords are unusual."""

from dataclasses import replace

import numpy as np

from .odd_fcs import FLOAT, MATRIX, SPILL, Case, right, wrong


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
    yield wrong("a letter as a delimiter", FLOAT.but(delimiter="Q", escape=False), "expected a delimiter")
    yield wrong(
        "a word of two delimiters",
        FLOAT.but(delimiter="/", escape=False, words=(("$P3S", "CD/3"), MATRIX)),
        "without a value|it is unclear",
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
    yield right("in front of a gain", raw.but(P3S="", P2G="8"), gains=(1, 8, 1))
    yield right(
        "in front of a word of its own", raw.but(words=(("$OP", ""), ("SPILL", SPILL))), spillover=True
    )
    yield right("the last one", raw.but(words=(MATRIX, ("$P3S", ""))), spillover=True)
    yield right(
        "the last one, TEXT one early", raw.but(words=(MATRIX, ("$P3S", "")), text_end=-1), spillover=True
    )
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
    yield wrong("a value that may end before $", raw.but(words=(("$P3S", "CD3/"), MATRIX)), "it is unclear")
    yield wrong("out of step", raw.but(words=(("$P3S", "a/b"), MATRIX)), "without a value|it is unclear")


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
        FLOAT.but(BEGINSTEXT="90000", ENDSTEXT="90100"),
        "supplemental TEXT is bytes 90000",
    )
    yield wrong(
        "supplement that ends first",
        FLOAT.but(more=(MATRIX,), ENDSTEXT="10"),
        "supplemental TEXT is bytes",
    )
    yield wrong(
        "supplement of another delimiter",
        FLOAT.but(more=(MATRIX,)).build().replace(b"/$SPILLOVER/", b"|$SPILLOVER/"),
        "where the delimiter is",
    )
    yield right(
        "supplement without offsets",
        FLOAT.but(more=(MATRIX,), BEGINSTEXT="0", ENDSTEXT="0"),
        says="keywords or events may be lost",
        spillover=False,
    )


def matrices():
    yield right("SPILL", FLOAT.but(words=(("SPILL", SPILL),)), spillover=True)
    yield right("a comma at the end", FLOAT.but(SPILLOVER=SPILL + ","), spillover=True)
    yield right("blanks in it", FLOAT.but(SPILLOVER=SPILL.replace(",", " , ")), spillover=True)
    yield right("numbers for names", FLOAT.but(SPILLOVER="2,2,3,1,0.25,0,1"), spillover=True)
    yield right("SPILL and SPILLOVER alike", FLOAT.but(words=(MATRIX, ("SPILL", SPILL))), spillover=True)
    yield right(
        "two that differ",
        FLOAT.but(words=(("SPILL", SPILL.replace("0.25", "0.5")), MATRIX)),
        says="two matrices",
        spillover=True,
    )
    a, b, c = FLOAT.channels
    commas = FLOAT.but(
        channels=(a, replace(b, name="FITC, CD3"), c), SPILLOVER="2,FITC, CD3,FL2-A,1,0.25,0,1"
    )
    yield right("a comma in a name", commas, spillover=True)
    yield right("0", FLOAT.but(SPILLOVER="0"), spillover=False)
    for text, word in (
        ("2;FL1-A;FL2-A;1;0.25;0;1", "cannot be read"),
        ("2,FL1-A,FL2-A,1,0.25,0", "cannot be read"),
        ("2,FL1-A,FL2-A,1,0.25,0,one", "could not convert"),
        ("2,FL1-A,FL2-A,1,1,1,1", "is singular"),
        ("2,FL1-A,FL2-A,1,nan,1,1", "is singular"),
        ("2,FL1-A,FL1-A,1,0,0,1", "has shape"),
        ("x", "cannot be read"),
        ("-1", "cannot be read"),
        ("99999999,FL1-A", "cannot be read"),
        ("9999,FL1-A", "cannot be read"),
    ):
        yield right(f"matrix {text}", FLOAT.but(SPILLOVER=text), says=word, spillover=False)
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
        FLOAT.but(P2N=None),
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
