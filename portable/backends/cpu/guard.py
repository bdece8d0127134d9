"""IEEE's rounding and denormals for every entry, whatever a library has set in the calling thread, and the
caller's state again behind it. Where the state is the usual one an entry pays for one look at it.

The code is assembly, in front of LLVM's: its passes would take as long as for a short kernel.
"""

import sys

from .engine import MACHINE, guarded

# The control register's bits that matter (rounding, denormals, traps) against what they usually are. On x86
# 40 bytes are what Windows wants a caller to leave free, and two words; BODY may lie far away.
_LOOK = {
    "x86": """
    subq $40, %rsp
    stmxcsr 32(%rsp)
    movl 32(%rsp), %eax
    andl $0xffc0, %eax
    cmpl $0x1f80, %eax
    jne 1f
    addq $40, %rsp
    movabsq $BODY, %rax
    jmpq *%rax
1:  movl $0x1f80, 36(%rsp)
    ldmxcsr 36(%rsp)
    movabsq $BODY, %rax
    callq *%rax
    ldmxcsr 32(%rsp)
    addq $40, %rsp
    retq""",
    "aarch64": """
    mrs x9, fpcr
    movz x10, #0x9f07
    movk x10, #0x7c8, lsl #16
    tst x9, x10
    b.ne 1f
    b BODY
1:  stp x9, x30, [sp, #-16]!
    msr fpcr, xzr
    bl BODY
    ldp x9, x30, [sp], #16
    msr fpcr, x9
    ret""",
}


def guard(module, entry, machine=MACHINE, mark="_" * (sys.platform == "darwin")):
    """Assembly, as part of an IR text, of functions that call each function of type `entry` in the usual
    state; `mark` stands before the names of C in this system's object files."""
    lines = []
    for function in [f for f in module.functions if f.ftype == entry and f.blocks and machine]:
        name = mark + guarded(function.name)
        lines += [".text", ".p2align 4", f".globl {name}", f"{name}:"]
        lines += _LOOK[machine].replace("BODY", mark + function.name).splitlines()
    return "".join(f'module asm "{line}"\n' for line in lines)
