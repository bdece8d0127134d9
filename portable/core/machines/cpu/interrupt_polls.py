"""Looks at the flag of Ctrl-C (stop.py) in compiled code, and the way out of a function."""

from llvmlite import ir

from ...compiler.writing.lines import builder
from ...compiler.writing.values import I32, I64, PTR
from .engine import CONVENTION, HEARS

STRIP = 1024  # packs of straight-line code between two polls


def poll_flag(ops):
    """Leave the function if the flag is up and this launch is to end."""
    if not HEARS:
        return
    module, function = builder.module, builder.function
    if "portable_flag" not in module.globals:
        ir.GlobalVariable(module, I64, "portable_flag")
        poll = ir.Function(module, ir.FunctionType(I32, [PTR, I64]), "portable_poll")
        poll.calling_convention = CONVENTION
        poll.attributes.add("cold")
        poll.attributes.add("inaccessiblememonly")
    flag = module.globals["portable_flag"]
    flag = builder.line(I64, "load", (flag,), "load volatile i64, ptr @portable_flag, align 8")
    ask, on = builder.append_basic_block("ask"), builder.append_basic_block("on")
    _mark_rare(builder.cbranch(flag.differs(0), ask, on), module)
    builder.position_at_end(ask)
    ends = builder.call(module.globals["portable_poll"], [function.args[0], function.args[3]])
    _mark_rare(builder.cbranch(ends.differs(0), _way_out(function), on), module)
    builder.position_at_end(on)


def _mark_rare(branch, module):
    """Note that a branch is seldom taken."""
    if not hasattr(module, "rarely"):
        branch.set_weights([1, 1 << 20])
        module.rarely = branch.metadata["prof"]
    branch.set_metadata("prof", module.rarely)


def leave(ops):
    """Leave the function."""
    builder.branch(_way_out(builder.function))


def _way_out(function):
    if not hasattr(function, "leaving"):
        function.leaving = function.append_basic_block("leaving")
        with builder.goto_block(function.leaving):
            builder.ret_void()
    return function.leaving
