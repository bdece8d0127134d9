"""A whole cross map tested against surrogates: 154 series of 1,600 steps, as of larval zebrafish, 200
surrogates each.

There is no peer: no package known to us tests whole matrices. The test runs with and without early stopping
of pairs that are decided.
"""

import numpy as np

from portable.models import edm
from portable.models.edm.simulated import coupled_logistic
from portable.roofline.cases import common
from portable.roofline.cases.edm import random_dims

N_STEPS, N_SERIES, N_SURROGATES = 1600, 154, 200


def duels(space, n, quick):
    """Return the duel; `n` is the number of series; see `portable.roofline.cases.Case`."""
    small = quick or space == "checked"
    shape = (40, 3) if small else (N_STEPS, n or N_SERIES)
    return [_test(space, *shape, 9 if small else N_SURROGATES, stop_after) for stop_after in (10, None)]


def _test(space, n_steps, n_series, n_surrogates, stop_after):
    data, result = coupled_logistic(n_steps, n_series), []
    dims = np.minimum(random_dims(n_series), n_steps // 10)

    def call():
        result[:] = [
            edm.cross_map_test(
                data, dims, n_surrogates=n_surrogates, surrogate="phase", stop_after=stop_after, space=space
            )
        ]

    title = f"cross map of {n_series} series of {n_steps:,} steps, {n_surrogates} phase surrogates of each"
    title += ", all tried" if stop_after is None else f", given up after {stop_after} did as well"
    return common.duel(title, space, call, result=lambda: float(np.nanmean(result[0].p_values)))
