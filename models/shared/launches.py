"""Launches labelled by family and kernel, and locks of the memory that they share."""

import functools
import os
import threading
import weakref

import portable as pk


_locks = weakref.WeakKeyDictionary()
os.register_at_fork(after_in_child=_locks.clear)  # whose holders the child does not have


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


def lock_of(owner):
    """Return the lock of an object whose memory holds one evaluation."""
    return _locks.setdefault(owner, threading.RLock())


def exclusive(function):
    """Decorate a function of such an object, so that it runs in one thread of Python at a time."""

    @functools.wraps(function)
    def locked(owner, *args, **options):
        with lock_of(owner):
            return function(owner, *args, **options)

    return locked
