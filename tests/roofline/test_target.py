"""Test reports of one kernel of a file, on arguments of the command line."""

import json

import pytest

from portable.roofline import __main__ as cli

FILE = """
import numpy as np
import portable as pk

SCALE = 2.0

@pk.kernel
def axpy(i, a, x, y):
    y[i] += a * x[i]

@pk.kernel
def dot(i, x, y):
    return x[i] * y[i]

@pk.kernel
def rows(team, x, y):
    i = team.league_rank
    total = 0.0
    for j in team.thread_range(x.shape[1]):
        total += x[i, j]
    total = team.reduce(total)
    if team.single():
        y[i] = total
"""


@pytest.fixture
def report(tmp_path, told):
    (tmp_path / "kernels.py").write_text(FILE)

    def made(name, *arguments, space="serial"):
        numbers = tmp_path / "report.json"
        options = ["--space", space, *f"--out {tmp_path}/page.html --json {numbers}".split()]
        code = cli.main(["report", *options, f"{tmp_path}/kernels.py::{name}", *arguments])
        parts = json.loads(numbers.read_text())["parts"] if code == 0 else []
        return code, parts, told.err, tmp_path / "page.html"

    return made


def test_a_sweep_over_sizes_and_threads(report):
    code, parts, _, page = report(
        "axpy", "n=1e3,2e3,4e3", "n", "SCALE", "np.ones(n)", "np.ones(n)", space="serial,threads:2"
    )
    assert code == 0
    assert [[(r["method"], r["size"], r["source"]) for r in part["results"]] for part in parts] == [
        [("axpy", n, f"n = {n:,}") for n in (1000, 2000, 4000)]
    ] * 2
    assert [part["space"] for part in parts] == ["serial", "threads:2"] or len(parts) == 2
    assert all(
        r["roof"]["flops"] == 2 * r["size"] and len(r["seconds"]["values"]) > 2
        for part in parts
        for r in part["results"]
    )
    assert "Over sizes" in page.read_text()


def test_a_kernel_that_returns_is_a_reduction(report):
    code, ((part),), _, _ = report("dot", "1000", "np.ones(1000)", "np.ones(1000)")
    (result,) = part["results"]
    assert code == 0 and result["roof"]["flops"] == 2000 and result["size"] == 1000


def test_a_policy_is_an_expression(report):
    code, ((part),), _, _ = report("rows", "n=8", "pk.TeamPolicy(n)", "np.ones((n, 50))", "np.zeros(n)")
    (result,) = part["results"]
    assert code == 0 and (result["size"], result["unit"]) == (8, "teams")


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("nothing", [], "has no kernel 'nothing'; it has: axpy, dot, rows."),
        ("axpy", [], "Write: [NAME=VALUES ...] POLICY A X Y"),
        ("axpy", ["10", "2.0"], "1 arguments after the policy; expected 3"),
        (
            "axpy",
            "10 2.0 np.one(10) 1".split(),
            "argument 'np.one(10)' cannot be evaluated: AttributeError",
        ),
        ("axpy", "n=few n 2.0 1 1".split(), "n is 'few'; expected numbers"),
        ("axpy", ["'ten'", "2.0", "1", "1"], "policy is 'ten'; expected"),
    ],
)
def test_a_wrong_argument_is_named(report, name, arguments, words):
    code, _, told, page = report(name, *arguments)
    assert code == 2 and words in told and not page.exists()


def test_a_wrong_file_is_named(tmp_path, told):
    out = ["--space", "serial", "--out", str(tmp_path / "page.html")]
    assert cli.main(["report", *out, "nowhere.py::axpy"]) == 2
    assert "'nowhere.py' is no file" in told.err
    broken = tmp_path / "broken.py"
    broken.write_text("1 / 0")
    assert cli.main(["report", *out, f"{broken}::axpy"]) == 2
    assert "cannot be run: ZeroDivisionError" in told.err


def test_arrays_that_do_not_fit_the_kernel_cost_only_themselves(tmp_path, told):
    """An error that only the launch can detect is reported next to the results."""
    (tmp_path / "kernels.py").write_text(FILE)
    options = ["--space", "serial", "--out", str(tmp_path / "page.html")]
    assert (
        cli.main(
            ["report", *options, f"{tmp_path}/kernels.py::axpy", "10", "2.0", "np.ones((10, 2, 2))", "'text'"]
        )
        == 1
    )
    assert "not measured: axpy: " in told.err
