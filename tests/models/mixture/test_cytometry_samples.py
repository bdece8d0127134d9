"""Test samples: kinds of channels, reading and writing FCS, and errors of real files."""

import dataclasses
import struct

import numpy as np
import pytest
from numpy.testing import assert_allclose

from portable.models.mixture import cytometry
from portable.models.mixture.cytometry import channels
from portable.models.mixture.cytometry import fcs as fcs_files
from portable.errors import InputError, StorageError

from ...refusals import refusals
from .panels import CHANNELS, MARKERS, raw_cells, simulated

SCATTER = (
    "FSC-A, fsc-h, SSC-W, SSC-B-A, VSSC-A, FS INT, SS PEAK, FSC, FSC.A, FSC_A, FSC1, Forward "
    "Scatter, Sc-488-A, PMT1 (FSC)"
).split(", ")
OTHERS = (
    "Time, TIME, HDR-T, Time (us), Event_length, Center, Width, population, probability 3, Sample ID"
).split(", ")
UNUSUAL = "SORT, TLSW, Index, Bits, Drop Phase, ROI Bits 1-16, Classifier Bits, UMAP_1, tSNE-2".split(", ")
COLOURS = "FITC-A B515-A CD3 FSP1 SSEA-4 TIMP1 Yb172Di Comp-PE-A FL1-H SSTR2-A SORT1 SORL1-A PC5".split()


def test_scatter_and_time_are_never_colours():
    assert [name for name in SCATTER + OTHERS if channels.is_colour(name)] == []
    assert [name for name in COLOURS if not channels.is_colour(name)] == []
    assert all(map(channels.is_scatter, SCATTER)) and not any(map(channels.is_scatter, OTHERS + COLOURS))


def test_what_sorters_and_programs_add_is_left_out_with_a_word():
    names = ("FSC-A", *UNUSUAL, "FITC-A", "Time")
    assert channels.unusual_of((*names, *COLOURS, *OTHERS, *SCATTER)) == UNUSUAL
    X = np.arange(len(names) * 40.0).reshape(40, -1) % 97
    with pytest.warns(
        UserWarning, match="SORT, TLSW, .* are no colours and left out; channels= includes them"
    ):
        assert cytometry.Panel.of([cytometry.Sample(X, names)]).names == ("FITC-A",)
    assert cytometry.Panel.of([cytometry.Sample(X, names)], channels=["SORT"]).names == ("SORT",)


def test_of_area_height_and_width_the_area_is_taken():
    names = ("FSC-A", "FITC-A", "FITC-H", "FITC-W", "PE-H", "Time")
    assert channels.colours_of(names) == [1, 4]
    assert channels.names_of(names, ("", "CD3", "", "", "CD3", ""), [1, 4]) == ("CD3 FITC-A", "CD3 PE-H")
    assert channels.is_mass(("Time", "(Yb172)Di", "Ir191Di", "89Y_CD45")) and not channels.is_mass(names)


def test_quotes_and_scatter_of_a_table(tmp_path):
    """R writes names in quotes."""
    path = tmp_path / "r.csv"
    path.write_text(
        '"FSC-A","SSC-A","FITC-A","Time"\n' + "".join(f"{r},{r + 1},{r * r},{r}\n" for r in range(30))
    )
    sample = cytometry.read(path)
    assert sample.channels == ("FSC-A", "SSC-A", "FITC-A", "Time") and sample.name == "r"
    assert cytometry.Panel.of([sample]).names == ("FITC-A",)


def test_tables_and_arrays_are_read_alike(tmp_path):
    X = raw_cells()
    np.savez(tmp_path / "cells.npz", X=X, channels=CHANNELS, markers=[" ", *MARKERS[1:]])
    np.savetxt(tmp_path / "cells.csv", X, delimiter=",", header=",".join(CHANNELS), comments="")
    array, table = cytometry.read(tmp_path / "cells.npz"), cytometry.read(tmp_path / "cells.csv")
    assert_allclose(table.X, array.X, rtol=1e-7)
    assert array.channels == table.channels == tuple(CHANNELS)
    assert array.markers == tuple(MARKERS) and table.markers == ("",) * 4
    assert array.limits.tolist() == [262143.0, 262143.0, np.inf, 262143.0]


def test_a_round_trip_through_fcs_loses_nothing(tmp_path):
    sample = simulated()[0][0]
    words = {
        "fil": "/data/run/",
        "cyt": "LSR II",
        "com": "a//b, c$",
        "tr": "FSC-A,5000",
        "timestep": "0.01",
        "weird key": "µ é",
    }
    markers = ["", "a/b", *sample.markers[2:]]
    X = sample.X.copy()
    X[0, 2], X[1, 3], X[2, 4] = np.nan, -1e-30, 3.4e38
    before = cytometry.Sample(
        X, sample.channels, markers, "x", sample.limits, sample.spillover, [1, 1, 2, 1, 1, 1, 1], words
    )
    cytometry.write(before, tmp_path / "x.fcs")
    after = cytometry.read(tmp_path / "x.fcs")
    assert after.X.dtype == np.float32 and after.X.tobytes() == X.tobytes()
    assert (after.channels, after.markers, after.name) == (before.channels, before.markers, "x")
    assert after.limits.tolist() == before.limits.tolist() and after.gains.tolist() == before.gains.tolist()
    assert after.spillover[0] == before.spillover[0] and np.array_equal(
        after.spillover[1], before.spillover[1]
    )
    kept = {key: after.keywords[key].strip() for key in words}
    assert kept == words
    cytometry.write(after, tmp_path / "again.fcs")
    again = cytometry.read(tmp_path / "again.fcs")
    assert again.X.tobytes() == X.tobytes() and again.keywords == after.keywords


def fcs(channels, data, *, kind="F", order="1,2,3,4", header=None, extra=None, after=b""):
    """Write an FCS file by hand: TEXT from byte 256, followed by the data."""
    words = {
        "$BEGINANALYSIS": "0",
        "$ENDANALYSIS": "0",
        "$BEGINSTEXT": "0",
        "$ENDSTEXT": "0",
        "$BYTEORD": order,
        "$DATATYPE": kind,
        "$MODE": "L",
        "$NEXTDATA": "0",
        "$PAR": str(len(channels)),
    }
    for n, (name, bits, amplified, gain, most) in enumerate(channels, 1):
        words |= {
            f"$P{n}N": name,
            f"$P{n}B": str(bits),
            f"$P{n}E": amplified,
            f"$P{n}G": gain,
            f"$P{n}R": most,
        }
    words |= {"$TOT": str(len(data) // sum(bits // 8 for _, bits, *_ in channels)), **(extra or {})}
    begin = (
        256
        + sum(len(key) + len(value) + 2 for key, value in words.items())
        + 1
        + len("$BEGINDATA||$ENDDATA||")
        + 16
    )
    words |= {
        "$BEGINDATA": f"{begin:08d}",
        "$ENDDATA": f"{begin + len(data) - 1:08d}",
        **({} if extra is None else extra),
    }
    text = "|" + "".join(f"{key}|{value}|" for key, value in words.items())
    first, last = header or (begin, begin + len(data) - 1)
    head = b"FCS3.1    " + b"".join(b"%8d" % at for at in (256, 256 + len(text) - 1, first, last, 0, 0))
    return head.ljust(256) + text.encode().ljust(begin - 256) + data + after


INTEGERS = [
    ("FSC-H", 16, "0,0", "1", "1024"),
    ("FL1-H", 16, "4,1", "1", "1024"),
    ("FL2-H", 16, "0,0", "2", "1024"),
]
FLOATS = [("FSC-A", 32, "0,0", "1", "262144"), ("FL1-A", 32, "0,0", "1", "262144")]
PAIRS = struct.pack("<6f", 1, 2, 3, 4, 5, 6)


def test_logarithmic_integers_become_linear(tmp_path):
    (tmp_path / "i.fcs").write_bytes(
        fcs(INTEGERS, struct.pack(">6H", 10, 512, 100, 20, 1023, 1023), kind="I", order="4,3,2,1")
    )
    sample = cytometry.read(tmp_path / "i.fcs")
    assert_allclose(sample.X, [[10, 10.0**2, 50], [20, 10.0 ** (4 * 1023 / 1024), 511.5]], rtol=1e-12)
    assert (sample.X >= sample.limits).tolist() == [[False] * 3, [False, True, True]]
    cytometry.write(sample, tmp_path / "f.fcs")
    again = cytometry.read(tmp_path / "f.fcs")
    assert_allclose(again.X, sample.X, rtol=1e-7)
    assert again.gains.tolist() == [1, 1, 1]
    for own in (sample, again):  # also if float32 has rounded the limit
        panel = cytometry.Panel.of([own], transform="none", saturation=1e9)
        panel = dataclasses.replace(panel, saturation=None)
        assert panel.names == ("FL1-H", "FL2-H") and panel.points(own)[1].tolist() == [True, False]


@pytest.mark.parametrize(
    "header, extra, after",
    [
        ((0, 0), None, b""),
        ((300, 400), None, b""),
        (None, {"$NEXTDATA": "500"}, b" " * 400),
        (None, None, b"00000000"),
    ],
    ids=["no offsets", "wrong offsets", "no next", "checksum"],
)
def test_what_real_files_get_wrong_is_forgiven(tmp_path, header, extra, after):
    (tmp_path / "x.fcs").write_bytes(fcs(FLOATS, PAIRS, header=header, extra=extra, after=after))
    assert cytometry.read(tmp_path / "x.fcs").X.tolist() == [[1, 2], [3, 4], [5, 6]]


@pytest.mark.parametrize(
    "content, words",
    [
        (b"", "does not begin with 'FCS'"),
        (b"FCS3.1", "cannot be read as FCS"),
        (fcs(FLOATS, PAIRS)[:-8], "cannot be read as FCS"),
        (fcs(FLOATS, PAIRS, extra={"$TOT": "4"}), "4 events of 8 bytes, 32 in all"),
        (fcs(FLOATS, PAIRS, extra={"$PAR": "3"}), "3 events of 12 bytes"),
        (fcs(FLOATS, PAIRS, order="2,3,4,1"), "does not define the order of 4 bytes"),
        (bytes(range(256)) * 9, "does not begin"),
        (b"FCS" + bytes(range(256)) * 9, "cannot be read as FCS"),
    ],
)
def test_files_that_are_no_fcs(tmp_path, content, words):
    path = tmp_path / "bad.fcs"
    path.write_bytes(content)
    with pytest.raises(InputError, match=words) as caught:
        cytometry.read(path)
    assert "bad.fcs" in str(caught.value)


def test_several_data_sets_are_refused(tmp_path):
    first = len(fcs(FLOATS, PAIRS, extra={"$NEXTDATA": "00000000"}))
    (tmp_path / "two.fcs").write_bytes(
        fcs(FLOATS, PAIRS, extra={"$NEXTDATA": f"{first:08d}"}) + fcs(FLOATS, PAIRS)
    )
    with pytest.raises(InputError, match="several data sets"):
        cytometry.read(tmp_path / "two.fcs")


test_samples_that_do_not_fit_together = refusals(
    [
        ({"channels": ("A", "B")}, "X has shape .*, but there are 2 channels"),
        ({"markers": ("x",)}, "1 markers"),
        ({"channels": ("A", "A", "B", "C")}, "2 channels are called 'A'"),
        ({"channels": ("A", " ", "B", "C")}, "channel 2 is empty"),
        ({"limits": [1.0]}, r"limits has shape \(1,\)"),
        ({"spillover": (("A",), np.eye(2))}, "spillover matrix has shape"),
        ({"spillover": (("A", "B"), [[1, np.nan], [0, 1]])}, "is singular"),
    ],
    lambda changed: cytometry.Sample(**{"X": raw_cells(9 + 3), "channels": ("A", "B", "C", "D"), **changed}),
    error=InputError,
)


def test_names_for_channels():
    sample = cytometry.Sample(raw_cells(), CHANNELS, MARKERS)
    assert sample.place("KI67") == 1 and sample.place("R660-A") == 3
    with pytest.raises(
        InputError, match=r"sample has no channel 'CD3': it has FSC-A, B515-A \(KI67\), Time, R660-A"
    ):
        sample.place("CD3")


@pytest.mark.parametrize(
    "name, content, words",
    [
        ("none.npz", None, "there is no file"),
        ("cells.txt", b"1", "ends in '.txt'"),
        ("cells.csv", b"a,b\n1,2\nx,y\n", "column 'a', row 2 is 'x'; expected a number"),
        ("short.csv", b"a,b,c\n1,2\n", "line 2 has 2 cells, the header 3"),
    ],
)
def test_files_that_are_no_cells(tmp_path, name, content, words):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=words):
        cytometry.read(tmp_path / name)


def test_a_full_disk_leaves_no_half_of_a_file(tmp_path, monkeypatch):
    path = tmp_path / "x.fcs"
    cytometry.write(simulated()[0][0], path)
    whole = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(fcs_files, "_header_and_text", full)
    with pytest.raises(StorageError, match="No space left"):
        cytometry.write(simulated()[0][1], path)
    assert path.read_bytes() == whole and [own.name for own in tmp_path.iterdir()] == ["x.fcs"]


def test_a_spillover_matrix_of_a_table(tmp_path):
    for text in ("a,b\n1,0.1\n0,1\n", '"",a,b\na,1,0.1\nb,0,1\n'):
        (tmp_path / "m.csv").write_text(text)
        names, matrix = cytometry.read_spillover(tmp_path / "m.csv")
        assert names == ("a", "b") and matrix.tolist() == [[1, 0.1], [0, 1]]
    (tmp_path / "m.csv").write_text("a,b\n1,0.1\n")
    with pytest.raises(InputError, match="m.csv"):
        cytometry.read_spillover(tmp_path / "m.csv")


def test_names_that_occur_twice_in_a_table(tmp_path):
    """The names are numbered, with a warning, as in FCS; a Sample has a parameter for names."""
    (tmp_path / "twice.csv").write_text("FL1-A,FSC-A,FL1-A\n1,2,3\n4,5,6\n")
    with pytest.warns(
        UserWarning, match="2 channels are called 'FL1-A'; they are read as 'FL1-A 1', 'FL1-A 3'"
    ):
        found = cytometry.read(tmp_path / "twice.csv")
    assert found.channels == ("FL1-A 1", "FSC-A", "FL1-A 3") and found.X[1].tolist() == [4, 5, 6]
    with pytest.raises(InputError, match="expected distinct names, such as 'A 1'"):
        cytometry.Sample(np.zeros((1, 2)), ("A", "A"))


@pytest.mark.parametrize(
    "change, words",
    [
        ({"X": np.ma.masked_equal(np.zeros((1, 2)), 0.0)}, "sample: X is a masked array"),
        ({"X": np.array([["1", "2"]])}, "sample: X must hold real numbers, got dtype <U1"),
        ({"limits": [np.nan, 1.0]}, r"sample: limits\[0\] is nan"),
        ({"gains": [1.0, 0.0]}, r"sample: gains\[1\] is 0.0; expected more than 0"),
        ({"left_out": [0, 0, 1]}, r"left_out has shape \(3,\); expected \(1,\)"),
        ({"spillover": (("A",), [["x"]])}, "sample: the spillover matrix must hold real numbers"),
    ],
)
def test_what_is_no_number_of_a_sample(change, words):
    with pytest.raises(InputError, match=words):
        cytometry.Sample(**{"X": np.zeros((1, 2)), "channels": ("A", "B")} | change)
