"""Kernels from public reports of users of other projects, translated to this layer, each written from the
report's description; test_reports.py launches them."""

import enum

import numpy as np
import portable as pk

N = np.int32(3)
TAPS, RATES = (1, 2.5, 4), np.array([1.0, 2.0, 4.0])
FIELDS = np.array([(1, 2.0), (3, 4.0)], [("a", "i8"), ("b", "f8")])
OF_FIELDS = np.ascontiguousarray(FIELDS["b"])


class Colour(enum.IntEnum):
    RED = 3


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
def of_local(i, n, out):
    own, more = pk.local(n, pk.float64), pk.local(N, pk.float64)
    own[:] = 1.0
    more[:] = i
    out[i] = own.sum() + more.sum()


@pk.kernel
def of_an_enum(i, u, out):
    bits = pk.uint64(0)
    if i == Colour.RED:
        bits = ~u[i]
    out[i] = bits


@pk.kernel
def complex_sum(i, z, out):
    pk.atomic_add(out, i % 2, z[i] * 2j)


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
def of_kinds(i, out):
    out[i] = TAPS[i % 3] * (i, 2.5 * i, 4)[i % 3]


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
def any_index(i, x, out):
    v, m = pk.vector(x[i, :3]) * 2.0, pk.matrix((1.0, 2.0), (3.0, 4.0))
    for k in range(i % 3 + 1):
        out[i] += v[k] * m[k % 2, i % 2]


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
def scattered(i, ind, out):
    for j in ind[i, 1:3]:
        pk.atomic_add(out, j, 1.0)
