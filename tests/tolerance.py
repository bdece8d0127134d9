"""Bound the distance of two right answers: every floating-point comparison of the tests takes its bound
from here."""

import numpy as np


def tol(dtype, n=1):
    """The largest relative difference between two right results.

    Parameters
    ----------
    dtype : dtype or type
        What the arithmetic was done in.
    n : int
        Terms that were added up. Each order of adding n terms of one sign is wrong by at most n units of half
        an eps, so two orders differ by n eps at most (Higham, Accuracy and Stability of Numerical Algorithms,
        section 4.2).

    Returns
    -------
    float
        (8 + n) eps: eight for a handful of elementwise roundings and functions that are right within 2 ulp.
    """
    return (8 + n) * float(np.finfo(dtype).eps)


def assert_close(got, wanted, dtype, n=1, scale=0.0):
    """Compare within `tol`, relative to the larger of the wanted value and `scale`; integers must be equal.

    `scale` is for sums whose terms cancel: the size of the terms, not of the sum, bounds the rounding.
    """
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.shape == wanted.shape, f"shape {got.shape}, wanted {wanted.shape}"
    if wanted.dtype.kind in "iub":
        np.testing.assert_array_equal(got, wanted)
    else:
        np.testing.assert_allclose(got, wanted, rtol=tol(dtype, n), atol=tol(dtype, n) * scale)
