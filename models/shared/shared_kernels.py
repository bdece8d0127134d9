"""Share kernels between several methods: sums of shards, and a search."""

import portable as pk


@pk.kernel
def add_to(i, left, right):
    """Add the sums of a shard, or of several, to those of the ones before. 24 bytes."""
    left[i] += right[i]


@pk.function
def first_not_below(values, low, high, wanted):
    """Return the first place in [low, high), where values rise, whose value is not below the one that is
    wanted; `high` if all are."""
    while low < high:
        middle = (low + high) // 2
        if values[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low
