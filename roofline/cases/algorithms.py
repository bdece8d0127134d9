"""Sorting, the largest of each row, compaction: ours against NumPy and numba on the CPU, CuPy (CUB) on a GPU.

Sizes follow from one number, the elements of a vector. Outputs are compared by their digests: all sorts are
stable.
"""

import functools

import numpy as np

import portable as pk
from roofline import peers
from roofline.contract import Contender, Duel
from roofline.digest import digest
from roofline.units import scaled

COLUMNS, K = 1000, 20  # of the rows whose largest entries are wanted


def duels(space, n, quick):
    """A duel an algorithm; see `roofline.cases.Case`. `n` counts the elements of a vector."""
    n = n or (
        200
        if space == "checked"
        else 20_000
        if quick
        else 100_000_000
        if space.startswith("cuda")
        else 4_000_000
    )
    random = np.random.default_rng(0)
    x, whole = random.random(n), random.integers(0, 2**31, n, dtype=np.int32)
    rows = np.resize(x, (max(1, n // COLUMNS), COLUMNS))
    return [
        _duel("argsort", f"stable argsort of {n:,} float64", 16 * n, space, pk.argsort, x),
        _duel("argsort", f"stable argsort of {n:,} int32", 12 * n, space, pk.argsort, whole),
        _duel(
            "argsort",
            f"stable argsort of {n:,} int64 below {n:,}",
            16 * n,
            space,
            pk.argsort,
            whole % np.int64(n),
        ),
        _duel(
            "top_k",
            f"the {K} largest of {COLUMNS} columns, {len(rows):,} rows float64",
            rows.nbytes,
            space,
            _columns,
            rows,
            K,
        ),
        _duel("compact", f"compaction of {n:,} float64, half kept", 17 * n, space, pk.compact, x < 0.5, x),
    ]


def _columns(x, k, space):
    return pk.top_k(x, k, space=space)[1]


def _duel(name, title, n_bytes, space, algorithm, *inputs):
    """Ours against the peers' text of that name, which get the same host arrays."""
    rivals, absent = peers.gather("algorithms", space, name, *inputs)
    on_space = [pk.copy_of(v, space) if isinstance(v, np.ndarray) else v for v in inputs]
    call = functools.partial(algorithm, *on_space, space=space)
    ours = Contender(
        f"portable, {space}", call, functools.partial(pk.fence, space), lambda: digest(call().to_numpy())
    )
    return Duel(
        f"{title}, {scaled(n_bytes, 'B')} to move", ours, rivals, absent, tolerance=0.0, bytes=n_bytes
    )
