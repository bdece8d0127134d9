"""Resampling schemes, which compute ancestors from weights; offspring of ancestors, and ancestors permuted
for propagation in place."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeAlias, Union

import numpy as np

import portable as pk

from ..shared import (
    ArrayLike,
    ArrayOrView,
    DTypeError,
    InputError,
    Real,
    SpaceLike,
    Whole,
    check_choice,
    check_count,
    check_flag,
    check_number,
    check_seed,
    launch,
    reached,
    reduce,
)
from . import chains, kernels, launches
from .checks import MOST, check_rows
from .small_kernels import MOST as SHORT
from .weights import ROOM, ROWS, TEAM, RowsOrVector, Tables, Weights, metropolis_steps, teams, tile_size

# A draw that takes more proposals than this on average is refused: other schemes are faster by orders of
# magnitude.
_MOST_PROPOSALS = 2**20

Rows: TypeAlias = Union[ArrayLike, pk.View, None]
Output: TypeAlias = Literal["ancestors", "offspring", "cumulative"]
Degenerate: TypeAlias = Literal["raise", "uniform"]


class Call:
    """One checked call of a scheme: its weights, tables, key and options."""

    def __init__(self, weights, log_weights, seed, step, n_ancestors, on_degenerate, space):
        self.seed, self.step = check_seed(seed), check_count(step, "step", 0, 2**31 - 1) << 32
        self.degenerate_allowed = check_choice(on_degenerate, "on_degenerate", Degenerate) == "uniform"
        self.weights, self.space = Weights(weights, log_weights), space
        self.n_ancestors = (
            self.weights.n if n_ancestors is None else check_count(n_ancestors, "n_ancestors", 1, MOST)
        )
        self.short = None  # extremes of short rows, once a launch for short rows has found them
        self.is_lent = False  # True if the next call overwrites the ancestors

    @functools.cached_property
    def tables(self):
        """Tables of the weights, with their extremes."""
        tables = Tables(self.weights.values, self.weights.log, self.n_ancestors, ROOM)
        tables.find_extremes()
        return tables

    def check(self):
        """Raise an error if the weights are unusable."""
        if self.short is not None or not self.tables.is_usable(self.weights.log):
            self.largest()

    def largest(self):
        """Return the largest weight of each row; raise if the weights are unusable."""
        extremes = self.tables.extremes if self.short is None else self.short
        return self.weights.check(extremes, self.degenerate_allowed)

    def draw(self, scheme, *options, sums=True):
        """Draw ancestors of each row by a scheme; `sums`: add up the weights first."""
        weights, shape = self.weights, (self.weights.n_rows, self.n_ancestors)
        if scheme in launches.OF_SHORT_ROWS and max(weights.n, self.n_ancestors) <= SHORT:
            return self._draw_short(scheme, shape)
        ancestors = pk.empty(shape, np.int64)
        if sums:
            self.tables.add_up()
        scheme(self.tables, np.uint64(self.seed), np.uint64(self.step), ancestors, *options)
        return ancestors

    def _draw_short(self, scheme, shape):
        """Draw ancestors of short rows in one launch."""
        weights = self.weights
        self.is_lent = weights.is_vector and not weights.as_view
        if self.is_lent:  # for a short row, copies cost a fraction of views and a launch
            given = weights.in_floats()
            form = scheme, weights.log, weights.n, shape[1], given.dtype
            row = ROWS(launches.ShortRow, *form, space=self.space)
            self.short = row.extremes
            return row(given, self.seed, self.step)
        ancestors, keys = pk.empty(shape, np.int64), (np.uint64(self.seed), np.uint64(self.step))
        own = weights.log, weights.values, keys, ancestors
        self.short, launched = launches.short_rows(scheme, *own, ROOM)
        launch(*launched)
        return ancestors


class Scheme(Protocol):
    """Draw ancestors for rows of weights; `options` are n_steps and error_bound, or max_weight, if the scheme
    has them.

    Parameters
    ----------
    weights : array-like or View, shape (n,), or (n_rows, n) of several filters; not negative, not all zero
    log_weights : array-like or View, of the same shape, optional
        Instead of weights: finite or -inf.
    seed : int, 0 to 2^64 - 1
    step : int, 0 to 2^31 - 1, default 0
        Calls of one seed with different steps are independent, and so are the rows of one call.
    n_ancestors : int, optional
        M; n if not given.
    permuted : bool, default False
        Order the ancestors for propagation in place: o_i > 0 implies a_i = i (see `permute`; M = n only).
    output : {"ancestors", "offspring", "cumulative"}
    on_degenerate : {"raise", "uniform"}
        Treatment of a row without a positive weight: an error, or equal weights.
    space : str or Space, optional
        Where to compute; the default space if not given.

    Returns
    -------
    ndarray of int64, shape (n_ancestors,) or (n_rows, n_ancestors); (n,) or (n_rows, n) for offspring
        A View on the space if the weights are one.

    Raises
    ------
    ShapeError, DTypeError, FiniteError, InputError
        The message names the first offending weight.
    """

    __name__: str

    def __call__(
        self,
        weights: Rows = None,
        *,
        seed: Whole,
        log_weights: Rows = None,
        step: Whole = 0,
        n_ancestors: Whole | None = None,
        permuted: bool = False,
        output: Output = "ancestors",
        on_degenerate: Degenerate = "raise",
        space: SpaceLike = None,
        **options: Any,
    ) -> ArrayOrView: ...


def _prepared_ancestors(launch, weights, log_weights, seed, step, space):
    """Draw ancestors of a short vector by a launch that an earlier call in this thread has prepared.

    Return None if nothing is prepared, or if the type, the seed or the weights need the full checks, which
    would take longer than the work.
    """
    log = weights is None
    given = log_weights if log else weights
    plain = type(given) is np.ndarray and given.ndim == 1 and (log or log_weights is None)
    if plain and type(seed) is type(step) is int and 0 <= seed < 2**64 and 0 <= step < 2**31:
        n = len(given)
        row = ROWS.known(launch, int(log), n, n, given.dtype, space=space)
        if row is not None:
            found = row(given, seed, step << 32)
            if not row.extremes.to_numpy()[0, 2]:
                return found.to_numpy()[0].copy()
    return None


def _scheme(draw: Callable[..., pk.View]) -> Scheme:
    """Make a public scheme of `draw(call)`, which draws ancestors of each row, or returns None for those that
    the launches of its name draw."""
    launch = getattr(launches, draw.__name__)
    is_short = launch in launches.OF_SHORT_ROWS

    def scheme(
        weights=None,
        *,
        seed,
        log_weights=None,
        step=0,
        n_ancestors=None,
        permuted=False,
        output="ancestors",
        on_degenerate="raise",
        space=None,
        **options,
    ):
        if is_short and permuted is False and n_ancestors is None and output == "ancestors":
            found = _prepared_ancestors(launch, weights, log_weights, seed, step, space)
            if found is not None:
                return found
        check_choice(output, "output", Output)
        with pk.use(space):
            call = Call(weights, log_weights, seed, step, n_ancestors, on_degenerate, space)
            if check_flag(permuted, "permuted") and call.n_ancestors != call.weights.n:
                raise InputError(
                    f"n_ancestors is {call.n_ancestors}; expected as many permuted ancestors as particles, "
                    f"{call.weights.n}"
                )
            ancestors = draw(call, **options)
            if ancestors is None:
                ancestors = call.draw(launch)
            call.check()  # everything is queued by now: this is the only wait
            found = call.weights.back(_as_asked(ancestors, call.weights.n, permuted, output))
            return found.copy() if call.is_lent else found

    scheme.__annotations__ = Scheme.__call__.__annotations__
    scheme.__name__ = scheme.__qualname__ = draw.__name__
    scheme.__module__ = draw.__module__
    scheme.__doc__ = draw.__doc__ + Scheme.__doc__.partition(".")[2]
    return scheme


def _as_asked(ancestors, n, is_permuted, output):
    if output == "ancestors":
        return permuted(ancestors) if is_permuted else ancestors
    counts = count_offspring(ancestors, n)
    return counts if output == "offspring" else accumulate(counts)


def count_offspring(ancestors, n):
    """Count the offspring of each particle in rows of ancestors; a View of shape (n_rows, n)."""
    offspring = pk.zeros((ancestors.shape[0], n), np.int64)
    launch(ancestors.shape, kernels.count, ancestors, offspring)
    return offspring


def accumulate(offspring):
    """Add up rows of offspring cumulatively; a View of the same shape."""
    (n_rows, n), cumulative = offspring.shape, pk.empty(offspring.shape, np.int64)
    n_tiles = -(-n // tile_size(n))
    sums = pk.empty((n_rows, n_tiles + 1), np.uint64)
    launches.sum_up(offspring, sums)
    policy = teams(n_rows * n_tiles, TEAM)
    launch(policy, kernels.scan_tiles, tile_size(n), sums, offspring, cumulative)
    return cumulative


def permute(ancestors: ArrayLike | pk.View, *, space: SpaceLike = None) -> ArrayOrView:
    """Permute ancestors for propagation in place, so that o_i > 0 implies a_i = i (condition (9), Codes 9 and
    10).

    A particle with offspring keeps its place, so that particle i may be overwritten by a copy of particle a_i
    while others are read. Among draws of one ancestor the one of lowest number gets the ancestor's slot: the
    result is the same on every space, and equals that of the serial Code 9.

    Parameters
    ----------
    ancestors : array-like of int or View of int64, shape (n,) or (n_rows, n), 0 to n - 1
    space : str or Space, optional

    Returns
    -------
    ndarray of int64, of the same shape; a View if `ancestors` is one

    Raises
    ------
    ShapeError, DTypeError, InputError
        An ancestor is outside 0 to n - 1.
    """
    with pk.use(space):
        rows = RowsOrVector(check_rows(ancestors, "ancestors", kinds="iu"))
        values = rows.given if rows.as_view else reached(rows.given.astype(np.int64))
        if values.dtype != np.int64:
            raise DTypeError(f"a View of ancestors must be int64, got {values.dtype}")
        values = values.reshape(1, -1) if rows.is_vector else values
        low, top = reduce(values.shape, kernels.bounds, values, reducer=(pk.Min, pk.Max))
        if low < 0 or top >= values.shape[1]:
            raise InputError(
                f"ancestors holds numbers from {int(low)} to {int(top)}; expected 0 to {values.shape[1] - 1}"
            )
        return rows.back(permuted(values))


def permuted(ancestors):
    """Permute rows of ancestors into a new View."""
    owner, result = pk.empty(ancestors.shape, np.int64), pk.empty(ancestors.shape, np.int64)
    launches.permute(ancestors, owner, result)
    return result


@_scheme
def systematic(call):
    """Systematic resampling, with one random number for all draws: `|o_i - e_i|` < 1, ancestors ascend."""


@_scheme
def stratified(call):
    """Stratified resampling, with one draw in each of M strata of equal weight: `|o_i - e_i|` < 2, ancestors
    ascend."""


@_scheme
def multinomial(call):
    """Multinomial resampling: independent draws, sorted, in a single pass over weights and draws (see
    `portable.models.resampling.strata`)."""


@_scheme
def residual(call):
    """Residual resampling: floor(e_i) copies of each particle; the remaining draws are multinomial from the
    residues. Ancestors ascend."""


@_scheme
def ssp(call):
    """Srinivasan's sampling process: fractional parts of e_i are combined in pairs until all are whole. `|o_i
    - e_i|` < 1, ancestors ascend."""


@_scheme
def metropolis(call, *, n_steps=None, error_bound=0.01):
    """Metropolis resampling: B = n_steps steps of a chain that starts at particle k (k mod n if M > n),
    without sums over the weights.

    Biased towards the start: E[o] = 1^T P^B. If n_steps is not given, B is that of `metropolis_steps` for
    error_bound. A particle of weight zero is its own ancestor only if each of its B proposals has weight zero
    too."""
    return call.draw(launches.metropolis, _steps(call, n_steps, error_bound), sums=False)


@_scheme
def megopolis(call, *, n_steps=None, error_bound=0.01):
    """Metropolis resampling with offsets that all chains share, so that neighbouring chains read neighbouring
    weights; options as in `metropolis`.

    Each chain has the law of one of `metropolis`; the chains of one call depend on each other.
    """
    return call.draw(launches.megopolis, _steps(call, n_steps, error_bound), sums=False)


def _steps(call, n_steps, error_bound):
    if n_steps is not None:
        return check_count(n_steps, "n_steps", 1, 2**31 - 1)
    return metropolis_steps(**{call.weights.name: call.weights.given}, error_bound=error_bound)


@_scheme
def rejection(call, *, max_weight=None):
    """Rejection resampling: proposals until one is accepted, the first of them particle k (k mod n if M > n).
    Unbiased if n divides M.

    max_weight is an upper bound of the weights (a log-weight with log_weights=); their largest if not given.
    It is refused if it is below the largest weight, or so high that more than 2^20 proposals a draw are
    expected.
    """
    return call.draw(launches.rejection, _bound(call, max_weight, capped=False), sums=False)


def _bound(call, max_weight, capped):
    """Compute w_max of each row, scaled like the weights, as a View; with `capped` it may lie below the
    largest weight."""
    largest = call.largest()
    call.tables.add_up()
    means = call.tables.sums.to_numpy()[:, -1] / 2.0**call.tables.bits / call.weights.n
    usable = largest > (-np.inf if call.weights.log else 0.0)
    bound = _scaled(np.where(usable, largest, 0.0), largest, usable, call.weights.log)
    if max_weight is not None:
        check_number(max_weight, "max_weight", above=-np.inf if call.weights.log or not capped else 0.0)
        if not capped and max_weight < largest.max():
            raise InputError(
                f"max_weight is {max_weight}, below the largest of {call.weights.name}, "
                f"{largest.max()}; expected at least that"
            )
        bound = np.where(usable, _scaled(max_weight, largest, usable, call.weights.log), 1.0)
    if (usable & (bound > _MOST_PROPOSALS * means)).any():
        is_given = max_weight is not None
        raise InputError(
            f"rejection would take about {(bound / means).max():.3g} proposals a draw"
            f"{f' with max_weight = {max_weight}' * is_given}; expected at most 2^20."
            f" {'Give a tighter max_weight, or take' if is_given else 'Take'} another scheme"
        )
    return reached(bound)


def _scaled(weight, largest, usable, log):
    """Scale a weight to the units of `weighing.scale` with bits = 0; 1 in unusable rows."""
    if log:
        return np.where(usable, np.exp(np.minimum(weight - np.where(usable, largest, 0.0), 700.0)) / 2.0, 1.0)
    shift = np.frexp(largest)[1]
    half = -shift // 2
    with np.errstate(over="ignore"):  # the caller refuses an infinite max_weight
        return np.where(usable, weight * np.ldexp(1.0, half) * np.ldexp(1.0, -shift - half), 1.0)


def partial_rejection(
    weights: Rows = None,
    *,
    seed: Whole,
    max_weight: Real,
    log_weights: Rows = None,
    step: Whole = 0,
    n_ancestors: Whole | None = None,
    on_degenerate: Degenerate = "raise",
    space: SpaceLike = None,
) -> tuple[ArrayOrView, ArrayOrView]:
    """Resample by partial rejection control: `rejection` with a max_weight that may lie below the largest
    weight.

    In the draw, a weight counts only up to max_weight = v; ancestor a then carries the rest, max(w_a / v, 1),
    so that weighted draws are unbiased: E sum_k [a_k = i] max(w_i / v, 1) is proportional to w_i.

    Parameters
    ----------
    max_weight : float, positive (a log-weight with log_weights=)
        Lower values make draws faster, and the carried weights less even.
    weights, log_weights, seed, step, n_ancestors, on_degenerate, space : as in `rejection`

    Returns
    -------
    ancestors : ndarray of int64, shape (n_ancestors,) or (n_rows, n_ancestors)
    weights : ndarray of float64, of the same shape, at least 1
        Views if the weights are one.

    Raises
    ------
    ShapeError, DTypeError, FiniteError, InputError
        As `rejection`; a max_weight that is not positive.
    """
    with pk.use(space):
        call = Call(weights, log_weights, seed, step, n_ancestors, on_degenerate, space)
        bound = _bound(call, max_weight, capped=True)
        ancestors = call.draw(launches.rejection, bound, sums=False)
        carried = pk.empty(ancestors.shape)
        launch(call.tables.draws, chains.excess, *call.tables.known, bound, ancestors, carried)
        return call.weights.back(ancestors), call.weights.back(carried)


@_scheme
def killing(call):
    """Killing: particle k survives with probability w_k / w_max; otherwise a multinomial draw replaces it. M
    = n only."""
    if call.n_ancestors != call.weights.n:
        raise InputError(
            f"n_ancestors is {call.n_ancestors}; killing makes as many as particles, {call.weights.n}"
        )
