"""The layer's words in plain numba: the loops that a numba user writes, fastmath only where the label says
so.
"""

import functools
import math

import numpy as np
from numba import njit, prange

from portable.roofline.contract import Contender
from portable.roofline.digest import digest
from portable.roofline.peers.numba_threads import set_threads

T = 16  # edge of a matrix product's tile


def contenders(name, *inputs, threads):
    """Numba's loops for one word.

    Parameters
    ----------
    name : str
        A key of `WORDS`.
    *inputs : ndarrays and numbers
        As the case of that word hands them over.
    threads : int
        CPU threads; 1 is compiled without parallel=True.

    Returns
    -------
    list of Contender
    """
    set_threads(threads)
    return WORDS[name](threads, *inputs)


def _loop(text, threads, fastmath=False):
    return njit(parallel=threads > 1, fastmath=fastmath)(text)


def _both(text, threads):
    """Labels and loops: a sum of floats becomes SIMD only where its order is free."""
    return [
        (f"numba{', fastmath=True' if fast else ''}", _loop(text, threads, fast)) for fast in (False, True)
    ]


def _writer(label, loop, *args):
    """A contender whose last argument is written."""
    call = functools.partial(loop, *args)

    def result():
        call()
        return digest(args[-1])

    return Contender(label, call, result=result)


def _number(label, loop, *args):
    """A contender that returns its result."""
    call = functools.partial(loop, *args)
    return Contender(label, call, result=call)


def _axpy(threads, a, x, y):
    own = y.copy()
    call = functools.partial(_loop(_axpy_text, threads), a, x, own)

    def result():
        own[:] = y
        call()
        return digest(own)

    return [Contender("numba", call, result=result)]


def _axpy_text(a, x, y):
    for i in prange(x.shape[0]):
        y[i] += a * x[i]


def _dot(threads, x, y):
    return [_number(label, loop, x, y) for label, loop in _both(_dot_text, threads)]


def _dot_text(x, y):
    total = 0.0
    for i in prange(x.shape[0]):
        total += x[i] * y[i]
    return total


def _matvec(threads, a, x):
    return [_writer(label, loop, a, x, np.empty(len(a))) for label, loop in _both(_matvec_text, threads)]


def _matvec_text(a, x, y):
    for row in prange(a.shape[0]):
        total = 0.0
        for c in range(a.shape[1]):
            total += a[row, c] * x[c]
        y[row] = total


def _matmul(threads, a, b):
    texts = {"numba, tiles": _tiles_text, "numba, bands of rows": _bands_text}
    return [_writer(label, _loop(text, threads), a, b, np.empty_like(a)) for label, text in texts.items()]


def _tiles_text(a, b, c):
    across = c.shape[1] // T
    for tile in prange(c.shape[0] // T * across):
        row0 = tile // across * T
        column0 = tile % across * T
        sums = np.zeros((T, T))
        for k0 in range(0, a.shape[1], T):
            for i in range(T):
                for k in range(T):
                    factor = a[row0 + i, k0 + k]
                    for j in range(T):
                        sums[i, j] += factor * b[k0 + k, column0 + j]
        c[row0 : row0 + T, column0 : column0 + T] = sums


def _bands_text(a, b, c):
    for band in prange(c.shape[0] // T):
        for i in range(band * T, band * T + T):
            c[i, :] = 0.0
            for k in range(a.shape[1]):
                factor = a[i, k]
                for j in range(c.shape[1]):
                    c[i, j] += factor * b[k, j]


def _stencil(threads, u):
    return [_writer("numba", _loop(_stencil_text, threads), u, np.zeros_like(u))]


def _stencil_text(u, out):
    for i in prange(1, u.shape[0] - 1):
        for j in range(1, u.shape[1] - 1):
            for k in range(1, u.shape[2] - 1):
                around = (
                    u[i - 1, j, k]
                    + u[i + 1, j, k]
                    + u[i, j - 1, k]
                    + u[i, j + 1, k]
                    + u[i, j, k - 1]
                    + u[i, j, k + 1]
                )
                out[i, j, k] = 0.4 * u[i, j, k] + 0.1 * around


def _argmin(threads, x):
    return [_number("numba", _loop(_argmin_text, threads), x, np.empty(threads, np.int64))]


def _argmin_text(x, places):
    n = x.shape[0]
    chunks = places.shape[0]
    for k in prange(chunks):
        place = n * k // chunks
        best = x[place]
        for i in range(place + 1, n * (k + 1) // chunks):
            if x[i] < best:
                best = x[i]
                place = i
        places[k] = place
    place = places[0]
    for k in range(1, chunks):
        if x[places[k]] < x[place]:
            place = places[k]
    return place


def _histogram(threads, levels, bins):
    own = np.empty((threads, bins), np.int32)
    return [
        _writer(
            "numba, bins of each thread's own", _loop(_histogram_text, threads), levels, own, own[0].copy()
        )
    ]


def _histogram_text(levels, own, counts):
    n = levels.shape[0]
    chunks = own.shape[0]
    for k in prange(chunks):
        mine = own[k]
        mine[:] = 0
        for i in range(n * k // chunks, n * (k + 1) // chunks):
            mine[levels[i]] += 1
    counts[:] = 0
    for k in range(chunks):
        counts += own[k]


def _scan(threads, x):
    zero, out = x.dtype.type(0), np.empty_like(x)
    if threads == 1:
        return [_writer("numba", njit(_scan_in_one), x, zero, out)]
    return [
        _writer("numba, two passes", _loop(_scan_in_two, threads), x, zero, np.empty(threads, x.dtype), out)
    ]


def _scan_in_one(x, zero, out):
    total = zero
    for i in range(x.shape[0]):
        total += x[i]
        out[i] = total


def _scan_in_two(x, zero, sums, out):
    """Sums of as many parts as threads, then each part's prefixes from the sum of those before it."""
    n = x.shape[0]
    parts = sums.shape[0]
    for k in prange(parts):
        total = zero
        for i in range(n * k // parts, n * (k + 1) // parts):
            total += x[i]
        sums[k] = total
    for k in prange(parts):
        total = zero
        for before in range(k):
            total += sums[before]
        for i in range(n * k // parts, n * (k + 1) // parts):
            total += x[i]
            out[i] = total


def _sum(threads, x):
    return [_number("numba", _loop(_sum_text, threads), x)]


def _sum_text(x):
    total = 0
    for i in prange(x.shape[0]):
        total += x[i]
    return total


def _conditional(threads, x):
    return [_writer("numba", _loop(_conditional_text, threads), x, np.empty_like(x))]


def _conditional_text(x, out):
    for i in prange(x.shape[0]):
        if x[i] > 0.5:
            out[i] = math.exp(-x[i])
        else:
            out[i] = x[i]


def _mandelbrot(threads, limit, cx, cy):
    return [_writer("numba", _loop(_mandelbrot_text, threads), limit, cx, cy, np.empty(cx.size, np.int32))]


def _mandelbrot_text(limit, cx, cy, steps):
    for i in prange(cx.shape[0]):
        x = 0.0
        y = 0.0
        n = 0
        while n < limit and x * x + y * y <= 4.0:
            x, y = x * x - y * y + cx[i], 2.0 * x * y + cy[i]
            n += 1
        steps[i] = n


def _word(text):
    """A loop of one word; numba calls the C library, or its own text."""

    def contenders_of(threads, *inputs):
        out = np.empty_like(inputs[0])
        return [_writer("numba", _loop(text, threads), *inputs, out)]

    return contenders_of


def _atan2_text(y, x, out):
    for i in prange(out.size):
        out[i] = math.atan2(y[i], x[i])


def _sinh_text(x, out):
    for i in prange(out.size):
        out[i] = math.sinh(x[i])


def _gamma_text(x, out):
    for i in prange(out.size):
        out[i] = math.gamma(x[i])


WORDS = {
    "atan2": _word(_atan2_text),
    "sinh": _word(_sinh_text),
    "gamma": _word(_gamma_text),
    "axpy": _axpy,
    "dot": _dot,
    "matvec": _matvec,
    "matmul": _matmul,
    "stencil": _stencil,
    "argmin": _argmin,
    "histogram": _histogram,
    "scan": _scan,
    "sum": _sum,
    "conditional": _conditional,
    "mandelbrot": _mandelbrot,
}
