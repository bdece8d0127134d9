"""Test FCS files written by instruments and programs, including those that the standard forbids."""

import re
import warnings

import numpy as np
import pytest

import portable as pk
from portable.models.mixture import cytometry

from ...processes import python
from . import mutants
from .odd_cases import CASES
from .odd_fcs import FLOAT


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_odd_files(case, tmp_path):
    path = tmp_path / "odd.fcs"
    path.write_bytes(case.content)
    if case.X is None:
        with pytest.raises(pk.InputError, match=case.says) as caught:
            cytometry.read(path, data_set=case.data_set)
        assert "odd.fcs" in str(caught.value)
        return
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        sample = cytometry.read(path, data_set=case.data_set)
    if case.says:
        with pytest.warns(UserWarning, match=case.says):
            [warnings.warn_explicit(own.message, None, own.filename, own.lineno) for own in said]
    else:
        assert not said, [str(own.message) for own in said]
    np.testing.assert_allclose(sample.X, case.X, rtol=1e-12)
    for name in ("channels", "markers"):
        assert getattr(case, name) in (None, getattr(sample, name))
    assert case.gains is None or sample.gains.tolist() == list(case.gains)
    if case.spillover:
        assert sample.spillover[1].tolist() == [[1, 0.25], [0, 1]]
    if case.spillover is False:
        assert sample.spillover is None


@pytest.mark.parametrize(
    "n_mutants, seed", [(200, 1), pytest.param(5000, 2, marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_mutants_give_no_other_numbers_in_silence(n_mutants, seed, tmp_path):
    """Each mutant is read like its original, with a warning, or refused by name; most have one of the latter
    outcomes.
    """
    counts, wrong = mutants.run(n_mutants, seed, tmp_path)
    assert not wrong, [(number, became) for number, became, _ in wrong]
    assert counts["refused"] > n_mutants // 4 and counts["right"] > n_mutants // 4


def test_mutants_that_are_other_numbers_are_noticed(tmp_path):
    odd = FLOAT
    other = odd.but(rows=((1.0, 2.0, 3.0), *odd.rows[1:])).build()
    became = mutants.tried(tmp_path / "m.fcs", odd, np.array(odd.rows, "f4"), other)
    assert became == "other numbers"


def test_enough_files_are_read():
    """Count the share of odd files that are read, apart from plain ones."""
    odd = [case for case in CASES if " of " not in case.name or case.says]
    assert len(odd) >= 150 and sum(case.X is not None for case in odd) >= 110


def test_a_matrix_that_cannot_be_used_is_a_matter_of_compensation(tmp_path):
    """The file is read; only operations that need the matrix are refused."""
    path = tmp_path / "bad.fcs"
    rows = tuple((1000.0 + at, 10.0 * at, 7.0 * at % 50) for at in range(60))
    path.write_bytes(FLOAT.but(rows=rows, words=(("$SPILLOVER", "2;FL1-A;FL2-A;1;0;0;1"),)).build())
    with pytest.warns(UserWarning, match="cannot be read: expected n, n names"):
        sample = cytometry.read(path)
    with pytest.raises(pk.InputError, match="bad: the spillover matrix .* set compensation="):
        cytometry.Panel.of([sample])
    assert cytometry.Panel.of([sample], compensation="none").names == ("FL1-A", "FL2-A")
    own = (("FL1-A", "FL2-A"), np.array([[1, 0.25], [0, 1]]))
    assert cytometry.Panel.of([sample], compensation=own).compensation[0] == own[0]
    cytometry.write(sample, tmp_path / "again.fcs")
    with pytest.warns(UserWarning, match="cannot be read: expected n, n names"):
        assert cytometry.read(tmp_path / "again.fcs").X.tobytes() == sample.X.tobytes()


def test_data_sets_are_counted_from_one(tmp_path):
    (tmp_path / "x.fcs").write_bytes(FLOAT.build())
    assert cytometry.read(tmp_path / "x.fcs", data_set=1).n_cells == 4
    for wrong in (0, -1, 1.5):
        with pytest.raises(pk.PortableError, match="data_set"):
            cytometry.read(tmp_path / "x.fcs", data_set=wrong)
    (tmp_path / "x.csv").write_text("A,B\n1,2\n")
    with pytest.raises(pk.InputError, match="data_set is 1, but .*x.csv' is not FCS"):
        cytometry.read(tmp_path / "x.csv", data_set=1)


def test_other_segments_of_a_program_are_known(tmp_path):
    """In FCS 3.1 their offsets follow the others in HEADER."""
    content, own = bytearray(FLOAT.build()), b"/$A/b/ or anything"
    content[58:74] = b"%8d%8d" % (len(content), len(content) + len(own) - 1)
    (tmp_path / "x.fcs").write_bytes(bytes(content) + own)
    assert cytometry.read(tmp_path / "x.fcs").X.tolist() == [list(row) for row in FLOAT.rows]


def test_every_word_survives_a_round_trip(tmp_path):
    """A value may contain any character, as long as one is left for a delimiter."""
    words = {"com": "a//b|c\\d$ !*", "fil": "/x/", "own/key": "~^", "$odd": "1", "op": "\f"}
    sample = cytometry.Sample(np.eye(2, dtype=np.float32), ("FL1/A", "FL2|A"), ("/", "CD3"), keywords=words)
    cytometry.write(sample, tmp_path / "x.fcs")
    back = cytometry.read(tmp_path / "x.fcs")
    assert (back.channels, back.markers) == (sample.channels, sample.markers)
    assert {key: back.keywords[key.lstrip("$")] for key in words if key != "op"} == {
        key: word for key, word in words.items() if key != "op"
    }
    given = {"$P1G": "7", "$PAR": "9", "$COM": "x", "P2N": "other", "$TOT": "1", "": "y"}
    cytometry.write(sample, tmp_path / "x.fcs", keywords=given)  # keywords of the sample are not changed
    back = cytometry.read(tmp_path / "x.fcs")
    assert back.gains.tolist() == [1, 1] and back.channels == sample.channels and back.n_cells == 2
    everything = "".join(map(chr, range(1, 127)))
    full = cytometry.Sample(np.eye(2), ("A", "B"), keywords={"com": everything})
    with pytest.raises(pk.InputError, match="delimiter"):
        cytometry.write(full, tmp_path / "y.fcs")
    assert not (tmp_path / "y.fcs").exists()


def test_large_texts_take_memory_in_proportion(tmp_path):
    """Read values of 20 MB, and of delimiters only: a backtracking match takes 3 GB for the former."""
    path = tmp_path / "long.fcs"
    for value in ("a" * 20_000_000, "a" + "/" * 2_000_000):
        path.write_bytes(FLOAT.but(words=(("$COM", value),)).build())
        code = f"from portable.models.mixture import cytometry; cytometry.read({str(path)!r})\n"
        code += "print(open('/proc/self/status').read())"
        said = python("-c", code).stdout
        assert int(re.search(r"VmHWM:\s+(\d+)", said)[1]) << 10 < 400_000_000
