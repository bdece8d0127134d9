"""Predict states, replicated observations and forecasts from a posterior, and draw them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..shared import Array, ArrayLike, InputError, SpaceLike, Whole, axes_or_new, new_figure
from .posterior import Posterior
from .smoothing import backward_paths
from .state_space import StateSpaceModel


def posterior_paths(
    model: StateSpaceModel,
    observations: ArrayLike,
    posterior: Posterior,
    n_draws: int,
    n_particles: Whole,
    *,
    inputs: ArrayLike | None = None,
    seed: Whole = 0,
    space: SpaceLike = None,
) -> tuple[dict[str, Array], Array]:
    """Draw from p(parameters, states | observations): a path for each of some draws of the parameters.

    Paths are drawn by backward simulation if the model has log_transition, otherwise through the ancestors of
    the last particles.

    Parameters
    ----------
    model, observations, inputs : as in `sample_pmmh`
    posterior : Posterior
    n_draws : int
        Draws of the parameters, evenly spaced; one filter each, which run concurrently and keep their
        particles.
    n_particles : int
    seed : int
    space : str or Space, optional

    Returns
    -------
    params : dict of names and arrays of shape (n_rows,)
    paths : ndarray, shape (n_steps, n_dims, n_rows)
        n_rows is n_draws, less the filters that died.

    Raises
    ------
    DTypeError, InputError
        An argument is out of range; all filters died.
    """
    rows = posterior.thinned(n_draws)
    found = model.filter(space=space).run(
        observations, n_particles, params=rows, inputs=inputs, seed=seed, keep=True, means=False
    )
    alive = found.died < 0
    if not alive.any():
        raise InputError(f"n_particles is {n_particles}: all filters died; expected more")
    drawn = (
        found.trajectories(1, seed=seed)
        if model.log_transition is None
        else backward_paths(model, found, 1, seed=seed)
    )
    return {name: values[alive] for name, values in rows.items()}, drawn[:, :, alive, 0]


def predictive_bands(
    observations: ArrayLike,
    replicated: ArrayLike,
    *,
    times: ArrayLike | None = None,
    ahead: ArrayLike | None = None,
    axes: Any = None,
) -> Any:
    """Draw observations over the 50 % and 95 % intervals of the posterior predictive distribution; mark
    missing ones.

    Parameters
    ----------
    observations : array-like, shape (n_steps,)
    replicated : ndarray, shape (n_steps, n_rows)
        From `StateSpaceModel.replicate`, for one value.
    times : array-like, shape (n_steps,), optional
    ahead : ndarray, shape (n_ahead, n_rows), optional
        A forecast, drawn after the observations.
    axes : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
    """
    axes = axes_or_new(axes, 7.2, 3.4)
    y = np.asarray(observations, float)
    times = np.arange(len(y)) if times is None else np.asarray(times, float)
    step = np.median(np.diff(times)) if len(times) > 1 else 1.0
    parts = [(times, replicated, "C0", "predicted by the posterior")]
    if ahead is not None:
        parts.append((times[-1] + step * np.arange(1, len(ahead) + 1), ahead, "C1", "forecast"))
    for at, rows, colour, label in parts:
        low, lower, middle, upper, high = np.quantile(rows, [0.025, 0.25, 0.5, 0.75, 0.975], axis=1)
        axes.fill_between(at, low, high, color=colour, alpha=0.2, linewidth=0)
        axes.fill_between(at, lower, upper, color=colour, alpha=0.3, linewidth=0)
        axes.plot(at, middle, color=colour, linewidth=1.0, label=label)
    axes.plot(times, y, "k.", markersize=4, label="observed")
    for at in times[np.isnan(y)]:
        axes.axvline(at, color="0.7", linewidth=0.8, linestyle=":")
    axes.legend(fontsize="small")
    return axes


def posterior_densities(posterior: Posterior, truth: Mapping[str, float] | None = None) -> Any:
    """Draw histograms of the draws of each parameter, and a trace of every chain below.

    Parameters
    ----------
    posterior : Posterior
    truth : dict of names and numbers, optional
        Drawn as lines, if data were simulated.

    Returns
    -------
    matplotlib Figure

    Raises
    ------
    InputError
        Matplotlib is not installed.
    """
    names = posterior.names
    figure = new_figure(2.6 * len(names), 4.2)
    upper, lower = figure.subplots(2, len(names), squeeze=False)
    for above, below, name in zip(upper, lower, names):
        draws = posterior[name]
        above.hist(draws.ravel(), bins=40, density=True, color="0.75")
        above.set(title=f"{name}: {draws.mean():.3g} ± {draws.std():.2g}", yticks=[])
        above.title.set_fontsize("small")
        below.plot(draws.T, linewidth=0.4)
        below.set(xlabel="draw")
        if truth is not None and name in truth:
            above.axvline(truth[name], color="C3")
            below.axhline(truth[name], color="C3")
    return figure
