"""LLVM for NVIDIA GPUs: IR to PTX, with no toolkit and no GPU."""

import functools
import re
from collections import Counter

import llvmlite.binding as llvm

from ... import cache, locks
from ...compiler.writing.optimise import optimise


# The policy of a load that keeps its line in the second-level cache, such a load, and their replacements on
# older devices
KEEPING, KEEPS = "createpolicy.fractional.L2::evict_last.b64 $0, 1.0;", ".L2::cache_hint.b{} $0, [$1], $2;"
_OLDER = [(KEEPING, "mov.b64 $0, 0;"), *((KEEPS.format(n), f".b{n} $0, [$1];") for n in (32, 64))]
# of a number by its type: the letter of its registers in inline assembly, and its bits
REGISTERS = {"double": ("d", 64), "i64": ("l", 64), "float": ("f", 32), "i32": ("r", 32)}
# an atomic operation that has a form without a result: its type, the result, and the operands
_ATOMIC = re.compile(r"\batom(\.global\.(?:add|min|max|and|or|xor)\.\w+) *\t(%\w+), (.*;)")
# LLVM's, less variants
_KNOWN = (50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90, 100, 101, 103, 120, 121)


@functools.cache
def machine(capability):
    """Return the target machine of a compute capability such as (9, 0); of one not known yet, that of the
    newest before it."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    number = max(k for k in _KNOWN if k <= 10 * capability[0] + capability[1])
    target = llvm.Target.from_triple("nvptx64-nvidia-cuda")
    # in the oldest version of PTX that has the device: old drivers read it
    return target.create_target_machine(cpu=f"sm_{number}", opt=3)


@locks.compile_alone
def ptx(text, capability, kernel_name):
    """Return the PTX of IR, compiled or taken from the cache."""
    for new, old in _OLDER if capability < (8, 0) else ():
        text = text.replace(new, old)
    key = cache.key("ptx", capability, llvm.llvm_version_info, text)
    code = cache.get(key)
    if code is None:
        tm = machine(capability)
        code = tm.emit_assembly(optimise(text, tm, kernel_name)).encode()
        cache.put(key, code)
    return _reduced(code.decode())


def _reduced(code):
    """Replace atomic operations on global memory by `red`, which returns nothing, where the result is not
    used. NVIDIA's assembler does so itself, but not for code that the driver links.
    """
    uses = Counter(re.findall(r"%\w+", code))
    return _ATOMIC.sub(lambda m: f"red{m[1]} \t{m[3]}" if uses[m[2]] == 1 else m[0], code)
