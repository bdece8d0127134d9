"""Empirical dynamic modelling: cross mapping of all pairs, nearest neighbours of one long series, S-maps.

`--n` is the number of series of the cross map; the neighbours are then left out.
"""

import numpy as np

from portable.models import edm
from portable.models.edm.simulated import coupled_logistic
from portable.roofline import peers
from portable.roofline.contract import Contender, Duel, Run

# Steps and series: of larval zebrafish recordings (Takahashi et al. 2021, table 1), and a part of a larger
# one.
SHAPES = {"cpu": [(1600, 154)], "cuda": [(1600, 154), (10608, 82), (3780, 1000)]}
E_MAX = 20
LONG = 10_000  # times of the series whose neighbours are searched, in duels
SEARCHED = {
    "cpu": (4000, 1000),
    "cuda": (40_000, 3000),
}  # times of a series whose neighbours are searched, and of S-maps
TOOLS = ("kedm", "scipy", "sklearn", "faiss")
PAIRING = "kedm", "fastccm"
PAIRED = 1000, 50, 5  # steps, series and their dimension, which is one for FastCCM


def random_dims(n_series, seed=7):
    """Dimensions from 1 to E_MAX; the first is E_MAX, so that all tables are needed."""
    dims = np.random.default_rng(seed).integers(1, E_MAX + 1, n_series)
    dims[0] = E_MAX
    return dims


def prepare(space, data, quick):
    """Runs of the report, on simulated series; see `portable.roofline.cases.Case`."""
    small, gpu = quick or space == "checked", space.startswith("cuda")
    n_steps, n_series = (40, 3) if small else SHAPES["cuda"][0] if gpu else (800, 20)
    long, mapped = (40, 40) if small else SEARCHED["cuda" if gpu else "cpu"]
    series, x = coupled_logistic(n_steps, n_series), coupled_logistic(long, 1)[:, 0]
    dims = np.minimum(random_dims(n_series), n_steps // 10)
    theta = np.arange(2.0) if small else np.arange(8.0)

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
            "11 nearest neighbours, E = 10" if not small else "3 nearest neighbours, E = 2",
            long,
            "points",
            lambda: float(
                edm.knn(x, 2 if small else 10, dtype="float32", space=space).distances[:, -1].mean()
            ),
        ),
        run(
            f"S-maps, E = 3, {len(theta)} thetas",
            mapped,
            "points",
            lambda: float(edm.smap(x[:mapped], 3, theta=theta, space=space).rho[-1]),
        ),
    ]


def duels(space, n, quick):
    """Ours against kedm, SciPy's tree, scikit-learn, faiss, FastCCM; see `portable.roofline.cases.Case`."""
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
    data, result = coupled_logistic(n_steps, n_series), []
    dims = random_dims(n_series) if dims is None else dims
    if n_steps < 2 * E_MAX + 2:
        dims = np.minimum(dims, 4)

    def call():
        result[:] = [edm.cross_map(data, dims, space=space)]

    rivals, absent = peers.gather("edm", space, "cross_map", data, dims, tools=tools)
    ours = Contender(f"portable, {space}", call, result=lambda: float(result[0].mean()))
    title = f"cross map, {n_series:,} series of {n_steps:,} steps, E up to {dims.max()}"
    return Duel(
        title, ours, rivals, absent, tolerance=1e-3
    )  # kedm takes equal points for none, and sums in float32


def _neighbours(space, n_steps, E):
    x, result = np.random.default_rng(1931).random(n_steps, np.float32), []

    def call():
        result[:] = [edm.knn(x, E, dtype="float32", space=space)]

    rivals, absent = peers.gather("edm", space, "neighbours", x, E, tools=TOOLS)
    ours = Contender(f"portable, {space}", call, result=lambda: float(result[0].distances[:, -1].mean()))
    return Duel(
        f"{E + 1} nearest neighbours of each point, {n_steps:,} steps, E = {E}",
        ours,
        rivals,
        absent,
        tolerance=1e-3,
    )


def _simplex(space, n_steps, E):
    x, result = np.random.default_rng(1931).random(n_steps, np.float32), []

    def call():
        result[:] = [edm.simplex(x, E, dtype="float32", space=space)]

    rivals, absent = peers.gather("edm", space, "simplex", x, E, tools=TOOLS[:1])
    ours = Contender(f"portable, {space}", call, result=lambda: float(result[0].predicted.mean()))
    title = f"simplex projection of one series, {n_steps:,} steps, E = {E}"
    return Duel(title, ours, rivals, absent, tolerance=1e-5)  # float32, weights of another order


def _smap(space, n_steps, E):
    x, result = coupled_logistic(n_steps, 1)[:, 0], []

    def call():
        result[:] = [edm.smap(x, E, theta=2.0, space=space)]

    rivals, absent = peers.gather("edm", space, "smap", x, E, tools=PAIRING)
    ours = Contender(f"portable, {space}", call, result=lambda: float(result[0].rho[0]))
    return Duel(f"S-map of one series, {n_steps:,} steps, E = {E}", ours, rivals, absent, tolerance=1e-3)
