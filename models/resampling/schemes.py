"""The schemes: weights become ancestors."""

from __future__ import annotations

import math
import numbers

import numpy as np

import portable as pk
from portable.errors import DTypeError, FiniteError, InputError

from ..checks import check_count
from . import kernels
from .checks import MOST
from .weights import Weights, on

# More proposals than this, on average a draw, are refused: other schemes are faster by orders of magnitude.
_MOST_PROPOSALS = 2**20

_ARGUMENTS = """

    Parameters
    ----------
    weights : array-like or View, shape (n,), not negative, not all zero
    log_weights : array-like or View, shape (n,), optional
        Instead of weights: finite or -inf.
    seed : int, 0 to 2^64 - 1
    step : int, 0 to 2^32 - 1, default 0
        Calls of one seed with different steps are independent.
    n_draws : int, optional
        M; n if not given.
    space : str or Space, optional
        Where to compute; the default space if not given.

    Returns
    -------
    ndarray of int64, shape (n_draws,)
        Ancestors; a View on the space if the weights are one.

    Raises
    ------
    ShapeError, DTypeError, FiniteError, InputError
        Before anything is drawn; the message names the first offending weight.
    """


def _scheme(draw):
    """A public scheme of `draw(weights, ancestors, seed, step)`, which fills ancestors."""

    def scheme(weights=None, *, seed, log_weights=None, step=0, n_draws=None, space=None, **options):
        seed = np.uint64(check_count(seed, "seed", 0, 2**64 - 1))
        step = np.uint64(check_count(step, "step", 0, 2**32 - 1) << 32)
        with on(space):
            w = Weights(weights, log_weights)
            n_draws = w.n if n_draws is None else check_count(n_draws, "n_draws", 1, MOST)
            ancestors = pk.empty((n_draws,), np.int64)
            draw(w, ancestors, seed, step, **options)
            return ancestors if w.as_view else ancestors.to_numpy()

    scheme.__name__ = scheme.__qualname__ = draw.__name__
    scheme.__module__ = draw.__module__
    scheme.__doc__ = draw.__doc__ + _ARGUMENTS
    return scheme


def quantise(w, n_draws):
    """The fixed-point scale of weights, their cumulative sum and its total."""
    scale = w.scale(62 - (max(w.n, n_draws) - 1).bit_length())
    cumulative = pk.empty((w.n,), np.uint64)
    total = int(pk.parallel_scan(w.n, kernels.quantised, w.values, scale, out=cumulative))
    return scale, cumulative, total


def draw_systematic(cumulative, total, start, ancestors):
    """Ancestors at the positions floor((k Q + start) / M), start a whole number in [0, Q)."""
    n_draws = ancestors.shape[0]
    quotient, remainder = divmod(total, n_draws)
    pk.parallel_for(n_draws, kernels.at_systematic, np.uint64(quotient), np.uint64(remainder), np.uint64(start),
                    np.uint64(n_draws), cumulative, ancestors)


@_scheme
def systematic(w, ancestors, seed, step):
    """One random number for all draws: |o_i - e_i| < 1, ancestors ascend."""
    _, cumulative, total = quantise(w, ancestors.shape[0])
    draw_systematic(cumulative, total, pk.random.randint(seed, 0, step, total), ancestors)


@_scheme
def stratified(w, ancestors, seed, step):
    """One draw in each of M strata of equal weight: |o_i - e_i| < 2, ancestors ascend."""
    n_draws = ancestors.shape[0]
    _, cumulative, total = quantise(w, n_draws)
    quotient, remainder = divmod(total, n_draws)
    pk.parallel_for(n_draws, kernels.at_stratified, np.uint64(quotient), np.uint64(remainder), np.uint64(total),
                    np.uint64(n_draws), seed, step, cumulative, ancestors)


@_scheme
def multinomial(w, ancestors, seed, step):
    """Independent draws, by scan and bisection."""
    _, cumulative, total = quantise(w, ancestors.shape[0])
    pk.parallel_for(ancestors.shape[0], kernels.at_multinomial, 0, np.uint64(total), seed, step, cumulative, ancestors)


@_scheme
def residual(w, ancestors, seed, step):
    """floor(e_i) copies of each particle, ascending; the remaining draws are multinomial from the residues.

    Residues lose their last bits where the sum of them would pass 2^63; the quantisation bound then doubles at most.
    """
    n_draws = ancestors.shape[0]
    scale, cumulative, total = quantise(w, n_draws)
    arguments = w.values, scale, np.uint64(n_draws), np.uint64(total)
    copies = pk.empty((w.n,), np.int64)
    n_copies = int(pk.parallel_scan(w.n, kernels.whole_copies, *arguments, out=copies))
    if n_copies:
        pk.parallel_for(n_copies, kernels.by_rank, copies, ancestors)
    if n_copies < n_draws:  # the residues sum to (M - copies) Q
        shift = max(0, ((n_draws - n_copies) * total).bit_length() - 63)
        rest = int(pk.parallel_scan(w.n, kernels.residue, *arguments, np.uint64(shift), out=cumulative))
        pk.parallel_for(n_draws - n_copies, kernels.at_multinomial, n_copies, np.uint64(rest), seed, step, cumulative,
                        ancestors)


@_scheme
def metropolis(w, ancestors, seed, step, *, n_steps):
    """B = n_steps Metropolis steps of a chain that starts at particle k (k mod n if M > n): no sums over the weights.

    Biased towards the start: E[o] = 1^T P^B. `metropolis_steps` gives B. A particle of weight zero keeps its place
    only if each of its B proposals has weight zero too. Give n_steps from 1 to 2^32 - 1.
    """
    n_steps = check_count(n_steps, "n_steps", 1, 2**32 - 1)
    pk.parallel_for(ancestors.shape[0], kernels.metropolis_chain, n_steps, w.values, w.scale(), np.uint64(w.n), seed,
                    step, ancestors)


@_scheme
def rejection(w, ancestors, seed, step, *, max_weight=None):
    """Proposals until one is accepted, the first of them particle k (k mod n if M > n). Unbiased where n divides M.

    max_weight is an upper bound of the weights (a log-weight with log_weights=); their largest if not given. One below
    the largest is refused, and one so high that more than 2^20 proposals a draw are to be expected.
    """
    scale = w.scale()
    largest = _bound(w, max_weight) * float(scale[0]) * float(scale[1])
    bits = 62 - (w.n - 1).bit_length()
    mean = int(pk.parallel_reduce(w.n, kernels.quantised, w.values, w.scale(bits))) / 2**bits / w.n
    if largest > _MOST_PROPOSALS * mean:
        raise InputError(f"rejection would take about {largest / mean:.3g} proposals a draw with max_weight = "
                         f"{max_weight}; at most 2^20 are wanted. Give a tighter max_weight, or take another scheme")
    pk.parallel_for(ancestors.shape[0], kernels.rejection_chain, np.float64(largest), w.values, scale, np.uint64(w.n),
                    seed, step, ancestors)


def _bound(w, max_weight):
    if max_weight is None:
        return w.largest
    if isinstance(max_weight, bool) or not isinstance(max_weight, numbers.Real):
        raise DTypeError(f"max_weight must be a number, got {max_weight!r} of type {type(max_weight).__name__}")
    if math.isnan(max_weight) or math.isinf(max_weight):
        raise FiniteError(f"max_weight is {max_weight}; a finite number is wanted")
    largest = w.largest if w.log_largest is None else w.log_largest
    if max_weight < largest:
        raise InputError(f"max_weight is {max_weight}, below the largest of {w.name}, {largest}; at least that is "
                         "wanted")
    if w.log_largest is None:
        return float(max_weight)
    return math.exp(min(max_weight - largest, 700.0))  # beyond, exp overflows; refused as too high either way


@_scheme
def killing(w, ancestors, seed, step):
    """Particle k survives with probability w_k / w_max; else a multinomial draw replaces it. M = n only."""
    if ancestors.shape[0] != w.n:
        raise InputError(f"n_draws is {ancestors.shape[0]}; killing makes as many draws as there are particles, {w.n}")
    _, cumulative, total = quantise(w, w.n)
    scale = w.scale()
    largest = np.float64(w.largest * scale[0] * scale[1])
    pk.parallel_for(w.n, kernels.survive_or_draw, largest, np.uint64(total), w.values, scale, np.uint64(w.n), seed,
                    step, cumulative, ancestors)
