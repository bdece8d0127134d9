"""A row of `compare kernels`: a kernel, its indices and its arguments, which this module makes."""

import functools
import math
from dataclasses import dataclass

import numpy as np

import portable as pk
from portable.roofline.peers.kernels_text import Task

# extents by their letters: (on a CPU, on a GPU)
SIZES = {
    "n": (1 << 21, 1 << 24),  # elements of vectors
    "m": (1000, 4000),  # edge of a matrix
    "c": (120, 300),  # edge of a cube
    "r": (2000, 40_000),  # rows of 1,000
    "w": (200, 2000),  # nodes of a dense graph
    "v": (50_000, 1_000_000),  # rows of a sparse matrix
    "z": (200, 8000),  # zones
    "s": (1000, 4000),  # letters to align
    "b": (2048, 1 << 16),  # bodies
    "g": (320, 1536),  # edge of matrices to multiply
    "t": (1024, 8192),  # edge of a matrix to transpose
}
WHOLE = {"b": 128, "g": 16, "t": 32}  # extents that must be multiples of a number
SHORT_TYPES = {"i4": np.int32, "u1": np.uint8}
ROWS = {}


@dataclass(frozen=True)
class Row:
    """Store a kernel, its indices and arguments.

    Parameters
    ----------
    kernel : portable.Kernel
    form : str
        "for", "sum", "team", or "team" and its size.
    domain : str
        "begin:end" or "end" of each index, in terms of the arguments' extents and integer arguments.
    arguments : str
        For each argument a number, or an array's extents ("m,m", preceded by `!` for a written array), or a
        function of MAKERS.
    dtypes : str
    steps : str
        As in Task.
    """

    kernel: pk.Kernel
    form: str
    domain: str
    arguments: str
    dtypes: str
    steps: str

    def task(self, dtype, sizes):
        """Return the kernel with arguments of a type and size."""
        kernel = self.kernel
        bounds = tuple(tuple((["0", *end.split(":")])[-2:]) for end in self.domain.split())
        names = kernel.fn.__code__.co_varnames[: kernel.fn.__code__.co_argcount]
        names = names[len(bounds) :]
        values, written = {}, []
        for name, text in zip(names, self.arguments.split(), strict=True):
            bare = text.removeprefix("!")
            if bare != text:
                written.append(name)
            values[name] = _make_argument(bare, dtype, sizes, len(values))
        return Task(kernel.name, kernel, self.form, bounds, values, tuple(written), dtype, self.steps)


def _make_argument(text, dtype, sizes, place):
    """Return an argument of a row; arrays differ by their positions."""
    if text in MAKERS:
        return MAKERS[text](dtype, sizes)
    if text.replace(".", "").replace("e-", "").removeprefix("-").isdigit():
        return float(text) if "." in text else int(text)
    kind, _, extents = text.rpartition(":")
    shape = [int(eval(extent, {}, sizes)) for extent in extents.split(",")]
    n = math.prod(shape)
    if kind:
        return np.random.default_rng(place).integers(0, 2, shape).astype(SHORT_TYPES[kind])
    return _block(dtype, n + 64)[place : place + n].reshape(shape).copy()


@functools.lru_cache(4)
def _block(dtype, n):
    """Return random numbers, from which every array of that size is taken: drawing them takes longer than the
    timing."""
    return np.random.default_rng(0).uniform(0.1, 1.1, n).astype(dtype)


def _starts(sizes):
    """Return the starts of rows of a sparse matrix with 16 to 48 entries in each row."""
    return np.append(0, np.cumsum(np.random.default_rng(1).integers(16, 49, sizes["v"])))


def _places(n, extent, seed=2):
    return np.random.default_rng(seed).integers(0, extent, n, dtype=np.int32)


def _nodes(dtype, sizes):
    """Return the corners of elements, which are close to each other."""
    n = sizes["n"] // 4
    return ((np.arange(n)[:, None] + _places((n, 4), 1000)) % n).astype(np.int32)


MAKERS = {
    "start": lambda dtype, sizes: _starts(sizes).astype(np.int32),
    "column": lambda dtype, sizes: _places(_starts(sizes)[-1], sizes["v"]),
    "value": lambda dtype, sizes: _block(dtype, _starts(sizes)[-1]).copy(),
    "place": lambda dtype, sizes: _places(sizes["n"], sizes["n"]),
    "level": lambda dtype, sizes: _places(sizes["n"], 256),
    "image": lambda dtype, sizes: _places(sizes["n"], 256).astype(np.uint8),
    "table": lambda dtype, sizes: np.cumsum(_places(256, 1000)).astype(np.int64),
    "nodes": _nodes,
    "spd": lambda dtype, sizes: (
        _block(dtype, 64 * (sizes["n"] // 64 or 1)).reshape(8, 8, -1) + 8 * np.eye(8, dtype=dtype)[:, :, None]
    ),
}


def row(domain, arguments, form="for", dtypes="float64 float32", steps=""):
    """Return a decorator that makes a kernel a row with the kernel's name."""

    def made(function):
        kernel = pk.kernel(function)
        ROWS[function.__name__] = Row(kernel, form, domain, arguments, dtypes, steps)
        return kernel

    return made
