"""What a launch has to know of an entry function on the CPU, also where its code comes from the disk."""

from __future__ import annotations

import ast
import platform

from ...compiler import entry
from ...compiler.team import TeamHandle
from . import engine

STREAMS = 4  # blocks of a scan side by side: one fused multiply-add takes about four cycles
APART = 128  # bytes between what threads write: prefetchers fetch cache lines in pairs
MACHINE = {"x86_64": "x86", "AMD64": "x86", "aarch64": "aarch64", "arm64": "aarch64"}.get(platform.machine())


class Target:
    """The CPU as a launch knows it; lanes.py has its part of the code."""

    step = 1

    @staticmethod
    def named(name):
        """What `guard` calls the function that runs another one in the usual state."""
        return f"{name}.guarded" if MACHINE else name


class Entry(entry.Entry):
    """A kernel for the cores of this machine."""

    target, chained = Target, 16

    @property
    def in_turn(self):
        """Whether a scan goes from element to element, several blocks side by side: a state of two numbers
        whose combination calls nothing is combined in less time than it takes from lane to lane."""
        if not self.policy_kind.startswith("scan") or self.kernel.portable_text.has_loops:
            return False
        text = self.reducers[0].combine.portable_text
        return self.n_words() == 2 and not any(isinstance(node, ast.Call) for node in ast.walk(text.tree))

    def lanes(self, signature):
        return signature.width if self.kernel.packed is True else self.kernel.packed

    @staticmethod
    def team_facts(width):
        return TeamHandle, width, engine.pack_registers(), width
