"""Find repeated places of events: rounded coordinates, or centroids."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..shared.checks import check_numbers

_REPEATED = 0.1  # share of events with the place of another, from which on places are rounded


@dataclass(frozen=True)
class Places:
    """Repetition of the places of events.

    Attributes
    ----------
    n_events, n_distinct : int
    repeated : float
        Share of events at a place where another event is, too.
    spacing_km : float
        Median distance of a distinct place to the nearest other one; 0 if there is one only.
    """

    n_events: int
    n_distinct: int
    repeated: float
    spacing_km: float

    @property
    def rounded(self) -> bool:
        """Return True if places repeat so much that they are centroids, or coordinates rounded."""
        return self.repeated > _REPEATED

    def __str__(self):
        return (
            f"{self.repeated:.0%} of {self.n_events:,} events share the place of another: there are"
            f" {self.n_distinct:,} distinct places, typically {self.spacing_km:.3g} km from the next"
        )


def places(locations: npt.ArrayLike) -> Places:
    """Return the repetition of places: rounded coordinates, or centroids.

    Parameters
    ----------
    locations : array-like, shape (n_events, n_dims), kilometres

    Returns
    -------
    Places

    Raises
    ------
    ShapeError, DTypeError, FiniteError
        Locations of another shape, or that are no finite numbers.
    """
    locations = check_numbers(locations, "locations", 2)
    distinct, counts = np.unique(locations, axis=0, return_counts=True)
    repeated = float(counts[counts > 1].sum() / len(locations))
    return Places(len(locations), len(distinct), repeated, _spacing(distinct) if len(distinct) > 1 else 0.0)


def spread_of(locations):
    """Return the standard deviation of places along a dimension."""
    return float(np.sqrt(locations.var(axis=0).mean()))


def _spacing(distinct, most=2_000):
    """Return median distance to the nearest other place, of some of the places."""
    some = distinct[np.linspace(0, len(distinct) - 1, min(most, len(distinct))).astype(int)]
    nearest = []
    for place in some:  # one row at a time: no table of all pairs
        r2 = ((distinct - place) ** 2).sum(axis=1)
        nearest.append(math.sqrt(np.partition(r2, 1)[1]))
    return float(np.median(nearest))
