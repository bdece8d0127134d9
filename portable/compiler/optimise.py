"""LLVM's optimiser, set for code whose lanes are already vectors or threads."""

from __future__ import annotations

import llvmlite.binding as llvm

from ..errors import LoweringError


def optimise(text, tm, kernel_name, level=3):
    """Parsed, verified and optimised LLVM module of an IR text. No loop vectoriser runs: lanes are vectors by
    type. At level None the module stays as it is."""
    module = verified(text, kernel_name)
    if level is None:
        return module
    options = llvm.create_pipeline_tuning_options(speed_level=level)
    options.slp_vectorization = options.loop_vectorization = options.loop_interleaving = False
    builder = llvm.create_pass_builder(tm, options)
    builder.getModulePassManager().run(module, builder)
    return module


def verified(text, kernel_name):
    """The LLVM module of an IR text, as it stands; what LLVM refuses is an error that names the kernel."""
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise LoweringError(
            f"kernel '{kernel_name}' was lowered to code that LLVM refuses; this is a defect of portable, "
            f"please report it: {str(error).splitlines()[0]}"
        ) from error
    return module
