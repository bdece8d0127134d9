"""Blocked Gibbs sampling from the posterior of `models.mixture`, and labels that mean the same in every draw."""

from __future__ import annotations

import numpy as np

import portable as pk
from portable.errors import InputError

from . import conjugate, covariance, gibbs_kernels
from .blocks import Components, by_tile
from .posterior import Posterior
from .prior import centred
from .split_merge import SplitMerge

_SMALLEST = 1e-300  # a stick's room to the left and right, so that its logarithms are finite


class Assignments:
    """z_i of every point, drawn in the place of l_ij."""

    def __init__(self, points, seed):
        self._points, self._seed, self.sweep = points, np.uint64(seed), 0
        with pk.use(points.space):
            self.labels = pk.zeros((points.n,), np.int64)
            self._table = pk.empty((points.k, points.k), np.int64)

    def draw(self, start, n, joint, lse):
        """For `Points.sweep`."""
        pk.parallel_for(by_tile(joint, self._points.space), gibbs_kernels.draw_labels, self._points.k, n,
                        self._seed, start, self.sweep, joint, lse, self.labels, label="mixture.draw_labels")

    def shared(self, others):
        """How many points have label a here and b there, shape (k, k)."""
        pk.deep_copy(self._table, 0)
        pk.parallel_for(pk.RangePolicy(0, self._points.n, space=self._points.space), gibbs_kernels.count_pairs, self.labels, others,
                        self._table, label="mixture.count_pairs")
        return self._table.to_numpy()


class Labels:
    """Which of a draw's components is which: those that share most points with an assignment.

    With burn-in it is that of the largest likelihood seen there, whose components are named after the mode's as far as they share points.
    """

    def __init__(self, points, assignments, components):
        self._assignments, self._best = assignments, -np.inf
        self._mode = self._reference = pk.copy_of(points.labels(components), points.space)
        self._names = np.arange(points.k)
        self._space = points.space

    def look(self, likelihood):
        """A sweep of the burn-in."""
        if likelihood > self._best:
            self._best = likelihood
            self._names = match(self._assignments.shared(self._mode))
            self._reference = pk.copy_of(self._assignments.labels, self._space)

    def order(self):
        """The draw's components in the order of their names."""
        return match(self._assignments.shared(self._reference))[self._names]


def sample(points, kind, prior, components, n_draws, n_burn, n_thin, seed, n_moves):
    """Draws from `components` on; see `DirichletMixture.sample_posterior`."""
    assignment_solver()  # said now if it is missing, not after the first sweep
    random = np.random.Generator(np.random.Philox(seed))
    assignments, alpha = Assignments(points, seed), prior.shape / prior.rate
    labels = Labels(points, assignments, components)
    moves = SplitMerge(points, kind, prior, assignments.labels, seed, random) if n_moves else None
    kept, likelihoods = [], []
    for sweep in range(n_burn + n_draws * n_thin):
        assignments.sweep = sweep
        likelihood, *sums = points.sweep(components, assignments.draw)
        likelihoods.append(likelihood)
        sums = centred(kind, *sums, components.means)
        for _ in range(n_moves):
            sums = moves.propose(components, sums)
        log_weights, alpha = draw_sticks(prior, alpha, sums[0], random)
        means, covariances, factors = conjugate.draw(kind, prior, *sums, random)
        components = Components(log_weights, means, covariance.for_each(kind, factors, *means.shape))
        if sweep < n_burn:
            labels.look(likelihood)
        elif (sweep - n_burn + 1) % n_thin == 0:
            order = labels.order()
            weights = np.exp(components.log_weights)
            kept.append((weights[order], means[order], covariances if kind == "tied" else covariances[order], alpha, sweep + 1,
                         sums[0][order]))
    likelihoods.append(points.log_likelihood(components))
    weights, means, covariances, alpha, later, counts = (np.array(column) for column in zip(*kept))
    accepted = moves.accepted / moves.proposed if moves is not None else 0.0
    return Posterior(weights, means, covariances, alpha, np.array(likelihoods)[later], counts, kind, accepted)


def draw_sticks(prior, alpha, n, random):
    """log pi_j and alpha given the assignments: V_j ~ Be(1 + n_j, alpha + sum_{l>j} n_l), alpha ~ Ga(e + k - 1, rate f - T)."""
    later = np.append(np.cumsum(n[:0:-1])[::-1], 0.0)
    sticks = np.clip(random.beta(1.0 + n[:-1], alpha + later[:-1]), _SMALLEST, 1.0 - np.finfo(float).epsneg)
    left = np.log1p(-sticks)
    alpha = random.gamma(prior.shape + len(n) - 1.0) / (prior.rate - left.sum())
    return np.append(np.log(sticks), 0.0) + np.append(0.0, np.cumsum(left)), alpha


def match(shared):
    """The order of a draw's components that gives most points the label they have in the reference, shape (k,).

    `shared[a, b]`: points with label a in the draw and b in the reference.
    """
    draw, reference = assignment_solver()(shared, maximize=True)
    return draw[np.argsort(reference)]


def assignment_solver():
    """SciPy's; InputError where it is not installed."""
    try:
        from scipy.optimize import linear_sum_assignment
    except ImportError as error:
        raise InputError("sample_posterior matches labels by SciPy, which is not installed: pip install scipy") from error
    return linear_sum_assignment
