"""Rank calibration of samplers of parameters: draw parameters from their priors and data from the model, and
rank the true values among posterior draws.

Talts, Betancourt, Simpson, Vehtari, Gelman: Validating Bayesian inference algorithms with simulation-based
calibration (2018). If the sampler draws from the exact posterior, the rank of the true value among L
independent draws is uniform on 0..L. The chains of one data set are rows of one batch; the last draw of each
chain is kept, so that kept draws are independent, except for the common influence of the warm-up.

That influence is negligible if chains are long: after k autocorrelation times with frozen proposals, the
memory of the start is about exp(-k). So chains are continued, with twice as many draws each time, until they
hold LONG_ENOUGH autocorrelation times of each parameter: a memory of 2e-9, where 200 ranks would detect one
of a few hundredths. Autocorrelation times carry no information on the rank, so that this does not bias it.

For populations (SMC^2, and tempered SMC with Kalman's likelihood) evenly spaced draws are kept, so that they
come from different chains; and their estimates of the evidence are compared with the integral of Kalman's
likelihood over the priors, by quadrature: the ratio has mean 1.

Filters and smoothers are compared with closed forms, in standard errors.
"""

from __future__ import annotations

import functools
import math
import tempfile
from collections.abc import Iterator

import numpy as np

import portable as pk

from ..shared import Array, SpaceLike, check_choice, check_count, check_seed, priors
from ..shared.calibration import Ranks, rank_truths
from ..shared.posteriors import halves, mixing_looked_at, sample_size
from ..shared.processes import space_of
from . import exact, ready, smoothing
from .inference import sample_gibbs, sample_pmmh
from .populations import sample_smc, sample_smc2
from .posterior import Posterior
from .walk import random_of

MODEL = ready.linear_gaussian
PARAMS = MODEL.params(phi=0.9, sigma=0.5, tau=0.7)
N_PARTICLES, LONG = 64, 4160  # particles of a row for one team, and of a row that takes launches at each step
AT_ONCE = 2**22  # largest number of particles of a batch
# Name, options of the filter.
FILTERS = [
    ("bootstrap, systematic", {}),
    ("guided", {"guided": True}),
    ("always resampled", {"threshold": 1.0}),
    ("in the order of states", {"ordered": True}),
    ("float32", {"dtype": np.float32}),
    ("in place", {"in_place": True}),
    *((m, {"method": m}) for m in ("stratified", "multinomial", "residual", "ssp", "killing")),
    ("many particles", {}),
]


def series(missing: bool = False) -> Array:
    """Simulate observations of the model; with `missing`, a quarter of them are NaN."""
    y = MODEL.simulate(PARAMS, 20, seed=11, space="serial")[1][:, 0]
    if missing:
        y[[1, 7, 8, 13, 19]] = np.nan
    return y


def likelihoods(n_runs: int = 32_000, seed: int = 0, space=None) -> Iterator[tuple[str, bool, int, float]]:
    """Yield the mean of p(y) / p_Kalman(y) over independent filters, less its expectation 1, in standard
    errors.

    Parameters
    ----------
    n_runs : int
    seed : int
    space : str or Space, optional

    Yields
    ------
    (name of the filter, whether observations were missing, runs, z)
    """
    for name, options in FILTERS:
        filters, n_particles = MODEL.filter(space=space, **options), N_PARTICLES
        if name == "many particles":
            n_particles = LONG
        for missing in (False, True):
            y = series(missing=missing)
            total, ratios = exact.kalman(y, PARAMS).log_likelihood, []
            rows = min(n_runs, 2000, AT_ONCE // n_particles)
            for batch in range(n_runs // rows):
                values = filters.log_likelihood(
                    y, n_particles, params=np.tile(PARAMS, (rows, 1)), seed=seed + batch
                )
                ratios.append(np.exp(values - total))
            ratios = np.concatenate(ratios)
            yield name, missing, len(ratios), _z(ratios)


def smoothers(
    n_runs: int = 100, n_particles: int = 2000, seed: int = 0, space=None
) -> Iterator[tuple[str, float]]:
    """Yield the largest difference of a smoothed mean from that of Rauch, Tung and Striebel, in standard
    errors between runs.

    A mean of weighted particles has a bias of about 1 / n_particles, which is below the error of so few runs.

    Yields
    ------
    (name of the smoother, largest of 20 values of |z|)
    """
    y = series(missing=True)
    kept = MODEL.filter(space=space).run(
        y, n_particles, params=np.tile(PARAMS, (n_runs, 1)), seed=seed, keep=True
    )
    wanted = exact.smoothed(y, PARAMS).means
    found = {
        "backward simulation": smoothing.backward_paths(MODEL, kept, 50, seed=seed)[:, 0].mean(axis=-1),
        "genealogy": kept.trajectories(500, seed=seed)[:, 0].mean(axis=-1),
        "fixed lag of 15": smoothing.lagged_moments(kept, 15)[0][:, 0],
    }
    for name, means in found.items():
        z = (means.mean(axis=1) - wanted) / (means.std(axis=1, ddof=1) / math.sqrt(n_runs))
        yield name, float(np.abs(z).max())


PRIORS = {
    "phi": priors.uniform(0.2, 0.95),
    "sigma": priors.log_normal(0.6, 0.4),
    "tau": priors.log_normal(0.6, 0.4),
}
# Steps at first: after warm-up about 30 autocorrelation times for most data sets
STEPS = {"pmmh": 1000, "correlated": 1000, "gibbs": 500}
METHODS = *STEPS, "smc2", "smc"
LONG_ENOUGH = 20  # autocorrelation times of a chain after warm-up
POPULATIONS = {"n_chains": 7, "n_draws": 200, "length": 10}
_NODES = 40  # quadrature nodes for each parameter


class Calibration(Ranks):
    """Ranks of true parameters among posterior draws, and the length of chains or the accuracy of evidences.

    Attributes
    ----------
    shortest : float
        The smallest number, over data sets and parameters, of autocorrelation times in the chains after
        warm-up; NaN for populations.
    evidence_z : float
        Mean over data sets of the estimated evidence over the exact one, less 1, in its standard errors; NaN
        for chains.
    """

    shortest: float = math.nan
    evidence_z: float = math.nan

    def __str__(self) -> str:
        if math.isnan(self.shortest):
            return (
                f"{super().__str__()}; mean of evidences over exact ones, less 1: z = {self.evidence_z:.2f}"
            )
        return f"{super().__str__()}; chains of at least {self.shortest:.0f} autocorrelation times"


def calibrate(
    method: str,
    *,
    n_sets: int = 200,
    n_kept: int = 49,
    n_steps: int | None = None,
    long_enough: float = LONG_ENOUGH,
    n_observed: int = 20,
    seed: int = 0,
    space: SpaceLike = None,
    jobs: int = 1,
    progress: bool = False,
    client: object = None,
) -> Calibration:
    """Calibrate a sampler on the linear Gaussian model, with a tenth of the observations missing.

    Parameters
    ----------
    method : {"pmmh", "correlated", "gibbs", "smc2", "smc"}
        The sampler.
    n_sets : int
        Simulated data sets. Each depends only on the seed and its number.
    n_kept : int
        Draws of each posterior, each the last of a separate chain; for populations evenly spaced ones.
    n_steps : int, optional
        Initial number of steps of each chain, half of them warm-up; if not given 1,000, for particle Gibbs
        500. Unused for populations, like long_enough.
    long_enough : float
        Chains are continued, with twice as many draws each time, until they hold this number of
        autocorrelation times of every parameter.
    n_observed : int
        Observations of a data set.
    seed : int
    space : str or Space, optional
    jobs : int
        Processes that divide the data sets, each on one core unless a space is named.
    progress : bool
    client : distributed.Client or "local", optional
        Its workers divide the data sets, in place of `jobs`.

    Returns
    -------
    Calibration
        A p-value below 0.001 / 3 happens by chance once in a thousand calibrations.
    """
    check_choice(method, "method", METHODS)
    n_kept, seed = check_count(n_kept, "n_kept", 9), check_seed(seed)
    n_steps = check_count(n_steps or STEPS.get(method, 20), "n_steps", 20)
    chained, where = method in STEPS, space_of(space, jobs, client)
    if chained:
        sample = functools.partial(_of_chains, method, n_kept, n_steps, long_enough)
    else:
        sample = functools.partial(_of_populations, method, n_kept)
    one = functools.partial(_ranks, sample, n_observed, seed, where)
    how = {"jobs": jobs, "progress": progress, "client": client, "space": space}
    fields, (found,) = rank_truths(one, PRIORS, method, n_sets, n_kept, **how)
    return Calibration(**fields, **({"shortest": min(found)} if chained else {"evidence_z": _z(found)}))


def _z(ratios):
    """Compute the mean of ratios, less 1, in its standard errors."""
    return float((np.mean(ratios) - 1.0) / (np.std(ratios, ddof=1) / math.sqrt(len(ratios))))


def _ranks(sample, n_observed, seed, space, k):
    """Compute for data set k the ranks of the true parameters; return them and the further results of
    `sample`."""
    random = random_of(seed, k)
    truth = {name: float(prior.draw(random, 1)[0]) for name, prior in PRIORS.items()}
    own = int(random.integers(2**63))
    y = MODEL.simulate(truth, n_observed, seed=own, space=space)[1][:, 0]
    y[random.random(n_observed) < 0.1] = np.nan
    kept, told = sample(y, own + 1, space)
    return [int((values < truth[name]).sum()) for name, values in zip(PRIORS, kept)], told


def _of_chains(method, n_kept, n_steps, long_enough, y, seed, space):
    """Draw the last state of each chain, shape (n_params, n_kept); return it and the number of
    autocorrelation times in the chains."""
    n_draws = n_steps - n_steps // 2
    with tempfile.TemporaryDirectory() as checkpoint:  # longer chains resume from it
        options = {
            "priors": PRIORS,
            "n_chains": n_kept,
            "n_warmup": n_steps // 2,
            "seed": seed,
            "space": space,
            "checkpoint": checkpoint,
        }
        while True:
            with mixing_looked_at():
                if method == "gibbs":
                    found = sample_gibbs(MODEL, y, 20, n_draws=n_draws, **options)
                else:
                    n_blocks = 4 if method == "correlated" else 1
                    found = sample_pmmh(MODEL, y, 64, n_blocks=n_blocks, n_draws=n_draws, **options)
            length = _autocorrelation_times(found)
            if length >= long_enough:
                return [found[name][:, -1] for name in PRIORS], length
            n_draws *= 2


def _of_populations(method, n_kept, y, seed, space):
    """Draw evenly spaced states, shape (n_params, n_kept); return them and the evidence over the exact
    one."""
    options = {"priors": PRIORS, "seed": seed, "space": space} | POPULATIONS
    with mixing_looked_at():
        if method == "smc2":
            found = sample_smc2(MODEL, y, 64, **options)
        else:
            found = sample_smc(kalman_log_likelihood, data=y, **options)
    places = np.linspace(0, found.log_likelihood.size - 1, n_kept).astype(int)
    kept = [found[name].ravel()[places] for name in PRIORS]
    return kept, math.exp(found.log_evidence - log_evidence(y))


@pk.function
def kalman_log_likelihood(params, data):
    """Compute log p(y | phi, sigma, tau) of the linear Gaussian model by Kalman's filter."""
    phi, sigma, tau = params[0], params[1], params[2]
    mean, variance, total = 0.0, sigma * sigma / (1.0 - phi * phi), 0.0
    for t in range(data.shape[0]):
        if t > 0:
            mean = phi * mean
            variance = phi * phi * variance + sigma * sigma
        if not pk.isnan(data[t, 0]):
            ahead = variance + tau * tau
            total += ready.log_normal_density(data[t, 0], mean, math.sqrt(ahead))
            mean += variance / ahead * (data[t, 0] - mean)
            variance = variance * tau * tau / ahead
    return total


def log_evidence(y: Array) -> float:
    """Compute log p(y) of the linear Gaussian model under PRIORS, by Gaussian quadrature.

    Parameters
    ----------
    y : ndarray, shape (n_steps,)

    Returns
    -------
    float
    """
    inside, share = np.polynomial.legendre.leggauss(_NODES)
    normal, mass = np.polynomial.hermite_e.hermegauss(_NODES)
    middle, half, sd = (0.2 + 0.95) / 2.0, (0.95 - 0.2) / 2.0, 0.6 * np.exp(0.4 * normal)
    table = np.stack([a.ravel() for a in np.meshgrid(middle + half * inside, sd, sd, indexing="ij")])
    weights = np.einsum("i,j,k", share / 2.0, mass, mass).ravel() / (2.0 * math.pi)
    total = exact.kalman(y, table).log_likelihood
    return float(total.max() + math.log(weights @ np.exp(total - total.max())))


def _autocorrelation_times(found: Posterior) -> float:
    """Compute the number of autocorrelation times in a chain for the slowest parameter: its effective number
    of draws."""
    return min(sample_size(halves(found[name])) for name in found.names) / len(found.draws)
