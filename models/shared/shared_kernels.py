"""Kernels shared by several methods: sums of shards, bisection, and a hash."""

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


@pk.function
def mixed(z):
    """Return a hash of a 64-bit word: a bijection without visible pattern (Steele, Lea and Flood 2014: the
    finaliser of SplitMix)."""
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB
    return z ^ (z >> 31)
