"""Step 26: ranges whose step is a variable; enumerate, zip and views in for loops; names assigned one of
several views."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import portable as pk

from ..launching import launch_for
from .test_ptx import assemble, lower


@pk.kernel
def strided(i, n, s, t, out):
    for j in range(i, n, s):
        out[i, 0] += j
    for j in range(0, n, t[i]):
        if j > 20:
            break
        out[i, 1] += j + 1
    for j in range(n, i, -t[i]):
        out[i, 2] += j


@pytest.mark.parametrize("s", [1, 2, 7, 50, -1])
def test_a_step_known_at_run_time(space, s):
    t = np.arange(20) % 4 + 1
    t[[5, 7]] = -2, -1
    out = launch_for(20, strided, 30, s, t, np.zeros((20, 3), np.int64))[1]
    want = [
        [sum(range(i, 30, s)), sum(j + 1 for j in range(0, 30, k) if j <= 20), sum(range(30, i, -k))]
        for i, k in enumerate(t.tolist())
    ]
    assert_array_equal(out, want)


def test_a_step_of_zero(space):
    """The loop has no iteration; the checked space raises Python's error."""
    if space == "checked":
        with pytest.raises(pk.CheckError, match=r"test_step26_loops.py:\d+.*zero"):
            launch_for(2, strided, 30, 0, np.ones(2, int), np.zeros((2, 3), np.int64))
        return
    assert launch_for(2, strided, 30, 0, np.ones(2, int), np.zeros((2, 3), np.int64))[1][0, 0] == 0


WEIGHTS = 1.0, 2.0, 3.0


@pk.kernel
def through(i, a, x, out):
    for v in a[i]:
        out[i, 0] += v
    for j, v in enumerate(a[i], 1):
        out[i, 1] += j * v
    for p, q in zip(range(5, 100, 2), x):
        out[i, 2] += p * q
    for j, (w, q) in enumerate(zip(WEIGHTS, range(9, 0, -3))):
        out[i, 3] += w * q + j
    for row in a:
        out[i, 4] += row[1]
    for j, (p, q) in enumerate(zip(x, a)):
        if j > i:
            break
        out[i, 5] += p * q[0]
    for k, v in zip(range(i), x):
        out[i, 6] += k * v


def test_views_enumerate_and_zip(space):
    a, x, want = np.arange(63.0).reshape(21, 3), np.arange(30.0), np.zeros((21, 7))
    for i in range(21):
        through.fn(i, a, x, want)
    assert_array_equal(launch_for(21, through, a, x, np.zeros((21, 7)))[2], want)


@pk.kernel
def fibonacci(i, out):
    pair, ends = (0, 1), ((i, 0.5), 2)
    for k in range(i):
        pair = pair[1], pair[0] + pair[1]
        if k % 2:
            ends = (k, ends[0][1] + 1.0), ends[0][0]
    out[i, 0] = pair[0]
    out[i, 1] = ends[0][0] + ends[0][1] + ends[1]


def test_a_name_that_holds_a_tuple_again_and_again(space):
    want = np.zeros((21, 2))
    for i in range(21):
        fibonacci.fn(i, want)
    assert_array_equal(launch_for(21, fibonacci, np.zeros((21, 2))), want)


@pk.kernel
def relaxed(team, a, b, n):
    for _ in range(n):
        for j in team.thread_range(a.shape[0]):
            b[j] = 0.5 * (a[max(j - 1, 0)] + a[min(j + 1, a.shape[0] - 1)])
        team.barrier()
        a, b = b, a


def test_two_views_take_turns(space):
    for n in [0, 3, 4]:
        start = np.random.default_rng(1).normal(size=20)
        got = launch_for(pk.TeamPolicy(1, 8), relaxed, start, np.zeros(20), n)[n % 2]
        u, k = start.copy(), np.arange(20)
        for _ in range(n):
            u = 0.5 * (u[np.maximum(k - 1, 0)] + u[np.minimum(k + 1, 19)])
        assert_allclose(got, u)


@pk.kernel
def one_of(i, n, a, b, c, out):
    source = a
    if n > 2:
        source = b
    for _ in range(n):
        source, c = c, source
    out[i] = source[i] + 10 * c.shape[0] + len(source)


def test_a_name_holds_one_of_several_views(space):
    for n in range(5):
        a, b, c, want = np.arange(5.0), np.arange(10.0)[::2] + 100, -np.arange(8.0), np.zeros(5)
        for i in range(5):
            one_of.fn(i, n, a, b, c, want)
        assert_array_equal(launch_for(5, one_of, n, a, b, c, np.zeros(5))[3], want)


@pk.kernel
def of_its_own(i, a, b, out):
    source = a
    if a[i] > 0.0:
        source = b
    out[i] = source[i]


@pk.kernel
def of_two_types(i, a, b, out):
    source = a
    if out.shape[0] > 2:
        source = b
    out[i] = source[i]


@pk.kernel
def of_parts(i, a, b, out):
    row = b[0]
    if out.shape[0] > 2:
        row = b[1]
    out[i] = row[i]


@pytest.mark.parametrize(
    "kernel, b, words",
    [
        (
            of_its_own,
            np.ones(5),
            "'source' is one of several views here, which must be the same for all indices",
        ),
        (of_two_types, np.ones(5, int), "'source' holds a view of 1 dimension.*of one dtype"),
        (of_parts, np.ones((5, 5)), "'row' holds a view of 1 dimension.*arguments or scratch"),
    ],
)
def test_what_a_name_cannot_hold(space, kernel, b, words):
    if space == "checked" and kernel is of_its_own:
        return  # one index at a time: there is no difference
    with pytest.raises(pk.LoweringError, match=words):
        launch_for(5, kernel, np.ones(5), b, np.ones(5))


@pytest.mark.parametrize(
    "kernel, args",
    [
        (strided, (30, 2, np.ones(4, int), np.zeros((4, 3), int))),
        (through, (np.ones((4, 3)), np.ones(9), np.ones((4, 7)))),
        (one_of, (3, *[np.ones(4)] * 4)),
    ],
)
def test_loops_lower_to_ptx(kernel, args, tmp_path):
    assemble(lower(kernel, 4, args), tmp_path)
