"""The function that a counting build calls for each access to an argument: it marks the touched elements, and
samples the accesses to lines of memory.
"""

import contextlib

from llvmlite import ir

from ...core.compiler.writing.values import I8, I64

LINE = 64  # bytes that a cache moves at once
# Layout of a recorded access: its line, from bit STORES on 1 for a read and 2 for a write, then the worker
STORES, WORKER = 46, 48
# Layout of a sample, after the number of accesses that were picked: the place of its limit, on another line,
# and that of its records; and the name of the count of accesses that found no room
LIMIT, RECORDS, LATE = 8, 16, "late "
KNOWN = 5  # numbers that are known of a view, before counters
HASH = 0x9E3779B97F4A7C15  # of a line: the upper bits of its product, Knuth's multiplicative hashing


class Recorder:
    """Emits the function that marks the elements of a pack's access, and records a sample: one for each
    vector of addresses, and for each number of contiguous elements.

    It marks the elements in both maps (which may be one). If a line differs from the preceding one, it counts
    a move, and records the line, with the other known facts, in each of the samples whose limit exceeds the
    line's hash of `bits` bits. A sample is the number of accesses that were picked, its limit, and records,
    with space for `room`; the next one's limit is lower. Accesses to a full sample are counted for each
    worker, in a counter LATE: one shared counter would move from core to core.
    """

    def __init__(self, module, bits, n_samples, room):
        self.module, self.bits, self.n_samples, self.room, self._made = module, bits, n_samples, room, {}

    def __call__(self, n):
        if n not in self._made:
            self._made[n] = self._function(n)
        return self._made[n]

    def _function(self, n):
        """Return the function for `n`: a number of contiguous elements, passed by the first one's address, or
        the type of all lanes' addresses, passed with the bits of the active ones. The further arguments are
        the facts of the view, numbers of 64 bits (an element's size as a shift, addresses of both maps and of
        the samples, the worker; then counters: of moves, and LATE), the place of the last line, and 1 to
        read, 2 to write.
        """
        together, pointer = isinstance(n, int), ir.PointerType()
        types = [*([I64] if together else [n, ir.IntType(n.count)]), pointer, pointer, I64]
        name = f"record.{n}" if together else f"record.lanes.{n.count}"
        function = outlined(self.module, ir.VoidType(), types, name)
        *where, about, last, ways = function.args
        b = ir.IRBuilder(function.append_basic_block())
        shift, marks, rest = self._known(b, about, ways)
        (self._together if together else self._lanes)(b, n, where, shift, marks, (last, *rest))
        b.ret_void()
        return function

    def _known(self, b, about, ways):
        """Return (an element's size as a shift, both maps, the rest but the last line)."""
        places = [b.gep(about, [I64(k)], source_etype=I64) for k in range(KNOWN + 1 + self.n_samples)]
        shift, read, written, samples, worker = (b.load(place, typ=I64) for place in places[:KNOWN])
        one = b.select(b.icmp_unsigned("==", ways, I64(2)), written, read)
        other = b.select(b.icmp_unsigned("==", ways, I64(1)), read, written)
        known = b.or_(worker, b.shl(ways, I64(STORES)))
        marks = [b.inttoptr(at, ir.PointerType()) for at in (one, other)]
        return shift, marks, (known, b.inttoptr(samples, ir.PointerType()), places[KNOWN:])

    def _together(self, b, n, where, shift, marks, rest):
        """Code for an access of elements side by side."""
        (address,) = where
        self._mark(b, n, address, shift, marks)
        if n == 1:
            self._reach(b, _line(b, address), *rest)
            return
        end = _line(b, b.add(address, b.shl(I64(n - 1), shift)))
        with _counting(b, _line(b, address), end) as line:
            self._reach(b, line, *rest)

    def _lanes(self, b, vector, where, shift, marks, rest):
        """Code for an access of lanes, one after the other."""
        addresses, live = where
        with _counting(b, I64(0), I64(vector.count - 1)) as k:
            at = b.trunc(k, live.type) if vector.count < 64 else k
            with b.if_then(b.trunc(b.lshr(live, at), ir.IntType(1)) if vector.count > 1 else live):
                address = b.extract_element(addresses, k)
                self._mark(b, 1, address, shift, marks)
                self._reach(b, _line(b, address), *rest)

    def _mark(self, b, n, address, shift, marks):
        """Code that marks elements side by side which are not all marked; else others read the same line."""
        ones = ir.IntType(8 * n)(int.from_bytes(b"\1" * n, "little"))
        for map_ in marks:
            place = b.gep(map_, [b.lshr(address, shift)], source_etype=I8)
            with b.if_then(b.icmp_unsigned("!=", b.load(place, align=1, typ=ones.type), ones)):
                b.store(ones, place, align=1)

    def _reach(self, b, line, last, known, samples, counters):
        """Code for an access to a line."""
        moves, *late = counters
        with b.if_then(b.icmp_unsigned("!=", b.load(last, typ=I64), line)):
            b.store(line, last)
            b.store(b.add(b.load(moves, typ=I64), I64(1)), moves)
            self._sample(b, line, known, samples, late)

    def _sample(self, b, line, known, samples, late):
        hashed, end = b.lshr(b.mul(line, I64(HASH)), I64(64 - self.bits)), b.append_basic_block()
        for k, own in enumerate(late):
            picked, limit, records = (
                b.gep(samples, [I64(k * (RECORDS + self.room) + at)], source_etype=I64)
                for at in (0, LIMIT, RECORDS)
            )
            more = b.append_basic_block()
            b.cbranch(b.icmp_unsigned("<", hashed, b.load(limit, typ=I64)), more, end)
            b.position_at_end(more)
            self._pick(b, b.or_(line, known), picked, records, own)
        b.branch(end)
        b.position_at_end(end)

    def _pick(self, b, record, picked, records, late):
        """Emit code that records an access if there is room."""
        room = b.icmp_unsigned("<", b.load(picked, typ=I64), I64(self.room))
        with b.if_else(room) as (there, full):
            with there:
                n = b.atomic_rmw("add", picked, I64(1), "monotonic")
                with b.if_then(b.icmp_unsigned("<", n, I64(self.room))):
                    b.store(record, b.gep(records, [n], source_etype=I64))
            with full:
                b.store(b.add(b.load(late, typ=I64), I64(1)), late)


def _line(b, address):
    return b.lshr(address, I64(LINE.bit_length() - 1))


@contextlib.contextmanager
def _counting(b, first, last):
    """Yield code for each number from the first to the last."""
    begin, each, done = b.block, b.append_basic_block(), b.append_basic_block()
    b.branch(each)
    b.position_at_end(each)
    k = b.phi(I64)
    k.add_incoming(first, begin)
    yield k
    k.add_incoming(b.add(k, I64(1)), b.block)
    b.cbranch(b.icmp_unsigned("<", k, last), each, done)
    b.position_at_end(done)


def outlined(module, result, types, name):
    """Return a function of the module's own that stays a function."""
    function = ir.Function(module, ir.FunctionType(result, types), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    return function
