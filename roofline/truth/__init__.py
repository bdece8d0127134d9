"""A corpus of truth: pairs of launches that do the same work, one of them with a planted cause that costs it
time.

What `portable.roofline.reasons` says of them is held against the clock by `portable.roofline.truth.validate`.
Sizes and data are drawn when a pair is made, so that no rule can be fitted to them.
"""

from collections.abc import Callable
from dataclasses import dataclass

from portable.roofline.truth import arithmetic, before, last, later, machine, pairs, programs


@dataclass(frozen=True)
class Pair:
    """Two launches, or calls, of one work.

    Attributes
    ----------
    name : str
    causes : tuple of str
        Names that `portable.roofline.reasons` may give what was planted.
    make : callable of (space, Generator, scale) that gives the launch with the cause and the one without,
    (policy, kernel, *args); or two callables without arguments, of which each makes launches
    """

    name: str
    causes: tuple
    make: Callable


def corpus():
    """Return all pairs, a list in the order in which they are reported: functions with `causes`."""
    every = [
        make
        for module in (pairs, arithmetic, machine, later, before, last, programs)
        for make in vars(module).values()
        if hasattr(make, "causes") and make.__module__ == module.__name__
    ]
    return [Pair(make.__name__.replace("_", " "), make.causes, make) for make in every]
