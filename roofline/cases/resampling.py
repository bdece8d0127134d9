"""Compare resampling with the libraries that implement it, scheme by scheme, with the weights of the paper's
experiment at y = 2.

On a CPU ours is the public call, with checks and allocation, as is the peer's. On a GPU ours is the graph of
a call's launches, with weights in float32: the device's work, without the host's part, which in a filter
overlaps with the device's work. There a step of a stochastic-volatility filter with resampling is compared
with a copy of its states, log-weights and ancestors.
"""

import functools

import numpy as np

import portable as pk
from portable.models import resampling
from portable.models.resampling import launches
from portable.models.resampling.filter_run import Run
from portable.models.resampling.weights import Tables
from portable.roofline.cases import common, filters
from portable.roofline.contract import Contender, Duel

SCHEMES = "systematic stratified multinomial residual ssp".split()
ON_DEVICE = (("systematic", ()), ("metropolis", (16,)))
STEPS = 16  # of Metropolis
SEED = 7


def duels(space, n, quick):
    """Return the duels of ours with its peers for each scheme; see `portable.roofline.cases.Case`."""
    on_device = space.startswith("cuda")
    sizes = [n] if n else common.size(space, quick, [64], [1_000], [1 << 20, 1 << 24], [1 << 20, 1 << 22])
    return [
        duel for size in sizes for duel in (_on_device(space, size) if on_device else _on_host(space, size))
    ]


def _particles(n, dtype=np.float64):
    """Return states x ~ N(0, 1) and weights proportional to N(x; 2, 1)."""
    x = np.random.default_rng(0).normal(size=n)
    return x, np.exp(-0.5 * (x - 2.0) ** 2).astype(dtype)


def _on_host(space, n):
    x, w = _particles(n)
    for name in SCHEMES:
        call = functools.partial(getattr(resampling, name), w, seed=SEED, space=space)
        title = f"{name}, {n:,} float64 weights"
        yield _duel(title, space, call, lambda call=call: _mean(x, call()), name, x, w)


def _on_device(space, n):
    x, w = _particles(n, np.float32)
    with pk.use(space):
        values, ancestors = pk.copy_of(w).reshape(1, -1), pk.empty((1, n), np.int64)
        for name, options in ON_DEVICE:
            tables = Tables(values, False, n)
            draw = functools.partial(_launch, name, tables, ancestors, options)
            draw()  # compiles
            with pk.capture() as graph:
                draw()

            def result(graph=graph):
                graph.replay()
                return _mean(x, ancestors.to_numpy()[0])

            title = f"{name}{f', {STEPS} steps' * bool(options)}, {n:,} float32 weights"
            label = f", a graph of {len(graph.launches)} launches"
            yield _duel(title, space, graph.replay, result, name, x, w, label)
    for dtype in (np.float32, np.float64):
        yield _filter_step(space, n, dtype)


@pk.kernel
def copy(i, x, log_w, ancestors, other_x, other_log_w, other_ancestors):
    """Copy an index's 12 bytes, in float64 20."""
    other_x[i] = x[i]
    other_log_w[i] = log_w[i]
    other_ancestors[i] = ancestors[i]


def _filter_step(space, n, dtype):
    """Return the duel of a step of x_t = phi x_(t-1) + sigma e_t, y_t = exp(x_t / 2) d_t, always
    resampled."""
    with pk.use(space):
        parts = filters.functions(pk.random.normal32 if dtype == np.float32 else pk.random.normal)
        model = resampling.ParticleFilter(*parts, filters.log_weight, threshold=1.0, dtype=dtype, space=space)
        data = model.data([0.3, -0.2, 0.5], [0.95, 0.3], None)
        run = Run(model, data, n, np.array([[SEED]], np.uint64), means=False)
        run.step(0)
        run.step(1)
        own = run.x[1, 0, 0], run.log_w[0, 0], run.ancestors[0, 0]
        other = [pk.empty((n,), view.dtype) for view in own]
        pk.parallel_for(n, copy, *own, *other)
        with pk.capture() as step:
            run.step(1)
        with pk.capture() as copied:
            pk.parallel_for(n, copy, *own, *other)
    ours = common.ours(space, step.replay, label=f", a graph of {len(step.launches)} launches")
    return Duel(
        f"a step of a filter, {n:,} particles in {np.dtype(dtype).name}",
        ours,
        [Contender("a copy of states, log-weights and ancestors", copied.replay, sync=ours.sync)],
        bytes=(8 + 4 * np.dtype(dtype).itemsize) * n,
    )


def _launch(name, tables, ancestors, options):
    tables.find_extremes()
    if name != "metropolis":
        tables.add_up()
    getattr(launches, name)(tables, np.uint64(SEED), np.uint64(0), ancestors, *options)


def _mean(x, ancestors):
    return float(x[ancestors].mean())


def _duel(title, space, call, result, name, x, w, label=""):
    """Return a duel whose result is the posterior mean, 1; draws differ, so means differ by a few standard
    errors."""
    about = {"tolerance": 10 / len(x) ** 0.5, "bytes": 8 * len(x) + w.nbytes}
    return common.duel(title, space, call, "resampling", name, x, w, result=result, label=label, **about)
