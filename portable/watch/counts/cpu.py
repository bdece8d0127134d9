"""Counting builds on the CPU: what a launch does, counted while it runs. Never the build that is timed.

text       operations of the text, one index after the other: a team has one member
touched    the same; and how many elements, and lines of memory, of its arguments are read, and how many
           are written
lanes      the same for packs: only lanes that take part count; and how many lanes the packs had in all
banks      the same for packs of 32; and, of a sample of the accesses to scratch, how often a GPU's shared
           memory would be asked, and how often if no two words were in one bank
executed   instructions of the optimised code, by line
"""

from __future__ import annotations

import collections
import ctypes
import functools


from ...core import locks
from .counting import Banks, Packs, Tally, Touching
from .recording import Recorder
from ...core.compiler.writing.block import EXTRA
from ...core.compiler.reading.signature import without_scatter
from ...core.language.types import UNIFORM, VARYING
from ...core.compiler.reading.shown import shown
from ...core.compiler.reading.tree import flat
from ...core.compiler.writing.values import I64, PTR, Value, ViewValue
from .executed import Executed
from ...core.machines.cpu import engine, stop
from ...core.machines.cpu import space as launches
from ...core.machines.cpu.lanes import CpuTeam, Unwatched
from ...core.machines.cpu.lower import Entry
from .reuse import EVENTS, HASHED, SAMPLES
from ...core.machines.cpu.scan import ScanEntry
from .touched import Marks


class _Tallied(Entry):
    emitter, target = Tally, Unwatched

    def emit(self):
        super().emit()
        function = self.module.globals["entry"]
        self.block = function.args[0]
        (end,) = (
            block for block in function.blocks if block.terminator and block.terminator.opname == "ret void"
        )
        self.lower.b.position_before(end.terminator)
        self.lower.counters = self.kept
        self.flush(self.extra("counter", PTR))

    def flush(self, base):
        self.lower.flush(base)

    def open(self, function):
        super().open(function)
        if function.name == "entry":
            self.kept = self.lower.counters

    def visit(self, *args, **options):
        with self.lower.speaking():
            super().visit(*args, **options)

    def counted(self, totals):
        found = collections.Counter()
        for (mix, _), runs in zip(self.kept, totals):
            for key, n in mix.items():
                found[key] += n * runs
        return dict(found)


class _Text(_Tallied):
    @staticmethod
    def lanes(signature):
        return 1


class _Touched(_Text):
    """The block's counters begin with the addresses of a trace and of maps, two for each view among the
    arguments."""

    emitter = Touching

    def open(self, function):
        super().open(function)
        views = [v for v in flat(tuple(self.args)) if isinstance(v, ViewValue)]
        if function.name == "entry":
            self.views = views
        if function.name == "entry" and views:
            base, b = self.extra("counter", PTR), self.lower.b
            samples, *maps = (b.load(self.word(base, k), typ=I64) for k in range(1 + 2 * len(views)))
            recorder = Recorder(self.module, HASHED, SAMPLES, EVENTS)
            self.lower.watch(views, zip(maps[::2], maps[1::2]), recorder, samples, function.args[3])

    def flush(self, base):
        self.lower.flush(self.word(base, 1 + 2 * len(self.views)))


class _Lanes(_Tallied):
    emitter = Packs


class _Banks(_Tallied):
    emitter = Banks


class _WideTeam(CpuTeam):
    """Of more members than registers have lanes: LLVM compresses no such vectors."""

    def append(self, lower, view, at, value, keep):
        x, mask, kept = (
            lower.get(value, view.dtype, VARYING),
            lower.get(keep, "bool", VARYING),
            lower.const(0),
        )
        for k in range(lower.W):
            one = lower.b.extract_element(mask, I64(k))
            with lower.b.if_then(one):
                outer, lower.mask = lower.mask, None
                lower.store(
                    view,
                    [lower.binary("+", at, kept)],
                    Value(view.dtype, UNIFORM, lower.b.extract_element(x, I64(k))),
                )
                lower.mask = outer
            kept = lower.binary("+", kept, Value("int", UNIFORM, lower.b.zext(one, I64)))
        return kept


class _Executed(Executed):
    """Counters in the launch's own memory, a row of them for each worker; special functions have none."""

    def instrumented(self, text):
        parts, every = self.functions(text)
        own = [k for k in every if not every[k].is_special]
        self.inside = dict(every[k].special() for k in set(every) - set(own))
        n = sum(every[k].n_counters for k in own)
        for k in own:
            parts[k] = self.with_counters(every[k], self._row(every[k], n))
        return "\n".join(parts)

    def _row(self, function, n):
        """Where the counters of this call's worker begin."""
        names = [f"%{a.name or k}" for k, a in enumerate(function.value.arguments)]
        worker = names[3] if len(names) > 3 else "0"
        place = 8 * (self.signature.n_words + EXTRA.index("counter"))
        return (
            f"  %count.place = getelementptr i8, ptr {names[0]}, i64 {place}",
            "  %count.all = load ptr, ptr %count.place",
            f"  %count.skip = mul i64 {worker}, {8 * n}",
            "  %count.row = getelementptr i8, ptr %count.all, i64 %count.skip",
        )

    def bump(self, k, by=1):
        return [
            f"  %count.p{k} = getelementptr i64, ptr %count.row, i64 {k}",
            f"  %count.v{k} = load i64, ptr %count.p{k}",
            f"  %count.n{k} = add i64 %count.v{k}, {by}",
            f"  store i64 %count.n{k}, ptr %count.p{k}",
        ]

    def counted(self, totals):
        return super().counted(totals, self.inside)


class _ExecutedFor(_Executed, Entry):
    target = Unwatched


class _ExecutedScan(_Executed, ScanEntry):
    target = Unwatched


@locks.alone
def _made(kernel, policy_kind, specs, reducers, build):
    if build == "executed":
        entry = (_ExecutedScan if policy_kind.startswith("scan") else _ExecutedFor)(
            kernel, policy_kind, specs, reducers
        )
        return entry, engine.rewritten(entry.text, kernel.name, entry.instrumented)
    name, _, width = {"banks": "banks:32"}.get(build, build).partition(":")  # of a GPU's warp
    entry = {"text": _Text, "touched": _Touched, "lanes": _Lanes, "banks": _Banks}[name]
    if width == "lanes":
        entry = type(entry.__name__, (entry,), {"lanes": Entry.lanes})
    elif width:
        wide = {"team": _WideTeam} if int(width) > 16 else {}
        entry = type(
            entry.__name__,
            (entry,),
            {"lanes": staticmethod(lambda signature: int(width)), "chained": 1, **wide},
        )
    entry = entry(kernel, policy_kind, specs, reducers)
    return entry, engine.load(entry.text, kernel.name, level=0)


def counted(space, kernel, policy, policy_kind, specs, reducers, words, build):
    """Run a counting build once; how often each (line, operation, type) happened."""
    if reducers or build != "executed":  # in a text they are its atomics
        specs = without_scatter(specs)
    entry, function = _compiled(kernel, policy_kind, specs, reducers, build)
    n = len(entry.mixes) * space.n_threads if build == "executed" else len(entry.kept)
    marks = Marks(entry, words, space.n_threads) if build.startswith("touched") else None
    first = marks.addresses if marks else []
    totals = (ctypes.c_int64 * max(len(first) + n, 1))(*first)
    compiled = launches.Compiled.__new__(launches.Compiled).fill(entry, function, ctypes.addressof(totals))
    if not launches.copies_fit(compiled, words, space.n_threads):
        return counted(space, kernel, policy, policy_kind, without_scatter(specs), reducers, words, build)
    _launch(space, compiled, policy, policy_kind, reducers, words)
    found = entry.counted(list(totals)[len(first) : len(first) + n])
    return marks.found(found) if marks else found


@locks.alone
def _compiled(kernel, policy_kind, specs, reducers, build):
    """(entry, function) of a counting build, made once."""
    key = ("cpu", build, policy_kind, specs, reducers)
    if key not in kernel.compiled:
        stop.known()  # what is counted may look for Ctrl-C
        kernel.compiled[key] = _made(kernel, policy_kind, specs, reducers, build)
    return kernel.compiled[key]


def _launch(space, compiled, policy, policy_kind, reducers, words):
    pattern = "scan" if policy_kind.startswith("scan") else "reduce" if reducers else "for"
    launches.run(pattern, space, compiled, policy, words, ())


def listing(space, kernel, policy, policy_kind, specs, reducers):
    return _assembly(kernel, policy_kind, specs, reducers)


@functools.lru_cache(16)  # who counts launch after launch reads it each time
def _assembly(kernel, policy_kind, specs, reducers):
    entry = launches._emitted(policy_kind)(kernel, policy_kind, specs, reducers)
    return engine.assembly(entry.text, kernel.name)


def explain(space, kernel, policy, policy_kind, specs):
    entry = launches._emitted(policy_kind)(kernel, policy_kind, specs)
    assembly = engine.assembly(entry.text, kernel.name)
    packs = f"packs of {entry.width} lanes: consecutive indices (or a team's members) share vector registers"
    return (
        {
            "code": packs if entry.width > 1 else f"scalar: {entry.why_scalar}",
            "spills in the assembly": assembly.count("Spill"),
            "scratch, bytes": entry.scratch_static,
        },
        entry.accesses,
        shown(entry.tree),
    )
