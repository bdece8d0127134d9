"""Anybody's kernels in C with OpenMP, compiled by gcc for this processor."""

import ctypes
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from portable.roofline.peers import kernels_text

if shutil.which("gcc") is None:
    raise ImportError("gcc is not installed")

FLAGS = "-O3 -march=native -ffast-math"


@functools.cache
def _library(text):
    """The shared object; its folder goes with it, for what is loaded needs no file."""
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "kernel.c"), Path(folder, "kernel.so")
        source.write_text(text, encoding="utf-8")
        flags = [*FLAGS.split(), "-fopenmp", "-shared", "-fPIC"]
        done = subprocess.run(
            ["gcc", *flags, str(source), "-o", str(made), "-lm"], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise ImportError(f"gcc refused the text: {(done.stderr.splitlines() or ['no message'])[:3]}")
        return ctypes.CDLL(str(made))


def contenders(task, threads):
    """One peer; its arrays are NumPy's."""
    text, real = kernels_text.c(task), ctypes.c_double if task.dtype == "float64" else ctypes.c_float
    arguments, values = task.fresh(), [ctypes.c_int(threads)]
    for name, value in arguments.items():
        if isinstance(value, np.ndarray):
            values += [ctypes.c_void_p(value.ctypes.data), *map(ctypes.c_long, value.shape)]
        elif name != "step":
            values.append(ctypes.c_long(value) if isinstance(value, int) else real(value))
    call = functools.partial(_library(text).run, *values)
    label = f"C, gcc {FLAGS}, {threads} thread{'s' * (threads > 1)}"
    return [task.contender(label, text, call, arguments, np.copyto)]
