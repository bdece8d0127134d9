"""Simulation-based calibration: a test of the correctness of samplers.

Parameters are drawn from priors, data from parameters, and posteriors from data. If the sampler draws from
the exact posterior, the rank of the true value among L independent draws is uniform on 0..L.

References
----------
Talts, Betancourt, Simpson, Vehtari, Gelman: Validating Bayesian inference algorithms with simulation-based
calibration. arXiv:1804.06788 (2018).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .checks import check_count
from .extras import need
from .processes import map_numbers
from .notebook_html import Frozen

BOXES = 20  # largest number of bins in the histogram of ranks


class Ranks(Frozen):
    """Ranks of true parameters among posterior draws.

    Attributes
    ----------
    method : str
    ranks : ndarray of int, shape (n_sets, n_params), 0 to n_kept
    n_kept : int
        Number of nearly independent draws with which each true value is ranked.
    p_values : dict
        p-values of the chi-square test of uniform ranks, by parameter.
    """

    method: str
    ranks: np.ndarray
    n_kept: int
    p_values: dict[str, float]

    def __str__(self) -> str:
        values = ", ".join(f"{name} p = {p:.3g}" for name, p in self.p_values.items())
        return f"{self.method}: {values}"


def rank_truths(
    rank: Callable[[int], tuple], names: Sequence[str], method: str, n_sets: int, n_kept: int, **how: Any
) -> tuple[dict[str, Any], list[tuple]]:
    """Return the fields of `Ranks` for simulated data sets, and the other results of each set.

    Parameters
    ----------
    rank : callable (int) -> tuple
        Returns the ranks of the true parameters of a data set, given its number, and any other results.
    names : sequence of str
        Names of the parameters.
    method : str
    n_sets, n_kept : int
    **how
        jobs, progress, client, space of `map_numbers`.

    Returns
    -------
    fields : dict
    columns : list of tuples, of length n_sets

    Raises
    ------
    InputError
        SciPy is not installed.
    """
    stats = need("scipy.stats", "stats", "the test of ranks")
    words = f"{n_sets} data sets, {method}"
    ranks, *rest = zip(*map_numbers(rank, check_count(n_sets, "n_sets"), description=words, **how))
    boxes = max(b for b in range(2, BOXES + 1) if (n_kept + 1) % b == 0 or b == 2)
    p_values = {
        name: float(stats.chisquare(np.bincount(column * boxes // (n_kept + 1), minlength=boxes)).pvalue)
        for name, column in zip(names, np.transpose(ranks))
    }
    fields = {"method": method, "ranks": np.array(ranks), "n_kept": n_kept, "p_values": p_values}
    return fields, rest
