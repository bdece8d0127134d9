"""EM for transient Markovian arrival processes: 30 iterations, both steps, on runs that are already in the
space.

Runs are those of the paper's timing: 1 + a geometric number of gaps, 8.8 on average, of mean 1; three
branches of orders 1, 2 and 3. The bytes of the title are those that one iteration must read, each gap once;
ours also writes and reads R numbers for each gap, mostly in cache.
"""

import importlib.util

import numpy as np

import portable as pk
from portable.models import tmap
from portable.models.tmap.em import EM
from portable.models.tmap.packed import log_unit
from portable.roofline.cases import common
from portable.roofline.contract import Duel
from portable.roofline.peers import tmap_packages

ORDERS, RATES = (1, 2, 3), (1.0, 2.0, 3.0)
START = np.array([0.3, 0.3, 0.4]), np.array(ORDERS), np.array(RATES), np.full((3, 3), 0.29)
N_ITERATIONS = 30
FEW = 100_000  # runs


def _runs(n, seed=1):
    random = np.random.default_rng(seed)
    lengths = 1 + random.geometric(1 / 7.82, n)
    return random.exponential(1.0, lengths.sum()), lengths


def _ours(values, lengths, n_iterations, dtype, space):
    model = tmap.TransientMAP(*START)
    em = EM(tmap.Runs(values, lengths), model.orders, 1, dtype, space)
    history = pk.zeros((1, n_iterations + 1), np.float64, space)
    iterations = em.iterations(n_iterations, n_iterations, 0.0, history)

    def call():
        em.load([model])
        iterations.replay()

    return {
        "call": call,
        "result": lambda: float(history.to_numpy()[0, n_iterations - 1] - log_unit(em.runs)),
        "label": f", {np.dtype(dtype).name}",
    }


def duels(space, n, quick):
    """Return the duels with the same EM by hand, then with packages; see `portable.roofline.cases.Case`."""
    whole = 1_000_000, N_ITERATIONS
    known, n_iterations = common.size(space, quick, (8, 2), (500, 2), whole, (100_000, N_ITERATIONS))
    n = n or known
    few = min(n, FEW)
    # On a CPU numba's arithmetic is in float64 in both precisions, ten seconds for a million runs: one of the
    # two is enough.
    sizes = {np.float64: n, np.float32: n if space.startswith("cuda") else few}
    by_hand = [_by_hand(space, n_runs, dtype, n_iterations) for dtype, n_runs in sizes.items()]
    return by_hand + _packages(space, max(few // 100, 8), min(n_iterations, 10))


def _by_hand(space, n, dtype, n_iterations):
    values, lengths = _runs(n)
    title = f"{n_iterations} EM iterations, {n:,} runs, {len(values):,} gaps, orders 1, 2, 3"
    about = _ours(values, lengths, n_iterations, dtype, space)
    about["tolerance"] = 1e-10 if dtype is np.float64 else 1e-6
    given = values.astype(dtype), lengths, START, n_iterations
    return common.duel(title, space, about.pop("call"), "tmap", *given, **about)


def _packages(space, n, n_iterations):
    """Return a duel with the installed packages, if any; they are some thousand times slower, so it has fewer
    runs."""
    values, lengths = _runs(n)
    rivals = []
    for package, maker, branches in (
        ("hmmlearn", tmap_packages.hmmlearn, len(ORDERS)),
        ("line_solver", tmap_packages.line_solver, list(ORDERS)),
    ):
        if space != "checked" and importlib.util.find_spec(package):
            rivals.append(maker(values, lengths, branches, n_iterations))
    title = f"{n_iterations} EM iterations, {n:,} runs, {len(values):,} gaps, 3 branches: packages"
    ours = common.ours(space, **_ours(values, lengths, n_iterations, np.float64, space))
    return [Duel(title, ours, rivals)] if rivals else []
