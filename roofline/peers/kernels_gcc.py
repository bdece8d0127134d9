"""Anybody's kernels in C with OpenMP, compiled by gcc for this processor."""

import ctypes
import functools

import numpy as np

from portable.roofline.peers import kernels_text
from portable.roofline.peers.ceilings_gcc import compiled

# the start files of -ffast-math would flush subnormal numbers to 0, also in ours, until the process ends
FLAGS = "-O3 -march=native -ffast-math -nostartfiles"


def contenders(task, threads):
    """One peer; its arrays are NumPy's."""
    text, real = kernels_text.c(task), ctypes.c_double if task.dtype == "float64" else ctypes.c_float
    arguments, values = task.fresh(), [ctypes.c_int(threads)]
    for name, value in arguments.items():
        if isinstance(value, np.ndarray):
            values += [ctypes.c_void_p(value.ctypes.data), *map(ctypes.c_long, value.shape)]
        elif name != "step":
            values.append(ctypes.c_long(value) if isinstance(value, int) else real(value))
    call = functools.partial(compiled(text, *FLAGS.split()).run, *values)
    label = f"C, gcc {FLAGS}, {threads} thread{'s' * (threads > 1)}"
    return [task.contender(label, text, call, arguments, np.copyto)]
