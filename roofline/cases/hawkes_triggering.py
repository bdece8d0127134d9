"""Compare triggering functions: the Omori law with marks against one exponential, and events in time only, in
O(N).

The first duels time two of our own likelihoods on the same pairs, background included; they have no result in
common. The last is against the recursion as a numba user writes it, one event after the other.
"""

import importlib.util

import numpy as np

from portable.models import hawkes
from portable.roofline.cases import common
from portable.roofline.contract import Contender, Duel

SPAN_H = 438_032.0  # fifty years, as in a catalogue of earthquakes
SIDE_KM = 300.0
EXPONENTIAL = {"mu0": 0.7, "tau_x": 20.0, "tau_t": 87_660.0, "theta": 0.4, "omega": 0.006, "h": 0.5}
MARKED = {
    "mu0": 0.5,
    "tau_x": 20.0,
    "tau_t": 87_660.0,
    "theta": 0.7,
    "c": 0.05,
    "p": 0.95,
    "h": 0.6,
    "alpha": 1.2,
}
TEMPORAL = {"mu": 0.5, "theta": 0.5, "omega": 1.0}


def duels(space, n, quick):
    """Return the duels; n is the number of events in space and time; see `portable.roofline.cases.Case`."""
    n = n or common.size(space, quick, 60, 500, 75_000, 22_526)
    found = []
    for precision in ("float64", "mixed"):
        exponential, omori = _likelihoods(space, n, precision)
        title = f"Hawkes, {n:,} events, all pairs, {precision}: "
        plain, marked = Contender("one exponential", exponential[0]), Contender("Omori, marks", omori[0])
        gradient = Contender("its gradient", omori[1])
        found += [
            Duel(title + "Omori with marks, its time over one exponential's", plain, [marked]),
            Duel(title + "gradient of Omori with marks, its time over the likelihood's", marked, [gradient]),
        ]
    return [*found, _in_time(space, quick)]


def _likelihoods(space, n, precision):
    """Return the likelihood and its gradient for each triggering function, as calls."""
    random = np.random.default_rng(1)
    locations = random.uniform(0.0, SIDE_KM, (n, 2))
    times = np.sort(random.uniform(0.0, SPAN_H, n))
    marks = random.exponential(0.43, n)
    kind = hawkes.compose("omori", marks=True, within_h=10.0 * SPAN_H)
    made = hawkes.Likelihood(
        locations, times, marks=marks, method="all_pairs", keep_background=False, dtype=precision, space=space
    )

    def calls(params):
        return lambda: made.log_likelihood(params), lambda: made.gradient(params)

    return calls(hawkes.Parameters(**EXPONENTIAL)), calls(kind(**MARKED))


def _in_time(space, quick):
    """Return the duel of events in time only."""
    n = 300 if space == "checked" else 20_000 if quick else 10_000_000
    times = np.cumsum(np.random.default_rng(1).exponential(1.0, n))
    made = hawkes.TemporalLikelihood(times, space=space)

    def call():
        return made.log_likelihood(**TEMPORAL)

    able = importlib.util.find_spec("numba") and not space.startswith(("cuda", "checked"))
    rivals = [_by_hand(times)] if able else []
    absent = [] if able else [("numba, one event after the other", "for a CPU, where numba is installed")]
    title, ours = f"Hawkes in time alone, {n:,} events, log-likelihood", common.ours(space, call, call)
    return Duel(title, ours, rivals, absent, tolerance=1e-10, bytes=8.0 * n)


def _by_hand(times):
    import math

    import numba

    @numba.njit(fastmath=True)
    def recursion(t, mu, theta, omega):
        a = value = 0.0
        for i in range(len(t)):
            if i:
                a = math.exp(-omega * (t[i] - t[i - 1])) * (a + 1.0)
            value += math.log(mu + theta * omega * a) - theta * (1.0 - math.exp(-omega * (t[-1] - t[i])))
        return value - mu * (t[-1] - t[0])

    def call():
        return recursion(times, *TEMPORAL.values())

    return Contender("numba, one event after the other", call, result=call)
