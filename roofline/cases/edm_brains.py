"""Cross maps of whole brains on one machine: for each shape a part of the libraries, from which the time of
the whole can be extrapolated.

The shapes are those of Takahashi et al. 2021, table 1; their V100 took 344, 11,372 and 20,517 seconds.
All libraries cost the same, so the time of the whole is the time of a part times the number of parts.
Intended for a GPU with 80 GB or more.
"""

import numpy as np

from portable.models import edm
from portable.roofline.cases import common
from portable.roofline.cases.edm import E_MAX, random_dims

# steps, series, and the divisor of the libraries
SHAPES = [(96, 45_318, 20), (29_484, 8_520, 20), (8_528, 101_729, 20)]
COURSES = 24  # all series are mixtures of these and noise
MEMORY_MB = 1 << 15  # enough for many libraries in each launch, although each has 100,000 targets


def duels(space, n, quick):
    """Return a duel of one part of each shape, without peers; see `portable.roofline.cases.Case`. `n` divides
    the parts further.
    """
    shapes = [(60, 40, 20)] if quick or space == "checked" else SHAPES
    return [_part(space, *shape, n or 1) for shape in shapes]


def waves(n_steps, n_series):
    """Return independent noisy waves in float32, shape (n_steps, n_series)."""
    random = np.random.default_rng(0)
    t = np.arange(n_steps)[:, None]
    courses = (
        np.sin(t * random.uniform(0.02, 0.3, COURSES))
        + np.cumsum(random.normal(size=(n_steps, COURSES)), axis=0) / 30
    )
    noise = random.normal(size=(n_steps, 1024)).astype(np.float32) / 10
    out = np.empty((n_steps, n_series), np.float32)
    for begin in range(0, n_series, 1024):
        part = slice(begin, min(begin + 1024, n_series))
        mixed = courses.astype(np.float32) @ random.normal(size=(COURSES, part.stop - begin)).astype(
            np.float32
        )
        out[:, part] = mixed + noise[:, : part.stop - begin]
    return out


def _part(space, n_steps, n_series, share, finer):
    result, data, libraries = [], [], np.arange(0, n_series, share * finer)

    def call():
        if not data:
            dims = np.minimum(random_dims(n_series), min(E_MAX, n_steps // 10))
            data[:] = [waves(n_steps, n_series), dims]
        result[:] = [edm.cross_map(*data, libraries=libraries, memory_mb=MEMORY_MB, space=space)]

    title = f"cross map, one in {share * finer} libraries of {n_series:,} series of {n_steps:,} steps"
    return common.duel(title, space, call, result=lambda: float(result[0].mean()))
