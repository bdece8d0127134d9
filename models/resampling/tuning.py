"""Choose the number of particles of a likelihood estimate by its variance."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..shared import ArrayLike, Frozen, InputError, Whole, check_count
from .arguments import Params, as_table
from .state_space import StateSpaceModel

# If the cost of a PMMH step is proportional to its particles, the sd of the log-likelihood at the posterior's
# centre is best between 1.0 and 1.7 (Doucet, Pitt, Deligiannidis, Kohn: Efficient implementation of Markov
# chain Monte Carlo when using an unbiased likelihood estimator, Biometrika 102, 2015); with 1, chains stick
# less.
WANTED = 1.0


class Needed(Frozen):
    """Variance of the log-likelihood by the number of particles.

    Attributes
    ----------
    n_particles : int
        Number at which the variance is about 1, a multiple of 32.
    tried : dict
        Variance by number of particles; NaN if a filter died.
    text : str
        Description.
    """

    n_particles: int
    tried: dict
    text: str

    def __str__(self) -> str:
        return self.text


def particles_needed(
    model: StateSpaceModel,
    observations: ArrayLike,
    params: Params,
    *,
    inputs: ArrayLike | None = None,
    n_runs: Whole = 100,
    max_particles: Whole = 2**16,
    seed: Whole = 0,
    **options: Any,
) -> Needed:
    """Find the number of particles at which the variance of the log-likelihood is about 1, near given
    parameters.

    Parameters
    ----------
    model : StateSpaceModel
    observations, inputs : as in `ParticleFilter.run`
    params : of one filter
        Near the centre of the posterior, for example from a first short PMMH run.
    n_runs : int
        Filters, rows of one batch, whose variance is computed; its relative error is sqrt(2 / n_runs).
    max_particles : int
        More particles are not tried.
    **options : as in `StateSpaceModel.filter`

    Returns
    -------
    Needed

    Raises
    ------
    InputError
        Filters die, or vary too much, even with `max_particles` particles.
    """
    n_runs, max_particles = check_count(n_runs, "n_runs", 10), check_count(max_particles, "max_particles", 32)
    row = as_table(params, model.parameters)
    if row.ndim != 1:
        raise InputError(f"params is of {row.shape[0]} filters; expected one")
    filters, tried, n = model.filter(**options), {}, 64
    while True:
        values = filters.log_likelihood(
            observations, n, params=np.tile(row, (n_runs, 1)), inputs=inputs, seed=seed
        )
        tried[n] = float(values.var(ddof=1)) if np.isfinite(values).all() else math.nan
        if tried[n] <= 2.0 * WANTED or n >= max_particles:
            break
        # the variance falls as 1 / n, once it is small
        growth = 4.0 if math.isnan(tried[n]) else min(16.0, max(1.5, tried[n] / WANTED))
        n = min(max_particles, 32 * math.ceil(n / 32 * growth))
    if not tried[n] <= 2.0 * WANTED:
        raise InputError(
            f"with {n:,} particles the variance of the log-likelihood is {tried[n]:.3g} over {n_runs} runs,"
            " not about 1; expected a guide, nearer parameters, or a larger max_particles"
        )
    needed = 32 * max(1, math.ceil(n * tried[n] / WANTED / 32))
    seen = "; ".join(f"{variance:.2g} with {count:,}" for count, variance in tried.items())
    text = (
        f"{needed:,} particles bring the variance of the log-likelihood to about 1: it was {seen} particles,"
        f" over {n_runs} runs (each right to {math.sqrt(2 / n_runs):.0%})."
    )
    return Needed(needed, tried, text)
