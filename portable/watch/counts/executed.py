"""Executed counts on every machine: optimised LLVM code with a counter in each basic block, and the
operations of a block.

A block's instructions are known from the code; multiplying them by the number of the block's executions is
exact. LLVM provides an instruction's operation; its printed line is kept too, since counters are inserted
between lines, and since it names a few things that LLVM's C interface does not. Machines differ in the places
of the counters.
"""

import collections

import llvmlite.binding as llvm

from .counting import SPECIAL

_TERMINATORS = "ret", "br", "switch", "unreachable"
# of calls that fill or copy memory: the operations on each byte
_BYTES = {"llvm.memset": ("store",), "llvm.memcpy": ("load", "store"), "llvm.memmove": ("load", "store")}
_NO_WORK = "llvm.lifetime", "llvm.assume", "llvm.dbg", "llvm.experimental"
_COSTLESS = (
    "phi",
    "getelementptr",
    "alloca",
    "bitcast",
    "addrspacecast",
    "freeze",
    "ptrtoint",
    "inttoptr",
    "extractvalue",
    "insertvalue",
)
_DIVISIONS = "sdiv", "udiv", "srem", "urem"
# an instruction's type is that of its first operand, but of these of the result, or of the last operand
_OF_RESULT, _OF_LAST = ("load", "select"), ("atomicrmw", "cmpxchg")


class Function:
    """A function of an optimised module: its printed lines, and LLVM's object."""

    def __init__(self, value, text):
        self.value, self.lines = value, text.split("\n")
        self.is_special = value.name.startswith(SPECIAL)  # counts as one operation

    @property
    def body(self):
        """Yield (line, instruction) pairs, as they are printed; None for lines that begin no instruction."""
        instructions = (i for block in self.value.blocks for i in block.instructions)
        for line in self.lines[1:]:
            begins = line.startswith("  ") and line[2:3] not in (" ", "]", ";", "#")
            yield line, next(instructions) if begins else None

    @property
    def n_counters(self):
        """The number of counters: one for each basic block, and one for each call that fills or copies
        memory.
        """
        return sum(i is not None and (i.opcode in _TERMINATORS or bool(_moved(i))) for _, i in self.body)

    def special(self):
        """Return (name, instructions) of a special function; no instructions if it branches, since the path
        is not recorded.
        """
        mix = collections.Counter(
            found
            for line, i in self.body
            if i is not None and i.opcode not in _TERMINATORS and (found := _operation_of(i, line))
        )
        return _short(self.value.name), mix if self.n_counters == 1 else {}


class Executed:
    """An entry's optimised code with counters; `mixes` holds the operations of each block, in their order.

    A machine's subclass implements `instrumented(text)`, which inserts `bump(k)`, lines of code, at the end
    of block k. A call that fills or copies memory has a separate counter, which is increased by the bytes.
    """

    def __init__(self, entry):
        self.entry = entry

    def functions(self, text):
        """Return the code in parts, as a list, and {k: Function} for the parts that are functions; records
        the kernel's lines.
        """
        self.mixes, self.lines = [], {}
        parts, defined = [[]], {}
        module = llvm.parse_assembly(text)
        values = (f for f in module.functions if not f.is_declaration)
        for line in text.split("\n"):
            if line.startswith("define "):
                defined[len(parts)] = next(values)
                parts.append([])
            parts[-1].append(line)
            if line == "}":
                parts.append([])
            mark, _, place = line.partition(" = !DILocation(line: ")
            if place:
                self.lines[mark] = int(place.partition(",")[0])
        parts = ["\n".join(part) for part in parts]
        return parts, {k: Function(value, parts[k]) for k, value in defined.items()}

    def with_counters(self, function, top=(), inside=None):
        """Return a function that counts the runs of its blocks, after the lines `top`; `inside` names a
        special function."""
        lines, mix = [function.lines[0]], collections.Counter()
        for line, instruction in function.body:
            if instruction is None:
                lines.append(line)
                continue
            if top:
                lines, top = lines + list(top), ()
            if instruction.opcode in _TERMINATORS:
                lines += self.bump(len(self.mixes))
                self.mixes.append(mix)
                mix = collections.Counter()
            elif words := _moved(instruction):
                lines += self.bump(len(self.mixes), line.partition(", i64 ")[2].partition(",")[0])
                self.mixes.append(collections.Counter({(self._line(line), word, "i8"): 1 for word in words}))
            elif not self.is_free(instruction) and (found := _operation_of(instruction, line)):
                name, of = found
                mix[
                    (self._line(line), *found) if inside is None else ("", f"inside {inside} {name}", of)
                ] += 1
            lines.append(line)
        return "\n".join(lines)

    def is_free(self, instruction):
        """Return True if an instruction costs nothing on this machine."""
        return False

    def _line(self, text):
        mark = text.partition("!dbg ")[2].partition(",")[0]
        return self.entry.watch.lines[self.lines.get(mark, 0)]

    def counted(self, totals, inside=()):
        """Return the number of times that each (line, instruction, type) ran, from the runs of blocks:
        rows of them, one for each worker.

        `inside`: a dict of the instructions in special functions that have no counters.
        """
        result, n, inside = collections.Counter(), len(self.mixes), dict(inside)
        for row in range(0, len(totals), n):
            for mix, times in zip(self.mixes, totals[row : row + n]):
                for (where, name, of), count in mix.items():
                    result[where, name.split(" of ")[0], of] += count * times
                    for (part, type_), each in inside.get(name, {}).items():
                        result[where, f"inside {name.split(' ')[1]} {part}", type_] += each * count * times
        return {key: count for key, count in result.items() if count}


def _callee(call):
    """Return the name of the function that a call calls, which is its last operand."""
    *_, callee = call.operands
    return callee.name


def _moved(instruction):
    """Return the operations on each byte of an instruction that fills or copies memory; () for others."""
    if instruction.opcode != "call":
        return ()
    return _BYTES.get(".".join(_callee(instruction).split(".")[:2]), ())


def _short(callee):
    """Format a callee as "special exp of float64 varying": the function and its arguments."""
    words = callee.split(" ")
    return f"{' '.join(words[:2])} of {' '.join(words[2:])}"


def _operation_of(instruction, line):
    """Return (name, type) of an instruction: its operation, and the type operated on; None if it costs
    nothing.

    The kind of an atomic operation is only in its printed line.
    """
    name, operands = instruction.opcode, list(instruction.operands)
    if name == "call":
        return _call(str(instruction.type), _callee(instruction), operands)
    if name in _COSTLESS:
        return None
    of = operands[-1] if name in _OF_LAST else operands[0] if operands else instruction
    of = str((instruction if name in _OF_RESULT else of).type).partition(" addrspace")[0]
    if name == "atomicrmw":
        return f"{name} {line.partition(' ptr ')[0].rpartition(' ')[2]}", of
    if name in _DIVISIONS and operands[1].is_constant:
        return f"{name} by constant", of  # which is a product, or a shift
    return name, of


def _call(result, callee, operands):
    if callee.startswith(_NO_WORK):
        return None
    if callee.startswith(SPECIAL):
        return _short(callee), result.lstrip("{ ").partition(",")[0]  # one for a quotient and its remainder
    words = callee.removeprefix("llvm.").split(".")
    while words[-1].strip("v0123456789") in ("f", "i", "p"):  # types that it is for: v8f64, i32, p0
        words.pop()
    name = ".".join(words)
    of_argument = result == "void" or name.startswith("vector.reduce")
    return name, str(operands[0].type).partition(" addrspace")[0] if of_argument else result
