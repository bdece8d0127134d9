"""Populations of weighted parameters that follow a sequence of densities: sequential Monte Carlo samplers.

Notation: densities pi_0 (the prior), pi_1, ..., pi_K (the posterior) up to constants Z_k, Z_0 = 1, of C
populations of N parameters theta_i each. A step multiplies weights by the ratio of two neighbouring
densities, and

    Z_k / Z_(k-1) = sum_i W_i w_i,   w_i = pi_k(theta_i) / pi_(k-1)(theta_i) unnormalised              (1)

with W the weights before, which sum to 1 in each population. If the effective sample size is too small, M = N
/ P parameters are drawn by their weights, and each is the start of a Markov chain of P states that leaves
pi_k invariant; all M P = N states are the new population (waste-free). Proposals are random walks with the
covariance of all populations, which are also renewed at the same steps; otherwise populations are
independent, so that their spread estimates the error of

    Z = mean_c Z_c,   error of log Z = sd_c(Z_c) / (sqrt(C) Z)                                        (2)

There are two sequences. The first is for any density with a formula: prior x likelihood^lambda_k, 0 =
lambda_0 < lambda_1 < ... = 1; the next lambda is such that the effective sample size of the weights
likelihood^(lambda_(k+1) - lambda_k) is a given share. Moves are random walks (`walk.metropolis`), which
require only log-likelihoods.

The second is SMC^2: the posterior of a state-space model's parameters after each observation, with a filter
for each parameter. The target of step t is the prior times the filters' estimate of p(y_0..y_t | theta),
whose random numbers u are part of a particle (theta, u): iterated batch importance sampling on that larger
space, with PMMH moves (Chopin, Jacob, Papaspiliopoulos 2013). Weights are multiplied by estimates of p(y_t |
y_0..y_(t-1), theta). A filter is a function of its parameters and of a key for each step, so that filters are
never copied: if parameters are renewed, their filters are run again from the first step with their keys, and
the keys of future steps are renewed.

References
----------
Dau, Chopin: Waste-free sequential Monte Carlo. JRSS B 84 (2022).
Del Moral, Doucet, Jasra: Sequential Monte Carlo samplers. JRSS B 68 (2006).
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

import portable as pk

from ..shared import (
    ArrayLike,
    DTypeError,
    InputError,
    Real,
    ShapeError,
    Shards,
    Whole,
    as_numbers,
    check_count,
    check_share,
    launch,
    reached,
)
from . import kernels
from .arguments import ModelFunction, check_function, tried
from .banks import by_rows, rows_of
from .nan_source import named
from .inference import Estimates
from .posterior import Posterior
from .row_kernels import MOST
from .sampling import Chained, Filtering, Sampling, draw, filters_of, of_model, without_chains
from .schemes import systematic
from .state_space import StateSpaceModel
from .walk import Points, Walk, metropolis, random_of

_KNOWN = 0.5  # error of a log-evidence above which a note is added


class Populations(Chained):
    """Populations for a target, a sampler for `Sampling`.

    Parameters
    ----------
    problem : Problem
    target : callable (populations) -> object
        A sequence of densities, with `remedy`, `n_keys` (of each row), `most_steps`, and `always`, True if
        each step renews. begin(values, keys) returns log-likelihoods of draws of the prior, shape (n_rows,);
        step(number) the increments of log-weights and of log-likelihoods, the power of the likelihood after
        it, and True if that is the posterior; estimate(number, values, keys) log-likelihoods of proposals
        after the step; where(number, power) a description of the step.
    n_draws : int
        Parameters in each population.
    length : int
        P, states of a chain.
    renew_below : float
        Populations are renewed if the mean effective sample size is below renew_below * n_draws.
    """

    piece = 1

    def __init__(self, problem, target, n_draws, length, renew_below):
        super().__init__(problem)
        self.n, self.length, self.renew_below = n_draws, length, renew_below
        self.sizes = self.n_chains * n_draws, self.n_chains * (n_draws // length)
        self.target, self.finished, self.number = target(self), False, 0
        self.remedy = self.target.remedy

    def start(self, given):
        """Draw from the prior."""
        random, n_rows = random_of(self.seed, 0), self.n_chains * self.n
        values, keys = self.priors.draw(random, n_rows), self.fresh(random, n_rows)
        z = self.priors.to_line(values)
        self.points = Points(z, self.priors.at(z)[1], self.target.begin(values, keys), keys)
        self.log_w, self.log_z = np.zeros(n_rows), np.zeros(self.n_chains)
        self.power, self.accepted, self.walk = 0.0, np.zeros(self.n_chains), Walk(z)

    def fresh(self, random, n_rows):
        """Draw keys for rows."""
        return random.integers(0, 2**64, (n_rows, self.target.n_keys), np.uint64)

    def n_steps(self):
        return self.target.most_steps

    def weights(self, log_w):
        """Normalise weights to sum to 1 in each population, shape (n_chains, n); return them and the
        logarithms of their sums before."""
        log_w = log_w.reshape(self.n_chains, self.n)
        top = log_w.max(axis=1, keepdims=True)
        with np.errstate(invalid="ignore"):  # if all parameters of a population are impossible
            w = np.exp(log_w - top)
            total = w.sum(axis=1, keepdims=True)
            return w / total, (top + np.log(total))[:, 0]

    def size(self, log_w):
        """Compute the mean effective sample size."""
        return float((1.0 / (self.weights(log_w)[0] ** 2).sum(axis=1)).mean())

    def step(self, number, warm):
        """Update the weights of parameters, and renew these if the weights are too uneven."""
        random = random_of(self.seed, 1, number)
        added, gained, power, finished = self.target.step(number)
        log_w = self.log_w + added
        points = self.points._replace(log_likelihood=self.points.log_likelihood + gained)
        log_z = self.log_z + self.weights(log_w)[1] - self.weights(self.log_w)[1]
        self._refuse_impossible(log_z, self.target.where(number, power))
        accepted, renewed = self.accepted, self.number
        if finished or self.target.always or self.size(log_w) < self.renew_below * self.n:
            points, accepted = self._renewed(random, number, points, log_w, power)
            log_w, renewed = np.zeros_like(log_w), number + 1
        # nothing is called between these assignments, so that Ctrl-C cannot interrupt them
        self.points, self.log_w, self.log_z, self.power = points, log_w, log_z, power
        self.accepted, self.number, self.finished = accepted, renewed, finished

    def _refuse_impossible(self, log_z, where):
        impossible = np.flatnonzero(~np.isfinite(log_z))
        if impossible.size:
            raise InputError(
                f"no parameters of population {impossible[0]} explain {where}"
                f"{self.nans.words}; expected more particles, more n_draws, or priors nearer the data"
            )

    def _chosen(self, points, log_w, random, n_each):
        """Draw n_each points of each population by their weights."""
        chosen = systematic(
            log_weights=log_w.reshape(self.n_chains, self.n),
            seed=int(random.integers(2**63)),
            n_ancestors=n_each,
        )
        return points.of((chosen + self.n * np.arange(self.n_chains)[:, None]).ravel())

    def _renewed(self, random, number, points, log_w, power):
        """Run chains of P states, from parameters drawn by their weights; return the states, and the share of
        accepted proposals."""
        self.walk.fit(points.z, self.weights(log_w)[0].ravel() / self.n_chains)
        estimate = functools.partial(self.target.estimate, number)
        at = self._chosen(points, log_w, random, self.n // self.length)
        states, rates = [at], np.zeros(len(at.z))
        for _ in range(self.length - 1):
            z, keys = self.walk.propose(at.z, random), self.fresh(random, len(at.z))
            at, _, accepted = metropolis(at, z, keys, self.priors, estimate, random, power)
            states.append(at)
            rates += accepted / (self.length - 1)
        self.walk.tune(rates.mean(), 1.0)
        found = Points(
            *(np.stack(one, axis=1).reshape(len(points.z), *one[0].shape[1:]) for one in zip(*states))
        )
        ahead = self.fresh(random, len(found.z))  # keys that no step has used yet
        keys = np.where(np.arange(self.target.n_keys) <= number, found.keys, ahead)
        return found._replace(keys=keys), rates.reshape(self.n_chains, -1).mean(axis=1)

    def step_record(self):
        """Return the record of a step."""
        return {"log_z": self.log_z, "moved": self.accepted}

    def arrays(self):
        """Return the arrays that the next step needs, as saved in a checkpoint."""
        return super().arrays() | {
            "log_w": self.log_w,
            "log_z_now": self.log_z,
            "accepted": self.accepted,
            "numbers": np.array([self.power, self.number]),
        }

    def restore(self, arrays):
        """Restore the state from `arrays`."""
        super().restore(arrays)
        self.log_w, self.log_z, self.accepted = (arrays[name] for name in ("log_w", "log_z_now", "accepted"))
        self.power, self.number = float(arrays["numbers"][0]), int(arrays["numbers"][1])
        self.finished = bool(arrays["finished"])

    def drawn(self, parts):
        """Return the fields of a Posterior; of a stopped run, draws from the density that it had reached."""
        points, shape, notes = self.points, (self.n_chains, self.n), ()
        log_evidence, error = evidence(self.log_z)
        if not self.finished:
            points = self._chosen(points, self.log_w, random_of(self.seed, 2), self.n)
            where = self.target.where(int(parts[-1]["end"]) - 1, self.power)
            notes = (f"stopped: draws are those after {where}",)
        elif self.n_chains == 1:
            notes = ("one population does not tell the error of its evidence; take more n_chains",)
        elif error > _KNOWN:
            told = f"populations tell the log-evidence to +-{error:.2g}"
            notes = (f"the draws have not converged: {told}; {self.remedy}",)
        return {
            "draws": self.priors.from_line(points.z)[0].reshape(*shape, -1),
            "log_likelihood": points.log_likelihood.reshape(shape),
            "acceptance": self.accepted,
            "log_evidence": log_evidence,
            "log_evidence_error": error,
            "notes": notes,
        }


def evidence(log_z):
    """Compute the logarithm of the mean evidence of populations, and its standard error (2).

    Parameters
    ----------
    log_z : ndarray, shape (n_chains,)

    Returns
    -------
    log_evidence, error : float
        The error is NaN for one population.
    """
    top = log_z.max()
    z = np.exp(log_z - top)
    error = z.std(ddof=1) / math.sqrt(len(z)) / z.mean() if len(z) > 1 else math.nan
    return float(top + math.log(z.mean())), float(error)


def check_lengths(n_draws, length):
    """Check the number of parameters of a population, and of states of a chain.

    Parameters
    ----------
    n_draws, length : int

    Returns
    -------
    n_draws, length : int

    Raises
    ------
    DTypeError, InputError
        They are not whole numbers; n_draws is not a multiple of length.
    """
    length, n_draws = check_count(length, "length", 2), check_count(n_draws, "n_draws", 2)
    if n_draws % length or n_draws == length:
        raise InputError(
            f"n_draws is {n_draws} and length {length}; expected a multiple of length, at least twice it"
        )
    return n_draws, length


_HALVINGS = 60  # halvings of an interval of powers
_TRIED = 8  # rows of data with which the function is tried


class Densities:
    """A method for `sharding.Shards`, whose shards are rows of parameters: a log-likelihood."""

    def __init__(self, function, data, space):
        with pk.use(space) as self.space:
            self._function, self._data = function, reached(data)

    @by_rows
    def log_likelihoods(self, own, params):
        """Compute log-likelihoods at rows of parameters, shape (n_rows, n_params)."""
        rows = reached(np.ascontiguousarray(params[slice(*own)]))
        n_rows, n_params = rows.shape
        found, given = pk.empty(n_rows), (self._function, pk.static(n_params), rows, self._data)
        launch(n_rows, kernels.log_likelihoods, *given, found)
        return found.to_numpy()


class Tempered:
    """Densities prior x likelihood^lambda, a target of `Populations`."""

    remedy = "take more n_draws, or a longer length"
    n_keys, most_steps, always = 0, 10_000, True

    def __init__(self, function, data, populations):
        make, own = functools.partial(Densities, function, data), populations.problem
        self._populations = populations
        self._all, self._proposed = (
            Shards(make, rows_of(n), client=own.client, space=own.space, label="densities")
            for n in populations.sizes
        )

    def begin(self, values, keys):
        """Compute log-likelihoods of draws of the prior."""
        return self._evaluated(self._all, values)

    def step(self, number):
        """Choose the next power; return the increments of log-weights, and zeros, as log-likelihoods do not
        change."""
        populations = self._populations
        logs, power = populations.log_likelihood, populations.power
        wanted = populations.renew_below * populations.size(np.where(logs == -np.inf, -np.inf, 0.0))
        low, high = 0.0, 1.0 - power
        finished = populations.size(high * logs) >= wanted
        if not finished:
            for _ in range(_HALVINGS):
                middle = 0.5 * (low + high)
                if populations.size(middle * logs) >= wanted:
                    low = middle
                else:
                    high = middle
        return high * logs, np.zeros(len(logs)), 1.0 if finished else power + high, finished

    def estimate(self, number, values, keys):
        """Compute log-likelihoods of proposals."""
        return self._evaluated(self._proposed, values)

    def where(self, number, power):
        """Describe the power, for a message."""
        return f"the data, at the power {power:.3g} of the likelihood"

    def _evaluated(self, shards, values):
        own = self._populations
        table = own.table(values)
        found = np.concatenate(shards.map("log_likelihoods", table))
        found[found == np.inf] = np.nan  # inf is not the logarithm of a density
        names, said = own.priors.names, "log_likelihood gave nan or inf, with"
        return own.nans.rejected(
            found, lambda row: f"{said} {named(names, table[row])}; expected finite numbers or -inf"
        )


def sample_smc(
    log_likelihood: ModelFunction,
    *,
    data: ArrayLike | None = None,
    n_chains: Whole = 8,
    n_draws: Whole = 1000,
    length: Whole = 20,
    threshold: Real = 0.5,
    **options: Any,
) -> Posterior:
    """Draw from prior x likelihood by a tempered, waste-free SMC sampler, which estimates the evidence too.

    Parameters
    ----------
    log_likelihood : pk.function (params, data) -> number
        The logarithm of the likelihood, with its constant if the evidence is of interest; finite or -inf.
        params[j] is the j-th parameter of priors, and after these of fixed.
    data : array-like, shape (n,) or (n, n_columns), optional
        Passed to the function as rows: data[i, column]; data.shape[0] is n. NaN are passed on.
    n_chains : int
        Populations, whose spread estimates the error: the Posterior's chains.
    n_draws : int
        Parameters in each population, a multiple of length.
    length : int
        States of the Markov chains that renew parameters at each power of the likelihood; n_draws / length
        start in each population.
    threshold : float, 0 to 1
        Effective sample size, as a share of n_draws, that determines the next power.
    **options
        priors, and these options of `Sampling`: fixed, seed, checkpoint, progress, on_nan, space, client.

    Returns
    -------
    Posterior
        With log_evidence and its error.

    Raises
    ------
    InputError, DTypeError, ShapeError, FiniteError
        Arguments are wrong; all parameters of a population have likelihood 0; with on_nan="raise" one is NaN.
    KeyboardInterrupt
        After Ctrl-C; its attribute `posterior` holds draws at the power of the likelihood reached so far.

    Warns
    -----
    MixingWarning, RuntimeWarning
        Populations differ; the error of the log-evidence is above 0.5; log-likelihoods were NaN.
        `Posterior.notes` has the same text.

    References
    ----------
    Dau, Chopin: Waste-free sequential Monte Carlo. JRSS B 84 (2022).
    Jasra, Stephens, Doucet, Tsagaris: Inference for Lévy-driven stochastic volatility models via adaptive
    sequential Monte Carlo. Scandinavian Journal of Statistics 38 (2011): powers by the effective sample size.
    """
    sampling = Sampling(n_chains=n_chains, n_draws=n_draws, n_warmup=0, **without_chains(options, "inputs"))
    n_draws, length = check_lengths(n_draws, length)
    threshold = check_share(threshold, "threshold")
    check_function(log_likelihood, "log_likelihood")
    rows = np.zeros((0, 0)) if data is None else _rows(data)

    def begin(problem):
        priors, target = problem.priors, functools.partial(Tempered, log_likelihood, rows)
        _try(log_likelihood, priors.table(priors.draw(random_of(0), 1))[0], rows[:_TRIED])
        return Populations(problem, target, n_draws, length, threshold), {}

    given = [names for names in (sampling.priors, sampling.fixed) if isinstance(names, Mapping)]
    names = tuple(dict.fromkeys(itertools.chain(*given)))
    settings = {
        "log_likelihood": log_likelihood,
        "data": rows,
        "n_draws": n_draws,
        "length": length,
        "threshold": threshold,
    }
    return draw(sampling, "SMC", names, begin, settings)


def _rows(data):
    """Check data; return them as rows."""
    rows = as_numbers(data, "data").astype(np.float64)
    if rows.ndim not in (1, 2) or not rows.size:
        raise ShapeError(f"data has shape {rows.shape}; expected (n,) or (n, n_columns), not empty")
    return rows.reshape(len(rows), -1)


def _try(function, params, data):
    """Raise an error if a function does not accept its arguments, or does not return a number."""
    try:
        found = tried("log_likelihood", function, params, params, data)
    except ArithmeticError:
        return  # in a kernel these are infinities and NaN
    if found is None or np.ndim(found) or isinstance(found, tuple):
        raise DTypeError(f"log_likelihood must return a number, got {found!r:.60}")


_AHEAD = 8  # filters run ahead of their weights by at most one step in this number


class Observations:
    """Densities of parameters given a growing number of observations, a target of `Populations`."""

    remedy = "take more n_draws, a longer length, or more particles"
    always = False

    def __init__(self, populations):
        self._populations = populations
        self._all, self._proposed = (Estimates(populations, n) for n in populations.sizes)
        self.n_keys = self.most_steps = populations.problem.data.n_steps
        self._ahead = None, 0, np.zeros((0, 0))  # population, first step, and increments

    def begin(self, values, keys):
        """Return zeros: there are no observations yet."""
        return np.zeros(len(values))

    def step(self, number):
        """Return the contributions of an observation to log-weights and log-likelihoods."""
        populations, (of, first, found) = self._populations, self._ahead
        keys = populations.points.keys
        if of != populations.number or not first <= number < first + len(found):
            end = min(number + 1 + number // _AHEAD, self.most_steps)
            values, first = populations.values(), number
            found = self._all.increments(values, keys, populations.number, number, end)
            self._ahead = populations.number, number, found
        added = found[number - first]
        if np.isnan(added).any():
            added = self._all.rejected(added, populations.values(), keys)
        return added, added, 1.0, number + 1 == self.most_steps

    def estimate(self, number, values, keys):
        """Estimate log p(y_0..y_number | parameters)."""
        return self._proposed(values, keys, number + 1)

    def where(self, number, power):
        """Describe the observation, for a message."""
        return f"observation {number}"


def sample_smc2(
    model: StateSpaceModel,
    observations: ArrayLike,
    n_particles: Whole,
    *,
    n_chains: Whole = 8,
    n_draws: Whole = 1000,
    length: Whole = 10,
    renew_below: Real = 0.5,
    **options: Any,
) -> Posterior:
    """Draw from p(parameters | observations) by SMC^2, which estimates the evidence p(observations) too.

    Parameters
    ----------
    model : StateSpaceModel
    observations : as in `ParticleFilter.run`; NaN is missing
    n_particles : int, at most 4,096
        That of each parameter's filter; `particles_needed` finds a good number.
    n_chains : int
        Populations, whose spread estimates the error: the Posterior's chains.
    n_draws : int
        Parameters in each population, a multiple of length.
    length : int
        States of the PMMH chains that renew parameters; n_draws / length start in each population.
    renew_below : float, 0 to 1
        Parameters are renewed if the effective sample size of their weights is below this share of n_draws,
        and after the last observation.
    **options
        priors, and these options of `Sampling`: fixed, inputs, seed, checkpoint, progress, on_nan, space,
        client; and guided, threshold, dtype and look_ahead, as in `StateSpaceModel.filter`.

    Returns
    -------
    Posterior
        With log_evidence and its error.

    Raises
    ------
    InputError, DTypeError, ShapeError, FiniteError
        Arguments are wrong; no parameters of a population explain an observation; with on_nan="raise" a
        log-weight is NaN.
    KeyboardInterrupt
        After Ctrl-C; its attribute `posterior` holds draws given the observations so far.

    Warns
    -----
    MixingWarning, RuntimeWarning
        Populations differ; the error of the log-evidence is above 0.5; log-likelihoods were NaN.
        `Posterior.notes` has the same text.

    References
    ----------
    Chopin, Jacob, Papaspiliopoulos: SMC^2: an efficient algorithm for sequential analysis of state space
    models. JRSS B 75 (2013).
    Dau, Chopin: Waste-free sequential Monte Carlo. JRSS B 84 (2022).
    """
    sampling = Filtering(n_chains=n_chains, n_draws=n_draws, n_warmup=0, **without_chains(options))
    n_draws, length = check_lengths(n_draws, length)
    renew_below = check_share(renew_below, "renew_below")
    filters, own = filters_of(model, sampling)
    n, make = filters.count(n_particles), functools.partial(Populations, target=Observations)
    if not filters.takes_rows(n):
        raise InputError(f"n_particles is {n}; SMC^2 has at most {MOST} for each of its filters")
    filters.numbered = False
    how = {"n_draws": n_draws, "length": length, "renew_below": renew_below}
    return draw(sampling, "SMC2", *of_model(sampling, model, filters, n, observations, make, own, **how))
