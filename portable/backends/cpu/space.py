"""The spaces "serial" and "threads": launches on this machine's cores. `serial` is `threads` with one thread."""

from __future__ import annotations

import ctypes
import functools
import math
import struct

from ...compiler.entry import EXTRA
from ...events import Stamp
from ...policy import RangePolicy, box_words
from . import engine
from .lower import Entry
from .pool import Pool
from .scan import ScanEntry

_REDUCE_BLOCKS, _REDUCE_LEAST = 256, 4096  # a reduction's blocks: at most, and indices in one at least
_SCAN_LEAST = 8192
_CHUNKS_A_THREAD = 8
_SMALL = 4096  # indices of a loop-free kernel that are not worth waking a thread for
_EXTRA = struct.Struct(f"={len(EXTRA)}q")


class Compiled:
    """Native code of one kernel for one policy kind and signature."""

    __slots__ = ("address", "call", "finish", "apply", "results", "state_words", "scratch_static", "width", "simple", "kernel", "counters")

    def __init__(self, kernel, policy_kind, specs, reducers):
        scans = policy_kind.startswith("scan")
        entry = (ScanEntry if scans else Entry)(kernel, policy_kind, specs, reducers)
        self.fill(entry, engine.load(entry.text, kernel.name))

    def fill(self, entry, function, counters=0):
        """Take an entry's code. `counters`: where a counting build (count.py) puts its numbers."""
        kernel, reducers, scans = entry.kernel, entry.reducers, entry.policy_kind.startswith("scan")
        self.address = function("entry")
        self.call = engine.ENTRY(self.address)
        self.finish = engine.FINISH(function("finish")) if reducers else None
        self.apply = function("apply") if scans else None
        self.results, self.state_words = entry.results, entry.n_words()
        self.scratch_static, self.width = entry.scratch_static, entry.width
        self.simple, self.kernel, self.counters = not kernel.portable_text.has_loops, kernel, counters
        return self


def prepare(space, kernel, policy_kind, specs, reducers=()):
    key = ("cpu", policy_kind, specs, reducers)  # the same code for serial and threads, and for foreign memory like our own
    compiled = kernel.compiled.get(key)
    if compiled is None:
        compiled = kernel.compiled[key] = Compiled(kernel, policy_kind, specs, reducers)
    return compiled


@functools.cache
def _pool(n_threads):
    return Pool(n_threads)


def _run(space, address, call, block, begin, end, chunk):
    """[begin, end) on the calling thread if one chunk holds it, else on the pool."""
    if end - begin <= chunk or space.n_threads == 1:
        call(block, begin, end, 0)
        return
    _pool(space.n_threads).run(address, block, begin, end, chunk)


def _extra(compiled, policy, begin=0, end=0, block_size=0, partials=0):
    league = getattr(policy, "league_size", 0)
    scratch = compiled.scratch_static + getattr(policy, "scratch_bytes", 0)
    return _EXTRA.pack(begin, end, block_size, partials, league, scratch, 0, compiled.counters, *box_words(policy), 0)


def _stretch(policy, compiled, n_threads):
    """begin, end and the indices a thread takes at a time."""
    if hasattr(policy, "league_size"):
        return 0, policy.league_size, max(1, policy.league_size // (n_threads * _CHUNKS_A_THREAD))
    if hasattr(policy, "extents"):
        *outer, last = policy.extents
        rows = math.prod(outer) if last else 0
        least = -(-_SMALL // max(last, 1)) if compiled.simple else 1
        return 0, rows, max(least, rows // (n_threads * _CHUNKS_A_THREAD))
    n, width = policy.end - policy.begin, compiled.width
    chunk = policy.chunk
    if chunk is None:
        least = _SMALL if compiled.simple else width
        chunk = max(least, n // (n_threads * _CHUNKS_A_THREAD))
    return policy.begin, policy.end, -(-chunk // width) * width


def run_for(space, compiled, policy, words):
    if space.n_threads == 1 and policy.__class__ is RangePolicy:
        compiled.call(words, policy.begin, policy.end, 0)
        return
    begin, end, chunk = _stretch(policy, compiled, space.n_threads)
    if not hasattr(policy, "chunk"):  # all but a plain range: what lies behind the arguments is read
        words += _extra(compiled, policy)
    _run(space, compiled.address, compiled.call, words, begin, end, chunk)


def count(space, kernel, policy, policy_kind, specs, reducers, words, build):
    """What one launch does, as counted by a build of its own; see count.py."""
    from .count import counted  # only those who count pay for it

    return counted(space, kernel, policy, policy_kind, specs, reducers, words, build)


def plan_for(space, compiled, policy, words):
    """A callable that does what run_for does, with all but the call itself done before."""
    begin, end, chunk = _stretch(policy, compiled, space.n_threads)
    words += _extra(compiled, policy)
    if end - begin <= chunk or space.n_threads == 1:
        return functools.partial(compiled.call, words, begin, end, 0)
    return functools.partial(_pool(space.n_threads).run, compiled.address, words, begin, end, chunk)


def sequence(space, recorded):
    """A callable that runs recorded launches one after the other, with no Python between them."""
    rows, kept = [], []
    pool = _pool(space.n_threads)
    for (_, policy, _, compiled, words), launch in recorded:
        begin, end, chunk = _stretch(policy, compiled, space.n_threads)
        block = ctypes.create_string_buffer(words + _extra(compiled, policy))
        alone = end - begin <= chunk or space.n_threads == 1
        rows.append((compiled.address, ctypes.addressof(block), begin, end, chunk, 0 if alone else pool.handle))
        kept.append((block, launch, compiled))
    if not pool.native and space.n_threads > 1:
        return functools.partial(_one_by_one, pool, rows, kept)
    table = (ctypes.c_int64 * (6 * len(rows)))(*(n for row in rows for n in row))
    return functools.partial(_replay, pool, ctypes.addressof(table), len(rows), (table, kept))


def _replay(pool, table, n, kept):
    pool.start()
    with pool.lock:
        engine.sequence()(table, n, pool.run_address)


def _one_by_one(pool, rows, kept):
    for address, block, begin, end, chunk, _ in rows:
        pool.run(address, block, begin, end, chunk)


def run_reduce(space, compiled, policy, words):
    begin, end, _ = _stretch(policy, compiled, 1)
    least = 1 if not hasattr(policy, "chunk") else _REDUCE_LEAST if compiled.simple else 64
    size = max(least, -(-(end - begin) // _REDUCE_BLOCKS))
    n_blocks = -(-(end - begin) // size)
    n_bytes = compiled.results.n_bytes
    buffer = ctypes.create_string_buffer(n_bytes + 8 * n_blocks * compiled.state_words)
    place = ctypes.addressof(buffer)
    words += _extra(compiled, policy, begin, end, size, place + n_bytes)
    if n_blocks:
        _run(space, compiled.address, compiled.call, words, 0, n_blocks, 1)
    compiled.finish(words, n_blocks, place)
    return compiled.results.read(buffer)


def run_scan(space, compiled, policy, words):
    n = policy.end - policy.begin
    size = max(_SCAN_LEAST, -(-n // _REDUCE_BLOCKS))
    size = -(-size // compiled.width) * compiled.width
    n_blocks = -(-n // size)
    n_bytes = compiled.results.n_bytes
    buffer = ctypes.create_string_buffer(n_bytes + 8 * n_blocks)
    place = ctypes.addressof(buffer)
    words += _extra(compiled, policy, policy.begin, policy.end, size, place + n_bytes)
    if n_blocks > 1:
        _run(space, compiled.address, compiled.call, words, 0, n_blocks, 1)
        compiled.finish(words, n_blocks, place)
    else:  # one block needs no total before its prefixes, and leaves it behind
        compiled.finish(words, 0, place)
        ctypes.memmove(place + n_bytes, place, 8 * n_blocks)
    _run(space, compiled.apply, engine.ENTRY(compiled.apply), words, 0, n_blocks, 1)
    if n_blocks == 1:
        ctypes.memmove(place, place + n_bytes, n_bytes)
    return compiled.results.read(buffer)


def stamp(space):
    return Stamp()


def fence(space):
    """CPU launches have finished when they return."""


def listing(space, kernel, policy, policy_kind, specs, reducers):
    entry = (ScanEntry if policy_kind.startswith("scan") else Entry)(kernel, policy_kind, specs, reducers)
    return engine.assembly(entry.text, kernel.name)


def explain(space, kernel, policy, policy_kind, specs):
    entry = Entry(kernel, policy_kind, specs)
    assembly = engine.assembly(entry.text, kernel.name)
    packs = f"packs of {entry.width} lanes: consecutive indices (or a team's members) share vector registers"
    return {"code": packs if entry.width > 1 else f"scalar: {entry.why_scalar}",
            "spills in the assembly": assembly.count("Spill"), "scratch, bytes": entry.scratch_static}, entry.accesses
