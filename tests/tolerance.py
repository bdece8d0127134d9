"""Bound the distance of two correct results: every floating-point comparison of the tests takes its bound
from here."""

import numpy as np


def tol(dtype, n=1):
    """Return the largest relative difference between two correct results.

    Parameters
    ----------
    dtype : dtype or type
        Type of the arithmetic.
    n : int
        Number of terms added. Each order of adding n terms of one sign has an error of at most n units of
        half an eps, so two orders differ by at most n eps (Higham, Accuracy and Stability of Numerical
        Algorithms, section 4.2).

    Returns
    -------
    float
        (8 + n) eps: eight for a few elementwise roundings and functions with errors of at most 2 ulp.
    """
    return (8 + n) * float(np.finfo(dtype).eps)


def assert_close(got, wanted, dtype, n=1, scale=0.0):
    """Compare within `tol`, relative to the larger of the expected value and `scale`; integers must be equal.

    `scale` is for sums whose terms cancel: the size of the terms, not of the sum, bounds the rounding.
    """
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.shape == wanted.shape, f"shape {got.shape}, wanted {wanted.shape}"
    if wanted.dtype.kind in "iub":
        np.testing.assert_array_equal(got, wanted)
    else:
        np.testing.assert_allclose(got, wanted, rtol=tol(dtype, n), atol=tol(dtype, n) * scale)
