"""Executed instructions of a launch on CUDA: the GPU's own code, each basic block of which counts its runs in
a thread.

The counters' address is part of the code, so that portable's own functions, which branch here, count like all
others.
"""

import ctypes
import functools

from ...core.compiler.writing.optimise import optimise, verified
from ..printed_tree import printed_tree
from ...core.compiler.reading.signature import without_scatter
from ...core.locks import compile_once
from .counting import Marked, Reached
from .executed import Executed
from ...core.machines.cuda import driver, engine, space as launches
from ...core.machines.cuda.lower import entry_of


class _Executed(Executed):
    """Counters in the device's memory at `address`, of all threads together."""

    address = 0

    def instrumented(self, text):
        parts, every = self.functions(text)
        for k, function in every.items():
            self.places = set(map(str, function.value.arguments))  # in the argument block
            name = function.special()[0].split(" ")[1] if function.is_special else None
            parts[k] = self.with_counters(function, inside=name)
        found = "\n".join(parts)
        for k, name in enumerate(sorted(f.value.name for f in every.values() if f.is_special)):
            found = found.replace(f'@"{name}"', f"@special_{k}")  # PTX has no such names
        return found

    def is_free(self, instruction):
        """Return True for reads of arguments: from constant memory, as operands of other instructions."""
        if instruction.opcode not in ("load", "getelementptr"):
            return False
        found = str(next(instruction.operands)) in self.places
        if found and instruction.opcode == "getelementptr":
            self.places.add(str(instruction))
        return found

    def bump(self, k, by=1):
        place = f"inttoptr (i64 {self.address + 8 * k} to ptr addrspace(1))"
        return [f"  %count.v{k} = atomicrmw add ptr addrspace(1) {place}, i64 {by} monotonic"]


def ptx(entry, capability, name, allocate):
    """Return the PTX of an entry with counters at the address that `allocate` gives for so many bytes; and
    its counts.
    """
    machine, counts = engine.machine(capability), _Executed(entry)
    text = str(optimise(entry.text, machine, name))
    n_counters = sum(function.n_counters for function in counts.functions(text)[1].values())
    counts.address = allocate(8 * n_counters)
    return machine.emit_assembly(verified(counts.instrumented(text), name)), counts


class _Counting(launches.Compiled):
    watch = Marked

    def _load(self, cached, emitted):
        capability, name = self.context.device.compute_capability, cached.launched.kernel.name
        code, self.counts = ptx(emitted(), capability, name, self._allocate)
        return self.context.load(self.context.link(code))

    def _allocate(self, n_bytes):
        self.totals = self.context.allocate(n_bytes)
        return self.totals.pointer

    def counted(self):
        host = (ctypes.c_int64 * len(self.counts.mixes))()
        self.context.copy_to_host(ctypes.addressof(host), self.totals.pointer, ctypes.sizeof(host))
        return self.counts.counted(list(host))


def _compiled(space, kernel, policy_kind, specs, reducers, team_size):
    key = ("cuda", "executed", space.device, policy_kind, specs, reducers, team_size)
    if key not in kernel.compiled:
        made = kernel.compiled[key] = _Counting(space, kernel, policy_kind, specs, reducers, team_size)
        made.plain = compile_once(
            functools.partial(
                _compiled, space, kernel, policy_kind, without_scatter(specs), reducers, team_size
            )
        )
    return kernel.compiled[key]


def counted(space, kernel, policy, policy_kind, specs, reducers, words, build):
    """Run the counting build once; how often each (line, instruction, type) happened."""
    if reducers or policy_kind != "range":
        specs = without_scatter(specs)
    compiled = functools.partial(_compiled, space, kernel, policy_kind, specs, reducers)
    compiled = compiled if policy_kind == "team" else compiled(0)
    pattern = "scan" if policy_kind.startswith("scan") else "reduce" if reducers else "for"
    work = launches._Workspace(driver.context(space.device))  # until the launch has ended
    rows = launches._STEPS[pattern](space, compiled, policy, words, (), work)
    if not rows:
        return {}
    made = rows[0][0]  # one build makes all kernels of a launch
    made.context.fill(made.totals.pointer, 0, made.totals.nbytes, wait=True)
    for _, grid, shared, behind in rows:
        made.launch(grid, words + behind, shared, space.stream)
    launches.fence(space)
    return made.counted()


def explain(space, kernel, policy, policy_kind, specs):
    compiled, grid, shared = launches._configure(
        space, launches.prepare(space, kernel, policy_kind, specs), policy
    )
    f, blocks = compiled.function, compiled.function.blocks_per_sm(compiled.threads, shared)
    device = compiled.context.device
    specs = compiled.signature.specs
    entry = entry_of(kernel, policy_kind, specs, (), compiled.team_size, Reached)
    each = compiled.indices // compiled.threads
    return (
        {
            "code": "one thread a lane" if each == 1 else f"one thread for {each} indices",
            "blocks": grid,
            "threads a block": compiled.threads,
            "registers a thread": f.registers,
            "spills and local arrays, bytes a thread": f.local_bytes,
            "scratch, bytes": shared,
            "occupancy": (
                f"{blocks * compiled.threads / device.max_threads_per_sm:.0%} of the threads a multiprocessor"
                " can hold"
            ),
        },
        sorted(entry.text and entry.watch.accesses),
        printed_tree(entry.tree),
    )
