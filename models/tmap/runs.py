"""Many runs of gaps, and how they lie in the memory of a space."""

from __future__ import annotations

import numpy as np

import portable as pk
from portable.errors import DTypeError, ShapeError

from .checks import check_runs

# Runs of like length that lie side by side: a warp, and a whole number of packs of any CPU. Each pack is padded to its
# longest run, so more of them cost memory where lengths differ much.
PACK = 32

# In place of log(0): so low that a density of order 2 or more is zero beside any other, yet finite: times 0 it is 0.
NEVER = -1e300


class Runs:
    """Terminating runs of gaps.

    Parameters
    ----------
    values : array-like, shape (n_gaps,), any unit of time
        All gaps, run after run; not negative, zero allowed.
    lengths : array-like of int, shape (n_runs,)
        Gaps of each run, at least 1.

    Attributes
    ----------
    n_runs, n_gaps : int
    values : ndarray of float64, shape (n_gaps,)
    lengths : ndarray of int64, shape (n_runs,)

    Raises
    ------
    ShapeError
        There is no run, or `lengths` do not add up to the number of values.
    DTypeError
        Values or lengths are no numbers, or lengths not whole.
    FiniteError
        A gap is NaN or infinite; the message names run and position.
    InputError
        A gap is negative, or a run empty; the message names it.
    """

    def __init__(self, values, lengths):
        self.values, self.lengths = check_runs(values, lengths)
        self.n_runs, self.n_gaps = len(self.lengths), len(self.values)

    @classmethod
    def from_lists(cls, runs):
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
        return cls(values, [part.size for part in parts])

    def __repr__(self):
        return f"Runs(n_runs={self.n_runs:,}, n_gaps={self.n_gaps:,})"


class Packed:
    """Runs sorted by length and laid side by side: gap k of the pack's run `lane` is x[offset[pack] + k, lane].

    Attributes
    ----------
    width, n_packs : int
        Runs of a pack, and packs.
    x : View of float64, shape (n_rows, width)
        n_rows is the sum of the packs' longest runs.
    log_x : View of float64, shape (n_rows, width)
        Logarithms; NEVER for a gap of zero.
    offset, steps : Views of int64, shape (n_packs,)
        A pack's first row, and its longest run.
    lengths : View of int64, shape (n_packs, width)
        Gaps of each run in packed order; 0 where the last pack has no run left.
    """

    def __init__(self, runs, space):
        self.width = min(PACK, runs.n_runs)
        self.n_packs = -(-runs.n_runs // self.width)
        order = np.argsort(-runs.lengths, kind="stable")
        lengths = np.zeros(self.n_packs * self.width, np.int64)
        lengths[: runs.n_runs] = runs.lengths[order]
        steps = lengths[:: self.width].copy()
        offset = np.cumsum(steps) - steps

        slot = np.empty(runs.n_runs, np.int64)  # where a run went
        slot[order] = np.arange(runs.n_runs)
        begin = np.cumsum(runs.lengths) - runs.lengths
        k = np.arange(runs.n_gaps) - np.repeat(begin, runs.lengths)
        x = np.zeros((steps.sum(), self.width))
        pack, lane = (np.repeat(part, runs.lengths) for part in (slot // self.width, slot % self.width))
        x[offset[pack] + k, lane] = runs.values
        lengths = lengths.reshape(self.n_packs, self.width)
        log_x = np.log(x, out=np.full_like(x, NEVER), where=x > 0.0)
        parts = x, log_x, offset, steps, lengths
        self.x, self.log_x, self.offset, self.steps, self.lengths = (pk.copy_of(part, space) for part in parts)
