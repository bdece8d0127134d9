"""Sums over pairs and over events, divided among workers and spaces: each shard's events against all
events.

A shard is a range of events. Each worker or space has all events, and computes the sums of (1) and (2) for
its shards by windows in time, infinite ones for all pairs: an event's sums are then independent of the other
events of its shard. The results are the contributions to the log-likelihood, a few numbers per shard.
"""

import functools
from typing import NamedTuple

import numpy as np

import portable as pk

from ..shared import InputError, Shards, reduce
from ..shared.sharding import Held, spread
from . import kernels
from .excitation import event_terms
from .sums import covers, PairSums
from .windows import Windows

BLOCK, _MOST = 256, 32  # events per team of event_slopes (a shard holds a multiple of it); most shards


class Piece(NamedTuple):
    """A range of events, or of chains, from `begin` to `end`."""

    begin: int
    end: int

    @property
    def nbytes(self) -> int:
        return 16


class Evaluation(NamedTuple):
    """The arguments of an evaluation: parameters, windows, the numbers of rows of sums of (1) and (2), the
    factor of the background, and the end of observation."""

    params: object
    windows: Windows
    n_mu: int
    n_xi: int
    background_scale: float
    horizon_h: float


class Events:
    """A method for `sharding.Shards`: all events on one space, and the sums of the shards that were
    evaluated there.

    Parameters
    ----------
    data : tuple
        The first arguments of PairSums, up to `given`.
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
        """Compute the sums over pairs for some pieces and return the arguments of kernels over events. One
        launch computes the sums of all pieces, because an event's sums do not depend on its piece."""
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
        """Return True if the stored sums of (1) of a piece are valid for the settings `wanted`."""
        return self._keep and piece in self._kept and covers(self._kept[piece], wanted)

    def terms(self, pieces, evaluation):
        """Yield the sums of `event_terms` for each piece, both in one View. The sums over pairs are
        launched at once, so that other spaces do not wait for the further launches of this thread."""
        pieces = list(pieces)
        args, space = self._filled(pieces, evaluation), self._sums.space

        def of(piece):
            found = pk.empty(2, space=space)
            reduce(
                pk.RangePolicy(piece.begin, piece.end, space=space),
                event_terms,
                *evaluation.params.triggering.of_terms,
                *args,
                reducer=(pk.Sum, pk.Sum),
                out=(found[:1], found[1:]),
            )
            return (Held(found),)

        return map(of, pieces)

    def slopes(self, pieces, evaluation):
        """Yield the sums of `event_slopes` for each piece."""
        pieces, params = list(pieces), evaluation.params
        args = self._filled(pieces, evaluation)
        tables = [self._sums.slopes(params, args, piece.begin, piece.end, BLOCK) for piece in pieces]
        return ((table.to_numpy().sum(axis=1),) for table in tables)

    def rows(self, pieces, evaluation):
        """Yield the sums of (1), or the given density, and the sums of (2) of each piece's events, shape
        (2, n)."""
        pieces, sums = list(pieces), self._sums
        self._filled(pieces, evaluation)
        for piece in pieces:
            yield np.stack(
                [view[0, piece.begin : piece.end].to_numpy() for view in (sums.background, sums.excitation)]
            )


def _groups(pieces):
    """Return the ranges of groups that contain the pieces' events."""
    return tuple(range(one.begin // kernels.GROUP, -(-one.end // kernels.GROUP)) for one in pieces)


def shards_of(data, marks, method, client, space):
    """Return the events of a Likelihood, divided into shards. Shards have similar numbers of pairs, and
    consecutive shards come from all parts of the data, because the time per pair depends on how many pairs
    an event has."""
    if method == "cells":
        raise InputError(
            "method is 'cells', whose list of pairs is on one space; expected 'windowed' or 'all_pairs' "
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
