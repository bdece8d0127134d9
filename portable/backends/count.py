"""Executed counts on every machine: optimised LLVM code with a counter in each basic block, and what a block
does.

A block's instructions are known when the code is; a count of the block's runs times these is exact. Machines
differ in where the counters lie.
"""

from __future__ import annotations

import collections
import re

from ..compiler.counting import SPECIAL, Marked

_TERMINATOR = r"  (?:ret|br|switch|unreachable) ?"
_VALUE = r"(?:<\d+ x \w+>|\{.*?\}|\w+)"
_FLAGS = (
    r"(?: (?:nuw|nsw|exact|disjoint|nneg|samesign|inbounds|contract|reassoc|nsz|arcp|afn|nnan|ninf|fast"
    r"|atomic|volatile))*"
)
_ORDERED = r"\S+ (?:syncscope\(.*?\) )?(?:monotonic|acquire|release|acq_rel|seq_cst)"
# so many at once
_BYTES = r"  (?:tail |musttail |notail )?call void @llvm\.mem(?:set|cpy|move)\.[\w.]+\(.*?, i64 ([^,]+), i1"
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
# where a line says which step an instruction does, if there are several, and to what type; in others the type
# stands behind the name
_TYPES = {
    "icmp": rf"icmp{_FLAGS} \w+ ({_VALUE})",
    "fcmp": rf"fcmp{_FLAGS} \w+ ({_VALUE})",
    "select": rf"select.*?, ({_VALUE}) [^,]*, ",
    "atomicrmw": rf"atomicrmw{_FLAGS} (\w+) .*, ({_VALUE}) {_ORDERED}",
    "cmpxchg": rf"cmpxchg.*, ({_VALUE}) {_ORDERED}",
}


class Executed:
    """Mixed into an entry: its optimised code with counters; `mixes` holds what each block does, in their
    order.

    A machine's subclass gives `instrumented(text)` and puts `bump(k)`, lines of code, at the end of block k.
    What fills or copies memory has a counter of its own, which grows by the bytes.
    """

    emitter = Marked

    def functions(self, text):
        """The code in parts, as a list, and which of them are functions; lines of the kernel become known."""
        self.mixes, self.lines = (
            [],
            dict(re.findall(r"^!(\d+) = !DILocation\(line: (\d+)", text, re.MULTILINE)),
        )
        parts = re.split(r"^(define .*?^}$)", text, flags=re.MULTILINE | re.DOTALL)
        return parts, [k for k, part in enumerate(parts) if part.startswith("define ")]

    def with_counters(self, function, top=(), inside=None):
        """A function that counts the runs of its blocks, after the lines `top`; `inside` names a special
        function."""
        head, _, body = function.partition("{\n")
        label, _, rest = body.partition("\n")
        lines, mix = [label, *top], collections.Counter()
        for line in rest.split("\n"):
            if re.match(_TERMINATOR, line):
                lines += self.bump(len(self.mixes))
                self.mixes.append(mix)
                mix = collections.Counter()
            elif moved := re.match(_BYTES, line):
                lines += self.bump(len(self.mixes), moved[1])
                words = ("store",) if "@llvm.memset" in line else ("load", "store")
                self.mixes.append(collections.Counter({(self._line(line), word, "i8"): 1 for word in words}))
            elif not self.is_free(line) and (found := _instruction(line)):
                name, of = found
                mix[
                    (self._line(line), *found) if inside is None else ("", f"inside {inside} {name}", of)
                ] += 1
            lines.append(line)
        return head + "{\n" + "\n".join(lines)

    def is_free(self, line):
        """Whether an instruction is no work on this machine."""
        return False

    def _line(self, text):
        mark = re.search(r"!dbg !(\d+)", text)
        number = int(self.lines.get(mark[1], 0)) if mark else 0
        return self.lower.lines[number]

    def counted(self, totals, inside=()):
        """How often each (line, instruction, type) ran, from the runs of blocks: rows of them, one a worker.

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


def n_blocks(function):
    """The counters of a function's code: of its basic blocks, and of what fills or copies memory."""
    return len(re.findall(f"^(?:{_TERMINATOR}|{_BYTES})", function, re.MULTILINE))


def is_special(function):
    """Whether code is that of a function that counts as one operation."""
    return SPECIAL in function.partition("{\n")[0]  # a range of what it returns has brackets before the name


def special(function):
    """(name, instructions) of a special function; none of one that branches, for which way it goes is not
    seen."""
    lines = function.partition("{\n")[2].split("\n")
    mix = collections.Counter(
        found for line in lines if not re.match(_TERMINATOR, line) and (found := _instruction(line))
    )
    return _short(re.search(r'@"?([^"(]+)', function)[1]), mix if n_blocks(function) == 1 else {}


def _short(callee):
    """ "special exp of float64 varying": what is called, and with what."""
    words = callee.split(" ")
    return f"{' '.join(words[:2])} of {' '.join(words[2:])}"


def _instruction(line):
    """(name, type) of a line of LLVM code: what it does, and to what; None for what costs nothing or is no
    instruction."""
    text = re.sub(r"^  (?:%[\w.]+ = )?", "", line)
    if text == line or text.startswith(("#dbg", ";")):
        return None
    name = text.split(" ")[0]
    if name in ("tail", "call", "musttail", "notail"):
        return _call(text)
    if name in _COSTLESS:
        return None
    found = re.match(_TYPES.get(name, rf"\w+{_FLAGS} ({_VALUE})"), text)
    *step, of = found.groups() if found else ("",)
    if name in _DIVISIONS and not text.partition(", ")[2].startswith("%"):
        step = ["by constant"]  # which is a product, or a shift
    return " ".join((name, *step)), of


def _call(text):
    """(name, type) of a call, or None, as of other instructions."""
    result, callee, first = re.search(rf"({_VALUE}) @\"?([^\"(]+)\"?\(({_VALUE})?", text).groups()
    if callee.startswith(("llvm.lifetime", "llvm.assume", "llvm.dbg", "llvm.experimental")):
        return None
    if callee.startswith(SPECIAL):
        return _short(callee), result
    name = re.sub(r"(\.(v\d+)?(f|i|p)\d+)+$", "", callee.removeprefix("llvm."))
    of_argument = result == "void" or name.startswith("vector.reduce")
    return name, first if of_argument else result
