"""Checks of arguments, which run before anything is computed or copied to a device; and repeated
locations: rounded coordinates, or centroids."""

import math

import numpy as np

from ..shared import (
    ArrayLike,
    DTypeError,
    Frozen,
    InputError,
    OrderError,
    ShapeError,
    as_numbers,
    check_each,
    check_kind,
    check_number,
    check_numbers,
    looks_dated,
    warn,
)
from .parameters import Background, ParametersBase


_LONGEST_H = 1e9  # longer than any record
_FAR_OFF = 0.3  # largest ratio of the extent of locations to their distance from 0 that is typical of degrees


def check_events(locations, times):
    """Return locations and times as float64 arrays; raise an error unless they are valid events.

    Parameters
    ----------
    locations : array-like or View, shape (n_events, n_dims), n_dims = 1, 2 or 3, kilometres
    times : array-like or View, shape (n_events,), hours, ascending

    Returns
    -------
    locations : ndarray, shape (n_events, n_dims)
    times : ndarray, shape (n_events,)
    """
    locations, times = as_numbers(locations, "locations"), check_times(times, "the rows of locations")
    if locations.ndim != 2:
        hint = " A single coordinate is given as locations.reshape(-1, 1)." if locations.ndim == 1 else ""
        raise ShapeError(f"locations has shape {locations.shape}; expected shape (n_events, n_dims).{hint}")
    n_dims = locations.shape[1]
    if n_dims not in (1, 2, 3):
        raise ShapeError(f"locations has shape {locations.shape}: {n_dims} dimensions; expected 1, 2 or 3")
    locations = check_each(locations, "locations", len(times), "times", 2)
    if n_dims == 2 and (np.ptp(locations, axis=0) <= _FAR_OFF * np.abs(locations.mean(axis=0))).all():
        most = np.abs(locations).max(axis=0)
        known = (most <= (180.0, 90.0)).all() or (most <= (90.0, 180.0)).all()
        if np.ptp(locations, axis=0).any() and known:
            warn(
                f"locations look like degrees, near {locations.mean(axis=0).round(3).tolist()}, and are taken"
                " as kilometres: hawkes.read_catalogue(lonlat=True) projects them; for kilometres subtract an"
                " origin nearby, which changes nothing else",
                UserWarning,
            )
    return locations, times


def check_enough(n_events, hours, what="an estimate"):
    """Raise InputError if there are fewer than three events for `what`, or no hours of observation."""
    if n_events < 3:
        raise InputError(
            f"the record has {n_events} event{'s' * (n_events > 1)}; expected at least 3 for {what}"
        )
    check_hours(hours)


def check_hours(hours):
    """Raise InputError if the observation ends with the first event."""
    if not hours > 0.0:
        raise InputError("times are all equal; expected horizon_h after the first event")


def check_ascending(times, beside):
    """Raise OrderError unless times ascend; its message advises to sort `beside`, if given, together with
    the times."""
    falls = times[1:] < times[:-1]
    if falls.any():
        n = int(np.argmax(falls)) + 1
        raise OrderError(
            f"times must ascend, but times[{n}] = {times[n]} follows times[{n - 1}] = {times[n - 1]}. "
            f"Sort times{f' and {beside} together' * bool(beside)}, with"
            " order = np.argsort(times, kind='stable')."
        )
    if times[-1] - times[0] > _LONGEST_H:
        raise InputError(
            f"times span {times[-1] - times[0]:.3g} hours, more than 100,000 years: are these nanoseconds?"
            " Expected hours"
        )


def check_times(times, beside=""):
    """Return times of events in time only, ascending and at least one, as float64."""
    if (isinstance(times, (list, tuple)) or getattr(times, "ndim", 0) == 1) and looks_dated(times):
        raise DTypeError("times holds dates; expected hours: hawkes.read_catalogue makes them")
    times = check_numbers(times, "times", 1)
    if not len(times):
        raise ShapeError("times is empty; expected at least one event")
    check_ascending(times, beside)
    return times


def check_edges(edges, name, least=-math.inf):
    """Return edges as an array, if they increase from `least` or more."""
    edges = check_numbers(edges, name, 1)
    wrong = np.flatnonzero(np.diff(edges) <= 0.0)
    if wrong.size:
        n = wrong[0] + 1
        raise InputError(f"{name}[{n}] is {edges[n]} after {edges[n - 1]}; expected increasing edges")
    if len(edges) < 2 or edges[0] < least:
        raise InputError(f"{name} is {edges.tolist()}; expected two or more, at least {least:g}")
    return edges


def check_marks(marks, reference, n_events):
    """Return marks less the reference mark, shape (n_events,), at least 0; None without marks."""
    if marks is None:
        if reference is not None:
            raise InputError("reference_mark needs marks")
        return None
    marks = check_each(marks, "marks", n_events)
    reference = marks.min() if reference is None else check_numbers(reference, "reference_mark")
    if reference.shape not in ((), marks.shape):
        raise ShapeError(f"reference_mark has shape {reference.shape}; expected one number, or one per event")
    less = marks - reference
    below = np.flatnonzero(less < -1e-9)
    if below.size:
        n = below[0]
        raise InputError(
            f"marks[{n}] is {marks[n]}, below reference_mark = {np.broadcast_to(reference, marks.shape)[n]:g}"
            f" ({below.size} such event{'s' * (below.size > 1)}); leave such events out, or give a smaller"
            " reference"
        )
    return np.maximum(less, 0.0)


def check_horizon(horizon_h, times):
    """Return the end of observation on the axis of `times`; the last event if None."""
    if horizon_h is None:
        return float(times[-1])
    horizon = check_number(horizon_h, "horizon_h")
    if horizon < times[-1]:
        raise InputError(
            f"horizon_h is {horizon}, before the last event at {times[-1]}; expected at least that"
        )
    return horizon


def check_params(params):
    return check_kind(params, "params", ParametersBase, "be hawkes.Parameters")


def check_background(background, n_events):
    """Return `background` if it is None, or a Background with a density at each of n_events events; raise
    otherwise."""
    if background is None:
        return None
    check_kind(background, "background", Background, "be hawkes.Background or None")
    check_each(background.density, "background.density", n_events)
    return background


# share of events at the location of another event above which locations are considered rounded
_REPEATED = 0.1


class Places(Frozen):
    """Repetition of the locations of events.

    Attributes
    ----------
    n_events, n_distinct : int
    repeated : float
        Share of events at the location of another event.
    spacing_km : float
        Median distance from a distinct location to the nearest other one; 0 if there is only one.
    """

    n_events: int
    n_distinct: int
    repeated: float
    spacing_km: float

    @property
    def rounded(self) -> bool:
        """Return True if locations repeat so often that they are centroids, or rounded coordinates."""
        return self.repeated > _REPEATED

    def __str__(self):
        return (
            f"{self.repeated:.0%} of {self.n_events:,} events share the place of another: there are"
            f" {self.n_distinct:,} distinct places, typically {self.spacing_km:.3g} km from the next"
        )


def places(locations: ArrayLike) -> Places:
    """Return `Places`, the repetition of locations due to rounded coordinates or centroids.

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
    repeated = float(counts[counts > 1].sum() / max(len(locations), 1))
    return Places(len(locations), len(distinct), repeated, _spacing(distinct) if len(distinct) > 1 else 0.0)


def spread_of(locations):
    """Return the standard deviation of locations along a dimension, as the root mean square over
    dimensions."""
    return float(np.sqrt(locations.var(axis=0).mean()))


def _spacing(distinct):
    """Return the median distance to the nearest other location, over a sample of the locations."""
    some = distinct[np.linspace(0, len(distinct) - 1, min(2_000, len(distinct))).astype(int)]
    nearest = []
    for place in some:  # one row at a time, so that no table of all pairs is stored
        r2 = ((distinct - place) ** 2).sum(axis=1)
        nearest.append(math.sqrt(np.partition(r2, 1)[1]))
    return float(np.median(nearest))
