"""Launches labelled by family and kernel."""

from __future__ import annotations

import functools
from typing import Any

import portable as pk


def launch(where: Any, kernel: Any, *args: Any, space: pk.SpaceLike | None = None) -> None:
    """Launch a kernel, with "family.kernel" as the label.

    Parameters
    ----------
    where : policy, int or tuple of int
        A tuple is the extents of a range of several dimensions.
    kernel : function marked with @pk.kernel
    *args
        The kernel's arguments after the index.
    space : str or Space, optional
        The space of a range, by default the default space. A policy includes its space.
    """
    policy = where
    if isinstance(where, tuple):
        policy = pk.MDRangePolicy((0,) * len(where), where, space=space)
    elif isinstance(where, int):
        policy = pk.RangePolicy(0, where, space=space)
    pk.parallel_for(policy, kernel, *args, label=_label(kernel))


@functools.cache
def _label(kernel):
    return f"{kernel.fn.__module__.split('.')[-2]}.{kernel.name}"
