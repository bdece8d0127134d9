"""Chains of Algorithm 1, on one space or several: their memory, and the launches that advance them."""

import functools
import math
from typing import NamedTuple

import numpy as np

import portable as pk

from ..shared import Names, Shards, launch, lock_of
from . import chain_kernels as ck, kernels
from .cells import PairList, Range
from .likelihood import Likelihood
from .parameters import ParametersBase
from .priors import coordinate_name, coordinate_of, is_reciprocal
from .sharded_sums import Piece


_BLOCK, _MOST_BLOCKS = 1024, 1024  # events per team of chain_events; largest number of teams
# Steps of one replay: 75 launches or more without the host. Chains of at most _FEW steps end before the first
# check; they use equal replays of about _SHORT steps, because a short graph is recorded faster.
_STEPS, _FEW, _SHORT = 25, 100, 5
_FIRST_BATCH = 5  # the paper's b_d
# Factor by which triggering parameters may change before their pairs are listed again: up to _FAR while
# chains move towards the posterior, and _NEAR, or the factor that turns out to be necessary, once they are
# stationary. Chains are considered stationary _QUIET steps after the last list.
_NEAR, _FAR, _QUIET = 1.2, 2.0, 500
_SPARE_CUT = 1.0  # margin of the exponent of a list over the value that the error bound requires at the start


class ListSchedule:
    """A rule for when pairs are listed again, and for which range of parameters: just wide enough for all
    chains together.

    Parameters
    ----------
    cut : float
        The exponent up to which pairs are listed.
    """

    def __init__(self, cut):
        self.cut, self.margin, self.near, self.rested, self.listed_at = cut, _NEAR, _NEAR, False, 0

    def range_of(self, values):
        """Return the range of a list that covers the parameters of all chains, shape (n, P), with a
        margin."""
        own = values[:, 4:]
        low, high = own.min(axis=0) / self.margin, own.max(axis=0) * self.margin
        return Range(tuple(low.tolist()), tuple(high.tolist()), self.cut)

    def next(self, counts, array):
        """Return the range for which pairs must be listed now, or None if the current list is sufficient,
        given the counts of all chains; `array` returns further arrays of their memory by name."""
        done, waiting = int(counts[:, ck.STEP].min()), counts[:, ck.STALLED]
        if waiting.any():
            self.cut += 5.0 if (waiting == ck.TOO_COARSE).any() else 0.0
            self.margin = min(self.margin**2, _FAR)
            if self.rested:  # the posterior is wider than the list that was made for it
                self.near, self.rested = self.margin, False
            self.listed_at = done
            # Random numbers depend on chain and step only, so the same proposals will be made again.
            return self.range_of(np.concatenate([array("values"), array("proposed")]))
        if self.margin > self.near and done - self.listed_at >= _QUIET:
            self.margin, self.rested, self.listed_at = self.near, True, done
            return self.range_of(array("values"))
        return None

    def arrays(self, range_):
        """Return the schedule and the listed range, as arrays for a store."""
        numbers = [self.cut, range_.cut, self.margin, self.near, self.rested, self.listed_at]
        return {
            "range_low": np.array(range_.low),
            "range_high": np.array(range_.high),
            "cut": np.array(numbers),
        }

    def restore(self, arrays):
        """Restore the schedule from the result of `arrays`; return the listed range."""
        self.cut, cut, self.margin, self.near, rested, listed_at = arrays["cut"].tolist()
        self.rested, self.listed_at = bool(rested), int(listed_at)
        return Range(*(tuple(arrays[name].tolist()) for name in ("range_low", "range_high")), cut)


class Common(NamedTuple):
    """Settings that all chains share, on every worker and space: the first of all starts, the shortest
    tau_x of any start, the free parameters and their priors, the numbers of draws and of steps for each, the
    seed, and the largest allowed error of a log-likelihood due to omitted pairs."""

    start: ParametersBase
    tau_x: float
    free: Names
    priors: dict
    n_rows: int
    thin: int
    seed: int
    tolerance: float


class Request(NamedTuple):
    """A request to workers and spaces: continue the chains from check number `number`.

    Attributes
    ----------
    number : int
    range : Range
        The range of the current list of pairs.
    is_new : bool
        True if this range must be listed before the chains continue.
    arrays : dict
        The memory of all chains, except draws.
    replays : int
    """

    number: int
    range: Range
    is_new: bool
    arrays: dict[str, np.ndarray]
    replays: int


class LocalChains:
    """A method for `sharding.Shards`, whose shards are chains: their memory on one space, and the launches
    that advance them. It keeps the chains of the last request; if a request is for others, it begins again
    from the memory in the request.

    Parameters
    ----------
    data : Likelihood, or a dict of its arguments
    common : Common
    space : str or Space
    """

    def __init__(self, data, common, space):
        self.likelihood = data if isinstance(data, Likelihood) else Likelihood(**data, space=space)
        self.common, self.kind, self.free = common, type(common.start), common.free
        # one additional step, because the first step after a restart evaluates the current parameters
        n = self.n_steps = common.n_rows * common.thin + 1
        self._steps = -(-n // -(-n // _SHORT)) if n <= _FEW else _STEPS
        self.trigger, self.sums = self.kind.triggering, self.likelihood.sums
        self.space = self.sums.space
        self.given = self.likelihood.background is not None
        self.scales_moved = any(name in ("tau_x", "tau_t") for name in self.free)
        n = self.likelihood.n_events
        blocks = -(-n // (_BLOCK * _MOST_BLOCKS)) * _BLOCK
        self._block, self._n_blocks = blocks, -(-n // blocks)
        names = self.kind.names()
        chosen = [common.priors[coordinate_name(self.kind, name)] for name in self.free]
        with pk.use(self.space):
            self._places = pk.copy_of(np.array([names.index(name) for name in self.free]))
            reciprocal = [int(is_reciprocal(self.kind, name)) for name in self.free]
            self._reciprocal = pk.copy_of(np.array(reciprocal))
            self._priors = pk.copy_of(np.array([[*p.coefficients, p.low, p.high] for p in chosen]))
            self._bounds = pk.empty((2, len(names)))
        self._at = None

    def prepare(self, piece):
        """Return the piece itself."""
        return piece

    def advance(self, pieces, look):
        """Advance the chains of `pieces`, and yield each chain's memory, with the draws since the last
        request."""
        own = list(pieces)
        first, end = own[0].begin, own[-1].end
        moved = self._at != (first, end, look.number)
        if moved:
            self._begin(first, {name: array[first:end] for name, array in look.arrays.items()})
        if moved or look.is_new:
            pk.deep_copy(self._bounds, self._bounds_of(look.range))
            self._prepare(look.range)
            self._restart()
            if not look.is_new:  # the current parameters were evaluated before the request
                with pk.use(self.space):
                    self._launch_step()
        self._at = None  # invalid until the replays have succeeded
        before = look.arrays["counts"][first:end, ck.STEP]
        n_steps = min(look.replays * _STEPS, self.n_steps - int(before.min()))
        for _ in range(-(-n_steps // self._steps)):
            self._graph.replay()
        found = {name: view.to_numpy() for name, view in self.memory.items()}
        self._at = first, end, look.number + 1
        for k, begun in enumerate(before // self.common.thin):
            done = -(-found["counts"][k, ck.STEP] // self.common.thin)
            draws = self._draws[k, begun:done].to_numpy()
            yield {name: array[k] for name, array in found.items()} | {"draws": draws}

    def _begin(self, first, arrays):
        """Copy the memory of some chains to the space; `first` is the number of the first of these, which
        determines their random numbers."""
        self._first, self.n_chains = first, len(arrays["counts"])
        with lock_of(self.likelihood):
            self._missed_mu = self._keep_background(self.common.start)
        with pk.use(self.space):
            self.memory = {name: pk.copy_of(np.ascontiguousarray(array)) for name, array in arrays.items()}
            self._draws = pk.empty((self.n_chains, self.common.n_rows, len(self.free) + 1))
            self._sums = pk.zeros((ck.N_SUMS, self.n_chains, self._n_blocks))

    def _keep_background(self, params):
        """Allocate the sums of (1), and compute them if they do not change. Return n times the largest
        term that their windows omit."""
        n = self.likelihood.n_events
        if self.scales_moved:
            self._background = pk.zeros((self.n_chains, 2, 1, n), space=self.space)
            return 0.0
        windows = self.likelihood.windows
        if not self.given and (windows is None or self.sums.stale(params, windows, 1)):
            self.likelihood.log_likelihood(params)
        self._background = pk.empty((1, 1, 1, n), space=self.space)
        pk.deep_copy(self._background[0, 0], self.sums.background[:1], wait=False)
        if self.given:
            return 0.0
        windows = self.likelihood.windows
        left_out = math.isfinite(windows.background_h) or (self.likelihood.method == "cells")
        return n * math.exp(-0.5 * windows.background_sds**2) if left_out else 0.0

    def _bounds_of(self, range_):
        """Return the bounds of all parameters within which a list for that range is valid, shape (2, P)."""
        bounds = np.zeros((2, len(self.kind.names())))
        bounds[1] = np.inf
        if any(name in self.trigger.names for name in self.free):
            bounds[:, 4:] = range_.low, range_.high
        return bounds

    def _prepare(self, range_):
        """List the pairs for a range of parameters, and record the launches of some steps in a graph."""
        self.range = range_
        self.pairs = self._excitation = self._graph = None  # free their memory first
        try:
            self.pairs = PairList(self.sums, self.trigger, range_, self.sums.dtype)
        except OverflowError:
            pass  # use windows in time instead: more pairs, but no memory for a list
        with pk.use(self.space):
            self._excitation = pk.zeros((self.n_chains, 2, 1, self.likelihood.n_events))
            with pk.capture(self.space, times=self._steps) as self._graph:
                self._launch_step()

    def _launch_step(self):
        m = self.memory
        # The shortest length scale in the range decides if locations take two parts.
        near = self.trigger.reach_km(tuple(self.range.low), 0.5, 0.0)
        d = self.sums.data(min(near, 0.1 * self.common.tau_x) if self.scales_moved else near)
        given, n_events = pk.static(self.given), self.likelihood.n_events
        who = m["counts"], self._places, m["proposed"]
        n_groups = -(-n_events // kernels.GROUP)
        if self.scales_moved:
            launch(
                pk.TeamPolicy(self.n_chains * n_groups, 32),
                ck.chain_background,
                d,
                n_groups,
                2.0 * self.sums.span_h + 1.0,
                self.sums.self_term,
                *who,
                self._background,
            )
        slowest, listed = self.trigger.slowest(self.range.low, self.range.high), self.pairs is not None
        n_teams, source = (self.pairs.n_teams, self.pairs.args) if listed else (n_groups, d)
        if n_teams:
            launch(
                pk.TeamPolicy(self.n_chains * n_teams, 32),
                ck.chain_excitation,
                self.trigger.functions,
                pk.static(listed),
                n_teams,
                self.trigger.reach_h(slowest, self.range.cut, self.sums.largest),
                source,
                *who,
                self._excitation,
            )
        launch(
            pk.TeamPolicy(self.n_chains * self._n_blocks, 128),
            ck.chain_events,
            self.trigger.functions,
            d.n_dims,
            given,
            self._n_blocks,
            self._block,
            self.sums.t,
            self.sums.event_marks,
            self.likelihood.horizon_h,
            *who,
            self._background,
            self._excitation,
            self._sums,
        )
        launch(
            pk.TeamPolicy(self.n_chains, 128),
            ck.chain_decide,
            self.trigger.functions,
            d.n_dims,
            given,
            np.uint64(self.common.seed),
            self._first,
            self._missed_mu,
            n_events * math.exp(-self.range.cut),
            self.common.tolerance,
            self._places,
            self._reciprocal,
            self._priors,
            self._bounds[0],
            self._bounds[1],
            self._sums,
            *(m[name] for name in ("values", "proposed", "sds", "counts", "tallies", "state")),
            self.common.thin,
            self._draws,
        )

    def _restart(self):
        """Make every chain evaluate its current parameters before its next proposal."""
        counts = self.memory["counts"].to_numpy().copy()
        counts[:, ck.MOVED] = ck.EVERYTHING
        counts[:, ck.STALLED] = 0
        pk.deep_copy(self.memory["counts"], counts)
        pk.deep_copy(self.memory["proposed"], self.memory["values"])


class Chains:
    """C chains of equal length on one data set, on one space, or divided among workers and spaces.

    The decisions that concern all chains are made here, from the states of all: when pairs are listed, and
    for which parameters. The random numbers of a chain depend on its number only, and its sums are over the
    common list. Draws therefore have the same bits for any number of workers and spaces.

    Parameters
    ----------
    likelihood : Likelihood
    starts : list of Parameters, one a chain
    free : tuple of str
    priors : dict, by coordinate
    n_rows, thin, seed : int
        Each chain makes n_rows * thin steps; one in `thin` is kept.
    scale : float
        The magnitude of the log-likelihood, to which the error bound is relative.
    widths : ndarray, shape (n_free,), optional
        Of the first proposals, relative to the coordinates.
    """

    def __init__(self, likelihood, starts, free, priors, n_rows, thin, seed, scale, widths):
        self.free, self.thin, self.n_steps, self.n_chains = free, thin, n_rows * thin, len(starts)
        tolerance = 0.5 * likelihood.error_bound * abs(scale)
        self.lists = ListSchedule(_first_cut(likelihood, starts, tolerance))
        self._memory = first_memory(likelihood, starts, free, n_rows, widths)
        self.range = self.lists.range_of(values := self.array("values"))
        self._number, self._is_new = 0, True
        common = starts[0], float(values[:, 1].min()), free, priors, n_rows, thin, seed, tolerance
        data, where = likelihood, (None, likelihood.space)
        if likelihood.shared_by is not None:
            data, where = _arguments_of(likelihood), likelihood.shared_by
        make = functools.partial(LocalChains, data, Common(*common))
        pieces = [Piece(k, k + 1) for k in range(self.n_chains)]
        self._shards = Shards(make, pieces, client=where[0], space=where[1], label="hawkes chains")

    @property
    def counts(self):
        """Return the counts of all chains at the last check."""
        return self._memory["counts"]

    def array(self, name):
        """Return an array of the chains' memory by name."""
        return self._memory[name]

    def advance(self, replays):
        """Advance all chains by some replays; return the number of steps that every chain has completed
        since the beginning."""
        arrays = {name: array for name, array in self._memory.items() if name != "draws"}
        before = arrays["counts"][:, ck.STEP] // self.thin
        look = Request(self._number, self.range, self._is_new, arrays, replays)
        found = self._shards.map("advance", look)
        for row, begun, one in zip(self._memory["draws"], before, found):
            row[begun : begun + len(one["draws"])] = one["draws"]
        self._memory |= {name: np.stack([one[name] for one in found]) for name in arrays}
        self._number, self._is_new = self._number + 1, False
        range_ = self.lists.next(self.counts, self.array)
        if range_ is not None:
            self.range, self._is_new = range_, True
        return int(self.counts[:, ck.STEP].min())

    # ---- state stored on disk
    def snapshot(self):
        """Return the complete state of the chains, from which they can be continued."""
        arrays = {name: array.copy() for name, array in self._memory.items()}
        return arrays | self.lists.arrays(self.range)

    def restore(self, arrays):
        """Continue from the arrays of a snapshot."""
        self._memory = {name: np.array(arrays[name]) for name in self._memory}
        self.range, self._is_new = self.lists.restore(arrays), True
        self._number += 1  # invalidates the chains that workers and spaces hold


def _arguments_of(likelihood):
    """Return the arguments of a Likelihood, except where it is computed."""
    sums, same = likelihood.sums, ("background_self", "error_bound", "horizon_h", "background", "repeats")
    return {name: getattr(likelihood, name) for name in same} | {
        "locations": sums.locations,
        "times": sums.times,
        "method": likelihood.requested,
        "dtype": "float64" if sums.dtype is np.float64 else "mixed",
        "marks": sums.marks,
        "reference_mark": None if sums.marks is None else 0.0,
    }


def first_memory(likelihood, starts, free, n_rows, widths):
    """Return the chains' memory before their first step: arrays by name, whose first axis is the chain."""
    n_chains, values = len(starts), np.array([start.values() for start in starts])
    coordinates = np.array([[coordinate_of(start, name)[1] for name in free] for start in starts])
    tallies, state = np.zeros((n_chains, len(free), 5), np.int64), np.zeros((n_chains, 5))
    tallies[:, :, ck.BATCH_SIZE] = _FIRST_BATCH
    if likelihood.background is not None:
        state[:, ck.SHARE] = likelihood.background.mass
    counts = np.zeros((n_chains, 5), np.int64)
    counts[:, ck.MOVED] = ck.EVERYTHING
    return {
        "values": values,
        "proposed": values,
        "sds": coordinates * (0.1 if widths is None else widths),
        "tallies": tallies,
        "state": state,
        "counts": counts,
        "draws": np.full((n_chains, n_rows, len(free) + 1), np.nan),
    }


def _first_cut(likelihood, starts, tolerance):
    """Return the exponent of a list that meets the error bound at the starts; it is increased later if it
    does not suffice."""
    cuts = []
    for start in starts:
        with lock_of(likelihood):
            likelihood.evaluate(start)
            most = likelihood.n_events * start.excitation_scale(likelihood.n_dims) * likelihood.inverse_rates
        cuts.append(math.log(max(2.0 * most / tolerance, math.e)))
    return max(cuts) + _SPARE_CUT


_OWN = ("row", "draws", "looks")  # arrays of the part itself; the others are the chains' state


class StoredDraws:
    """The draws of a checkpoint, to which further draws are added.

    The draws are stored in parts, which begin and end at checks of the chains (`Chains.advance`), so that an
    uninterrupted run, a resumed run and an extended run check the chains after the same steps. A part in
    which some chain reached its end cannot be used by a longer run; it is stored separately, under its
    length.

    Parameters
    ----------
    store : Store
    n_chains, n_rows, n_columns, thin : int
        Of the draws.

    Attributes
    ----------
    draws : ndarray, shape (n_chains, n_rows, n_columns)
        NaN for rows not yet drawn.
    state : dict of arrays or None
        Of the chains after the last part (`Chains.snapshot`); None before the first.
    ended : bool
        True if all draws are complete.
    """

    def __init__(self, store, n_chains, n_rows, n_columns, thin):
        self._store, self._n_rows, self._thin = store, n_rows, thin
        self._looks, self._steps = 0, np.zeros(1, np.int64)
        self.draws, self.state, self.ended = np.full((n_chains, n_rows, n_columns), np.nan), None, False
        self.take()

    def take(self):
        """Read the parts that follow in the store; return True if there was one."""
        before = self._looks
        while not self.ended:
            part = self._store.get(f"looks-{self._looks:012d}")
            if part is None or part["counts"][:, ck.STEP].max() >= self._n_rows * self._thin:
                part = self._store.get(self._last_part)
                if part is None or part["looks"][0] != self._looks:
                    break
                self.ended = True
            row, (_, self._looks) = int(part["row"]), part["looks"].tolist()
            self.draws[:, row : row + part["draws"].shape[1]] = part["draws"]
            self.state = {name: array for name, array in part.items() if name not in _OWN}
            self._steps = self.state["counts"][:, ck.STEP]
        begins = [int(name[-12:]) for name in self._store.names("looks-")]
        self._now, self._limit = self._looks, min((b for b in begins if b > self._looks), default=None)
        return self._looks > before

    def arrays(self):
        """Return the arguments of `Chains.restore`."""
        return self.state | {"draws": self.draws}

    def add_look(self, chains):
        """Count a check of the chains, and store their progress if it is due.

        Returns
        -------
        bool
            True if later parts were already stored, so that the chains must be restored from them.
        """
        self._now += 1
        steps, n_steps = chains.counts[:, ck.STEP].copy(), self._n_rows * self._thin
        if steps.min() == n_steps:
            self._put(self._last_part, chains, steps)
            self.ended = True
        elif steps.max() < n_steps and (self._now == self._limit or self._store.due()):
            self._put(f"looks-{self._looks:012d}", chains, steps)
            self._looks, self._steps = self._now, steps
            return self.take()
        return False

    @property
    def _last_part(self):
        return f"end-{self._n_rows * self._thin:012d}"

    def _put(self, name, chains, steps):
        state = chains.snapshot()
        row, end = int(self._steps.min()) // self._thin, -(-int(steps.max()) // self._thin)
        draws = state.pop("draws")
        self.draws[:, row:end] = draws[:, row:end]
        self.state = state
        self._store.put(
            name,
            row=np.array(row),
            draws=draws[:, row:end],
            looks=np.array([self._looks, self._now]),
            **state,
        )
