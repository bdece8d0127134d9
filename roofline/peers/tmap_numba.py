"""EM for transient Markovian arrival processes in plain numba: a run after the other, runs shared out among
threads.
"""

import math

import numpy as np
from numba import njit, prange

from portable.roofline.contract import Contender
from portable.roofline.peers.numba_threads import set_threads

CHUNKS = 64  # of runs, each with sums of its own


def contenders(values, lengths, start, n_iterations, *, threads):
    """As many EM iterations from the same start.

    Parameters
    ----------
    values : ndarray, shape (n_gaps,)
    lengths : ndarray of int, shape (n_runs,)
    start : tuple of ndarray
        alpha, orders, rates, switching.
    n_iterations : int
    threads : int
        CPU threads; 1 is compiled without parallel=True.

    Returns
    -------
    list of Contender, whose results are the log-likelihood before the last iteration
    """
    set_threads(threads)
    begin = np.concatenate([[0], np.cumsum(lengths)])
    chunk = njit(fastmath=True)(_chunk_sums)

    @njit(parallel=threads > 1, fastmath=True)
    def expectation(values, begin, alpha, orders, rates, switching, sums):
        n_runs = len(begin) - 1
        for c in prange(CHUNKS):
            chunk(
                values,
                begin,
                c * n_runs // CHUNKS,
                (c + 1) * n_runs // CHUNKS,
                alpha,
                orders,
                rates,
                switching,
                sums[c],
            )

    found = [math.nan]

    def call():
        alpha, orders, rates, switching = (np.array(part) for part in start)
        n = len(alpha)
        for _ in range(n_iterations):
            sums = np.zeros((CHUNKS, 1 + 3 * n + n * n))
            expectation(values, begin, alpha, orders, rates, switching, sums)
            total = sums.sum(axis=0)
            found[0] = total[0]
            first, visits, time = total[1 : 1 + 3 * n].reshape(3, n)
            alpha, rates = first / first.sum(), orders * visits / time
            switching = switching * total[1 + 3 * n :].reshape(n, n) / visits[:, None]
        return found[0]

    return [Contender("numba, fastmath=True", call, result=lambda: found[0])]


def _chunk_sums(values, begin, first_run, end_run, alpha, orders, rates, switching, sums):
    """Forward and backward over some runs. Densities are kept: an exponential a gap and branch, not two."""
    n = len(alpha)
    longest = 0
    for run in range(first_run, end_run):
        longest = max(longest, begin[run + 1] - begin[run])
    density, before = np.empty((longest, n)), np.empty((longest, n))
    b, behind, constants, exits = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    for i in range(n):
        constants[i] = rates[i] ** orders[i] / math.gamma(orders[i])
        exits[i] = 1.0
        for j in range(n):
            exits[i] -= switching[i, j]
    for run in range(first_run, end_run):
        base = begin[run]
        n_gaps = begin[run + 1] - base
        for i in range(n):
            before[0, i] = alpha[i]
        for k in range(n_gaps):
            x = values[base + k]
            for i in range(n):
                power = 1.0
                for _ in range(orders[i] - 1):
                    power *= x
                density[k, i] = constants[i] * power * math.exp(-rates[i] * x)
            if k + 1 < n_gaps:
                total = 0.0
                for j in range(n):
                    a = 0.0
                    for i in range(n):
                        a += before[k, i] * density[k, i] * switching[i, j]
                    before[k + 1, j] = a
                    total += a
                sums[0] += math.log(total)
                scale = 1.0 / total
                for j in range(n):
                    before[k + 1, j] *= scale
        for i in range(n):
            behind[i] = exits[i]
        for k in range(n_gaps - 1, -1, -1):
            x = values[base + k]
            total = 0.0
            for i in range(n):
                total += before[k, i] * density[k, i] * behind[i]
            if k == n_gaps - 1:
                sums[0] += math.log(total)
            scale = 1.0 / total
            for i in range(n):
                g = before[k, i] * density[k, i] * scale
                q = g * behind[i]
                if k == 0:
                    sums[1 + i] += q
                sums[1 + n + i] += q
                sums[1 + 2 * n + i] += x * q
                if k + 1 < n_gaps:
                    for j in range(n):
                        sums[1 + 3 * n + i * n + j] += g * b[j]
            total = 0.0
            for i in range(n):
                b[i] = density[k, i] * behind[i]
                total += b[i]
            scale = 1.0 / total
            for i in range(n):
                b[i] *= scale
            for i in range(n):
                behind[i] = 0.0
                for j in range(n):
                    behind[i] += switching[i, j] * b[j]
