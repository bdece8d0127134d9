"""Launches labelled by family and kernel."""

import functools

import portable as pk


def launch(where, kernel, *args, space=None, run=pk.parallel_for, **how):
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
    run : function
        The pattern, which takes `how`.
    """
    policy = where
    if isinstance(where, tuple):
        policy = pk.MDRangePolicy((0,) * len(where), where, space=space)
    elif isinstance(where, int):
        policy = pk.RangePolicy(0, where, space=space)
    return run(policy, kernel, *args, label=_label(kernel), **how)


reduce = functools.partial(launch, run=pk.parallel_reduce)  # returns the result


@functools.cache
def _label(kernel):
    return f"{kernel.fn.__module__.split('.')[-2]}.{kernel.name}"
