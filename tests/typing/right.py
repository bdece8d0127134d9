"""Programs that are right: a type checker reports no error here."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import portable as pk
from portable import roofline
from portable.models import edm, hawkes, mixture, resampling, tmap


@pk.function
def square(x: float) -> float:
    return x * x


@pk.kernel
def axpy(i: int, a: float, x: pk.ArrayLike, y: pk.ArrayLike) -> None:
    y[i] += a * square(x[i]) + pk.exp(x[i])


@pk.kernel(fastmath=True)
def distance(i: int, j: int, x: pk.ArrayLike, out: pk.ArrayLike) -> None:
    out[i, j] = pk.hypot(x[i] - x[j], 1.0)


@pk.kernel
def brick(i: int, j: int, k: int, out: pk.ArrayLike) -> None:
    out[i, j, k] = pk.random.uniform(1, i, j) + pk.where(k > 0, 1.0, 0.0)


@pk.kernel
def block(i: int, j: int, k: int, m: int, out: pk.ArrayLike) -> None:
    out[i, j, k, m] = i + j + k + m


@pk.kernel
def turned(i: int, turn: complex, z: pk.ArrayLike) -> Any:
    z[i] = turn * z[i] + pk.complex64(1j)
    return z[i]


@pk.kernel
def total(i: int, x: pk.ArrayLike) -> Any:
    return x[i]


@pk.kernel
def squares(i: int, x: pk.ArrayLike) -> float:
    return square(x[i])


@pk.kernel
def twice(i: int, x: pk.ArrayLike) -> tuple[float, float]:
    return x[i], x[i]


@pk.kernel
def rows(team: pk.Team, p: int, a: pk.ArrayLike, out: pk.ArrayLike) -> None:
    row = team.scratch(16, pk.float64)
    largest = 0.0
    for j in team.thread_range(a.shape[1]):
        row[j % 16] = a[team.league_rank, j]
        largest = max(largest, a[team.league_rank, j])
    team.barrier()
    largest = team.reduce(largest, pk.Max)
    if team.single():
        for _ in range(pk.static(2)):
            pk.atomic_add(out, team.league_rank, largest + p)


class State(NamedTuple):
    x: pk.ArrayLike
    step: float


@pk.kernel
def move(i: int, state: State) -> None:
    state.x[i] += state.step * pk.random.normal(7, i, 0)


def hawkes_of(locations: list[list[float]], times: list[float]) -> dict[str, float]:
    """Calls that take too long to be run."""
    likelihood = hawkes.Likelihood(locations, times, method="windowed", space=["serial", "threads"])
    found = hawkes.fit(likelihood, start=hawkes.compose("omori")(1.0, 1.0, 1.0, 0.3, c=0.5, p=1.2, h=0.1))
    posterior = hawkes.sample_posterior(
        likelihood, n_draws=10, priors={"theta": hawkes.uniform(0, 1)}, fixed=["h"]
    )
    low, high = found.interval("theta", level=0.9)
    triggered = likelihood.excitation_probabilities(posterior.mean()) > 0.5
    catalogue = hawkes.read_catalogue({"t_hours": times}, end=np.datetime64("2025-08-14"), length_unit="m")
    rows = catalogue.joined(triggered=triggered)
    return {name: posterior[name].mean() for name in posterior.free} | {
        "delay": found.params.c,
        "low": low,
        "rows": len(rows),
    }


def tmap_of(runs: tmap.Runs) -> str:
    """Calls that take too long to be run."""
    process, info = tmap.fit(runs, orders=[1, 3], start="paper", checkpoint="folder", space="cuda")
    errors: tmap.StandardErrors = tmap.standard_errors(process, runs)
    best = tmap.select_orders(runs, 4, criterion="aic", max_iter=200)[0].model
    tmap.TransientMAP.load("model.json").save("model.json")
    return f"{best.gap_moment(1, 2) + info.log_likelihood} {errors.rates / process.rates}"


@roofline.cost(flops=lambda n, x: n)
@pk.kernel
def counted(i: int, x: pk.ArrayLike) -> None:
    x[i] += 1.0


def families() -> float:
    truth = hawkes.Parameters(mu0=1, tau_x=1.6, tau_t=336.0, theta=0.3, omega=0.5, h=0.1)
    events = hawkes.simulate(truth, n_immigrants=5, horizon_h=100.0, seed=1)
    delays: float = truth.omega + events.times.sum()
    runs = tmap.Runs.from_lists([[1.0, 2.0], [0.5]], censored=[False, True]).subset([0])
    visits = tmap.TransientMAP([1.0], [1], [2.0], [[0.5]]).visits()
    return delays + runs.mean + float(runs.values.sum() + visits[0])


def timed() -> dict[str, Any]:
    """It measures ceilings, which takes too long here."""
    counts = roofline.count(pk.RangePolicy(0, 10), counted, np.zeros(10), executed=False)
    with roofline.profile(counted=True) as p, p.region("all"):
        pk.parallel_for(counts.flops, counted, np.zeros(10))
    roofs = roofline.ceilings("serial", special=[("exp", "float64")], quick=True)
    return roofline.report(p, "a program") | {"table": roofs.table()}


def cross_maps(x: np.ndarray[Any, Any]) -> float:
    """Not run: it would take long."""
    best: int = edm.embedding_dimension(x, E_max=np.int64(4)).best
    found = edm.simplex(x, best, lib=(0, 50), pred=[(50, 80), (80, 100)], space="serial")
    rho = edm.cross_map(np.stack([x, x], axis=1), [2, 2], dtype="float64", space=["serial", "threads:1"])
    grown = edm.ccm({"a": x, "b": x}, "a", 2, columns=["b"], library_sizes=range(10, 50, 10))
    tested = edm.cross_map_test(x[:, None], 2, surrogate="phase", method="by").adjusted("bh")
    low, high = grown.interval(0.9)
    return float(found.rho + rho[0, 1] + low[0] + high[0] + tested[0, 0] + edm.smap(x, 2, theta=0.5).rho[0])


@pk.function
def initial(seed, stream, draw, params):  # type: ignore[no-untyped-def]
    return (pk.random.normal(seed, stream, draw),)


@pk.function
def log_weight(t, state, observation, params):  # type: ignore[no-untyped-def]
    return -0.5 * (observation[0] - state[0]) ** 2


@pk.function
def propagate(t, state, seed, stream, draw, params):  # type: ignore[no-untyped-def]
    return (params[0] * state[0],)


def particles(w: np.ndarray[Any, Any]) -> float:
    """Not run: it would take long."""
    ancestors = resampling.systematic(w, seed=1, output="ancestors")
    again: pk.View = resampling.metropolis(pk.copy_of(w), seed=1, n_steps=10)
    model = resampling.StateSpaceModel(["phi"], ["x"], initial, propagate, log_weight)
    found = model.filter(method="systematic").run(
        w, 100, params={"phi": 0.5}, seed=1, quantiles=[0.5], keep=True
    )
    drawn = resampling.sample_pmmh(
        model, w, 100, priors={"phi": resampling.priors.uniform(0.0, 1.0)}, n_draws=10
    )
    paths = found.trajectories(3, seed=2)
    return float(
        found.log_likelihood
        + w[ancestors].sum()
        + found.means[0]
        + paths[0, 0, 0]
        + again.shape[0]
        + drawn["phi"].mean()
    )


def clusters(X: np.ndarray[Any, Any]) -> float:
    """Not run: it would take long."""
    model = mixture.DirichletMixture(
        3, prior=mixture.Prior(mean=[0.0, 0.0]), covariance="diag", random_state=0
    ).fit(X)
    gains = [move.gain for move in model.moves_ if move.kind == "split"]
    posterior = model.sample_posterior(X, 10, n_warmup=5)
    drawn, labels = model.sample(5)
    return (
        model.score(X)
        + sum(gains)
        + float(posterior.means.mean() + model.weights_[labels].sum() + drawn.sum())
    )


def main() -> float:
    n = 100
    x, y = np.arange(n, dtype=float), pk.zeros(n, "float64")
    pk.parallel_for(n, axpy, 2.0, x, y)
    pk.parallel_for(pk.RangePolicy(0, n, space="threads:2"), axpy, 2, pk.asview(x), y, label="axpy")
    pk.parallel_for(pk.MDRangePolicy((0, 0), (n, n)), distance, x, pk.empty((n, n)))
    pk.parallel_for(pk.MDRangePolicy((0, 0, 0), (2, 2, 2)), brick, np.empty((2, 2, 2)))
    pk.parallel_for(pk.MDRangePolicy((0,) * 4, (2,) * 4), block, np.empty((2, 2, 2, 2)))
    pk.parallel_reduce(n, turned, 1j, pk.zeros(n, "complex64"))
    pk.parallel_reduce(n, turned, np.complex128(2j), np.zeros(n, np.complex128))
    pk.parallel_for(pk.TeamPolicy(2, pk.AUTO), rows, pk.static(3), np.ones((2, 5)), np.zeros(2))
    pk.parallel_for(n, move, State(x, 0.5))
    again = pk.plan(n, axpy, 2.0, x, y)
    again()
    with pk.use("serial") as space, pk.capture() as graph:
        pk.parallel_for(n, axpy, 2.0, x, y)
    graph.replay()
    largest, least = pk.parallel_reduce(n, twice, x, reducer=(pk.Max, pk.Min))
    pk.parallel_reduce(n, total, x, out=pk.empty(1))
    pk.parallel_scan(n, total, x, out=np.empty(n), inclusive=False)
    order: pk.View = pk.argsort(x, descending=True)
    found, counts = pk.unique(x, counts=True)
    report = pk.check(n, axpy, 2.0, x, y)
    assert report.ok and space.name == "serial" and order.shape == found.shape == counts.shape
    draws = pk.random.normal(1, np.arange(4, dtype=np.uint64), 0)
    gathered: np.ndarray[Any, Any] = y.to_numpy()
    axpy(3, 2.0, x, y)
    assert families() > 0.0
    return (
        float(largest + least)
        + float(pk.parallel_reduce(n, total, x))
        + pk.parallel_reduce(n, squares, x)
        + float(draws[0])
        + float(gathered[0])
        + pk.log1p(0.5)
    )
