"""What a launch has to know of an entry function on the CPU, also where its code comes from the disk."""

from __future__ import annotations

import platform

from ...compiler import entry
from ...compiler.team import TeamHandle
from . import engine

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

    def lanes(self, signature):
        return signature.width if self.kernel.packed is True else self.kernel.packed

    @staticmethod
    def team_facts(width):
        return TeamHandle, width, engine.pack_registers(), width
