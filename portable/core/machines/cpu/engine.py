"""LLVM for this machine's CPU: object code, cached on disk and loaded."""

import ctypes
import functools
import os
import platform
import re
import weakref
from pathlib import Path

import llvmlite.binding as llvm

from ... import cache, locks
from ....errors import InputError, OutOfMemoryError

try:
    import resource
except ImportError:  # Windows
    resource = None

STREAMS = 4  # accumulators, blocks of a scan side by side: one fused multiply-add takes about four cycles
# Polling for Ctrl-C (stop.py): the calling convention of the poll, which lets loops keep their values in
# registers; True if launches can be interrupted (on other systems Python resets its handler at each signal).
CONVENTION, HEARS = "preserve_mostcc", os.name == "posix"
APART = 128  # bytes between words that different threads write: prefetchers fetch cache lines in pairs
MACHINE = {"x86_64": "x86", "AMD64": "x86", "aarch64": "aarch64", "arm64": "aarch64"}.get(platform.machine())

# v2: SSE4.2, v3: AVX2 and FMA, v4: AVX-512
LEVELS = "generic", "x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"


@functools.cache
def cpu():
    """Return LLVM's name and features of the CPU for which code is generated: this one, or the level in
    PORTABLE_CPU.
    """
    level = os.environ.get("PORTABLE_CPU")
    if not level:
        return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    if level not in LEVELS:
        raise InputError(f"PORTABLE_CPU is {level!r}; expected one of {', '.join(LEVELS)}")
    return level, ""


@functools.cache
def _family():
    """Return LLVM's target for this machine's family of processors."""
    llvm.initialize_native_target()
    return llvm.Target.from_triple(llvm.get_process_triple())


def new_machine(level=3):
    """Return a target machine of this CPU, with every vector unit it has.

    The large code model: in a process with a GPU's address space, code and its constants may lie more than 2
    GiB apart.
    """
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()  # for the pool's pause instruction
    name, features = cpu()
    return _family().create_target_machine(
        cpu=name, features=features, opt=level, reloc="static", codemodel="large"
    )


machine = functools.cache(new_machine)  # the one that optimises


@functools.cache
def pack_registers():
    """Return the number of packs of 512 bits that this machine's vector registers hold."""
    name, features = cpu()
    return 32 if "+avx512f" in features or name == "x86-64-v4" else 8


_ROOM = 96 << 20  # bytes that LLVM may allocate for one kernel: it ends the process if an allocation fails
_live: set[weakref.ref] = set()  # as in locks.py


def _require_room():
    """Raise OutOfMemoryError if a limit of the process leaves too little memory for LLVM."""
    if resource is None or not os.path.exists("/proc/self/statm"):
        return
    for name, place in (("RLIMIT_AS", 0), ("RLIMIT_DATA", 5)):
        limit = resource.getrlimit(getattr(resource, name))[0]
        if limit == resource.RLIM_INFINITY:
            continue
        used = int(Path("/proc/self/statm").read_text().split()[place]) * resource.getpagesize()
        if used + _ROOM > limit:
            raise OutOfMemoryError(
                f"compiling needs {_ROOM >> 20} MiB free; "
                f"this process uses {used >> 20} of {limit >> 20} MiB ({name})"
            )
    if 4 * len(_live) > _most_maps():
        raise OutOfMemoryError(
            f"{len(_live)} compiled kernels are alive; "
            "more would exceed the system's limit of memory maps (vm.max_map_count)"
        )


@functools.cache
def _most_maps():
    try:
        return int(Path("/proc/sys/vm/max_map_count").read_text())
    except (OSError, ValueError):
        return 65530


@locks.compile_alone
def load(text, kernel_name, key=None, level=3, hear=None):
    """Return addresses of the functions of IR, compiled or taken from the cache.

    Parameters
    ----------
    text : str, the IR; or, for code with a `key` in the cache, a function that returns it if it is missing
    level : int
        Optimisation level of LLVM's optimiser and code generator: 0 for code that runs once and is needed
        soon.
    hear : function, optional
        Called before code that polls for Ctrl-C is linked: it registers the functions that such code calls.

    Returns
    -------
    function : name -> address
        The code lives as long as this.
    """
    if key is None:
        text = text() if callable(text) else text
        key = key_of(text, level)
    code = cache.get(key)
    if code is None:
        _require_room()
        module = optimised(text() if callable(text) else text, kernel_name, level)
        code = machine(level).emit_object(module)
        cache.put(key, code)
    return linked(code, hear)


def optimised(text, kernel_name, level=3):
    """Return the module of IR, optimised for this machine; see `optimise`.

    The optimiser notes which truncations lose no bits. For packs of two and four lanes they are taken back:
    LLVM's code generator for AVX2 then compares two truncated packs of 64 bits before their truncation, with
    a mask of 32 bits a lane, and fails its own assertion on that, which ends the process.
    """
    from ...compiler.writing.optimise import optimise, verified

    module = optimise(text, machine(level), kernel_name, level, by_function=True)
    if re.search("<[24] x i64>", text):
        plain, notes = re.subn("trunc [nsuw ]+<", "trunc <", str(module))
        if notes:
            module = verified(plain, kernel_name)
    return module


@functools.cache
def target():
    """Return the processor for which code is made, and the version of LLVM."""
    return llvm.get_process_triple(), *cpu(), llvm.llvm_version_info


def key_of(identity, level=3):
    """Compute the cache key under which `load` stores code."""
    return cache.key("cpu, large", level, *target(), identity)


@locks.compile_alone
def rewritten(text, kernel_name, change):
    """Like `load`, but pass the optimised IR through `change`, a function from str to str; the result is
    never cached.
    """
    from ...compiler.writing.optimise import verified

    changed = verified(change(str(optimised(text, kernel_name))), kernel_name)
    return linked(machine().emit_object(changed))


def linked(code, hear=None):
    """Return addresses of the functions of object code, as `load` does."""
    _require_room()
    # functions that it calls are registered before it is linked; many first launches never poll for Ctrl-C
    if b"portable_usual" in code:
        _usual_code()
    if hear and (b"portable_poll" in code or b"portable_ends" in code):
        hear()
    module = llvm.parse_assembly("")
    engine = llvm.create_mcjit_compiler(module, _family().create_target_machine(codemodel="large"))
    engine.remove_module(module)  # which has no code; else LLVM's code generator would run over it
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _live.add(weakref.ref(engine, _live.discard))
    return engine.get_function_address  # which keeps the engine, and so the code, alive


@locks.compile_alone
def assembly(text, kernel_name):
    """Return the readable assembly of IR, with LLVM's remarks on loops and on values spilled to the stack."""
    tm = new_machine()
    tm.set_asm_verbosity(True)
    return tm.emit_assembly(optimised(text, kernel_name))


# void function(block, begin, end, worker) at an address, as a callable
call = functools.cache(ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 3))


# An integer argument of undeclared type is passed as a C int; this tests that it arrives sign-extended to 64
# bits.
_same = ctypes.pythonapi["PyLong_FromLongLong"]
_same.restype = ctypes.py_object
NEAR = 2**31
# the same for a block of bytes, and indices between -NEAR and NEAR: without types it takes half as long
call_near = functools.cache(ctypes.CFUNCTYPE(None)) if _same(-2) == -2 else call


# Calls an entry with the default floating-point state, and restores the caller's.
USUAL = {
    "x86": """
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
define void @usual(ptr %fn, ptr %block, i64 %begin, i64 %end, i64 %worker) {
  %before = alloca i32
  %usual = alloca i32
  store i32 8064, ptr %usual
  call void @llvm.x86.sse.stmxcsr(ptr %before)
  call void @llvm.x86.sse.ldmxcsr(ptr %usual)
  call void %fn(ptr %block, i64 %begin, i64 %end, i64 %worker)
  call void @llvm.x86.sse.ldmxcsr(ptr %before)
  ret void
}
""",
    "aarch64": """
declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)
define void @usual(ptr %fn, ptr %block, i64 %begin, i64 %end, i64 %worker) {
  %before = call i64 @llvm.aarch64.get.fpcr()
  call void @llvm.aarch64.set.fpcr(i64 0)
  call void %fn(ptr %block, i64 %begin, i64 %end, i64 %worker)
  call void @llvm.aarch64.set.fpcr(i64 %before)
  ret void
}
""",
}.get(MACHINE, "")


@locks.compile_once
def _usual_code():
    """Return the code of `USUAL`, which entries call as portable_usual."""
    code = load(USUAL, "the usual state", level=0)
    llvm.add_symbol("portable_usual", code("usual"))
    return code
