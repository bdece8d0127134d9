"""Step 15: explain, which describes a kernel's compilation."""

import math

import numpy as np
import pytest

import portable as pk

from ..launching import move
from .test_step13_plan import row_sums


@pk.kernel
def mixed_accesses(i, j, x, y, out):
    out[i, j] = x[i, j]
    out[i, j] += y[j, i]


@pk.kernel(packed=False)
def one_by_one(i, x):
    x[i] = 1.0


def test_accesses_are_named_with_their_lines(space):
    x, y, out = (move(np.zeros((9, 9))) for _ in range(3))
    got = pk.explain(pk.MDRangePolicy((0, 0), (9, 9)), mixed_accesses, x, y, out)
    assert got.kernel == "mixed_accesses" and "mixed_accesses" in str(got) and "<table>" in got._repr_html_()
    if space == "checked":
        return
    first = mixed_accesses.fn.__code__.co_firstlineno + 2
    found = {(a.line.rpartition(":")[2], a.view, a.how) for a in got.accesses}
    assert found == {
        (str(first), "x", "contiguous"),
        (str(first), "out", "contiguous"),
        (str(first + 1), "out", "contiguous"),
        (str(first + 1), "y", "strided or gathered"),
    }


def test_facts_of_the_machine(space):
    got = pk.explain(pk.TeamPolicy(3), row_sums, move(np.zeros((3, 4))), move(np.zeros(3)))
    if space == "cuda":
        assert (
            got.facts["registers a thread"] > 0 and got.facts["spills and local arrays, bytes a thread"] == 0
        )
    elif space != "checked":
        assert "8 lanes" in got.facts["code"]
        assert "packed=False" in pk.explain(pk.RangePolicy(0, 3), one_by_one, np.zeros(3)).facts["code"]


@pk.kernel
def ranks(i, start, column, x, out):
    s = 0.0
    for k in range(start[i], start[i + 1]):
        s += min(x[column[k]], 1.0) / out[column[k]]
    out[i] = s


@pk.kernel
def quotients(i, start, column, x, out):
    s = 0.0
    for k in range(start[i], start[i + 1]):
        s += 1.0 / (k + 1.0)
    out[i] = s


@pk.kernel
def densities(i, start, column, x, out):
    s = 0.0
    for k in range(start[i], start[i + 1]):
        s += math.exp(-x[column[k]])
    out[i] = s


@pytest.mark.parametrize("kernel, lanes", [(ranks, 1), (quotients, 8), (densities, 8)])
def test_rows_of_different_lengths_are_in_lanes_where_they_compute_more_than_they_read(kernel, lanes):
    row = np.arange(4), np.zeros(3, np.int64), np.ones(3), np.ones(3)
    code = pk.explain(pk.RangePolicy(0, 3, space="serial"), kernel, *row).facts["code"]
    assert f"{lanes} lanes" in code if lanes > 1 else code.startswith("scalar: the loop of line")


@pk.kernel
def powers(i, j, x, out):
    out[j, i] = x[j] ** x[i]


def test_an_access_behind_a_function_of_the_layers_own_has_the_users_line(space):
    x, out = move(np.ones(9)), move(np.zeros((9, 9)))
    got = pk.explain(pk.MDRangePolicy((0, 0), (9, 9)), powers, x, out)
    assert {a.line.rpartition(":")[2] for a in got.accesses} <= {str(powers.fn.__code__.co_firstlineno + 2)}


def test_the_typed_tree_is_shown(space):
    x, out = move(np.ones(9, np.float32)), move(np.zeros((9, 9), np.float32))
    tree = pk.explain(pk.MDRangePolicy((0, 0), (9, 9)), powers, x, out).tree
    first, load, second, power, store = (line.strip() for line in tree.splitlines())
    assert (
        first == "powers(i, j, x, out):"
        and load.startswith("%")
        and " = load x j" in load
        and " = load x i" in second
    )
    assert ": float32 varying = math ('pow', False) %" in power and store.startswith("store out j, i, %")


@pk.kernel
def draws_of_its_own(i, x):
    x[i] = pk.random.uniform(1, i, 0)


@pk.kernel
def one_draw_for_all(i, x):
    x[i] = pk.random.uniform(1, 0, 0)


@pk.kernel
def members(team, x):
    if team.single():
        x[team.league_rank] = team.size
    team.reduce(pk.random.uniform(1, team.rank, 0))


def test_lanes_that_draw_are_sixteen(space):
    """A second pack fills the latency of dependent operations; the members of a team are lanes, too."""
    if space in ("checked", "cuda"):
        pytest.skip("lanes of packs are the CPU's")
    each, x = pk.RangePolicy(0, 3), np.zeros(3)
    assert "16 lanes" in pk.explain(each, draws_of_its_own, x).facts["code"]
    assert "8 lanes" in pk.explain(each, one_draw_for_all, x).facts["code"]
    pk.parallel_for(pk.TeamPolicy(3), members, x)
    assert (x == 16).all()


def test_nothing_runs(space):
    x = move(np.zeros(3))
    pk.explain(pk.RangePolicy(0, 3), one_by_one, x)
    assert (np.asarray(x if isinstance(x, np.ndarray) else x.to_numpy()) == 0).all()
