"""Maximum likelihood by EM: equations (4) to (7) of `models.tmap`."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

import portable as pk
from portable.errors import InputError

from ..checks import check_count, check_number, check_seed
from . import kernels
from .checks import check_orders
from .model import TEAMS, TransientMAP, check_type
from .runs import Packed

_DEAD = 1e-9  # gaps: a branch expected to make fewer, of all the data, tells nothing about itself
_SHORTEST = 1e-3  # a branch's mean gap is at least this share of the shortest positive gap


@dataclass(frozen=True)
class FitInfo:
    """How a fit went.

    Attributes
    ----------
    log_likelihood : float
        Of the model returned.
    history : ndarray, shape (n_iterations + 1,)
        Log-likelihood before each EM step and after the last; it never falls, up to rounding.
    n_iterations : int
    converged : bool
        Whether the gain of a step, for each gap, came below `tol`.
    starts : ndarray, shape (n_starts,)
        Log-likelihood that each start came to.
    notes : tuple of str
        What is to be known about single branches; empty if nothing.
    """

    log_likelihood: float
    history: np.ndarray = field(repr=False)
    n_iterations: int
    converged: bool
    starts: np.ndarray
    notes: tuple


def fit(runs, *, orders, max_iter=500, tol=1e-8, seed=0, n_starts=1, space=None):
    """Fit a TransientMAP of given orders to runs.

    Parameters
    ----------
    runs : Runs
    orders : array-like of int, shape (n_branches,)
        One of them must be 1 where a gap is zero.
    max_iter : int
        EM steps of each start.
    tol : float
        Stop once a step raises the log-likelihood by no more than `tol` for each gap.
    seed : int, 0 to 2^64 - 1
        Of the random starts.
    n_starts : int
        Random starts; the best is returned.
    space : str or Space, optional

    Returns
    -------
    model : TransientMAP
        Branches by ascending order, and by ascending mean gap among equal orders.
    info : FitInfo

    Raises
    ------
    InputError
        All gaps are zero, or some are but no order is 1, or there are fewer gaps than branches.
    """
    check_type(runs)
    orders = check_orders(orders)
    max_iter, n_starts = check_count(max_iter, "max_iter"), check_count(n_starts, "n_starts")
    tol = check_number(tol, "tol", least=0.0)
    random = np.random.default_rng(check_seed(seed))
    _check_fit(runs, orders)
    estep = _Posterior(runs, len(orders), pk.default_space() if space is None else space)
    found = [_climb(estep, _random_start(runs, orders, random), max_iter, tol) for _ in range(n_starts)]
    best = max(found, key=lambda start: start[1][-1])
    model, history, converged = best
    order = np.lexsort((model.orders / model.rates, model.orders))
    switching = model.switching[np.ix_(order, order)]
    model = TransientMAP(model.alpha[order], model.orders[order], model.rates[order], switching)
    finals = np.array([history[-1] for _, history, _ in found])
    return model, FitInfo(history[-1], np.array(history), len(history) - 1, converged, finals, estep.notes(model))


def _check_fit(runs, orders):
    if runs.n_gaps < len(orders):
        raise InputError(f"runs hold {runs.n_gaps} gaps, fewer than the {len(orders)} branches")
    if not runs.values.max() > 0.0:
        raise InputError("all gaps are zero; no rate can be found")
    if orders.min() > 1 and runs.values.min() == 0.0:
        n_zero = int((runs.values == 0.0).sum())
        raise InputError(f"{n_zero} gaps are zero, which only a branch of order 1 can make, but orders is "
                         f"{orders.tolist()}")


def _random_start(runs, orders, random):
    """Rates around those of the mean gap, and switching that gives runs of the mean length."""
    n = len(orders)
    rates = orders / runs.values.mean() * np.exp(random.normal(0.0, 1.0, n))
    going_on = 1.0 - runs.n_runs / runs.n_gaps
    return TransientMAP(random.dirichlet(np.ones(n)), orders, rates, going_on * random.dirichlet(np.ones(n), n))


def _climb(estep, model, max_iter, tol):
    """EM from a start: the last model, the log-likelihoods, and whether they came to rest."""
    loglik, sums = estep(model)
    history = [loglik]
    for _ in range(max_iter):
        model = estep.improve(model, *sums)
        loglik, sums = estep(model)
        history.append(loglik)
        if abs(loglik - history[-2]) <= tol * estep.n_gaps:
            return model, history, True
    return model, history, False


class _Posterior:
    """The E-step on runs that stay in a space, and the M-step on its few sums."""

    def __init__(self, runs, n_branches, space):
        self.n_gaps, self.n_branches = runs.n_gaps, n_branches
        self.shortest = _SHORTEST * float(runs.values[runs.values > 0.0].min())
        self._packed = packed = Packed(runs, space)
        space = packed.x.space
        n_teams, n_sums = min(packed.n_packs, TEAMS), 1 + 3 * n_branches + n_branches**2
        self._rows = pk.empty((kernels.SWITCHING + n_branches, n_branches), np.float64, space)
        self._total = pk.empty((n_sums,), np.float64, space)
        partial = pk.empty((n_sums, n_teams), np.float64, space)
        forward = pk.empty((n_branches, *packed.x.shape), np.float64, space)
        self._launches = (
            pk.plan(pk.TeamPolicy(n_teams, packed.width, space=space), kernels.posterior_sums, pk.static(n_branches),
                    self._rows, packed.offset, packed.steps, packed.lengths, packed.x, packed.log_x, forward, partial,
                    label="tmap.posterior_sums"),
            pk.plan(pk.TeamPolicy(n_sums, 128, space=space), kernels.add_sums, partial, self._total,
                    label="tmap.add_sums"),
        )

    def __call__(self, model):
        """loglik, and (sum of q_i[1], N_i, X_i, M_ij) of (6)."""
        pk.deep_copy(self._rows, model.rows())
        for launch in self._launches:
            launch()
        total, n = self._total.to_numpy(), self.n_branches
        starts, visits, times = total[1 : 1 + 3 * n].reshape(3, n)
        return float(total[0]), (starts, visits, times, model.switching * total[1 + 3 * n :].reshape(n, n))

    def improve(self, model, starts, visits, times, moves):
        """The M-step (7); a dead branch keeps what it has, and no rate exceeds what the shortest gap allows."""
        alive = visits > _DEAD
        safe = np.where(alive, visits, 1.0)
        means = np.maximum(np.where(alive, times / safe, model.orders / model.rates), self.shortest)
        switching = np.where(alive[:, None], moves / safe[:, None], model.switching)
        return TransientMAP(starts / starts.sum(), model.orders, model.orders / means, switching)

    def notes(self, model):
        """Words on the branches of the final model that hold little information."""
        visits = self(model)[1][1]
        means = model.orders / model.rates
        dead = (f"branch {i} is dead: no gap is expected to come from it, and its rate and switching mean nothing"
                for i in np.flatnonzero(visits <= _DEAD))
        short = (f"branch {i} takes zero gaps only: its mean is held at {self.shortest:.3g}, "
                 f"{_SHORTEST:g} of the shortest other gap"
                 for i in np.flatnonzero((means <= self.shortest * (1 + 1e-12)) & (visits > _DEAD)))
        return (*dead, *short)
