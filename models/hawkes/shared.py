"""Sums over pairs and over events, shared out: a shard's events against all, wherever the shard is.

A shard is a range of events. Every place has all events, and computes the sums of (1) and (2)
of its own by windows in time, infinite ones for all pairs: what an event's sums are does not depend on
which others are near it. Each place returns what its events add to the log-likelihood, a few numbers.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

import portable as pk
from portable.errors import InputError

from ..shared.sharding import Held, Shards, spread
from . import kernels
from .excitation import event_terms
from .sums import covers, PairSums
from .windows import Windows

BLOCK, _MOST = 256, 32  # events of a team of event_slopes, which a shard has a whole number of; shards


class Piece(NamedTuple):
    """Events, or chains, from `begin` to `end`."""

    begin: int
    end: int

    @property
    def nbytes(self) -> int:
        return 16


class Evaluation(NamedTuple):
    """An evaluation: what the sums and the terms of events depend on; rows of sums of (1) and of (2) that
    are wanted."""

    params: object
    windows: Windows
    n_mu: int
    n_xi: int
    background_scale: float
    horizon_h: float


class Events:
    """A method for `sharding.Shards`: all events in a space, and the sums of the shards that were evaluated.

    Parameters
    ----------
    data : tuple
        Of PairSums, up to `given`.
    marks : ndarray or None
    space : str or Space
    """

    queued = "terms", "slopes"

    def __init__(self, data, marks, space):
        self._sums, self._kept = PairSums(*data, space, marks), {}
        *_, self._keep, self._given = data

    def prepare(self, piece):
        """Return the piece itself."""
        return piece

    def _filled(self, pieces, evaluation):
        """Return the arguments of kernels over events, after the sums of some pieces are there. All are
        computed at once: an event's sums do not depend on that."""
        sums, params, windows = self._sums, evaluation.params, evaluation.windows
        sums.room_for(evaluation.n_xi)
        wanted = params.tau_x, params.tau_t, windows.background_h, evaluation.n_mu
        stale = [piece for piece in pieces if not self._serves(piece, wanted)]
        if stale and self._given is None:
            sums.sum_background(params, windows, "windowed", evaluation.n_mu, _groups(stale))
            self._kept.update(dict.fromkeys(stale, wanted))
        sums.sum_excitation(params, windows, "windowed", evaluation.n_xi, _groups(pieces))
        return sums.of_events(params, evaluation.background_scale, evaluation.horizon_h)

    def _serves(self, piece, wanted):
        """Return True if the sums of (1) that are there for a piece serve."""
        return self._keep and piece in self._kept and covers(self._kept[piece], wanted)

    def terms(self, pieces, evaluation):
        """Return sums of `event_terms`, both in one View. The sums over pairs are launched at once, so
        that other places need not wait until this thread has launched all else."""
        pieces = list(pieces)
        args, space = self._filled(pieces, evaluation), self._sums.space

        def of(piece):
            found = pk.empty((2,), np.float64, space)
            pk.parallel_reduce(
                pk.RangePolicy(piece.begin, piece.end, space=space),
                event_terms,
                *evaluation.params.triggering.of_terms,
                *args,
                reducer=(pk.Sum, pk.Sum),
                out=(found[:1], found[1:]),
                label="hawkes.event_terms",
            )
            return (Held(found),)

        return map(of, pieces)

    def slopes(self, pieces, evaluation):
        """Return sums of `event_slopes`."""
        pieces, params = list(pieces), evaluation.params
        args = self._filled(pieces, evaluation)
        tables = [self._sums.slopes(params, args, piece.begin, piece.end, BLOCK) for piece in pieces]
        return ((table.to_numpy().sum(axis=1),) for table in tables)

    def rows(self, pieces, evaluation):
        """Yield the sums of (1), or the given density, and of (2) of each event, shape (2, n)."""
        pieces, sums = list(pieces), self._sums
        self._filled(pieces, evaluation)
        for piece in pieces:
            yield np.stack(
                [view[0, piece.begin : piece.end].to_numpy() for view in (sums.background, sums.excitation)]
            )


def _groups(pieces):
    """Return the groups of the pieces' events."""
    return tuple(range(one.begin // kernels.GROUP, -(-one.end // kernels.GROUP)) for one in pieces)


def shards_of(data, marks, method, client, space):
    """Return the events of a Likelihood, shared out: as even in pairs as can be, and neighbouring shards
    from all over the data, for the time of pairs depends on how many of them an event has."""
    if method == "cells":
        raise InputError(
            "method is 'cells', whose list of pairs is on one space; 'windowed' or 'all_pairs' is wanted "
            "with a client or several spaces"
        )
    n_events = len(data[1])
    share = np.arange(_MOST + 1) / _MOST
    if method == "all_pairs":  # the later half of the events has three quarters of the pairs
        share = np.sqrt(share)
    cuts = np.unique(np.append((share[:-1] * n_events).astype(int) // BLOCK * BLOCK, n_events)).tolist()
    ranges = list(zip(cuts, cuts[1:]))
    pieces = [Piece(*ranges[k]) for k in spread(len(ranges))]
    return Shards(functools.partial(Events, data, marks), pieces, client=client, space=space, label="hawkes")
