"""Codes 5 to 8 of Murray, Lee and Jacob as they stand, in single precision: peers of the study, not schemes
to use.

From some hundred thousand weights on their prefix sums W, and N W_i / W_N + u, keep too few digits:
offspring are biased. `models.resampling.schemes` draws the same distributions from sums of whole numbers. W
is summed one after the other ("linear", NumPy's cumsum: the paper's CPU) or by the layer's scan ("scan": the
paper's GPU).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import portable as pk
from portable import random

from ..arrays import reached


@pk.kernel
def itself(k, x):
    """What a scan adds up."""
    return x[k]


@pk.kernel
def draw_multinomial(k, seed, step, sums, offspring):
    """Code 5: draw k, by bisection."""
    n = sums.shape[0]
    u = random.uniform32(seed, k, step) * sums[n - 1]
    low, high = 0, n - 1
    while low < high:
        middle = (low + high) // 2
        if sums[middle] < u:
            low = middle + 1
        else:
            high = middle
    pk.atomic_add(offspring, low, 1)


@pk.kernel(packed=False)
def draw_sorted(one, seed, step, sums, offspring):
    """Code 6: all draws in falling order, by one index. Its W is exclusive: `sums` of the place before."""
    n = sums.shape[0]
    log_max, j = pk.float32(0.0), n - 1
    for k in range(n):
        i = n - k
        log_max += pk.log(random.uniform_open32(seed, i, step)) / pk.float32(i)
        u = sums[n - 1] * pk.exp(log_max)
        while j > 0 and u < sums[j - 1]:
            j -= 1
        offspring[j] += 1


@pk.kernel
def place_stratified(i, seed, step, sums, cumulative):
    """Code 7: cumulative offspring of particle i."""
    n = sums.shape[0]
    r = pk.float32(n) * sums[i] / sums[n - 1]
    stratum = min(n - 1, int(r))
    cumulative[i] = min(n, int(r + random.uniform32(seed, stratum, step)))


@pk.kernel
def place_systematic(i, seed, step, sums, cumulative):
    """Code 8: the same with one number for all strata."""
    n = sums.shape[0]
    r = pk.float32(n) * sums[i] / sums[n - 1]
    cumulative[i] = min(n, int(r + random.uniform32(seed, 0, step)))


def _peer(kernel, linear, one_index=False, cumulative=False):
    def offspring(weights, seed, step=0, space=None):
        """Offspring of each row of weights; rows have steps of their own.

        Parameters
        ----------
        weights : array-like, shape (n_rows, n)
        seed, step : int
        space : str or Space, optional

        Returns
        -------
        ndarray of int64, shape (n_rows, n)
        """
        weights = np.asarray(weights, np.float32)
        n = weights.shape[1]
        found = np.empty(weights.shape, np.int64)
        with pk.use(pk.default_space() if space is None else space):
            for row, w in enumerate(weights):
                draw = (step * len(weights) + row) << 32
                there, out = reached(w), pk.zeros((n,), np.int64)
                if linear:
                    sums = reached(np.cumsum(w, dtype=np.float32))
                else:
                    sums = pk.empty((n,), np.float32)
                    pk.parallel_scan(n, itself, there, out=sums)
                pk.parallel_for(1 if one_index else n, kernel, np.uint64(seed), np.uint64(draw), sums, out)
                found[row] = out.to_numpy()
        return np.diff(found, prepend=0, axis=1) if cumulative else found

    return offspring


PEERS: dict[str, Callable] = {
    "multinomial, code 6, linear": _peer(draw_sorted, True, True),
    "multinomial, code 5, scan": _peer(draw_multinomial, False),
    "stratified, code 7, linear": _peer(place_stratified, True, cumulative=True),
    "stratified, code 7, scan": _peer(place_stratified, False, cumulative=True),
    "systematic, code 8, linear": _peer(place_systematic, True, cumulative=True),
    "systematic, code 8, scan": _peer(place_systematic, False, cumulative=True),
}
