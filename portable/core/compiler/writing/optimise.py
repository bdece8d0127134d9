"""Run LLVM's optimiser, configured for code in which lanes are already vectors or threads."""

import llvmlite.binding as llvm
from llvmlite.binding.ffi import ObjectRef
from llvmlite.binding.newpassmanagers import NewPassManager

from ....errors import LoweringError
from ...locks import check_interrupt

_PACE = 2_000_000  # characters of IR that LLVM processes in a second; 2.4 to 4 million on an EPYC


def optimise(text, tm, kernel_name, level=3, by_function=False):
    """Return the parsed, verified and optimised LLVM module of an IR text. No loop vectoriser runs, since
    lanes are vectors by type. At level 0 few passes run.

    by_function : whether no function of the module is worth inlining into another one. Then passes over
        whole modules are omitted, which gives the same code in three quarters of the time.
    """
    module = verified(text, kernel_name)
    builder = _builder(tm, level)
    if level and by_function:
        manager = builder.getFunctionPassManager()
        manager.add_loop_unroll_pass()
        manager.add_simplify_cfg_pass()
        parts = [f for f in module.functions if not f.is_declaration]
    else:
        manager, parts = builder.getModulePassManager() if level else _few_passes(), [module]
    try:
        for part in parts:
            check_interrupt(kernel_name, len(text) / _PACE)
            manager.run(part, builder)
    finally:
        _free(manager)
    check_interrupt(kernel_name)
    return module


def _few_passes():
    """Return a manager of the passes that shorten code so much that the code generator saves more time than
    they take, and the code runs in half of the time."""
    manager = llvm.create_new_module_pass_manager()
    manager.add_always_inliner_pass()
    manager.add_sroa_pass()
    manager.add_simplify_cfg_pass()
    manager.add_instruction_combine_pass()
    manager.add_simplify_cfg_pass()
    return manager


# Most runs of one builder: each run leaves callbacks with it, which later runs call before every pass (0.4 %
# of a run's time for each earlier run), and each builder leaves 1.8 KiB that llvmlite never frees.
_RUNS = 8
_builders = {}  # (machine, level) -> (builder of pass managers, number of its runs)


def _builder(tm, level):
    builder, runs = _builders.get((tm, level), (None, _RUNS))
    if runs == _RUNS:
        options = llvm.create_pipeline_tuning_options(speed_level=level)
        options.slp_vectorization = options.loop_vectorization = options.loop_interleaving = False
        builder, runs = llvm.create_pass_builder(tm, options), 0
    _builders[tm, level] = builder, runs + 1
    return builder


def _free(manager):
    """Free a pass manager. llvmlite 0.50 does not, since its class inherits first from ObjectRef, and
    `_dispose` of that class does nothing."""
    if type(manager)._dispose is ObjectRef._dispose:
        NewPassManager._dispose(manager)
    manager.close()


def verified(text, kernel_name):
    """Return the LLVM module of an IR text, not optimised; if LLVM rejects it, raise LoweringError with the
    kernel's name."""
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise LoweringError(
            f"kernel '{kernel_name}' was lowered to code that LLVM refuses; this is a defect of portable, "
            f"please report it: {str(error).splitlines()[0]}"
        ) from error
    return module
