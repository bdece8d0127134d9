"""Empirical dynamic modelling: cross mapping of all pairs, nearest neighbours of one long series, S-maps.

`--n` is the number of series of the cross map; the duels of neighbours are then left out.
"""

import functools

import numpy as np

from portable.models import edm
from portable.models.edm.simulated import coupled_logistic
from portable.roofline.cases import common
from portable.roofline.contract import Run

# Steps and series of larval zebrafish recordings (Takahashi et al. 2021, table 1), and of a part of a larger
# one.
SHAPES = {"cpu": [(1600, 154)], "cuda": [(1600, 154), (10608, 82), (3780, 1000)]}
E_MAX = 20
LONG = 10_000  # times of the series whose neighbours are searched, in duels
TOOLS = ("kedm", "scipy", "sklearn", "faiss")
PAIRING = "kedm", "fastccm"
PAIRED = 1000, 50, 5  # steps, series and their dimension, which is one for FastCCM


def random_dims(n_series, seed=7):
    """Return random dimensions from 1 to E_MAX; the first is E_MAX, so that all tables are needed."""
    dims = np.random.default_rng(seed).integers(1, E_MAX + 1, n_series)
    dims[0] = E_MAX
    return dims


def prepare(space, data, quick):
    """Return runs of the report, on simulated series; see `portable.roofline.cases.Case`."""
    small = quick or space == "checked"
    few, device = (40, 3, 40, 40), (1600, 154, 40_000, 3000)
    # steps and series; times of the series for the search of neighbours, and for S-maps
    n_steps, n_series, long, mapped = common.size(space, quick, few, few, device, (800, 20, 4000, 1000))
    series, x = coupled_logistic(n_steps, n_series), coupled_logistic(long, 1)[:, 0]
    dims = np.minimum(random_dims(n_series), n_steps // 10)
    theta, E = np.arange(2.0 if small else 8.0), 2 if small else 10

    def run(method, size, unit, call):
        return Run(f"EDM, {method}", "simulated", size, unit, call)

    return [
        run(
            f"cross map of {n_series} series, E up to {dims.max()}",
            n_steps,
            "steps",
            lambda: float(edm.cross_map(series, dims, space=space).mean()),
        ),
        run(
            f"{E + 1} nearest neighbours, E = {E}",
            long,
            "points",
            lambda: float(edm.knn(x, E, dtype="float32", space=space).distances[:, -1].mean()),
        ),
        run(
            f"S-maps, E = 3, {len(theta)} thetas",
            mapped,
            "points",
            lambda: float(edm.smap(x[:mapped], 3, theta=theta, space=space).rho[-1]),
        ),
    ]


def duels(space, n, quick):
    """Return duels with kedm, SciPy's tree, scikit-learn, faiss and FastCCM; see
    `portable.roofline.cases.Case`."""
    small = quick or space == "checked"
    shapes = (
        [(40, 3)] if small else [(1600, n)] if n else SHAPES["cuda" if space.startswith("cuda") else "cpu"]
    )
    found = [_cross_map(space, *shape) for shape in shapes]
    if not n:
        found += [_neighbours(space, 40 if small else LONG, E) for E in ((2,) if small else (1, 5, 10, 20))]
        found += [
            _simplex(space, *shape) for shape in ([(40, 2)] if small else [(LONG, 10), (100, 1), (100, 5)])
        ]
        n_steps, n_series, E = (40, 3, 2) if small else PAIRED
        found += [
            _cross_map(space, n_steps, n_series, np.full(n_series, E), PAIRING),
            _smap(space, n_steps, E),
        ]
    return found


def _cross_map(space, n_steps, n_series, dims=None, tools=TOOLS[:1]):
    data = coupled_logistic(n_steps, n_series)
    dims = random_dims(n_series) if dims is None else dims
    if n_steps < 2 * E_MAX + 2:
        dims = np.minimum(dims, 4)
    title = f"cross map, {n_series:,} series of {n_steps:,} steps, E up to {dims.max()}"
    # kedm does not count equal points as neighbours, and sums in float32
    return _duel(title, space, edm.cross_map, np.mean, "cross_map", (data, dims), tools)


def _neighbours(space, n_steps, E):
    title = f"{E + 1} nearest neighbours of each point, {n_steps:,} steps, E = {E}"
    search = functools.partial(edm.knn, dtype="float32")
    return _duel(
        title, space, search, lambda r: r.distances[:, -1].mean(), "neighbours", (_noise(n_steps), E)
    )


def _simplex(space, n_steps, E):
    title = f"simplex projection of one series, {n_steps:,} steps, E = {E}"
    predict, given = functools.partial(edm.simplex, dtype="float32"), (_noise(n_steps), E)
    # float32, and weights in another order
    return _duel(title, space, predict, lambda r: r.predicted.mean(), "simplex", given, TOOLS[:1], 1e-5)


def _smap(space, n_steps, E):
    title, fit = f"S-map of one series, {n_steps:,} steps, E = {E}", functools.partial(edm.smap, theta=2.0)
    given = coupled_logistic(n_steps, 1)[:, 0], E
    return _duel(title, space, fit, lambda r: r.rho[0], "smap", given, PAIRING)


def _noise(n_steps):
    return np.random.default_rng(1931).random(n_steps, np.float32)


def _duel(title, space, function, number, name, given, tools=TOOLS, tolerance=1e-3):
    """Return the duel of one of our functions of `given`; `number` maps its result to the compared number."""
    found = []

    def call():
        found[:] = [function(*given, space=space)]

    about = {"result": lambda: float(number(found[0])), "tools": tools, "tolerance": tolerance}
    return common.duel(title, space, call, "edm", name, *given, **about)
