"""Chains of Algorithm 1, divided among workers and spaces.

The caller makes the decisions that concern all chains, from the states of all: when pairs are listed, and for
which parameters. The random numbers of a chain depend on its number only, and its sums are over the common
list. Draws therefore have the same bits for any number of workers and spaces.
"""

import functools
from typing import NamedTuple

import numpy as np

from ..shared import Shards
from . import chain_kernels as ck
from .cells import Range
from .chains import Chains, common_settings, first_memory
from .likelihood import Likelihood
from .sharded_sums import Piece


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


class Advance:
    """A method for `sharding.Shards`, whose shards are chains. It keeps the Chains of the last request; if
    a request is for others, it rebuilds them from the memory in the request.

    Parameters
    ----------
    data : dict
        Of the Likelihood.
    starts : list of Parameters
        Of all chains.
    options : tuple
        The arguments of `Chains` after the starts.
    common : Common
    space : str or Space
    """

    def __init__(self, data, starts, options, common, space):
        self._likelihood = Likelihood(**data, space=space)
        self._starts, self._options, self._common = starts, options, common
        self._chains, self._at = None, None

    def prepare(self, piece):
        """Return the piece itself."""
        return piece

    def advance(self, pieces, look):
        """Advance the chains of `pieces`, and yield each chain's memory, with the draws since the last
        request."""
        own = list(pieces)
        first, end = own[0].begin, own[-1].end
        if self._at != (first, end, look.number):
            common, some = self._common._replace(range=look.range), self._starts[first:end]
            self._chains = Chains(self._likelihood, some, *self._options, first=first, common=common)
            self._chains.load({name: array[first:end] for name, array in look.arrays.items()})
            self._chains.restart() if look.is_new else self._chains.catch_up()
        elif look.is_new:
            self._chains.list_anew(look.range)
        self._at = None  # invalid until the replays have succeeded
        self._chains.replay(look.replays)
        self._at = first, end, look.number + 1
        found = self._chains.arrays()
        thin, before = self._chains.thin, look.arrays["counts"][first:end, ck.STEP]
        for k, begun in enumerate(before // thin):
            done = -(-found["counts"][k, ck.STEP] // thin)
            yield {name: array[k].copy() for name, array in found.items() if name != "draws"} | {
                "draws": found["draws"][k, begun:done].copy()
            }


class SpreadChains:
    """The interface of `chains.Chains` for a Likelihood that is divided among workers or spaces."""

    def __init__(self, likelihood, starts, free, priors, n_rows, thin, seed, scale, widths=None):
        self.free, self.thin, self.n_steps, self.n_chains = free, thin, n_rows * thin, len(starts)
        self._common, self.lists = common_settings(likelihood, starts, scale)
        self._memory = first_memory(likelihood, starts, free, n_rows, widths)
        self._number, self._is_new, self.range = 0, True, self._common.range
        sums, (client, space) = likelihood.sums, likelihood.shared_by
        same = "background_self", "error_bound", "horizon_h", "background", "repeats"
        data = {name: getattr(likelihood, name) for name in same} | {
            "locations": sums.locations,
            "times": sums.times,
            "method": likelihood.requested,
            "dtype": "float64" if sums.dtype is np.float64 else "mixed",
            "marks": sums.marks,
            "reference_mark": None if sums.marks is None else 0.0,
        }
        options = free, priors, n_rows, thin, seed, scale, widths
        make = functools.partial(Advance, data, starts, options, self._common)
        pieces = [Piece(k, k + 1) for k in range(self.n_chains)]
        self._shards = Shards(make, pieces, client=client, space=space, label="hawkes chains")

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

    def snapshot(self):
        """Return the complete state of the chains, from which they can be continued."""
        arrays = {name: array.copy() for name, array in self._memory.items()}
        return arrays | self.lists.arrays(self.range)

    def restore(self, arrays):
        """Continue from the arrays of a snapshot."""
        self._memory = {name: np.array(arrays[name]) for name in self._memory}
        self.range, self._is_new = self.lists.restore(arrays), True
        self._number += 1  # invalidates the chains that workers and spaces hold
