"""Kernels shared by several methods: sums of shards, and bisection."""

import portable as pk


@pk.kernel
def add_to(i, left, right):
    """Add the sums of one or several shards, `right`, to those of the preceding shards, `left`. 24 bytes."""
    left[i] += right[i]


@pk.function
def first_not_below(values, low, high, wanted):
    """Return the first index in [low, high) of ascending values whose value is >= wanted; `high` if there is
    none."""
    while low < high:
        middle = (low + high) // 2
        if values[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low
