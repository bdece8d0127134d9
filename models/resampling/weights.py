"""Weights on a space, scaled by a power of two; what is computed of them without drawing."""

from __future__ import annotations

import math

import numpy as np

import portable as pk
from portable.errors import DTypeError, InputError

from . import kernels
from .checks import check_log_range, check_range, check_vector


class Weights:
    """Checked weights where the default space reaches them.

    Parameters
    ----------
    weights, log_weights : array-like or View, shape (n,)
        One of them; the other None.

    Attributes
    ----------
    values : View or ndarray, shape (n,), float32 or float64
    n : int
    largest : float
        The largest value; 1 for log-weights, which are taken relative to their largest.
    log_largest : float or None
        The largest log-weight.
    as_view : bool
        Whether the caller gave a View, and so wants one back.
    """

    def __init__(self, weights, log_weights):
        if (weights is None) == (log_weights is None):
            raise InputError("one of weights and log_weights is wanted, and the other left out")
        self.name = "weights" if log_weights is None else "log_weights"
        given = check_vector(weights if log_weights is None else log_weights, self.name)
        self.as_view, self.n = isinstance(given, pk.View), given.shape[0]
        device = on_space(given)
        smallest, largest = pk.parallel_reduce(self.n, kernels.value, device, reducer=(pk.Min, pk.Max))
        if log_weights is None:
            check_range(given, self.name, smallest, largest)
            self.values, self.largest, self.log_largest = device, float(largest), None
        else:
            check_log_range(given, self.name, largest)
            self.values, self.largest, self.log_largest = pk.empty((self.n,), np.float64), 1.0, float(largest)
            pk.parallel_for(self.n, kernels.exponential, device, np.float64(largest), self.values)

    def scale(self, bits=0):
        """The factors that bring the largest weight into [2^(bits - 1), 2^bits)."""
        shift = bits - math.frexp(self.largest)[1]
        half = shift // 2
        return np.float64(math.ldexp(1.0, half)), np.float64(math.ldexp(1.0, shift - half))


def on_space(values):
    """An array as a view where the default space reaches it, in float32 or float64; a View as it is."""
    if isinstance(values, pk.View):
        if values.dtype.kind != "f":
            raise DTypeError(f"a View of weights must be float32 or float64, got {values.dtype}")
        return values
    return pk.copy_of(values if values.dtype in (np.float32, np.float64) else values.astype(np.float64))


def on(space):
    return pk.use(pk.default_space() if space is None else space)


def effective_sample_size(weights=None, *, log_weights=None, space=None):
    """(sum w)^2 / sum w^2, from 1 to n.

    Parameters
    ----------
    weights : array-like or View, shape (n,), not negative
    log_weights : array-like or View, shape (n,), optional
        Instead of weights.
    space : str or Space, optional

    Returns
    -------
    float
    """
    with on(space):
        w = Weights(weights, log_weights)
        total, squares = pk.parallel_reduce(w.n, kernels.moments, w.values, w.scale(), reducer=(pk.Sum, pk.Sum))
    return float(total * total / squares)


def log_sum_exp(log_weights, *, space=None):
    """log sum exp(log w), in float64; -inf where all are.

    Parameters
    ----------
    log_weights : array-like or View, shape (n,)
    space : str or Space, optional

    Returns
    -------
    float
    """
    with on(space):
        given = check_vector(log_weights, "log_weights")
        return float(pk.parallel_reduce(given.shape[0], kernels.log_weight, on_space(given), reducer=pk.LogSumExp))


def metropolis_steps(weights=None, *, log_weights=None, error=0.01, space=None):
    """B* = ceil(log error / log(1 - beta)), beta = mean(w) / max(w): the steps for a bias of Metropolis about `error`.

    Parameters
    ----------
    weights, log_weights, space : as in `effective_sample_size`
    error : float, between 0 and 1

    Returns
    -------
    int, at least 1
    """
    if isinstance(error, bool) or not isinstance(error, float) or not 0.0 < error < 1.0:
        raise InputError(f"error is {error!r}; a float between 0 and 1, neither included, is wanted")
    with on(space):
        w = Weights(weights, log_weights)
        scale = w.scale()
        total, _ = pk.parallel_reduce(w.n, kernels.moments, w.values, scale, reducer=(pk.Sum, pk.Sum))
    beta = min(float(total) / w.n / float(w.largest * scale[0] * scale[1]), 1.0)
    return 1 if beta == 1.0 else max(1, math.ceil(math.log(error) / math.log1p(-beta)))
