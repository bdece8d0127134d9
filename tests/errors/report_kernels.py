"""Kernels that public reports of other projects are about, in this layer's words, each written from what the
report is about; test_reports.py launches them."""

import enum
import math

import numpy as np
import portable as pk

N = np.int32(3)
TAPS, RATES = (1, 2.5, 4), np.array([1.0, 2.0, 4.0])
FIELDS = np.array([(1, 2.0), (3, 4.0)], [("a", "i8"), ("b", "f8")])
OF_FIELDS = np.ascontiguousarray(FIELDS["b"])
FACTOR = 2.0


class Colour(enum.IntEnum):
    RED = 3


@pk.kernel
def counted(i, x):
    return 1 if x[i] > 0.5 else 0


@pk.kernel
def two_sums(i, x):
    if x[i] > 0.5:
        return x[i], 1.0
    return 0.0, 1.0


@pk.kernel
def into_one(i, x, out):
    pk.atomic_add(out, 0, x[i])


@pk.kernel
def racy(i, x, out):
    out[0] += x[i]


@pk.kernel
def row_into_row(i, x, out):
    pk.atomic_add(out, 0, x[i])


def scaled_by(factor, table):
    @pk.kernel
    def scaled(i, x, out):
        out[i] = factor * x[i] + table[i % 3] + TAPS[i % 3]

    return scaled


@pk.kernel
def of_fields(i, out):
    out[i] = OF_FIELDS[i % 2]


@pk.kernel
def of_a_large_array(i, table, out):
    out[i] = table[i * 20_000]


@pk.kernel
def of_local(i, n, out):
    own, more = pk.local(n, pk.float64), pk.local(N, pk.float64)
    own[:] = 1.0
    more[:] = i
    out[i] = own.sum() + more.sum()


@pk.kernel
def of_words(i, u, out):
    out[i] = (u[i] + 1) & ~(1 << i)
    if u[i] > 2**40:
        out[i] |= 1


@pk.kernel
def from_the_end(i, x, out):
    out[i] = x[-i]


@pk.kernel
def of_an_enum(i, u, out):
    bits = pk.uint64(0)
    if i == Colour.RED:
        bits = ~u[i]
    out[i] = bits


@pk.kernel
def complex_sum(i, z, out):
    pk.atomic_add(out, i % 2, z[i] * 2j)


@pk.kernel
def field_views(i, a, b, out):
    out[i] = a[i] * b[i]


@pk.kernel
def drawn(i, out):
    out[i] = pk.random.normal(7, i, 0) + pk.random.uniform(7, i, 1)


@pk.function
def factorial(n):
    return 1 if n < 2 else n * factorial(n - 1)


@pk.function
def even(n):
    return n == 0 or odd(n - 1)


@pk.function
def odd(n):
    return n != 0 and even(n - 1)


@pk.function
def sum_of(x):
    return x[0] + sum_of(x[1:]) if len(x) > 1 else x[0]


@pk.kernel
def recursive(i, out):
    out[i] = factorial(i)


@pk.kernel
def mutual(i, out):
    out[i] = even(i)


@pk.kernel
def over_slices(i, x, out):
    out[i] = sum_of(x)


@pk.kernel
def backwards(i, x, out):
    out[i, :] = x[i, ::-1] + x.T[i, ::2][0]


@pk.kernel
def in_other_shapes(i, x, out):
    out[i] = x.reshape(2, 3)[i % 2, 1] + x.reshape(-1)[i] + x.reshape(3, -1).T[1, i % 3]


@pk.kernel
def column(i, x, out):
    out[i] = x[i] * 2.0


@pk.kernel
def halves(i, h, x, out):
    out[i] = h[i] < x[i]


@pk.kernel
def of_a_tuple(i, x, out):
    own = pk.local(3, pk.float64)
    own[:] = (1.0, x[i], 3.0)
    for v, w in zip(own, x):
        out[i] += v * w


@pk.kernel
def of_kinds(i, out):
    out[i] = TAPS[i % 3] * (i, 2.5 * i, 4)[i % 3]


@pk.kernel
def loop_variable(i, out):
    for k in range(3):
        out[i] += k
    k = 0.5
    out[i] += k


@pk.kernel
def one_branch(i, x, out):
    if x[i] > 0.5:
        t = x[i]
    out[i] = t


@pk.kernel
def empty_loop(i, n, out):
    for k in range(n[i]):
        out[i] += k
    out[i] = k


@pk.kernel
def set_later(i, n, out):
    for k in range(n):
        if k > 2:
            x = z + 1  # noqa: F821
        else:
            z, x = 10, 0  # noqa: F841
    out[i] = x


@pk.kernel
def counters(i, n, out):
    k = found = 0
    while k < n[i]:
        found += k % 2
        k += 1
    out[i] = found * 100 + k


@pk.kernel
def anew_each_trip(i, x, out):
    for k in range(3):
        own = pk.local(2, pk.float64)
        own[:] = 0.0
        own[k % 2] += x[i]
        out[i] += own.sum()


@pk.kernel
def quotients(i, a, b, out):
    out[i, 0], out[i, 1] = a[i] // b[i], a[i] % b[i]


@pk.kernel
def by_zero(i, x, out):
    out[i] = 1.0 / x[i] if i < 3 else 1.0 // x[i]


@pk.function
def collatz(m):
    steps = 0
    while m != 1:
        m = m // 2 if m % 2 == 0 else 3 * m + 1
        steps += 1
    return steps


@pk.kernel
def uneven(i, out):
    for k in range(i % 5):
        out[i] += collatz(i + k + 1)


@pk.kernel
def element(i, x):
    return x[i]


@pk.kernel
def box(i, j, k, m, z, out):
    out[i, j, k, m] = (z[i, j, k, m, 0] * z[i, j, k, m, 1]).real


@pk.kernel
def scan_in_a_share(team, x, out):
    for j in team.thread_range(4):
        out[j] = team.scan(x[j])


@pk.kernel
def pairs(i, x):
    return x[i], 2.0 * x[i]


@pk.kernel
def one_after_another(team, x, out):
    a = team.reduce(x[team.rank % 4])
    b = team.reduce(a * 0.0 + 1.0)
    c = team.reduce(x[team.rank % 4], Largest)
    if team.single():
        out[team.league_rank] = a / b + c * 0.0


def larger(a, b):
    return a if a > b else b


Largest = pk.Reducer("Largest", larger, -math.inf)


@pk.kernel
def part_of(i, row, col):
    row[i] = i
    col[i] += 10.0


@pk.kernel
def broken_off(i, u, out):
    if i % 2 == 0:
        for k in range(u.shape[0]):
            if u[k] == 7:
                break
            out[i] += u[k]


@pk.kernel
def slots(i, x, n, out):
    if x[i] > 0.5:
        at = pk.atomic_add(n, 0, 1)
        out[at, 0], out[at, 1] = i, x[i]


@pk.kernel
def any_index(i, x, out):
    v, m = pk.vector(x[i, :3]) * 2.0, pk.matrix((1.0, 2.0), (3.0, 4.0))
    for k in range(i % 3 + 1):
        out[i] += v[k] * m[k % 2, i % 2]


@pk.kernel
def walked(i, following, out):
    k = i
    while following[k] != k:
        k = following[k]
    out[i] = k


@pk.kernel
def stack(i, out):
    own = pk.local(16, pk.int64)
    own[0], top = i, 1
    while top > 0:
        top -= 1
        k = own[top]
        out[i] += 1
        if k > 1:
            own[top], own[top + 1] = k - 1, k - 2
            top += 2


@pk.kernel
def float_bounds(i, n, out):
    for k in range(n):
        out[i] += k


@pk.kernel
def place(i):
    return i % 7


@pk.kernel
def corner(i, j):
    return (i + j) % 7


@pk.kernel
def real_parts(i, re, im, out):
    out[i] = re[i] + im[i]


@pk.kernel
def loops(i, out):
    for k in range(10, 0, -3):
        if k == 4:
            continue
        out[i] += k
    k = i
    for k in range(2, i, 2):
        out[i] += k
    out[i] += k


@pk.kernel
def whole_sum(i, k, out):
    pk.atomic_add(out, 0, k[i])


@pk.kernel
def window(i, x, w, out):
    part = x[i : i + w]
    for v in part:
        out[i] += v
    out[i] += len(part)


@pk.kernel
def energy(i, h, x):
    v = x[i]
    for _ in range(3):
        v = v * h + 1.0
    return v


@pk.kernel
def shifted(i, x, out):
    out[i, 1:] = x[i, :-1]
    out[i, 0] = x[i, -3:].sum()


@pk.kernel
def scattered(i, ind, out):
    for j in ind[i, 1:3]:
        pk.atomic_add(out, j, 1.0)


@pk.kernel
def recurrence(i, a, out):
    state = pk.matrix((1.0, 0.0), (0.0, 1.0))
    for _ in range(5):
        state = pk.matrix(a[i, :2, :2]) @ state
    out[i] = state


@pk.kernel
def small_updates(i, big, n):
    for k in range(n):
        big[i, k] += k
