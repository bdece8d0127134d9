"""Recognise functions that numba compiles, by their attributes, since numba need not be installed."""

import sys

from ... import registry


def compiled(function):
    """Return True for a function that numba compiles (by @njit, or numba-cuda for devices) and for a
    machine's own operation (cpu/native.py)."""
    return hasattr(function, "n_results") or (
        "numba" in sys.modules
        and type(function).__module__.startswith("numba.")
        and hasattr(function, "py_func")
    )


def call_of(function):
    """Return the object that represents a call of such a function in the typed tree (numba/calls.py)."""
    if hasattr(function, "n_results"):
        return function
    return registry.part("functions of numba's").Foreign(function)
