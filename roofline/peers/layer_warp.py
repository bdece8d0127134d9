"""Some of the layer's words in NVIDIA Warp, whose CPU back end is one thread and one index at a time."""

import functools

import numpy as np
import warp as wp

from portable.roofline.contract import Contender
from portable.roofline.digest import digest

wp.config.quiet = True
wp.init()
Vector = wp.array(dtype=wp.float64)


@wp.kernel
def axpy(a: wp.float64, x: Vector, y: Vector):
    i = wp.tid()
    y[i] += a * x[i]


@wp.kernel
def dot(x: Vector, y: Vector, total: Vector):
    i = wp.tid()
    wp.atomic_add(total, 0, x[i] * y[i])


@wp.kernel
def stencil(u: wp.array3d(dtype=wp.float64), out: wp.array3d(dtype=wp.float64)):
    a, b, c = wp.tid()
    i, j, k = a + 1, b + 1, c + 1
    around = (
        u[i - 1, j, k] + u[i + 1, j, k] + u[i, j - 1, k] + u[i, j + 1, k] + u[i, j, k - 1] + u[i, j, k + 1]
    )
    out[i, j, k] = wp.float64(0.4) * u[i, j, k] + wp.float64(0.1) * around


@wp.kernel
def conditional(x: Vector, out: Vector):
    i = wp.tid()
    if x[i] > wp.float64(0.5):
        out[i] = wp.exp(-x[i])
    else:
        out[i] = x[i]


@wp.kernel
def mandelbrot(limit: wp.int32, cx: Vector, cy: Vector, steps: wp.array(dtype=wp.int32)):
    i = wp.tid()
    x, y = wp.float64(0.0), wp.float64(0.0)
    n = wp.int32(0)
    while n < limit and x * x + y * y <= wp.float64(4.0):
        moved = x * x - y * y + cx[i]
        y = wp.float64(2.0) * x * y + cy[i]
        x = moved
        n += 1
    steps[i] = n


def contenders(name, *inputs, threads):
    """Warp's kernel for one word; none for those that are not written here.

    Parameters
    ----------
    name : str
    *inputs : ndarrays and numbers
        As the case of that word hands them over.
    threads : int
        Warp's CPU takes one, however many there are.

    Returns
    -------
    list of Contender
    """
    return [WORDS[name](*inputs)] if name in WORDS else []


def _there(array):
    """A host array as Warp sees it, without a copy."""
    return wp.array(array, dtype=wp.dtype_from_numpy(array.dtype), device="cpu", copy=False)


def _contender(kernel, dim, inputs, out, before=lambda: None, result=digest):
    inputs = [_there(v) if isinstance(v, np.ndarray) else v for v in (*inputs, out)]
    launch = functools.partial(wp.launch, kernel, dim=dim, inputs=inputs, device="cpu")

    def call():
        before()
        launch()
        return result(out)

    return Contender("Warp, one thread", launch, result=call)


def _axpy(a, x, y):
    own = y.copy()
    return _contender(axpy, x.size, (a, x), own, lambda: np.copyto(own, y))


def _dot(x, y):
    total = np.zeros(1)
    return _contender(dot, x.size, (x, y), total, lambda: total.fill(0.0), lambda out: out[0])


def _stencil(u):
    return _contender(stencil, tuple(n - 2 for n in u.shape), (u,), np.zeros_like(u))


def _conditional(x):
    return _contender(conditional, x.size, (x,), np.empty_like(x))


def _mandelbrot(limit, cx, cy):
    return _contender(mandelbrot, cx.size, (limit, cx, cy), np.empty(cx.size, np.int32))


WORDS = {
    "axpy": _axpy,
    "dot": _dot,
    "stencil": _stencil,
    "conditional": _conditional,
    "mandelbrot": _mandelbrot,
}
