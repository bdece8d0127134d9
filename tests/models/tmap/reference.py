"""Evaluate the model in plain NumPy, float64, from the stage matrices: slow, short, independent of the
kernels.

A run has the density start e^(D0 x_1) D1 e^(D0 x_2) D1 ... e^(D0 x_K) d.
"""

import numpy as np
from scipy.linalg import expm


def log_likelihood(model, runs):
    """Return (4), run by run."""
    return float(sum(np.log(density(model, gaps, still)) for gaps, still in zip(split(runs), runs.censored)))


def density(model, gaps, still=False):
    """Return the joint density of the gaps of one run, the last of which may be censored."""
    d0, d1, d, row = model.matrices()
    for x in gaps[:-1]:
        row = row @ expm(d0 * x) @ d1
    return float(row @ expm(d0 * gaps[-1]) @ (np.ones_like(d) if still else d))


def rescaled(model, gaps):
    """Return the probability of a gap as short as each, given those before."""
    d0, d1, _, row = model.matrices()
    found = []
    for x in gaps:
        row = row / row.sum()
        found.append(1.0 - (row @ expm(d0 * x)).sum())
        row = row @ expm(d0 * x) @ d1
    return found


def posterior_sums(model, runs):
    """Return the sums of q_i[1], N_i, X_i and M_ij of (6), by summing over the branch of each gap in turn."""
    n = model.n_branches
    starts, visits, times, moves = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros((n, n))
    for gaps in split(runs):
        emit = [_branch_densities(model, x) for x in gaps]
        before, after = [model.alpha], [model.exits]
        for f in emit[:-1]:
            before.append(before[-1] * f @ model.switching)
        for f in emit[:0:-1]:
            after.insert(0, model.switching @ (f * after[0]))
        total = density(model, gaps)
        for k, (x, f) in enumerate(zip(gaps, emit)):
            q = before[k] * f * after[k] / total
            visits += q
            times += x * q
            if k == 0:
                starts += q
            if k + 1 < len(gaps):
                moves += (before[k] * f)[:, None] * model.switching * (emit[k + 1] * after[k + 1]) / total
    return starts, visits, times, moves


def gap_moment(model, k, power):
    """Return E[x_k^power] = power! start P^(k-1) (-D0)^-power 1, with P = (-D0)^-1 D1, among runs that have a
    k-th gap."""
    d0, d1, _, start = model.matrices()
    inverse = np.linalg.inv(-d0)
    row = start @ np.linalg.matrix_power(inverse @ d1, k - 1)
    factorial = float(np.prod(np.arange(1, power + 1)))
    return factorial * (row @ np.linalg.matrix_power(inverse, power)).sum() / row.sum()


def split(runs):
    """Return the gaps of each run."""
    return np.split(runs.values, np.cumsum(runs.lengths)[:-1])


def _branch_densities(model, x):
    """Return f_i(x), the first row of the exponential of each branch's chain, times its rate."""
    found = []
    for order, rate in zip(model.orders, model.rates):
        chain = np.diag(np.full(order, -rate)) + np.diag(np.full(order - 1, rate), 1)
        found.append(expm(chain * x)[0, -1] * rate)
    return np.array(found)
