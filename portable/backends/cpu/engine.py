"""LLVM for this machine's CPU: object code, kept on disk and loaded."""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import weakref
from pathlib import Path

import llvmlite.binding as llvm

from ... import cache, locks
from ...compiler.optimise import optimise, verified
from ...errors import InputError, OutOfMemoryError

try:
    import resource
except ImportError:  # Windows
    resource = None


# v2: SSE4.2, v3: AVX2 and FMA, v4: AVX-512
LEVELS = "generic", "x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"


@functools.cache
def cpu():
    """LLVM's name and features of the CPU for which code is made: this one, or the level that PORTABLE_CPU
    names."""
    level = os.environ.get("PORTABLE_CPU")
    if not level:
        return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    if level not in LEVELS:
        raise InputError(f"PORTABLE_CPU is {level!r}; one of {', '.join(LEVELS)} is wanted")
    return level, ""


def new_machine(level=3):
    """A target machine of this CPU, with every vector unit it has. An execution engine takes its own.

    The large code model: in a process with a GPU's address space, code and its constants may lie more than 2
    GiB apart.
    """
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()  # for the pool's pause instruction
    name, features = cpu()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return target.create_target_machine(
        cpu=name, features=features, opt=level, reloc="static", codemodel="large"
    )


machine = functools.cache(new_machine)  # the one that optimises


@functools.cache
def pack_registers():
    """Packs of 512 bits that this machine's vector registers hold."""
    name, features = cpu()
    return 32 if "+avx512f" in features or name == "x86-64-v4" else 8


_ROOM = 96 << 20  # bytes that LLVM may take for one kernel: it ends the process where it gets none
_live = weakref.WeakSet()


def _require_room():
    """OutOfMemoryError where a limit of the process leaves too little room for LLVM."""
    if resource is None or not os.path.exists("/proc/self/statm"):
        return
    for name, place in (("RLIMIT_AS", 0), ("RLIMIT_DATA", 5)):
        limit = resource.getrlimit(getattr(resource, name))[0]
        if limit == resource.RLIM_INFINITY:
            continue
        used = int(Path("/proc/self/statm").read_text().split()[place]) * resource.getpagesize()
        if used + _ROOM > limit:
            raise OutOfMemoryError(
                f"compiling wants {_ROOM >> 20} MiB free; "
                f"this process has {used >> 20} of {limit >> 20} MiB ({name})"
            )
    if 4 * len(_live) > _most_maps():
        raise OutOfMemoryError(
            f"{len(_live)} compiled kernels are alive; "
            "more take more pieces of memory than the system gives a process"
        )


@functools.cache
def _most_maps():
    try:
        return int(Path("/proc/sys/vm/max_map_count").read_text())
    except (OSError, ValueError):
        return 65530


@locks.alone
def load(text, kernel_name, identity=None, level=3):
    """Addresses of the functions of an IR text, compiled or taken from the cache.

    Parameters
    ----------
    text : str; or, for code that is known by an `identity`, a function that gives it if it is not in the
        cache
    level : int or None
        Of LLVM's optimiser and code generator: 0 for code that runs once, and is wanted soon; None for a
        short text that is taken as it stands.

    Returns
    -------
    function : name -> address
        The code lives as long as this.
    """
    target = llvm.get_process_triple(), *cpu(), llvm.llvm_version_info
    key = cache.key("cpu, large", level, *target, identity or text)
    code = cache.get(key)
    if code is None:
        _require_room()
        tm = machine(level or 0)
        code = tm.emit_object(optimise(text() if identity else text, tm, kernel_name, level))
        cache.put(key, code)
    return _linked(code)


@locks.alone
def rewritten(text, kernel_name, change):
    """`load` of an IR text whose optimised form goes through `change`, a function of text to text; never
    cached."""
    tm = machine()
    return _linked(tm.emit_object(verified(change(str(optimise(text, tm, kernel_name))), kernel_name)))


def _linked(code):
    _require_room()
    tm = new_machine()  # no machine that optimises is made where all code comes from the disk
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(f'target triple = "{tm.triple}"'), tm)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _live.add(engine)
    return engine.get_function_address  # which keeps the engine, and so the code, alive


@locks.alone
def assembly(text, kernel_name):
    """The machine code of an IR text, readable: with LLVM's remarks on loops and on what it keeps on the
    stack."""
    tm = new_machine()
    tm.set_asm_verbosity(True)
    return tm.emit_assembly(optimise(text, machine(), kernel_name))


# void function(block, begin, end, worker) at an address, as a callable
call = functools.cache(
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
)


_PAST_CACHES = """
declare void @llvm.x86.sse.sfence()
define void @past_caches(ptr %block, i64 %begin, i64 %end, i64 %worker) {
entry.block:
  %target = load ptr, ptr %block
  %source.p = getelementptr ptr, ptr %block, i64 1
  %source = load ptr, ptr %source.p
  %size = sub i64 %end, %begin
  %lines = and i64 %size, -64
  %middle = add i64 %begin, %lines
  %some = icmp slt i64 %begin, %middle
  br i1 %some, label %line, label %rest
line:
  %i = phi i64 [%begin, %entry.block], [%i.next, %line]
  %to = getelementptr i8, ptr %target, i64 %i
  %from = getelementptr i8, ptr %source, i64 %i
  %words = load <8 x i64>, ptr %from, align 1
  store <8 x i64> %words, ptr %to, align 64, !nontemporal !0
  %i.next = add i64 %i, 64
  %more = icmp slt i64 %i.next, %middle
  br i1 %more, label %line, label %rest
rest:
  %k = phi i64 [%middle, %entry.block], [%middle, %line], [%k.next, %byte]
  %left = icmp slt i64 %k, %end
  br i1 %left, label %byte, label %out
byte:
  %to.byte = getelementptr i8, ptr %target, i64 %k
  %from.byte = getelementptr i8, ptr %source, i64 %k
  %one = load i8, ptr %from.byte
  store i8 %one, ptr %to.byte
  %k.next = add i64 %k, 1
  br label %rest
out:
  call void @llvm.x86.sse.sfence()
  ret void
}
!0 = !{i32 1}
"""


@functools.cache
def past_caches():
    """The address of a pool's function that copies bytes as `pool_copy` does, but past the caches: for a
    device to read, not for this machine's cores. The target, and each chunk in it, is at a multiple of 64.
    None where this is no x86."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return None
    code = load(_PAST_CACHES, "past_caches")
    past_caches.code = code  # kept alive
    return code("past_caches")


_SEQUENCE = """
declare i1 @portable_ends(ptr, i64)
declare void @portable_begins(ptr)
define void @sequence(ptr %table, i64 %n, ptr %pool.run) {
entry.block:
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %next, label %out
next:
  %k = phi i64 [0, %entry.block], [%k.next, %after]
  %row = getelementptr [6 x i64], ptr %table, i64 %k
  %words = load {ptr, ptr, i64, i64, i64, ptr}, ptr %row
  %fn = extractvalue {ptr, ptr, i64, i64, i64, ptr} %words, 0
  %block = extractvalue {ptr, ptr, i64, i64, i64, ptr} %words, 1
  %begin = extractvalue {ptr, ptr, i64, i64, i64, ptr} %words, 2
  %end = extractvalue {ptr, ptr, i64, i64, i64, ptr} %words, 3
  %chunk = extractvalue {ptr, ptr, i64, i64, i64, ptr} %words, 4
  %pool = extractvalue {ptr, ptr, i64, i64, i64, ptr} %words, 5
  call void @portable_begins(ptr %block)
  %alone = icmp eq ptr %pool, null
  br i1 %alone, label %here, label %shared
here:
  call void %fn(ptr %block, i64 %begin, i64 %end, i64 0)
  br label %after
shared:
  call void %pool.run(ptr %pool, ptr %fn, ptr %block, i64 %begin, i64 %end, i64 %chunk)
  br label %after
after:
  %k.next = add i64 %k, 1
  %more = icmp slt i64 %k.next, %n
  %ends = call i1 @portable_ends(ptr %block, i64 0)
  %left = xor i1 %ends, true
  %on = and i1 %more, %left
  br i1 %on, label %next, label %out
out:
  ret void
}
"""


@functools.cache
def sequence():
    """void sequence(table, n, pool_run): calls n launches, rows of (function, block, begin, end, chunk, pool
    or 0)."""
    code = load(_SEQUENCE, "sequence")
    made = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)(code("sequence"))
    made.code = code  # kept alive
    return made
