"""Counting builds on the CPU, which count a launch's operations; never the build that is timed.

text       operations of the source, one index after the other: a team has one member
touched    the same; and the numbers of elements, and of lines of memory, of its arguments that are read, and
           that are written
lanes      the same for packs: only active lanes count; and the number of all lanes of the packs
banks      the same for packs of 32; and, for a sample of the accesses to scratch, the number of passes
           through a GPU's shared memory, and that number without bank conflicts
executed   instructions of the optimised code, by line
"""

import ctypes
import functools

from ...core import locks
from .counting import Banks, Marked, Reached, Tally, Touching
from ...core.compiler.writing.block import EXTRA
from ...core.compiler.reading.signature import without_scatter
from ...core.language.types import UNIFORM, VARYING
from ..printed_tree import printed_tree
from ...core.compiler.writing.lines import builder
from ...core.compiler.writing.values import I64, Value
from .executed import Executed
from ...core.machines.cpu import engine, stop, space as launches
from ...core.machines.cpu.lanes import CpuTeam, Unwatched
from ...core.machines.cpu.entry import entry_of
from .touched import Marks


class _WideTeam(CpuTeam):
    """A team of more members than registers have lanes: LLVM compresses no such vectors."""

    def append(self, here, view, at, value, keep):
        ops = here.ops
        x, mask = ops.get(value, view.dtype, VARYING), ops.get(keep, "bool", VARYING)
        kept, there = ops.const(0), here._replace(mask=None)
        for k in range(ops.W):
            one = builder.extract_element(mask, k)
            with builder.if_then(one):
                place, own = ops.binary("+", at, kept), builder.extract_element(x, k)
                here.memory.store(there, view, [place], Value(view.dtype, UNIFORM, own))
            kept = ops.binary("+", kept, Value("int", UNIFORM, builder.zext(one, I64)))
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
        """Return the address of the counters of this call's worker."""
        names = [f"%{a.name or k}" for k, a in enumerate(function.value.arguments)]
        worker = names[3] if len(names) > 3 else "0"
        place = 8 * (self.entry.signature.n_words + EXTRA.index("counter"))
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


_LOOKS = {"touched": Touching, "banks": Banks}


def counting_entry(kernel, policy_kind, specs, reducers, build):
    """Return the entry of a counting build, with a watch that counts."""
    name, _, width = {"banks": "banks:32"}.get(build, build).partition(":")  # of a GPU's warp
    if name == "executed":
        return entry_of(kernel, policy_kind, specs, reducers, Marked, target=Unwatched)
    lanes = int(width) if width.isdigit() else 1 if name in ("text", "touched") and not width else None
    look = functools.partial(Tally, _LOOKS.get(name), name == "lanes")
    options = {"target": Unwatched, "lanes": lanes, "scans": False}
    if lanes is not None and lanes > 16:
        options["team"] = _WideTeam
    return entry_of(kernel, policy_kind, specs, reducers, look, **options)


def counted(space, kernel, policy, policy_kind, specs, reducers, words, build):
    """Run a counting build once; how often each (line, operation, type) happened."""
    if reducers or build != "executed":  # in the source's builds they count as its atomics
        specs = without_scatter(specs)
    entry, counts, function = _compiled(kernel, policy_kind, specs, reducers, build)
    n = len(counts.mixes) * space.n_threads if build == "executed" else len(counts.kept)
    marks = Marks(entry, counts.look.views, words, space.n_threads) if build.startswith("touched") else None
    first = marks.addresses if marks else []
    totals = (ctypes.c_int64 * max(len(first) + n, 1))(*first)
    compiled = launches.Compiled.__new__(launches.Compiled).fill(entry, function, ctypes.addressof(totals))
    if not launches.copies_fit(compiled, words, space.n_threads):
        return counted(space, kernel, policy, policy_kind, without_scatter(specs), reducers, words, build)
    pattern = "scan" if policy_kind.startswith("scan") else "reduce" if reducers else "for"
    launches.run(pattern, space, compiled, policy, words, ())
    found = counts.counted(list(totals)[len(first) : len(first) + n])
    return marks.count_traffic(found) if marks else found


@locks.compile_alone
def _compiled(kernel, policy_kind, specs, reducers, build):
    """Return (entry, its counts, function) of a counting build, compiled once."""
    key = ("cpu", build, policy_kind, specs, reducers)
    if key not in kernel.compiled:
        stop.add_symbols()  # a counted kernel may poll for Ctrl-C
        entry = counting_entry(kernel, policy_kind, specs, reducers, build)
        if build == "executed":
            counts = _Executed(entry)
            code = engine.rewritten(entry.text, kernel.name, counts.instrumented)
        else:
            counts, code = entry.watch, engine.load(entry.text, kernel.name, level=0)
        kernel.compiled[key] = entry, counts, code
    return kernel.compiled[key]


def listing(space, kernel, policy, *launch):
    return _assembly(kernel, *launch)


@functools.lru_cache(16)  # repeated counts read it each time
def _assembly(kernel, *launch):
    return engine.assembly(entry_of(kernel, *launch).text, kernel.name)


def explain(space, kernel, policy, *launch):
    entry = entry_of(kernel, *launch, watch=Reached)
    assembly = engine.assembly(entry.text, kernel.name)
    packs = f"packs of {entry.width} lanes: consecutive indices (or a team's members) share vector registers"
    return (
        {
            "code": packs if entry.width > 1 else f"scalar: {entry.why_scalar}",
            "spills in the assembly": assembly.count("Spill"),
            "scratch, bytes": entry.scratch_static,
        },
        sorted(entry.text and entry.watch.accesses),
        printed_tree(entry.tree),
    )
