"""Programs that are wrong: a type checker reports an error for each marked line, and no other.

`# wrong: mypy` marks errors that pyright misses, `# wrong: pyright` those that mypy misses.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import portable as pk
from portable import roofline
from portable.models import edm, hawkes, mixture, resampling, tmap


@pk.kernel
def axpy(i: int, a: float, x: pk.ArrayLike, y: pk.ArrayLike) -> None:
    y[i] += a * x[i]


@pk.kernel
def untyped(i, a, x):  # type: ignore[no-untyped-def]
    x[i] = a


@pk.kernel
def box(i: int, j: int, x: pk.ArrayLike) -> None:
    x[i, j] = pk.exp(1.0, 2.0)  # wrong


@pk.kernel
def rows(team: pk.Team, x: pk.ArrayLike) -> None:
    x[team.league_rank] = team.reduce(1.0, "sum")  # wrong
    x[team.rank] = team.leage_size  # wrong


@pk.kernel
def one(i: int, x: pk.ArrayLike) -> Any:
    return x[i]


@pk.kernel
def positive(i: int, x: pk.ArrayLike) -> int:
    return int(x[i] > 0.0)


x, y = np.zeros(3), np.zeros(3)
pk.parallel_reduce(3, positive, x).shape  # wrong
pk.kernel(fastmat=True)  # wrong
pk.function(chained=True)  # wrong
pk.parallel_for("ten", axpy, 2.0, x, y)  # wrong
pk.parallel_for(3, axpy, 2.0, x)  # wrong
pk.parallel_for(3, axpy, 2.0, x, y, y)  # wrong
pk.parallel_for(3, axpy, x, 2.0, y)  # wrong
pk.parallel_for(3, axpy, 2.0, x, y, lable="axpy")  # wrong
pk.parallel_for(3, untyped, 2.0)  # wrong: pyright
pk.parallel_for(3, lambda i: None)  # wrong
pk.parallel_for(pk.MDRangePolicy((0, 0), (3, 3)), box, x, x)  # wrong
pk.parallel_for(pk.RangePolicy(0, 3, spaces="serial"), one, x)  # wrong
pk.plan(3, axpy, 2.0)  # wrong
pk.parallel_reduce(3, one, x, reducer=max)  # wrong
pk.parallel_scan(3, one, x)  # wrong
pk.parallel_scan(pk.TeamPolicy(3), one, x, out=y)  # wrong
pk.View(3, dtyp="float32")  # wrong
pk.empty((3, 3), space=4)  # wrong
pk.zeros("three", "float64").shape.size  # wrong
pk.use("serial", debug="yes")  # wrong
pk.deep_copy(x, y, cats=True)  # wrong
pk.searchsorted(x, y, "middle")  # wrong
pk.unique(x).sort()  # wrong
pk.random.uniform(1, 2)  # wrong
pk.asview(x).pointer = 3  # wrong
pk.check(3, one, x).okay  # wrong
pk.parallel_fo(3, one, x)  # wrong
axpy(0, 2.0, x)  # wrong

truth = hawkes.Parameters(1.0, 1.6, 336.0, 0.3, 0.5)  # wrong
hawkes.simulate(hawkes.Parameters(1, 1, 1, 1, 1, 1), n_immigrants=5, horizon=100.0)  # wrong
hawkes.simulate(hawkes.Parameters(1, 1, 1, 1, 1, 1), n_immigrants=5, horizon_h=9.0).places  # wrong
hawkes.Likelihood(x, y, method="window")  # wrong
hawkes.Likelihood(x, y).gradient(0.5)  # wrong
hawkes.half_normal("10")  # wrong
hawkes.read_catalogue("events.csv", time_unit="hours")  # wrong
runs = tmap.Runs.from_lists([[1.0]], resolutoin=1.0)  # wrong
tmap.fit(runs, orders=[1], dtype="float16")  # wrong
tmap.fit(runs, orders=[1]).rates  # wrong
tmap.Runs([1.0], [1]).sizes  # wrong
roofline.count(3, one, x, scan="all")  # wrong
roofline.cost(flop=len)  # wrong
roofline.report("profile.json")  # wrong
edm.simplex(x, 2, lag=3)  # wrong
edm.cross_map(x, 2, dtype="float16")  # wrong
edm.ccm(x, y, 2)  # wrong
edm.traits(x).season  # wrong
resampling.systematic(x)  # wrong
resampling.permute(x, spaces="serial")  # wrong
resampling.ParticleFilter(axpy, axpy, axpy)  # wrong
mixture.DirichletMixture(3, covariance="round")  # wrong
mixture.DirichletMixture(3).fit(x).mean_  # wrong
