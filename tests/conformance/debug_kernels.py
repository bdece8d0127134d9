"""Kernels with one fault each, on the line marked `wrong`, which the debug build must report."""

import inspect
from typing import NamedTuple

import numpy as np

import portable as pk

N = 37


def numbers(*shape, dtype=np.float64):
    return np.ones(shape or N, dtype)


@pk.kernel
def far_apart(i, n, x, y):
    """Index with a product that wraps."""
    s = 0.0
    for j in range(n, n + 3):
        s += x[(j - n) * 4611686018427387904 + i]
    y[i] = s


def whole(*changes, n=N):
    """Return 0, 1, 2, ... with (place, number) changed."""
    x = np.arange(n)
    for place, number in changes:
        x[place] = number
    return x


def endless(*changes):
    x = numbers()
    for place, number in changes:
        x[place] = number
    return x


_INFINITE = endless((9, np.inf), (11, -np.inf))
BROKEN = []


class Broken(NamedTuple):
    """Kernel, its launch, and the expected description of the fault (None: not compared)."""

    kernel: object
    policy: object
    args: tuple
    kind: str
    number: int | None
    limit: int | None
    index: tuple | None = None
    reducer: object = None
    debug: object = True

    @property
    def line(self):
        lines, first = inspect.getsourcelines(self.kernel.fn)
        return next(first + k for k, line in enumerate(lines) if "# wrong" in line)


def broken(policy, args, number=None, limit=None, index=None, kind="index", reducer=None, packed=True):
    """Add a kernel to BROKEN."""

    def add(fn):
        kernel = pk.kernel(fn, packed=packed)
        debug = "nan" if kind == "NaN" else True
        BROKEN.append(Broken(kernel, policy, args, kind, number, limit, index, reducer, debug))
        return kernel

    return add


@broken(N + 1, (numbers(),), N, N, (N,))
def one_too_far(i, x):
    x[i] = 1.0  # wrong


@broken(N, (numbers(), numbers()), -1, N, (0,))
def before_the_first(i, x, y):
    y[i] = x[i - 1]  # wrong


@broken(N, (numbers(), numbers()), N, N, (N - 1,))
def neighbour(i, x, y):
    y[i] = x[i + 1]  # wrong


@broken(N, (whole((7, -1)), numbers(), numbers()), -1, N, (7,))
def gather(i, k, x, y):
    y[i] = x[k[i]]  # wrong


@broken(N, (whole((9, 1 << 40)), numbers()), 1 << 40, N, (9,))
def scatter(i, k, y):
    y[k[i]] = 1.0  # wrong


@broken(2, (numbers(), numbers()), 10**9, N, (1,))
def far(i, x, y):
    y[i] = x[1000000000 * i]  # wrong


@broken(20, (numbers(),), 38, N, (19,))
def stride(i, x):
    x[2 * i] = 1.0  # wrong


@broken(3, (numbers(), numbers()), N, N, (0,))
def reverse(i, x, y):
    y[i] = x[len(x) - i]  # wrong


@broken(N, (whole((3, N)), numbers()), N, N, (3,))
def count(i, k, counts):
    pk.atomic_add(counts, k[i], 1.0)  # wrong


@broken(N, (whole((3, -5)), whole()), -5, N, (3,))
def exchange(i, k, words):
    pk.atomic_cas(words, k[i], 0, 1)  # wrong


@broken(9, (numbers(9, 8), numbers(9)), 8, 8, (8,))
def second_dimension(i, x, y):
    y[i] = x[i, i]  # wrong


@broken(9, (whole((2, 9)), numbers(9, 4), numbers(9)), 9, 9, (2,))
def row(i, k, x, y):
    r = x[k[i]]  # wrong
    y[i] = r[0]


@broken(1, (numbers(9, 4), numbers(9)), 4, 4, (0,))
def in_a_row(i, x, y):
    r = x[i]
    y[i] = r[len(r)]  # wrong


@broken(9, (numbers(20), numbers(20)), 8, 8, (8,))
def slice_end(i, x, y):
    part = x[1:9]
    y[i] = part[i]  # wrong


@broken(9, (numbers(10), numbers(9)), 2, 2, (8,))
def slice_of_its_own(i, x, y):
    y[i] = x[i : i + 3][2]  # wrong


@broken(9, (numbers(20), numbers(9)), 2, 0, (0,))
def slice_before(i, x, y):
    y[i] = x[i - 1 : i + 3][2]  # wrong


@broken(9, (whole(*((k, 1) for k in range(9)), (4, 4), n=9), numbers(9)), 4, 4, (4,))
def local_array(i, k, y):
    a = pk.local(4, pk.float64)
    for j in range(4):
        a[j] = 1.0
    y[i] = a[k[i]]  # wrong


@broken(1, (numbers(), numbers()), N, N, (0,))
def loop(i, x, y):
    s = 0.0
    for j in range(len(x) + 1):
        s += x[j]  # wrong
    y[i] = s


@broken(1, (numbers(), numbers()), -1, N, (0,))
def loop_down(i, x, y):
    s = 0.0
    for j in range(len(x) - 1, -2, -1):
        s += x[j]  # wrong
    y[i] = s


@broken(1, (numbers(), numbers()), N, N, (0,))
def search(i, x, y):
    j = 0
    while x[j] < 2.0:  # wrong
        j += 1
    y[i] = j


@broken(9, (whole(n=9), numbers(), numbers(9)), N, N)
def lanes_part(i, k, x, y):
    j, n = k[i], 0
    while x[j] > 0.5:  # wrong
        j += 1
        n += 1
    y[i] = n


@broken(N, (numbers(), numbers()), None, N)
def in_a_branch(i, x, y):
    if i % 5 == 3:
        y[i] = x[i + 34]  # wrong
    else:
        y[i] = x[i]


@broken(8, (whole(n=8), numbers(), numbers(8)), None, N)
def in_a_condition(i, k, x, y):
    y[i] = 1.0 if k[i] > 2 and x[k[i] + 33] > 0.0 else 0.0  # wrong


@pk.function
def element(x, j):
    return x[j]


@broken(N - 1, (numbers(), numbers()), N, N, (N - 2,))
def in_a_function(i, x, y):
    y[i] = element(x, i + 2)


@broken(N, ((numbers(), numbers(N - 1)), numbers()), N - 1, N - 1, (N - 1,))
def fields(i, pair, y):
    y[i] = pair[1][i]  # wrong


@broken(N, (whole((0, 1), (11, 0)), whole()), 100, 0, (11,), kind="division by zero")
def divided(i, k, y):
    y[i] = 100 // k[i]  # wrong


@broken(N, (whole(), whole()), 5, 0, (5,), kind="division by zero")
def modulo(i, k, y):
    y[i] = k[i] % (k[i] - 5)  # wrong


@broken(1, (0, whole()), 0, 0, (0,), kind="division by zero")
def divided_uniform(i, n, y):
    y[i] = i // n  # wrong


@broken(3, (whole((1, -2)), whole()), -2, 64, (1,), kind="shift")
def shifted(i, k, y):
    y[i] = 3 << k[i]  # wrong


@broken(3, (whole(), whole()), -4, 64, (0,), kind="shift")
def shifted_back(i, k, y):
    y[i] = 5 >> (i - 4)  # wrong


@broken(pk.MDRangePolicy((0, 0), (1, 8)), (numbers(5, 8), numbers(5, 8)), 8, 8, (0, 7))
def box(i, j, x, y):
    y[i, j] = x[i, j + 1]  # wrong


@broken(pk.MDRangePolicy((0, 0, 0), (5, 3, 4)), (numbers(4, 3, 4), numbers(5, 3, 4)), 4, 4)
def box_of_three(i, j, k, x, y):
    y[i, j, k] = x[k, j, i]  # wrong


@broken(N, (numbers(),), N, N, (N - 1,), reducer=pk.Sum)
def summed(i, x):
    return x[i + 1]  # wrong


@broken(N - 1, (whole(), numbers(), numbers()), N, N)
def packed_no_more(i, k, x, y):
    s = 0.0
    for j in range(k[i], k[i] + 3):
        s += x[j]  # wrong
    y[i] = s


@broken(N - 2, (numbers(), numbers()), N, N, (N - 3,), packed=False)
def one_lane(i, x, y):
    y[i] = x[i + 3]  # wrong


@broken(pk.TeamPolicy(4, 32), (numbers(4, 60), numbers(4)), 60, 60)
def team_rows(team, x, y):
    s = 0.0
    for j in team.thread_range(x.shape[1] + 1):
        s += x[team.league_rank, j]  # wrong
    s = team.reduce(s)
    if team.single():
        y[team.league_rank] = s


@broken(pk.TeamPolicy(1, 32, scratch_bytes=64), (9, numbers(1)), 72, 64, (0,), kind="scratch")
def team_scratch(team, n, y):
    s = team.scratch(n, pk.float64)  # wrong
    s[team.rank % n] = 1.0
    team.barrier()
    y[team.league_rank] = s[0]


@broken(pk.TeamPolicy(4, 32), (numbers(4),), 8, 8, (3,))
def scratch_index(team, y):
    s = team.scratch(8, pk.float64)
    for j in team.thread_range(8):
        s[j] = 1.0
    team.barrier()
    y[team.league_rank] = s[team.league_rank + 5]  # wrong


@broken(pk.TeamPolicy(4, 32), (numbers(4),), 4, 4, (3,))
def league(team, y):
    if team.single():
        y[team.league_rank + 1] = 1.0  # wrong


@broken(N, (numbers(), numbers()), kind="NaN")
def nan_of_numbers(i, x, y):
    y[i] = (x[i] - 1.0) / (x[i] - 1.0)  # wrong


@broken(5, (whole(), numbers()), index=(4,), kind="NaN")
def root(i, k, y):
    y[i] = pk.sqrt(3.5 - k[i])  # wrong


@broken(N, (_INFINITE, numbers()), kind="NaN")
def nan_of_a_trip(i, x, y):
    s = 0.0
    for j in range(len(x)):
        s += x[j]  # wrong
    y[i] = s


@broken(7, (whole(), endless((5, 0.0)), numbers()), index=(6,), kind="NaN")
def nan_in_a_sum(i, k, x, y):
    s = 0.0
    for j in range(k[i]):
        s += x[j] / x[j]  # wrong
    y[i] = s


@broken(7, (whole(), numbers(), numbers()), index=(6,), kind="NaN")
def nan_among_others(i, k, x, y):
    a, b = 1.0, 2.0
    for j in range(3):
        for m in range(k[i]):
            a *= x[m]
            b -= a
            if m == 5:
                b += pk.log(4.5 - a * m)  # wrong
        a = a / 2.0
    y[i] = a + b


@broken(N, (endless((9, np.inf)), numbers()), index=(9,), kind="NaN")
def nan_that_is_lost(i, x, y):
    a = x[i] - x[i]  # wrong
    y[i] = max(1.0, a)


@broken(N, (endless((1, np.inf)), numbers()), kind="NaN")
def nan_that_is_written_over(i, x, y):
    a = 1.0
    for j in range(4):
        a = x[j] * (x[i] - 1.0)  # wrong
        a = pk.where(a > 1.0, 0.0, x[j])
    y[i] = a


@broken(N, (numbers(), numbers()), kind="NaN")
def nan_that_is_compared(i, x, y):
    if x[i] / (x[i] - 1.0) * 0.0 < 1.0:  # wrong
        y[i] = 2.0


@broken(11, (whole(), numbers(), numbers()), index=(10,), kind="NaN")
def nan_that_is_an_integer(i, k, x, y):
    y[i] = x[pk.int64(pk.sqrt(9.0 - k[i]))]  # wrong


@broken(N, (numbers(), numbers()), kind="NaN")
def nan_in_place(i, x, y):
    x[i] = x[i] * 2.0
    x[i] = x[i] - 2.0
    y[i] = 3.0 / x[i] - 1.0
    y[i] = y[i] * x[i]  # wrong


@broken(N, (numbers(), numbers()), kind="NaN")
def nan_of_an_array(i, x, y):
    a = pk.local((2, 2), pk.float64)
    for j in range(2):
        for m in range(2):
            a[j, m] = x[i]
    for j in range(len(x)):
        a[0, 1] *= 1e300
        a[1, 1] -= a[0, 1]
        a[1, 1] += a[0, 1]  # wrong
    a[1, 1] = 0.0
    y[i] = a[0, 0] + a[1, 1]


@pk.function
def twice_over(v, n):
    for j in range(n):
        v = v * v - v  # wrong
        if v == 7.0:
            return v
    return v / 2.0


@broken(N, (endless((3, 1.5)), numbers()), index=(3,), kind="NaN")
def nan_in_a_function(i, x, y):
    y[i] = twice_over(x[i] + 1.0, 40)


@broken(N, (numbers(), numbers()), kind="NaN")
def nan_without_an_end(i, x, y):
    s = x[i]
    while s != 0.0:
        s = (s - 1.0) / (s - 1.0)  # wrong
    y[i] = s


@broken(pk.TeamPolicy(4, 32), (numbers(4, 120), numbers(4)), kind="NaN")
def nan_of_members(team, x, y):
    s = 0.0
    for j in team.thread_range(x.shape[1]):
        s += pk.sqrt(x[team.league_rank, j] - j // 50)  # wrong
    s = team.reduce(s)
    if team.single():
        y[team.league_rank] = s


@broken(N, (numbers(),), kind="NaN", reducer=pk.Sum)
def nan_summed(i, x):
    return pk.log(x[i] - 2.0)  # wrong


@broken(N, (numbers(), numbers()), kind="NaN", packed=False)
def nan_of_one_lane(i, x, y):
    s = x[i]
    for j in range(len(x)):
        s *= 1e200
        s -= s * 2.0  # wrong
    y[i] = s
