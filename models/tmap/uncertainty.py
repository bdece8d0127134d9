"""Standard errors of a fit, from the observed information."""

from __future__ import annotations

import numpy as np

from ..shared import Array, Frozen, InputError, Spaces, connected
from .checks import check_memory
from .em import EM
from .kernels import DEAD
from .model import TransientMAP, check_model, check_type
from .runs import Runs

# Step in the logarithms of rates and probabilities: differences then have a relative error of about 1e-6 from
# curvature, while rounding errors, about 1e-13 of the sums over all gaps, are divided by the step.
_STEP = 1e-3
_AT_BOUND = 1e-7  # a smaller probability is treated as zero, its lower bound
_AT_ONCE = 16


class StandardErrors(Frozen):
    """Standard errors of a model's parameters; NaN for a parameter at its bound or held fixed, or of a dead
    branch.

    Attributes
    ----------
    alpha, rates, exits : ndarray, shape (n_branches,)
    switching : ndarray, shape (n_branches, n_branches)
    covariance : ndarray, shape (m, m), m = 3 n_branches + n_branches^2
        That of alpha, rates, exits and the rows of switching, one after the other.
    """

    alpha: Array
    rates: Array
    exits: Array
    switching: Array
    covariance: Array


def standard_errors(
    model: TransientMAP,
    runs: Runs,
    *,
    memory_mb: float | None = None,
    space: Spaces = None,
    client: object = None,
) -> StandardErrors:
    """Compute standard errors of the maximum-likelihood estimate `model`.

    The gradient of the log-likelihood follows from the sums (6) (Fisher's identity; Louis, JRSS B 44, 1982);
    its central differences give the observed information. Parameters are logarithms of rates, and of
    probabilities up to a constant for each row, so that rows keep their sum; the delta method transforms
    back.

    Parameters
    ----------
    model : TransientMAP
        A maximum: a model that `fit` returned after convergence.
    runs : Runs
    memory_mb : float, optional
        As in `fit`.
    space : str, Space or a list of them, optional
    client : distributed.Client or "local", optional
        Its workers divide the runs.

    Returns
    -------
    StandardErrors

    Raises
    ------
    InputError
        The information is not positive definite: `model` is not a maximum, or the runs do not distinguish its
        branches.
    """
    check_model(model)
    check_type(runs)
    with connected(client) as client:
        em = EM(runs, model.orders, _AT_ONCE, np.float64, space, check_memory(memory_mb), client)
        alive = em.expectation([model])[0].visits > DEAD
        # see `fit`: such a branch takes zero gaps only
        held = model.orders / model.rates <= em.shortest * (1 + 1e-12)
        free = _free(model, alive, held)
        whole = _parameters(model)
        steps = np.eye(len(whole))[free] * _STEP
        points = [_moved(model, sign * step) for step in steps for sign in (1.0, -1.0)]
        slopes = np.array(
            [_gradient(point, sums)[free] for point, sums in zip(points, em.expectation(points))]
        )
    information = (slopes[1::2] - slopes[::2]) / (2.0 * _STEP)
    to_whole = _jacobian(model)[:, free]
    # logarithms of a row's probabilities are determined up to a constant: that direction has no information
    values, vectors = np.linalg.eigh(0.5 * (information + information.T))
    blank = sum(bool(free[row].any()) for row in _rows(model))
    order = np.argsort(np.abs(values))[blank:]
    if (values[order] <= 1e-9 * np.abs(values).max()).any():
        raise InputError(
            "model is not at a maximum of the likelihood that the runs determine: fit with a smaller tol, or "
            "with fewer branches"
        )
    half = to_whole @ vectors[:, order] / np.sqrt(values[order])
    covariance = half @ half.T
    covariance[~free] = covariance[:, ~free] = np.nan
    n = model.n_branches
    errors = np.sqrt(covariance.diagonal())
    return StandardErrors(
        errors[:n], errors[n : 2 * n], errors[2 * n : 3 * n], errors[3 * n :].reshape(n, n), covariance
    )


def _parameters(model):
    return np.concatenate([model.alpha, model.rates, model.exits, model.switching.ravel()])


def _rows(model):
    """Yield the groups of probabilities that sum to 1 among alpha, rates, exits and switching."""
    n = model.n_branches
    yield np.arange(n)
    for i in range(n):
        yield np.concatenate([[2 * n + i], 3 * n + i * n + np.arange(n)])


def _free(model, alive, held):
    """Return a mask of the parameters that can be estimated, shape (m,)."""
    into = model.switching > _AT_BOUND
    free = np.concatenate(
        [
            model.alpha > _AT_BOUND,
            alive & ~held,
            (model.exits > _AT_BOUND) & alive,
            (into & alive[:, None] & alive).ravel(),
        ]
    )
    for row in _rows(model):
        if free[row].sum() == 1:  # a single probability, which is fixed by the sum
            free[row] = False
    return free


def _moved(model, step):
    """Move the model by a step in the logarithms, with each row scaled back to its sum."""
    n = model.n_branches
    whole = _parameters(model) * np.exp(step)
    for row in _rows(model):
        whole[row] /= whole[row].sum()
    return TransientMAP(whole[:n], model.orders, whole[n : 2 * n], whole[3 * n :].reshape(n, n))


def _gradient(model, sums):
    """Compute the gradient of the log-likelihood in the logarithms."""
    row_sums = sums.completed
    return np.concatenate(
        [
            sums.first - sums.first.sum() * model.alpha,
            model.orders * sums.visits - model.rates * sums.time,
            sums.last - row_sums * model.exits,
            (sums.moves - row_sums[:, None] * model.switching).ravel(),
        ]
    )


def _jacobian(model):
    """Compute the derivatives of the parameters in the logarithms."""
    whole = _parameters(model)
    jacobian = np.diag(whole)
    for row in _rows(model):
        jacobian[np.ix_(row, row)] -= np.outer(whole[row], whole[row])
    return jacobian
