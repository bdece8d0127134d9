"""Step 22, loops and packs in the debug build: the same bits as the usual build, and the first fault
reported.
"""

import numpy as np
import pytest
from numpy.random import default_rng

import portable as pk

from ..conftest import SPACES, space_fixture
from ..launching import launch_for, launch_reduce
from .debug_kernels import far_apart, whole

space = space_fixture([name for name in SPACES if name != "checked"], default=True)
N = 203  # whole packs, and a remainder


@pk.kernel
def shifted(i, o, x, y):
    y[i] = x[i + o] - x[i]


@pk.kernel
def shifted_sum(i, o, x, y):
    return x[i + o] * y[i]


@pk.kernel
def rows(i, n, m, x, y):
    s = 0.0
    for c in range(n):
        s += x[c * m + i]
    for c in range(n - 1, -1, -1):
        s = s * 0.5 + x[c * m + i]
    for c in range(0, n, 2):
        s -= x[i * 1 + m * c]
    y[i] = s


@pk.kernel
def windows(i, n, x, y):
    s = 0.0
    for c in range(n):
        s += x[i + c] - x[2 * c + 1]
    y[i] = s


@pk.kernel
def guarded(i, o, x, y):
    s = 0.0
    for j in range(len(x)):
        if j + o < len(x) and i + j < len(x):
            s += x[j + o] * x[i + j]
    y[i] = s + (x[i + o] if i + o < len(x) else 0.0)


@pk.kernel
def of_a_team(team, o, x, y):
    r = team.league_rank
    for j in team.thread_range(x.shape[1]):
        y[r, j] = x[r, j] + x[r, x.shape[1] - 1 - j]
    team.barrier()
    for j in team.thread_range(1, x.shape[1] - o):
        y[r, j] -= 2.0 * x[r, j + o]


@pk.kernel
def by_a_team(team, n, x, y):
    s = 0.0
    for c in range(n):
        s += x[c * team.size + team.rank]
    total = team.reduce(s)
    if team.single():
        y[team.league_rank] = total


X, Y = default_rng(3).random(N), np.zeros(N)
TABLE = default_rng(4).random((3, N))
TEAMS = pk.TeamPolicy(3)


@pytest.mark.parametrize("debug", [True, "nan"])
@pytest.mark.parametrize(
    ("kernel", "policy", "args"),
    [
        (shifted, N - 5, (5, X, Y)),
        (shifted, pk.RangePolicy(7, N), (-7, X, Y)),
        (rows, N // 7, (7, N // 7, X, Y)),
        (windows, N - 20, (21, X, Y)),
        (guarded, N, (3, X, Y)),
        (of_a_team, TEAMS, (2, TABLE, np.zeros((3, N)))),
        (by_a_team, TEAMS, (1, np.ones(512), np.zeros(3))),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_what_is_right_has_the_bits_of_the_usual_build(space, debug, kernel, policy, args):
    results = []
    for build in (False, debug):
        with pk.use(debug=build):
            results.append(launch_for(policy, kernel, *args, space=space)[-1])
    assert (results[0] == results[1]).all() and results[0].any()


def test_sums_over_packs_side_by_side(space):
    """A reduction without loops in its kernel processes several packs in each iteration."""
    sums = []
    for build in (False, True):
        with pk.use(debug=build):
            sums.append(launch_reduce(N - 5, shifted_sum, 5, X, X, space=space))
    assert sums[0] == sums[1]


@pytest.mark.parametrize(
    "kernel policy args number limit index".split(),
    [
        (shifted, N, (1, X, Y), N, N, (N - 1,)),
        (shifted, N, (-1, X, Y), -1, N, (0,)),
        (shifted, 1 << 12, (0, whole(n=1 << 12), np.zeros(100)), 100, 100, (100,)),
        (shifted, 9, (1 << 62, X, Y), 1 << 62, N, (0,)),
        (rows, N // 7, (8, N // 7, X, Y), N, N, None),
        (rows, N // 7, (7, N // 7 + 1, X, Y), N, N, None),
        (windows, N - 20, (22, X, Y), N, N, (N - 21,)),
        (windows, 1, (N, X, Y), N, N, (0,)),
        (of_a_team, TEAMS, (-2, TABLE, np.zeros((3, N))), -1, N, (0,)),
        (of_a_team, pk.TeamPolicy(4), (2, TABLE, np.zeros((4, N))), 3, 3, (3,)),
        (by_a_team, TEAMS, (1, np.ones(3), np.zeros(3)), 3, 3, (0,)),
        (by_a_team, TEAMS, (1 << 41, np.ones(1 << 10), np.zeros(3)), 1 << 10, 1 << 10, (0,)),
        (far_apart, 9, (5, X, Y), 4611686018427387904, N, (0,)),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_what_is_wrong_is_named(space, kernel, policy, args, number, limit, index):
    if space == "cuda" and 1 << 41 in args[:1]:
        pytest.skip("a GPU's kernel goes on after a fault, here for 2^41 rounds")
    with pk.use(debug=True), pytest.raises(pk.CheckError) as caught:
        launch_for(policy, kernel, *args, space=space)
    (fault,) = caught.value.findings
    team_of_a_gpu = space == "cuda" and isinstance(policy, pk.TeamPolicy)
    if team_of_a_gpu or space != "serial" and fault.index[0]:  # of another member, thread or team
        assert fault.limit == limit and not 0 <= fault.number < limit
    else:
        assert (fault.number, fault.limit) == (number, limit) and index in (None, fault.index)


def test_a_sum_names_what_is_wrong(space):
    for o in (6, -1):
        with pk.use(debug=True), pytest.raises(pk.CheckError) as caught:
            launch_reduce(N - 5, shifted_sum, o, X, X, space=space)
        (fault,) = caught.value.findings
        assert (fault.number, fault.limit) == (-1 if o < 0 else N, N)
