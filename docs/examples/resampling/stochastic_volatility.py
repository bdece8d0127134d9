"""Stochastic volatility: x_t = phi x_(t-1) + sigma e_t, y_t = beta exp(x_t / 2) d_t, with standard normal e
and d.

Five filters with different phi run at once. Each is checked against the filter on a grid of states, which is
exact but for the grid, and which only a state of one dimension allows.

    python docs/examples/resampling/stochastic_volatility.py [space]
"""

import math
import sys

import numpy as np

import portable as pk
from portable.models.resampling import ParticleFilter

SIGMA, BETA = 0.3, 0.7


@pk.function
def initial(seed, stream, draw, params):
    return (params[1] / math.sqrt(1.0 - params[0] ** 2) * pk.random.normal(seed, stream, draw),)


@pk.function
def propagate(t, state, seed, stream, draw, params):
    return (params[0] * state[0] + params[1] * pk.random.normal(seed, stream, draw),)


@pk.function
def log_weight(t, state, y, params):
    scaled = y[0] / params[2]
    return -0.5 * (scaled * scaled * math.exp(-state[0]) + state[0] + math.log(2.0 * math.pi)) - math.log(
        params[2]
    )


def simulate(n_steps, phi, rng):
    x, y = rng.normal() * SIGMA / math.sqrt(1 - phi * phi), []
    for _ in range(n_steps):
        y.append(BETA * math.exp(x / 2) * rng.normal())
        x = phi * x + SIGMA * rng.normal()
    return np.array(y)


def on_a_grid(y, phi, n=600):
    """Return log-likelihood and the last filtered mean, by the trapezoidal rule over six standard
    deviations."""
    sd = SIGMA / math.sqrt(1 - phi * phi)
    x, step = np.linspace(-6 * sd, 6 * sd, n, retstep=True)
    density, total = np.exp(-0.5 * (x / sd) ** 2) / (sd * math.sqrt(2 * math.pi)), 0.0
    move = np.exp(-0.5 * ((x[:, None] - phi * x) / SIGMA) ** 2) / (SIGMA * math.sqrt(2 * math.pi)) * step
    for t, value in enumerate(y):
        density = move @ density if t else density
        density = (
            density
            * np.exp(-0.5 * (value / BETA) ** 2 * np.exp(-x) - 0.5 * x)
            / (BETA * math.sqrt(2 * math.pi))
        )
        mass = density.sum() * step
        density, total = density / mass, total + math.log(mass)
    return total, float((x * density).sum() * step)


if __name__ == "__main__":
    space = sys.argv[1] if len(sys.argv) > 1 else "threads"
    few = space == "checked"
    y, phis = simulate(5 if few else 60, 0.95, np.random.default_rng(3)), np.array([0.5, 0.95])
    runs = 1 if few else 25  # filters of each phi
    params = np.repeat(np.stack([phis, np.full(2, SIGMA), np.full(2, BETA)], axis=1), runs, axis=0)
    found = ParticleFilter(initial, propagate, log_weight, space=space).run(
        y, 40 if few else 2000, params=params, seed=1
    )
    for p, phi in enumerate(phis):
        total, mean = on_a_grid(y, phi)
        own = slice(p * runs, (p + 1) * runs)
        ratio = np.exp(found.log_likelihood[own] - total)  # of likelihoods: its expectation is 1
        means = found.means[-1, 0, own]
        if not few:  # five standard errors, seen between the filters
            assert abs(ratio.mean() - 1) <= 5 * ratio.std(ddof=1) / math.sqrt(runs)
            assert abs(means.mean() - mean) <= 5 * means.std(ddof=1) / math.sqrt(runs) + 1 / 2000
        print(f"phi = {phi}: log-likelihood {np.log(ratio.mean()) + total:.3f} (grid {total:.3f})")
    print(f"stochastic_volatility on {space}: filters agree with the grid")
