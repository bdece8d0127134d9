"""LLVM for NVIDIA GPUs: IR text to PTX, with no toolkit and no GPU."""

from __future__ import annotations

import functools

import llvmlite.binding as llvm

from ... import cache
from ...compiler.optimise import optimise

_PTX_VERSIONS = ((101, 88), (100, 86), (90, 78), (80, 70), (0, 63))  # the oldest PTX that knows an architecture: old drivers read it


@functools.cache
def machine(capability):
    """The target machine of a compute capability such as (9, 0)."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    number = 10 * capability[0] + capability[1]
    ptx = next(version for least, version in _PTX_VERSIONS if number >= least)
    target = llvm.Target.from_triple("nvptx64-nvidia-cuda")
    return target.create_target_machine(cpu=f"sm_{number}", features=f"+ptx{ptx}", opt=3)


def ptx(text, capability, kernel_name):
    """PTX of an IR text, compiled or taken from the cache."""
    key = cache.key("ptx", capability, llvm.llvm_version_info, text)
    code = cache.get(key)
    if code is None:
        tm = machine(capability)
        code = tm.emit_assembly(optimise(text, tm, kernel_name)).encode()
        cache.put(key, code)
    return code.decode()
