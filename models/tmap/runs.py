"""Many runs of gaps."""

from __future__ import annotations

import functools

import numpy as np

from portable.errors import DTypeError, ShapeError

from .checks import check_censored, check_runs


class Runs:
    """Terminating runs of gaps.

    Parameters
    ----------
    values : array-like, shape (n_gaps,), any unit of time
        All gaps, run after run; not negative, zero allowed.
    lengths : array-like of int, shape (n_runs,)
        Gaps of each run, at least 1.
    censored : array-like of bool, shape (n_runs,), optional
        Runs that still went on when the record ended. The last gap of such a run is open: the time from its last event,
        or from its beginning if it has no event, to the end of the record.

    Attributes
    ----------
    n_runs, n_gaps : int
    values : ndarray of float64, shape (n_gaps,)
    lengths : ndarray of int64, shape (n_runs,)
    censored : ndarray of bool, shape (n_runs,)

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

    def __init__(self, values, lengths, censored=None):
        self.values, self.lengths = check_runs(values, lengths)
        self.censored = check_censored(censored, len(self.lengths))
        self.n_runs, self.n_gaps = len(self.lengths), len(self.values)

    @classmethod
    def from_lists(cls, runs, censored=None):
        """Runs from a sequence of sequences of gaps, one a run."""
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
        return cls(values, [part.size for part in parts], censored)

    def subset(self, which):
        """Some of the runs, by number or by True and False, as Runs."""
        which = np.arange(self.n_runs)[which]
        lengths = self.lengths[which]
        shifts = (np.cumsum(self.lengths) - self.lengths)[which] - (np.cumsum(lengths) - lengths)
        return Runs(self.values[np.arange(lengths.sum()) + np.repeat(shifts, lengths)], lengths, self.censored[which])

    @functools.cached_property
    def mean(self):
        """Mean of all values, in their unit."""
        return float(self.values.mean())

    @functools.cached_property
    def longest(self):
        """Largest value; 0 if all are."""
        return float(self.values.max())

    @functools.cached_property
    def shortest(self):
        """Smallest value above 0; infinity if there is none."""
        least = float(self.values.min())
        return least if least > 0.0 else float(self.values[self.values > 0.0].min(initial=np.inf))

    def __repr__(self):
        still = f", n_censored={int(self.censored.sum()):,}" if self.censored.any() else ""
        return f"Runs(n_runs={self.n_runs:,}, n_gaps={self.n_gaps:,}{still})"
