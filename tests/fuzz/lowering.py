"""Lower programs for CUDA: the checks by LLVM need no GPU."""

import dataclasses

import numpy as np

import portable as pk
from portable.core.launch import dispatch
from portable.core.machines.cuda import engine
from portable.core.machines.cuda.lower import entry_of
from portable.core.compiler.writing.optimise import verified

from .program import policy_of, reducers_of

WARP, CAPABILITY = 32, (9, 0)
SIZES = 1, 32, 64, 128, 1024  # members of a team, of which a block has whole warps


def lower(program, namespace, turn):
    """Lower a program for blocks of all sizes: LLVM verifies each, and generates PTX for one of them, a
    different one each time.

    Raises
    ------
    PortableError, or any other exception of the compiler
    """
    kernel = namespace["kernel"]
    sizes = sorted({-(-n // WARP) * WARP for n in SIZES}) if program.policy[0] == "team" else [0]
    args = [pk.static(a[1]) if isinstance(a, tuple) else a for a in program.args]
    args = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    reducers = () if program.launch == "for" else reducers_of(program, namespace)
    scan = ("inclusive" if program.inclusive else "exclusive") if program.launch == "scan" else None
    policy = policy_of(dataclasses.replace(program, policy=(*program.policy[:2], 8)) if sizes[0] else program)
    *_, kind, specs, reducers, _ = dispatch.describe_launch(policy("serial"), kernel, args, reducers, scan)
    for k, size in enumerate(sizes):
        text = entry_of(kernel, kind, specs, reducers, size).text
        if k == turn % len(sizes):
            engine.ptx(text, CAPABILITY, kernel.name)
        else:
            verified(text, kernel.name)
