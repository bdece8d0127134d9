"""Time likelihood, maximum and simulation in time alone beside the packages hawkesbook and tick (for
Python 3.11 at most), which must be installed: `python -m tests.models.hawkes.packages`."""

import hawkesbook
import numpy as np
from tick.hawkes import ModelHawkesExpKernLogLik

from portable.models import hawkes
from portable.roofline.timing import alternate

MU, THETA, OMEGA = 0.5, 0.5, 2.0
PARAMS = hawkes.Mutual([MU], [[[THETA]]], [OMEGA])


def jobs(n_events):
    """Return calls by the name of the job, ours first."""
    horizon = n_events * (1.0 - THETA) / MU
    times = hawkes.simulate_mutual(PARAMS, horizon, seed=1).times
    times -= times[0]
    ours = hawkes.TemporalLikelihood(times)
    tick = ModelHawkesExpKernLogLik(decay=OMEGA)
    tick.fit([times])
    at, other = np.array([MU, THETA]), np.array([MU, THETA * OMEGA, OMEGA])
    return {
        "likelihood": {
            "ours": lambda: ours.log_likelihood(MU, THETA, OMEGA),
            "tick": lambda: tick.loss(at),
            "hawkesbook": lambda: hawkesbook.exp_log_likelihood(times, times[-1], other),
        },
        "maximum": {
            "ours": lambda: ours.fit(n_simulations=0),
            "hawkesbook": lambda: hawkesbook.exp_mle(times, times[-1]),
        },
        "simulation": {
            "ours": lambda: hawkes.simulate_mutual(PARAMS, horizon, seed=1),
            "hawkesbook": lambda: hawkesbook.exp_simulate_by_composition(other, n_events),
        },
    }


if __name__ == "__main__":
    for n in (10_000, 100_000, 300_000):
        for job, calls in jobs(n).items():
            found = alternate(calls).items()
            print(n, job, ", ".join(f"{name} {1e3 * own.median:.3g} ms" for name, own in found), flush=True)
