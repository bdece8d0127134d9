"""A target seen by a radar at the origin: position and velocity (x, y, u, v), noisy range and bearing at
every second.

    python docs/examples/resampling/tracking.py [space]
"""

import math
import sys

import numpy as np

import portable as pk
from portable.models.resampling import ParticleFilter

PUSH, RANGE_ERROR, BEARING_ERROR = 0.1, 0.5, 0.03  # km / s^2, km, radians


@pk.function
def initial(seed, stream, draw, params):
    """Around the first sighting."""
    n = pk.random.normal
    return (
        params[0] + 2.0 * n(seed, stream, draw),
        params[1] + 2.0 * n(seed, stream, draw + pk.uint64(1)),
        n(seed, stream, draw + pk.uint64(2)),
        n(seed, stream, draw + pk.uint64(3)),
    )


@pk.function
def propagate(t, state, seed, stream, draw, params):
    """Return a second under a random push."""
    a = PUSH * pk.random.normal(seed, stream, draw)
    b = PUSH * pk.random.normal(seed, stream, draw + pk.uint64(1))
    return state[0] + state[2] + 0.5 * a, state[1] + state[3] + 0.5 * b, state[2] + a, state[3] + b


@pk.function
def log_weight(t, state, seen, params):
    miss = math.sqrt(state[0] * state[0] + state[1] * state[1]) - seen[0]
    # sine and cosine of the bearing's error,
    across = state[1] * math.cos(seen[1]) - state[0] * math.sin(seen[1])
    along = state[0] * math.cos(seen[1]) + state[1] * math.sin(seen[1])  # times the range
    turn = across / (math.fabs(along) + 1e-9) if along > 0.0 else 10.0
    return -0.5 * ((miss / RANGE_ERROR) ** 2 + (turn / BEARING_ERROR) ** 2)


def simulate(n_steps, rng):
    state, path = np.array([10.0, 20.0, 0.8, -0.3]), []
    for _ in range(n_steps):
        path.append(state[:2].copy())
        push = PUSH * rng.normal(size=2)
        state[:2] += state[2:] + 0.5 * push
        state[2:] += push
    path = np.array(path)
    seen = np.stack(
        [
            np.hypot(*path.T) + RANGE_ERROR * rng.normal(size=n_steps),
            np.arctan2(path[:, 1], path[:, 0]) + BEARING_ERROR * rng.normal(size=n_steps),
        ],
        axis=1,
    )
    return path, seen


if __name__ == "__main__":
    space = sys.argv[1] if len(sys.argv) > 1 else "threads"
    few = space == "checked"
    path, seen = simulate(5 if few else 60, np.random.default_rng(4))
    raw = seen[:, :1] * np.stack([np.cos(seen[:, 1]), np.sin(seen[:, 1])], axis=1)
    found = ParticleFilter(initial, propagate, log_weight, space=space).run(
        seen, 40 if few else 20_000, params=raw[0], seed=1, keep=True
    )
    paths = found.trajectories(10 if few else 500, seed=2)
    errors = [
        float(np.sqrt(((p - path) ** 2).sum(axis=1).mean()))
        for p in (raw, found.means[:, :2], paths[:, :2].mean(axis=2))
    ]
    sighted, filtered, smoothed = errors
    print(
        f"root mean square error, km: sightings {sighted:.2f}, filtered {filtered:.2f}, "
        f"smoothed {smoothed:.2f}"
    )
    assert few or (errors[1] < 0.8 * errors[0] and errors[2] < errors[1])
    print(f"tracking on {space}: {len(path)} seconds followed")
