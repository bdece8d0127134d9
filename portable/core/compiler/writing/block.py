"""Define the argument block of an entry function, and the facts about its code that a launch needs.

After the arguments, the block contains the words that a launch adds, in the order of EXTRA, and then the
address of each number that a reduction or scan returns.
"""

import itertools
import struct

from ....errors import DTypeError, InputError, ShapeError
from ..reading.signature import Signature, flatten
from ...language.types import PARTS, WORDS, itemsize, part

EXTRA = (
    "begin end block_size partials league_size scratch_bytes counter"
    " begin0 end0 begin1 end1 begin2 end2 begin3 end3 depth"
).split()  # the last nine: a box; for a scan on CUDA, "depth" is the distance to a block's second tile
N_BYTES = 64  # bytes of the words that describe a debug build's first fault
# memory of a machine that continues after a fault: a word that is set at a fault, a zero, a place for stores,
# and the address of those words
ZERO, SPARE, FAULT, N_SHARED_BYTES = 64, 72, 80, 128


# facts of an entry function that are stored with its code, in addition to its results
_FACTS = "width scratch_static scratch_open has_loops light state_words in_turn rows threads together".split()


def scratch_of(compiled, policy):
    """Return the bytes of a team's scratch. The compiler cannot count the scratch of run-time shape: the
    policy must request some bytes for it."""
    if compiled.scratch_open and not policy.scratch_bytes:
        raise InputError(
            f"kernel '{compiled.kernel.name}' has scratch of run-time shape; pass its size, TeamPolicy(...,"
            " scratch_bytes=)"
        )
    return compiled.scratch_static + policy.scratch_bytes


class Launched:
    """Facts of an entry function that a launch needs without its tree: the process that built it stored them
    on disk.

    Attributes
    ----------
    results : the Results of a reduction
    scratch_static : bytes of scratch with compile-time shape
    scratch_open : whether there is scratch of run-time shape, which a launch must request
    has_loops : whether the source, or a user's function that it calls, has a loop
    light : whether an index takes a CPU so little time that a hundred times as many are not worth a thread
    state_words : 8-byte words that hold the states of all reducers
    in_turn : whether a CPU's scan proceeds element by element, in several blocks at a time
    rows : rows of a box that a CPU processes together
    threads, together : of a block on a GPU; teams of a block
    """

    results, state_words, in_turn, light, rows, threads, together = None, 0, False, False, 1, 0, 0
    fault_bytes = 0  # for a debug build: bytes of a fault's words in each launch

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
        """True if launches divide the range into strips, between which they test for Ctrl-C: a CPU's code
        then has no tests itself."""
        return not (self.has_loops or self.reducers or self.fault_bytes or self.policy_kind == "team")

    @property
    def facts(self):
        """Facts that cannot be derived from a launch's arguments, as plain values."""
        results = self.results and (self.results.shapes, self.results.dtypes)
        return tuple(getattr(self, name) for name in _FACTS), results


class Results:
    """Destinations of a reduction's results: the user's views, or consecutive 8-byte words.

    Parameters
    ----------
    shapes : for each reducer None for a number, the length of a tuple, or "complex"
    dtypes : dtypes of all numbers
    """

    def __init__(self, shapes, dtypes):
        self.shapes, self.dtypes, self.n_bytes = shapes, dtypes, 8 * len(dtypes)
        self.format = struct.Struct("=" + "".join(WORDS[d] for d in dtypes))

    def addresses(self, outs, place):
        """Return the last words of a reduction's block: the address of each number. `outs`: one-element
        views, or () for words at `place`."""
        if not outs:
            return struct.pack(f"={len(self.dtypes)}q", *range(place, place + self.n_bytes, 8))
        places = [place for view in outs for place in _places(view)]
        if len(places) != len(self.dtypes):
            raise ShapeError(f"out: expected {len(self.dtypes)} one-element view(s), got {len(outs)}")
        for (found, _), dtype in zip(places, self.dtypes):
            if found != dtype:
                raise DTypeError(f"out: expected a view of {dtype}, the dtype of the result; got {found}")
        return struct.pack(f"={len(places)}q", *(address for _, address in places))

    def read(self, buffer):
        """Return one result per reducer, each a Python number or a tuple of them, from the beginning of a
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
    """Return (dtype, address) of each number that a view of one element holds."""
    dtype = view.spec[0]  # cached here: NumPy rebuilds a dtype's name at each access
    return [(part(dtype), view.pointer + k * itemsize(part(dtype))) for k in range(1 + (dtype in PARTS))]
