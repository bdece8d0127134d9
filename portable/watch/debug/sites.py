"""Findings of a debug build: the function that stores them in words, and the Fault that is made
from these.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from llvmlite import ir

from ...errors import CheckError
from ...core.places.policy import n_indices
from ...core.compiler.writing.lines import builder
from ...core.compiler.writing.values import I8, I64, PTR


@dataclass(frozen=True, slots=True)
class Fault:
    """Finding of the debug build.

    Attributes
    ----------
    kind : "index", "division by zero", "shift", "NaN" or "scratch"
    kernel, file, line : its place in the source
    view : the argument's or variable's name, or the operator
    number, limit : the index and its extent; the dividend and 0; the shift's count and its type's bits; the
        bytes of scratch requested and available
    index : of the launch: a tuple of integers; for teams the league rank
    member : the team's member, else None
    """

    kind: str
    kernel: str
    file: str
    line: int
    view: str
    dimension: int
    number: int
    limit: int
    index: tuple
    member: int | None

    def __str__(self):
        says = {
            "index": f"'{self.view}', dimension {self.dimension}: "
            f"index {self.number} is outside extent {self.limit}",
            "division by zero": f"{self.number} {self.view} 0",
            "shift": f"`{self.view}` by {self.number}, of {self.limit} bits",
            "NaN": f"`{self.view}` made NaN from numbers",
            "scratch": f"{self.view} ends at byte {self.number} of the {self.limit} that the team has",
        }[self.kind]
        place = ", ".join(map(str, self.index)) or "the end of a reduction"
        at = (
            f"team {place}, member {self.member}"
            if self.member is not None
            else f"index {place if len(self.index) < 2 else f'({place})'}"
        )
        return f"kernel '{self.kernel}' ({self.file}:{self.line}): {says}, at {at}"


class Sites:
    """The sites of one kernel's debug build with their descriptions; `raise_if` raises the fault in the words
    of a launch.
    """

    def __init__(self, kernel, policy_kind, step):
        self.kernel, self.policy_kind, self.step, self.known = kernel, policy_kind, step, []

    def add(self, *site):
        self.known.append(site)
        return len(self.known) - 1

    def raise_if(self, words):
        """Raise CheckError with the Fault in eight words, if there is one."""
        taken, site, number, limit, lane, *index = struct.unpack("=8q", words)
        if not taken:
            return
        line, kind, view, dimension, launched = self.known[site]
        team, member = self.policy_kind == "team", None
        if team:
            index, member = index[:1], lane
        elif launched:
            index = index[: n_indices(self.policy_kind)]
            index[-1] += lane * self.step
        file, _, line = line.rpartition(":")
        index = tuple(index) if launched else ()
        raise CheckError(
            [
                Fault(
                    kind,
                    self.kernel,
                    file,
                    int(line),
                    view,
                    dimension,
                    number,
                    limit,
                    index,
                    member if launched else None,
                )
            ]
        )


def emit_reporter(behind):
    """Emit void portable_fault(memory, 7 words): store them, if they are the first, in eight words: those at
    `memory`, or those whose address is stored `behind` bytes after its beginning.
    """
    function = builder.declared("portable_fault", ir.VoidType(), [PTR, *[I64] * 7])
    function.linkage = "internal"
    for name in ("noinline", "cold"):
        function.attributes.add(name)
    memory, *words = function.args
    with builder.elsewhere():
        builder.begin(function, "begin")
        won = builder.extract_value(builder.cmpxchg(memory, I64(0), I64(1), "monotonic", "monotonic"), 1)
        with builder.if_then(won):
            place = memory if behind is None else builder.load(builder.gep(memory, [behind], I8), PTR)
            for k, word in enumerate((1, *words)):
                builder.store(word, builder.gep(place, [k], I64))
        builder.ret_void()
    return function


def spare_word(use, pointer_type):
    """Return a word of a block's shared memory, which each thread sets to 0 when it begins."""
    name, module = f"spare{use}", builder.module
    place = module.globals.get(name)
    if place is None:
        place = ir.GlobalVariable(module, I64, name, addrspace=pointer_type.addrspace)
        place.initializer, place.linkage = ir.Constant(I64, ir.Undefined), "internal"
        place.type = pointer_type
        with builder.goto_entry_block():
            builder.store(0, place)
    return place


def end_taken(block):
    """Move a block's terminator to a new block, and return that."""
    good, end = block.function.append_basic_block("good"), block.instructions.pop()
    good.instructions.append(end)
    block.terminator, good.terminator, end.parent = None, end, good
    for other in block.function.blocks:
        for phi in other.instructions:
            if isinstance(phi, ir.PhiInstr):
                phi.incomings = [(v, good if origin is block else origin) for v, origin in phi.incomings]
    return good
