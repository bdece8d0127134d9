"""Counting builds on the CPU: what a launch does, counted while it runs. Never the build that is timed.

    text       operations of the text, one index after the other: a team has one member
    lanes      the same for packs: only lanes that take part count
    issued     the same for packs: all lanes of a pack count
    executed   instructions of the optimised code, by line
"""

from __future__ import annotations

import collections
import ctypes
import re


from ...compiler.counting import SPECIAL, Issued, Marked, Tally
from ...compiler.entry import EXTRA
from ...compiler.signature import without_scatter
from ...compiler.values import PTR
from . import engine, space as launches
from .lower import Entry
from .scan import ScanEntry



class _Tallied(Entry):
    lowering = Tally

    def emit(self):
        super().emit()
        function = self.module.globals["entry"]
        self.block = function.args[0]
        end, = (block for block in function.blocks if block.terminator and block.terminator.opname == "ret void")
        self.lower.b.position_before(end.terminator)
        self.lower.counters = self.kept
        self.lower.flush(self.extra("counter", PTR))

    def open(self, function):
        super().open(function)
        if function.name == "entry":
            self.kept = self.lower.counters

    def visit(self, *args, **options):
        with self.lower.speaking():
            super().visit(*args, **options)

    def counted(self, totals):
        return {key: totals[k] for k, key in enumerate(self.kept)}


class _Text(_Tallied):
    @staticmethod
    def lanes(signature):
        return 1


class _Issued(_Tallied):
    lowering = Issued


class _Executed:
    """Mixed into an entry: its optimised code with a counter at the end of every basic block."""

    lowering = Marked

    def instrumented(self, text):
        """The code with counters, for each worker a row of them; `self.mixes` says what each block does."""
        self.mixes, self.lines = [], dict(re.findall(r"^!(\d+) = !DILocation\(line: (\d+)", text, re.MULTILINE))
        parts = re.split(r"^(define .*?^}$)", text, flags=re.MULTILINE | re.DOTALL)
        every = [k for k, part in enumerate(parts) if part.startswith("define ")]
        functions = [k for k in every if SPECIAL not in parts[k].partition("(")[0]]
        self.inside = dict(_inside(parts[k]) for k in set(every) - set(functions))
        n_blocks = sum(len(re.findall(_TERMINATOR, parts[k], re.MULTILINE)) for k in functions)
        for k in functions:
            parts[k] = self._with_counters(parts[k], n_blocks)
        return "".join(parts)

    def _with_counters(self, function, n_blocks):
        head, _, body = function.partition("{\n")
        names = re.findall(r"(%[\w.]+)(?=[,)])", head)
        worker = names[3] if len(names) > 3 else "0"
        place = 8 * (self.signature.n_words + EXTRA.index("counter"))
        top = (f"  %count.place = getelementptr i8, ptr {names[0]}, i64 {place}\n  %count.all = load ptr, ptr %count.place\n"
               f"  %count.skip = mul i64 {worker}, {8 * n_blocks}\n  %count.row = getelementptr i8, ptr %count.all, i64 %count.skip\n")
        label, _, rest = body.partition("\n")
        lines, mix = [label, top.rstrip("\n")], collections.Counter()
        for line in rest.split("\n"):
            if re.match(_TERMINATOR, line):
                k = len(self.mixes)
                lines += [f"  %count.p{k} = getelementptr i64, ptr %count.row, i64 {k}", f"  %count.v{k} = load i64, ptr %count.p{k}",
                          f"  %count.n{k} = add i64 %count.v{k}, 1", f"  store i64 %count.n{k}, ptr %count.p{k}"]
                self.mixes.append(mix)
                mix = collections.Counter()
            elif found := _instruction(line):
                mix[self._line(line), *found] += 1
            lines.append(line)
        return head + "{\n" + "\n".join(lines)

    def _line(self, text):
        mark = re.search(r"!dbg !(\d+)", text)
        number = int(self.lines.get(mark[1], 0)) if mark else 0
        return self.lower.lines[number]

    def counted(self, totals):
        result, n = collections.Counter(), len(self.mixes)
        for row in range(0, len(totals), n):
            for mix, times in zip(self.mixes, totals[row:row + n]):
                for (where, name, of), count in mix.items():
                    result[where, name.split(" of ")[0], of] += count * times
                    for (part, type_), each in self.inside.get(name, {}).items():
                        result[where, f"inside {name.split(' ')[1]} {part}", type_] += each * count * times
        return {key: count for key, count in result.items() if count}


class _ExecutedFor(_Executed, Entry):
    pass


class _ExecutedScan(_Executed, ScanEntry):
    pass


_TERMINATOR = r"  (?:ret|br|switch|unreachable) ?"
_VALUE = r"(?:<\d+ x \w+>|\{.*?\}|\w+)"
_FLAGS = r"(?: (?:nuw|nsw|exact|disjoint|nneg|samesign|inbounds|contract|reassoc|nsz|arcp|afn|nnan|ninf|fast|atomic|volatile))*"


def _short(callee):
    """ "special exp of float64 varying": what is called, and with what."""
    words = callee.split(" ")
    return f"{' '.join(words[:2])} of {' '.join(words[2:])}"


def _inside(function):
    """(name, instructions) of a special function; none of one that branches, for which way it goes is not seen."""
    head, _, body = function.partition("{\n")
    lines = body.split("\n")
    mix = collections.Counter(found for line in lines if not re.match(_TERMINATOR, line) and (found := _instruction(line)))
    straight = sum(bool(re.match(_TERMINATOR, line)) for line in lines) == 1
    return _short(re.search(r'@"?([^"(]+)', head)[1]), mix if straight else {}


def _instruction(line):
    """(name, type) of a line of LLVM code: what it does, and to what; None for what costs nothing or is no instruction."""
    text = re.sub(r"^  (?:%[\w.]+ = )?", "", line)
    if text == line or text.startswith(("#dbg", ";")):
        return None
    name = text.split(" ")[0]
    if name in ("tail", "call", "musttail", "notail"):
        call = re.search(rf"({_VALUE}) @\"?([^\"(]+)\"?\(({_VALUE})?", text)
        result, callee, first = call.groups()
        if callee.startswith(("llvm.lifetime", "llvm.assume", "llvm.dbg", "llvm.experimental")):
            return None
        if callee.startswith(SPECIAL):
            return _short(callee), result
        name = callee.removeprefix("llvm.")
        name = re.sub(r"(\.(v\d+)?(f|i|p)\d+)+$", "", name)
        of_argument = result == "void" or name.startswith("vector.reduce")
        return name, first if of_argument else result
    if name in ("phi", "getelementptr", "alloca", "bitcast", "freeze", "ptrtoint", "inttoptr"):
        return None
    if name == "store":
        return name, re.match(rf"store{_FLAGS} ({_VALUE})", text)[1]
    if name in ("icmp", "fcmp"):
        return name, re.match(rf"\w+{_FLAGS} \w+ ({_VALUE})", text)[1]
    if name == "atomicrmw":
        step, of = re.match(rf"atomicrmw{_FLAGS} (\w+) ptr \S+, ({_VALUE})", text).groups()
        return f"atomicrmw {step}", of
    if name == "cmpxchg":
        return name, re.match(rf"cmpxchg.*?, ({_VALUE}) ", text)[1]
    if name == "select":
        return name, re.search(rf", ({_VALUE}) [^,]*, ", text)[1]
    if name in ("extractelement", "insertelement", "shufflevector", "extractvalue", "insertvalue"):
        return None if name.endswith("value") else (name, re.match(rf"\w+{_FLAGS} ({_VALUE})", text)[1])
    found = re.match(rf"\w+{_FLAGS} ({_VALUE})", text)
    return name, found[1] if found else ""


def _compiled(kernel, policy_kind, specs, reducers, build):
    if build == "executed":
        entry = (_ExecutedScan if policy_kind.startswith("scan") else _ExecutedFor)(kernel, policy_kind, specs, reducers)
        return entry, engine.rewritten(entry.text, kernel.name, entry.instrumented)
    entry = {"text": _Text, "lanes": _Tallied, "issued": _Issued}[build](kernel, policy_kind, specs, reducers)
    return entry, engine.load(entry.text, kernel.name)


def counted(space, kernel, policy, policy_kind, specs, reducers, words, build):
    """Run a counting build once; how often each (line, operation, type) happened."""
    specs = without_scatter(specs)  # contended sums count as the atomics of the text
    key = ("cpu", build, policy_kind, specs, reducers)
    if key not in kernel.compiled:
        kernel.compiled[key] = _compiled(kernel, policy_kind, specs, reducers, build)
    entry, function = kernel.compiled[key]
    n = len(entry.mixes) * space.n_threads if build == "executed" else len(entry.kept)
    totals = (ctypes.c_int64 * max(n, 1))()
    compiled = launches.Compiled.__new__(launches.Compiled).fill(entry, function, ctypes.addressof(totals))
    if reducers:
        launches.run("scan" if policy_kind.startswith("scan") else "reduce", space, compiled, policy, words, ())
    else:
        launches.plan_for(space, compiled, policy, words)()
    return entry.counted(list(totals)[:n])
