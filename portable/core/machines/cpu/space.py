"""Launches on this machine's cores: the spaces "serial", of one thread, "threads" and "numba", which differ
in the threads that they use.
"""

import ctypes
import functools
from functools import partial
import math
import struct

from ... import registry
from ...compiler.writing.cached_code import CachedCode
from ...compiler.writing.block import EXTRA, scratch_of
from ...compiler.reading.signature import without_scatter
from ....errors import InputError
from ...events import Stamp
from ...locks import lazy_attribute, compile_alone, compile_once
from ...places.policy import MOST_BOX, WITH_PREFIXES, MDRangePolicy, RangePolicy, TeamPolicy, box_words
from . import engine
from .engine import APART, STREAMS
from .pool_code import ROUNDS

REDUCE_BLOCKS, REDUCE_LEAST = 256, 4096  # a reduction's blocks: at most, and indices in one at least
SCAN_LEAST = 8192
_FEW_ROWS = 3  # that are called one by one; more in a row, with no Python between them
# the same for a scan that processes blocks in sequence, several side by side; these fall into different sets
# of a cache, as they begin an odd number of times 512 bytes apart; a product of 960 decays of a half or more
# is no denormal number, whose multiplication takes 100 cycles and more; a thread's indices between the passes
TURN_LEAST, TURN_BLOCKS, WINDOW = 960, 1 << 18, 1 << 17
FINE = 64  # chunks for each thread, which takes several at once while many are left
# indices of a loop-free kernel that are not worth waking a thread for, and of one that computes little: a
# thread that sleeps begins after 5 to 50 microseconds, and 16,384 elements of y += a * x take 3
SMALL, MANY = 4096, 16384
STRIP = 1 << 18  # indices of a loop-free kernel between two polls for Ctrl-C; whole packs of any width
_MOST_COPIES = 1 << 26  # bytes that copies of a ScatterView may take; beyond, sums are atomic
MOST_SCRATCH = 4 << 20  # bytes of a team's scratch: half of the stack on which it lies
interprets, apart, builds = False, True, ("text", "touched", "lanes", "banks", "executed")
_BOX = struct.Struct(f"={2 * MOST_BOX}q")
_EXTRA = struct.Struct(f"={len(EXTRA) - 2 * MOST_BOX - 1}q{_BOX.size}s8x")

# attributes of an entry that its compiled code has too
_FACTS = "kernel signature results state_words in_turn scratch_static scratch_open width rows in_strips"
_FACTS = *_FACTS.split(), "fault_bytes"


class Compiled:
    """Native code of one kernel for one policy kind and signature."""

    def __init__(self, kernel, policy_kind, specs, reducers, debug):
        launch = kernel, policy_kind, specs, reducers
        self.plain = compile_once(
            partial(_compiled, kernel, policy_kind, without_scatter(specs), reducers, debug)
        )
        entry, load = _debug_build(*launch, debug) if debug else _code(*launch)
        if policy_kind != "range" or debug or entry.n_scatters:
            self.fill(entry, load(policy_kind))
        else:
            self.fill(entry).load = compile_once(partial(load, "packs"))
            self.any_range = compile_once(lambda: Compiled.__new__(Compiled).fill(entry, load("range")))

    # these need code, which is made for the first launch that uses it
    @lazy_attribute
    def code(self):
        return self.load()

    @lazy_attribute
    def address(self):
        return self.code("entry")

    @lazy_attribute
    def finish(self):
        return self.code("finish")

    @lazy_attribute
    def call_near(self):
        return engine.call_near(self.address)

    def fill(self, entry, function=None, counters=0):
        """Take an entry's code. `counters`: where a counting build (count.py) puts its numbers."""
        if function:
            self.code = function
        self.apply = function("apply") if entry.policy_kind in WITH_PREFIXES else None
        self.merges = [function(f"merge{k}") for k in range(entry.n_scatters)]
        for name in _FACTS:
            setattr(self, name, getattr(entry, name))
        self.simple, self.counters, self.least = not entry.has_loops, counters, _worth_a_thread(entry)
        self.any_range = None  # of code for whole packs only, or one of each accumulator: its variant
        self.granule = self.width * (STREAMS if entry.reducers else 1)
        # of a debug build: the meaning of its faults, and their place, in the block or before partial states
        self.sites = getattr(entry, "sites", None)
        self.ahead = self.results.n_bytes if self.results else 8 * entry.fault_word() if self.sites else 0
        self.planned = bool(self.merges or self.sites)  # a launch is as a plan is made, and called
        return self


def _worth_a_thread(entry):
    """Return the number of indices that justifies waking a thread."""
    if entry.policy_kind == "team":
        return 1
    return entry.width if entry.has_loops else MANY if entry.light else SMALL


@compile_alone
def _code(*launch):
    """Return the facts of a kernel that a launch requires, and a function that loads its functions of one
    kind: from the disk cache, or compiled.
    """
    kernel, _, *types = launch
    cached = CachedCode(launch, engine.target(), partial(_emitted, *launch))

    def load(kind):
        text = functools.cache(lambda: _emitted(kernel, kind, *types).text)
        key = cached.key(kind, lambda: engine.key_of(text()))
        return engine.load(text, kernel.name, key, hear=_stop)

    return cached.launched, load


def _debug_build(kernel, policy_kind, specs, reducers, debug):
    """Return the emitted entry, which has the fault sites, and the loader of a debug build."""
    entry = _emitted(kernel, policy_kind, specs, reducers, registry.part("debug build").watching(debug))
    return entry, lambda kind: engine.load(entry.text, kernel.name, hear=_stop)


def _stop():
    """Return the call of a sequence of launches; from then on the functions that poll for Ctrl-C are known
    to compiled code."""
    from . import stop  # imported here: many first launches have no code that polls for Ctrl-C

    return stop.add_symbols()


def _emitted(*launch):
    """Return an entry; its module is imported only where code is generated."""
    from .entry import entry_of

    return entry_of(*launch)


def prepare(space, kernel, policy_kind, specs, reducers=()):
    specs = without_scatter(specs) if reducers else specs
    return _compiled(kernel, policy_kind, specs, reducers, space.debug)


def _compiled(kernel, policy_kind, specs, reducers, debug=False):
    # the same code for serial and threads, and for memory of other libraries
    key = ("cpu", *[f"debug {debug}"] * bool(debug), policy_kind, specs, reducers)
    compiled = kernel.compiled.get(key)
    if compiled is None:
        compiled = kernel.compiled[key] = Compiled(kernel, policy_kind, specs, reducers, debug)
    return compiled


# ---- the work of a launch: (memory that must live as long, argument block, rows of (function, begin, end,
# chunk))
def _for(compiled, policy, words, outs, n_threads):
    compiled = _fitting(compiled, policy)
    copies, tail, merges = _copies(compiled, words, n_threads) if compiled.merges else (None, b"", [])
    block = words + _extra(compiled, policy) + bytes(compiled.fault_bytes) + tail
    return copies, block, [*_strips(compiled, *_stretch(policy, compiled, n_threads), n_threads), *merges]


def _fitting(compiled, policy, block=0):
    """Return the code for a launch: that of any range, where this one's is for packs and they do not hold
    a block of it."""
    granule = compiled.granule
    if compiled.any_range and ((policy.end - policy.begin) % granule or block % granule):
        return compiled.any_range()
    return compiled


def _strips(compiled, begin, end, chunk, n_threads):
    """Yield the rows of a stretch: strips between which a single thread polls for Ctrl-C, where the code
    does not."""
    step = STRIP if compiled.in_strips and n_threads == 1 else max(1, end - begin)
    return ((compiled.address, low, min(low + step, end), chunk) for low in range(begin, end, step))


def copies_fit(compiled, words, n_threads):
    """Return True if a launch's copies of ScatterViews fit the memory allowed for them."""
    found = _sizes(compiled, words) if compiled.merges else ()
    return (n_threads - 1) * sum(n_bytes for _, n_bytes in found) <= _MOST_COPIES


def _sizes(compiled, words):
    """Return (elements, bytes of a copy) of each ScatterView."""
    return [(n, -(-n_bytes // APART) * APART) for n, n_bytes in compiled.signature.scattered(words)]


def _copies(compiled, words, n_threads):
    """Return (memory, words of the block, rows that merge) of a copy for every thread but one."""
    sizes = _sizes(compiled, words)
    total = (n_threads - 1) * sum(n_bytes for _, n_bytes in sizes)
    memory, places = ctypes.create_string_buffer(total + APART), []
    place = -(-ctypes.addressof(memory) // APART) * APART
    for _, n_bytes in sizes:
        places.append(place)
        place += (n_threads - 1) * n_bytes
    merges = [(merge, 0, n, max(n // n_threads, SMALL)) for merge, (n, _) in zip(compiled.merges, sizes)]
    return memory, struct.pack(f"={1 + len(places)}q", n_threads - 1, *places), merges


def _reduce(compiled, policy, words, outs, n_threads):
    begin, end, _ = _stretch(policy, compiled, 1)
    least = 1 if policy.__class__ is TeamPolicy else REDUCE_LEAST if compiled.simple else 64
    size = _whole_lines(max(least, -(-(end - begin) // REDUCE_BLOCKS)))
    n_blocks, compiled = -(-(end - begin) // size), _fitting(compiled, policy, size)
    buffer, place, tail = _allocate_results(compiled, outs, n_blocks * compiled.state_words)
    block = words + _extra(compiled, policy, begin, end, size, place) + tail
    return (
        buffer,
        block,
        [
            (compiled.address, 0, n_blocks, _blocks_at_once(compiled, size, n_blocks, n_threads)),
            (compiled.finish, 0, n_blocks, n_blocks),
        ],
    )


def _scan(compiled, policy, words, outs, n_threads):
    n, (least, most) = policy.end - policy.begin, scan_blocks(compiled)
    size = _whole_lines(max(least, -(-n // most)))
    n_blocks = -(-n // size)
    buffer, place, tail = _allocate_results(compiled, outs, (n_blocks + 1) * compiled.state_words)
    block = words + _extra(compiled, policy, policy.begin, policy.end, size, place) + tail
    return buffer, block, list(_windows(compiled, size, n_blocks, n_threads))


def _windows(compiled, size, n_blocks, n_threads):
    """Yield the passes over as many blocks as stay in a cache between them; over all blocks unless they are
    processed in sequence.
    """
    window = n_threads * max(STREAMS, WINDOW // size) if compiled.in_turn else max(1, n_blocks)
    at_once = STREAMS if compiled.in_turn else _blocks_at_once(compiled, size, n_blocks, n_threads)
    for first in range(0, max(1, n_blocks), window):
        last = min(first + window, n_blocks)
        yield compiled.address, first, last, at_once
        yield compiled.finish, first, last, window
        if compiled.apply:
            yield compiled.apply, first, last, at_once


def scan_blocks(entry):
    """Return (minimum number of indices of a scan's block, maximum number of blocks)."""
    return (TURN_LEAST, TURN_BLOCKS) if entry.in_turn else (SCAN_LEAST, REDUCE_BLOCKS)


def _whole_lines(size):
    """Return the number of indices of a block: from 64 on such that the next block begins at a cache line, if
    this one does.
    """
    return size if size < 64 else -(-size // 64) * 64


def _blocks_at_once(compiled, size, n_blocks, n_threads):
    """Return the number of neighbouring blocks for one thread, which waits for the first element of each
    stretch; one if loops may differ in length.
    """
    return -max(-(-compiled.least // size), n_blocks // (n_threads * FINE)) if compiled.simple else 1


_STEPS = {"for": _for, "reduce": _reduce, "scan": _scan}


def _allocate_results(compiled, outs, n_words):
    """Allocate memory for results, a fault and partial states; return it, the address of the partial states,
    and the words that give the places of results.
    """
    before = compiled.ahead + compiled.fault_bytes
    buffer = ctypes.create_string_buffer(before + 8 * n_words)
    place = ctypes.addressof(buffer)
    return buffer, place + before, compiled.results.addresses(outs, place)


def _extra(compiled, policy, begin=0, end=0, block_size=0, partials=0):
    league, scratch = 0, 0
    if policy.__class__ is TeamPolicy:
        league, scratch = policy.league_size, scratch_of(compiled, policy)
        if scratch > MOST_SCRATCH:
            raise InputError(
                f"kernel '{compiled.kernel.name}': {scratch} bytes of scratch; a team on a CPU has at"
                f" most {MOST_SCRATCH}"
            )
    box = _BOX.pack(*box_words(policy)) if policy.__class__ is MDRangePolicy else b""
    return _EXTRA.pack(begin, end, block_size, partials, league, scratch, compiled.counters, box)


def _ends(policy):
    """Return begin and end of a policy's stretch of indices, of places in its box or of teams."""
    if policy.__class__ is RangePolicy:
        return policy.begin, policy.end
    return 0, policy.league_size if policy.__class__ is TeamPolicy else math.prod(policy.extents)


def _stretch(policy, compiled, n_threads):
    """Return begin, end and the number of indices that a thread takes at a time, or, negative, the least
    number; indices of a box are counted row by row.
    """
    begin, end = _ends(policy)
    if policy.__class__ is TeamPolicy:
        return begin, end, -max(1, end // (n_threads * FINE))
    width, chunk = compiled.width, policy.chunk if policy.__class__ is RangePolicy else None
    if compiled.rows > 1 and 0 < n_threads * compiled.rows * policy.extents[-1] <= end:
        width = compiled.rows * policy.extents[-1]  # so that all rows are processed together
    if chunk is None:
        chunk = -max(compiled.least, (end - begin) // (n_threads * FINE))
    at_once = chunk if chunk > 0 else (end - begin) // (n_threads * ROUNDS)
    if at_once > STRIP and compiled.in_strips:
        chunk = STRIP
    return begin, end, -(-chunk // width) * width if chunk > 0 else chunk // width * width


@compile_once
def _pool(space):
    return registry.backend(space.name).pool(space)


def _is_alone(space, begin, end, chunk):
    """Return True if the calling thread runs all of [begin, end): it is one chunk, or there is no other
    thread.
    """
    return end - begin <= abs(chunk) or space.n_threads == 1


def run_for(space, compiled, policy, words):
    if compiled.planned:
        run("for", space, compiled, policy, words, ())
        return
    if policy.__class__ is RangePolicy:
        begin, end = policy.begin, policy.end
        if (end - begin) % compiled.granule and compiled.any_range:
            compiled = compiled.any_range()
    else:  # all but a plain range: values after the arguments are read
        words += _extra(compiled, policy)
        begin, end = _ends(policy)
    n, n_threads = end - begin, space.n_threads
    if n_threads > 1:
        begin, end, chunk = _stretch(policy, compiled, n_threads)
        if n > abs(chunk):
            _pool(space).run(compiled.address, words, begin, end, chunk)
            return
    if n > STRIP or begin <= -engine.NEAR or engine.NEAR <= end:
        for address, low, high, _ in _strips(compiled, begin, end, STRIP, 1):
            engine.call(address)(words, low, high, 0)
    else:
        compiled.call_near(words, begin, end, 0)


def run(pattern, space, compiled, policy, words, outs):
    if not copies_fit(compiled, words, space.n_threads):
        compiled = compiled.plain()
    buffer, block, rows = _STEPS[pattern](compiled, policy, words, outs, space.n_threads)
    left = buffer  # place to which a debug build writes the first fault
    if pattern == "for" or len(rows) > _FEW_ROWS:
        left = block = ctypes.create_string_buffer(block, len(block))
    _in_turn(space, block, rows)
    if compiled.sites and left[compiled.ahead] != b"\0":
        compiled.sites.raise_if(left[compiled.ahead : compiled.ahead + 64])
    return compiled.results.read(buffer) if compiled.results and not outs else None


def _in_turn(space, block, rows):
    if len(rows) <= _FEW_ROWS:
        for address, begin, end, chunk in rows:
            if _is_alone(space, begin, end, chunk):
                engine.call(address)(block, begin, end, 0)
            else:
                _pool(space).run(address, block, begin, end, chunk)
    else:
        _in_a_row(space, [(ctypes.addressof(block), row) for row in rows], [])()


def _native(table, pool_run, kept):
    """Return a call of stop.sequence."""
    flat = len(table), pool_run, *(n for row in table for n in row)
    call = partial(_stop(), ctypes.byref((ctypes.c_int64 * len(flat))(*flat)))
    call.kept = kept
    return call


def _drop(buffers):
    """Discard the contributions of an interrupted launch to copies of ScatterViews, which the next launch
    must not include.
    """
    for memory in buffers:
        if memory is not None:
            ctypes.memset(memory, 0, ctypes.sizeof(memory))


def sequence(space, recorded):
    """Return a callable that runs recorded launches in order, with no Python between them; None of debug
    builds."""
    if any(bound[0].debug for bound, _ in recorded):
        return None
    kept = _prepared(space, recorded)
    found = [kept[id(launch)] for _, launch in recorded]
    rows = [(ctypes.addressof(block), row) for block, _, rows, *_ in found for row in rows]
    call = _in_a_row(space, rows, list(kept.values()))
    if len(kept) == 1:
        call.block = found[0][0]
    return call


def _in_a_row(space, rows, kept):
    """Return a callable that runs rows of (argument block, (function, begin, end, chunk)) one after the
    other."""
    shared = [not _is_alone(space, *row[1:]) for _, row in rows]
    pool = _pool(space) if any(shared) else None
    if pool and not pool.native:
        return partial(_one_by_one, pool, rows, kept)
    places = [pool.handle if among else 0 for among in shared]
    table = [(row[0], block, *row[1:], place) for (block, row), place in zip(rows, places)]
    call = _native(table, pool.run_address if pool else 0, kept)
    return partial(_replay, pool, call) if pool else call


def _prepared(space, recorded):
    """Prepare block, memory and rows of each launch, and the objects to keep alive; once for launches that
    repeat.
    """
    found = {}
    for (_, policy, _, compiled, words), launch in recorded:
        if id(launch) not in found:
            if not copies_fit(compiled, words, space.n_threads):
                compiled = compiled.plain()
            buffer, words, rows = _STEPS[launch.pattern](
                compiled, policy, words, launch.outs, space.n_threads
            )
            block = ctypes.create_string_buffer(words, len(words))
            found[id(launch)] = block, buffer, rows, launch, compiled
    return found


def _replay(pool, call):
    try:
        pool.start()
        with pool.lock:
            call()
    except BaseException:
        _drop(buffer for _, buffer, *_ in call.kept)
        raise


def _one_by_one(pool, rows, kept):
    for block, (address, *share) in rows:
        pool.run(address, block, *share)


def stamp(space):
    return Stamp()


def fence(space):
    """Return at once: CPU launches have finished when they return."""


def counted(*launch):
    return registry.part("counts of a CPU").counted(*launch)


def listing(*launch):
    return registry.part("counts of a CPU").listing(*launch)


def explain(*launch):
    return registry.part("counts of a CPU").explain(*launch)
