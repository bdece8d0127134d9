"""Codes 5 to 8 of Murray, Lee and Jacob as printed, in single precision: peers of the study, not schemes to
use.

From some hundred thousand weights on their prefix sums W, and N W_i / W_N + u, keep too few digits:
offspring are biased. `portable.models.resampling.schemes` draws the same distributions from sums of whole
numbers. W is summed one after the other ("linear", NumPy's cumsum: the paper's CPU) or by the layer's scan
("scan": the paper's GPU).
"""

import numpy as np
from portable.models.shared.arrays import reached

import portable as pk
from portable import random


@pk.kernel
def itself(k, r, w):
    """Return the element that a scan adds."""
    return w[r, k]


@pk.function
def step_of(r, first):
    """Return the step of a row's random numbers."""
    return pk.uint64(first + r) << pk.uint64(32)


@pk.kernel
def draw_multinomial(r, k, seed, first, sums, offspring):
    """Run code 5: draw k of row r, by bisection."""
    n = sums.shape[1]
    u = random.uniform32(seed, k, step_of(r, first)) * sums[r, n - 1]
    low, high = 0, n - 1
    while low < high:
        middle = (low + high) // 2
        if sums[r, middle] < u:
            low = middle + 1
        else:
            high = middle
    pk.atomic_add(offspring, (r, low), 1)


@pk.kernel(packed=False)
def draw_sorted(r, seed, first, sums, offspring):
    """Run code 6: all draws of a row in falling order, by one index. Its W is exclusive: `sums` of the place
    before."""
    n = sums.shape[1]
    log_max, j = pk.float32(0.0), n - 1
    for k in range(n):
        i = n - k
        log_max += pk.log(random.uniform_open32(seed, i, step_of(r, first))) / pk.float32(i)
        u = sums[r, n - 1] * pk.exp(log_max)
        while j > 0 and u < sums[r, j - 1]:
            j -= 1
        offspring[r, j] += 1


@pk.kernel
def place_stratified(r, i, seed, first, sums, cumulative):
    """Run code 7: cumulative offspring of particle i of row r."""
    n = sums.shape[1]
    place = pk.float32(n) * sums[r, i] / sums[r, n - 1]
    stratum = min(n - 1, int(place))
    cumulative[r, i] = min(n, int(place + random.uniform32(seed, stratum, step_of(r, first))))


@pk.kernel
def place_systematic(r, i, seed, first, sums, cumulative):
    """Run code 8: the same with one number for all strata."""
    n = sums.shape[1]
    place = pk.float32(n) * sums[r, i] / sums[r, n - 1]
    cumulative[r, i] = min(n, int(place + random.uniform32(seed, 0, step_of(r, first))))


def _peer(kernel, linear, by_rows=False, cumulative=False):
    def offspring(weights, seed, step=0, space=None):
        """Return offspring of each row of weights; rows have separate steps.

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
        n_rows, n = weights.shape
        with pk.use(pk.default_space() if space is None else space):
            if linear:
                sums = reached(np.cumsum(weights, axis=1, dtype=np.float32))
            else:
                there, sums = reached(weights), pk.empty((n_rows, n), np.float32)
                for r in range(n_rows):
                    pk.parallel_scan(n, itself, r, there, out=sums[r])
            found = pk.zeros((n_rows, n), np.int64)
            policy = n_rows if by_rows else pk.MDRangePolicy((0, 0), (n_rows, n))
            pk.parallel_for(policy, kernel, np.uint64(seed), step * n_rows, sums, found)
            found = found.to_numpy()
        return np.diff(found, prepend=0, axis=1) if cumulative else found

    return offspring


PEERS = {
    "multinomial, code 6, linear": _peer(draw_sorted, True, by_rows=True),
    "multinomial, code 5, scan": _peer(draw_multinomial, False),
    "stratified, code 7, linear": _peer(place_stratified, True, cumulative=True),
    "stratified, code 7, scan": _peer(place_stratified, False, cumulative=True),
    "systematic, code 8, linear": _peer(place_systematic, True, cumulative=True),
    "systematic, code 8, scan": _peer(place_systematic, False, cumulative=True),
}
