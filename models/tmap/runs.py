"""Runs of gaps, in the memory in which they are given."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

import numpy as np

import portable as pk

from ..shared import Array, ArrayLike, DTypeError, Floats, Ints, ShapeError, SpaceLike, as_numbers
from ..shared.checks import check_unmasked
from .checks import check_censored, check_gaps, check_lengths, check_resolution, check_rounded, given_lengths
from .gaps import look_at, of_runs, read_only, values_at, where_given
from .packed import KEPT, whole_of


class Runs:
    """Terminating runs of gaps between events.

    Parameters
    ----------
    values : array-like or View, shape (n_gaps,), any unit of time
        All gaps, run after run; not negative, zero allowed. Arrays on a device, these and the following, are
        checked and copied there.
    lengths : array-like or View of int, shape (n_runs,)
        Gaps of each run, at least 1.
    censored : array-like or View of bool, shape (n_runs,), optional
        Runs that continued after the end of the record. The last gap of such a run is open: the time from its
        last event, or from its beginning if it has no event, to the end of the record.
    resolution : float, or array-like of shape (n_gaps,), optional
        The gaps, except open ones, are rounded to multiples of this: x is any number between x - resolution /
        2 (or 0) and x + resolution / 2. An array has the width of each gap's interval, x being the middle:
        gaps between `low` and `high` are 0.5 * (low + high) with the resolution high - low. The likelihood is
        then the probability of the rounded gaps, which is finite for zeros, and comparable between any two
        models.
    space : str or Space, optional
        Where gaps and lengths are checked and stored: preferably the space of later method calls, so that
        they are copied once. By default where they are given.

    Attributes
    ----------
    n_runs, n_gaps : int
    censored : ndarray of bool, shape (n_runs,)
    resolution : float, ndarray or None
    views : tuple of Views
        Values in float64 and lengths in int64, where they are stored.
    prepared : dict
        Layouts of the runs in spaces, kept for the next call.

    Raises
    ------
    ShapeError
        There is no run, `lengths` do not add up to the number of values, or `censored` has another length.
    DTypeError
        Values or lengths are not numbers, lengths not whole, or `censored` neither True nor False.
    FiniteError
        A gap is NaN or infinite; the message names run and position.
    InputError
        A gap is negative, or a run empty; the message names it.
    SpaceError
        The space does not exist, or cannot run here.
    """

    n_runs: int
    n_gaps: int
    censored: Array
    resolution: float | Floats | None
    views: tuple[pk.View, pk.View]
    starts = None  # keys and starts of runs, from the check of lengths, for the sort of runs

    def __init__(
        self,
        values: ArrayLike | pk.View,
        lengths: ArrayLike | pk.View,
        censored: ArrayLike | pk.View | None = None,
        *,
        resolution: ArrayLike | None = None,
        space: SpaceLike = None,
    ) -> None:
        given, near = where_given(values, "values"), given_lengths(lengths, space)
        if censored is None:  # no count is needed
            self.n_censored = 0

        def order(values):  # runs are sorted during the copy
            lengths, self.starts = check_lengths(near, given.size)
            self._begin(values, lengths, check_censored(censored, lengths.size), None)
            if space is not None and self.n_gaps <= KEPT:
                whole_of(self).sorted_in(space)

        _, self._known = check_gaps(given, near, space=space, meanwhile=order)
        if resolution is not None:
            self.resolution = check_resolution(resolution, self.n_gaps)
            if np.ndim(resolution) == 0:
                check_rounded(self.views[0], resolution, self.complete)

    def _begin(self, values, lengths, censored, resolution):
        self.views, self.n_runs, self.n_gaps = (values, lengths), lengths.size, values.size
        self.censored, self.resolution = read_only(censored), resolution
        self.prepared = {}

    def __getstate__(self):
        return self.values, self.lengths, self.censored, self.resolution

    def __setstate__(self, state):
        values, lengths, censored, resolution = state
        self._begin(*(pk.asview(part) for part in (values, lengths)), censored, resolution)

    @classmethod
    def from_gaps(
        cls,
        gaps: ArrayLike,
        censored: ArrayLike | None = None,
        *,
        resolution: ArrayLike | None = None,
        space: SpaceLike = None,
    ) -> Runs:
        """Make runs of one gap each, for gaps without an order in time: fits are phase-type distributions.

        Parameters
        ----------
        gaps : array-like, shape (n_gaps,)
        censored : array-like of bool, shape (n_gaps,), optional
            Gaps of at least the given length, as in survival analysis.
        resolution : float, optional
            The gaps are rounded to multiples of this; see `Runs`.
        space : str or Space, optional
            Where they are stored; see `Runs`.

        Returns
        -------
        Runs

        Raises
        ------
        ShapeError, DTypeError, FiniteError, InputError
            As `Runs`.
        """
        return cls(gaps, np.ones(np.shape(gaps), int), censored, resolution=resolution, space=space)

    @classmethod
    def from_lists(
        cls,
        runs: Iterable[ArrayLike],
        censored: ArrayLike | None = None,
        *,
        resolution: ArrayLike | None = None,
        space: SpaceLike = None,
    ) -> Runs:
        """Make runs from a sequence of sequences of gaps, one for each run.

        Parameters
        ----------
        runs : sequence of sequences of float
            The gaps of each run, at least one.
        censored : array-like of bool, shape (n_runs,), optional
            Runs that continued after the end of the record; see `Runs`.
        resolution : float, optional
            The gaps are rounded to multiples of this; see `Runs`.
        space : str or Space, optional
            Where they are stored; see `Runs`.

        Returns
        -------
        Runs

        Raises
        ------
        ShapeError, DTypeError, FiniteError, InputError
            As `Runs`; a run is not a sequence of numbers, or there are no runs.
        """
        try:
            parts = [np.asarray(check_unmasked(run, "runs")) for run in runs]
        except (TypeError, ValueError) as error:
            raise DTypeError(f"runs must be a sequence of sequences of numbers: {error}") from error
        if not parts:
            raise ShapeError("runs is empty; expected at least one run")
        for number, part in enumerate(parts):
            if part.ndim != 1:
                raise ShapeError(f"runs[{number}] has shape {part.shape}; expected a sequence of gaps")
        values = np.concatenate([part for part in parts if part.size] or [np.empty(0)])
        return cls(values, [part.size for part in parts], censored, resolution=resolution, space=space)

    def subset(self, which: Sequence[int] | Sequence[bool] | Array | slice) -> Runs:
        """Select some of the runs.

        Parameters
        ----------
        which : array-like of int or bool, or slice
            Their numbers, from 0, or True for each run to select.

        Returns
        -------
        Runs
            In the order of `which`.

        Raises
        ------
        IndexError
            A run of such a number does not exist.
        """
        which = np.arange(self.n_runs)[which]
        lengths = as_numbers(self.lengths[which], "lengths", 1)
        if not lengths.size:
            raise ShapeError("which is empty; expected at least one run")
        some, resolution = object.__new__(Runs), self.resolution
        values = of_runs(self.views[0], lengths, self.begins[which])
        if np.ndim(resolution):
            resolution = of_runs(pk.asview(resolution), lengths, self.begins[which]).to_numpy()
        some._begin(values, pk.asview(lengths), self.censored[which], resolution)
        return some

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(view.nbytes for view in self.views) + self.censored.nbytes

    @functools.cached_property
    def values(self) -> Floats:
        """All gaps, run after run, on the host; not to be written to."""
        return read_only(self.views[0].to_numpy())

    @functools.cached_property
    def lengths(self) -> Ints:
        """Gaps of each run, on the host; not to be written to."""
        return read_only(self.views[1].to_numpy())

    @functools.cached_property
    def n_censored(self) -> int:
        """Number of censored runs."""
        return int(np.count_nonzero(self.censored))

    @functools.cached_property
    def begins(self) -> Ints:
        """The place of each run's first gap among the values, shape (n_runs,)."""
        return np.cumsum(self.lengths) - self.lengths

    @functools.cached_property
    def complete(self) -> Array:
        """True for each gap whose end was observed, shape (n_gaps,)."""
        complete = np.ones(self.n_gaps, bool)
        if self.n_censored:  # else the lengths stay where they are
            complete[self._last_gaps(self.censored)] = False
        return complete

    def _last_gaps(self, which):
        """Return the places of the last gaps of some runs."""
        return (self.begins + self.lengths - 1)[which]

    @functools.cached_property
    def _known(self):
        """Largest gap, smallest above zero, number of zeros, and the sum of the others' exponents."""
        return look_at(self.views[0])[1:]

    @functools.cached_property
    def mean(self) -> float:
        """Mean of all values, in their unit."""
        return float(self.views[0].to_numpy().mean())

    @functools.cached_property
    def mean_exponent(self) -> int:
        """Mean of floor(log2(gap)) over the gaps above zero, rounded; 0 if there is none."""
        return round(self._known[3] / max(self.n_gaps - int(self._known[2]), 1))

    @property
    def longest(self) -> float:
        """Largest value; 0 if all are zero."""
        return float(self._known[0])

    @property
    def shortest(self) -> float:
        """Smallest value above 0; infinity if there is none."""
        return float(self._known[1])

    @functools.cached_property
    def n_zero(self) -> int:
        """Number of complete gaps of zero."""
        opened = values_at(self.views[0], self._last_gaps(self.censored)) if self.n_censored else np.ones(0)
        return int(self._known[2]) - int((opened == 0.0).sum())

    def sample(self, places: Ints) -> Floats:
        """Return the values at some places.

        Parameters
        ----------
        places : ndarray of int64, shape (n,)

        Returns
        -------
        ndarray of float64, shape (n,)
        """
        return values_at(self.views[0], places)

    def __repr__(self):
        still = f", n_censored={self.n_censored:,}" if self.n_censored else ""
        return f"Runs(n_runs={self.n_runs:,}, n_gaps={self.n_gaps:,}{still})"
