"""The spaces "serial" and "threads": this machine's cores."""

from __future__ import annotations

import functools
import os

from ....errors import InputError
from ...places.policy import check_index
from ...places.space import Space


def Threads(n: int | None = None) -> Space:  # noqa: N802  (a space reads like a class to its users)
    """Return the space of some CPU threads.

    Parameters
    ----------
    n : int, optional
        The number of threads, which may exceed the number of cores. Default: PORTABLE_NUM_THREADS, else all
        usable cores.

    Returns
    -------
    Space

    Raises
    ------
    InputError, DTypeError

    Examples
    --------
    >>> pk.Threads(2).n_threads
    2
    """
    return _all() if n is None else Space("threads", n_threads=check_index(n, "Threads: n", 1))


def usable_cores():
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@functools.cache
def _all():
    asked = os.environ.get("PORTABLE_NUM_THREADS")
    if asked is not None and not (asked.isdigit() and int(asked) > 0):
        raise InputError(f"PORTABLE_NUM_THREADS is {asked!r}; expected a positive whole number")
    return Space("threads", n_threads=int(asked) if asked else usable_cores())
