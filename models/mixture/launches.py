"""Launches of the family's kernels, which reports call after them."""

from __future__ import annotations

from typing import Any

import portable as pk


def launch(space: pk.SpaceLike, over: Any, kernel: pk.Kernel, *args: Any) -> None:
    """Launch a kernel.

    Parameters
    ----------
    space : Space
    over : int, tuple of int, or a policy
        Indices; the lengths of a grid of them.
    kernel : Kernel
    *args
        Of the kernel.
    """
    if isinstance(over, int):
        over = pk.RangePolicy(0, over, space=space)
    elif isinstance(over, tuple):
        over = pk.MDRangePolicy((0,) * len(over), over, space=space)
    pk.parallel_for(over, kernel, *args, label=f"mixture.{kernel.name}")
