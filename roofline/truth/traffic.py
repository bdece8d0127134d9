"""Bytes that a GPU moves in a launch, predicted from the elements that its source touches.

L2    requests of the multiprocessors: the touched bytes of each block of threads, once, since the first cache
      keeps them while the block runs; an array that fits into this cache at most once for each
      multiprocessor; a sector for each element at scattered places
HBM   bytes that one least-recently-used cache for all fetches and writes back, in lines of 64 bytes, the
      unit of memory; if it holds everything, the read bytes; otherwise the part of the written bytes stays in
      it at the end that corresponds to their share of all bytes that passed
"""

import math
from dataclasses import replace

import numpy as np

import portable as pk
from portable.roofline.arguments import Data
from portable.roofline.counting import blocks_of, count
from portable.roofline.counts import LINE

SECTOR = 32  # the unit of a GPU's caches in bytes
FIRST = 128 << 10  # bytes of a multiprocessor's first cache, at least
AGAIN = 1.1  # multiple of the touched bytes: larger requests mean that blocks, or their threads, share data
TEAMS = 16  # reported by `pk.concurrency` for each multiprocessor


def _touched(policy, kernel, args, reducer=()):
    """Return the counts of a launch on the host, with one thread."""
    return count(replace(policy, space="serial"), kernel, *args, reducer=reducer, executed=False)


def predicted(policy, kernel, args, reducer, second):
    """Return bytes that a launch moves on a GPU whose caches are empty at the beginning.

    Parameters
    ----------
    policy, kernel, args, reducer
        The launch.
    second : int, bytes
        Size of L2.

    Returns
    -------
    dict of "L2" and "HBM" to int
    """
    data = Data(args, again=False)
    with data:
        there = _on_lines(data.args, {})
        whole, blocks, n_blocks = _touched(policy, kernel, there, reducer), [], 0
        if not reducer and whole.loaded + whole.stored > AGAIN * whole.line_bytes:
            facts = pk.explain(policy, kernel, *args).facts
            parts, n_blocks = blocks_of(policy, facts.get("blocks"), facts.get("threads a block"))
            blocks = [_touched(part, kernel, there) for part in parts]
    of_second = of_blocks(whole, blocks, n_blocks, pk.concurrency(policy.space) // TEAMS)
    return {"L2": round(of_second), "HBM": round(of_memory(whole, second))}


def _on_lines(args, kept):
    """Return the arguments with arrays copied to the beginning of a memory line, as a device's arrays are; an
    array that occurs twice is copied once."""
    found = []
    for a in args:
        if isinstance(a, np.ndarray) and id(a) not in kept:
            kept[id(a)] = pk.copy_of(a, "serial")
        found.append(_on_lines(a, kept) if isinstance(a, tuple) else kept.get(id(a), a))
    return args._make(found) if hasattr(args, "_make") else tuple(found)


def of_blocks(whole, blocks, n_blocks, n_processors):
    """Return bytes from L2 of a launch, estimated from some of its `n_blocks` blocks."""
    found, asked = 0.0, whole.accesses_by_argument
    for names, lines in whole.lines.items():
        # arrays whose accesses are mostly on another line than the preceding one
        jumps = [asked[name] for name in names.split(", ") if 2 * whole.moves.get(name, 0) > asked[name]]
        if jumps and LINE * max(lines) > FIRST:
            found += SECTOR * sum(jumps)
            continue
        each = sum(sum(block.lines.get(names, (0, 0))) for block in blocks) / max(len(blocks), 1)
        most = n_processors * sum(lines) if LINE * max(lines) <= FIRST else math.inf
        found += LINE * max(sum(lines), min(each * n_blocks, most))
    return found


def of_memory(whole, second):
    """Return bytes from and to memory of a launch, with an L2 of `second` bytes."""
    read, written = (LINE * sum(lines[way] for lines in whole.lines.values()) for way in (0, 1))
    if read + written <= second or not whole.beyond:
        return read + max(written - second, 0)
    sizes, passed = np.log(list(whole.beyond)), np.log(np.maximum(list(whole.beyond.values()), 1))
    fetched, back = (float(np.exp(np.interp(math.log(second), sizes, passed[:, way]))) for way in (0, 1))
    return fetched + back - min(second * back / (fetched + back), written)
