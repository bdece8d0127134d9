"""Time public calls in the usual way: arrays of the host as input, results on the host.

On a device each call is compared with the same call on data that are already there, and with only the copies
of its bytes, from and to pinned memory; the time of its kernels is printed below. On a CPU it is compared
with the same call on "serial", at three sizes: a small call should not be slower because of threads.

`--n` scales all sizes: 1,000,000 leaves them unchanged.
"""

import functools
from dataclasses import dataclass

import numpy as np

import portable as pk
from portable.models import edm, hawkes, resampling, tmap
from portable.models.edm.simulated import coupled_logistic
from portable.roofline.cases import methods
from portable.roofline.cases.edm import random_dims
from portable.roofline.cases.hawkes import PARAMS, simulated
from portable.roofline.cases.mixture import P
from portable.roofline.cases.rest import CHAINS, SAMPLED, TIMES, begin, sampled, observation_log_density, walk
from portable.roofline.contract import Contender, Duel
from portable.roofline.profiling import profile
from portable.roofline.units import scaled

K, N_SERIES = 16, 50
COPIES = {"8 KiB": 8 << 10, "1 MiB": 1 << 20, "1 GiB": 1 << 30}
SIZES = (0.002, 0.03, 0.2)  # small, middle and large on a CPU, as shares of the sizes on a device


@dataclass(frozen=True)
class Call:
    """Store a public call.

    Attributes
    ----------
    title : str
    arrays : tuple of ndarrays
        The input.
    bytes_out : int
    bind : callable (space, *arrays) -> callable
        The part that is done once, with the arrays on the host or on the space; the returned callable is
        timed.
    """

    title: str
    arrays: tuple
    bytes_out: int
    bind: object


def duels(space, n, quick):
    """Return each public call with its peers; see `portable.roofline.cases.Case`."""
    small = quick or space == "checked"
    scale = (n or 1_000_000) / 1_000_000
    if not space.startswith("cuda"):
        shares = (2e-4,) if small else SIZES
        return [
            duel
            for share in shares
            for call in public_calls(scale * share)
            for duel in _beside_serial(call, space)
        ]
    copies = [_copy(space, name, nbytes) for name, nbytes in COPIES.items() if not small or nbytes <= 1 << 20]
    calls = public_calls(2e-4 if small else scale)
    return [*(duel for pair in copies for duel in pair), *(_beside_device(call, space) for call in calls)]


def _beside_serial(call, space):
    """Return one duel, without a peer if the space is serial."""
    own, other = (call.bind(name, *call.arrays) for name in (space, "serial"))
    return [
        Duel(call.title, Contender(space, own), [Contender("serial", other)] if space != "serial" else [])
    ]


def _beside_device(call, space):
    there = [pk.copy_of(array, space) for array in call.arrays]
    held = [pk.pinned(array.shape, array.dtype) for array in call.arrays]
    for pinned, array in zip(held, call.arrays):
        pinned[...] = array  # the copies use the same data as the call
    came = pk.pinned(max(call.bytes_out, 1), np.uint8)
    result = pk.empty(came.shape, np.uint8, space)

    def move():
        for view, array in zip(there, held):
            pk.deep_copy(view, array)
        pk.deep_copy(came, result)

    fence, on_there = functools.partial(pk.fence, space), call.bind(space, *there)
    return Duel(
        call.title,
        Contender(f"{space}, from the host", call.bind(space, *call.arrays), sync=fence),
        [
            Contender("the same on data that are there", on_there, sync=fence),
            Contender("the copies of its bytes, pinned", move, sync=fence),
        ],
        told=lambda rows: kernels_alone(on_there),
    )


def kernels_alone(call):
    """Return the time of only a call's kernels, in words."""
    with profile() as heard:
        call()
    total = sum(event.seconds for event in heard.events)
    return f"its kernels alone take {scaled(total, 's')}, in {len(heard.events):,} launches"


def _copy(space, name, nbytes):
    """Yield duels of copies from NumPy to the device and back, against those of pinned memory."""
    host, pinned = np.ones(nbytes, np.uint8), pk.pinned(nbytes, np.uint8)
    view = pk.empty((nbytes,), np.uint8, space)
    for way, label, ours, peer in (
        ("to the device", "from NumPy", (view, host), (view, pinned)),
        ("back", "to NumPy", (host, view), (pinned, view)),
    ):
        sides = (
            Contender(name, functools.partial(pk.deep_copy, *both))
            for name, both in ((label, ours), ("pinned", peer))
        )
        yield Duel(f"deep_copy of {name} {way}", next(sides), [*sides], bytes=nbytes)


def public_calls(scale, fitted_share=1.0):
    """Return the Calls of every method, at a share of the sizes on a device; a mixture is fitted to
    `fitted_share` of its points."""

    def sized(n):
        return max(round(n * scale), 40)

    return [*_mixture(sized, fitted_share), *_tmap(sized), *_hawkes(sized), *_resampling(sized), *_edm(sized)]


def _mixture(sized, fitted_share):
    points = methods.two_clouds(sized(1_000_000))
    many = methods.two_clouds(sized(5_000_000 * fitted_share))

    @functools.cache
    def fitted(space):
        return methods.mixture_of(min(K, len(points) // 4), space).fit(points)

    size = f"{len(points):,} x {P}, {K} components"
    for name, width in (("predict", 1), ("predict_proba", K)):
        yield Call(
            f"mixture, {name}, {size}",
            (points,),
            8 * width * len(points),
            lambda space, X, name=name: functools.partial(getattr(fitted(space), name), X),
        )
    k = min(64, len(many) // 4)
    yield Call(
        f"mixture, fit, {len(many):,} x {P}, {k} components, 10 iterations, start included",
        (many,),
        0,
        lambda space, X: lambda: methods.mixture_of(k, space, 10).fit(X),
    )


def _tmap(sized):
    model = methods.three_branches()
    runs = model.simulate(sized(875_000), seed=1, space="serial")
    arrays = runs.values, runs.lengths

    def likelihood(space, values, lengths):
        return lambda: model.log_likelihood(tmap.Runs(values, lengths, space=space), space=space)

    def fit(space, values, lengths, iterations):
        return lambda: tmap.fit(
            tmap.Runs(values, lengths, space=space),
            orders=[1, 2, 3],
            max_iter=iterations,
            tol=0.0,
            n_starts=1,
            space=space,
        )

    yield Call(f"TMAP, log-likelihood, {runs.n_gaps:,} gaps", arrays, 8, likelihood)
    for iterations in (3, 50):
        yield Call(
            f"TMAP, {iterations} EM iterations from one start, {runs.n_gaps:,} gaps",
            arrays,
            8,
            functools.partial(fit, iterations=iterations),
        )


def _hawkes(sized):
    n = sized(50_000)
    locations, times = simulated(n, PARAMS, 2.0 * n)

    def sample(space, locations, times):
        likelihood = hawkes.Likelihood(locations, times, space=space, method="windowed", keep_background=True)
        return functools.partial(sampled, likelihood)

    def likelihood(space, locations, times):
        return lambda: hawkes.Likelihood(locations, times, space=space, method="all_pairs").log_likelihood(
            PARAMS
        )

    yield Call(f"Hawkes, {SAMPLED} steps of {CHAINS} chains, {n:,} events", (locations, times), 0, sample)
    yield Call(f"Hawkes, log-likelihood, all pairs, {n:,} events", (locations, times), 8, likelihood)


def _resampling(sized):
    n = sized(4_000_000)

    def smooth(space, values):
        model = resampling.ParticleFilter(begin, walk, observation_log_density, in_place=False, space=space)
        return lambda: model.run(values, n, seed=1, keep=True).trajectories(n, seed=2)

    yield Call(f"particle filter, {TIMES} steps with paths, {n:,} particles", (np.zeros(TIMES),), 0, smooth)
    weights = np.random.default_rng(0).random(n)
    for name in ("systematic", "multinomial"):
        yield Call(
            f"resampling, {name}, {n:,} particles",
            (weights,),
            8 * n,
            lambda space, w, name=name: functools.partial(getattr(resampling, name), w, seed=1, space=space),
        )


def _edm(sized):
    random = np.random.default_rng(1931)
    long, short, mapped = (random.random(sized(n)) for n in (50_000, 10_000, 3_000))

    def simplex(E):
        return lambda space, x: functools.partial(edm.simplex, x, E, dtype="float32", space=space)

    yield Call(f"EDM, simplex, E = 1, {len(long):,} points", (long,), 0, simplex(1))
    for E in (1, 5, 10, 20):
        if len(short) > 4 * E:
            yield Call(f"EDM, simplex, E = {E}, {len(short):,} points", (short,), 0, simplex(E))
    n_steps = sized(1_600)
    dims = np.minimum(random_dims(N_SERIES), n_steps // 10)
    yield Call(
        f"EDM, cross map, {N_SERIES} series of {n_steps:,} steps",
        (coupled_logistic(n_steps, N_SERIES),),
        4 * N_SERIES**2,
        lambda space, series: functools.partial(edm.cross_map, series, dims, space=space),
    )
    yield Call(
        f"EDM, S-maps, E = 3, {len(mapped):,} points, 8 thetas",
        (mapped,),
        0,
        lambda space, x: functools.partial(edm.smap, x, 3, theta=np.arange(8.0), space=space),
    )
