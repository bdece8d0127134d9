"""Many runs of gaps."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from portable.errors import DTypeError, ShapeError

from ..checks import check_number
from .checks import check_censored, check_rounded, check_runs


class Runs:
    """Terminating runs of gaps.

    Parameters
    ----------
    values : array-like, shape (n_gaps,), any unit of time
        All gaps, run after run; not negative, zero allowed.
    lengths : array-like of int, shape (n_runs,)
        Gaps of each run, at least 1.
    censored : array-like of bool, shape (n_runs,), optional
        Runs that still went on when the record ended. The last gap of such a run is open: the time from its
        last event, or from its beginning if it has no event, to the end of the record.
    resolution : float, optional
        The gaps, but for open ones, are rounded to multiples of this: x stands for what lies between x -
        resolution / 2 (or 0) and x + resolution / 2. The likelihood is then the probability of the rounded
        gaps, which zeros do not make infinite, and which may be compared between any two models.

    Attributes
    ----------
    n_runs, n_gaps : int
    values : ndarray of float64, shape (n_gaps,)
    lengths : ndarray of int64, shape (n_runs,)
    censored : ndarray of bool, shape (n_runs,)
    resolution : float or None

    Raises
    ------
    ShapeError
        There is no run, `lengths` do not add up to the number of values, or `censored` has another length.
    DTypeError
        Values or lengths are no numbers, lengths not whole, or `censored` neither True nor False.
    FiniteError
        A gap is NaN or infinite; the message names run and position.
    InputError
        A gap is negative, or a run empty; the message names it.
    """

    n_runs: int
    n_gaps: int
    values: npt.NDArray[np.float64]
    lengths: npt.NDArray[np.int64]
    censored: npt.NDArray[np.bool_]
    resolution: float | None

    def __init__(
        self,
        values: npt.ArrayLike,
        lengths: npt.ArrayLike,
        censored: npt.ArrayLike | None = None,
        *,
        resolution: float | None = None,
    ) -> None:
        self.values, self.lengths = check_runs(values, lengths)
        self.censored = check_censored(censored, len(self.lengths))
        self.n_runs, self.n_gaps = len(self.lengths), len(self.values)
        self.resolution = None if resolution is None else check_number(resolution, "resolution", above=0.0)
        if self.resolution is not None:
            check_rounded(self.values[self.complete], self.resolution)

    @classmethod
    def from_gaps(
        cls,
        gaps: npt.ArrayLike,
        censored: npt.ArrayLike | None = None,
        *,
        resolution: float | None = None,
    ) -> Runs:
        """Plain gaps without an order in time, each a run of its own: fits are phase-type distributions.

        Parameters
        ----------
        gaps : array-like, shape (n_gaps,)
        censored : array-like of bool, shape (n_gaps,), optional
            Gaps that are at least so long, as survival analysis has them.
        resolution : float, optional
            The gaps are rounded to multiples of this; see `Runs`.

        Returns
        -------
        Runs

        Raises
        ------
        ShapeError, DTypeError, FiniteError, InputError
            As `Runs`.
        """
        return cls(gaps, np.ones(np.shape(gaps), int), censored, resolution=resolution)

    @classmethod
    def from_lists(
        cls,
        runs: Iterable[npt.ArrayLike],
        censored: npt.ArrayLike | None = None,
        *,
        resolution: float | None = None,
    ) -> Runs:
        """Runs from a sequence of sequences of gaps, one a run.

        Parameters
        ----------
        runs : sequence of sequences of float
            The gaps of each run, at least one.
        censored : array-like of bool, shape (n_runs,), optional
            Runs that still went on when the record ended; see `Runs`.
        resolution : float, optional
            The gaps are rounded to multiples of this; see `Runs`.

        Returns
        -------
        Runs

        Raises
        ------
        ShapeError, DTypeError, FiniteError, InputError
            As `Runs`; a run that is no sequence of numbers, or none at all.
        """
        try:
            parts = [np.asarray(run) for run in runs]
        except (TypeError, ValueError) as error:
            raise DTypeError(f"runs must be a sequence of sequences of numbers: {error}") from error
        if not parts:
            raise ShapeError("runs is empty; at least one run is wanted")
        for number, part in enumerate(parts):
            if part.ndim != 1:
                raise ShapeError(f"runs[{number}] has shape {part.shape}; a sequence of gaps is wanted")
        values = np.concatenate([part for part in parts if part.size] or [np.empty(0)])
        return cls(values, [part.size for part in parts], censored, resolution=resolution)

    def subset(self, which: Sequence[int] | Sequence[bool] | npt.NDArray[Any] | slice) -> Runs:
        """Some of the runs.

        Parameters
        ----------
        which : array-like of int or bool, or slice
            Their numbers, from 0, or for each run whether it is wanted.

        Returns
        -------
        Runs
            In the order asked for.

        Raises
        ------
        IndexError
            There is no run of such a number.
        """
        which = np.arange(self.n_runs)[which]
        lengths = self.lengths[which]
        shifts = (np.cumsum(self.lengths) - self.lengths)[which] - (np.cumsum(lengths) - lengths)
        places = np.arange(lengths.sum()) + np.repeat(shifts, lengths)
        return Runs(self.values[places], lengths, self.censored[which], resolution=self.resolution)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.values.nbytes + self.lengths.nbytes + self.censored.nbytes

    @functools.cached_property
    def complete(self) -> npt.NDArray[np.bool_]:
        """Whether each gap's end was seen, shape (n_gaps,)."""
        complete = np.ones(self.n_gaps, bool)
        complete[(np.cumsum(self.lengths) - 1)[self.censored]] = False
        return complete

    @functools.cached_property
    def mean(self) -> float:
        """Mean of all values, in their unit."""
        return float(self.values.mean())

    @functools.cached_property
    def longest(self) -> float:
        """Largest value; 0 if all are."""
        return float(self.values.max())

    @functools.cached_property
    def shortest(self) -> float:
        """Smallest value above 0; infinity if there is none."""
        least = float(self.values.min())
        return least if least > 0.0 else float(self.values[self.values > 0.0].min(initial=np.inf))

    @functools.cached_property
    def n_zero(self) -> int:
        """Number of complete gaps of zero."""
        return int((self.values[self.complete] == 0.0).sum())

    def sample(self, places: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """The values at some places.

        Parameters
        ----------
        places : ndarray of int64, shape (n,)

        Returns
        -------
        ndarray of float64, shape (n,)
        """
        return np.asarray(self.values[places], np.float64)

    def __repr__(self):
        still = f", n_censored={int(self.censored.sum()):,}" if self.censored.any() else ""
        return f"Runs(n_runs={self.n_runs:,}, n_gaps={self.n_gaps:,}{still})"
