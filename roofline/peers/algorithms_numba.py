"""NumPy's own calls, and loops as one writes them in numba: a radix sort and a recurrence by one thread,
ragged rows by all."""

import functools

import numpy as np
from numba import njit, prange

from portable.roofline.contract import Contender
from portable.roofline.digest import digest
from portable.roofline.peers.numba_threads import set_threads


def contenders(name, *inputs, threads):
    """NumPy's and numba's way to one result; see `layer_numba.contenders`. NumPy uses one thread whatever is
    asked.
    """
    set_threads(threads)
    return [_contender(label, call, *inputs) for label, call in WAYS[name].items()]


def _contender(label, call, *inputs):
    call = functools.partial(call, *inputs)
    return Contender(label, call, result=lambda: digest(call()))


def radix_argsort(x):
    """The stable order of numbers, those of both signs by the usual turn of their bits; no NaN, no -0.0."""
    keys = x.view(f"u{x.itemsize}")
    sign = keys.dtype.type(1 << (8 * x.itemsize - 1))
    if x.dtype.kind == "f":
        keys = np.where(keys & sign, ~keys, keys | sign)
    else:
        keys = keys ^ sign
    return _radix_text(keys, np.empty_like(keys), np.arange(len(x)), np.empty(len(x), np.int64), x.itemsize)


@njit
def _radix_text(keys, other_keys, order, other_order, n_bytes):
    n = keys.shape[0]
    counts = np.zeros((n_bytes, 256), np.int64)
    for j in range(n):
        key = keys[j]
        for b in range(n_bytes):
            counts[b, (key >> (8 * b)) & 255] += 1
    for b in range(n_bytes):
        if counts[b, (keys[0] >> (8 * b)) & 255] == n:  # all alike here
            continue
        start = 0
        for d in range(256):
            count = counts[b, d]
            counts[b, d] = start
            start += count
        for j in range(n):
            d = (keys[j] >> (8 * b)) & 255
            place = counts[b, d]
            counts[b, d] = place + 1
            other_keys[place] = keys[j]
            other_order[place] = order[j]
        keys, other_keys = other_keys, keys
        order, other_order = other_order, order
    return order


def _partition_text(x, k):
    """The k largest columns, then these in order; equal entries do not occur."""
    some = np.argpartition(x, x.shape[1] - k, axis=1)[:, x.shape[1] - k :]
    return np.take_along_axis(some, np.argsort(-np.take_along_axis(x, some, axis=1), axis=1), axis=1)


@njit(parallel=True)
def _row_sums(x, offsets):
    out = np.zeros(len(offsets) - 1)
    for r in prange(len(offsets) - 1):
        total = 0.0
        for j in range(offsets[r], offsets[r + 1]):
            total += x[j]
        out[r] = total
    return out


@njit(parallel=True)
def _row_prefixes(x, offsets):
    out = np.empty_like(x)
    for r in prange(len(offsets) - 1):
        total = 0.0
        for j in range(offsets[r], offsets[r + 1]):
            total += x[j]
            out[j] = total
    return out


@njit
def _recurrence(decay, x):
    out, level = np.empty_like(x), 0.0
    for i in range(len(x)):
        level = decay[i] * level + x[i]
        out[i] = level
    return out


WAYS = {
    "argsort": {"NumPy": functools.partial(np.argsort, kind="stable"), "numba, radix sort": radix_argsort},
    "top_k": {"NumPy, argpartition": _partition_text},
    "compact": {"NumPy": lambda keep, x: x[keep]},
    "segmented_reduce": {
        "NumPy, add.reduceat": lambda x, offsets: np.add.reduceat(x, offsets[:-1]),
        "numba prange over rows": _row_sums,
    },
    "segmented_scan": {"numba prange over rows": _row_prefixes},
    "recurrence": {"numba, one thread": _recurrence},
}
