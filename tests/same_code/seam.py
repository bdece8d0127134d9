"""Define the comparison's interface to a compiler: a callback for each lowering, the LLVM IR, the machine
code.

Only this file changes if the compiler is reorganized. It runs on both sides, each with a different version of
`portable`, and must support both: the new interface is tried first, then the old one.
"""

import time

import portable as pk

ONE_LANE = "cpu, one lane"
MACHINES = ("cpu", ONE_LANE, "cuda")
TEAM_SIZES = 128, 32  # threads of a team on CUDA; some kernels are written for one warp
CAPABILITY = 9, 0  # of the GPU whose PTX is compared


def watch(told):
    """Call told(kernel, policy kind, types, reducers, seconds) after each lowering for the CPU (not to
    count).
    """
    from portable.core.compiler.writing.entry import Entry
    from portable.core.machines.cpu.entry import Cores

    plain = Entry.__init__

    def init(self, machine, kernel, policy_kind, specs, reducers=(), *more):
        start = time.perf_counter()
        plain(self, machine, kernel, policy_kind, specs, reducers, *more)
        if isinstance(machine, Cores) and policy_kind != "packs":  # a part of "range"
            told(kernel, policy_kind, specs, reducers, time.perf_counter() - start)

    Entry.__init__ = init


def text(machine, kernel, policy_kind, specs, reducers):
    """Return the LLVM IR of a kernel for a machine, before any pass."""
    from portable.core.compiler.reading.signature import without_scatter

    place, scans = "cuda" if machine == "cuda" else "cpu", policy_kind.startswith("scan")
    entry = _entry(place, scans)
    if machine != "cuda":
        return entry(kernel, policy_kind, specs, reducers).text
    specs = specs if policy_kind == "range" and not reducers else without_scatter(specs)
    try:
        return entry(kernel, policy_kind, specs, reducers, TEAM_SIZES[0]).text
    except pk.LoweringError:
        return entry(kernel, policy_kind, specs, reducers, TEAM_SIZES[1]).text


def _entry(place, scans):
    """Make the entries of a machine."""
    from portable.core.machines.cpu import entry, lower, scan
    from portable.core.machines.cuda import lower as cuda
    from portable.core.machines.cuda import scan as cuda_scan

    made = getattr(cuda if place == "cuda" else entry, "entry_of", None)
    if made is None and scans:
        made = (cuda_scan if place == "cuda" else scan).ScanEntry
    return made or (cuda if place == "cuda" else lower).Entry


def code(machine, text, name):
    """Return the machine code of an IR as assembly, or its PTX."""
    if machine == "cuda":
        from portable.core.machines.cuda import engine

        return engine.ptx(text, CAPABILITY, name)
    from portable.core.machines.cpu import engine

    return engine.assembly(text, name)
