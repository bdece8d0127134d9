"""Single steps of EM: where the components are stored, and how they are computed from the sums."""

import numpy as np

import portable as pk

from ..shared import reached
from . import covariance, step_kernels
from .blocks import Components
from .sums import CANCELS, ROUNDING, Copy, record_length, references, triangle

_MANY = 8  # iterations for which a graph is built: that takes as long as several iterations on a GPU


class HostSteps:
    """EM on the host, for covariances of few numbers: tied, diagonal and spherical ones.

    Parameters
    ----------
    points : blocks.Points
    model : prior.WithPrior or prior.WithoutPrior
    means, covariances : ndarrays
        The start.
    kind : one of `covariance.KINDS`
    """

    def __init__(self, points, model, means, covariances, kind):
        self._points, self._model, self._kind = points, model, kind
        self.place(means, covariances)

    def place(self, means, covariances, factors=None):
        """Continue from these parameters; the factors are computed if not given."""
        self._means, self._covariances, self._factors = means, covariances, factors
        if factors is None:
            self._factors = covariance.factors_of(self._kind, covariances, self._model.has_prior)
        each = covariance.for_each(self._kind, self._factors, *means.shape)
        self.components = Components(self._model.log_weights(), means, each)

    def sweep(self):
        """Return the log-likelihood; the sums (3) are stored for `advance`."""
        likelihood, self._moments = self._points.sweep(self.components)
        return likelihood

    def step(self, n_iter):
        """Call `advance`, then `sweep`; return the log-likelihood."""
        self.advance()
        return self.sweep()

    def objective(self, log_likelihood):
        """Return the objective (8), or the log-likelihood without a prior."""
        return self._model.objective(log_likelihood, self._model.penalty(self._means, self._factors))

    def advance(self):
        """Compute new weights, means and covariances from the sums; raise InputError if a component has
        collapsed."""
        n, xbar, scatter = self._moments
        self._model.weigh(n)
        means, covariances = self._model.maximum(n, xbar, scatter)
        squares = (xbar - self._points.reference) ** 2
        if self._model.has_prior:
            squares += covariance.diagonals(scatter) / np.maximum(n, 1.0)[:, None]
        else:  # see `step_kernels.maximise`
            squares[self._points.about[1] != 0] = 0.0
        floors = ROUNDING[self._points.dtype] * squares
        self.place(means, covariance.raised(self._kind, covariances, n, floors))

    def moments(self):
        """Return n_j, xbar_j and S_j of the last sweep."""
        return self._moments

    def result(self):
        """Return means, covariances and factors, as in `covariance`."""
        return self._means, self._covariances, self._factors


class FullSteps:
    """EM for full covariances, which are stored and computed in the points' space; methods as in
    `HostSteps`."""

    def __init__(self, points, model, means, covariances, kind="full"):
        k, p = means.shape
        self._points, self._model, self._shape, self._kind = points, model, (k, p), kind
        self._policy = pk.RangePolicy(0, k, space=points.space)
        self._about = Copy(points.space), Copy(points.space)
        self._centred = np.zeros((1, p)), np.zeros(k, np.int64)  # the centre is the only reference
        m, scale, *self._numbers = model.numbers(p)
        self._prior = [self._put(m), self._put(scale)]
        self._centre = self._put(points.centre)
        self._means, self._covariance = self._put(means.T), self._put(covariances[:, *triangle(p)].T)
        self._rounding = ROUNDING[points.dtype]
        self._floors = self._put(self._first_floors(covariances))
        with pk.use(points.space):
            self._factor, self._n = pk.empty(self._covariance.shape), pk.empty(k)
            self._log_weights = pk.empty(k)
            self._records = pk.zeros(k * record_length(p, False), points.dtype)
            self._found = pk.empty((3, k))
        self._sums = self._maximise = self._graph = None
        self._limit = CANCELS[points.dtype]
        own = self._means, self._floors, self._covariance, self._factor, self._records, self._found
        given = self._log_weights, self._centre, *self._prior, *self._numbers[:2], *own
        self._preparing = self._policy, step_kernels.prepare, *given
        self._make_ready = pk.plan(*self._preparing, label="mixture.prepare")
        self._prepare()

    def _first_floors(self, covariances):
        """Return the floors of covariances that were not computed from sums, shape (p, k)."""
        variances = np.diagonal(covariances, axis1=1, axis2=2).T
        return self._rounding * variances if self._model.has_prior else np.zeros(variances.shape)

    def _put(self, array):
        return pk.copy_of(np.ascontiguousarray(array, np.float64), self._points.space)

    def _prepare(self):
        pk.deep_copy(self._log_weights, self._model.log_weights())
        self._make_ready()
        self._check_collapse()

    def _check_collapse(self):
        """Read the findings of `prepare`; raise an error if a component has collapsed."""
        bad, penalties, away = self._found.to_numpy()
        self._penalty, self._farthest = penalties.sum(), away.max()
        if bad.any():
            raise covariance.collapsed(self._model.has_prior)

    @property
    def components(self):
        return self

    def records(self, centre, dtype):
        """Return the records, a View; as `blocks.Components.records`."""
        return self._records

    def references(self, centre, limit):
        """Return the references of sums, as `sums.references`; they are computed on the host only if a
        component is far from the centre."""
        if self._farthest <= limit:
            return self._centred
        means, _, factors = self.result()
        return references(Components(self._model.log_weights(), means, factors), centre, limit)

    def place(self, means, covariances):
        p = self._shape[1]
        for target, source in (
            (self._means, means.T),
            (self._covariance, covariances[:, *triangle(p)].T),
            (self._floors, self._first_floors(covariances)),
        ):
            pk.deep_copy(target, np.ascontiguousarray(source))
        self._prepare()

    def sweep(self):
        return self._points.gather(self)[0]

    def objective(self, log_likelihood):
        return self._model.objective(log_likelihood, self._penalty)

    def advance(self):
        sums = self._points.added, *self._points.about
        if self._maximise is None or any(now is not before for now, before in zip(sums, self._sums)):
            self._sums = sums
            self._maximise = pk.plan(*self._maximising(*sums), label="mixture.maximise")
        self._maximise()
        self._model.weigh(self._n.to_numpy())
        self._prepare()

    def step(self, n_iter):
        """Call `advance`, then `sweep`; as one graph if a run has at least _MANY iterations `n_iter`."""
        as_one = n_iter >= _MANY and self._farthest <= self._limit
        if as_one and self._graph is None:
            sums = self._points.added, *self._points.about
            launches = self._maximising(*sums), self._preparing
            self._graph = self._points.graph(self._records, launches)
        if not as_one or not self._graph:
            self.advance()
            return self.sweep()
        graph, total, added = self._graph
        self._model.weigh(added[:, 0].to_numpy())
        pk.deep_copy(self._log_weights, self._model.log_weights())
        graph.replay()
        self._check_collapse()
        if not self._farthest <= self._limit:  # sums about the centre would lose digits
            return self.sweep()
        return self._points.take(self, total, added)

    def _maximising(self, added, *about):
        """Return the arguments of a launch of `maximise` for these sums."""
        about = (copy.of(array) for copy, array in zip(self._about, about))
        fixed = self._centre, *self._prior, *self._numbers, self._rounding
        out = self._n, self._means, self._covariance, self._floors
        return self._policy, step_kernels.maximise, reached(added, self._points.space), *about, *fixed, *out

    def moments(self):
        return self._points.moments(self._means.to_numpy().T)

    def result(self):
        k, p = self._shape
        a, b = triangle(p)
        covariances, factors = np.empty((k, p, p)), np.zeros((k, p, p))
        covariances[:, a, b] = covariances[:, b, a] = self._covariance.to_numpy().T
        factors[:, b, a] = self._factor.to_numpy().T
        return self._means.to_numpy().T.copy(), covariances, factors
