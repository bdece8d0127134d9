"""Step 4, boxes of two to four dimensions: each cell once, the last index the fastest, reductions over
cells."""

import math
import re

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_array_equal

import portable as pk
from portable.core.machines.cuda.space import _boxes, lower_to_ptx

from ..launching import floats, launch_for, launch_reduce, move
from ..tolerance import assert_close
from .test_ptx import assemble, lower

# The long ones are divided within rows, if several threads are active.
SHAPES_2D = [(0, 0), (0, 5), (5, 0), (1, 1), (3, 8), (2, 17), (40, 3), (7, 33), (1, 20_000), (5, 7_001)]
SHAPES_4D = [(0, 2, 3, 4), (2, 0, 3, 4), (1, 1, 1, 1), (2, 3, 4, 9), (3, 2, 5, 16), (2, 2, 1, 4_001)]
SHAPES_3D = [(0, 2, 3), (2, 3, 0), (1, 1, 1), (2, 3, 9), (4, 5, 16), (2, 1, 9_001)]


@pk.kernel
def visit_2d(r, c, count):
    count[r, c] += 100 * r + c + 1


@pk.kernel
def visit_3d(a, b, c, count):
    count[a, b, c] += 10_000 * a + 100 * b + c + 1


@pk.kernel
def visit_4d(a, b, c, d, count):
    count[a, b, c, d] += 1_000_000 * a + 10_000 * b + 100 * c + d + 1


@pytest.mark.parametrize("shape", SHAPES_2D, ids=str)
def test_every_cell_once(space, shape):
    r, c = np.indices(shape)
    count = launch_for(pk.MDRangePolicy((0, 0), shape), visit_2d, np.zeros(shape, np.int64))
    assert_array_equal(count, 100 * r + c + 1)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_rows_of_any_length(space, dtype):
    """A GPU's thread processes several cells of a row, a warp apart, and those at its end one by one."""
    for n in (31, 33, 63, 129, 300) if space != "checked" else (3,):
        count = launch_for(pk.MDRangePolicy((1, 2), (9, n)), visit_2d, np.zeros((9, n + 3), dtype))
        r, c = np.indices((9, n + 3))
        assert_array_equal(count, np.where((r >= 1) & (c >= 2) & (c < n), 100 * r + c + 1, 0))


@pytest.mark.parametrize("dtype, apart", [("int32", (0, 128, 256, 384)), ("float64", (0, 256))])
def test_a_thread_of_a_gpu_loads_several_cells_of_a_row(dtype, apart):
    ptx = lower_to_ptx(visit_2d, "box2", (("view", dtype, 2, True, False),))
    loads = re.findall(r"ld\.global\.b\d\d \t%r?d?\d+, \[%rd\d+(?:\+(\d+))?\];", ptx)
    assert [int(by or 0) for by in loads[: len(apart)]] == [*apart]


@pytest.mark.parametrize("shape", SHAPES_3D, ids=str)
def test_every_cell_of_three_dimensions_once(space, shape):
    a, b, c = np.indices(shape)
    count = launch_for(pk.MDRangePolicy((0, 0, 0), shape), visit_3d, np.zeros(shape, np.int64))
    assert_array_equal(count, 10_000 * a + 100 * b + c + 1)


@pytest.mark.parametrize("shape", SHAPES_4D, ids=str)
def test_every_cell_of_four_dimensions_once(space, shape):
    a, b, c, d = np.indices(shape)
    count = launch_for(pk.MDRangePolicy((0,) * 4, shape), visit_4d, np.zeros(shape, np.int64))
    assert_array_equal(count, 1_000_000 * a + 10_000 * b + 100 * c + d + 1)


def test_four_dimensions_from_anywhere_and_beyond_one_launch(space):
    """The first two dimensions share an axis of CUDA's grid, which holds 65,535."""
    begin, shape = (3, 1, 0, 2), (700, 110, 1, 4) if space != "checked" else (5, 3, 1, 4)
    policy = pk.MDRangePolicy(begin, shape)
    count = launch_for(policy, visit_4d, np.zeros(shape, np.int64))
    a, b, c, d = np.indices(shape)
    inside = (a >= 3) & (b >= 1) & (d >= 2)
    assert_array_equal(count, np.where(inside, 1_000_000 * a + 10_000 * b + 100 * c + d + 1, 0))


@pk.kernel
def cell_4d(a, b, c, d, u):
    return u[a, b, c, d], u[a, b, c, d]


@pytest.mark.parametrize("shape", [(0, 4, 1, 1), (1, 1, 1, 1), (3, 4, 5, 19), (40, 3, 2, 17)], ids=str)
def test_sums_and_places_in_four_dimensions(space, shape):
    u = default_rng(4).random(shape)
    policy = pk.MDRangePolicy((0,) * 4, shape)
    total, largest = launch_reduce(policy, cell_4d, u, reducer=(pk.Sum, pk.MaxLoc))
    assert_close(total, math.fsum(u.ravel()), np.float64, u.size)
    if u.size:
        assert largest == (u.max(), np.unravel_index(u.argmax(), shape))


def test_a_box_beyond_what_a_device_launches_at_once(space):
    """CUDA allows at most 65,535 blocks along an outer axis; a plan includes all of the launches, too."""
    shape = (70_000 if space != "checked" else 300, 1, 2)
    count = move(np.zeros(shape, np.int64))
    policy = pk.MDRangePolicy((0, 0, 0), shape)
    pk.parallel_for(policy, visit_3d, count)
    pk.plan(policy, visit_3d, count)()
    pk.fence(space)
    a, b, c = np.indices(shape)
    assert_array_equal(pk.asview(count).to_numpy(), 2 * (10_000 * a + 100 * b + c + 1))


def test_a_box_may_begin_anywhere(space):
    count = launch_for(pk.MDRangePolicy((2, 3), (6, 20)), visit_2d, np.zeros((9, 25), np.int64))
    r, c = np.indices((9, 25))
    inside = (2 <= r) & (r < 6) & (3 <= c) & (c < 20)
    assert_array_equal(count, np.where(inside, 100 * r + c + 1, 0))


@pk.kernel
def mean_of_neighbours(r, c, u, out):
    if c == 0:
        out[r, c] = u[r, c]
        return
    total = 0.0
    for k in range(max(r - 1, 0), min(r + 2, u.shape[0])):
        if u[k, c] < 0.0:
            continue
        total += u[k, c] + u[r, c - 1]
    out[r, c] = total


@floats
def test_conditions_and_loops_on_cells(space, dtype):
    u = default_rng(1).normal(size=(6, 21)).astype(dtype)
    policy = pk.MDRangePolicy((0, 0), u.shape)
    out = launch_for(policy, mean_of_neighbours, u, np.zeros_like(u))[1]
    wanted = u.copy()
    for r in range(6):
        rows = u[max(r - 1, 0) : r + 2]
        wanted[r, 1:] = np.where(rows[:, 1:] < 0, 0, rows[:, 1:] + u[r, :-1]).sum(0)
    assert_close(out, wanted, dtype, 6, scale=3.0)


def products(r, c, lower, a, out):
    s = 0.0
    for k in range(r if lower else a.shape[1]):
        s += a[r, k] * a[c, k]
    out[r, c] = s


@pytest.mark.parametrize("lower", [False, True])
def test_loops_of_several_rows(space, lower):
    """A CPU processes rows together whose loops have one length; each sum has the bits of one lane alone."""
    a, policy = default_rng(1).normal(size=(21, 21)), pk.MDRangePolicy((0, 0), (21, 21))
    kernels = (pk.kernel(packed=packed)(products) for packed in (True, False))
    out, alone = (launch_for(policy, k, pk.static(lower), a, 0 * a)[-1] for k in kernels)
    assert_array_equal(out, alone)
    assert_close(out, (np.tri(21, k=-1) * a if lower else a) @ a.T, float, 21, scale=3.0)


@pk.kernel
def cell(r, c, u):
    return u[r, c]


@pytest.mark.parametrize("shape", [(0, 4), (1, 1), (5, 19), (33, 40), (1, 50_000)], ids=str)
def test_sums_over_cells(space, shape):
    u = default_rng(2).random(shape)
    assert_close(
        launch_reduce(pk.MDRangePolicy((0, 0), shape), cell, u),
        math.fsum(u.ravel()),
        np.float64,
        u.size,
    )


def test_where_the_largest_cell_is(space):
    u = default_rng(3).random((9, 21))
    value, where = launch_reduce(pk.MDRangePolicy((0, 0), u.shape), cell, u, reducer=pk.MaxLoc)
    assert value == u.max() and where == np.unravel_index(u.argmax(), u.shape)


def test_between_equal_cells_the_first_in_order_wins(space):
    u = np.zeros((5, 30))
    u[3, 2] = u[3, 29] = u[4, 0] = 1.0
    assert launch_reduce(pk.MDRangePolicy((0, 0), u.shape), cell, u, reducer=pk.MaxLoc) == (
        1.0,
        (3, 2),
    )


@pytest.mark.parametrize("reducers", [(), (pk.Sum, pk.MaxLoc)], ids=str)
def test_four_dimensions_lower_to_ptx(reducers, tmp_path):
    u = np.zeros((2, 3, 4, 5))
    kernel = cell_4d if reducers else visit_4d
    text = lower(kernel, pk.MDRangePolicy((0,) * 4, u.shape), (u,), reducers=reducers)
    assemble(text, tmp_path)


def test_parts_of_a_box_of_four_dimensions():
    """One CUDA launch covers as many cells as fit the grid's axes: the first two extents' product, and the
    third."""
    policy = pk.MDRangePolicy((5, 0, 2, 0), (700, 70_000, 65_600, 3))
    parts = _boxes(policy)
    assert sum(math.prod(p.extents) for p in parts) == math.prod(policy.extents)
    assert all(p.extents[0] * p.extents[1] <= 65_535 >= p.extents[2] for p in parts)
    assert len({p.begin for p in parts}) == len(parts) and parts[-1].end == policy.end


@pytest.mark.parametrize(
    "begin, end, words",
    [
        ((0, 0), (3, -1), r"begin\[1\].*-1"),
        ((0,), (3,), "2 to 4"),
        ((0,) * 5, (3,) * 5, "2 to 4"),
        ((0, 0), (1, 2, 3), "2 dimensions.*3"),
        ((0, 0), (3, 2.5), r"end\[1\].*2.5"),
        (0, 3, "2 to 4"),
    ],
)
def test_wrong_boxes(begin, end, words):
    with pytest.raises(pk.InputError, match=words):
        pk.MDRangePolicy(begin, end)
