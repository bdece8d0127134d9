"""Test invalid and malicious files: each is refused by name, or read completely; no data is dropped
silently."""

import gzip
import io
import json
import os
import zipfile
import zlib

import h5py
import numpy as np
import pytest

from portable.errors import InputError, PortableError
from portable.models import hawkes, tmap
from portable.models.edm import files as edm_files
from portable.models.edm.__main__ import main as edm_main
from portable.models.edm.frames import choose
from portable.models.shared.files import read_csv, read_json, read_npy, read_npz
from portable.models.hawkes.__main__ import main as hawkes_main
from portable.models.mixture import cytometry
from portable.models.mixture.__main__ import main as mixture_main
from portable.models.resampling.study import load as load_study
from portable.models.tmap.__main__ import main as tmap_main


def npy(array, version=None):
    body = io.BytesIO()
    np.lib.format.write_array(body, np.asarray(array), version, allow_pickle=True)
    return body.getvalue()


def npz(compressed=False, **arrays):
    body = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(body, **arrays)
    return body.getvalue()


def huge_npy():
    """Write a header that announces more data than the file has."""
    return npy(np.zeros(3)).replace(b"(3,), }" + b" " * 12, b"(9999999999999,), }")


def flipped(content, at):
    return content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :]


def h5(path, **datasets):
    with h5py.File(path, "w") as file:
        for name, data in datasets.items():
            file[name] = data


GOOD = b"a,b\n1,2\n3,4\n"
EVENTS = b"x_km,y_km,t_hours\n" + b"".join(b"%d,%d,%d\n" % (k, k * k, k) for k in range(8))
GAPS = b"run,gap\n1,2.0\n1,3.0\n2,1.5\n"
RUNS = npz(values=np.ones(6), lengths=np.array([4, 2]))
CELLS = npz(X=np.ones((5, 2)), channels=np.array(["A", "B"]))

EDM = [
    ("empty.csv", b"", r"0 line\(s\)"),
    ("header.csv", b"a,b\n", r"1 line\(s\)"),
    ("latin.csv", "température,b\n1,2\n".encode("latin-1"), "can't decode byte 0xe9"),
    ("bytes.csv", bytes(range(1, 256)) * 9, "codec can't decode"),
    ("nul.csv", b"a,b\n1,2\n3,\x004\n", "line 3 holds a NUL"),
    ("quote.csv", b'a,b\n1,"' + b"2" * 140_000, "field larger than field limit"),
    ("ragged.csv", b"a,b\n1,2\n3\n", "line 3 has 1 cells"),
    ("twice.csv", b"a,b,a\n1,2,3\n", "2 columns 'a'"),
    ("word.csv", b"a,b\n1,2\n3,four\n5,6\n", "column 'b', row 2 is 'four'"),
    ("cut.npy", npy(np.arange(100.0))[:200], "greater than file size"),
    ("objects.npy", npy(np.array([1, "a", None], object)), "Python objects"),
    ("archive.npy", npz(a=np.zeros(3)), "magic string"),
    ("junk.h5", b"\x89HDF\r\n\x1a\n" + b"x" * 500, "cannot be read"),
    ("cut.csv.gz", gzip.compress(GOOD * 999)[:60], "ended before the end-of-stream"),
]
HAWKES = [
    ("empty.csv", b"", "has no column 'x_km'"),
    ("latin.csv", "é,x_km\n1,2\n".encode("latin-1"), "can't decode byte"),
    ("nul.csv", EVENTS.replace(b"3,9", b"3,\x009"), "line 5 holds a NUL"),
    ("ragged.csv", EVENTS + b"1,2\n", "line 10 has 2 cells"),
    (
        "twice.csv",
        EVENTS.replace(b"y_km,", b"x_km,").replace(b"t_hours\n", b"t_hours\n"),
        "no column 'y_km'|2 columns 'x_km'",
    ),
    ("word.csv", EVENTS + b"1,2,N/A\n", "column 't_hours', row 9 is N/A"),
    ("plain.csv.gz", EVENTS, "Not a gzipped file"),
    ("cut.csv.gz", gzip.compress(EVENTS * 99)[:40], "ended before the end-of-stream"),
    ("junk.npz", b"PK\x03\x04" + b"x" * 400, "not a zip file"),
    ("cut.npz", npz(x_km=np.ones(9), y_km=np.ones(9), t_hours=np.arange(9.0))[:300], "not a zip file"),
    (
        "objects.npz",
        npz(x_km=np.array([1, None], object), y_km=np.ones(2), t_hours=np.ones(2)),
        "Object arrays cannot be loaded",
    ),
]
TMAP = [
    ("empty.csv", b"", "No columns to parse"),
    ("latin.csv", "run,gap\né,1\n".encode("latin-1"), "can't decode byte"),
    ("nul.csv", GAPS.replace(b"3.0", b"\x003.0"), "line 3 holds a NUL"),
    ("ragged.csv", GAPS + b"1,2,3,4\n", "Expected 2 fields in line 5, saw 4"),
    ("twice.csv", b"run,gap,gap\n1,2,3\n", "2 columns 'gap'"),
    ("cut.csv.gz", gzip.compress(GAPS * 99)[:40], "ended before the end-of-stream"),
    ("plain.csv.gz", GAPS, "Not a gzipped file"),
    ("cut.npz", RUNS[:200], "not a zip file"),
    ("flipped.npz", flipped(RUNS, 150), "Bad CRC-32"),
    (
        "objects.npz",
        npz(values=np.array([1, None], object), lengths=np.array([2])),
        "Object arrays cannot be loaded",
    ),
]
MIXTURE = [
    ("empty.csv", b"", "shape"),
    ("latin.csv", "FSC,µ\n1,2\n".encode("latin-1"), "can't decode byte"),
    ("word.csv", b"A,B\n1,2\n3,four\n", "column 'B', row 2 is 'four'"),
    ("cut.npz", CELLS[:200], "not a zip file"),
    (
        "objects.npz",
        npz(X=np.array([[1, None]], object), channels=np.array(["A", "B"])),
        "Object arrays cannot be loaded",
    ),
    ("promise.npz", None, "cannot be read"),
    ("empty.fcs", b"", "does not begin with 'FCS'"),
    ("cut.fcs", b"FCS3.1    " + b"     256" * 6, "cannot be read as FCS"),
]
READERS = {
    "edm": (edm_files.read, lambda path: edm_main(["embed", path, "--columns", "a"])),
    "hawkes": (hawkes.read_catalogue, lambda path: hawkes_main(["residuals", path, "--figures", "none"])),
    "tmap": (tmap.read, lambda path: tmap_main(["describe", path])),
    "mixture": (cytometry.read, lambda path: mixture_main(["fit", path, "--out", path + ".out"])),
}
FILES = [
    (family, *row)
    for family, rows in (("edm", EDM), ("hawkes", HAWKES), ("tmap", TMAP), ("mixture", MIXTURE))
    for row in rows
]


@pytest.mark.parametrize(
    "family, name, content, words", FILES, ids=[f"{family}-{name}" for family, name, *_ in FILES]
)
def test_hostile_files(family, name, content, words, tmp_path, capsys, monkeypatch):
    """The library raises an error, the command line prints a message with exit code 2; both name the file."""
    if name == "promise.npz":
        body = io.BytesIO()
        with zipfile.ZipFile(body, "w") as archive:
            archive.writestr("X.npy", huge_npy())
            archive.writestr("channels.npy", npy(np.array(["A", "B"])))
        content = body.getvalue()
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(content)
    read, command = READERS[family]
    with pytest.raises(PortableError, match=words) as caught:
        read(tmp_path / name)
    assert name in str(caught.value)
    assert command(name) == 2
    said = capsys.readouterr()
    assert name in (said.out + said.err).replace("\n", "")


@pytest.mark.parametrize("n_mib, level, most", [(17, 9, 16_777_216), (360, 1, None)])
@pytest.mark.parametrize("family", "edm hawkes tmap mixture".split())
def test_bombs_are_refused(family, n_mib, level, most, tmp_path):
    """Files of 17 MB of text in 20 kB and 360 MB in two megabytes: more than 16 MB, and a hundred times the
    file's size.
    """
    packer, piece = zlib.compressobj(level, wbits=31), b"0," * (1 << 19)
    content = b"".join(
        [packer.compress(b"a,b\n"), *(packer.compress(piece) for _ in range(n_mib)), packer.flush()]
    )
    (tmp_path / "bomb.csv.gz").write_bytes(content)
    most = most or 100 * len(content)
    assert len(content) < 2 << 20
    with pytest.raises(
        InputError,
        match=f"bomb.csv.gz' holds .* bytes, which unpack to more than {most:,}: such files are refused",
    ):
        READERS[family][0](tmp_path / "bomb.csv.gz")


def test_text_that_packs_well_is_read(tmp_path):
    """Read zeros, which compress by a factor of some hundreds, up to 16 MB."""
    with gzip.open(tmp_path / "zeros.csv.gz", "wb") as file:
        file.write(b"a,b\n" + b"0.0,0.0\n" * 200_000)
    assert edm_files.read(tmp_path / "zeros.csv.gz")["b"].shape == (200_000,)


def test_wide_tables_take_time_with_their_columns(tmp_path, impatient):
    """Read 60,000 columns: time quadratic in the columns would be minutes."""
    names = [f"channel number {k}" for k in range(60_000)]
    path = tmp_path / "wide.csv"
    path.write_text("\n".join([",".join(names), *[",".join(["1.5"] * len(names))] * 2]) + "\n")
    table = edm_files.read(path)
    assert list(table) == names and choose(table, names).shape == (2, len(names))


@pytest.mark.parametrize("where", ["external", "virtual"])
def test_datasets_read_no_other_file(where, tmp_path):
    np.full(8, 7.0).tofile(tmp_path / "secret.bin")
    h5(tmp_path / "other.h5", secret=np.full(8, 7.0))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        if where == "external":
            file.create_dataset("x", (8,), "f8", external=[(str(tmp_path / "secret.bin"), 0, 64)])
        else:
            layout = h5py.VirtualLayout((8,), "f8")
            layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "secret", (8,))
            file.create_virtual_dataset("x", layout)
        file["y"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "secret")
    with pytest.raises(InputError, match="x.h5': the numbers of '/x' are in other files, which are not"):
        edm_files.read(tmp_path / "x.h5", "x")
    with pytest.raises(InputError, match="has no dataset 'y'"):
        edm_files.read(tmp_path / "x.h5", "y")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
@pytest.mark.parametrize(
    "read", [read_npz, read_npy, read_json, read_csv, tmap.TransientMAP.load, load_study]
)
def test_a_pipe_is_no_file(read, tmp_path, impatient):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="pipe'.* no ordinary file|is no file"):
        read(tmp_path / "pipe")


@pytest.mark.parametrize(
    "header", [b"{'descr': '<f8', 'shape': (True,), 'fortran_order': False, }", b"{" + 3 * b"'"]
)
def test_headers_that_are_no_literals(header, tmp_path):
    body = header.ljust(117) + b"\n"
    (tmp_path / "x.npy").write_bytes(
        b"\x93NUMPY\x01\x00" + len(body).to_bytes(2, "little") + body + bytes(64)
    )
    with pytest.raises(InputError, match="x.npy' cannot be read"):
        edm_files.read(tmp_path / "x.npy")


@pytest.mark.parametrize("read", [hawkes.read_catalogue, tmap.read, cytometry.read])
def test_bombs_of_arrays_are_refused(read, tmp_path):
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("values.npy", b"0" * (300 << 20))
    with pytest.raises(InputError, match="bomb.npz' holds .* bytes, which unpack to more than 268,435,456"):
        read(tmp_path / "bomb.npz")


def test_bombs_of_datasets_are_refused(tmp_path):
    with h5py.File(tmp_path / "bomb.h5", "w") as file:
        file.create_dataset("x", (10**9,), "f8", chunks=(10**6,))
    with pytest.raises(InputError, match="bomb.h5' holds .* bytes, which unpack to more"):
        edm_files.read(tmp_path / "bomb.h5")


def test_nothing_is_dropped_without_a_word(tmp_path):
    """Unknown numbers remain unknown, whatever the word for them; a warning names words that are left out."""
    path = tmp_path / "x.csv"
    path.write_text('date,"a",b,c\n1.1.,1,N/A,\n2.1.,2,2,NULL\n3.1.,,nan,3e0\n')
    with pytest.warns(UserWarning, match="x.csv': date hold no numbers, and are left out"):
        found = edm_files.read(path)
    assert list(found) == ["a", "b", "c"]
    np.testing.assert_array_equal(
        np.column_stack(list(found.values())), [[1, np.nan, np.nan], [2, 2, np.nan], [np.nan, np.nan, 3]]
    )


def test_names_of_channels_lose_their_quotes(tmp_path):
    """R writes channel names in quotes: scatter and time are recognised nevertheless."""
    (tmp_path / "r.csv").write_text('"FSC-A","FITC-A","Time"\n1,2,3\n4,5,6\n')
    assert cytometry.read(tmp_path / "r.csv").channels == ("FSC-A", "FITC-A", "Time")
    (tmp_path / "rows.csv").write_text('"","FITC-A"\n"1",2\n')
    with pytest.raises(InputError, match="cell 1 of the header is empty"):
        cytometry.read(tmp_path / "rows.csv")


@pytest.mark.parametrize(
    "content, words",
    [
        (b"", "Expecting value"),
        (b"[" * 200_000, "recursion"),
        (b"\xff\xfe", "codec can't decode|Expecting value"),
        (b"[1]", "holds no model"),
        (b'{"alpha": [1], "orders": [1], "rates": ["x"], "switching": [[0.5]]}', "rates|holds no model"),
        (b"{}", "KeyError"),
        (
            json.dumps({"alpha": [1.0], "orders": [1], "rates": [1e400], "switching": [[0.5]]}).encode(),
            "rates",
        ),
    ],
)
def test_models_that_are_none(content, words, tmp_path, told):
    path = tmp_path / "model.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=words):
        tmap.TransientMAP.load(path)
    assert tmap_main(["simulate", str(path), "--runs", "1", "--out", str(tmp_path / "runs.npz")]) == 2


@pytest.mark.parametrize(
    "content",
    [b"", b"[" * 200_000, b"[]", b"{}", b'{"cells": [3]}', b'{"cells": [{"scheme": ["x"], "n": 1}]}'],
)
def test_studies_that_are_none(content, tmp_path):
    (tmp_path / "study.json").write_bytes(content)
    with pytest.raises(InputError, match="study.json' (cannot be read|is no study)"):
        load_study(tmp_path / "study.json")
