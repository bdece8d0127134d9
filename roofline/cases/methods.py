"""One run of each method and of each function of the layer, on simulated inputs, for the report.

Hawkes processes are in a separate file, with real data; duels against peers are in the files of each method.
"""

import functools

import numpy as np

import portable as pk
from portable.models import mixture, resampling, tmap
from portable.roofline.cases import common, layer
from portable.roofline.cases.mixture import K, P, packed, records
from portable.roofline.contract import Run

ITERATIONS = 3  # of EM: all do the same work
SCHEMES = ("systematic", "multinomial", "metropolis", "rejection")
STEPS = 16  # of the Metropolis scheme


def prepare(space, data, quick):
    """Return runs of all methods; see `portable.roofline.cases.Case`. Real data are not used."""
    # on a GPU smaller sizes would only measure launches
    whole = (1_000_000, 10_000_000, 50_000_000), (50_000, 1_000_000, 10_000_000)
    points, particles, elements = common.size(space, quick, (40, 60, 600), (100, 1_000, 10_000), *whole)
    return [
        *_mixture(space, points),
        *_tmap(space, points),
        *_resampling(space, particles),
        *_words(space, elements),
    ]


def simulated_run(method, size, unit, space, call):
    """Return a Run on simulated input, which waits for the work of its call."""
    return Run(method, "simulated", size, unit, call, sync=functools.partial(pk.fence, space))


@functools.cache
def two_clouds(n):
    """Return points of a mixture, shape (n, P)."""
    random = np.random.default_rng(0)
    return random.normal(size=(n, P)) + 4.0 * random.integers(0, 2, (n, 1))


def mixture_of(k, space, iterations=ITERATIONS):
    """Return a mixture that is fitted by a number of iterations of EM, beginning at points."""
    about = {"prior": mixture.Prior(scale=np.eye(P)), "tol": -1.0, "moves": False, "random_state": 0}
    return mixture.DirichletMixture(k, max_iter=iterations, space=space, **about)


def three_branches():
    """Return a TMAP of orders 1, 2 and 3."""
    return tmap.TransientMAP([0.3, 0.3, 0.4], [1, 2, 3], [1.0, 2.0, 3.0], np.full((3, 3), 0.29))


def _mixture(space, n):
    points, rec = two_clouds(n), records(np.random.default_rng(1))
    views = pk.copy_of(points.T.copy(), space), pk.copy_of(rec, space), pk.empty((n,), np.float64, space)
    k = 2 if space == "checked" else 16

    def fit():
        return float(mixture_of(k, space).fit(points).objective_history_[-1])

    density = common.launch_over(space, n, packed, *views)
    return [
        simulated_run(f"mixture density, {P} dimensions, {K} components", n, "points", space, density),
        simulated_run(f"mixture, {ITERATIONS} EM iterations, {k} components", n, "points", space, fit),
    ]


def _tmap(space, n):
    model = three_branches()
    runs = model.simulate(n, seed=1, space=space)

    def fit():
        return tmap.fit(runs, orders=[1, 2, 3], max_iter=ITERATIONS, tol=0.0, space=space)[1].log_likelihood

    likelihood = functools.partial(model.log_likelihood, runs, space=space)
    return [
        simulated_run("TMAP, log-likelihood, 3 branches", runs.n_gaps, "gaps", space, likelihood),
        simulated_run(f"TMAP, {ITERATIONS} EM iterations, 3 branches", runs.n_gaps, "gaps", space, fit),
    ]


def _resampling(space, n):
    weights = pk.copy_of(np.random.default_rng(0).random(n), space)
    for name in SCHEMES:
        options = {"n_steps": STEPS} if name == "metropolis" else {}
        scheme = functools.partial(getattr(resampling, name), weights, seed=1, space=space, **options)
        yield simulated_run(f"resampling, {name}", n, "particles", space, functools.partial(silent, scheme))


def silent(call):
    """Run a call, and discard its result, which is no number."""
    call()


def _words(space, n):
    """Yield a run of each function; its arrays are made at the first call, because they are large."""
    edge, side = max(3, round(n ** (1 / 3))), max(1, round((16 * n) ** (1 / 3) / layer.T)) * layer.T
    every, box = pk.RangePolicy(0, n, space=space), pk.MDRangePolicy((1,) * 3, (edge - 1,) * 3, space=space)
    tiles = pk.TeamPolicy((side // layer.T) ** 2, space=space)

    def drawn(*shape):
        return pk.copy_of(np.random.default_rng(0).random(shape), space)

    @functools.cache
    def vectors():
        return drawn(n), drawn(n)

    def cubes():
        cube = pk.copy_of(np.resize(np.random.default_rng(0).random(1000), (edge,) * 3), space)
        return cube, pk.zeros(cube.shape, np.float64, space)

    def bins():
        values = np.random.default_rng(0).integers(0, layer.BINS, n, np.int32)
        return pk.copy_of(values, space), pk.ScatterView(pk.zeros((layer.BINS,), np.int32, space))

    def squares():
        return [drawn(side, side) for _ in range(3)]

    for name, size, unit, word, policy, kernel, numbers, arrays in (
        ("axpy", n, "elements", pk.parallel_for, every, layer.axpy, (layer.A,), vectors),
        ("dot product", n, "elements", pk.parallel_reduce, every, layer.product, (), vectors),
        ("matrix product, tiles in scratch", side, "rows", pk.parallel_for, tiles, layer.matmul, (), squares),
        ("7-point stencil", edge, "planes", pk.parallel_for, box, layer.stencil, (), cubes),
        ("histogram", n, "elements", pk.parallel_for, every, layer.count, (), bins),
    ):
        launch = functools.partial(word, policy, kernel, *numbers)
        yield simulated_run(name, size, unit, space, _launching(launch, arrays))


def _launching(launch, arrays):
    """Return a call that launches with arrays that are made once, at the first call."""
    made = functools.cache(arrays)
    return lambda: launch(*made())
