"""Entry functions on the CPU before any code is emitted."""

from __future__ import annotations

from ...compiler import entry
from ...compiler.team import TeamHandle
from . import engine


class Target:
    """The CPU as a launch knows it; lanes.py has its part of the code."""

    step = 1
    named = staticmethod(engine.guarded)


class Entry(entry.Entry):
    """A kernel for the cores of this machine."""

    target, chained = Target, 16

    def lanes(self, signature):
        return signature.width if self.kernel.packed is True else self.kernel.packed

    @staticmethod
    def team_facts(width):
        return TeamHandle, width, engine.pack_registers(), width
