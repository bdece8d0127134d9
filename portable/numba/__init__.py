"""Interoperation with numba: portable's functions and launches in numba's code, numba's functions and threads
in portable's.

    functions   @pk.function and kernels, called by code that numba compiles
    launches    parallel_for, parallel_reduce, parallel_scan in that code
    calls       functions of numba's in kernels
    threads     the space "numba"
    device      the same on a GPU, with numba-cuda

No part of numba is imported before the program has imported it, or uses one of these.
"""

from __future__ import annotations

import functools
from typing import Any

from ..core.language.kernel import AnyKernel

_VERSION = "0.68"  # its LLVM is the one that portable uses


@functools.cache
def missing():
    """Return the reason why numba cannot be used here, in one line; None if it can."""
    try:
        import numba
    except ImportError as error:
        return f"numba cannot be imported ({error}): pip install 'numba=={_VERSION}.*'"
    if not numba.__version__.startswith(f"{_VERSION}."):
        return (
            f"numba {numba.__version__} brings another LLVM than this layer's: "
            f"pip install 'numba=={_VERSION}.*'"
        )
    return None


def most_threads():
    """Return the number of threads that numba starts; 1 if it is missing."""
    if missing():
        return 1
    from numba import config

    return config.NUMBA_NUM_THREADS


@functools.cache
def register():
    """Register portable's words and launches with numba, which calls this entry point before it compiles."""
    from . import launches, policies, views, words  # noqa: F401


def cuda_kernel(kernel: AnyKernel) -> Any:
    """Return a range kernel as one of numba-cuda's, which compiles and launches it.

    `cuda_kernel(kernel)[blocks, threads, stream](n, *args)` runs indices 0 to n - 1.

    Parameters
    ----------
    kernel : function marked with @pk.kernel, of one index

    Returns
    -------
    numba-cuda's dispatcher, which takes the number of indices first; any grid covers them

    Raises
    ------
    LanguageError
        No kernel of one index.
    """
    from . import device  # which imports numba-cuda

    return device.kernel(kernel)
