"""Pairs of numbers."""

import math

import numpy as np


def correlation(x, y):
    """Return Pearson's correlation of pairs; NaN if there are fewer than three, or one side does not vary."""
    varies = len(x) > 2 and np.ptp(x) > 0.0 and np.ptp(y) > 0.0
    return float(np.corrcoef(x, y)[0, 1]) if varies else math.nan
