"""LLVM's optimiser, set for code whose lanes are already vectors or threads."""

from __future__ import annotations

import functools

import llvmlite.binding as llvm
from llvmlite.binding.ffi import ObjectRef
from llvmlite.binding.newpassmanagers import NewPassManager

from ..errors import LoweringError


def optimise(text, tm, kernel_name, level=3):
    """Parsed, verified and optimised LLVM module of an IR text. No loop vectoriser runs: lanes are vectors by
    type. At level None the module stays as it is."""
    module = verified(text, kernel_name)
    if level is None:
        return module
    builder = _builder(tm, level)
    manager = builder.getModulePassManager()
    manager.run(module, builder)
    _free(manager)
    return module


@functools.cache
def _builder(tm, level):
    """What makes pass managers for a machine: one for all, since each keeps a kilobyte for ever."""
    options = llvm.create_pipeline_tuning_options(speed_level=level)
    options.slp_vectorization = options.loop_vectorization = options.loop_interleaving = False
    return llvm.create_pass_builder(tm, options)


def _free(manager):
    """Give a pass manager's memory back. llvmlite 0.50 does not: its class inherits first from one whose
    `_dispose` does nothing."""
    if type(manager)._dispose is ObjectRef._dispose:
        NewPassManager._dispose(manager)
    manager.close()


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
