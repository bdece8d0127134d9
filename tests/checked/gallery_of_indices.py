"""Kernels over ranges and boxes that are correct, each with one defect in its broken form (case.py): the line
that is then wrong carries a mark."""

import math

import numpy as np

import portable as pk

from .case import Case

N = 12
X = np.linspace(0.0, 1.0, N) + 0.5


# ---- reduction by hand: each index updates elements that other indices update
@pk.kernel
def histogram(i, x, counts):
    pk.atomic_add(counts, int(x[i] * 4.0), 1)
    # broken: counts[int(x[i] * 4.0)] += 1  # wrong


# ---- a sweep of Jacobi's method that overwrites values which its neighbours still read
@pk.kernel
def sweep(i, x, out):
    out[i] = 0.5 * (x[max(i - 1, 0)] + x[min(i + 1, x.shape[0] - 1)])
    # broken: x[i] = 0.5 * (x[max(i - 1, 0)] + x[min(i + 1, x.shape[0] - 1)])  # wrong


# ---- two steps in one launch: the second reads values that other indices write in the first
@pk.kernel
def smooth_then_difference(i, x, smooth, out):
    smooth[i] = 0.5 * x[i] + 0.25
    out[i] = 0.5 * x[(i + 1) % x.shape[0]] + 0.25 - smooth[i]
    # broken: out[i] = smooth[(i + 1) % x.shape[0]] - smooth[i]  # wrong


# ---- the place of the smallest: of several equal ones any may win
@pk.kernel
def where_smallest(i, x, smallest, place):
    if x[i] == smallest:
        pk.atomic_min(place, 0, i)
        # broken: place[0] = i  # wrong


# ---- scatter with repeated targets
@pk.kernel
def scatter(i, target, x, out):
    pk.atomic_max(out, target[i], x[i])
    # broken: out[target[i]] = x[i]  # wrong


# ---- compaction: the counter is read and then raised, as two steps
@pk.kernel
def compact(i, x, counter, out):
    if x[i] > 1.0:
        slot = pk.atomic_add(counter, 0, 1)
        # broken: slot = counter[0]  # wrong
        # also: pk.atomic_add(counter, 0, 1)
        out[slot] = 1.0


# ---- a plain store to elements that other indices update atomically
@pk.kernel
def count_or_reset(i, x, counts):
    if x[i] > 1.45:
        pk.atomic_exchange(counts, 0, 0)
        # broken: counts[0] = 0  # wrong
    else:
        pk.atomic_add(counts, 0, 1)


# ---- transposition in place, every pair swapped twice
@pk.kernel
def transpose(i, j, a, out):
    out[i, j] = a[j, i]
    # broken: a[i, j] = a[j, i]  # wrong


# ---- the last block is shorter than the others
@pk.kernel
def double_blocks(i, block, x, out):
    for j in range(i * block, min(i * block + block, x.shape[0])):
        # broken: for j in range(i * block, i * block + block):
        out[j] = 2.0 * x[j]  # wrong


# ---- a neighbour that the last index does not have
@pk.kernel
def forward_difference(i, x, out):
    out[i] = x[i + 1] - x[i] if i + 1 < x.shape[0] else 0.0
    # broken: out[i] = x[i + 1] - x[i]  # wrong


# ---- a neighbour that the first index does not have; NumPy would take the last element
@pk.kernel
def backward_difference(i, x, out):
    out[i] = x[i] - (x[i - 1] if i > 0 else 0.0)
    # broken: out[i] = x[i] - x[i - 1]  # wrong


# ---- indices the wrong way round
@pk.kernel
def row_scale(i, j, a, out):
    out[i, j] = 2.0 * a[i, j]
    # broken: out[i, j] = 2.0 * a[j, i]  # wrong


# ---- one term too many
@pk.kernel
def row_sums(i, a, out):
    total = 0.0
    for k in range(a.shape[1]):
        # broken: for k in range(a.shape[1] + 1):
        total += a[i, k]  # wrong
    out[i] = total


# ---- -1 for "none" used as an index
@pk.kernel
def parents(i, parent, x, out):
    out[i] = x[parent[i]] if parent[i] >= 0 else 0.0
    # broken: out[i] = x[parent[i]]  # wrong


# ---- an accumulator without an initial value
@pk.kernel
def moments(i, a, out):
    sums = pk.local(2, pk.float64)
    sums[0] = 0.0  # broken: -
    for k in range(a.shape[1]):
        sums[0] += a[i, k]  # wrong
    out[i] = sums[0]


# ---- adding to an array that is only allocated
@pk.kernel
def accumulate(i, x, out):
    out[i] = x[i]
    # broken: out[i] += x[i]  # wrong


# ---- an argument that must not change
@pk.kernel
def normalise(i, x, out):
    out[i] = x[i] / 2.0
    # broken: x[i] = x[i] / 2.0  # wrong
    # also: out[i] = x[i]


# ---- a place in a large array, worked out in 32 bits
@pk.kernel
def row_starts(i, rows, width, out):
    out[i] = pk.int64(rows[i]) * width
    # broken: out[i] = rows[i] * width  # wrong


# ---- nanoseconds do not fit 32 bits
@pk.kernel
def nanoseconds(i, out, wide):
    wide[i] = i * 1_000_000_000
    # broken: out[i] = i * 1_000_000_000  # wrong


# ---- a key out of three coordinates that outgrows 64 bits
@pk.kernel
def key(i, out):
    k = (i + 3_000_000_000) % 1_000_003
    # broken: k = i + 3_000_000_000
    out[i] = k * k % 1_000_003 * k % 1_000_003
    # broken: out[i] = k * k * k % 1_000_003  # wrong


# ---- an assertion that does not hold
@pk.kernel
def logarithms(i, x, out):
    assert x[i] > 0.0, "positive"
    # broken: assert x[i] > 0.6, "positive"  # wrong
    out[i] = math.log(x[i])


# ---- NumPy's float64 among float32: all arithmetic widens
@pk.kernel
def scale(i, a, x, out):
    out[i] = pk.float32(a) * x[i]
    # broken: out[i] = a * x[i]  # wrong


# ---- random numbers of the wrong width
@pk.kernel
def noise(i, x, out):
    out[i] = x[i] + pk.random.normal32(1, i, 0)
    # broken: out[i] = x[i] + pk.random.normal(1, i, 0)  # wrong


def zeros(n=N, dtype=np.float64):
    return np.zeros(n, dtype)


def frozen(x):
    copy = x.copy()
    copy.flags.writeable = False
    return copy


X32, SQUARE, OBLONG = X.astype(np.float32), np.arange(9.0).reshape(3, 3), np.arange(12.0).reshape(3, 4)
BOX, WIDE_BOX = pk.MDRangePolicy((0, 0), (3, 3)), pk.MDRangePolicy((0, 0), (3, 4))
TIES = np.array([3.0, 1.0, 2.0, 1.0])
INDICES = [
    Case("race", histogram, N, lambda: (X, zeros(8, np.int64))),
    Case("race", sweep, N, lambda: (X.copy(), zeros())),
    Case("race", smooth_then_difference, N, lambda: (X, zeros(), zeros())),
    Case("race", where_smallest, 4, lambda: (TIES, 1.0, np.array([9]))),
    Case("race", scatter, N, lambda: (np.arange(N) // 2, X, zeros())),
    Case("non-atomic update", compact, N, lambda: (X, zeros(1, np.int64), zeros())),
    Case("non-atomic update", count_or_reset, N, lambda: (X, zeros(1, np.int64))),
    Case("race", transpose, BOX, lambda: (SQUARE.copy(), np.zeros((3, 3)))),
    Case("out of bounds", double_blocks, 3, lambda: (5, X, zeros())),
    Case("out of bounds", forward_difference, N, lambda: (X, zeros())),
    Case("negative index", backward_difference, N, lambda: (X, zeros())),
    Case("out of bounds", row_scale, WIDE_BOX, lambda: (OBLONG, np.zeros((3, 4)))),
    Case("out of bounds", row_sums, 3, lambda: (OBLONG, zeros(3))),
    Case("negative index", parents, 4, lambda: (np.array([-1, 0, 0, 1]), X, zeros(4))),
    Case("uninitialised read", moments, 3, lambda: (OBLONG, zeros(3))),
    Case("uninitialised read", accumulate, N, lambda: (X, pk.empty(N, space="checked"))),
    Case("read-only write", normalise, N, lambda: (frozen(X), zeros())),
    Case(
        "integer overflow",
        row_starts,
        3,
        lambda: (np.array([0, 50_000, 90_000], np.int32), 100_000, zeros(3, np.int64)),
    ),
    Case(
        "integer overflow",
        nanoseconds,
        5,
        lambda: (zeros(5, np.int32), zeros(5, np.int64)),
    ),
    Case("integer overflow", key, 5, lambda: (zeros(5, np.int64),)),
    Case("assertion", logarithms, N, lambda: (X, zeros())),
    Case("float64 in float32", scale, N, lambda: (np.float64(0.1), X32, zeros(N, np.float32))),
    Case("float64 in float32", noise, N, lambda: (X32, zeros(N, np.float32))),
]
