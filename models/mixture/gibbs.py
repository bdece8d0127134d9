"""Sample from the posterior of `portable.models.mixture` by blocked Gibbs sampling, and match the numbers of
components between draws."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

import portable as pk

from ..shared import NOWHERE, Frozen, launch, need, stopped
from ..shared.posteriors import mixing, run_steps, warn
from . import conjugate, covariance, gibbs_kernels
from .blocks import Components, Points
from .posterior import Posterior
from .prior import Prior
from .split_merge import SplitMerge
from .sweeps import by_tile

_ROW = ("weights", "means", "covariances", "alpha", "counts")  # fields of a draw, as in `Posterior`
_SMALLEST = 1e-300  # least value of a stick, so that its logarithm is finite


class Draw(Frozen):
    """Draw z_i of every point in a sweep, and replace l_ij by it; for `Points.gather`.

    Parameters
    ----------
    seed : np.uint64
    sweep : int
    labels : View, optional
        Labels of all points, in the space of the points. If not given, the labels of each block are returned
        in lists, which the sum over blocks concatenates.
    """

    seed: np.uint64
    sweep: int
    labels: pk.View | None

    def __call__(self, sweeps, block, joint, lse):
        start, n, all_labels = block.start, block.n, self.labels
        own = pk.empty(n, np.int64, sweeps.space) if all_labels is None else all_labels[start : start + n]
        given = sweeps.k, n, self.seed, start, self.sweep, joint, lse, own
        launch(by_tile(joint), gibbs_kernels.draw_labels, *given, space=sweeps.space)
        return ([own.to_numpy().astype(np.min_scalar_type(sweeps.k))],) if all_labels is None else ()


class Assignments:
    """z_i of every point, for points in one space or on several."""

    def __init__(self, points, seed):
        client, space = points.where["client"], points.where["space"]
        self._points, self._seed = points, np.uint64(seed)
        self._apart = client is not None or isinstance(space, (list, tuple))
        with pk.use(points.space):
            self.labels = pk.zeros(points.n, np.int64)
            self._table = pk.empty((points.k, points.k), np.int64)

    def draw(self, components, sweep):
        """Draw the assignments; return the log-likelihood of the parameters, and the sums of the drawn
        assignments as `Points.sweep` returns them."""
        points = self._points
        change = Draw(self._seed, sweep, None if self._apart else self.labels)
        likelihood, *found = points.gather(components, change)
        if self._apart:
            pk.deep_copy(self.labels, np.concatenate(found[0]).astype(np.int64))
        return likelihood, points.moments(components.means)

    def shared(self, others):
        """Return the number of points with label a here and label b in `others`, shape (k, k)."""
        pk.deep_copy(self._table, 0)
        given = self.labels, others, self._table
        launch(self._points.n, gibbs_kernels.count_pairs, *given, space=self._points.space)
        return self._table.to_numpy()


@dataclass(eq=False)
class Chain:
    """Successive sweeps, for `run_steps`.

    Components of a draw are matched to those of a reference with which they share most points. The reference
    is the mode, or with burn-in the burn-in state of largest likelihood, which is itself matched to the mode.
    """

    points: Points
    kind: str
    prior: Prior
    start: Components
    n_warmup: int
    n_thin: int
    seed: int
    n_moves: int = 1
    report: Callable = lambda *done: None
    piece, finished = 1, False

    def __post_init__(self):
        self._assignments, self._labels = Assignments(self.points, self.seed), None
        self._moves = self.n_moves and SplitMerge(
            self.points, self.kind, self.prior, self._assignments.labels, self.seed
        )
        self._state = self.start, self.prior.shape / self.prior.rate, self.start, -np.inf

    def sample(self, n_draws, store=NOWHERE):
        """Return draws from the chain, which starts at the given components; see
        `DirichletMixture.sample_posterior`."""
        assignment_solver()  # raises an error now if SciPy is missing, not after the first sweep
        points, n_warmup, n_moves = self.points, self.n_warmup, self.n_moves
        n_sweeps = n_warmup + n_draws * self.n_thin
        parts, stop = run_steps(store, "sweeps", n_sweeps, self)
        if stop is not None and not any(len(part["alpha"]) for part in parts):
            raise stop
        found = {name: np.concatenate([part[name] for part in parts])[:n_draws] for name in _ROW}
        likelihoods, accepted = (
            np.concatenate([p[name] for p in parts]) for name in ("log_likelihood", "accepted")
        )
        after = n_warmup + self.n_thin * np.arange(1, len(found["alpha"]) + 1)
        if len(likelihoods) == after[-1]:  # each is the likelihood of the parameters before a sweep
            likelihoods = np.append(likelihoods, points.log_likelihood(_components(parts[-1], "state")))
        share = float(accepted[:n_sweeps].sum()) / max(n_moves * min(n_sweeps, len(accepted)), 1)
        draws = Posterior(**found, log_likelihood=likelihoods[after], covariance=self.kind, accepted=share)
        if stop is not None:
            raise stopped(stop, draws)
        told = {"log-likelihood": draws.log_likelihood[None], "alpha": draws.alpha[None]}
        notes = mixing(told, "take more n_draws, or a longer n_warmup")
        warn(notes)
        return replace(draws, notes=notes)

    def resume(self, part):
        """Take the state after a part."""
        first, reference = (_components(part, name) for name in ("state", "reference"))
        self._state = first, float(part["state_alpha"]), reference, float(part["best"])
        self.report(int(part["end"]))

    def advance(self, sweep):
        """Make a sweep; return the log-likelihood before it, the number of accepted moves, and a list with
        the draw or an empty one."""
        self._state, *record = self._sweep(sweep, *self._state)
        return record

    def part(self, seen):
        """Return the draws of sweeps, and the state after them."""
        components, alpha, reference, best = self._state
        likelihoods, accepted, rows = zip(*seen)
        rows = sum(rows, [])
        k, p = components.means.shape
        columns = zip(*rows) if rows else [()] * len(_ROW)
        shapes = (k,), (k, p), covariance.shape(self.kind, k, p), (), (k,)
        found = {"log_likelihood": likelihoods, "state_alpha": alpha, "best": best}
        found |= _arrays(components, "state") | _arrays(reference, "reference")
        found = {name: np.array(own) for name, own in found.items()}
        found["accepted"] = np.array(accepted, int)
        return found | {
            name: np.reshape(column, (len(rows), *shape))
            for name, column, shape in zip(_ROW, columns, shapes)
        }

    def _sweep(self, sweep, components, alpha, reference, best):
        """Make one sweep. Return the state after it, and the record as `advance`."""
        random = np.random.Generator(np.random.Philox(np.random.SeedSequence(self.seed, spawn_key=(sweep,))))
        likelihood, sums = self._assignments.draw(components, sweep)
        if sweep < self.n_warmup and likelihood > best:
            reference, best = components, likelihood
        done, row, after = 0, [], sweep + 1 - self.n_warmup
        for number in range(self.n_moves):
            sums, changed = self._moves.propose(components, sums, sweep * self.n_moves + number, random)
            done += changed
        log_weights, alpha = draw_sticks(self.prior, alpha, sums[0], random)
        means, covariances, factors = conjugate.draw(self.kind, self.prior, *sums, random)
        components = Components(log_weights, means, covariance.for_each(self.kind, factors, *means.shape))
        if after > 0 and after % self.n_thin == 0:
            order = self._order(reference)
            own = covariances if self.kind == "tied" else covariances[order]
            row = [(np.exp(log_weights)[order], means[order], own, alpha, sums[0][order])]
        return (components, alpha, reference, best), likelihood, done, row

    def _order(self, reference):
        """Return the draw's components in the order of the matched numbers."""
        if self._labels is None:  # the reference is fixed after the burn-in
            points = self.points
            self._labels = pk.copy_of(points.labels(reference), points.space)
            self._names = np.arange(points.k)
            if reference is not self.start:
                shared = np.zeros((points.k, points.k))
                np.add.at(shared, (self._labels.to_numpy(), points.labels(self.start)), 1.0)
                self._names = match(shared)
        return match(self._assignments.shared(self._labels))[self._names]


def _components(part, name):
    """Return the parameters of that name from a stored part."""
    return Components(*(part[f"{name}_{field}"] for field in ("log_weights", "means", "factors")))


def _arrays(components, name):
    return {f"{name}_{field}": value for field, value in vars(components).items()}


def draw_sticks(prior, alpha, n, random):
    """Return log pi_j and alpha, drawn given the assignments: V_j ~ Be(1 + n_j, alpha + sum_{l>j} n_l), alpha
    ~ Ga(e + k - 1, rate f - T)."""
    later = np.append(np.cumsum(n[:0:-1])[::-1], 0.0)
    sticks = np.clip(random.beta(1.0 + n[:-1], alpha + later[:-1]), _SMALLEST, 1.0 - np.finfo(float).epsneg)
    left = np.log1p(-sticks)
    alpha = random.gamma(prior.shape + len(n) - 1.0) / (prior.rate - left.sum())
    return np.append(np.log(sticks), 0.0) + np.append(0.0, np.cumsum(left)), alpha


def match(shared):
    """Return the order of a draw's components in which most points have the same label as in the reference,
    shape (k,).

    `shared[a, b]` is the number of points with label a in the draw and b in the reference.
    """
    draw, reference = assignment_solver()(shared, maximize=True)
    return draw[np.argsort(reference)]


def assignment_solver():
    """Return SciPy's solver of the assignment problem; raise InputError if SciPy is not installed."""
    return need("scipy.optimize", "stats", "sample_posterior matches labels").linear_sum_assignment
