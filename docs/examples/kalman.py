"""A Kalman filter of all times at once: what is filtered up to each time is a prefix of a scan.

Särkkä and García-Fernández, "Temporal parallelization of Bayesian smoothers", IEEE Transactions on Automatic
Control 66 (2021).

    python docs/examples/kalman.py [space]
"""

import sys

import numpy as np

import portable as pk

A, Q, R = 0.9, 0.5, 1.0  # x_t = A x_(t-1) + N(0, Q), x_0 = 0; y_t = x_t + N(0, R)


def then(e, f):
    """Combine two stretches: gain, offset and variance of the state given the data before, and the
    information on that."""
    share = 1.0 / (1.0 + e[2] * f[4])
    forward, back = f[0] * share, e[0] * share
    return (
        forward * e[0],
        forward * (e[1] + e[2] * f[3]) + f[1],
        forward * e[2] * f[0] + f[2],
        back * (f[3] - f[4] * e[1]) + e[3],
        back * f[4] * e[0] + e[4],
    )


def filtered(state):
    return state[1], state[2]


Filter = pk.Reducer("Filter", then, (1.0, 0.0, 0.0, 0.0, 0.0), finish=filtered, commutes=False)


@pk.kernel
def observed(t, y):
    k = Q / (Q + R)
    before = 0.0 if t == 0 else A  # the first state has none before it
    return (1.0 - k) * before, k * y[t], (1.0 - k) * Q, before * y[t] / (Q + R), before * before / (Q + R)


def make(n, dtype, rng):
    """Policy, arguments, and the means that must come out."""
    y, means, mean, variance = rng.normal(size=n).astype(dtype), np.zeros(n), 0.0, 0.0
    for t in range(n):
        mean, variance = A * mean, A * A * variance + Q
        gain = variance / (variance + R)
        means[t] = mean = mean + gain * (y[t] - mean)
        variance *= 1.0 - gain
    return n, (y, np.zeros(n, dtype), np.zeros(n, dtype)), means


if __name__ == "__main__":
    n, (y, means, variances), expected = make(1000, np.float64, np.random.default_rng(1))
    with pk.use(*sys.argv[1:] or ["threads"]) as space:
        means, variances = pk.copy_of(means), pk.copy_of(variances)
        pk.parallel_scan(n, observed, pk.copy_of(y), out=(means, variances), reducer=Filter)
    np.testing.assert_allclose(means.to_numpy(), expected, rtol=1e-9, atol=1e-9)
    print(f"kalman on {space}: the last mean is {means.to_numpy()[-1]:.6f}")
