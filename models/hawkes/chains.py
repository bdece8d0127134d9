"""Several chains of Algorithm 1 on one space: their memory, and the launches that advance them."""

import math
from typing import NamedTuple

import numpy as np

import portable as pk

from ..shared import launch
from . import chain_kernels as ck, kernels
from .cells import PairList, Range
from .parameters import ParametersBase
from .priors import coordinate_name, coordinate_of, is_reciprocal


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
    tau_x of any start, and the range of the list of pairs."""

    start: ParametersBase
    tau_x: float
    range: Range


def tolerance_of(likelihood, scale):
    """Return the largest allowed error of a log-likelihood due to omitted pairs."""
    return 0.5 * likelihood.error_bound * abs(scale)


def common_settings(likelihood, starts, scale):
    """Return the settings that chains share, and the ListSchedule."""
    values = np.array([start.values() for start in starts])
    lists = ListSchedule(_first_cut(likelihood, starts, tolerance_of(likelihood, scale)))
    return Common(starts[0], float(values[:, 1].min()), lists.range_of(values)), lists


class Chains:
    """C chains of equal length on one data set.

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
    first : int
        The number of the first of these chains among all, which determines their random numbers.
    common : Common, optional
        The settings shared with chains on other workers or spaces.
    """

    def __init__(
        self, likelihood, starts, free, priors, n_rows, thin, seed, scale, widths=None, first=0, common=None
    ):
        self._first = first
        self.likelihood, self.free, self.seed = likelihood, free, seed
        self.thin, self.n_steps = thin, n_rows * thin
        # one additional step, because the first step after a restart evaluates the current parameters
        n = self.n_steps + 1
        self._steps = -(-n // -(-n // _SHORT)) if n <= _FEW else _STEPS
        self.kind = type(starts[0])
        self.trigger, self.sums = self.kind.triggering, likelihood.sums
        self.space, self.n_chains, self._done = likelihood.space, len(starts), 0
        self.given = likelihood.background is not None
        self.tolerance = tolerance_of(likelihood, scale)
        self.scales_moved = any(name in ("tau_x", "tau_t") for name in free)
        n = likelihood.n_events
        blocks = -(-n // (_BLOCK * _MOST_BLOCKS)) * _BLOCK
        self._block, self._n_blocks = blocks, -(-n // blocks)
        names = self.kind.names()
        chosen = [priors[coordinate_name(self.kind, name)] for name in free]
        self._missed_mu = self._keep_background(starts[0] if common is None else common.start)
        if common is None:
            common, self.lists = common_settings(likelihood, starts, scale)
        self._tau_x = 0.1 * common.tau_x
        host = first_memory(likelihood, starts, free, n_rows, widths)
        with pk.use(self.space):
            self.memory = {name: pk.copy_of(array) for name, array in host.items()}
            self._places = pk.copy_of(np.array([names.index(name) for name in free]))
            self._reciprocal = pk.copy_of(np.array([int(is_reciprocal(self.kind, name)) for name in free]))
            self._priors = pk.copy_of(np.array([[*p.coefficients, p.low, p.high] for p in chosen]))
            self._bounds = pk.copy_of(self._bounds_of(common.range))
            self._sums = pk.zeros((ck.N_SUMS, self.n_chains, self._n_blocks))
        self._prepare(common.range)

    def _keep_background(self, params):
        """Allocate the sums of (1), and compute them if they do not change. Return n times the largest
        term that their windows omit."""
        n = self.likelihood.n_events
        if self.scales_moved:
            self._background = pk.zeros((self.n_chains, 2, 1, n), space=self.space)
            return 0.0
        if not self.given:
            self.likelihood.evaluate(params)
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
            self.pairs = PairList(self.sums.events, self.trigger, range_, self.sums.dtype)
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
        d = self.sums.data(min(near, self._tau_x) if self.scales_moved else near)
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
            np.uint64(self.seed),
            self._first,
            self._missed_mu,
            n_events * math.exp(-self.range.cut),
            self.tolerance,
            self._places,
            self._reciprocal,
            self._priors,
            self._bounds[0],
            self._bounds[1],
            self._sums,
            *(m[name] for name in ("values", "proposed", "sds", "counts", "tallies", "state")),
            self.thin,
            m["draws"],
        )

    def restart(self):
        """Make every chain evaluate its current parameters before its next proposal."""
        counts = self.memory["counts"].to_numpy().copy()
        counts[:, ck.MOVED] = ck.EVERYTHING
        counts[:, ck.STALLED] = 0
        self._done = int(counts[:, ck.STEP].min())
        pk.deep_copy(self.memory["counts"], counts)
        pk.deep_copy(self.memory["proposed"], self.memory["values"])

    def replay(self, replays):
        """Replay the recorded steps `replays` times, but not beyond the last step."""
        n_steps = min(replays * _STEPS, self.n_steps - self._done + 1)
        for _ in range(-(-n_steps // self._steps)):
            self._graph.replay()
        self.counts = self.array("counts")
        self._done = int(self.counts[:, ck.STEP].min())

    def array(self, name):
        """Return a host copy of an array of the chains' memory by name."""
        return self.memory[name].to_numpy()

    def arrays(self):
        """Return host copies of all arrays of the chains' memory."""
        return {name: np.array(self.array(name)) for name in self.memory}

    def advance(self, replays):
        """Advance all chains by some replays; return the number of steps that every chain has completed
        since the beginning."""
        self.replay(replays)
        done = self._done
        range_ = self.lists.next(self.counts, self.array)
        if range_ is not None:
            self.list_anew(range_)
        return done

    def list_anew(self, range_):
        """List the pairs for another range, and restart the chains there."""
        pk.deep_copy(self._bounds, self._bounds_of(range_))
        self._prepare(range_)
        self.restart()

    def load(self, arrays):
        """Copy arrays, with or without draws, to the memory of the chains."""
        for name, array in arrays.items():
            pk.deep_copy(self.memory[name], np.ascontiguousarray(array))

    def catch_up(self):
        """Continue from loaded memory of chains whose current parameters were already evaluated."""
        self.restart()
        with pk.use(self.space):
            self._launch_step()

    # ---- state stored on disk
    def snapshot(self):
        """Return the complete state of the chains, from which they can be continued, as host arrays."""
        return self.arrays() | self.lists.arrays(self.range)

    def restore(self, arrays):
        """Continue from the arrays of a snapshot."""
        self.load({name: arrays[name] for name in self.memory})
        self.list_anew(self.lists.restore(arrays))


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
