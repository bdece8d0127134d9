"""All that the comparison asks of a compiler: when a kernel is lowered, LLVM's text, its machine code.

The one file to change when the compiler is arranged otherwise. It is run on both sides, each with its own
`portable`, so it has to do for both: the new way is tried first, then the old one.
"""

import time

import portable as pk

ONE_LANE = "cpu, one lane"
MACHINES = ("cpu", ONE_LANE, "cuda")
TEAM_SIZES = 128, 32  # threads of a team on CUDA; some kernels are written for one warp
CAPABILITY = 9, 0  # of the GPU whose PTX is compared
_CPU = "portable.core.machines.cpu", "portable.backends.cpu"
_ENTRIES = {f"{folder}.{name}" for folder in _CPU for name in ("entry", "lower", "scan")}


def _module(*names):
    """The first of some modules that this side has: by its name now, or before."""
    import importlib

    for name in names:
        try:
            return importlib.import_module(f"portable.{name}")
        except ModuleNotFoundError:
            pass
    raise ImportError(f"none of {', '.join(names)}")


def watch(told):
    """told(kernel, policy kind, types, reducers, seconds) after each lowering for the CPU (not to count)."""
    Entry = _module("core.compiler.writing.entry", "compiler.entry").Entry

    plain = Entry.__init__

    def init(self, kernel, policy_kind, specs, reducers=(), *more):
        start = time.perf_counter()
        plain(self, kernel, policy_kind, specs, reducers, *more)
        if type(self).__module__ in _ENTRIES and policy_kind != "packs":  # a part of "range"
            told(kernel, policy_kind, specs, reducers, time.perf_counter() - start)

    Entry.__init__ = init


def text(machine, kernel, policy_kind, specs, reducers):
    """The LLVM text of a kernel for a machine, before any pass."""
    specs = _named(specs)
    place = "cuda" if machine == "cuda" else "cpu"
    name, kind = ("scan", "ScanEntry") if policy_kind.startswith("scan") else ("lower", "Entry")
    entry = getattr(_module(f"core.machines.{place}.{name}", f"backends.{place}.{name}"), kind)
    if machine != "cuda":
        return entry(kernel, policy_kind, specs, reducers).text
    without_scatter = _module("core.compiler.reading.signature", "compiler.signature").without_scatter

    specs = specs if policy_kind == "range" and not reducers else without_scatter(specs)
    try:
        return entry(kernel, policy_kind, specs, reducers, TEAM_SIZES[0]).text
    except pk.LoweringError:
        return entry(kernel, policy_kind, specs, reducers, TEAM_SIZES[1]).text


def _named(specs):
    """Types of arguments; records of revisions whose tuples had no names of fields have none."""
    return tuple(("tuple", _named(s[1]), *(s[2:] or [()])) if s[0] == "tuple" else s for s in specs)


def code(machine, text, name):
    """The machine code of a text as assembly, or its PTX."""
    if machine == "cuda":
        engine = _module("core.machines.cuda.engine", "backends.cuda.engine")

        return engine.ptx(text, CAPABILITY, name)
    engine = _module("core.machines.cpu.engine", "backends.cpu.engine")

    return engine.assembly(text, name)
