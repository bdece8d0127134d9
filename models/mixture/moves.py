"""Moves that EM cannot make: merge components, delete one, or split one. A move is kept only if the objective
rises.

The bound sum_ij r_ij (log pi_j N_ij - log r_ij) equals the log-likelihood at the parameters from which the
r_ij were computed. If two components are merged, or one is divided, the bound changes by terms that the
moments (3) give, and by an entropy of two columns of r_ij. This change ranks the moves, and a move that
raises the bound raises the objective. All divided components are fitted at the same time, the two children of
each within its share of the points (Ueda, Nakano, Ghahramani and Hinton 2000, where this is done one
component after the other).
"""

from __future__ import annotations

from collections import defaultdict
from typing import Literal

import numpy as np

import portable as pk

from ..shared import Frozen, InputError, launch
from . import covariance, search_kernels
from .blocks import Components
from .em_run import Climb
from .prior import ascending, exceeds, joined, pooled
from .sweeps import by_tile

_TRIAL = 6  # iterations before a move is judged
_TRIES = 6  # trials of a kind of move in a round
_HOPE = -50.0  # if the bound falls by less, the trial iterations may still raise the objective
_HOPE_OF_CHILDREN = -10.0  # the bound may fall by less, since children have already been fitted
_PAIRS = 4  # pairs for each component whose entropies are computed
_DIVIDING = 10  # iterations in which children are fitted
_MANY = 200_000  # more points are not stored twice, for components and for children
_SMALL = 0.02  # largest share of the points of a component that may be deleted


class Move(Frozen):
    """A change of the components that raised the objective.

    Parameters
    ----------
    entry : int
        Index in `objective_history_` of the objective after the move and its trial iterations.
    kind : {"merge", "delete", "split", "merge and split"}
    components : tuple of int
        Their numbers before the move; afterwards components are numbered again, the largest first. Merged
        components are in pairs.
    gain : float
        Increase of the objective.
    """

    entry: int
    kind: Literal["merge", "delete", "split", "merge and split"]
    components: tuple[int, ...]
    gain: float


class Moves:
    """Search for moves of a climb, and of those that follow from it.

    Parameters
    ----------
    sure : bool
        Whether to try only moves that raise the bound: this reduces the number of trials if there are many
        points.
    """

    def __init__(self, sure=False):
        self._hope, self._division = (0.0 if sure else _HOPE), None

    def better(self, climb):
        """Return (Climb, Move) after the first move that raises the objective, or None. `climb` must have
        just been run."""
        state, before = _State(climb), climb.history[-1]
        for kind, components, changes in self._proposals(state):
            trial = self._trial(state, changes, before)
            if trial is not None and trial.history[-1] > before + 1e-9 * abs(before):
                gain = trial.history[-1] - before
                trial.history = [*climb.history, trial.history[-1]]
                return trial, Move(len(climb.history), kind, tuple(map(int, components)), gain)
        return None

    def _trial(self, state, changes, beat):
        moments = [a.copy() for a in state.moments]
        for slot, *changed in changes:
            for own, value in zip(moments, changed):
                own[slot] = value
        n = moments[0]
        n, *others = (own[ascending(-n, n.sum())] for own in moments)
        weights, of = n / n.sum(), state.climb
        try:
            first = weights, *of.make_model(weights).maximum(n, *others)
            climb = Climb(of.points, of.make_model, of.kind, *first, of.log)
            climb.run(_TRIAL, -np.inf, beat)
        except InputError:  # a component has collapsed: the trial fails
            return None
        return climb

    def _proposals(self, state):
        """Yield (kind, components, changes), the most promising first; later ones are computed only if they
        are reached."""
        merges = self._merges(state)
        if state.has_prior:
            sure, groups, several = self._groups(merges, state)
            if len(sure) > 1:
                yield "merge", sum(sure, ()), state.all_merged(sure)
            for _, group in merges[:_TRIES] + groups[:_TRIES]:
                yield "merge", group, state.merged(group)
            yield from self._deletions(state)
            for _, own in several[:_TRIES]:
                yield "merge", sum(own, ()), state.all_merged(own)
        empty = state.empty()
        splits = self._splits(state)
        if empty is not None:
            for _, j, children in splits[:_TRIES]:
                yield "split", (j,), [(j, *children[0]), (empty, *children[1])]
        else:
            both = _best_first(
                (gain + more, pair, j, children)
                for gain, pair in merges[:_TRIES]
                for more, j, children in splits[:_TRIES]
                if j not in pair and gain + more > self._hope
            )
            for _, pair, j, children in both[:_TRIES]:
                changes = [state.merged(pair)[0], (j, *children[0]), (pair[1], *children[1])]
                yield "merge and split", (*pair, j), changes

    def _merges(self, state):
        """Return (gain of the bound, pair) of near components, the best first."""
        pairs = state.near_pairs()
        if not len(pairs):
            return []
        most = state.merge_gains(pairs)
        keep = np.argsort(-most, kind="stable")[: _PAIRS * len(state.moments[0])]
        keep = keep[most[keep] > (self._hope if state.has_prior else -np.inf)]
        if not len(keep):
            return []
        gains = most[keep] - state.climb.points.pair_entropies(state.climb.components, pairs[keep])
        order = np.argsort(-gains, kind="stable")
        if state.has_prior:
            order = order[gains[order] > self._hope]
        return [(gains[q], tuple(pairs[keep[q]].tolist())) for q in order]

    def _groups(self, merges, state):
        """Return three lists: groups whose joint merge raises the bound; (gain, group) for groups of three or
        more; and (gain, groups) for several groups merged at once, the best first. The cost of a component
        falls with the number of components, so that many merges may gain although no single one does.

        The groups form a tree that is built from the bottom, the best merge of two groups first. The entropy
        between groups is taken as the sum of the entropies of pairs, which exceeds the true loss: gains are
        underestimated.
        """
        if not merges:
            return [], [], []
        tree = _Tree(merges, state)
        sure, found, made, several = [], [], [], []
        while tree.gains:
            (one, other), gain = max(tree.gains.items(), key=lambda item: item[1])
            if gain <= self._hope:
                break
            group = tree.join(one, other, gain)
            if gain > 0.0:
                sure = [own for own in sure if own not in (one, other)] + [group]
            if len(group) > 2:
                found.append((tree.sums[group], group))
            made = [own for own in made if own not in (one, other)] + [group]
            if len(made) > 1:
                several.append((sum(tree.sums[own] for own in made), made))
        return sure, _best_first(found), _best_first(several)

    def _deletions(self, state):
        """Yield joint deletions of several components that have hardly enough points for a covariance, then
        deletions of the smallest single components."""
        n, p = state.moments[0], state.p
        few = 5.0 * (p + 1.0)
        active, small = state.is_active(n), ~exceeds(n, max(_SMALL * n.sum(), few))
        rising = [int(j) for j in ascending(n, n.sum()) if active[j] and small[j]]
        rising = rising[: int(active.sum()) - 1]  # at least one component is left
        several = int((~exceeds(n[rising], few)).sum())
        while several > 1:
            yield "delete", rising[:several], sum(map(state.deleted, rising[:several]), [])
            several = 2 * several // 3
        for j in rising[: _TRIES if self._hope else 0]:
            yield "delete", (j,), state.deleted(j)

    def _splits(self, state):
        """Return (gain of the bound, j, moments of two children) of components, the best first."""
        n = state.moments[0]
        if not exceeds(n, 2.0 * (state.p + 2.0)).any():
            return []
        if self._division is None:
            self._division = _Division(state.climb)
        least = max(self._hope, _HOPE_OF_CHILDREN)
        return _best_first(own for own in self._division.run(state) if own[0] > least)


def _best_first(moves):
    """Sort moves by their gains, the first element of each."""
    return sorted(moves, key=lambda move: -move[0])


class _Tree:
    """Groups of components, joined in pairs.

    Attributes
    ----------
    gains : dict of pairs of groups
        Gain of the bound if the two groups are joined.
    sums : dict of groups
        Total gain of the joins that formed each group.
    """

    def __init__(self, merges, state):
        self._state, self.sums = state, defaultdict(float)
        self._lost = defaultdict(float)  # loss of the bound if two groups are not distinguished
        self.gains = {((a,), (b,)): gain for gain, (a, b) in merges}
        most = state.merge_gains(np.array([pair for _, pair in merges]))
        for pair, own in zip(self.gains, most.tolist()):
            self._lost[pair] = self._lost[pair[::-1]] = own - self.gains[pair]
        self._wholes = {group: state.joint_moments(group) for pair in self.gains for group in pair}

    def join(self, one, other, gain):
        """Replace two groups by one, and return it."""
        group, both = one + other, {one, other}
        self.sums[group] = self.sums[one] + self.sums[other] + gain
        near = dict.fromkeys(own for pair in self.gains if both & {*pair} for own in pair if own not in both)
        self.gains = {pair: gain for pair, gain in self.gains.items() if not both & {*pair}}
        whole = self._wholes[group] = self._state.joint_moments(group)
        if near:
            parts = [whole] * len(near), [self._wholes[third] for third in near]
            joining = self._state.joining(*([np.stack(part) for part in zip(*own)] for own in parts))
            for third, most in zip(near, joining.tolist()):
                lost = self._lost[one, third] + self._lost[other, third]
                self._lost[group, third] = self._lost[third, group] = lost
                self.gains[group, third] = most - lost
        return group


class _State:
    """Moments of all components, and terms of the bound computed from them."""

    def __init__(self, climb):
        self.climb, self.moments, self._kind = climb, climb.moments, climb.kind
        n = self.moments[0]
        self.total, self.p = n.sum(), self.moments[1].shape[1]
        self.model = climb.make_model(n / self.total)
        self._dof = self.model.numbers(self.p)[3]
        self.has_prior = self.model.has_prior
        self._pooled = self.model.maximum(*self.moments)[1] if climb.kind == "tied" else None
        self._own, self._none = self.energies(*self.moments), 0.0
        if self.has_prior:
            (self._none,) = self.energies(np.zeros(1), self.moments[1][:1], 0.0 * self.moments[2][:1])

    def is_active(self, n):
        """Return True if a component has points: the count of one without points is about 1."""
        return exceeds(n, 2.0)

    def empty(self):
        """Return a component without points, or None."""
        n = self.moments[0]
        slot = int(np.argmin(n))
        return slot if self.has_prior and not self.is_active(n[slot]) else None

    def energies(self, n, xbar, scatter):
        """Return the components' contributions to the bound and to the prior at their best means and
        covariances, shape (m,).

        With a tied covariance they exclude the terms that depend on it, which `_tied` computes.
        """
        weights = n * np.log(np.maximum(n, covariance.TINY) / self.total)
        if self._kind == "tied":
            return weights
        divisor = n + self._dof
        covariances = self.model.maximum(n, xbar, scatter)[1]
        if covariance.is_diagonal(self._kind):
            with np.errstate(divide="ignore"):
                log_dets = np.log(covariance.for_each(self._kind, covariances, *xbar.shape)).sum(axis=1)
        else:
            log_dets = np.linalg.slogdet(covariances)[1]
        return weights - 0.5 * divisor * (log_dets + self.p)

    def near_pairs(self):
        """Return pairs a < b of components with points, where one is among the nearest of the other, shape
        (n_pairs, 2)."""
        n, xbar, scatter = self.moments
        active = np.flatnonzero(self.is_active(n))
        if len(active) < 2:
            return np.empty((0, 2), int)
        covariances = self.model.maximum(n, xbar, scatter)[1]
        covariances = covariance.for_each(self._kind, covariances, *xbar.shape)
        partners, found = min(2 * _PAIRS, len(active) - 1), []
        for a in active:
            away = xbar[active] - xbar[a]
            if covariance.is_diagonal(self._kind):
                squares = (away**2 / covariances[a]).sum(axis=1)
            else:
                squares = np.einsum("ja,ja->j", away, np.linalg.solve(covariances[a], away.T).T)
            squares[active == a] = np.inf
            near = active[np.argpartition(squares, partners - 1)[:partners]]
            found += [(min(a, b), max(a, b)) for b in near]
        return np.unique(np.array(found), axis=0)

    def merge_gains(self, pairs):
        """Return the largest possible gain of the bound if two components are merged, which ignores the
        entropy of distinguishing them, shape (n_pairs,)."""
        one, other = ([part[own] for part in (*self.moments, self._own)] for own in pairs.T)
        return self.joining(one, other)

    def joining(self, one, other):
        """Return `merge_gains` for pairs of groups, one of each list. A list has `joint_moments` of
        its groups, stacked."""
        (*own, energy), (*more, energies) = one, other
        gains = self.energies(*joined(self._kind, own, more)) + self._none - energy - energies
        return gains - self._tied(own, more, 1.0)

    def joint_moments(self, group):
        """Return the moments of a group as one component, and its energy."""
        moments = self._joint(group)
        return *moments, self.energies(*(np.asarray(a)[None] for a in moments))[0]

    def _joint(self, group):
        return pooled(self._kind, *(a[list(group)] for a in self.moments))

    def _tied(self, one, other, sign):
        """Return the loss of the bound with a tied covariance if two components are joined (sign 1), or one
        is split in two (-1): the pooled scatter changes by a matrix of rank one."""
        if self._kind != "tied":
            return 0.0
        (n, xbar, _), (m, ybar, _), divisor = one, other, self.total + self._dof
        away = xbar - ybar
        length = n * m / (n + m) * np.einsum("ja,ja->j", away, np.linalg.solve(self._pooled, away.T).T)
        share = length / divisor
        if sign < 0.0:
            share = -np.minimum(share, 1.0 - 1e-6)
        return 0.5 * divisor * np.log1p(share)

    def split_gain(self, j, children):
        """Return the gain of the bound if two children, arrays of two rows each, replace component j; entropy
        is ignored as in `merge_gains`."""
        gain = self.energies(*children).sum() - self._own[j] - self._none
        one, other = ([part[c : c + 1] for part in children] for c in range(2))
        return gain - np.sum(self._tied(one, other, -1.0))

    def merged(self, group):
        """Return the changes (component, n, xbar, scatter) of a merge: the first component takes the points
        of all."""
        return sum(map(self.deleted, group[1:]), [(group[0], *self._joint(group))])

    def all_merged(self, groups):
        return sum(map(self.merged, groups), [])

    def deleted(self, j):
        return [(j, 0.0, self.moments[1][j], 0.0)]


class _ShareOut(Frozen):
    """Replace l_ij by the shares of 2 k children, for `Points.gather`; return the entropies of the children's
    shares if `entropies` is True."""

    k: int
    entropies: bool

    def __call__(self, sweeps, block, joint, lse):
        weights = pk.copy_of(np.ones(block.n), sweeps.space) if block.weights is None else block.weights
        given = self.k, block.n, weights, joint, lse
        launch(by_tile(joint), search_kernels.share_out, *given, space=sweeps.space)
        if not self.entropies:
            return (np.zeros(self.k),)
        children = self.k + np.arange(2 * self.k).reshape(self.k, 2)
        return (sweeps.entropies_of(block, "pair_entropies", children),)


class _Division:
    """Two children for each component, fitted within the component's share of the points."""

    def __init__(self, climb):
        points = self._of = climb.points
        self._kind = climb.kind
        self._points = points.with_components(3 * points.k, streamed=points.n > _MANY, weights=points.weights)

    def run(self, state):
        """Return (gain of the bound, j, moments of the children) for each component with enough points."""
        k, p, kind = self._of.k, state.p, self._kind
        weights, means, _, factors = state.climb.result()
        parents = vars(Components.of(kind, weights, means, factors)).values()  # in the order of the fields
        is_able = exceeds(state.moments[0], 2.0 * (p + 2.0))
        children = self._first(*state.moments)
        for number in range(_DIVIDING):
            pairs = children[0].reshape(k, 2)
            share = pairs / np.maximum(pairs.sum(axis=1, keepdims=True), covariance.TINY)
            with np.errstate(divide="ignore"):
                weights = np.log(share)
            weights[~is_able] = -np.inf
            try:
                means, found = state.model.maximum(*children)
                factors = covariance.for_each(kind, covariance.factors_of(kind, found), 2 * k, p)
            except InputError:
                return []
            own = weights.ravel(), means, factors
            components = Components(*map(np.concatenate, zip(parents, own)))
            _, entropies = self._points.gather(components, _ShareOut(k, number == _DIVIDING - 1))
            children = tuple(a[k:] for a in self._points.moments(components.means))
        found = []
        for j in np.flatnonzero(is_able).tolist():
            two = [a[2 * j : 2 * j + 2] for a in children]
            if exceeds(two[0], p + 1.0).all():
                found.append((state.split_gain(j, two) + entropies[j], j, list(zip(*two))))
        return found

    def _first(self, n, xbar, scatter):
        """Return moments of two halves of each component, cut across its longest axis."""
        k, p = xbar.shape
        with np.errstate(divide="ignore", invalid="ignore"):
            spread = np.nan_to_num(scatter / n.reshape(-1, *[1] * (scatter.ndim - 1)), posinf=0.0, neginf=0.0)
        if covariance.is_diagonal(self._kind):
            longest = np.arange(p) == spread.argmax(axis=1)[:, None]
            axes = np.sqrt(longest * np.maximum(spread, 0.0))
        else:
            values, vectors = np.linalg.eigh(spread)
            axes = vectors[:, :, -1] * np.sqrt(np.maximum(values[:, -1], 0.0))[:, None]
        # The mean of a half of a normal distribution is sqrt(2 / pi) standard deviations from the mean.
        away = np.sqrt(2.0 / np.pi) * axes
        inner = 0.5 * (scatter - covariance.squared(self._kind, np.sqrt(n)[:, None] * away))
        middles = np.stack([xbar - away, xbar + away], axis=1).reshape(2 * k, p)
        return np.repeat(0.5 * n, 2), middles, np.repeat(inner, 2, axis=0)
