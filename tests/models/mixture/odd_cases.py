"""List odd FCS files by name: the correct ones, those with warnings, those that are refused."""

import numpy as np

from . import odd_data, odd_text
from .odd_fcs import FLOAT, SPILL, WHOLE, Case, Channel, Odd, right, widths, wrong


def plain():
    """Return files of all versions, kinds of numbers, and orders."""
    made = {"F": FLOAT, "D": FLOAT.but(kind="D", rows=((1.1, 2e-7, -3.0), (4.0, 1 / 3, 1e9)))}
    made |= {f"I{own}": widths(own, own, own) for own in (8, 16, 24, 32, 40, 64)} | {
        "mixed": widths(8, 16, 32, 24)
    }
    for version in "2.0 3.0 3.1 3.2".split():
        for kind, odd in made.items():
            order = "4,3,2,1" if (len(kind) + len(version) + int(version[2])) % 2 else "1,2,3,4"
            yield right(f"{kind} of {version}", odd.but(version=version, order=order))


def chained(*odds):
    """Return files with several data sets."""
    lengths = [len(odd.but(changed=(*odd.changed, ("$NEXTDATA", "00000000"))).build()) for odd in odds]
    ends = [*(f"{length:08d}" for length in lengths[:-1]), "00000000"]
    return b"".join(
        odd.but(changed=(*odd.changed, ("$NEXTDATA", end))).build() for odd, end in zip(odds, ends)
    )


def diva():
    time = Channel("Time", most="262144", gain="0.01")
    scatter = [Channel(name, most="262144", gain="1.0") for name in ("FSC-A", "SSC-A")]
    return Odd(
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


def calibur():
    return Odd(
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


def instruments():
    """Return files like those of instruments, with their orders, delimiters, ranges and keywords."""
    first = diva()
    yield right("FACSDiva", first, spillover=True, gains=(1, 1, 1, 1, 1))
    yield right("FACSDiva, no marker", first.but(escape=False, changed=(("$P4S", ""),)), spillover=True)
    own = calibur()
    yield right("FACSCalibur", own, ((7, 1.0, 1), (1023, 0.1, 2)))
    accuri = widths(32, 32, 32, most="16777216").but(
        version="3.0",
        order="1,2,3,4",
        delimiter="!",
        rows=((1, 16777215, 3), (4, 5, 6)),
        CYT="BD Accuri C6",
        P2S="",
        escape=False,
    )
    yield right("Accuri", accuri)
    cytexpert = FLOAT.but(
        version="3.0",
        delimiter="|",
        CYT="CytoFLEX",
        SPILLOVER=SPILL,
        P1G="1",
        FIL="01-Tube-1.fcs",
        pad=b" " * 60,
    )
    yield right("CytExpert", cytexpert, spillover=True)
    ten = WHOLE.but(version="2.0", order="1,2,3,4", delimiter="\f", CYT="Navios")
    kaluza = FLOAT.but(version="3.0", delimiter="\f", CYT="Navios")
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
    yield right("Cytek xP5", widths(24, 24, 24).but(version="3.0", order="4,3,2,1", CYT="xP5"))
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
        CYT="Attune NxT",
        P1S="",
        P2S="",
        SPILLOVER=SPILL,
        P3V="",
        escape=False,
        said=(0, 1),
    )
    yield right("Attune", attune, spillover=True)
    yield right(
        "iQue",
        FLOAT.but(
            version="3.1",
            said=lambda first, last: (first, first),
            header=lambda first, last: (first, first),
            CYT="iQue",
        ),
    )
    yield right(
        "FlowJo's",
        FLOAT.but(
            version="3.0",
            BEGINDATA=None,
            ENDDATA=None,
            words=(("CREATOR", "FlowJo"), ("SPILL", SPILL)),
        ),
        spillover=True,
    )
    mass = Odd(
        channels=tuple(Channel(name, most="10000") for name in "Time Event_length Yb172Di Ir191Di".split()),
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
        MODE=None,
        BEGINSTEXT=None,
        ENDSTEXT=None,
        BEGINANALYSIS=None,
        ENDANALYSIS=None,
        words=(("$CYT", "FACSDiscover S8"), ("$BEGINDATETIME", "2025-01-01T10:00:00Z")),
    )
    yield right("FACSDiscover S8", s8)


GROUPS = (
    plain,
    *(
        odd_text.delimiters,
        odd_text.empties,
        odd_text.supplements,
        odd_text.matrices,
        odd_text.names,
        odd_text.texts,
    ),
    *(
        odd_data.orders,
        odd_data.kinds,
        odd_data.amplifiers,
        odd_data.offsets,
        odd_data.behind,
        odd_data.wholes,
    ),
    instruments,
)
CASES = [case for group in GROUPS for case in group()]
