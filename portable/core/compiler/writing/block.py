"""The argument block of an entry function, and what a launch has to know of its code.

Behind the arguments the block holds the words that a launch adds, in the order of EXTRA, and then the address
of each number that a reduction or scan leaves.
"""

import itertools
import struct

from ....errors import DTypeError, InputError, ShapeError
from ..reading.signature import Signature, flatten
from ...language.types import PARTS, WORDS, itemsize, part

EXTRA = (
    "begin end block_size partials league_size scratch_bytes counter"
    " begin0 end0 begin1 end1 begin2 end2 begin3 end3 depth"
).split()  # the last nine: a box; of a scan on CUDA "depth" says how far behind a block's second tile is
N_BYTES = 64  # of the words of a debug build's first fault
# of the memory of a machine that goes on: a word that says whether there is a fault, a zero, a place to write
# to, and the address of those words
ZERO, SPARE, FAULT, N_SHARED_BYTES = 64, 72, 80, 128


# of an entry function, besides its results, that are kept beside its code
_FACTS = "width", "scratch_static", "scratch_open", "has_loops", "light", "state_words", "in_turn"


def scratch_of(compiled, policy):
    """Return bytes of a team's scratch. What compiled code takes of it at run time it does not count: at
    least some must be asked for."""
    if compiled.scratch_open and not policy.scratch_bytes:
        raise InputError(
            f"kernel '{compiled.kernel.name}' has scratch of run-time shape: say how much, TeamPolicy(...,"
            " scratch_bytes=)"
        )
    return compiled.scratch_static + policy.scratch_bytes


class Launched:
    """Facts of an entry function that a launch needs without its tree: the process that built it left them
    on disk.

    Attributes
    ----------
    results : the Results of a reduction
    scratch_static : bytes of scratch with compile-time shape
    scratch_open : whether there is scratch of run-time shape, for which a launch must ask
    has_loops : whether the text, or a function of the user's that it calls, has a loop
    light : whether an index takes so little of a CPU that a hundred times as many are not worth a thread
    state_words : 8-byte words that hold the states of all reducers
    in_turn : whether a CPU's scan goes from element to element, several blocks side by side
    """

    results, state_words, in_turn = None, 0, False
    fault_bytes = 0  # of a debug build: words of a fault in each launch

    def __init__(self, kernel, policy_kind, specs, reducers, facts=None):
        self.kernel, self.policy_kind, self.reducers = kernel, policy_kind, reducers
        self.signature = Signature(specs)
        self.n_scatters = sum(s[0] == "scatter" for s in flatten(specs))
        if facts:
            own, results = facts
            vars(self).update(zip(_FACTS, own))
            self.results = results and Results(*results)

    @property
    def in_strips(self):
        """Return True if launches take strips of the range, between which they test for Ctrl-C: a CPU's
        code then has no tests of its own."""
        return not (self.has_loops or self.reducers or self.fault_bytes or self.policy_kind == "team")

    @property
    def facts(self):
        """Return the facts that a launch's arguments lack, in plain values."""
        results = self.results and (self.results.shapes, self.results.dtypes)
        return tuple(getattr(self, name) for name in _FACTS), results


class Results:
    """Destinations of a reduction's results: views of the user's, or 8-byte words one after the other.

    Parameters
    ----------
    shapes : for each reducer None for a number, how many numbers a tuple has, or "complex"
    dtypes : of all numbers
    """

    def __init__(self, shapes, dtypes):
        self.shapes, self.dtypes, self.n_bytes = shapes, dtypes, 8 * len(dtypes)
        self.format = struct.Struct("=" + "".join(WORDS[d] for d in dtypes))

    def addresses(self, outs, place):
        """Return the last words of a reduction's block: where each number goes. `outs`: one-element views,
        or () for words at `place`."""
        if not outs:
            return struct.pack(f"={len(self.dtypes)}q", *range(place, place + self.n_bytes, 8))
        places = [place for view in outs for place in _places(view)]
        if len(places) != len(self.dtypes):
            raise ShapeError(f"out: {len(self.dtypes)} one-element view(s) wanted, got {len(outs)}")
        for (found, _), dtype in zip(places, self.dtypes):
            if found != dtype:
                raise DTypeError(f"out: a view of {dtype} is wanted, the dtype of the result; got {found}")
        return struct.pack(f"={len(places)}q", *(address for _, address in places))

    def read(self, buffer):
        """Return a result a reducer, a Python number or a tuple of them, from the beginning of a
        buffer."""
        found = self.format.unpack_from(buffer)
        if not any(self.shapes):
            return found
        numbers = iter(found)
        return tuple(
            next(numbers)
            if n is None
            else complex(*itertools.islice(numbers, 2))
            if n == "complex"
            else tuple(itertools.islice(numbers, n))
            for n in self.shapes
        )


def _places(view):
    """(dtype, address) of each number that a view of one element takes."""
    dtype = view.spec[0]  # NumPy makes a dtype's name anew each time
    return [(part(dtype), view.pointer + k * itemsize(part(dtype))) for k in range(1 + (dtype in PARTS))]
