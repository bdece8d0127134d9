"""A product of matrices by cuBLAS through CuPy, which takes no TF32 unless it is asked to."""

import functools

import cupy

from portable.roofline.contract import Contender
from portable.roofline.digest import digest


def contenders(name, m, n, step, a, b):
    """CuPy's `matmul`."""
    call = functools.partial(cupy.matmul, cupy.asarray(a), cupy.asarray(b))
    sync = cupy.cuda.Device().synchronize
    return [Contender("cuBLAS (CuPy)", call, sync, lambda: digest(call().get()))]
