"""Compute mean and variance of each column from sums over blocks of rows in the points' space."""

import numpy as np

import portable as pk

from ..shared import InputError, ShapeError, launch, reached
from .checks import check_points
from .rows import on_host
from .search_kernels import BLOCK, SIDE, column_sums


# Range of a column's standard deviation in which its squares, sums of squares and the variances of narrow
# components are normal floating-point numbers.
_DEVIATIONS = {np.dtype(np.float64): (1e-140, 1e150), np.dtype(np.float32): (1e-14, 1e16)}


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def spread_of(rows, weights=None):
    """Return mean and variance of each column, float64, shape (p,), from sums over blocks of rows.

    Blocks are combined as in Chan, Golub and LeVeque (1983), after the first row is subtracted: a constant
    column becomes exactly 0. Rows are added in their order in every space.

    Parameters
    ----------
    rows : Rows, of whose stretches all but the last have a multiple of BLOCK rows
    weights : ndarray, shape (n,), optional

    Raises
    ------
    ShapeError, FiniteError, InputError
        There is only one point; a point is not finite; a column is constant, or its squares are beyond the
        range of the points' dtype.
    """
    n, p = rows.X.shape
    if n == 1:
        raise ShapeError(f"X has shape {rows.X.shape}: n_samples = 1; expected at least 2 points")
    first = np.asarray(on_host(rows.X[:1])[0], np.float64)
    count, mean, squares = 0, np.zeros(p), np.zeros(p)
    for begin in rows.starts:
        share = None if weights is None else weights[begin : begin + rows.length]
        stretch = _Stretch(rows.rows(begin, min(begin + rows.length, n)), first, share, rows.space)
        sums = stretch.sums()
        if not np.isfinite(sums).all():
            check_points(on_host(rows.X))
        middles = sums / np.reshape(stretch.counts, (-1, 1))
        for own, own_mean, own_squares in zip(stretch.counts, middles, stretch.sums(middles)):
            if own == 0.0:
                continue
            away = own_mean - mean
            squares += own_squares + away**2 * (count * own / (count + own))
            mean = mean + away * (own / (count + own))
            count += own
    still = np.flatnonzero((squares == 0.0) & (mean == 0.0))
    if still.size:
        raise InputError(f"column {still[0]} of X is constant; leave such columns out ({still.tolist()})")
    _check_range(squares / count, rows.X.dtype)
    return first + mean, squares / count


def _check_range(variances, dtype):
    """Raise InputError if squares of a column, or quantities that EM computes from them, would overflow or
    underflow."""
    least, most = _DEVIATIONS[np.dtype(dtype)]
    beyond = np.flatnonzero(~((variances >= least**2) & (variances <= most**2)))
    if beyond.size:
        got = f"less than {least:g}" if variances[beyond[0]] < least**2 else f"more than {most:g}"
        raise InputError(
            f"column {beyond[0]} of X has a standard deviation of {got}, whose square is beyond"
            f" {np.dtype(dtype)}. Divide such columns by their own scale ({beyond.tolist()})"
        )


class _Stretch:
    """Sums over blocks of rows less a first row; `counts` are the numbers of rows, or the total weights, of
    the blocks."""

    def __init__(self, rows, first, weights, space):
        n, self._p = rows.shape
        self._space, self._host_first, self._weights = space, first, weights
        is_row_major = rows.strides == (self._p * rows.dtype.itemsize, rows.dtype.itemsize)
        self._flat = (rows if is_row_major else pk.copy_of(rows, space)).reshape(-1)
        self._first = reached(first, space)
        self._shares = self._first if weights is None else reached(weights, space)
        self._rest = on_host(rows[n - n % SIDE :])  # rows that `column_sums` omits
        begins = range(0, n, BLOCK)
        if weights is None:
            self.counts = [min(BLOCK, n - begin) for begin in begins]
        else:
            self.counts = [weights[begin : begin + BLOCK].sum() for begin in begins]

    def sums(self, middles=None):
        """Return the sums of the rows of each block, shape (n_blocks, p), or, given the blocks' means
        `middles`, the sums of squares about these."""
        squared, p = middles is not None, self._p
        with pk.use(self._space):
            sums = pk.empty((len(self.counts), SIDE * p))
        about = reached(middles, self._space) if squared else self._first.reshape(1, -1)
        how = (pk.static(int(flag)) for flag in (squared, self._weights is not None))
        given = p, *how, self._flat, self._first, about, self._shares, sums
        launch(sums.shape, column_sums, *given, space=self._space)
        found = on_host(sums).reshape(-1, SIDE, p).sum(axis=1)
        if len(self._rest):
            rest = np.subtract(self._rest, self._host_first)
            if squared:
                rest = np.square(rest - middles[-1])
            if self._weights is not None:
                rest = rest * self._weights[len(self._weights) - len(rest) :, None]
            found[-1] += rest.sum(axis=0)
        return found
