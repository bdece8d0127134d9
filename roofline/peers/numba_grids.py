"""Kernels of numba-cuda with their grid, chosen once instead of at every launch."""

import warnings

from numba import cuda

if not cuda.is_available():
    raise ImportError("numba-cuda finds no CUDA device")


def configured(kernel, blocks, threads):
    """`kernel[blocks, threads]`, without the warning that few blocks leave a GPU idle: here that is the
    point.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*Grid size")
        return kernel[blocks, threads]
