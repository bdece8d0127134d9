"""States given all observations, from a run that kept its particles.

method                     cost                           best use
Filtered.trajectories      n_steps reads a path           the last steps; far back all paths have few
                           different ancestors
lagged_moments             lag reads a particle and step  means and variances of states given observations up
                           to lag steps later
backward_paths             n densities a path and step,   draws of whole paths, which do not degenerate
                           with a bound only a few

References
----------
Godsill, Doucet, West: Monte Carlo smoothing for nonlinear time series. JASA 99 (2004).
Kitagawa, Sato: Monte Carlo smoothing and self-organising state-space model (2001): the fixed lag.
"""

from __future__ import annotations

import numpy as np

import portable as pk

from ..shared import Array, InputError, check_count, check_number, check_seed, launch
from . import smoothing_kernels, weight_kernels
from .checks import MOST
from .filtered import Filtered
from .state_space import StateSpaceModel
from .weights import SWEEP_TEAM, unit_extremes


def backward_paths(
    model: StateSpaceModel,
    found: Filtered,
    n: int,
    *,
    bound: float | None = None,
    most: int | None = None,
    seed: int = 0,
) -> Array:
    """Draw from p(x_0..x_(T-1) | y_0..y_(T-1)) by forward filtering, backward simulation.

    Parameters
    ----------
    model : StateSpaceModel
        With log_transition.
    found : Filtered
        From a run with `keep=True` of the model's filter.
    n : int
        Paths of each filter; n_steps * n_particles densities each without a bound.
    bound : float, optional
        An upper bound of log_transition, for all parameters: states are drawn by their weights and accepted
        with their densities, at the cost of a few densities a step for any number of particles. Paths have
        the same law, if no density is larger.
    most : int, optional
        Number of rejected draws after which all densities of a step are computed; n_particles if not given.
    seed : int, default 0

    Returns
    -------
    ndarray, shape (n_steps, n_dims, n_filters, n)
        Without the axis of filters if params were of one; NaN for a filter that died.

    Raises
    ------
    DTypeError, InputError
        The model has no log_transition, `found` is of another model, or a number is out of range.
    """
    model.need("backward simulation", "log_transition")
    n, seed = check_count(n, "n", 1, MOST), np.uint64(check_seed(seed))
    with found._kept_history("backward simulation") as kept:
        n_dims, n_rows = kept.x.shape[1:3]
        if n_dims != len(model.states):
            raise InputError(
                f"found has {n_dims} components of a state, the model {len(model.states)}: it is of another"
                " model"
            )
        paths = pk.empty((*kept.x.shape[:3], n), kept.x.dtype)
        sizes = map(pk.static, (n_dims, kept.params.shape[1], kept.inputs.shape[1]))
        known = kept.params, kept.inputs, kept.x, kept.log_w
        if bound is None:
            policy, kernel = pk.TeamPolicy(n_rows * n, SWEEP_TEAM), smoothing_kernels.simulate_backward
            own = n, seed, *known, paths
        else:
            policy, kernel = (n_rows, n), smoothing_kernels.reject_backward
            most = check_count(kept.x.shape[3] if most is None else most, "most", 0, MOST)
            own = check_number(bound, "bound"), most, seed, *known, _cumulative(kept.log_w), paths
        launch(policy, kernel, model.log_transition, *sizes, *own)
        return found._without_dead(paths.to_numpy())


def _cumulative(log_w):
    """Compute cumulative weights of all steps and rows, as whole numbers."""
    n_steps, n_rows, n = log_w.shape
    found, w = pk.empty(log_w.shape, np.uint64), pk.empty(log_w.shape)
    bits = min(weight_kernels.MOST_BITS, 62 - (n - 1).bit_length())
    policy, kernel = pk.TeamPolicy(n_steps * n_rows, SWEEP_TEAM), smoothing_kernels.accumulate_weights
    launch(policy, kernel, bits, log_w, unit_extremes(1), w, found)
    return found


def lagged_moments(found: Filtered, lag: int) -> tuple[Array, Array]:
    """Compute means and variances of x_t given y_0..y_(t + lag), through the kept ancestors.

    Parameters
    ----------
    found : Filtered
        From a run with `keep=True`.
    lag : int, at least 0
        Large enough that later observations add little, small enough that many different ancestors are left.

    Returns
    -------
    means, variances : ndarray, shape (n_steps, n_dims, n_filters)

    Raises
    ------
    DTypeError, InputError
        `lag` is out of range; particles were not kept.
    """
    lag = check_count(lag, "lag", 0, MOST)
    with found._kept_history("smoothing") as kept:
        means, variances = pk.empty(kept.x.shape[:3]), pk.empty(kept.x.shape[:3])
        launch(
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
        return found._without_dead(means.to_numpy()), found._without_dead(variances.to_numpy())
