"""Bytes that a GPU moves in a launch, predicted by what its text touches.

L2    what its multiprocessors ask for: what each block of threads touches, once, since the first cache
      keeps it as long as the block runs; an array that this cache holds as a whole once a
      multiprocessor at most; of elements at scattered places a sector each
HBM   what one cache for all, which keeps what was used last, fetches and writes back, in lines of 64 bytes,
      which is what memory gives; where it holds everything, what is read; else it keeps in the end as much
      of what was written as that is of all that went through it
"""

import math
from dataclasses import replace

import numpy as np

import portable as pk
from portable.roofline.arguments import Data
from portable.roofline.counting import blocks_of, count
from portable.roofline.counts import LINE

SECTOR = 32  # bytes that a GPU's caches move at least
FIRST = 128 << 10  # bytes of a multiprocessor's first cache, at least
AGAIN = 1.1  # times what is touched: so much is asked for where blocks, or their threads, share it
TEAMS = 16  # that `pk.concurrency` tells for each multiprocessor


def _touched(policy, kernel, args, reducer=()):
    """Return the counts of a launch on the host, by one thread."""
    return count(replace(policy, space="serial"), kernel, *args, reducer=reducer, executed=False)


def predicted(policy, kernel, args, reducer, second):
    """Return bytes that a launch moves on a GPU whose caches are empty in the beginning.

    Parameters
    ----------
    policy, kernel, args, reducer
        The launch.
    second : int, bytes
        Of L2.

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
    """Return the arguments, arrays copied to where a line of memory begins, as a device's do; one that
    comes twice, once."""
    found = []
    for a in args:
        if isinstance(a, np.ndarray) and id(a) not in kept:
            kept[id(a)] = pk.copy_of(a, "serial")
        found.append(_on_lines(a, kept) if isinstance(a, tuple) else kept.get(id(a), a))
    return args._make(found) if hasattr(args, "_make") else tuple(found)


def of_blocks(whole, blocks, n_blocks, n_processors):
    """Return bytes from L2: of a launch, by some of its `n_blocks` blocks."""
    found, asked = 0.0, whole.asked
    for names, lines in whole.lines.items():
        # mostly reached on another line than before
        jumps = [asked[name] for name in names.split(", ") if 2 * whole.moves.get(name, 0) > asked[name]]
        if jumps and LINE * max(lines) > FIRST:
            found += SECTOR * sum(jumps)
            continue
        each = sum(sum(block.lines.get(names, (0, 0))) for block in blocks) / max(len(blocks), 1)
        most = n_processors * sum(lines) if LINE * max(lines) <= FIRST else math.inf
        found += LINE * max(sum(lines), min(each * n_blocks, most))
    return found


def of_memory(whole, second):
    """Return bytes from memory, and back: of a launch, with an L2 of so many bytes."""
    read, written = (LINE * sum(lines[way] for lines in whole.lines.values()) for way in (0, 1))
    if read + written <= second or not whole.beyond:
        return read + max(written - second, 0)
    sizes, passed = np.log(list(whole.beyond)), np.log(np.maximum(list(whole.beyond.values()), 1))
    fetched, back = (float(np.exp(np.interp(math.log(second), sizes, passed[:, way]))) for way in (0, 1))
    return fetched + back - min(second * back / (fetched + back), written)
