"""Derivatives by Warp's tape, whose CPU back end is one thread and one index at a time."""

import math

import numpy as np
import warp as wp

from portable.roofline.contract import Contender
from portable.roofline.digest import digest

from .layer_warp import Vector

Matrix = wp.array2d(dtype=wp.float64)


@wp.kernel
def energy(x: Matrix, total: Vector):
    i = wp.tid()
    own = wp.float64(0.0)
    for j in range(x.shape[0]):
        a, b, c = x[i, 0] - x[j, 0], x[i, 1] - x[j, 1], x[i, 2] - x[j, 2]
        own += wp.float64(1.0) / wp.sqrt(wp.float64(0.01) + a * a + b * b + c * c)
    wp.atomic_add(total, 0, own)


@wp.kernel
def stencil(u: Matrix, out: Matrix):
    k, m = wp.tid()
    i, j = k + 1, m + 1
    around = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]
    out[i, j] = u[i, j] * u[i, j] + wp.float64(0.1) * (around - wp.float64(4.0) * u[i, j])


@wp.kernel
def matvec(a: Matrix, x: Vector, y: Vector):
    i = wp.tid()
    total = wp.float64(0.0)
    for j in range(x.shape[0]):
        total += a[i, j] * x[j]
    y[i] = total


def contenders(name, *arrays, threads=None):
    """Return the derivatives of one of the three; Warp takes one thread, however many there are."""
    device = "cpu" if threads else "cuda"
    read, by = (arrays, np.ones(1)) if name == "energy" else (arrays[:-1], arrays[-1])
    shape = arrays[0].shape
    dim = tuple(n - 2 for n in shape) if name == "stencil" else shape[0]
    read, by = [_array(v, device) for v in read], _array(by, device)
    out = _array(np.zeros(by.shape), device)

    def call():
        tape = wp.Tape()
        with tape:
            wp.launch(globals()[name], dim=dim, inputs=read, outputs=[out], device=device)
        tape.backward(grads={out: by})
        return tape

    def timed():
        call().zero()

    def result():
        tape = call()
        found = math.fsum(digest(v.grad.numpy()) for v in read)
        tape.zero()
        return found

    sync = None if threads else wp.synchronize
    return [Contender(f"Warp {wp.__version__}, tape, {device}", timed, sync, result)]


def _array(values, device):
    return wp.array(values, dtype=wp.float64, device=device, requires_grad=True)
