"""Points with missing coordinates: EM over the patterns in which they are missing.

Points with the same observed coordinates are processed together, by the components' marginal densities. Given
these, the missing coordinates have the conditional means and covariances of each component, so that the
expected sums (3) of complete points follow from those of the observed coordinates (Little and Rubin 2002,
section 11.2; Ghahramani and Jordan 1994 for mixtures).
"""

import functools

import numpy as np

from portable.errors import FiniteError, InputError

from . import covariance
from .blocks import Components, Points
from .em_run import Climb
from .prior import joined, steps_of
from .rows import on_host
from .steps import HostSteps
from .sweeps import OfPoints, results

_ENOUGH = 0.5  # if at least this share of the points is complete, the start is a fit to only these


class Patterns(OfPoints):
    """Points, shape (n, p), grouped by the pattern of their missing coordinates; sums and densities as of
    `blocks.Points`."""

    def __init__(self, X, k, space, centre, diagonal):
        X = on_host(X)
        there = ~np.isnan(X)
        wrong = np.isinf(X) | ~there.any(axis=1)[:, None]
        if wrong.any():
            i, c = np.argwhere(wrong)[0].tolist()
            what = "is infinite" if there[i, c] else "is NaN, as all of its row"
            raise FiniteError(
                f"X[{i}, {c}] {what}; expected finite numbers, or NaN in rows with at least one number"
            )
        self.X, self.n, self.total, self.diagonal = X, len(X), float(len(X)), diagonal
        kinds, which = np.unique(there, axis=0, return_inverse=True)
        self.parts = []
        for number, kind in enumerate(kinds):
            rows, own = np.flatnonzero(which.ravel() == number), np.flatnonzero(kind)
            points = Points(X[np.ix_(rows, own)], k, space, centre[own], diagonal)
            self.parts.append((rows, own, np.flatnonzero(~kind), points))

    def _marginal(self, components, own):
        """Return the marginal components of the coordinates `own`, and the covariances of all coordinates."""
        means, factors = components.means, components.factors
        if self.diagonal:
            return Components(components.log_weights, means[:, own], factors[:, own]), factors**-2.0
        whole = np.linalg.inv(factors @ np.swapaxes(factors, 1, 2))
        part = covariance.factors_of("full", whole[:, own[:, None], own])
        return Components(components.log_weights, means[:, own], part), whole

    def sweep(self, components):
        """Return the log-likelihood and the expected n_j, xbar_j and S_j of (3)."""
        total, found, kind = 0.0, None, "diag" if self.diagonal else "full"
        for _, own, lost, points in self.parts:
            marginal, whole = self._marginal(components, own)
            likelihood, moments = points.sweep(marginal)
            moments = self._completed(components.means, whole, own, lost, *moments)
            total, found = total + likelihood, moments if found is None else joined(kind, found, moments)
        return total, found

    def _completed(self, means, whole, own, lost, n, xbar, scatter):
        k, p = means.shape
        every = means.copy()
        every[:, own] = xbar
        if self.diagonal:
            spread = n[:, None] * whole
            spread[:, own] = scatter
            return n, every, spread
        slopes = _slopes(whole, own, lost)
        every[:, lost] += np.einsum("jab,jb->ja", slopes, xbar - means[:, own])
        lift = np.zeros((k, p, len(own)))
        lift[:, own], lift[:, lost] = np.eye(len(own)), slopes
        spread = lift @ scatter @ np.swapaxes(lift, 1, 2)
        rest = whole[:, lost[:, None], lost] - slopes @ whole[:, own[:, None], lost]
        spread[:, lost[:, None], lost] += n[:, None, None] * rest
        return n, every, spread

    def by_point(self, what, components, as_view):
        """Return one kind of results for each point, from its known coordinates; used by `OfPoints`."""
        shape, dtype = results(what, len(components.means), np.float64)
        out = np.empty((self.n, *shape), dtype)
        for rows, own, _, points in self.parts:
            out[rows] = points.by_point(what, self._marginal(components, own)[0], False)
        return out

    def completed(self, components):
        """Return the points with missing coordinates replaced by their expectations, given the known ones."""
        shares, out = self.responsibilities(components), np.array(self.X, np.float64)
        for rows, own, lost, _ in self.parts:
            _, whole = self._marginal(components, own)
            out[np.ix_(rows, lost)] = 0.0
            for j, mean in enumerate(components.means if len(lost) else ()):
                guess = np.broadcast_to(mean[lost], (len(rows), len(lost)))
                if not self.diagonal:
                    slopes = _slopes(whole[j : j + 1], own, lost)[0]
                    guess = guess + (self.X[np.ix_(rows, own)] - mean[own]) @ slopes.T
                out[np.ix_(rows, lost)] += shares[rows, j, None] * guess
        return out


def _slopes(whole, own, lost):
    """Return the regression coefficients of the missing coordinates on the known ones, shape (k, n_lost,
    n_own)."""
    known, both = whole[:, own[:, None], own], whole[:, own[:, None], lost]
    return np.swapaxes(np.linalg.solve(known, both), 1, 2)


def fit(model, X, clone):
    """Fit a DirichletMixture in place to points with NaN; `clone`, a copy of it, first fits points without
    NaN for the start."""
    X = on_host(X)
    lost = np.isnan(X)
    if lost.all(axis=0).any():
        raise InputError(f"column {int(lost.all(axis=0).argmax())} of X is missing in all rows; leave it out")
    whole = ~lost.any(axis=1)
    if whole.mean() >= _ENOUGH and whole.sum() > 5 * model.n_components:
        clone.fit(X[whole])
    else:
        clone.fit(np.where(lost, np.nanmean(X, axis=0), X))
    vars(model).update({name: v for name, v in vars(clone).items() if name.endswith("_")})
    model._centre, kind = clone._centre, model.covariance
    make = functools.partial(steps_of, model.prior_, model.reg_covar, kind)
    first = model.means_, model.covariances_
    climb = Climb(model._blocks_of(X, kind=Patterns), make, kind, model.weights_, *first, steps=_Steps)
    climb.steps.place(*first, model.precisions_cholesky_)
    model.converged_ = climb.run(model.max_iter, model.tol)
    model._ended(climb)


class _Steps(HostSteps):
    """Steps of EM over patterns, whose covariances have no rounding of sums to make up for."""

    def advance(self):
        self._model.weigh(self._moments[0])
        self.place(*self._model.maximum(*self._moments))
