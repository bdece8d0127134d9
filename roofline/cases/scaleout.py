"""From one place to many: the time of an iteration on a cluster, its parts, and predictions for a thousand
GPUs.

`python -m portable.roofline compare scaleout` compares two GPUs with one of them, and on a CPU two workers of
2 GiB with one process that streams the same data. `python -m portable.roofline scaleout` measures workers on
this machine, fits

    t(W) = a + b W + D W / B + U W / B + c ceil(S / W) W / min(W, cores)                                 (1)

to the first four terms only, with workers that do no work, and prints the predictions of (1) next to the
methods' measured times. a + b W is the latency of requests to W workers and their replies, D the bytes sent
to each worker in a step, U the bytes that it returns, B bytes a second, c the seconds of one of the S shards
on a core, measured in one process.
"""

import contextlib
import functools
import math
import os
import statistics
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import portable as pk
from portable.models.shared import cluster, sharding
from portable.models import hawkes, tmap
from portable.models.edm.mapping import Maps, Sets
from portable.models.mixture.blocks import Components, Points
from portable.models.mixture.prior import WithoutPrior
from portable.models.mixture.steps import FullSteps
from portable.models.tmap.em import EM
from portable.errors import InputError
from portable.roofline.cases import methods
from portable.roofline.cases.mixture import P
from portable.roofline.contract import Contender, Duel
from portable.roofline.grid import grid

LIMIT = "2GiB"  # of a worker
WORKERS = 1, 2, 4, 8, 16, 32  # numbers above 8 only on a machine with a core for each
FASTER = 100  # assumed: times the speed of a core here, of a place of the prediction
HALF = 0.5  # of the ideal throughput: below, a method has stopped scaling
MODEL = methods.three_branches()


@dataclass(frozen=True)
class Step:
    """Store a step that is repeated on shards that stay in place.

    Attributes
    ----------
    title : str
    call : callable
        One step.
    n_shards : int
    down, up : int
        Bytes sent to a worker in a step, and returned for one node of a sum, or for one shard.
    summed : bool
        Whether results are summed on the way: then a worker returns a node or a few, else one result for each
        shard.
    power : int
        The work grows with this power of the size of the data.
    most : float
        The most shards into which any data are divided.
    """

    title: str
    call: object
    n_shards: int
    down: int
    up: int
    summed: bool
    power: int = 1
    most: float = math.inf

    def returned(self, n_workers: float) -> float:
        """Return bytes that a worker returns: about two nodes for each level that is divided, or all of its
        shards."""
        own = max(self.n_shards / n_workers, 1.0)
        return self.up * (min(own, 1.0 + math.log2(own)) if self.summed else own)


# ---- the methods
def mixture_step(X, k, space, client=None, streamed=False):
    """Return an EM iteration of full covariances by maximum likelihood."""
    # points as means, so that each component keeps some points, however many iterations follow
    means, factors = np.asarray(X[:: len(X) // k][:k], np.float64), np.tile(np.eye(P), (k, 1, 1))
    points = Points(X, k, space, np.zeros(P), False, streamed, client=client)
    steps = FullSteps(points, WithoutPrior(1e-6, "full", np.full(k, 1.0 / k)), means, factors)

    def call():
        steps.sweep()
        steps.advance()

    down, up = k * (P * (P + 3) // 2 + 1) * X.itemsize, k * (P + 1) * (P + 2) // 2 * 8
    title = f"mixture EM, {len(X):,} x {P} {X.dtype}, {k} components"
    step = Step(title, call, len(points.starts), down, up, True)
    return step, lambda: points.log_likelihood(Components(np.full(k, -np.log(k)), means, factors))


def tmap_step(runs, space, client=None, memory_bytes=None, times=1):
    """Return an EM iteration of three branches from one start, or several iterations, after which a fit tests
    for convergence."""
    em = EM(runs, MODEL.orders, 1, np.float64, space, memory_bytes, client)
    history = pk.zeros((1, 1_000_000), np.float64, em.space)
    iteration = em.iterations(times, 999_999, -1.0, history)  # it never converges
    em.load([MODEL])
    n_sums = 1 + 4 * 3 + 9

    def call():
        iteration.replay()
        pk.fence(em.space)

    iterations = f", {times} iterations" if times > 1 else ""
    step = Step(f"TMAP EM, {runs.n_gaps:,} gaps{iterations}", call, em.n_shards, 500, n_sums * 8, True)
    return step, lambda: em.expectation([MODEL])[0].loglik


def map_step(data, space, client=None, most=3):
    """Return a whole cross map, of targets with up to `most` dimensions."""
    n_times, n_series = data.shape
    first = most - 1
    dims = np.arange(n_series) % most + 1
    args = data, data, data, dims, 1, 0, [(first, n_times)], 0, "float32", 2**30
    pieces = [Sets(np.arange(k, k + 1), None) for k in range(n_series)]
    make = functools.partial(Maps, args, {}, np.arange(first, n_times)[None])
    shards = sharding.Shards(make, pieces, client=client, space=space, label="cross_map")
    step = Step(
        f"cross map, {n_series:,} series of {n_times:,}, E up to {most}",
        lambda: shards.map("rho"),
        n_series,
        500,
        n_series * 8,
        False,
        power=2,
    )
    return step, lambda: float(np.sum(shards.map("rho")))


def hawkes_step(n_events, space, client=None):
    """Return a log-likelihood over all pairs with other parameters of the triggering function; the background
    is kept."""
    random = np.random.default_rng(3)
    events = random.normal(size=(n_events, 2)), np.sort(random.uniform(0.0, 0.1 * n_events, n_events))
    likelihood = hawkes.Likelihood(*events, method="all_pairs", space=space, client=client)
    params = hawkes.Parameters(mu0=1.0, tau_x=1.6, tau_t=336.0, theta=0.3, omega=1.0, h=0.1)
    title = f"Hawkes by all pairs, {n_events:,} events"
    call = functools.partial(likelihood.log_likelihood, params)
    most = max(likelihood.n_shards, 32)
    return Step(title, call, likelihood.n_shards, 500, 16, True, power=2, most=most), call


def random_runs(n_gaps):
    random = np.random.default_rng(1)
    lengths = 1 + random.geometric(1 / 7.82, max(n_gaps // 9, 1))
    return tmap.Runs(random.exponential(1.0, lengths.sum()), lengths)


def random_points(n, path=None):
    """Return random points in float32; with `path` in a memory map, which is written in parts."""
    random, part = np.random.default_rng(0), 1_000_000
    X = (
        np.empty((n, P), np.float32)
        if path is None
        else np.lib.format.open_memmap(path, "w+", np.float32, (n, P))
    )
    for begin in range(0, n, part):
        rows = X[begin : begin + part]
        rows[:] = random.standard_normal(rows.shape, np.float32) + 3.0 * random.integers(0, 3, (len(rows), 1))
    if path is None:
        return X
    X.flush()
    return np.load(path, mmap_mode="r")


def random_series(n_series, n_times):
    return np.random.default_rng(2).random((n_times, n_series)).astype(np.float32)


# ---- compare scaleout
def duels(space, n, quick):
    """Return the duels of two GPUs against one, or of two workers against one process; see
    `portable.roofline.cases.Case`. `n` is the number of points."""
    small = quick or space == "checked"
    if space.startswith("cuda"):
        return _gpus(n, small)
    n = n or (20_000 if small else 10_000_000)
    stack = contextlib.ExitStack()
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    client = stack.enter_context(cluster.private(2, memory_limit=0 if small else LIMIT, processes=not small))
    X = random_points(n, folder / "points.npy")
    runs = random_runs(n)
    makers = [
        lambda space, client: mixture_step(X, 16, space, client, streamed=True),
        lambda space, client: tmap_step(runs, space, client),
    ]
    found = []
    for number, make in enumerate(makers):
        (two, value), (one, other) = make(None, client), make(space, None)
        # the cluster and the file exist until the last result is computed
        end = stack.close if number else lambda: None
        peer = Contender(
            f"one process, {space}", one.call, result=lambda other=other, end=end: (other(), end())[0]
        )
        title = f"{two.title}: an iteration by two workers of {LIMIT}, {two.n_shards} shards"
        found.append(Duel(title, Contender("two workers", two.call, result=value), [peer], tolerance=1e-13))
    return found


def _gpus(n, small):
    reason = pk.unavailable_because("cuda:1")
    if reason:
        raise InputError(f"compare scaleout on cuda sets two GPUs beside one: {reason}")
    X = random_points(2_000 if small else n or 10_000_000)
    runs = random_runs(10_000 if small else 100_000_000)
    data = random_series(*((20, 200) if small else (1000, 3780)))
    makers = (
        lambda space: mixture_step(X, 256, space),
        lambda space: tmap_step(runs, space, times=10),
        lambda space: map_step(data, space, most=20),
        lambda space: hawkes_step(500 if small else 150_000, space),
    )
    found = []
    for make in makers:
        (two, value), (one, other) = make(["cuda:0", "cuda:1"]), make("cuda:0")
        peer = Contender("one GPU", one.call, result=other)
        ours = Contender("two GPUs", two.call, result=value)
        found.append(Duel(two.title, ours, [peer], tolerance=1e-12))
    return found


# ---- the model
class Nothing:
    """Measure communication: a method without work."""

    def __init__(self, space):
        pass

    def prepare(self, piece):
        return piece

    def travel(self, shards, sent, n_bytes):
        """Return `n_bytes` bytes for each shard."""
        return ((np.zeros(n_bytes // 8),) for _ in shards)


@dataclass(frozen=True)
class Costs:
    """Store a, b and 1 / B of (1), in seconds."""

    base: float
    each: float
    a_byte: float

    def extra_seconds(self, step: Step, n_workers: float) -> float:
        """Return the time in addition to work, in seconds: latency, and bytes."""
        return self.latency(n_workers) + self.a_byte * n_workers * (step.down + step.returned(n_workers))

    def latency(self, n_workers: float) -> float:
        return self.base + self.each * n_workers


def timed(call, repeats):
    """Return seconds of a call, and its seconds beyond the work of the slowest worker, as medians; the first
    call is not counted."""
    call()
    times, rest = [], []
    for _ in range(repeats):
        with cluster.watched() as worked:
            begin = time.perf_counter()
            call()
            times.append(time.perf_counter() - begin)
        rest.append(times[-1] - sum(worked))
    return statistics.median(times), statistics.median(rest)


def probe(client, n_workers, repeats, size):
    """Yield (workers, bytes, seconds) of maps without work: with next to no bytes, with `size` to each
    worker, and from each."""
    shards = sharding.Shards(Nothing, [np.zeros(1)] * n_workers, client=client, label="nothing")
    for sent, returned in ((0, 8), (size, 8), (0, size)):
        travel = functools.partial(shards.map, "travel", np.zeros(sent // 8), returned)
        seconds, _ = timed(travel, repeats)
        yield n_workers, n_workers * (sent + returned), seconds


def fitted(rows) -> Costs:
    """Return the least-squares fit of relative residuals, with three nonnegative coefficients."""
    workers, n_bytes, seconds = np.array(rows, float).T
    table = np.stack([np.ones(len(workers)), workers, n_bytes], axis=1)
    free, found = [0, 1, 2], np.zeros(3)
    while free:
        found[:] = 0.0
        found[free] = np.linalg.lstsq(table[:, free] / seconds[:, None], np.ones(len(seconds)), rcond=None)[0]
        if (found >= 0.0).all():
            break
        free.remove(int(found.argmin()))
    return Costs(*found.tolist())


def steps_of(quick, space, client=None):
    """Yield the methods at a size for a few cores."""
    n = 20_000 if quick else 1_000_000
    yield mixture_step(random_points(n), 4 if quick else 16, space, client)[0]
    yield tmap_step(random_runs(n if quick else 10 * n), space, client)[0]
    yield map_step(random_series(*((16, 200) if quick else (200, 1000))), space, client)[0]
    yield hawkes_step(500 if quick else 10_000, space if client else [space], client)[0]


def measured(workers, quick, repeats, say=lambda text: None):
    """Return the costs, seconds of a step in one process on one core, and (step, workers, seconds, seconds
    beyond the slowest worker's work) of each step on workers."""
    alone = [(step, timed(step.call, repeats)[0]) for step in steps_of(quick, "threads:1")]
    rows, found = [], []
    for n_workers in workers:
        say(f"{n_workers} workers")
        with cluster.private(n_workers, processes=not quick) as client:
            rows += probe(client, n_workers, 5 * repeats, 2**16 if quick else 2**22)
            found += [(step, n_workers, *timed(step.call, repeats)) for step in steps_of(quick, None, client)]
    return fitted(rows), rows, alone, found


def work(step, seconds, n_workers, cores):
    """Return the last term of (1): the time of a worker's shards if `n_workers` share `cores`."""
    own = math.ceil(step.n_shards / n_workers)
    return seconds / step.n_shards * own * max(n_workers / cores, 1.0)


def seconds_on_workers(step, seconds, costs, n_workers):
    """Return seconds of a step on `n_workers` places, each of which takes `seconds` for all the work, and the
    name of the largest part."""
    parts = {
        "work": seconds / n_workers,
        "shards that are too few": work(step, seconds, n_workers, n_workers) - seconds / n_workers,
        "latency": costs.latency(n_workers),
        "bytes": costs.extra_seconds(step, n_workers) - costs.latency(n_workers),
    }
    return sum(parts.values()), max(parts, key=parts.get)


def stops_at(step, seconds, costs):
    """Return the least number of places whose throughput is less than HALF of the ideal."""
    n = 1
    while n < 2**20 and seconds / n / seconds_on_workers(step, seconds, costs, n)[0] >= HALF:
        n += max(n // 16, 1)
    return n


def large(step, seconds, factor):
    """Return the same method on `factor` times the data: its shards, and the seconds of its work."""
    up = step.up if step.summed else step.up * factor
    shards = min(step.n_shards * factor, step.most)
    return replace(step, n_shards=shards, up=up), seconds * factor**step.power


def tables(quick, say=lambda text: None):
    """Return the measured times next to those of (1), and its predictions; rich tables."""
    cores = os.cpu_count()
    workers = WORKERS[:2] if quick else [n for n in WORKERS if n <= max(8, cores)]
    costs, rows, alone, found = measured(workers, quick, 3 if quick else 7, say)
    return [
        _request_seconds(costs, rows),
        _measured(costs, alone, found, cores),
        _predicted(costs, alone),
    ]


def _request_seconds(costs, rows):
    bandwidth = f"{1e-6 / costs.a_byte:,.0f} MB/s" if costs.a_byte else "bytes free"
    fit = f"fitted: {1e3 * costs.base:.2f} ms + {1e3 * costs.each:.2f} ms a worker, {bandwidth}"
    cells = (
        (str(n), f"{n_bytes:,}", f"{1e3 * s:.2f}", f"{1e3 * (costs.latency(n) + costs.a_byte * n_bytes):.2f}")
        for n, n_bytes, s in rows
    )
    title = "asking workers of this machine for nothing"
    return grid(title, "workers|bytes|measured ms|model ms", cells, fit)


def _measured(costs, alone, found, cores):
    columns = "method<|shards|workers|measured ms|model ms|measured / model|beyond work ms"
    caption, rows = "beyond work: measured, less the slowest worker's time", []
    for step, seconds in alone:
        rows.append((step.title, str(step.n_shards), "no dask", f"{1e3 * seconds:.1f}"))
        for other, n_workers, took, rest in found:
            if other.title == step.title:
                model = work(step, seconds, n_workers, cores) + costs.extra_seconds(step, n_workers)
                numbers = f"{1e3 * took:.1f}", f"{1e3 * model:.1f}", f"{took / model:.2f}"
                rows.append(("", "", str(n_workers), *numbers, f"{1e3 * rest:.1f}"))
    return grid(f"a step of each method, {cores} cores", columns, rows, caption)


def _predicted(costs, alone):
    title = f"predicted: places each {FASTER} times a core here, asked as processes of one machine are"
    caption = f"'{HALF:.0%} at': places beyond which their throughput is below that share"
    columns, rows = f"method<|data|1 place ms|10|100|1,000|at 1,000 most is|{HALF:.0%} at", []
    for step, seconds in alone:
        for factor, name in ((1, step.title), (100, "")):
            bigger, whole = large(step, seconds / FASTER, factor)
            times = [seconds_on_workers(bigger, whole, costs, n) for n in (1, 10, 100, 1000)]
            shown = [f"{1e3 * seconds:,.2f}" for seconds, _ in times]
            rows.append((name, f"x {factor}", *shown, times[-1][1], f"{stops_at(bigger, whole, costs):,}"))
    return grid(title, columns, rows, caption)
