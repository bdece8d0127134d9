"""The micro-kernels of the ceilings against independent tools: C compiled by gcc on a CPU, CUDA C++ on a GPU.

Both sides of a duel do the same operations on the same numbers. `n` counts the elements of the vectors.
"""

import functools

import numpy as np

import portable as pk
from roofline import microkernels as kernels
from roofline import peers
from roofline.contract import Contender, Duel
from roofline.digest import digest
from roofline.units import scaled

B, C, S = 0.999, 0.001, 1e-3  # values stay of order one


def duels(space, n, quick):
    """Copy, triad and both FMA peaks; see `roofline.cases.Case`."""
    gpu, checked = space.startswith("cuda"), space == "checked"
    n = n or (64 if checked else 10_000 if quick else 1 << 27 if gpu else 1 << 24)
    few = 64 if checked else 1 << (10 if quick else 22 if gpu else 14)
    trips = 2 if checked or quick else 64 if gpu else 128
    b, c = np.random.default_rng(0).random((2, n))
    return [
        _stream("copy", space, kernels.copy, 16 * n, b),
        _stream("triad", space, kernels.triad, 24 * n, np.array([S]), b, c),
        *(_peak(dtype, space, few, trips) for dtype in ("float64", "float32")),
    ]


def _stream(name, space, kernel, n_bytes, *inputs):
    n = inputs[-1].size
    views = [*(pk.copy_of(a, space) for a in inputs), pk.zeros((n,), np.float64, space)]
    call = functools.partial(pk.parallel_for, pk.RangePolicy(0, n, space=space), kernel, *views)
    title = f"{name} of {n:,} float64, {scaled(n_bytes, 'B')} to move"
    return _duel(title, space, call, lambda: digest(views[-1].to_numpy()), name, inputs, bytes=n_bytes)


def _peak(dtype, space, n, trips):
    b, c = (pk.copy_of(np.array([v], dtype), space) for v in (B, C))
    ones = np.ones(n, dtype)
    out = pk.copy_of(ones, space)
    call = functools.partial(pk.parallel_for, pk.RangePolicy(0, n, space=space), kernels.fma, trips, b, c, out)

    def result():
        pk.deep_copy(out, ones)
        call()
        return digest(out.to_numpy())

    operations = 2 * kernels.CHAINS * kernels.UNROLLED * trips * n
    title = f"{kernels.CHAINS} chains of {dtype} fused multiply-adds, {scaled(operations)} operations"
    return _duel(
        title,
        space,
        call,
        result,
        f"fma_{dtype}",
        (n, trips * kernels.UNROLLED, B, C),
        tolerance=1e-5 if dtype == "float32" else 1e-12,
    )


def _duel(title, space, call, result, name, inputs, tolerance=1e-14, bytes=None):  # noqa: A002 - the contract's name
    rivals, absent = peers.gather(
        "ceilings", space, name, kernels.CHAINS, *inputs, tools=("cupy",) if space.startswith("cuda") else ("gcc",)
    )
    ours = Contender(f"portable, {space}", call, sync=functools.partial(pk.fence, space), result=result)
    return Duel(title, ours, rivals, absent, tolerance, bytes=bytes)
