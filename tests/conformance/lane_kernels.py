"""Kernels of each construct of the language: each case is a kernel and a function that makes its arguments.

`test_step09_lanes.py` runs each on every space and as plain Python. Sizes leave a remainder after whole
packs. Inactive lanes have indices outside of all arrays, so that a load or a store that ignores its mask is
detected.
"""

import numpy as np

import portable as pk

N = 37
NOWHERE = 2**40
CASES = []


def case(make, dtypes=(np.float64, np.float32), terms=1):
    """Make a kernel and its rows, with `make(rng, dtype) -> args`; `terms` is the number of roundings that
    its bound allows for."""

    def add(fn):
        kernel = pk.kernel(fn)
        CASES.extend((kernel, make, dtype, terms) for dtype in dtypes)
        return kernel

    return add


def x_and_out(rng, dtype):
    return rng.random(N).astype(dtype), np.full(N, -7, dtype)


def signed_and_out(rng, dtype):
    return rng.normal(size=N).astype(dtype), np.full(N, -7, dtype)


def whole_numbers(rng, dtype):
    return rng.integers(-9, 10, N).astype(dtype), np.zeros(N, dtype)


INTEGERS = (np.int64, np.int32)


# ---------------------------------------------------------------- branches
@case(x_and_out)
def nested_if(i, x, out):
    if x[i] > 0.5:
        if x[i] > 0.75:
            out[i] = 4.0
        else:
            out[i] = 3.0 * x[i]
    elif x[i] > 0.25:
        out[i] = 2.0
    else:
        out[i] = x[i]
        if x[i] < 0.1:
            out[i] += 10.0


@case(x_and_out)
def and_or_not(i, x, out):
    if i > 0 and x[i - 1] > 0.5 or not x[i] > 0.3:
        out[i] = 1.0
    if not (0.2 < x[i] <= 0.8) and (i < 3 or x[i - 3] >= 0.1):
        out[i] += 2.0


@case(lambda rng, dtype: (rng.random(N).astype(dtype), True, 3, 0.0, np.zeros(N, dtype)))
def uniform_ifs(i, x, flag, level, nothing, out):
    if flag:
        out[i] = x[i]
    else:
        out[i] = -x[i]
    if level > 2:
        out[i] *= 2.0
    if nothing:
        out[i] = 0.0
    if level == 3 and x[i] > 0.5:
        out[i] += 1.0


@case(lambda rng, dtype: (rng.random(N).astype(dtype), np.zeros(N, bool), np.zeros(N, dtype)))
def flags_are_values(i, x, mask, out):
    high = x[i] > 0.5
    odd = i % 2 == 1
    both = high and odd
    mask[i] = both or x[i] < 0.1
    if both != high:
        out[i] = 1.0
    if not both:
        out[i] += high
    out[i] += 2 * mask[i] + (high == odd)


@case(whole_numbers, INTEGERS)
def truth_of_numbers(i, x, out):
    if x[i]:
        out[i] = 1
    if not x[i] % 3:
        out[i] += 2
    left = abs(x[i])
    while left:
        left -= 1
        out[i] += 10


# ---------------------------------------------------------------- loops
@case(whole_numbers, INTEGERS)
def collatz(i, x, out):
    k = abs(x[i]) + 1
    steps = 0
    while k != 1:
        if k % 2 == 0:
            k = k // 2
        else:
            k = 3 * k + 1
        steps += 1
    out[i] = steps


@case(
    lambda rng, dtype: (
        rng.integers(0, 500, N),
        rng.integers(0, 40, N),
        rng.random(600).astype(dtype),
        np.zeros(N, dtype),
    ),
    terms=40,
)
def ragged_range(i, start, length, x, out):
    s = 0.0
    for k in range(start[i], start[i] + length[i]):
        if x[k] > 0.9:
            break
        if x[k] < 0.1:
            continue
        s += x[k]
    out[i] = s


@case(x_and_out, terms=200)
def nested_loops_with_exits(i, x, out):
    s = 0.0
    for a in range(6):
        if x[i] * a > 3.0:
            break
        for b in range(i % 5, 8):
            if b == a:
                continue
            if x[(i + b) % x.shape[0]] > 0.8:
                break
            s += x[(a + b) % x.shape[0]]
        while s > 2.0:
            s -= 0.75
            if a == 3:
                break
    out[i] = s


@case(whole_numbers, INTEGERS)
def loop_variable_afterwards(i, x, out):
    k = -1
    for k in range(abs(x[i])):
        pass
    m = -1
    for m in range(9):
        if m > x[i]:
            break
    out[i] = 100 * k + m


@case(whole_numbers, INTEGERS)
def bounds_are_read_once(i, x, out):
    m = abs(x[i])
    n = 0
    for k in range(m):
        m = 0
        k += 5
        n += k
    out[i] = n + m


@case(x_and_out)
def one_name_for_two_loops(i, x, out):
    s = 0.0
    for j in range(3):
        s += j
    for j in range(i % 4):
        s += 0.5 * j
    j = x[i]
    out[i] = s + j


@case(
    lambda rng, dtype: (
        np.arange(N, dtype=dtype) // 12 * 4 + np.arange(N, dtype=dtype) % 4,
        np.zeros(N, dtype),
    ),
    INTEGERS,
)
def all_lanes_of_a_branch_leave(i, x, out):
    if x[i] % 4 == 2:
        if x[i] > 3:
            return
        r = 7
    else:
        r = x[i]
        for k in range(5):
            if x[i] % 4 == 1:
                if x[i] > 5:
                    break
                r += 1
            else:
                r += 10
    out[i] = r + 1


@case(x_and_out)
def constant_conditions_leave_too(i, x, out):
    c = 1.0
    for k in range(3):
        if x[i] > 0.5:
            if SCALE > 1.0:
                break
            c = 5.0
        c += x[i]
    if x[i] < 0.25:
        if SCALE > 1.0:
            return
        c = 7.0
    out[i] = c


# ---------------------------------------------------------------- memory under masks
@case(
    lambda rng, dtype: (
        np.where(rng.random(N) < 0.5, rng.permutation(N), NOWHERE),
        rng.random(N).astype(dtype),
        np.zeros((2, N), dtype),
    )
)
def dead_lanes_touch_no_memory(i, index, x, out):
    if index[i] < x.shape[0]:
        out[0, index[i]] = x[index[i]]
    out[1, i] += x[index[i]] if index[i] < x.shape[0] else 0.0
    inside = index[i] < x.shape[0] and x[index[i]] > 0.5
    if inside:
        out[1, i] += 10.0


@case(
    lambda rng, dtype: (
        rng.integers(0, N, N).astype(np.int32),
        rng.permutation(N),
        rng.random(N).astype(dtype),
        np.zeros(N, dtype),
    )
)
def gather_and_scatter(i, source, target, x, out):
    out[target[i]] = x[source[i]]


@case(
    lambda rng, dtype: (rng.integers(0, 4, N), rng.random((4, 5, N)).astype(dtype), np.zeros((N, 5), dtype)),
    terms=5,
)
def parts_of_views(i, which, x, out):
    w = which[i]
    plane = x[2]
    tail = x[0, 1, 3:]
    for k in range(plane.shape[0]):
        row = plane[k]
        out[i, k] = row[i] + x[w, k, (i + 1) % x.shape[2]] + tail[k] + tail.shape[0]


@case(lambda rng, dtype: (rng.random((N, 6)).astype(dtype), np.zeros((N, 6), dtype)), terms=5)
def rows_of_the_own_index(i, x, out):
    row, result = x[i], out[i]
    for k in range(row.shape[0]):
        result[k] = row[k] + row[0]


@case(lambda rng, dtype: (rng.random(N).astype(dtype), np.arange(N).astype(dtype)))
def augmented_assignments(i, x, out):
    out[i] += x[i]
    out[i] -= 2.0
    out[i] *= 3.0
    out[i] /= 4.0
    n = i
    n //= 2
    n %= 5
    n <<= 2
    n |= 1
    n ^= 8
    n &= 29
    n >>= 1
    n **= 2
    out[i] += n


# ---------------------------------------------------------------- numbers


@case(
    lambda rng, dtype: (rng.integers(-(2**31), 2**31, N).astype(np.int32), np.zeros((3, N), np.int64)),
    (np.int32,),
)
def int32_wraps(i, x, out):
    out[0, i] = x[i] * x[i]
    out[1, i] = x[i] + 2000000000
    out[2, i] = x[i] * 3 - 7


@case(signed_and_out)
def weak_numbers(i, x, out):
    n = x.shape[0]
    third = 1 / 3
    out[i] = x[i] * 0.1 + i / n + third * 2**-1 + n // 2 + (i + 1) / 7 * x[i]


@case(signed_and_out)
def powers(i, x, out):
    y = abs(x[i]) + 0.5
    out[i] = x[i] ** 2 + x[i] ** 3 - y**0.5 + y**-1 + 2.0 ** x[i] + y ** x[i] + (i % 4) ** 2 + x[i] ** 0


@case(
    lambda rng, dtype: (
        np.where(rng.random(N) < 0.3, np.nan, rng.normal(size=N)).astype(dtype),
        np.zeros(N, dtype),
    )
)
def comparisons_with_nan(i, x, out):
    if x[i] < 0.0:
        out[i] += 1.0
    if not x[i] < 0.0:
        out[i] += 2.0
    if x[i] != x[i]:
        out[i] += 4.0
    if x[i] == x[i]:
        out[i] += 8.0
    if not x[i] >= 0.0 or x[i] > 1.0:
        out[i] += 16.0
    out[i] += 32.0 if -1.0 < x[i] < 1.0 else 0.0


# ---------------------------------------------------------------- functions and constants
@pk.function
def smooth_step(t):
    if t < 0.0:
        return 0.0
    if t > 1.0:
        return 1.0
    return t * t * (3.0 - 2.0 * t)


@pk.function
def step_between(x, low, high):
    return smooth_step((x - low) / (high - low))


@pk.function
def divide(a, b):
    q = a // b
    return q, a - q * b


@pk.function
def first_above(values, start, limit):
    for k in range(start, values.shape[0]):
        if values[k] > limit:
            return k
    return -1


@pk.function
def store_square(values, where, x):
    values[where] = x * x


@case(lambda rng, dtype: (rng.random(N).astype(dtype), np.zeros(N, dtype), np.zeros(N, np.int64)), terms=4)
def nested_functions(i, x, out, place):
    out[i] = step_between(x[i], 0.25, 0.75)
    q, r = divide(i, 5)
    place[i] = first_above(x, i, 0.7) + 100 * q + 1000 * r
    if x[i] > 0.5:
        store_square(out, i, step_between(x[i], 0.5, 1.5))


WEIGHTS = (0.5, -1.0, 2.0, 0.25)
SCALE = 3.0
PAIRS = ((0, 1.0), (2, -1.0))


def kernel_with_closure(offset, taps):
    def closure_constants(i, x, out):
        s = offset
        for t in taps:
            s += t * x[i]
        out[i] = s

    return closure_constants


case(x_and_out, terms=5)(kernel_with_closure(0.5, (1.0, 2.0, 3.0)))
case(x_and_out, terms=5)(kernel_with_closure(4, (0.25, 1)))


@case(x_and_out, terms=8)
def constants_from_the_module(i, x, out):
    s = SCALE
    for k in range(len(WEIGHTS)):
        s += WEIGHTS[k] * x[(i + k) % x.shape[0]]
    for w in WEIGHTS:
        s += w * x[i]
    for shift, w in PAIRS:
        s += w * x[(i + shift) % x.shape[0]]
    out[i] = s


@case(x_and_out, terms=8)
def exits_from_a_loop_over_constants(i, x, out):
    s = SCALE
    for w in WEIGHTS:
        if w < 0.0:
            continue
        if x[i] > 0.9:
            break
        s += w * x[i]
    out[i] = s


@case(x_and_out, terms=10)
def static_loops(i, x, out):
    s = 0.0
    for a in range(pk.static(3)):
        for b in range(a + 1):
            s += x[(i + a * b) % len(x)] * b - x[min(max(i - b, 0), len(x) - 3)]
    out[i] = s


@case(x_and_out)
def asserts_and_passes(i, x, out):
    """A kernel may have a docstring, and annotations."""
    assert x[i] >= 0.0, "never negative"
    s: float = 0.0
    pass
    out[i] = s + x[i]


@case(lambda rng, dtype: (rng.integers(0, 12, N).astype(dtype), np.zeros(N, dtype)), INTEGERS)
def switch_with_shared_variables(i, x, out):
    kind = x[i] % 4
    if kind == 0:
        r = 1
    elif kind == 1:
        r = x[i]
    elif kind == 2:
        if x[i] > 5:
            return
        r = 7
    else:
        r = 0
        for k in range(x[i]):
            r += k
            if r > 12:
                break
    out[i] = r
