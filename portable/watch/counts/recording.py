"""Functions that a counting build calls for each access, in the language of core/machines/cpu/native.py:
`record` marks the touched elements of arguments and samples the accesses to lines of memory, `passes` counts
a GPU's requests to banks.
"""

from ...core.language.kernel import function
from ...core.language.words import int64, local
from ...core.machines.cpu.native import Operation, add, load, of_line, store, words

LINE, IN_LINE = 64, 6  # bytes that a cache moves at once; bits of a place in a line
# Layout of a recorded access: its line, from bit STORES on 1 for a read and 2 for a write, then the worker
STORES, WORKER = 46, 48
SAMPLES = 6
EVENTS = 1 << 14  # recorded of each sample at most
# Layout of a sample, after the number of accesses that were picked: the place of its limit, on another line,
# and that of its records; and the name of the count of accesses that found no room
LIMIT, RECORDS, LATE = 8, 16, "late "
KNOWN = 5  # numbers that are known of a view, before counters
# of a line: the upper HASHED bits of its product, Knuth's multiplicative hashing
HASH, HASHED = 0x9E3779B97F4A7C15 - 2**64, 24
# Of a GPU's shared memory: banks, and bytes of a word
WORDS, BANK = 32, 4

_either = Operation("either", of_line("atomicrmw or ptr {}, i64 {} monotonic"))
_known = words(KNOWN)


@function
def mark(marks, first, last):
    """Mark elements, a bit each, where not all of a word's are marked; else others read the same line."""
    for k in range(first >> 6, (last >> 6) + 1):
        bits = ((2 << min(last - 64 * k, 63)) - 1) & (-1 << max(first - 64 * k, 0))
        if load(marks + 8 * k) & bits != bits:
            _either(marks + 8 * k, bits)


@function
def record(address, n, about, last, ways):
    """Record an access to n elements side by side. If a line differs from the one at `last`, count a move,
    and sample the line.

    about : address of what is known of the view: an element's size as a shift, addresses of both maps (which
    may be one) and of the samples, the worker; then counters, of moves, and LATE
    ways : 1 to read, 2 to write, 3 for both
    """
    shift, reading, writing, samples, worker = _known(about)
    end = address + ((n - 1) << shift)
    if ways & 1:
        mark(reading, address >> shift, end >> shift)
    if ways & 2:
        mark(writing, address >> shift, end >> shift)
    for line in range(address >> IN_LINE, (end >> IN_LINE) + 1):
        if load(last) != line:
            moves = about + 8 * KNOWN
            store(last, line)
            store(moves, load(moves) + 1)
            sample(line, line | worker | ways << STORES, samples, moves + 8)


@function
def sample(line, found, samples, late):
    """Record an access in each of the samples whose limit exceeds the line's hash.

    A sample is the number of accesses that were picked, its limit, and records; the next one's limit is
    lower. Accesses to a full sample are counted for each worker, at `late`: one shared counter would move
    from core to core.
    """
    hashed = line * HASH >> (64 - HASHED) & ((1 << HASHED) - 1)
    for k in range(SAMPLES):
        own = samples + 8 * k * (RECORDS + EVENTS)
        if hashed >= load(own + 8 * LIMIT):
            break
        if load(own) < EVENTS:
            n = add(own, 1)
            if n < EVENTS:
                store(own + 8 * (RECORDS + n), found)
        else:
            store(late + 8 * k, load(late + 8 * k) + 1)


@function
def record_lanes(addresses, n, live, about, last, ways):
    """Record an access of a pack's lanes, one after the other: those whose bits of `live` are set."""
    for k in range(n):
        if live >> k & 1:
            record(load(addresses + 8 * k), 1, about, last, ways)


@function
def passes(addresses, n, live, shift, taken, least):
    """Count the words that the lanes of a pack, a GPU's warp, request from one bank in succession, where the
    most loaded bank decides; and their number without conflicts.

    By NVIDIA's documentation: 32 banks hold successive words of four bytes, and serve one word at a time, to
    all lanes that request it; for elements of 8 or 16 bytes half or a quarter of a warp is served at once.
    `shift`: the size of a word, or of an element if that is larger.
    """
    at_once, requests = WORDS * BANK >> shift, local(WORDS, int64)
    for begin in range(0, n, at_once):
        most = 0
        for bank in range(at_once):
            requests[bank] = 0
        for k in range(begin, min(begin + at_once, n)):
            word, new = load(addresses + 8 * k) >> shift, live >> k & 1
            for j in range(begin, k):
                if live >> j & 1 and load(addresses + 8 * j) >> shift == word:
                    new = 0
            bank = word % at_once
            requests[bank] += new
            most = max(most, requests[bank])
        store(taken, load(taken) + most)
        store(least, load(least) + min(most, 1))
