"""One function for every scheme, and the choice among them."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

import portable as pk
from portable.errors import InputError

from ..shared.annotations import ArrayOrView, PathLike
from ..shared.checks import check_choice
from . import schemes
from .study import SCHEMES, decisions, kind_of, load
from .weights import metropolis_steps


def resample(
    weights: schemes.Rows | None = None,
    *,
    method: str = "auto",
    decisions: PathLike | None = None,
    log_weights: schemes.Rows | None = None,
    space: pk.SpaceLike | None = None,
    **options: Any,
) -> ArrayOrView:
    """Ancestors by a scheme of a given name, or by the fastest one for weights like these.

    Parameters
    ----------
    method : str, default "auto"
        A scheme's name, or "auto": what a study on this machine found fastest for the number of particles and
        the evenness of the weights; without a study systematic: docs/measured.md says by how much.
    decisions : str or path, optional
        The study.json that `python -m portable.models.resampling experiment` wrote.
    weights, log_weights, space, **options : as in the schemes

    Returns
    -------
    ndarray of int64, or a View, as from the schemes

    Raises
    ------
    InputError
        A method that is not listed; decisions that are no study, or of another machine; what the scheme
        itself refuses.

    Examples
    --------
    >>> from portable.models import resampling
    >>> resampling.resample([0.1, 0.2, 0.7], method="systematic", seed=1, space="serial").tolist()
    [1, 2, 2]
    """
    check_choice(method, "method", ("auto", *SCHEMES))
    if method == "auto":
        method = "systematic" if decisions is None else _fastest(decisions, weights, log_weights, space)
    return getattr(schemes, method)(weights, log_weights=log_weights, space=space, **options)


def _fastest(path, weights, log_weights, space):
    """The scheme of the study's nearest cell: N on a logarithmic scale, then y by the Metropolis steps it
    would take."""
    table = _table(str(path))
    kind = kind_of(pk.default_space() if space is None else space)
    if kind not in table:
        raise InputError(
            f"decisions: the study in '{path}' has no cells for {kind}; run the experiment with --space"
        )
    given = weights if log_weights is None else log_weights
    n = (given if isinstance(given, pk.View) else np.asarray(given)).shape[-1]
    steps = metropolis_steps(weights, log_weights=log_weights, space=space)
    return min(
        table[kind].items(),
        key=lambda item: (abs(math.log(item[0][0] / n)), abs(math.log(_steps_at(item[0][1]) / steps))),
    )[1]


def _steps_at(y):
    """B* of the paper's weights: their mean is exp(-y^2 / 4) / sqrt(2) of their largest."""
    return math.log(0.01) / math.log1p(-math.exp(-y * y / 4) / math.sqrt(2.0))


@functools.lru_cache(maxsize=8)
def _table(path):
    return decisions(load(path))
