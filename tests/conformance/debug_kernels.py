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


@pk.kernel
def one_too_far(i, x):
    x[i] = 1.0  # wrong


@pk.kernel
def before_the_first(i, x, y):
    y[i] = x[i - 1]  # wrong


@pk.kernel
def neighbour(i, x, y):
    y[i] = x[i + 1]  # wrong


@pk.kernel
def gather(i, k, x, y):
    y[i] = x[k[i]]  # wrong


@pk.kernel
def scatter(i, k, y):
    y[k[i]] = 1.0  # wrong


@pk.kernel
def far(i, x, y):
    y[i] = x[1000000000 * i]  # wrong


@pk.kernel
def stride(i, x):
    x[2 * i] = 1.0  # wrong


@pk.kernel
def reverse(i, x, y):
    y[i] = x[len(x) - i]  # wrong


@pk.kernel
def count(i, k, counts):
    pk.atomic_add(counts, k[i], 1.0)  # wrong


@pk.kernel
def exchange(i, k, words):
    pk.atomic_cas(words, k[i], 0, 1)  # wrong


@pk.kernel
def second_dimension(i, x, y):
    y[i] = x[i, i]  # wrong


@pk.kernel
def row(i, k, x, y):
    r = x[k[i]]  # wrong
    y[i] = r[0]


@pk.kernel
def in_a_row(i, x, y):
    r = x[i]
    y[i] = r[len(r)]  # wrong


@pk.kernel
def slice_end(i, x, y):
    part = x[1:9]
    y[i] = part[i]  # wrong


@pk.kernel
def slice_of_its_own(i, x, y):
    y[i] = x[i : i + 3][2]  # wrong


@pk.kernel
def slice_before(i, x, y):
    y[i] = x[i - 1 : i + 3][2]  # wrong


@pk.kernel
def local_array(i, k, y):
    a = pk.local(4, pk.float64)
    for j in range(4):
        a[j] = 1.0
    y[i] = a[k[i]]  # wrong


@pk.kernel
def loop(i, x, y):
    s = 0.0
    for j in range(len(x) + 1):
        s += x[j]  # wrong
    y[i] = s


@pk.kernel
def loop_down(i, x, y):
    s = 0.0
    for j in range(len(x) - 1, -2, -1):
        s += x[j]  # wrong
    y[i] = s


@pk.kernel
def search(i, x, y):
    j = 0
    while x[j] < 2.0:  # wrong
        j += 1
    y[i] = j


@pk.kernel
def lanes_part(i, k, x, y):
    j, n = k[i], 0
    while x[j] > 0.5:  # wrong
        j += 1
        n += 1
    y[i] = n


@pk.kernel
def in_a_branch(i, x, y):
    if i % 5 == 3:
        y[i] = x[i + 34]  # wrong
    else:
        y[i] = x[i]


@pk.kernel
def in_a_condition(i, k, x, y):
    y[i] = 1.0 if k[i] > 2 and x[k[i] + 33] > 0.0 else 0.0  # wrong


@pk.function
def element(x, j):
    return x[j]


@pk.kernel
def in_a_function(i, x, y):
    y[i] = element(x, i + 2)


@pk.kernel
def fields(i, pair, y):
    y[i] = pair[1][i]  # wrong


@pk.kernel
def divided(i, k, y):
    y[i] = 100 // k[i]  # wrong


@pk.kernel
def modulo(i, k, y):
    y[i] = k[i] % (k[i] - 5)  # wrong


@pk.kernel
def divided_uniform(i, n, y):
    y[i] = i // n  # wrong


@pk.kernel
def shifted(i, k, y):
    y[i] = 3 << k[i]  # wrong


@pk.kernel
def shifted_back(i, k, y):
    y[i] = 5 >> (i - 4)  # wrong


@pk.kernel
def box(i, j, x, y):
    y[i, j] = x[i, j + 1]  # wrong


@pk.kernel
def box_of_three(i, j, k, x, y):
    y[i, j, k] = x[k, j, i]  # wrong


@pk.kernel
def summed(i, x):
    return x[i + 1]  # wrong


@pk.kernel
def packed_no_more(i, k, x, y):
    s = 0.0
    for j in range(k[i], k[i] + 3):
        s += x[j]  # wrong
    y[i] = s


@pk.kernel(packed=False)
def one_lane(i, x, y):
    y[i] = x[i + 3]  # wrong


@pk.kernel
def team_rows(team, x, y):
    s = 0.0
    for j in team.thread_range(x.shape[1] + 1):
        s += x[team.league_rank, j]  # wrong
    s = team.reduce(s)
    if team.single():
        y[team.league_rank] = s


@pk.kernel
def team_scratch(team, n, y):
    s = team.scratch(n, pk.float64)  # wrong
    s[team.rank % n] = 1.0
    team.barrier()
    y[team.league_rank] = s[0]


@pk.kernel
def scratch_index(team, y):
    s = team.scratch(8, pk.float64)
    for j in team.thread_range(8):
        s[j] = 1.0
    team.barrier()
    y[team.league_rank] = s[team.league_rank + 5]  # wrong


@pk.kernel
def league(team, y):
    if team.single():
        y[team.league_rank + 1] = 1.0  # wrong


@pk.kernel
def nan_of_numbers(i, x, y):
    y[i] = (x[i] - 1.0) / (x[i] - 1.0)  # wrong


@pk.kernel
def root(i, k, y):
    y[i] = pk.sqrt(3.5 - k[i])  # wrong


@pk.kernel
def nan_of_a_trip(i, x, y):
    s = 0.0
    for j in range(len(x)):
        s += x[j]  # wrong
    y[i] = s


@pk.kernel
def nan_in_a_sum(i, k, x, y):
    s = 0.0
    for j in range(k[i]):
        s += x[j] / x[j]  # wrong
    y[i] = s


@pk.kernel
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


@pk.kernel
def nan_that_is_lost(i, x, y):
    a = x[i] - x[i]  # wrong
    y[i] = max(1.0, a)


@pk.kernel
def nan_that_is_written_over(i, x, y):
    a = 1.0
    for j in range(4):
        a = x[j] * (x[i] - 1.0)  # wrong
        a = pk.where(a > 1.0, 0.0, x[j])
    y[i] = a


@pk.kernel
def nan_that_is_compared(i, x, y):
    if x[i] / (x[i] - 1.0) * 0.0 < 1.0:  # wrong
        y[i] = 2.0


@pk.kernel
def nan_that_is_an_integer(i, k, x, y):
    y[i] = x[pk.int64(pk.sqrt(9.0 - k[i]))]  # wrong


@pk.kernel
def nan_in_place(i, x, y):
    x[i] = x[i] * 2.0
    x[i] = x[i] - 2.0
    y[i] = 3.0 / x[i] - 1.0
    y[i] = y[i] * x[i]  # wrong


@pk.kernel
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


@pk.kernel
def nan_in_a_function(i, x, y):
    y[i] = twice_over(x[i] + 1.0, 40)


@pk.kernel
def nan_without_an_end(i, x, y):
    s = x[i]
    while s != 0.0:
        s = (s - 1.0) / (s - 1.0)  # wrong
    y[i] = s


@pk.kernel
def nan_of_members(team, x, y):
    s = 0.0
    for j in team.thread_range(x.shape[1]):
        s += pk.sqrt(x[team.league_rank, j] - j // 50)  # wrong
    s = team.reduce(s)
    if team.single():
        y[team.league_rank] = s


@pk.kernel
def nan_summed(i, x):
    return pk.log(x[i] - 2.0)  # wrong


@pk.kernel(packed=False)
def nan_of_one_lane(i, x, y):
    s = x[i]
    for j in range(len(x)):
        s *= 1e200
        s -= s * 2.0  # wrong
    y[i] = s


def endless(*changes):
    x = numbers()
    for place, number in changes:
        x[place] = number
    return x


_INFINITE = endless((9, np.inf), (11, -np.inf))
BROKEN = [
    Broken(one_too_far, N + 1, (numbers(),), "index", N, N, (N,)),
    Broken(before_the_first, N, (numbers(), numbers()), "index", -1, N, (0,)),
    Broken(neighbour, N, (numbers(), numbers()), "index", N, N, (N - 1,)),
    Broken(gather, N, (whole((7, -1)), numbers(), numbers()), "index", -1, N, (7,)),
    Broken(scatter, N, (whole((9, 1 << 40)), numbers()), "index", 1 << 40, N, (9,)),
    Broken(far, 2, (numbers(), numbers()), "index", 10**9, N, (1,)),
    Broken(stride, 20, (numbers(),), "index", 38, N, (19,)),
    Broken(reverse, 3, (numbers(), numbers()), "index", N, N, (0,)),
    Broken(count, N, (whole((3, N)), numbers()), "index", N, N, (3,)),
    Broken(exchange, N, (whole((3, -5)), whole()), "index", -5, N, (3,)),
    Broken(second_dimension, 9, (numbers(9, 8), numbers(9)), "index", 8, 8, (8,)),
    Broken(row, 9, (whole((2, 9)), numbers(9, 4), numbers(9)), "index", 9, 9, (2,)),
    Broken(in_a_row, 1, (numbers(9, 4), numbers(9)), "index", 4, 4, (0,)),
    Broken(slice_end, 9, (numbers(20), numbers(20)), "index", 8, 8, (8,)),
    Broken(slice_of_its_own, 9, (numbers(10), numbers(9)), "index", 2, 2, (8,)),
    Broken(slice_before, 9, (numbers(20), numbers(9)), "index", 2, 0, (0,)),
    Broken(
        local_array, 9, (whole(*((k, 1) for k in range(9)), (4, 4), n=9), numbers(9)), "index", 4, 4, (4,)
    ),
    Broken(loop, 1, (numbers(), numbers()), "index", N, N, (0,)),
    Broken(loop_down, 1, (numbers(), numbers()), "index", -1, N, (0,)),
    Broken(search, 1, (numbers(), numbers()), "index", N, N, (0,)),
    Broken(lanes_part, 9, (whole(n=9), numbers(), numbers(9)), "index", N, N),
    Broken(in_a_branch, N, (numbers(), numbers()), "index", None, N),
    Broken(in_a_condition, 8, (whole(n=8), numbers(), numbers(8)), "index", None, N),
    Broken(in_a_function, N - 1, (numbers(), numbers()), "index", N, N, (N - 2,)),
    Broken(fields, N, ((numbers(), numbers(N - 1)), numbers()), "index", N - 1, N - 1, (N - 1,)),
    Broken(divided, N, (whole((0, 1), (11, 0)), whole()), "division by zero", 100, 0, (11,)),
    Broken(modulo, N, (whole(), whole()), "division by zero", 5, 0, (5,)),
    Broken(divided_uniform, 1, (0, whole()), "division by zero", 0, 0, (0,)),
    Broken(shifted, 3, (whole((1, -2)), whole()), "shift", -2, 64, (1,)),
    Broken(shifted_back, 3, (whole(), whole()), "shift", -4, 64, (0,)),
    Broken(box, pk.MDRangePolicy((0, 0), (1, 8)), (numbers(5, 8), numbers(5, 8)), "index", 8, 8, (0, 7)),
    Broken(
        box_of_three,
        pk.MDRangePolicy((0, 0, 0), (5, 3, 4)),
        (numbers(4, 3, 4), numbers(5, 3, 4)),
        "index",
        4,
        4,
    ),
    Broken(summed, N, (numbers(),), "index", N, N, (N - 1,), pk.Sum),
    Broken(packed_no_more, N - 1, (whole(), numbers(), numbers()), "index", N, N),
    Broken(one_lane, N - 2, (numbers(), numbers()), "index", N, N, (N - 3,)),
    Broken(team_rows, pk.TeamPolicy(4, 32), (numbers(4, 60), numbers(4)), "index", 60, 60),
    Broken(team_scratch, pk.TeamPolicy(1, 32, scratch_bytes=64), (9, numbers(1)), "scratch", 72, 64, (0,)),
    Broken(scratch_index, pk.TeamPolicy(4, 32), (numbers(4),), "index", 8, 8, (3,)),
    Broken(league, pk.TeamPolicy(4, 32), (numbers(4),), "index", 4, 4, (3,)),
    Broken(nan_of_numbers, N, (numbers(), numbers()), "NaN", None, None, None, None, "nan"),
    Broken(root, 5, (whole(), numbers()), "NaN", None, None, (4,), None, "nan"),
    *(
        Broken(kernel, policy, args, "NaN", None, None, index, reducer, "nan")
        for kernel, policy, args, index, reducer in (
            (nan_of_a_trip, N, (_INFINITE, numbers()), None, None),
            (nan_in_a_sum, 7, (whole(), endless((5, 0.0)), numbers()), (6,), None),
            (nan_among_others, 7, (whole(), numbers(), numbers()), (6,), None),
            (nan_that_is_lost, N, (endless((9, np.inf)), numbers()), (9,), None),
            (nan_that_is_written_over, N, (endless((1, np.inf)), numbers()), None, None),
            (nan_that_is_compared, N, (numbers(), numbers()), None, None),
            (nan_that_is_an_integer, 11, (whole(), numbers(), numbers()), (10,), None),
            (nan_in_place, N, (numbers(), numbers()), None, None),
            (nan_of_an_array, N, (numbers(), numbers()), None, None),
            (nan_in_a_function, N, (endless((3, 1.5)), numbers()), (3,), None),
            (nan_without_an_end, N, (numbers(), numbers()), None, None),
            (nan_of_members, pk.TeamPolicy(4, 32), (numbers(4, 120), numbers(4)), None, None),
            (nan_summed, N, (numbers(),), None, pk.Sum),
            (nan_of_one_lane, N, (numbers(), numbers()), None, None),
        )
    ),
]
