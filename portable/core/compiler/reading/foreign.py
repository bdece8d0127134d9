"""Functions that numba compiles, as kernels call them: found by their look, since numba need not be here."""

import sys

from ... import registry


def compiled(function):
    """Return True if numba compiles a function: @njit's, or numba-cuda's for devices; for a machine's own
    operation (cpu/native.py)."""
    return hasattr(function, "n_results") or (
        "numba" in sys.modules
        and type(function).__module__.startswith("numba.")
        and hasattr(function, "py_func")
    )


def call_of(function):
    """Return the call of such a function, as an operation of the typed tree has it (numba/calls.py)."""
    if hasattr(function, "n_results"):
        return function
    return registry.part("functions of numba's").Foreign(function)
