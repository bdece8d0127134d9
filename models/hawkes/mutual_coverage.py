"""Do intervals of who influences whom hold what they promise? Events of known parameters, fitted as a user
would."""

from __future__ import annotations

import functools

import numpy as np

from ..shared.checks import check_choice, check_count, check_seed
from ..shared.processes import map_numbers, space_of
from .mutual import Mutual, omori_rates, simulate_mutual
from .mutual_fit import fit_mutual
from .mutual_likelihood import MutualLikelihood

KINDS = "one decay", "two decays", "omori"
LEVEL = 0.9
_HORIZON_H = 3_000.0
_MU = 0.2, 0.1, 0.05  # some 1,700 events
_INFLUENCE = np.array([[0.3, 0.0, 0.2], [0.3, 0.2, 0.0], [0.0, 0.3, 0.1]])


def mutual_coverage(
    kind: str = "one decay",
    *,
    n_sets: int = 200,
    seed: int = 0,
    space=None,
    jobs: int = 1,
    progress: bool = False,
    client=None,
) -> dict[str, float]:
    """Return how often 90 % intervals held the truth, over simulated data sets of three types.

    Parameters
    ----------
    kind : {"one decay", "two decays", "omori"}
        A decay whose rate is estimated; two of known rates, each with its own ratios; Omori's law.
    n_sets, seed : int
        A data set depends on the seed and its number alone.
    space : str or Space, optional
    jobs : int
        Processes that share the data sets out.
    progress : bool
    client : distributed.Client or "local", optional
        Whose workers share the data sets out in place of `jobs`.

    Returns
    -------
    dict
        Shares of intervals, of all sets and entries: of mu, of influences above 0, of those that are 0, which
        the cut at 0 makes conservative, and of the rate if it is estimated.
    """
    check_choice(kind, "kind", KINDS)
    n_sets, seed = check_count(n_sets, "n_sets"), check_seed(seed)
    one = functools.partial(_one, kind, seed, space_of(space, jobs, client))
    how = {"jobs": jobs, "description": kind, "progress": progress, "client": client, "space": space}
    found = map_numbers(one, n_sets, **how)
    return {name: float(np.mean([held[name] for held in found])) for name in found[0]}


def _decays(kind):
    """Rates, and weights where they are given."""
    if kind == "omori":
        return omori_rates(1.5, 0.5, within_h=_HORIZON_H)
    return np.array([1.5] if kind == "one decay" else [5.0, 0.2]), None


def _one(kind, seed, space, k):
    """Of data set k: the shares of its intervals that hold the truth."""
    rates, weights = _decays(kind)
    shares = np.full(len(rates), 1.0 / len(rates)) if weights is None else weights
    truth = Mutual(_MU, shares[:, None, None] * _INFLUENCE, rates)
    made = simulate_mutual(truth, _HORIZON_H, seed=1_000_003 * seed + k)
    window = {"start_h": 0.0, "horizon_h": _HORIZON_H}
    likelihood = MutualLikelihood(made.times, made.types, n_types=3, space=space, **window)
    fit = fit_mutual(likelihood, rates, weights=weights, fixed_rates=kind != "one decay")
    held = {}
    for name in ("mu", "influence", "rates")[: 2 + (kind == KINDS[0])]:
        low, high = fit.interval(name, LEVEL)
        held[name] = (low <= getattr(truth, name)) & (getattr(truth, name) <= high)
    held["no influence"] = held["influence"][_INFLUENCE == 0.0]
    held["influence"] = held["influence"][_INFLUENCE > 0.0]
    return {name: v.mean() for name, v in held.items()}
