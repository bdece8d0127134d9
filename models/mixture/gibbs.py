"""Blocked Gibbs sampling from the posterior of `models.mixture`, and labels that mean the same in every draw."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import portable as pk
from portable.errors import InputError

from ..store import NOWHERE
from . import kernels
from .blocks import Components, by_tile
from .prior import centred

_ROW = ("weights", "means", "covariances", "alpha", "counts")  # of a draw, as in `Posterior`
_SMALLEST = 1e-300  # a stick's room to the left and right, so that its logarithms are finite


@dataclass(frozen=True)
class Posterior:
    """Draws; component j is the same one in all of them.

    Attributes
    ----------
    weights : ndarray, shape (n_draws, k)
    means : ndarray, shape (n_draws, k, p)
    covariances : ndarray, shape (n_draws, k, p, p)
    alpha : ndarray, shape (n_draws,)
    log_likelihood : ndarray, shape (n_draws,)
        Of the points at the draw's own parameters.
    counts : ndarray, shape (n_draws, k)
        Points assigned to each component.
    """

    weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray
    alpha: np.ndarray
    log_likelihood: np.ndarray
    counts: np.ndarray


class Assignments:
    """z_i of every point, block by block, drawn in the place of l_ij."""

    def __init__(self, points, seed):
        self._points, self._seed, self.sweep = points, np.uint64(seed), 0
        with pk.use(points.space):
            self.labels = [pk.zeros((points.width(start),), np.int64) for start in points.starts]
            self._table = pk.empty((points.k, points.k), np.int64)

    def draw(self, start, n, joint, lse):
        """For `Points.sweep`."""
        labels = self.labels[self._points.starts.index(start)]
        pk.parallel_for(by_tile(joint, self._points.space), kernels.draw_labels, self._points.k, n,
                        self._seed, start, self.sweep, joint, lse, labels, label="mixture.draw_labels")

    def shared(self, others):
        """How many points have label a here and b there, shape (k, k)."""
        pk.deep_copy(self._table, 0)
        for start, own, other in zip(self._points.starts, self.labels, others):
            n = min(own.shape[0], self._points.n - start)
            pk.parallel_for(pk.RangePolicy(0, n, space=self._points.space), kernels.count_pairs, own, other, self._table,
                            label="mixture.count_pairs")
        return self._table.to_numpy()


def sample(points, prior, components, n_draws, n_burn, n_thin, seed, store=NOWHERE):
    """Draws from `components` on; see `DirichletMixture.sample_posterior`. Labels are matched to the first assignment."""
    assignment_solver()  # said now if it is missing, not after the first sweep
    chain = _Chain(points, prior, components, n_burn, n_thin, seed, store)
    n_sweeps, rows, likelihoods = n_burn + n_draws * n_thin, [], []
    for part in store.chain("sweeps", n_sweeps, chain.run):
        rows.append([part[name] for name in _ROW])
        likelihoods.extend(part["log_likelihood"].tolist())
    if len(likelihoods) == n_sweeps:  # they are those of the parameters before each sweep
        likelihoods.append(points.log_likelihood(_components(part)))
    weights, means, covariances, alpha, counts = (np.concatenate(column)[:n_draws] for column in zip(*rows))
    after = n_burn + n_thin * np.arange(1, n_draws + 1)
    return Posterior(weights, means, covariances, alpha, np.array(likelihoods)[after], counts)


class _Chain:
    """Sweeps one after the other, in parts that a store keeps."""

    def __init__(self, points, prior, components, n_burn, n_thin, seed, store):
        self._points, self._prior, self._start, self._store = points, prior, components, store
        self._n_burn, self._n_thin, self._seed = n_burn, n_thin, seed
        self._assignments, self._reference = Assignments(points, seed), None

    def run(self, before, begin, end):
        """For `Store.chain`: the draws of some sweeps, and the state after them."""
        components, alpha = self._start, self._prior.shape / self._prior.rate
        if before is not None:
            components, alpha = _components(before), float(before["state_alpha"])
        if self._reference is None and begin:
            self._sweep(0, self._start)
        rows, likelihoods, sweep = [], [], begin
        while sweep < end and not (sweep > begin and self._store.due()):
            likelihood, *sums = self._sweep(sweep, components)
            likelihoods.append(likelihood)
            n, xbar, scatter = centred("full", *sums, components.means)
            random = np.random.Generator(np.random.Philox(np.random.SeedSequence(self._seed, spawn_key=(sweep,))))
            components, alpha, covariances = draw_parameters(self._prior, alpha, n, xbar, scatter, random)
            sweep += 1
            if sweep > self._n_burn and (sweep - self._n_burn) % self._n_thin == 0:
                order = match(self._assignments.shared(self._reference))
                weights = np.exp(components.log_weights)
                rows.append((weights[order], components.means[order], covariances[order], alpha, n[order]))
        k, p = components.means.shape
        columns = zip(*rows) if rows else [()] * len(_ROW)
        found = {name: np.reshape(column, (len(rows), *shape)) for name, column, shape in
                 zip(_ROW, columns, ((k,), (k, p), (k, p, p), (), (k,)))}
        return found | {"end": np.array(sweep), "log_likelihood": np.array(likelihoods), "state_alpha": np.array(alpha),
                        "state_log_weights": components.log_weights, "state_means": components.means,
                        "state_factors": components.factors}

    def _sweep(self, sweep, components):
        self._assignments.sweep = sweep
        found = self._points.sweep(components, self._assignments.draw)
        if self._reference is None:  # the first of all: what labels mean
            self._reference = [pk.copy_of(labels, self._points.space) for labels in self._assignments.labels]
        return found


def _components(part):
    """The parameters after the sweeps of a part."""
    return Components(part["state_log_weights"], part["state_means"], part["state_factors"])


def draw_parameters(prior, alpha, n, xbar, scatter, random):
    """Sticks, alpha, covariances and means given the assignments, through the sums (3).

    V_j ~ Be(1 + n_j, alpha + sum_{l>j} n_l), alpha ~ Ga(e + k - 1, rate f - T), Sigma_j ~ IW(nu + n_j, bracket of (6)),
    mu_j ~ N((5), g Sigma_j / (1 + g n_j)).

    Returns
    -------
    Components, alpha, covariances of shape (k, p, p)
    """
    k, p = xbar.shape
    later = np.append(np.cumsum(n[:0:-1])[::-1], 0.0)
    sticks = np.clip(random.beta(1.0 + n[:-1], alpha + later[:-1]), _SMALLEST, 1.0 - np.finfo(float).epsneg)
    left = np.log1p(-sticks)
    alpha = random.gamma(prior.shape + k - 1.0) / (prior.rate - left.sum())
    log_weights = np.append(np.log(sticks), 0.0) + np.append(0.0, np.cumsum(left))
    pull = 1.0 + prior.mean_scale * n
    away = xbar - prior.mean
    bracket = prior.scale + scatter + (n / pull)[:, None, None] * away[:, :, None] * away[:, None, :]
    factors = inverse_wishart_factors(prior.dof + n, bracket, random)
    roots = np.swapaxes(np.linalg.inv(factors), 1, 2)
    noise = np.einsum("jab,jb->ja", roots, random.standard_normal((k, p)))
    means = (prior.mean + prior.mean_scale * n[:, None] * xbar) / pull[:, None]
    means += np.sqrt(prior.mean_scale / pull)[:, None] * noise
    return Components(log_weights, means, factors), alpha, roots @ np.swapaxes(roots, 1, 2)


def inverse_wishart_factors(dof, scale, random):
    """Upper triangular P with (P P')^-1 ~ IW(dof_j, scale_j), shape (k, p, p); dof has shape (k,).

    Bartlett (1933), in reverse order so that the factor is upper triangular: with scale = C C' and A_aa^2 ~ chi^2 of
    dof - p + 1 + a degrees of freedom, A_ab ~ N(0, 1) for a < b, it is P = C^-T A.
    """
    k, p = scale.shape[:2]
    a = np.triu(random.standard_normal((k, p, p)), 1)
    a[:, np.arange(p), np.arange(p)] = np.sqrt(random.chisquare(dof[:, None] - p + 1.0 + np.arange(p)))
    return np.swapaxes(np.linalg.inv(np.linalg.cholesky(scale)), 1, 2) @ a


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
