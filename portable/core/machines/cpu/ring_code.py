"""Copies through a ring of pinned memory by the thread pool's threads and a device's driver, in the language
of native.py. `Pool.ring` makes a ring's state; cuda/staging.py has one."""

from ...language.words import int32
from .native import add, call, load, pair, pause, read, stack, store, stream, words, write
from .pool_code import memcpy

# Offsets in a ring's state, after the ten words that `Pool.ring` sets.
MEMORY = 64
POOL = 80
THREADS = 88
SEGMENT = 96  # the one that is filled, and how far
EVENTS = 128
LAUNCH = 192  # the driver's cuLaunchKernel, a kernel of a device that copies, and its stamps
STAMPS = 208
NEAR = 216  # bytes that it copies at most
SERIAL = 224  # of its last copy; and the number of pauses before the driver is queried
HELP = 240  # the pool's `run` and `copy`, and the functions of this file that it runs

PIECE = 16 << 10  # bytes that have a stamp
TEAM = 1024  # a piece's threads
# minimum number of blocks, which process pieces in rotation, and pieces of each block if there are more
BLOCKS, EACH = 16, 8
SHARES, SHARE = 64, 8  # pieces that a thread takes together, and as many threads side by side
SEGMENTS = 8
# Bytes of a piece that an engine copies, at least, and at most up and down; of copies that threads share; of
# a thread's part at least, and of one of more than LARGE: a share for each thread, or a huge page. The system
# clears new memory by such pages, for the first thread that writes there, while others wait.
LEAST, UP, DOWN = 512 << 10, 4 << 20, 16 << 20
MANY, COPIED, LARGE, HUGE = 256 << 10, 32 << 10, 4 << 20, 2 << 20

_three, _four, _five, _six, _ten = map(words, (3, 4, 5, 6, 10))


def ring_copy(ring, target, source, n, function):
    """Copy n bytes, many of them by the threads of a ring's pool: `function` as pool_copy."""
    if n < MANY:
        memcpy(target, source, n)
        return
    block = stack(2)
    store(block, target, source)
    pool, threads = pair(ring + POOL)
    each = n // threads
    least = min(each, HUGE) if n > LARGE else COPIED
    call(load(ring + HELP), pool, function, block, 0, n, max(each // 4, least) & -64)


def ring_piece(n, most, room):
    """Return bytes of a piece that an engine copies, whole pages: a share of all, within bounds."""
    return min((min(max(n // SEGMENTS, LEAST), most) + 4095) & -4096, room)


def ring_move(ring, target, source, n, serial):
    """Launch a kernel that copies n bytes and writes `serial` to the stamp of each piece that has been
    copied.
    """
    launch, function, stamps = _three(ring + LAUNCH)
    values, places = stack(5), stack(5)
    store(values, target, source, n, stamps, serial)
    store(places, values, values + 8, values + 16, values + 24, values + 32)
    pieces = (n - 1) // PIECE + 1
    blocks = min(pieces, max(pieces // EACH, BLOCKS))
    return int32(call(launch, function, blocks, 1, 1, TEAM, 1, 1, 0, 0, places, 0))


def ring_came(block, piece):
    """Wait until a stamp arrives, as the driver does but for a limited time; True if it has arrived. `block`:
    target, pinned memory, stamps, serial, pauses, bytes, bytes that were taken.
    """
    stamps, serial, spins = _three(block + 16)
    stamp = stamps + 8 * piece
    while spins and read(stamp) != serial:
        pause()
        spins -= 1
    return read(stamp) == serial


def ring_first(block, begin, end, worker):
    """Wait for the first piece on the thread that copies, while the other threads wake up."""
    if not worker:
        ring_came(block, 0)


def ring_take(block, begin, end, worker):
    """Copy the shares [begin, end) out of pinned memory as they arrive: pieces arrive approximately in order,
    so that a share is every eighth of 64, and eight threads follow them together.
    """
    target, memory, _, _, _, n = _six(block)
    while begin < end:
        piece = begin // SHARE * SHARES + begin % SHARE
        i, taken = 0, 0
        while i < SHARE and piece * PIECE < n:
            if not ring_came(block, piece):
                return
            at = piece * PIECE
            size = min(n - at, PIECE)
            memcpy(target + at, memory + at, size)
            piece, i, taken = piece + SHARE, i + 1, taken + size
        add(block + 48, taken)
        begin += 1


def ring_near(ring, finish, target, source, n):
    """Copy n bytes from a device to the host by the kernel: pieces are copied out when their stamps have
    arrived. If some do not (a long queue before it, a device failure, Ctrl-C), all are copied out when the
    queue has ended.
    """
    memory, pool = load(ring + MEMORY), load(ring + POOL)
    run, copy, first, take, _ = _five(ring + HELP)
    stamps, _, serial, spins = _four(ring + STAMPS)
    serial += 1
    store(ring + SERIAL, serial)
    code = ring_move(ring, memory, source, n, serial)
    if code:
        return code
    block = stack(7)
    store(block, target, memory, stamps, serial, spins, n, 0)
    call(run, pool, first, block, 0, 2, 1)
    if read(stamps) == serial:
        call(run, pool, take, block, 0, ((n - 1) // PIECE // SHARES + 1) * SHARE, 1)
    if read(block + 48) != n:
        code = int32(call(finish, 0))
        if not code:
            ring_copy(ring, target, memory, n, copy)
    return code


def ring_up(ring, target, source, n):
    """Queue copies of n bytes from the host to a device; return the driver's error code, or 0. Pieces follow
    one another in the ring's segments. A completed segment is marked, and is free when its mark is reached.
    Copies of few bytes fill only the beginnings of segments, which stay in a cache.
    """
    activate, context, wait, mark, _, queue, _, fill, memory, size = _ten(ring)
    piece = ring_piece(n, UP, size)
    limit = min(MANY, size) if n < MANY else size
    at, code = 0, int32(call(activate, context))
    while not code and at < n:
        segment, used = pair(ring + SEGMENT)
        part = min(n - at, piece)
        if used + part > limit:
            call(mark, load(ring + EVENTS + 8 * segment), 0)
            segment, used = (segment + 1) % SEGMENTS, 0
            call(wait, load(ring + EVENTS + 8 * segment))
        place = memory + segment * size + used
        ring_copy(ring, place, source + at, part, fill)
        code = int32(call(queue, target + at, place, part, 0))
        store(ring + SEGMENT, segment, (used + part + 63) & -64)
        at += part
    return code


def ring_reach(block, begin, end, worker):
    """Wait until a mark is reached, as the code that the pool runs."""
    if not worker:
        wait, event = pair(block)
        call(wait, event)


def ring_send(ring, place, slot, source, n, several):
    """Queue the copy of a piece to its place, and mark it if there are several; return the driver's error
    code.
    """
    _, _, _, mark, _, _, queue, _, _, _ = _ten(ring)
    code = int32(call(queue, place, source, n, 0))
    if several:
        call(mark, load(ring + EVENTS + 8 * slot), 0)
    return code


def ring_await(ring, slot, several, rouse):
    """Wait until a piece arrives (the first of many: while threads wake); return the driver's error code."""
    _, _, wait, _, finish, _, _, _, _, _ = _ten(ring)
    if not several:
        return int32(call(finish, 0))
    event = load(ring + EVENTS + 8 * slot)
    if rouse:
        run, _, _, _, reach = _five(ring + HELP)
        block = stack(2)
        store(block, wait, event)
        call(run, load(ring + POOL), reach, block, 0, 2, 1)
    return int32(call(wait, event))


def ring_pieces(ring, target, source, n, piece):
    """Copy pieces out of `slots` places of the ring, `step` bytes apart, as they arrive, while threads are
    woken. Return the driver's error code.
    """
    memory, size = pair(ring + MEMORY)
    step = max(size, piece)
    slots = size * SEGMENTS // step
    code, queued, emptied = int32(0), 0, 0
    while code == 0 and emptied * piece < n:
        if queued * piece < n and queued - emptied < slots:
            at, slot = queued * piece, queued % slots
            code = ring_send(ring, memory + slot * step, slot, source + at, min(n - at, piece), n > piece)
            queued += 1
        else:
            at, slot = emptied * piece, emptied % slots
            code = ring_await(ring, slot, n > piece, emptied == 0 and n >= MANY)
            if code == 0:
                copy = load(ring + HELP + 8)
                ring_copy(ring, target + at, memory + slot * step, min(n - at, piece), copy)
            emptied += 1
    return code


def ring_down(ring, target, source, n):
    """Copy n bytes from a device to the host; return the driver's error code, or 0."""
    activate, context, _, _, finish, _, _, _, _, size = _ten(ring)
    code = int32(call(activate, context))
    if code != 0:
        return code
    if MANY <= n and n <= load(ring + NEAR) and source % 16 == 0:  # a kernel moves 16 bytes at once
        return ring_near(ring, finish, target, source, n)
    return ring_pieces(ring, target, source, n, ring_piece(n, DOWN, 2 * size))


def ring_fill(block, begin, end, worker):
    """Copy as pool_copy does, but past the caches: for a device to read, not for this machine's cores. The
    target, and each chunk in it, is at a multiple of 64."""
    target, source = pair(block)
    while begin + 64 <= end:
        stream(target + begin, source + begin)
        begin += 64
    memcpy(target + begin, source + begin, end - begin)
    write(stack(1), 0)  # a locked operation waits for stores past the caches


FUNCTIONS = ring_up, ring_down, ring_first, ring_take, ring_reach, ring_fill
