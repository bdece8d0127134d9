"""States given all observations, from a run that kept its particles.

method                     cost                           what it is good for
Filtered.trajectories      n_steps reads a path           the last steps; far back all paths share few
                           ancestors
lagged_moments             lag reads a particle and step  means and variances of states given observations up
                           to lag steps later
backward_paths             n densities a path and step    draws of whole paths, which do not degenerate

References
----------
Godsill, Doucet, West: Monte Carlo smoothing for nonlinear time series. JASA 99 (2004).
Kitagawa, Sato: Monte Carlo smoothing and self-organising state-space model (2001): the fixed lag.
"""

from __future__ import annotations

import numpy as np

import portable as pk
from portable.errors import InputError

from ..shared.checks import check_count, check_seed
from . import smoothing_kernels
from .checks import MOST
from .filtered import Filtered
from .state_space import StateSpaceModel
from .weights import SWEEP_TEAM, on


def backward_paths(model: StateSpaceModel, found: Filtered, n: int, *, seed: int = 0) -> np.ndarray:
    """Draws of p(x_0..x_(T-1) | y_0..y_(T-1)) by forward filtering, backward simulation.

    Parameters
    ----------
    model : StateSpaceModel
        With log_transition.
    found : Filtered
        Of a run with `keep=True` of the model's filter.
    n : int
        Paths of each filter; n_steps * n_particles densities each.
    seed : int, default 0

    Returns
    -------
    ndarray, shape (n_steps, n_dims, n_filters, n)
        Without the axis of filters where params were of one; NaN for a filter that died.

    Raises
    ------
    DTypeError, InputError
        The model has no log_transition, `found` is of another one, or a number is out of range.
    """
    model.need("backward simulation", "log_transition")
    n, seed = check_count(n, "n", 1, MOST), np.uint64(check_seed(seed))
    with on(found.history.space if found.history else None):
        kept = found.kept("backward simulation")
        n_dims, n_rows = kept.x.shape[1:3]
        if n_dims != len(model.states):
            raise InputError(
                f"found has {n_dims} components of a state, the model {len(model.states)}: it is of another"
                " model"
            )
        paths = pk.empty((*kept.x.shape[:3], n), kept.dtype)
        pk.parallel_for(
            pk.TeamPolicy(n_rows * n, SWEEP_TEAM),
            smoothing_kernels.simulate_backward,
            model.log_transition,
            pk.static(n_dims),
            pk.static(kept.params.shape[1]),
            pk.static(kept.inputs.shape[1]),
            n,
            seed,
            kept.params,
            kept.inputs,
            kept.x,
            kept.log_w,
            paths,
        )
        drawn = paths.to_numpy()
    drawn[..., np.atleast_1d(found.died) >= 0, :] = np.nan
    return drawn[:, :, 0] if found._single else drawn


def lagged_moments(found: Filtered, lag: int) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances of x_t given y_0..y_(t + lag), by the ancestors that are kept.

    Parameters
    ----------
    found : Filtered
        Of a run with `keep=True`.
    lag : int, at least 0
        Long enough that later observations say little more, short enough that many ancestors are left.

    Returns
    -------
    means, variances : ndarray, shape (n_steps, n_dims, n_filters)

    Raises
    ------
    DTypeError, InputError
        `lag` is out of range; particles were not kept.
    """
    lag = check_count(lag, "lag", 0, MOST)
    with on(found.history.space if found.history else None):
        kept = found.kept("smoothing")
        means, variances = pk.empty(kept.x.shape[:3]), pk.empty(kept.x.shape[:3])
        pk.parallel_for(
            pk.TeamPolicy(kept.x.shape[0] * kept.x.shape[2], SWEEP_TEAM),
            smoothing_kernels.lagged_moments,
            lag,
            kept.extremes,
            kept.ancestors,
            kept.x,
            kept.log_w,
            means,
            variances,
        )
        both = means.to_numpy(), variances.to_numpy()
    for array in both:
        array[..., np.atleast_1d(found.died) >= 0] = np.nan
    return tuple(array[..., 0] if found._single else array for array in both)
