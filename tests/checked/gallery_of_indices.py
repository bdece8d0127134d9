"""Broken kernels over ranges and boxes, one defect each, and their corrections. The wrong line carries
a mark."""

import math

import numpy as np

import portable as pk

from .case import Case

N = 12
X = np.linspace(0.0, 1.0, N) + 0.5


# ---- reduction by hand: each index updates elements that other indices update
@pk.kernel
def histogram_broken(i, x, counts):
    counts[int(x[i] * 4.0)] += 1  # wrong


@pk.kernel
def histogram(i, x, counts):
    pk.atomic_add(counts, int(x[i] * 4.0), 1)


# ---- a sweep of Jacobi's method that overwrites values which its neighbours still read
@pk.kernel
def sweep_broken(i, x, out):
    x[i] = 0.5 * (x[max(i - 1, 0)] + x[min(i + 1, x.shape[0] - 1)])  # wrong


@pk.kernel
def sweep(i, x, out):
    out[i] = 0.5 * (x[max(i - 1, 0)] + x[min(i + 1, x.shape[0] - 1)])


# ---- two steps in one launch: the second reads values that other indices write in the first
@pk.kernel
def smooth_then_difference_broken(i, x, smooth, out):
    smooth[i] = 0.5 * x[i] + 0.25
    out[i] = smooth[(i + 1) % x.shape[0]] - smooth[i]  # wrong


@pk.kernel
def smooth_then_difference(i, x, smooth, out):
    smooth[i] = 0.5 * x[i] + 0.25
    out[i] = 0.5 * x[(i + 1) % x.shape[0]] + 0.25 - smooth[i]


# ---- the place of the smallest: of several equal ones any may win
@pk.kernel
def where_smallest_broken(i, x, smallest, place):
    if x[i] == smallest:
        place[0] = i  # wrong


@pk.kernel
def where_smallest(i, x, smallest, place):
    if x[i] == smallest:
        pk.atomic_min(place, 0, i)


# ---- scatter with repeated targets
@pk.kernel
def scatter_broken(i, target, x, out):
    out[target[i]] = x[i]  # wrong


@pk.kernel
def scatter(i, target, x, out):
    pk.atomic_max(out, target[i], x[i])


# ---- compaction: the counter is read and then raised, as two steps
@pk.kernel
def compact_broken(i, x, counter, out):
    if x[i] > 1.0:
        slot = counter[0]  # wrong
        pk.atomic_add(counter, 0, 1)
        out[slot] = 1.0


@pk.kernel
def compact(i, x, counter, out):
    if x[i] > 1.0:
        slot = pk.atomic_add(counter, 0, 1)
        out[slot] = 1.0


# ---- a plain store to elements that other indices update atomically
@pk.kernel
def count_or_reset_broken(i, x, counts):
    if x[i] > 1.45:
        counts[0] = 0  # wrong
    else:
        pk.atomic_add(counts, 0, 1)


@pk.kernel
def count_or_reset(i, x, counts):
    if x[i] > 1.45:
        pk.atomic_exchange(counts, 0, 0)
    else:
        pk.atomic_add(counts, 0, 1)


# ---- transposition in place, every pair swapped twice
@pk.kernel
def transpose_broken(i, j, a, out):
    a[i, j] = a[j, i]  # wrong


@pk.kernel
def transpose(i, j, a, out):
    out[i, j] = a[j, i]


# ---- the last block is shorter than the others
@pk.kernel
def double_blocks_broken(i, block, x, out):
    for j in range(i * block, i * block + block):
        out[j] = 2.0 * x[j]  # wrong


@pk.kernel
def double_blocks(i, block, x, out):
    for j in range(i * block, min(i * block + block, x.shape[0])):
        out[j] = 2.0 * x[j]


# ---- a neighbour that the last index does not have
@pk.kernel
def forward_difference_broken(i, x, out):
    out[i] = x[i + 1] - x[i]  # wrong


@pk.kernel
def forward_difference(i, x, out):
    out[i] = x[i + 1] - x[i] if i + 1 < x.shape[0] else 0.0


# ---- a neighbour that the first index does not have; NumPy would take the last element
@pk.kernel
def backward_difference_broken(i, x, out):
    out[i] = x[i] - x[i - 1]  # wrong


@pk.kernel
def backward_difference(i, x, out):
    out[i] = x[i] - (x[i - 1] if i > 0 else 0.0)


# ---- indices the wrong way round
@pk.kernel
def row_scale_broken(i, j, a, out):
    out[i, j] = 2.0 * a[j, i]  # wrong


@pk.kernel
def row_scale(i, j, a, out):
    out[i, j] = 2.0 * a[i, j]


# ---- one term too many
@pk.kernel
def row_sums_broken(i, a, out):
    total = 0.0
    for k in range(a.shape[1] + 1):
        total += a[i, k]  # wrong
    out[i] = total


@pk.kernel
def row_sums(i, a, out):
    total = 0.0
    for k in range(a.shape[1]):
        total += a[i, k]
    out[i] = total


# ---- -1 for "none" used as an index
@pk.kernel
def parents_broken(i, parent, x, out):
    out[i] = x[parent[i]]  # wrong


@pk.kernel
def parents(i, parent, x, out):
    out[i] = x[parent[i]] if parent[i] >= 0 else 0.0


# ---- an accumulator without an initial value
@pk.kernel
def moments_broken(i, a, out):
    sums = pk.local(2, pk.float64)
    for k in range(a.shape[1]):
        sums[0] += a[i, k]  # wrong
    out[i] = sums[0]


@pk.kernel
def moments(i, a, out):
    sums = pk.local(2, pk.float64)
    sums[0] = 0.0
    for k in range(a.shape[1]):
        sums[0] += a[i, k]
    out[i] = sums[0]


# ---- adding to an array that is only allocated
@pk.kernel
def accumulate_broken(i, x, out):
    out[i] += x[i]  # wrong


@pk.kernel
def accumulate(i, x, out):
    out[i] = x[i]


# ---- an argument that must not change
@pk.kernel
def normalise_broken(i, x, out):
    x[i] = x[i] / 2.0  # wrong
    out[i] = x[i]


@pk.kernel
def normalise(i, x, out):
    out[i] = x[i] / 2.0


# ---- a place in a large array, worked out in 32 bits
@pk.kernel
def row_starts_broken(i, rows, width, out):
    out[i] = rows[i] * width  # wrong


@pk.kernel
def row_starts(i, rows, width, out):
    out[i] = pk.int64(rows[i]) * width


# ---- nanoseconds do not fit 32 bits
@pk.kernel
def nanoseconds_broken(i, out, wide):
    out[i] = i * 1_000_000_000  # wrong


@pk.kernel
def nanoseconds(i, out, wide):
    wide[i] = i * 1_000_000_000


# ---- a key out of three coordinates that outgrows 64 bits
@pk.kernel
def key_broken(i, out):
    k = i + 3_000_000_000
    out[i] = k * k * k % 1_000_003  # wrong


@pk.kernel
def key(i, out):
    k = (i + 3_000_000_000) % 1_000_003
    out[i] = k * k % 1_000_003 * k % 1_000_003


# ---- an assertion that does not hold
@pk.kernel
def logarithms_broken(i, x, out):
    assert x[i] > 0.6, "positive"  # wrong
    out[i] = math.log(x[i])


@pk.kernel
def logarithms(i, x, out):
    assert x[i] > 0.0, "positive"
    out[i] = math.log(x[i])


# ---- NumPy's float64 among float32: all arithmetic widens
@pk.kernel
def scale_broken(i, a, x, out):
    out[i] = a * x[i]  # wrong


@pk.kernel
def scale(i, a, x, out):
    out[i] = pk.float32(a) * x[i]


# ---- random numbers of the wrong width
@pk.kernel
def noise_broken(i, x, out):
    out[i] = x[i] + pk.random.normal(1, i, 0)  # wrong


@pk.kernel
def noise(i, x, out):
    out[i] = x[i] + pk.random.normal32(1, i, 0)


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
    Case("race", histogram_broken, histogram, N, lambda: (X, zeros(8, np.int64))),
    Case("race", sweep_broken, sweep, N, lambda: (X.copy(), zeros())),
    Case("race", smooth_then_difference_broken, smooth_then_difference, N, lambda: (X, zeros(), zeros())),
    Case("race", where_smallest_broken, where_smallest, 4, lambda: (TIES, 1.0, np.array([9]))),
    Case("race", scatter_broken, scatter, N, lambda: (np.arange(N) // 2, X, zeros())),
    Case("non-atomic update", compact_broken, compact, N, lambda: (X, zeros(1, np.int64), zeros())),
    Case("non-atomic update", count_or_reset_broken, count_or_reset, N, lambda: (X, zeros(1, np.int64))),
    Case("race", transpose_broken, transpose, BOX, lambda: (SQUARE.copy(), np.zeros((3, 3)))),
    Case("out of bounds", double_blocks_broken, double_blocks, 3, lambda: (5, X, zeros())),
    Case("out of bounds", forward_difference_broken, forward_difference, N, lambda: (X, zeros())),
    Case("negative index", backward_difference_broken, backward_difference, N, lambda: (X, zeros())),
    Case("out of bounds", row_scale_broken, row_scale, WIDE_BOX, lambda: (OBLONG, np.zeros((3, 4)))),
    Case("out of bounds", row_sums_broken, row_sums, 3, lambda: (OBLONG, zeros(3))),
    Case("negative index", parents_broken, parents, 4, lambda: (np.array([-1, 0, 0, 1]), X, zeros(4))),
    Case("uninitialised read", moments_broken, moments, 3, lambda: (OBLONG, zeros(3))),
    Case("uninitialised read", accumulate_broken, accumulate, N, lambda: (X, pk.empty(N, space="checked"))),
    Case("read-only write", normalise_broken, normalise, N, lambda: (frozen(X), zeros())),
    Case(
        "integer overflow",
        row_starts_broken,
        row_starts,
        3,
        lambda: (np.array([0, 50_000, 90_000], np.int32), 100_000, zeros(3, np.int64)),
    ),
    Case(
        "integer overflow",
        nanoseconds_broken,
        nanoseconds,
        5,
        lambda: (zeros(5, np.int32), zeros(5, np.int64)),
    ),
    Case("integer overflow", key_broken, key, 5, lambda: (zeros(5, np.int64),)),
    Case("assertion", logarithms_broken, logarithms, N, lambda: (X, zeros())),
    Case("float64 in float32", scale_broken, scale, N, lambda: (np.float64(0.1), X32, zeros(N, np.float32))),
    Case("float64 in float32", noise_broken, noise, N, lambda: (X32, zeros(N, np.float32))),
]
