"""Compare sorting, the largest entries of each row, compaction, ragged rows and a linear recurrence with
NumPy and numba on the CPU, CuPy (CUB) and CUDA C++ on a GPU.

Sizes follow from one number, the elements of a vector. Outputs are compared by their digests: all sorts are
stable.
"""

import functools

import numpy as np

import portable as pk
from portable.roofline.cases import common
from portable.roofline.digest import digest
from portable.roofline.units import scaled

COLUMNS, K = 1000, 20  # columns of the rows, and the number of largest entries of each
ROUNDING = 1e-9  # sums of up to 10^8 numbers from 0 to 1, in different orders
MOST_STEPS = 1 << 24  # of a recurrence


def then(a, b):
    """Return the composition of the step s -> a[0] s + a[1] with the following step b."""
    return a[0] * b[0], b[0] * a[1] + b[1]


def from_zero(step):
    return step[1]


RECURRENCE = pk.Reducer("Recurrence", then, (1.0, 0.0), finish=from_zero, commutes=False)


@pk.kernel
def step(i, decay, x):
    return decay[i], x[i]


def duels(space, n, quick):
    """Return a duel for each algorithm; see `portable.roofline.cases.Case`. `n` is the number of elements of
    a vector."""
    n = n or common.size(space, quick, 200, 20_000, 100_000_000, 4_000_000)
    random = np.random.default_rng(0)
    x, whole = random.random(n), random.integers(0, 2**31, n, dtype=np.int32)
    rows = np.resize(x, (max(1, n // COLUMNS), COLUMNS))
    return [
        *(
            _duel("argsort", f"stable argsort of {n:,} {what}", n_bytes * n, space, pk.argsort, values)
            for what, n_bytes, values in (
                ("float64", 16, x),
                ("int32", 12, whole),
                (f"int64 below {n:,}", 16, whole % np.int64(n)),
            )
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
        *_ragged_duels(space, x, random),
        _recurrence(space, x[:MOST_STEPS]),
    ]


def _ragged_duels(space, x, random):
    """Yield duels of sums and of prefix sums of rows of several lengths."""
    n = len(x)
    short, long = _lengths(random, n, 8), _lengths(random, n, 1000)
    giant = np.array([n // 2 if n < 2_000_000 else 1_000_000])
    mixed = _lengths(random, n - giant[0], 8)
    mixed = np.concatenate([mixed[: len(mixed) // 2], giant, mixed[len(mixed) // 2 :]])
    words = "mean 8", "mean 1,000", f"mean 8, but one of {giant[0]:,}"
    for lengths, rows in zip((short, long, mixed), words):
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        title = f"{len(lengths):,} ragged rows ({rows}), {n:,} float64"
        for algorithm, n_bytes in (
            (pk.segmented_reduce, x.nbytes + 2 * offsets.nbytes),
            (pk.segmented_scan, 2 * x.nbytes + offsets.nbytes),
        ):
            name = algorithm.__name__
            yield _duel(name, f"{name} of {title}", n_bytes, space, algorithm, x, offsets, tolerance=ROUNDING)


def _lengths(random, total, mean):
    """Return random lengths of rows, at least 1 each, with the sum `total`."""
    ends = np.cumsum(random.integers(1, 2 * mean, 2 * total // mean + 1))
    return np.diff(ends[ends < total], prepend=0, append=total)


def _recurrence(space, x):
    """Return the duel of the recurrence s[i] = decay[i] s[i - 1] + x[i]."""
    decay = 1.0 - 0.5 * x

    def scan(decay, x, space):
        out = pk.empty(x.shape, x.dtype, space)
        pk.parallel_scan(
            pk.RangePolicy(0, len(x), space=space),
            step,
            decay,
            x,
            out=out,
            reducer=RECURRENCE,
            total=_total_view(space),
        )
        return out

    title = f"linear recurrence of {len(x):,} float64"
    return _duel("recurrence", title, 3 * x.nbytes, space, scan, decay, x, tolerance=ROUNDING)


@functools.cache
def _total_view(space):
    """Return a view for a scan's total, so that the host does not wait for it."""
    return pk.empty(1, np.float64, space)


def _columns(x, k, space):
    return pk.top_k(x, k, space=space)[1]


def _duel(name, title, n_bytes, space, algorithm, *inputs, tolerance=0.0):
    """Return the duel of an algorithm with the peers of that name, which are given the same host arrays."""
    on_space = [pk.copy_of(v, space) if isinstance(v, np.ndarray) else v for v in inputs]
    call = functools.partial(algorithm, *on_space, space=space)
    about = {"result": lambda: digest(call().to_numpy()), "tolerance": tolerance, "bytes": n_bytes}
    title += f", {scaled(n_bytes, 'B')} to move"
    return common.duel(title, space, call, "algorithms", name, *inputs, **about)
