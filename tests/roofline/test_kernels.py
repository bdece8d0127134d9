"""Test `compare kernels`: results of portable and the peers agree before they are timed; records; sources for
a GPU.
"""

import json
import math
import shutil

import pytest

from portable.roofline import __main__ as cli
from portable.roofline.cases import kernels, kernels_page
from portable.roofline.peers import kernels_text

QUICK = "compare kernels --quick --space serial --rounds 3".split()
# a row of each form: a range with an if, a sum, a team, successive launches, a matrix, words that numba lacks
FORMS = "if_quad,reduce_sum,softmax,floyd,gemm,scatter"


def test_rows_are_compared_timed_and_recorded(tmp_path, capsys):
    if shutil.which("gcc") is None:
        pytest.skip("no C compiler here")
    told = ["--only", FORMS, *f"--record --records {tmp_path} --commit abc".split()]
    assert cli.main([*QUICK, *told, "--json", str(tmp_path / "rows.txt")]) == 0
    rows = json.loads((tmp_path / "rows.txt").read_text())["kernels"]
    assert {(r["name"], r["peer"][0]) for r in rows} == {
        *((name, "C") for name in "if_quad reduce_sum softmax floyd_warshall gemm scatter".split()),
        *((name, "n") for name in "if_quad reduce_sum floyd_warshall gemm".split()),
    }
    assert {len(r["source"]) for r in rows} == {16} and {r["commit"] for r in rows} == {"abc"}
    ((kind, known),) = kernels.on_record(tmp_path).items()
    assert sorted(map(kernels._key, rows)) == [kernels._key(row) for row in known]
    out = capsys.readouterr().out
    assert out.count("worst: ") == 5 and out.count("over all machines") == 12
    assert 5e-324 * len(rows)  # C's fast arithmetic stays in C


def test_a_peer_that_disagrees_is_not_timed(monkeypatch, capsys):
    if shutil.which("gcc") is None:
        pytest.skip("no C compiler here")
    monkeypatch.setitem(kernels_text.BODIES, "copy", "c[i] = 2*a[i];")
    assert cli.main([*QUICK, "--only", "copy"]) == 1
    told = capsys.readouterr()
    assert "values differ" in told.err and "gcc" not in told.out.partition("harmonic")[0]


def test_options_of_kernels_are_refused_elsewhere(told):
    assert cli.main("compare layer --quick --only axpy".split()) == 2
    assert "--only" in told.err


def test_portability_is_the_harmonic_mean_over_machines_beside_the_fastest_peer():
    rows = [
        {"name": "copy", "dtype": "float64", "ratio": {"median": ratio}, "peer": peer}
        for peer, ratio in (("C", 2.0), ("numba", 1.0))
    ]
    first = kernels.of_machine(rows)
    assert first == {("copy", "float64"): 1.0}
    found = kernels.portability([first, {("copy", "float64"): 3.0, ("dot", "float64"): 0.5}])
    assert math.isclose(found["copy", "float64"], 1.5) and found["dot", "float64"] == 0.5


@pytest.mark.parametrize("name", kernels.ROWS)
def test_a_row_has_texts_for_a_gpu(name):
    sizes = {letter: kernels.WHOLE.get(letter, 64) for letter in kernels.SIZES}
    row = kernels.ROWS[name]
    task = row.task(row.dtypes.split()[0], sizes)
    grid, block = kernels_text.launch(task)
    assert math.prod(block) <= 1024 and all(size >= 1 for size in grid or ())
    assert "run(" in kernels_text.cuda(task) and "double" not in kernels_text.cuda(row.task("float32", sizes))


def test_the_page_is_that_of_the_records():
    text = kernels_page.PAGE.read_text(encoding="utf-8")
    known = kernels.on_record(kernels.records.FOLDER)
    assert kernels_page.page(text, known) == text
    row = {"name": "copy", "dtype": "float64", "ratio": {"median": 0.5}, "peer": "C"}
    about = {"space": "serial", "commit": "abc", "date": "2026-11-29", "busy_cores": 1.5}
    made = kernels_page.page(text, {"a machine": [row | about]})
    assert "| copy | float64 | 0.5 | 0.5 |" in made and "`serial` at abc" in made
