"""Lay out blocks, chunks and pieces of events for the sums of mutual excitation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import portable as pk

from .mutual_kernels import Events

BLOCKS = 8, 16  # events of a block at most, of few types and of many: pairs within are summed one by one
_MANY = 256
SPAN = 64  # blocks that are walked one after the other
ROWS_BYTES = 2**23, 2**29  # of a chunk's rows: a share of all, between these
_CHUNKS = 64
_LANES = 2**18  # pieces times types of a chunk at least, where there are as many events
_PIECE = 64, 1024  # events of a piece at most: between these


class Chunk(NamedTuple):
    """Ranges of blocks, events and pieces that are summed together; where pieces of each type begin."""

    blocks: tuple[int, int]
    events: tuple[int, int]
    pieces: tuple[int, int]
    runs: pk.View

    def teams(self, size):
        """Return a team for each piece."""
        return pk.TeamPolicy(self.pieces[1] - self.pieces[0], size)


class Layout:
    """Events sorted for a number of rates; made in the space of the arrays."""

    def __init__(self, times, types, n_types, n_rates):
        n_blocks = len(begin := blocks_of(times, BLOCKS[n_types >= _MANY])) - 1
        width = blocks_of_chunk(n_blocks, 16 * n_rates * n_types)
        block = np.repeat(np.arange(n_blocks), np.diff(begin))
        key = block // width * n_types + types
        self.order = order = np.argsort(key, kind="stable")
        firsts = np.append(np.arange(0, n_blocks, width), n_blocks)
        self.most_events, self.n_rows = int(np.diff(begin[firsts]).max()), min(width, n_blocks) + 1
        pieces = cut(key[order], self.most_events * n_types)
        keys = key[order[pieces[:-1]]]
        self.kinds = keys % n_types
        self.events = events_of(times, types, begin, block, order, self.kinds, pieces)
        self.chunks = chunks_of(firsts, begin[firsts], keys, n_types)
        self.most_pieces = max(np.diff(chunk.pieces)[0] for chunk in self.chunks)


def events_of(times, types, begin, block, order, kinds, pieces):
    """Return the kernels' arguments for the events."""
    before = np.searchsorted(times, times, side="left")
    whole = types, begin, block[order], begin[block[order]], before[order], kinds, pieces
    small = [pk.copy_of(array.astype(np.int32)) for array in whole]
    return Events(pk.copy_of(times), *small[:2], pk.copy_of(times[order]), *small[2:])


def chunks_of(firsts, ends, keys, n_types):
    """Return chunks, from their first blocks and events, and from the pieces' chunks and types."""
    runs, found = np.searchsorted(keys, np.arange((len(firsts) - 1) * n_types + 1)), []
    for c in range(len(firsts) - 1):
        own = runs[c * n_types : (c + 1) * n_types + 1]
        ranges = [(int(v[0]), int(v[-1])) for v in (firsts[c : c + 2], ends[c : c + 2], own)]
        found.append(Chunk(*ranges, pk.copy_of((own - own[0]).astype(np.int32))))
    return found


def blocks_of(times, most):
    """Return the beginnings of blocks, and the number of events: never among events at one time, which are
    a block of their own if there are many."""
    ties = [np.searchsorted(times, times[::most], side=side) for side in ("left", "right")]
    return np.unique(np.concatenate([*ties, [len(times)]]))


def blocks_of_chunk(n_blocks, row_bytes):
    """Return the number of blocks of a chunk."""
    return max(SPAN, int(np.clip(n_blocks * row_bytes // _CHUNKS, *ROWS_BYTES)) // row_bytes)


def cut(keys, n_lanes):
    """Return the beginnings of runs of one key, each cut into pieces; for the events times types of a
    chunk."""
    most = int(np.clip(n_lanes // _LANES, *_PIECE))
    runs = np.append(np.flatnonzero(np.diff(keys, prepend=-1)), len(keys))
    counts = -(-np.diff(runs) // most)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.append(np.repeat(runs[:-1], counts) + most * within, runs[-1])
