"""Populations of weighted parameters that follow a sequence of densities: sequential Monte Carlo samplers.

Notation: densities pi_0 (the prior), pi_1, ..., pi_K (the posterior) up to constants Z_k, Z_0 = 1, of C
populations of N parameters theta_i each. A step multiplies weights by the ratio of two neighbouring
densities, and

    Z_k / Z_(k-1) = sum_i W_i w_i,   w_i = pi_k(theta_i) / pi_(k-1)(theta_i) unnormalised              (1)

with W the weights before, which sum to 1 in each population. Where the effective sample size falls short, M =
N / P parameters are drawn by their weights, and from each a Markov chain of P states that leaves pi_k
invariant begins; all M P = N states are the new population (waste-free). Its proposals are random walks with
the covariance of all populations, which also agree on when they are renewed: otherwise they know nothing of
each other, so that they tell the error of what they estimate,

    Z = mean_c Z_c,   error of log Z = sd_c(Z_c) / (sqrt(C) Z)                                        (2)

References
----------
Dau, Chopin: Waste-free sequential Monte Carlo. JRSS B 84 (2022).
Del Moral, Doucet, Jasra: Sequential Monte Carlo samplers. JRSS B 68 (2006).
"""

from __future__ import annotations

import functools
import math

import numpy as np

from portable.errors import InputError

from ..shared.checks import check_count
from .schemes import systematic
from .walk import Points, Walk, metropolis, random_of

_KNOWN = 0.5  # error of a log-evidence beyond which a note says so


class Populations:
    """Populations of a target, a sampler for `Sampling`.

    Parameters
    ----------
    target : object
        A sequence of densities, with `priors`, `remedy`, `n_keys` (of each row), `most_steps`, and `always`,
        whether each step renews. begin(values, keys) gives log-likelihoods of draws of the prior, shape
        (n_rows,); step(number, populations) what a step adds to log-weights and to log-likelihoods, the power
        of the likelihood after it, and whether that is the posterior; estimate(number, values, keys)
        log-likelihoods of proposals after it; where(number, power) its name.
    n_chains : int
        Populations.
    n_draws : int
        Parameters of each.
    length : int
        P, states of a chain.
    threshold : float
        Populations are renewed where the mean effective sample size is below threshold * n_draws.
    seed : int
    nans : Nans
    """

    piece = 1

    def __init__(self, target, n_chains, n_draws, length, threshold, seed, nans):
        self.target, self.priors, self.nans, self.seed = target, target.priors, nans, seed
        self.n_chains, self.n, self.length, self.threshold = n_chains, n_draws, length, threshold
        self.remedy, self.finished, self.number = target.remedy, False, 0

    def start(self, given):
        """Draws of the prior."""
        random, n_rows = random_of(self.seed, 0), self.n_chains * self.n
        values, keys = self.priors.draw(random, n_rows), self.fresh(random, n_rows)
        z = self.priors.to_line(values)
        self.points = Points(z, self.priors.at(z)[1], self.target.begin(values, keys), keys)
        self.log_w, self.log_z = np.zeros(n_rows), np.zeros(self.n_chains)
        self.power, self.accepted, self.walk = 0.0, np.zeros(self.n_chains), Walk(z)

    def fresh(self, random, n_rows):
        """Keys of rows."""
        return random.integers(0, 2**64, (n_rows, self.target.n_keys), np.uint64)

    def n_steps(self, n_draws, n_warmup):
        return self.target.most_steps

    def weights(self, log_w):
        """Weights that sum to 1 in each population, shape (n_chains, n), and the logarithms of their sums
        before."""
        log_w = log_w.reshape(self.n_chains, self.n)
        top = log_w.max(axis=1, keepdims=True)
        with np.errstate(invalid="ignore"):  # a population all of whose parameters are impossible
            w = np.exp(log_w - top)
            total = w.sum(axis=1, keepdims=True)
            return w / total, (top + np.log(total))[:, 0]

    def size(self, log_w):
        """The mean effective sample size."""
        return float((1.0 / (self.weights(log_w)[0] ** 2).sum(axis=1)).mean())

    def step(self, number, warm):
        """Weights, and where they are too uneven new parameters."""
        random = random_of(self.seed, 1, number)
        added, gained, power, finished = self.target.step(number, self)
        log_w = self.log_w + added
        points = self.points._replace(log_likelihood=self.points.log_likelihood + gained)
        log_z = self.log_z + self.weights(log_w)[1] - self.weights(self.log_w)[1]
        self._refuse_impossible(log_z, self.target.where(number, power))
        accepted, renewed = self.accepted, self.number
        if finished or self.target.always or self.size(log_w) < self.threshold * self.n:
            points, accepted = self._renewed(random, number, points, log_w, power)
            log_w, renewed = np.zeros_like(log_w), number + 1
        state = points, log_w, log_z, power, accepted, renewed, finished  # Ctrl-C comes before or after
        self.points, self.log_w, self.log_z, self.power, self.accepted, self.number, self.finished = state

    def _refuse_impossible(self, log_z, where):
        impossible = np.flatnonzero(~np.isfinite(log_z))
        if impossible.size:
            raise InputError(
                f"no parameters of population {impossible[0]} explain {where}"
                + (f" ({self.nans.first})" if self.nans.first else "")
                + "; more particles, more n_draws, or priors nearer the data are wanted"
            )

    def _chosen(self, points, log_w, random, n_each):
        """So many points of each population, by their weights."""
        chosen = systematic(
            log_weights=log_w.reshape(self.n_chains, self.n),
            seed=int(random.integers(2**63)),
            n_ancestors=n_each,
        )
        return points.of((chosen + self.n * np.arange(self.n_chains)[:, None]).ravel())

    def _renewed(self, random, number, points, log_w, power):
        """As many chains as are begun, of P states each, and the share of accepted proposals."""
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
        ahead = self.fresh(random, len(found.z))  # numbers that no step has drawn by yet
        keys = np.where(np.arange(self.target.n_keys) <= number, found.keys, ahead)
        return found._replace(keys=keys), rates.reshape(self.n_chains, -1).mean(axis=1)

    def values(self):
        """Parameters, shape (n_rows, n_free)."""
        return self.priors.from_line(self.points.z)[0]

    def seen(self):
        """Return what is kept of a step."""
        return {"log_z": self.log_z, "moved": self.accepted}

    def arrays(self):
        """Return what a step leaves for the next one."""
        return {
            **self.points._asdict(),
            **self.walk.state(),
            "log_w": self.log_w,
            "log_z_now": self.log_z,
            "accepted": self.accepted,
            "numbers": np.array([self.power, self.number]),
        }

    def restore(self, arrays):
        """Stand where `arrays` were taken."""
        self.points = Points(*(arrays[name] for name in Points._fields))
        self.log_w, self.log_z, self.accepted = (arrays[name] for name in ("log_w", "log_z_now", "accepted"))
        self.power, self.number = float(arrays["numbers"][0]), int(arrays["numbers"][1])
        self.finished = bool(arrays["finished"])
        self.walk.restore(arrays)

    def drawn(self, parts, n_draws, n_warmup):
        """Fields of a Posterior: of a run that was stopped, draws of the density that it had come to."""
        self.restore(parts[-1])
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
    """Return the logarithm of the mean of evidences of populations, and its standard error (2).

    Parameters
    ----------
    log_z : ndarray, shape (n_chains,)

    Returns
    -------
    log_evidence, error : float
        NaN is the error of one population.
    """
    top = log_z.max()
    z = np.exp(log_z - top)
    error = z.std(ddof=1) / math.sqrt(len(z)) / z.mean() if len(z) > 1 else math.nan
    return float(top + math.log(z.mean())), float(error)


def check_lengths(n_draws, length):
    """Return the parameters of a population and the states of a chain, checked.

    Parameters
    ----------
    n_draws, length : int

    Returns
    -------
    n_draws, length : int

    Raises
    ------
    DTypeError, InputError
        No whole numbers; n_draws that are no multiple of length.
    """
    length, n_draws = check_count(length, "length", 2), check_count(n_draws, "n_draws", 2)
    if n_draws % length or n_draws == length:
        raise InputError(
            f"n_draws is {n_draws} and length {length}; a multiple of length, at least twice it, is wanted:"
            " each population begins n_draws / length chains"
        )
    return n_draws, length
