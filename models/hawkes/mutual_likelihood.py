"""The log-likelihood of mutually exciting types, prepared for many evaluations: its events are divided
into blocks, chunks and pieces for the sums."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

import portable as pk

from ..shared import (
    ArrayLike,
    Floats,
    InputError,
    ShapeError,
    SpaceLike,
    check_count,
    check_flag,
    check_kind,
    check_labels,
    check_number,
    check_numbers,
    check_positive,
    exclusive,
    generator_of,
    launch,
    lock_of,
)
from . import mutual_kernels as kernels
from .checks import check_events, check_horizon, check_times
from .covariates import clipped, CONSTANT, Covariates, growth_of, step_of
from .forecast import Forecast
from .mutual import draw_after, Mutual, MutualSlopes
from .regions import region_of


BLOCKS = 8, 16  # most events of a block, for few types and for many: its pairs are summed directly
_MANY = 256
SPAN = 64  # blocks that a work item processes in sequence
ROWS_BYTES = 2**23, 2**29  # bounds of the size of a chunk's rows, which is otherwise 1 / _CHUNKS of all rows
_CHUNKS = 64
_LANES = 2**18  # fewest work items (pieces times types) of a chunk, if it has as many events
_PIECE = 64, 1024  # bounds of the largest number of events of a piece
_SPENT = 746.0  # exp(-746) is 0 in float64
# Background outside of the region, relative to that inside: no rate of an event there is then 0.
OUTSIDE = 1e-12


class Chunk(NamedTuple):
    """Ranges of blocks, events and pieces that are summed together, and where the pieces of each type
    begin."""

    blocks: tuple[int, int]
    events: tuple[int, int]
    pieces: tuple[int, int]
    runs: pk.View

    def teams(self, size):
        """Return a policy with one team of `size` members for each piece."""
        return pk.TeamPolicy(self.pieces[1] - self.pieces[0], size)


class Layout:
    """The events of a data set, sorted for a number of rates; its arrays are made in the current space."""

    def __init__(self, times, types, n_types, steps, places, n_rates):
        n_dims = places.shape[1]
        whole = np.array([0, len(times)])
        begin = whole if n_dims else blocks_of(times, BLOCKS[n_types >= _MANY])
        n_blocks = len(begin) - 1
        row_bytes = 16 * n_rates * n_types
        # blocks per chunk
        width = max(SPAN, int(np.clip(n_blocks * row_bytes // _CHUNKS, *ROWS_BYTES)) // row_bytes)
        block = np.repeat(np.arange(n_blocks), np.diff(begin))
        key = block // width * n_types + types
        self.order = order = np.argsort(key, kind="stable")
        firsts = np.append(np.arange(0, n_blocks, width), n_blocks)
        self.most_events, self.n_rows = int(np.diff(begin[firsts]).max()), min(width, n_blocks) + 1
        pieces = cut(key[order], self.most_events * n_types)
        keys = key[order[pieces[:-1]]]
        self.kinds = keys % n_types
        self.events = events_of(times, types, begin, block, order, steps, self.kinds, pieces)
        if n_dims:
            x, own = pk.copy_of(places.T), pk.copy_of(places[order].T)
            self.events = self.events._replace(n_dims=pk.static(n_dims), x=x, places=own)
        self.chunks = chunks_of(firsts, begin[firsts], keys, n_types)
        self.most_pieces = max(np.diff(chunk.pieces)[0] for chunk in self.chunks)


def events_of(times, types, begin, block, order, steps, kinds, pieces):
    """Return the kernels' arguments for the events."""
    before = np.searchsorted(times, times)
    whole = types, begin, block[order], begin[block[order]], before[order], steps[order], kinds, pieces
    small = [pk.copy_of(array.astype(np.int32)) for array in whole]
    return kernels.Events(pk.copy_of(times), *small[:2], pk.copy_of(times[order]), *small[2:])


def chunks_of(firsts, ends, keys, n_types):
    """Return the chunks, given their first blocks, their first events, and a key of chunk and type for
    each piece."""
    runs, found = np.searchsorted(keys, np.arange((len(firsts) - 1) * n_types + 1)), []
    for c in range(len(firsts) - 1):
        own = runs[c * n_types : (c + 1) * n_types + 1]
        ranges = [(int(v[0]), int(v[-1])) for v in (firsts[c : c + 2], ends[c : c + 2], own)]
        found.append(Chunk(*ranges, pk.copy_of((own - own[0]).astype(np.int32))))
    return found


def blocks_of(times, most):
    """Return the first event of each block, and at the end the number of events. Tied events are never
    separated; a large group of ties is a block by itself."""
    ties = [np.searchsorted(times, times[::most], side=side) for side in ("left", "right")]
    return np.unique(np.concatenate([*ties, [len(times)]]))


def cut(keys, n_lanes):
    """Return where each piece begins: runs of one key are cut into pieces short enough that a chunk with
    `n_lanes` events times types has enough of them."""
    most = int(np.clip(n_lanes // _LANES, *_PIECE))
    runs = np.append(np.flatnonzero(np.diff(keys, prepend=-1)), len(keys))
    counts = -(-np.diff(runs) // most)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.append(np.repeat(runs[:-1], counts) + most * within, runs[-1])


class MutualLikelihood:
    """The log-likelihood of mutually exciting types, prepared for many evaluations.

    Parameters
    ----------
    times : array-like, shape (n_events,), hours, ascending
    types : array-like, shape (n_events,)
        Numbers from 0 on, or any labels, which are then sorted: `names`.
    n_types : int, optional
        The number of types, if types are numbers and some of them may have no events.
    start_h, horizon_h : float, optional
        Beginning and end of observation; the first and the last event if not given. Earlier events excite
        later ones, but do not contribute their own log rates.
    covariates : Covariates, optional
        Of a background that varies in time.
    locations : array-like, shape (n_events, n_dims), kilometres; optional
        Places of events, for excitation in space and time: offspring are normal about their parent.
    box_km, polygon : optional
        The region of `locations`, as in `fit_background`, in which the background is uniform.
    space : str or Space, optional

    Attributes
    ----------
    n_events, n_types : int
    counts : ndarray of int, shape (n_types,)
        Events of each type within the window.
    names : tuple
    density : ndarray, shape (n_events,), per km^D
        With locations: the density in space of the background of an event's type, at its place.

    Raises
    ------
    ShapeError, DTypeError, FiniteError, OrderError, InputError
        Times do not ascend; a type has no events; there is no event in the window; a polygon does not contain
        all events.
    """

    def __init__(
        self,
        times: ArrayLike,
        types: ArrayLike,
        *,
        n_types: int | None = None,
        start_h: float | None = None,
        horizon_h: float | None = None,
        covariates: Covariates = CONSTANT,
        locations: ArrayLike | None = None,
        box_km: ArrayLike | None = None,
        polygon: Any = None,
        space: SpaceLike = None,
    ) -> None:
        times = check_times(times, "types")
        types, self.names = check_types(types, n_events := len(times), n_types)
        self.n_events, self.n_types = n_events, len(self.names)
        self.start_h, self.horizon_h = check_window(start_h, horizon_h, times)
        # Kernels measure time from the first event: large times would lose digits.
        self.window = self.start_h - times[0], self.horizon_h - times[0]
        self.origin_h, self.times, self.types = float(times[0]), times - times[0], types
        self.n_before = int(np.searchsorted(self.times, self.window[0]))
        self.counts = np.bincount(types[self.n_before :], minlength=self.n_types)
        self.covariates, self._step = covariates, step_of(covariates, times)
        self.cells = self._step * self.n_types + types
        self.hours = self.horizon_h - self.start_h
        self._hours = np.diff(clipped(covariates, self.start_h, self.hours))
        self.locations, self.region, self.density = _check_places(locations, times, box_km, polygon)
        if self.region:
            rest = {"n_types": self.n_types, "horizon_h": horizon_h, "covariates": covariates, "space": space}
            self._in_time = MutualLikelihood(times, types, start_h=start_h, **rest)
        with pk.use(space) as self.space:
            self._forget()

    def _forget(self):
        """Make the functions whose results are kept; a pickle has none of these."""
        rest = self.types, self.n_types, self._step, self.locations
        self.layout = functools.cache(functools.partial(Layout, self.times, *rest))
        self._buffers = functools.cache(self._make_buffers)

    def __getstate__(self):
        kept = "layout", "_buffers", "_of_events"
        return {name: value for name, value in vars(self).items() if name not in kept}

    def __setstate__(self, state):
        vars(self).update(state)
        self._forget()

    def _make_buffers(self, n_rates, wide):
        """Return empty arrays for rows, ends of spans, sums over pieces, and fades."""
        layout, shape = self.layout(n_rates), (n_rates * (1 + wide), self.n_types)
        lengths = layout.n_rows, -(-layout.n_rows // SPAN), layout.most_pieces
        return *(pk.empty((n, *shape)) for n in lengths), pk.empty((n_rates, layout.most_events))

    @functools.cached_property
    def _of_events(self):
        """Arrays for the excitation of each event, and for the reciprocal of its rate."""
        return pk.empty(self.n_events), pk.empty(self.n_events)

    @exclusive
    def log_likelihood(self, params: Mutual) -> float:
        """Return the log-likelihood at `params`.

        Parameters
        ----------
        params : Mutual

        Returns
        -------
        float

        Raises
        ------
        DTypeError, ShapeError
            `params` is no `hawkes.Mutual`, or of another number of types.
        """
        return self._evaluate(params)

    @exclusive
    def gradient(self, params: Mutual, *, rates: bool = True) -> tuple[float, MutualSlopes]:
        """Return the log-likelihood at `params` and its derivatives.

        Parameters
        ----------
        params : Mutual
        rates : bool, default True
            Also compute the derivatives in the rates, which takes twice as long.

        Returns
        -------
        value : float
        slopes : MutualSlopes

        Raises
        ------
        DTypeError, ShapeError
            `params` is no `hawkes.Mutual`, or of another number of types.
        """
        params, wide = check_params(self, params), check_flag(rates, "rates")
        n_rates = len(params.rates)
        value, by_type, found, in_h = self._evaluate(params, wide)
        inverse, late, late_slopes = np.split(by_type, [1, 1 + n_rates])
        found = found.transpose(1, 0, 2)
        betas, in_rates = params.rates[:, None, None], None
        if wide:
            whole = params.branching * (found[:n_rates] - betas * found[n_rates:])
            in_rates = (whole.sum(axis=1) - params.branching.sum(axis=1) * late_slopes).sum(axis=1)
        in_branching = betas * found[:n_rates] - late[:, None, :]
        in_mu, in_coefficients = self._in_background(params, inverse)
        return value, MutualSlopes(in_mu, in_branching, in_rates, in_coefficients, in_h)

    def _in_background(self, params, inverse):
        """Return the derivatives in mu and the coefficients, given the sums of 1 / lambda by type."""
        growth = growth_of(self.covariates, params)
        if len(growth) > 1:  # sums by step and type
            cells = self.cells[self.layout(len(params.rates)).order]
            inverse = np.bincount(cells, self._of_events[1].to_numpy(), growth.size).reshape(growth.shape)
        each = growth * (inverse - self._hours[:, None])
        return each.sum(axis=0), params.mu[:, None] * (each.T @ self.covariates.values)

    def _evaluate(self, params, wide=None):
        """Return the log-likelihood. Unless `wide` is None, also return sums by type (of 1 / lambda, and
        of offspring and their derivative in each rate), and sums of weighted R, followed by weighted Q if
        `wide`, and the derivative in h_km."""
        params, in_h = check_params(self, params), np.empty(0) if wide else None
        n_rates, levels = len(params.rates), self._levels(params)
        with pk.use(self.space):
            heights = heights_of(params.branching * params.rates[:, None, None])
            sums = pk.empty((len(kinds := self.layout(n_rates).kinds), 2 + 2 * n_rates))
            excited, weights = self._of_events
            found = None if wide is None else pk.zeros((self.n_types, (1 + wide) * n_rates, self.n_types))
            each = pk.copy_of(levels), *self.window, excited, weights, sums
            for chunk, e in self._states(params.rates, bool(wide), params.h_km):
                self._excite(chunk, e, heights, excited)
                launch(chunk.teams(64), kernels.weigh, pk.static(n_rates), e, *each)
                if wide is not None:
                    collect(chunk, e, wide, weights, self._buffers(n_rates, wide)[2], found)
                if wide and self.region:
                    self._excite(chunk, e._replace(slope=pk.static(True)), heights, excited)
                    in_h = np.array([excited.to_numpy() @ weights.to_numpy() / params.h_km])
            value, by_type = self._value(params, levels, kinds, *sums.to_numpy().T)
            return value if wide is None else (value, by_type, found.to_numpy(), in_h)

    def _value(self, params, levels, kinds, logs, *columns):
        """Return the log-likelihood, and the other sums added up by type."""
        by_type = np.array([np.bincount(kinds, column, self.n_types) for column in columns])
        offspring = (params.branching.sum(axis=1) * by_type[1 : 1 + len(params.rates)]).sum()
        logs = logs.sum() + np.log(self.density[self.n_before :]).sum()
        return float(logs - (self._hours @ levels).sum() - offspring), by_type

    def _levels(self, params):
        """Return the background of each type in each step of the covariates."""
        return params.mu * growth_of(self.covariates, params)

    def _states(self, rates, wide, h_km=None):
        """Yield each chunk and its events with rows and fades, which are valid until the next chunk.
        Requires `pk.use` of the likelihood's space."""
        n_rates = len(rates)
        layout, (rows, ends, _, fades) = self.layout(n_rates), self._buffers(n_rates, wide)
        events = self._with_scales(layout, rates, h_km)._replace(rows=rows, fades=fades)
        pk.deep_copy(rows[0], 0.0)
        for chunk in layout.chunks:
            e = events._replace(first=chunk.blocks[0], piece=chunk.pieces[0])
            n_blocks, n_events = (end - begin for begin, end in chunk[:2])
            n_spans = -(-n_blocks // SPAN)
            span = pk.static(n_rates), pk.static(wide), SPAN, n_blocks, e, ends[:n_spans]
            each = (n_spans, self.n_types), kernels.pass_spans, *span
            launch(*each, pk.static(False))
            launch((n_rates, self.n_types), kernels.join_spans, *span)
            launch(*each, pk.static(True))
            launch((n_rates, n_events), kernels.fade_since_begin, e)
            yield chunk, e
            pk.deep_copy(rows[0], rows[n_blocks])

    def _with_scales(self, layout, rates, h_km):
        """Return the events with rates; with places, also with what the factors G of pairs depend on, and
        without pairs whose exponentials are 0."""
        events = layout.events._replace(rates=pk.copy_of(rates))
        if not self.region:
            return events
        start = np.searchsorted(self.times, self.times - _SPENT / rates.min()).astype(np.int32)
        scale = (2.0 * np.pi * h_km**2) ** (-0.5 * self.locations.shape[1]) / self.density
        start, scale = (pk.copy_of(one[layout.order]) for one in (start, scale))
        return events._replace(start=start, scale=scale, exponent=-0.5 / h_km**2)

    def _excite(self, chunk, e, heights, out):
        teams = chunk.teams(int(np.clip(-(-self.n_types // 128) * 32, 32, 256)))
        launch(teams, kernels.excite, pk.static(e.rates.shape[0]), e, heights, out)

    @exclusive
    def background_probabilities(self, params: Any) -> Floats:
        """Return, for each event, the probability that no other event triggered it; 0 before the window.

        Parameters
        ----------
        params : Mutual or MutualFit

        Returns
        -------
        ndarray, shape (n_events,)

        Raises
        ------
        DTypeError, ShapeError, InputError
            `params` is no `hawkes.Mutual`, or of another number of types, or has no h_km.
        """
        self._evaluate(params := check_params(self, params))
        found = np.empty(self.n_events)
        found[self.layout(len(params.rates)).order] = self._of_events[1].to_numpy()
        return found * self._levels(params)[self._step, self.types]

    @exclusive
    def expected(self, params: Mutual) -> Floats:
        """Return, for each event, the expected number of events of the same type since the first event.

        Parameters
        ----------
        params : Mutual

        Returns
        -------
        ndarray, shape (n_events,)

        Raises
        ------
        DTypeError, ShapeError
            `params` is no `hawkes.Mutual`, or of another number of types.
        """
        params = check_params(self, params)
        if self.region:  # over all places the model is that of types in time alone
            return self._in_time.expected(params)
        # The expected offspring until t is A_k (1 - exp(-beta_k (t - t_n))): an additional decay of rate 0
        # gives the term A_k.
        by_rate, found = np.concatenate([-params.branching, params.influence[None]]), np.empty(self.n_events)
        with pk.use(self.space):
            out, heights = pk.empty(self.n_events), heights_of(by_rate)
            for chunk, e in self._states(np.append(params.rates, 0.0), False):
                self._excite(chunk, e, heights, out)
            found[self.layout(len(by_rate)).order] = out.to_numpy()
        edges = clipped(self.covariates, self.origin_h, self.times[-1])
        levels, at = self._levels(params), (self._step, self.types)
        until = np.cumsum(levels * np.diff(edges)[:, None], axis=0)
        return found + until[at] - levels[at] * (edges[self._step + 1] - self.times)

    def intensity(self, params: Any, times: ArrayLike) -> Floats:
        """Return the rate of each type at the given times, over all places, shape (n_types, n_times).

        Parameters
        ----------
        params : Mutual or MutualFit
        times : array-like, shape (n_times,), hours
            In any order; an event at exactly such a time does not contribute.

        Returns
        -------
        ndarray, events an hour

        Raises
        ------
        DTypeError, FiniteError, ShapeError
            Parameters of another number of types; times that are no finite numbers.
        """
        params = check_params(self, params)
        times, n = check_numbers(times, "times", 1), self.n_types
        both = np.concatenate([self.origin_h + self.times, times])
        order = np.argsort(both, kind="stable")
        # The times become events of an additional type, which excites nothing.
        types = np.append(self.types, np.full(len(times), n))[order]
        joint = MutualLikelihood(both[order], types, n_types=n + 1, space=self.space)
        found = self._levels(params)[step_of(self.covariates, times)].T
        for j, events, x in designs(joint, params):
            if j == n:
                excited = np.tensordot(params.branching, x[:, :, :n], ((0, 2), (1, 2)))
                found[:, order[events] - self.n_events] += excited
        return found

    def forecast(
        self,
        params: Any,
        hours: float,
        *,
        n_draws: int = 500,
        seed: int = 0,
    ) -> Forecast:
        """Simulate events after the end of observation: offspring of the observed events, new immigrants,
        and their offspring.

        Parameters
        ----------
        params : Mutual or MutualFit
        hours : float
            Length of the forecast, from `horizon_h` on.
        n_draws, seed : int

        Returns
        -------
        Forecast
            With `types`; its locations have no columns.

        Raises
        ------
        DTypeError, FiniteError, ShapeError, InputError
            An argument of a wrong type or out of range; clusters that do not end.
        """
        params = check_params(self, params)
        hours, end = check_positive(hours, "hours"), self.horizon_h
        fades = np.exp(-params.rates[:, None] * (self.window[1] - self.times))
        past = np.array([np.bincount(self.types, row, self.n_types) for row in fades])
        random = generator_of(seed)
        after = params, past, self.covariates, end, hours, random
        made = [draw_after(*after) for _ in range(check_count(n_draws, "n_draws"))]
        counts = np.array([len(one.times) for one in made])
        places = [np.empty((n, 0)) for n in counts]
        times, types = [end + one.times for one in made], [one.types for one in made]
        return Forecast(end, end + hours, counts, places, times, types=types)


def collect(chunk, e, wide, weights, parts, found):
    """Add the weighted R of a chunk, and its weighted Q if `wide`, to `found`."""
    n_rates, (begin, end) = pk.static(e.rates.shape[0]), chunk.pieces
    each = n_rates, pk.static(wide), e, weights, parts
    launch((end - begin, found.shape[2]), kernels.collect, *each)
    launch(found.shape, kernels.add_pieces, chunk.runs, parts, found)


def heights_of(by_rate):
    """Return `by_rate`, shape (n_rates, n_types, n_types), as a View in the layout of the kernels: the
    first two axes exchanged."""
    return pk.copy_of(by_rate.transpose(1, 0, 2))


def designs(likelihood, params):
    """Yield, for runs of events of one type: the type, the events, and beta_k R_ki at each, shape (n,
    n_rates, n_types)."""
    rates, n_types = params.rates, likelihood.n_types
    n_rates = len(rates)
    width = max(1, ROWS_BYTES[0] // (8 * n_rates * n_types))
    with pk.use(likelihood.space), lock_of(likelihood):
        layout, out = likelihood.layout(n_rates), pk.empty((width, n_rates, n_types))
        pieces = layout.events.pieces.to_numpy()
        for chunk, e in likelihood._states(rates, False, params.h_km):
            ends = pieces[chunk.runs.to_numpy() + chunk.pieces[0]].tolist()
            for j in range(n_types):
                for low in range(ends[j], ends[j + 1], width):
                    n = min(width, ends[j + 1] - low)
                    launch((n, n_types), kernels.design, pk.static(n_rates), low, e, out)
                    yield j, layout.order[low : low + n], rates[:, None] * out.to_numpy()[:n]


def check_window(start_h, horizon_h, times):
    """Return the beginning and the end of observation; raise InputError unless the window contains an
    event."""
    end = check_horizon(horizon_h, times)
    start = float(times[0]) if start_h is None else check_number(start_h, "start_h")
    if start > times[-1] or not start < end:
        raise InputError(
            f"the window from start_h = {start} to horizon_h = {end} is empty or has no event (the last is at"
            f" {times[-1]})"
        )
    return start, end


def check_params(likelihood, params):
    """Return `params`, or those of a fit, if they are Mutual with the likelihood's number of types; raise
    otherwise."""
    params = check_kind(getattr(params, "params", params), "params", Mutual, "be hawkes.Mutual")
    if len(params.mu) != likelihood.n_types:
        raise ShapeError(f"params has {len(params.mu)} types, the events have {likelihood.n_types}")
    if likelihood.region and params.h_km is None:
        raise InputError("params: h_km is None; expected kilometres, since the events have locations")
    return params


def _check_places(locations, times, box_km, polygon):
    """Return places, without columns if there are none, their region, and the density of the background at
    each event."""
    if locations is None:
        if not box_km is polygon is None:
            raise InputError("box_km and polygon are for events with locations; pass these")
        return np.empty((len(times), 0)), None, np.ones(len(times))
    locations = check_events(locations, times)[0]
    region = region_of(box_km, polygon, locations)
    return locations, region, np.where(region.holds(locations), 1.0, OUTSIDE) / region.area


def check_types(types, n_events, n_types):
    """Return the types as numbers from 0 on, and the name of each type."""
    array = check_labels(types.to_numpy() if isinstance(types, pk.View) else types, "types")
    if array.shape != (n_events,):
        raise ShapeError(f"types has shape {array.shape} for {n_events} events; expected one each")
    if array.dtype.kind in "iu":
        known = np.unique(array)
        least, n = int(known[0]), int(known[-1]) + 1
        if least < 0:
            raise InputError(f"types has {least}; expected whole numbers from 0 on, or strings")
        if n_types is not None:
            n = check_count(n_types, "n_types", n)
        elif len(known) < n:
            raise InputError(
                f"types: {n - len(known)} of the numbers from 0 to {n - 1} have no events, such as"
                f" {np.argmax(known != range(len(known)))}; pass n_types, or renumber the types"
            )
        return array.astype(np.int64), tuple(range(n))
    if n_types is not None:
        raise InputError("n_types is for types that are whole numbers; these are labels")
    names, numbers = np.unique(array.astype(str) if array.dtype.kind == "O" else array, return_inverse=True)
    return numbers, tuple(names.tolist())
