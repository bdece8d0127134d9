"""Step 34, slices in kernels: their elements, in the order of indices; the reference is NumPy."""

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose

import portable as pk
from portable.core.launch import dispatch
from portable.core.machines.cuda.space import lower_to_ptx
from portable.errors import LanguageError, LoweringError

from ..refusals import refusals
from ..launching import launch_for, launch_reduce

SHIFT = (1.0, 2.0)


@pk.kernel
def stored(i, x, y):
    y[i, :] = 0
    y[i, 1:3] = x[i, 2:4] - 1
    y[i, ::2] += 5
    y[i, 0:2] *= SHIFT
    y[i, 2:] = x[i, 2:]


@pk.kernel
def added(i, x, y):
    y[i] += -x[i] * 2.0 + x[0] / (1 + x[1] ** 2)


@pk.kernel
def reversed_(i, x, y):
    y[i, ::-1] = x.T[i] + x[:, i]
    y.T[0, i] = x[i, ::2][1] + len(x) + x.T.shape[0]
    for v in x[i, 1:]:
        y[i, 1] -= v


@pk.kernel
def reduced(i, x, y):
    y[i, 0] = x[i].sum() + x[i, 1:].min() * x[i, :3].max()
    y[i, 1] = x[i] @ x[0]
    y[i, 2] = np.sum(x[i, ::-1] * 2) + np.dot(x[i], x[i] + 1)
    y[i, 3] = np.min(x) - np.max(x[i])


@pk.kernel
def held(team, x, y):
    row = pk.local(4, pk.float64)
    row[:] = x[team.league_rank, :4] * 2
    row[1:] -= row[0]
    for j in team.thread_range(4):
        y[team.league_rank, j] = row[j] + row.sum()


@pk.kernel
def value(i, x):
    return (x[i] * x[i]).sum()


KERNELS = stored, added, reversed_, reduced


@pytest.mark.parametrize("n", [4, 37])  # unrolled, and not unrolled
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_slices_are_those_of_numpy(space, kernel, n):
    for dtype, tol in ((np.float64, 1e-13), (np.float32, 1e-4)):
        x = default_rng(1).normal(size=(n, n)).astype(dtype)
        wanted = np.ones((n, n), dtype)
        for i in range(n):
            kernel(i, x, wanted)
        got = launch_for(n, kernel, x, np.ones((n, n), dtype))[1]
        assert_allclose(got, wanted, rtol=tol, atol=tol * n)


def test_reductions_teams_integers_and_complex_numbers(space):
    x = default_rng(2).normal(size=(5, 6))
    assert_allclose(launch_reduce(5, value, x), (x * x).sum(), rtol=1e-13)
    rows = 2 * x[:, :4]
    rows[:, 1:] -= rows[:, :1]
    got = launch_for(pk.TeamPolicy(5, 32), held, x, np.zeros((5, 4)))[1]
    assert_allclose(got, rows + rows.sum(1)[:, None], rtol=1e-13)
    for dtype in (np.int32, np.uint8, np.bool_):
        whole = np.array([[2**31 - 1, 2**31 - 2, 7]]).astype(dtype)
        got = launch_for(1, pk.kernel(_sum), whole, np.zeros(1, np.int64))[1]
        assert got[0] == whole.sum()  # summed in 64 bits
    z = (x + 1j)[:, :3]
    got = launch_for(5, pk.kernel(_scaled), z, np.zeros_like(z))[1]
    assert_allclose(got, z * 1j + z, rtol=1e-13)


def _sum(i, x, out):
    out[i] = x[i].sum()


def _scaled(i, z, out):
    out[i] = z[i] * 1j
    out[i, :] += z[i]


def test_slices_lower_for_a_gpu():
    x = np.ones((40, 40))
    for kernel in KERNELS:
        policy = pk.RangePolicy(0, 40, space="serial")
        *_, kind, specs, reducers, _ = dispatch.describe_launch(policy, kernel, (x, x.copy()))
        assert "ld.global" in lower_to_ptx(kernel, kind, specs, reducers)


def test_shapes_that_differ_are_found_in_the_checked_space():
    with pytest.raises(pk.CheckError, match="the shapes of arrays differ"):
        launch_for(3, added, np.ones((3, 4)), np.ones((3, 5)), space="checked")


def _shifted(i, x, y):
    y[1:] = y[:-1]


def _named(i, x, y):
    row = x[i] * 2
    y[i, 0] = row[1]


def _turned(i, x, y):
    y[i, 3:0:-1] = x[i]


def _wrong(i, x, y):
    y[i, 0:2] = (1.0, 2.0, 3.0)
    a = pk.local(2, pk.float64)
    a[:] = (1.0, 2.0, 3.0)


def _text(i, x, y):
    y[i, 0] = x[i] + "a"


test_what_slices_are_not_is_refused = refusals(
    [
        (
            _shifted,
            LanguageError,
            "written while other elements of it are read; write a loop, which fixes the order",
        ),
        (_named, LanguageError, "needs a temporary array here; assign its elements to a view"),
        (_turned, LanguageError, "a negative step goes with .::-1. alone"),
        (_wrong, LoweringError, "expected arrays of the same shape, got extents 3 and 2"),
        (_text, LanguageError, "a string"),
    ],
    lambda text: launch_for(4, pk.kernel(text), np.ones((4, 4)), np.ones((4, 4)), space="serial"),
)
