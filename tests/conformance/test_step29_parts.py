"""Step 29: parts of views whose bounds differ between indices, and views of up to six dimensions."""

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

import portable as pk

from ..launching import launch_for, launch_reduce
from .test_ptx import assemble, lower

N = 53


@pk.function
def weighted(w, part):
    total = 0.0 * part[0]
    for k in range(4):
        total += w[k] * part[k]
    return total


@pk.kernel
def filtered(i, w, x, out):
    out[i] = weighted(w, x[i : i + 4])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8])
@pytest.mark.parametrize("step", [1, 2, -1])
def test_a_part_that_begins_at_the_index(space, dtype, step):
    x = default_rng(1).integers(-9, 9, 2 * N + 8).astype(dtype)[::step][: N + 3]
    w = np.arange(1, 5).astype(dtype)
    want = sum(int(w[k]) * x[k : k + N].astype(int) for k in range(4))
    assert_array_equal(launch_for(N, filtered, w, x, np.zeros(N))[2], want)


def test_packs_read_neighbours_at_once():
    seen = pk.explain(pk.RangePolicy(0, N, space="serial"), filtered, np.ones(4), np.ones(N + 3), np.ones(N))
    assert {how for _, name, how in seen.accesses if name == "x"} == {"contiguous"}


@pk.kernel
def lengths(i, x, a, b, out):
    parts = (
        x[i, a[i] : b[i]],
        x[i, : b[i]],
        x[i, a[i] :],
        x[i, 2 : b[i]],
        x[i, a[i] : -1],
        x[i, a[i] : a[i] + 3],
    )
    k = 0
    for part in parts:
        total = 0
        for v in part:
            total += v
        for j in range(len(part)):
            total += j * part[j]
        out[i, k] = total
        out[i, k + 1] = len(part)
        k += 2
    whole = x[i, a[i] :]
    for part in (whole[1:3], whole[-2:], whole[: b[i]], whole[b[i] :]):
        for v in part:
            out[i, k] += v
        out[i, k + 1] = len(part)
        k += 2


def test_lengths_as_in_python(space):
    """Slice beyond the end, empty, to the end; slice slices."""
    rng = default_rng(2)
    x, (a, b) = rng.integers(0, 100, (N, 7)), rng.integers(0, 10, (2, N))
    want = np.zeros((N, 20), np.int64)
    for i in range(N):
        lengths.fn(i, x, a, b, want)
    assert_array_equal(launch_for(N, lengths, x, a, b, np.zeros_like(want))[3], want)


@pk.kernel
def windows(i, width, x, out):
    total, first, mine = 0.0, 3 * i, pk.local((6,), pk.float64)
    for k in range(6):
        mine[k] = x[first + k]
    for v in x[first : first + width]:
        if v < 0.0:
            continue
        total += v
    for v in mine[i % 3 : i % 3 + width]:
        total += v
    out[i : i + 2][0] = total
    pk.atomic_add(out[i:], N, mine[i % 5 :][0])


@pytest.mark.parametrize("width", [0, 2, 5])
def test_writes_atomics_and_own_arrays(space, width):
    x = default_rng(3).integers(-9, 9, 3 * N + 6).astype(float)
    want = np.zeros(2 * N)
    for i in range(N):
        windows.fn(i, width, x, want)
    assert_array_equal(launch_for(N, windows, width, x, np.zeros(2 * N))[1], want)


@pk.kernel
def total_of_rows(team, starts, x, out):
    row = x[starts[team.league_rank] : starts[team.league_rank + 1]]
    total = 0.0
    for j in team.thread_range(len(row)):
        total += row[j]
    total = team.reduce(total)
    if team.single():
        out[team.league_rank] = total


def test_parts_that_a_team_shares_have_one_length(space):
    starts = np.array([0, 3, 3, 20, 53])
    x = np.arange(53.0)
    out = launch_for(pk.TeamPolicy(4), total_of_rows, starts, x, np.zeros(4))[2]
    assert_array_equal(out, [x[a:b].sum() for a, b in zip(starts, starts[1:])])


@pk.kernel
def backwards(i, x, out):
    out[i] = len(x[i - 2 : i + 1])


def test_a_negative_bound_of_an_index_is_noted():
    with pytest.raises(pk.CheckError, match=r"test_step29_parts.py:\d+.*bound -2.*cannot count from the end"):
        launch_for(5, backwards, np.zeros(5), np.zeros(5), space="checked")


def test_parts_lower_to_ptx(tmp_path):
    x = np.ones(4)
    assemble(lower(filtered, 4, (x, x, x)), tmp_path)


@pk.kernel
def six(a, b, c, x, out):
    part = x[a, b]
    for d in range(x.shape[2]):
        row = part[d, c]
        for e in range(x.shape[4]):
            for f in range(x.shape[5]):
                out[a, b, d, c, e, f] = row[e, f] + x[a, b, d, c, e, f] + x.ndim


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4, 5), (5, 2, 3, 0, 1, 4)])
def test_six_dimensions(space, order):
    x = default_rng(4).integers(0, 99, (3, 2, 3, 2, 4, 5)).transpose(order)
    policy = pk.MDRangePolicy((0, 0, 0), (*x.shape[:2], x.shape[3]))
    assert_array_equal(launch_for(policy, six, x, np.zeros(x.shape, np.int64))[1], 2 * x + 6)


@pk.kernel
def element_of_five(i, x):
    return x[i, 1, 0, 2, 1]


def test_five_dimensions(space):
    x = default_rng(5).normal(size=(N, 2, 1, 3, 2))
    total = launch_reduce(N, element_of_five, x)
    assert_allclose(total, x[:, 1, 0, 2, 1].sum(), rtol=1e-12)


def test_views_of_six_dimensions_are_made_and_sliced():
    view = pk.zeros((2, 1, 3, 1, 2, 2), "int32", space="serial")
    view[1, 0, 2] = 5
    assert view.ndim == 6 and view[1, 0].to_numpy().sum() == 20
