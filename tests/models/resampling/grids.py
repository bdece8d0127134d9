"""Compute likelihoods and moments of the ready models in NumPy: filters on grids, sums over finite state
spaces; slow.

Notation as in `portable.models.resampling.ready`; NaN among observations is missing.
"""

import math
from collections import defaultdict

import numpy as np
from portable.models.resampling.exact import Moments


def volatility_on_a_grid(y, params, n=600, width=7.0):
    """Return the likelihood of stochastic volatility with leverage, by the trapezoidal rule over so many
    stationary standard deviations."""
    mu, phi, sigma, rho = params
    sd = sigma / math.sqrt(1 - phi * phi)
    x, step = np.linspace(mu - width * sd, mu + width * sd, n, retstep=True)
    density, total = np.exp(-0.5 * ((x - mu) / sd) ** 2) / (sd * math.sqrt(2 * math.pi)), 0.0
    means, variances, before = np.empty(len(y)), np.empty(len(y)), np.nan
    for t, value in enumerate(y):
        if t:
            known = not np.isnan(before)
            ahead = mu + phi * (x - mu) + (sigma * rho * before * np.exp(-x / 2) if known else 0.0)
            own = sigma * math.sqrt(1 - rho * rho) if known else sigma
            density = (
                np.exp(-0.5 * ((x[:, None] - ahead) / own) ** 2)
                / (own * math.sqrt(2 * math.pi))
                * step
                @ density
            )
        if not np.isnan(value):
            density = density * np.exp(-0.5 * (value**2 * np.exp(-x) + x)) / math.sqrt(2 * math.pi)
        mass = density.sum() * step
        density, total, before = density / mass, total + math.log(mass), value
        means[t] = (x * density).sum() * step
        variances[t] = ((x - means[t]) ** 2 * density).sum() * step
    return Moments(total, means, variances)


def _binomial(n, p):
    return [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]


def _poisson(k, mean):
    return math.exp(-mean) * mean**k / math.factorial(k)


def _capped(mean, most):
    """Return the law of a Poisson number; the mass above the maximum is added to the maximum."""
    law = [_poisson(k, mean) for k in range(most)]
    return [*law, 1.0 - math.fsum(law)]


def _finite(y, law, transitions, n_substeps, rho, report=_poisson):
    """Sum over all states; `law` is that of (state, new cases), the last component of `means` is that of the
    infected; `report` is the probability of an observation of a given mean."""
    total, means = 0.0, []
    for t, value in enumerate(y):
        if t:
            ahead = defaultdict(float)
            for (state, _), p in law.items():
                ahead[state, 0] += p
            for _ in range(n_substeps):
                law, ahead = ahead, defaultdict(float)
                for (state, new), p in law.items():
                    for moved, more, q in transitions(state):
                        ahead[moved, new + more] += p * q
            law = ahead
        if not np.isnan(value):
            law = {key: p * report(int(value), rho * key[1]) for key, p in law.items()}
        mass = math.fsum(law.values())
        total += math.log(mass)
        law = {key: p / mass for key, p in law.items()}
        means.append(
            [
                math.fsum(p * key[0][-1] for key, p in law.items()),
                math.fsum(p * key[0][-1] ** 2 for key, p in law.items()),
            ]
        )
    means = np.array(means)
    return Moments(total, means[:, 0], means[:, 1] - means[:, 0] ** 2)


def sir_by_sums(y, params, population, n_substeps, duration):
    """Return the likelihood of `ready.sir` in a population of a dozen; means and variances are those of
    I."""
    beta, gamma, rho, i0 = params
    step = duration / n_substeps
    recovers = 1 - math.exp(-gamma * step)
    law = {((population - i, i), i): p for i, p in enumerate(_capped(i0, population))}

    def transitions(state):
        s, i = state
        for caught, p in enumerate(_binomial(s, 1 - math.exp(-beta * i / population * step))):
            for gone, q in enumerate(_binomial(i, recovers)):
                yield (s - caught, i + caught - gone), caught, p * q

    return _finite(y, law, transitions, n_substeps, rho)


def turnover_by_sums(y, params, population, n_substeps, duration, turnover):
    """Return the likelihood of `sir_by_sums`, with births and deaths, and reports by a gamma mixture of
    Poisson numbers."""
    beta, gamma, rho, i0, size = params
    step = duration / n_substeps
    law = {((population - i, i), i): p for i, p in enumerate(_capped(i0, population))}

    def leaving(count, rate):
        total = rate + turnover
        for gone, p in enumerate(_binomial(count, 1 - math.exp(-total * step))):
            for dead, q in enumerate(_binomial(gone, turnover / total)):
                yield dead, gone - dead, p * q

    def transitions(state):
        s, i = state
        for _, caught, p in leaving(s, beta * i / population):
            for dead, healed, q in leaving(i, gamma):
                for old, _, r in leaving(population - s - i, 0.0):
                    yield (s - caught + dead + old, i + caught - healed - dead), caught, p * q * r

    def report(count, mean):
        choose = math.gamma(count + size) / (math.gamma(size) * math.factorial(count))
        return choose * (size / (size + mean)) ** size * (mean / (size + mean)) ** count

    return _finite(y, law, transitions, n_substeps, rho, report)


def seir_by_sums(y, params, population, n_substeps, duration):
    """Return the likelihood of `ready.seir` in a population of half a dozen; means and variances are those
    of I."""
    beta, sigma, gamma, rho, i0 = params
    step, half = duration / n_substeps, population // 2
    shows, recovers = 1 - math.exp(-sigma * step), 1 - math.exp(-gamma * step)
    law = {
        ((population - e - i, e, i), i): p * q
        for e, p in enumerate(_capped(i0, half))
        for i, q in enumerate(_capped(i0, half))
    }

    def transitions(state):
        s, e, i = state
        for caught, p in enumerate(_binomial(s, 1 - math.exp(-beta * i / population * step))):
            for shown, q in enumerate(_binomial(e, shows)):
                for gone, r in enumerate(_binomial(i, recovers)):
                    yield (s - caught, e + caught - shown, i + shown - gone), shown, p * q * r

    return _finite(y, law, transitions, n_substeps, rho)


def prey_on_a_grid(y, params, prey, predators, duration, most):
    """Return the likelihood of `ready.lotka_volterra` with fewer than `most` animals of a kind, by the
    exponential of its generator; means are the prey's.

    Requires SciPy. Paths that leave the grid are lost, so that the likelihood is a lower bound, close if they
    are rare.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.linalg import expm_multiply

    birth, predation, death, noise = params
    u, v = (a.ravel() for a in np.mgrid[:most, :most])
    rows, columns, rates = [], [], []
    for du, dv, rate in ((1, 0, birth * u), (-1, 1, predation * u * v), (0, -1, death * v)):
        inside = (rate > 0) & (u + du < most) & (v + dv < most)
        here, there = np.flatnonzero(inside), ((u + du) * most + v + dv)[inside]
        rows += [there, np.flatnonzero(rate > 0)]
        columns += [here, np.flatnonzero(rate > 0)]
        rates += [rate[inside], -rate[rate > 0]]
    generator = coo_array(
        (np.concatenate(rates), (np.concatenate(rows), np.concatenate(columns))), shape=(most**2, most**2)
    ).tocsr()
    law, total = np.zeros(most**2), 0.0
    law[prey * most + predators] = 1.0
    means, variances = [], []
    for t, seen in enumerate(y):
        if t:
            law = expm_multiply(generator * duration, law)
        for value, state in zip(seen, (u, v)):
            if not np.isnan(value):
                law = law * np.exp(-0.5 * ((value - state) / noise) ** 2) / (noise * math.sqrt(2 * math.pi))
        mass = law.sum()
        law, total = law / mass, total + math.log(mass)
        means.append(law @ u)
        variances.append(law @ (u - means[-1]) ** 2)
    return Moments(total, np.array(means), np.array(variances))
