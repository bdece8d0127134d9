"""Entry functions on the CPU before any code is emitted."""

from __future__ import annotations

import ast

from ...compiler.writing import entry
from ...compiler.reading.team import TeamHandle
from . import engine


class Target:
    """The CPU as a launch knows it; lanes.py has its part of the code."""

    step = 1


class Entry(entry.Entry):
    """A kernel for the cores of this machine."""

    target, n_lanes = Target, None  # lanes that a pack has in any case

    @property
    def chained(self):
        """The least width of a kernel that calls a chain."""
        return self.n_lanes or 16

    @property
    def light(self):
        """Whether a pack takes so little that its addition to an accumulator is waited for: then the text is
        there once for each accumulator."""
        heavy = ast.If, ast.IfExp, ast.Call
        return not any(isinstance(node, heavy) for node in self.kernel.portable_text.nodes)

    @property
    def in_turn(self):
        """Whether a scan goes from element to element, several blocks side by side: a state of two numbers
        whose combination calls nothing is combined in less time than it takes from lane to lane."""
        if not self.policy_kind.startswith("scan") or self.has_loops:
            return False
        text = self.reducers[0].combine.portable_text
        return self.state_words == 2 and not any(isinstance(node, ast.Call) for node in text.nodes)

    def lanes(self, signature):
        if self.n_lanes is not None:
            return self.n_lanes
        return signature.width if self.kernel.packed is True else self.kernel.packed or 1

    @staticmethod
    def team_facts(width):
        return TeamHandle, width, engine.pack_registers(), width
