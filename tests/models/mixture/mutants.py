"""Mutants of FCS files: bytes flipped, cut, keywords taken away and changed.

`python -m tests.models.mixture.mutants --mutants 5000 --seed 1` tries as many, and lists those that were read
as other numbers without a warning, and those that ended in an error other than InputError.
"""

import argparse
import random
import re
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

import portable as pk
from portable.models.mixture import cytometry

from .odd_cases import calibur, diva
from .odd_fcs import FLOAT, MATRIX, WHOLE, Channel

KEYS = "PAR TOT DATATYPE BYTEORD MODE BEGINDATA ENDDATA NEXTDATA BEGINSTEXT ENDSTEXT P1B P2B P3B P1R P2R P1N"
KEYS = f"{KEYS} P2E".split()
VALUES = (
    "",
    "0",
    "1",
    "-1",
    "2",
    "99999999",
    "9" * 40,
    "x",
    "4,1",
    "0,0",
    "I",
    "F",
    "D",
    "A",
    "1,2",
    "3,4,1,2",
    "nan",
    "1e400",
    "16",
    "64",
    " ",
)
_MOST_BYTES = 1 << 28  # memory of a process, whatever size a mutant states


def originals():
    """Return files of each kind of numbers; the largest numbers use every bit."""
    rows = tuple((1000.5 + line, 2.0**line, -line / 3) for line in range(20))
    whole = tuple((line * 50, 1023 - line, 512 + line) for line in range(20))
    channels = tuple(Channel(f"FL{at}-A", 10) for at in range(3))
    yield FLOAT.but(rows=rows, words=(MATRIX, ("$CYT", "x")))
    yield FLOAT.but(rows=rows, version="2.0", order="4,3,2,1", delimiter="\f", pad=b" " * 30)
    yield FLOAT.but(rows=rows, kind="D", more=(MATRIX,), more_behind=True)
    yield WHOLE.but(rows=whole, version="3.0", order="4,3,2,1", tail=b"00000000")
    yield WHOLE.but(
        rows=whole, channels=tuple(Channel(own.name, 10, most="1024") for own in channels), order="4,3,2,1"
    )
    yield FLOAT.but(
        rows=rows,
        version="3.2",
        channels=(*FLOAT.channels[:2], Channel("Id", 24, most="16777216", kind="I")),
        words=(("$P1S", ""), MATRIX),
        escape=False,
    ).but(rows=tuple((*row[:2], int(row[0])) for row in rows))
    yield diva()
    yield calibur()


def mutate(draw, odd):
    """Return a mutant's bytes, and True if its numbers must be those of the original unless there is a
    warning.

    Facts that a file states only once cannot be checked by a reader: a changed decade, range or order of
    bytes. Such changes must end in numbers or an InputError.
    """
    content = bytearray(odd.build())
    data = odd.data()
    first = bytes(content).find(data, 256)
    kind = draw.choice(("head", "text", "cut", "grow", "drop", "change", "offset", "doubled"))
    if kind == "head":
        content[draw.randrange(58)] = draw.randrange(256)
    elif kind == "text":
        at = draw.randrange(256, first)
        content[at] = draw.choice(
            (draw.randrange(256), content[at] ^ 1 << draw.randrange(8), ord(odd.delimiter))
        )
        return bytes(content), _same_values(odd, bytes(content))
    elif kind == "cut":
        return bytes(content[: draw.randrange(len(content))]), True
    elif kind == "grow":
        at = draw.randrange(first, first + len(data))
        content[at:at] = bytes(draw.randrange(256) for _ in range(draw.randrange(1, 40)))
        behind = bytes(content[first + len(data) :]).strip(b" \0\r\n\t")
        return bytes(content), behind != odd.tail  # blanks that were pushed out are padding
    elif kind == "offset":
        moved = draw.choice((-1, 1, 2, 12, -12, 1000, -1000, 10**7))
        which = draw.choice(("header", "said"))

        def moves(first, last, end=draw.randrange(2)):
            return (max(0, first + moved * (1 - end)), max(0, last + moved * end))

        return odd.but(**{which: moves}).build(), True
    elif kind == "doubled":
        at = draw.choice(
            [found.start() for found in re.finditer(re.escape(odd.delimiter.encode()), content[256:first])]
        )
        content[256 + at : 256 + at + draw.randrange(2)] = odd.delimiter.encode() * draw.randrange(3)
        return bytes(content), _same_values(odd, bytes(content))
    else:
        key = draw.choice(KEYS)
        value = None if kind == "drop" else draw.choice(VALUES)
        return odd.but(changed=(*odd.changed, (f"${key}", value))).build(), key[-1] not in "RE" and (
            key,
            value,
        ) != ("DATATYPE", "D")
    return bytes(content), True


def _same_values(odd, content):
    """Return True if no decade, range, gain or time step differs, which a file states only once."""
    free = re.compile(
        rb"\$(P\d+[ERGN]|TIMESTEP)"
        + re.escape(odd.delimiter.encode())
        + rb"([^%b]*)" % re.escape(odd.delimiter.encode())
    )
    return free.findall(content) == free.findall(odd.build())


def tried(path, odd, X, content):
    """Return the outcome of a mutant in a word: "right", "warned", "refused", or a description of the
    error."""
    path.write_bytes(content)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            sample = cytometry.read(path)
        except pk.InputError as error:
            return "refused" if path.name in str(error) else f"refused without its name: {error}"
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    if said:
        return "warned" if all(own.category is UserWarning for own in said) else f"{said[0].message}"
    if sample.spillover is None and b"SPILLOVER" in odd.build():
        return "a matrix lost"
    return "right" if sample.X.shape == X.shape and np.array_equal(sample.X, X) else "other numbers"


def run(n_mutants, seed, folder):
    """Return counts of the outcomes of mutants, and the failures."""
    draw, path = random.Random(seed), Path(folder) / "mutant.fcs"
    files, counts, wrong = [], {}, []
    for odd in originals():
        path.write_bytes(odd.build())
        files.append((odd, cytometry.read(path).X))
    for number in range(n_mutants):
        odd, X = files[number % len(files)]
        content, strict = mutate(draw, odd)
        became = tried(path, odd, X, content)
        if became == "other numbers" and not strict:
            became = "another file"
        counts[became] = counts.get(became, 0) + 1
        if became not in ("right", "warned", "refused", "another file"):
            wrong.append((number, became, content))
    return counts, wrong


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a folder for those that are wrong")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        counts, wrong = run(options.mutants, options.seed, folder)
    print(", ".join(f"{count} {became}" for became, count in sorted(counts.items())))
    for number, became, content in wrong:
        print(f"mutant {number}: {became}")
        if options.keep:
            (options.keep / f"mutant{number}.fcs").write_bytes(content)
    most = int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) << 10
    print(f"at most {most >> 20} MiB")
    return int(bool(wrong) or most > _MOST_BYTES)


if __name__ == "__main__":
    sys.exit(main())
