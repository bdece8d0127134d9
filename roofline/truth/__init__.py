"""A corpus of known causes: pairs of launches with the same work, one of which has a planted cause that costs
time.

`portable.roofline.truth.validate` compares the reasons of `portable.roofline.reasons` with measured times.
Sizes and data are drawn when a pair is made, so that no rule can be fitted to them.
"""

from collections.abc import Callable
from dataclasses import dataclass

from portable.roofline.truth import (
    arithmetic,
    first_holdout,
    current_holdout,
    second_holdout,
    machine,
    pairs,
    programs,
)


@dataclass(frozen=True)
class Pair:
    """Store two launches, or calls, of the same work.

    Attributes
    ----------
    name : str
    causes : tuple of str
        Names that `portable.roofline.reasons` may give to the planted cause.
    make : callable of (space, Generator, scale) that returns the launch with the cause and the one without,
    (policy, kernel, *args); or two callables without arguments, each of which makes launches
    """

    name: str
    causes: tuple
    make: Callable


def corpus():
    """Return all pairs, in the order in which they are reported: a list of functions with `causes`."""
    every = [
        make
        for module in (pairs, arithmetic, machine, second_holdout, first_holdout, current_holdout, programs)
        for make in vars(module).values()
        if hasattr(make, "causes") and make.__module__ == module.__name__
    ]
    return [Pair(make.__name__.replace("_", " "), make.causes, make) for make in every]
