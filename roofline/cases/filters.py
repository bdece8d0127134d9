"""Filters that estimate parameters: steps of particle marginal Metropolis-Hastings, all chains at once,
against the libraries that implement it.

The model is stochastic volatility (without leverage, which neither peer has): x_0 ~ N(0, s^2 / (1 - phi^2)),
x_t = phi x_(t-1) + s e_t, y_t = exp(x_t / 2) d_t. A call is FIVE steps of every chain: a proposal, one
bootstrap filter for each chain over all observations with systematic resampling below half the effective
sample size, acceptance. Peers run only the same five filters of as many chains; the JAX one resamples at
every step, which is no less work than ours: it cannot omit a row. On a GPU both sides are in float32.

The second duel is waste-free SMC^2 of the same model: POPULATIONS of N_DRAWS parameters, each with a filter,
which chains of LENGTH states of PMMH renew below half the effective sample size. Peers do the same, with a
process for each population of particles.

The compared results are means over chains of log-likelihoods at given parameters, which are random, with an
sd of about one for each filter; and log-evidences.
"""

import functools
import itertools
import math
import warnings

import numpy as np

import portable as pk
from portable.models.resampling import ParticleFilter, StateSpaceModel, priors, sample_smc2
from portable.models.resampling.banks import Problem
from portable.models.resampling.inference import Metropolis
from portable.models.resampling.joint_prior import Priors
from portable.roofline.cases import common

FIVE = 5
PHI, SIGMA = 0.95, 0.3
N_STEPS, N_CHAINS, N_PARTICLES = 1_000, 64, 1_024
POPULATIONS, N_DRAWS, LENGTH, SHORT = 2, 520, 10, 50  # observations of SMC^2
PRIORS = {"phi": priors.uniform(0.8, 0.999), "sigma": priors.log_normal(0.3, 0.3)}


@functools.cache
def functions(normal):
    """Return the model's initial function and its step, with the generator of normal numbers."""

    @pk.function
    def initial(seed, stream, draw, params):
        return (params[1] / math.sqrt(1.0 - params[0] * params[0]) * normal(seed, stream, draw),)

    @pk.function
    def propagate(t, state, seed, stream, draw, params):
        return (params[0] * state[0] + params[1] * normal(seed, stream, draw),)

    return initial, propagate


@pk.function
def log_weight(t, state, y, params):
    return -0.5 * (y[0] * y[0] * math.exp(-state[0]) + state[0]) - 0.9189385332046727


def returns(n_steps):
    """Return simulated returns."""
    random = np.random.default_rng(5)
    x, y = random.normal() * SIGMA / math.sqrt(1 - PHI * PHI), np.empty(n_steps)
    for t in range(n_steps):
        y[t] = math.exp(x / 2) * random.normal()
        x = PHI * x + SIGMA * random.normal()
    return y


def duels(space, n, quick):
    """Return the duels of ours with each peer; see `portable.roofline.cases.Case`. n is the number of
    particles."""
    whole = N_PARTICLES, N_STEPS, N_CHAINS
    known, n_steps, n_chains = common.size(space, quick, (16, 5, 2), (64, 50, 8), whole, whole)
    n_particles, normal = n or known, pk.random.normal32 if space.startswith("cuda") else pk.random.normal
    y, dtype = returns(n_steps), np.float32 if space.startswith("cuda") else np.float64
    parts = functions(normal)
    with pk.use(space):
        model = ParticleFilter(*parts, log_weight, names=("phi", "sigma"), dtype=dtype, space=space)
        given = model, model.data(y, [PHI, SIGMA], None), Priors(("phi", "sigma"), PRIORS, None), n_particles
        chains = Metropolis(Problem(*given, n_chains=n_chains, seed=7), 1)
        chains.start(np.tile([PHI, SIGMA], (n_chains, 1)))
    numbers = iter(range(10**9))

    def five():
        with pk.use(space):
            for _ in range(FIVE):
                chains.step(next(numbers), warm=False)

    def result():
        with pk.use(space):
            return float(
                chains.estimate(
                    np.tile([PHI, SIGMA], (n_chains, 1)), chains.fresh(np.random.default_rng(1))
                ).mean()
            )

    # sd of a mean over chains of log-likelihoods: about -1.4 for each step, with an sd below 3 for these
    # numbers of particles
    tolerance = 5 * 3.0 * math.sqrt(2.0 / n_chains) / abs(1.4 * n_steps)
    title = (
        f"{FIVE} steps of PMMH, stochastic volatility, {n_steps:,} observations, "
        f"{n_particles:,} particles, {n_chains} chains, {np.dtype(dtype).name}"
    )
    inputs = y, PHI, SIGMA, n_particles, n_chains, FIVE
    about = {"result": result, "tools": _tools(space), "tolerance": tolerance}
    return [
        common.duel(title, space, five, "filters", *inputs, **about),
        populations(space, parts, dtype, n_particles, quick or space == "checked"),
    ]


def populations(space, parts, dtype, n_particles, quick):
    """Return the duel of SMC^2 with each peer."""
    y, n_draws, length = (returns(8), 8, 4) if quick else (returns(SHORT), N_DRAWS, LENGTH)
    model = StateSpaceModel(("phi", "sigma"), ("x",), *parts, log_weight)
    seeds = itertools.count()

    def call():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # from draws that have not converged
            found = sample_smc2(
                model,
                y,
                n_particles,
                priors=PRIORS,
                n_chains=POPULATIONS,
                n_draws=n_draws,
                length=length,
                dtype=dtype,
                seed=next(seeds),
                space=space,
            )
        return found.log_evidence

    title = (
        f"SMC^2, stochastic volatility, {len(y)} observations, {POPULATIONS} populations of {n_draws}"
        f" parameters, {n_particles:,} particles, {np.dtype(dtype).name}"
    )
    inputs = y, n_draws, length, n_particles, POPULATIONS
    # a log-evidence has an sd below 1
    about = {"result": call, "tools": _tools(space), "tolerance": 5.0 / (1.4 * len(y))}
    return common.duel(title, space, call, "smc2", *inputs, **about)


def _tools(space):
    return ["jax" if space.startswith("cuda") else "particles"]
