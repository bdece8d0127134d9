"""Merge the components of a mixture that describe the same cells into populations."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, TypeAlias

import numpy as np

from ...shared import Array, Frozen, InputError, check_choice, check_count, check_kind, check_number
from ..checks import check_table
from ..estimator import DirichletMixture
from .modes import groups_by_mode

LEAST_CELLS = 20  # cells of a population, at least: the usual limit of detection in cell counting
Merging: TypeAlias = Literal["entropy", "modes", "none"]
_UNCERTAIN = 0.25  # groups are joined if at least this share of their entropy remains
_NO_CELLS = 1e-290  # in place of 0, so that ratios with numbers of cells are finite


class Join(Frozen):
    """The join of two groups of components to one.

    Parameters
    ----------
    components : tuple of two tuples of int
    uncertainty : float
        Share of the entropy of membership in the two groups that remains given the cells' positions: 0 for
        groups that are distinguished, 1 for groups in the same place.
    n_groups : int
        Number of groups after the join.
    """

    components: tuple[tuple[int, ...], tuple[int, ...]]
    uncertainty: float
    n_groups: int


def merge(
    model: DirichletMixture,
    X: Array,
    method: Merging = "entropy",
    n_populations: int | None = None,
    least_cells: int = LEAST_CELLS,
    least_share: float = 0.0,
) -> tuple[Array, list[Join]]:
    """Merge components into populations, and return the population of each component.

    Parameters
    ----------
    model : DirichletMixture, fitted
    X : array-like, shape (n_cells, n_features)
        Cells to which the model was fitted, or similar ones.
    method : {"entropy", "modes", "none"}
        How components become populations. "entropy" repeatedly joins the two groups of components that the
        cells' positions distinguish least, until all pairs are distinguished: less than a quarter of the
        entropy of membership in the two groups remains. "modes" joins components whose means lie on slopes of
        the same mode of the mixture's density. With "none" every component is a population.
    n_populations : int, optional
        Merge by entropy until this number is left, regardless of the entropies.
    least_cells : int, default 20
        Groups with fewer cells are not populations: their components join the population that is most
        probable at their mean. If all groups are this small, only the largest is a population.
    least_share : float, default 0
        The same for groups with a smaller share of the cells.

    Returns
    -------
    members : ndarray of int, shape (n_components,)
        Populations, numbered from 0, the largest; at least one, even for few cells. Components with hardly
        any cells join the population that is most probable at their mean.
    joins : list of Join
        Joins in the order in which they were made; only for "entropy".

    Raises
    ------
    InputError
        An option is out of its range.

    References
    ----------
    J.-P. Baudry, A. E. Raftery, G. Celeux, K. Lo, R. Gottardo: Combining mixture components for
    clustering. Journal of Computational and Graphical Statistics 19 (2010), 332; here entropies of pairs
    are divided by their largest value, so that small populations count as much as large ones. J. Li, S.
    Ray, B. G. Lindsay: A nonparametric statistical approach to clustering via mode identification. Journal
    of Machine Learning Research 8 (2007), 1687.
    """
    check_merging(method, n_populations)
    check_kind(model, "model", DirichletMixture, "be mixture.DirichletMixture")
    X = check_table(X, n_features=model.n_features_in_)
    share = check_number(least_share, "least_share", least=0.0)
    least_cells = max(check_count(least_cells, "least_cells"), share * len(X))
    cells = np.bincount(model.predict(X), minlength=len(model.weights_))
    # A given number of populations shall not include groups that would be dropped in the end as too small.
    active = _large_enough(model.weights_ * len(X), 1.0 if n_populations is None else least_cells)
    groups, joins = [(j,) for j in active.tolist()], []
    if method == "entropy":
        groups, joins = _by_entropy(model, X, groups, n_populations)
    elif method == "modes":
        groups = groups_by_mode(model, active)
    large = _large_enough(np.array([cells[list(group)].sum() for group in groups]), least_cells)
    return _members(model, [groups[number] for number in large]), joins


def _large_enough(cells, least):
    """Return the positions of groups with at least `least` cells, or of the largest group if there are
    none."""
    return np.flatnonzero(cells >= min(least, cells.max()))


def check_merging(method, n_populations):
    """Check arguments of `merge`; raise the errors that it would raise."""
    check_choice(method, "method", Merging)
    if n_populations is not None:
        check_count(n_populations, "n_populations")
        if method != "entropy":
            raise InputError(
                f"n_populations is {n_populations}; only method='entropy' merges to a number, not {method!r}"
            )


def _by_entropy(model, X, groups, n_populations):
    """Return groups of components and the joins that formed them; the remaining share of entropy is stored
    for each pair."""
    points, components, joins = model._points(X), model._fitted(), []
    left = np.full((len(groups), len(groups)), -np.inf)
    pairs = np.argwhere(np.tri(len(groups), k=-1))
    while len(groups) > (n_populations or 1):
        both, one, other = points.group_entropies(components, groups, pairs).T
        one, other = np.maximum([one, other], _NO_CELLS)
        # relative to the entropy of two groups with these numbers of cells in the same place
        share = both / (one * np.log1p(other / one) + other * np.log1p(one / other))
        left[tuple(pairs.T)] = left[tuple(pairs.T[::-1])] = share
        a, b = sorted(divmod(int(left.argmax()), len(groups)))
        if n_populations is None and left.max() < _UNCERTAIN:
            break
        joins.append(Join((groups[a], groups[b]), float(left.max()), len(groups) - 1))
        groups[a] += groups.pop(b)
        left = np.delete(np.delete(left, b, 0), b, 1)
        pairs = np.array([(a, other) for other in range(len(groups)) if other != a]).reshape(-1, 2)
    return groups, joins


def _members(model, groups):
    """Return the population of each component, the largest first; a component without cells joins the
    population that is most probable at its mean."""
    members = np.full(len(model.weights_), -1)
    groups.sort(key=lambda group: -model.weights_[list(group)].sum())
    for number, group in enumerate(groups):
        members[list(group)] = number
    idle = np.flatnonzero(members < 0)
    if idle.size:
        known = model._fitted()
        log_weights = np.where(members < 0, -np.inf, known.log_weights)
        nearest = model._points(model.means_[idle]).labels(replace(known, log_weights=log_weights))
        members[idle] = members[nearest]
    return members
