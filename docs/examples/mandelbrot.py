"""Count the steps of z -> z z + c until it leaves the circle of radius 2: a loop whose length depends on
the data.

python docs/examples/mandelbrot.py [space]
"""

import sys

import numpy as np

import portable as pk


@pk.kernel
def mandelbrot(i, limit, cx, cy, steps):
    x, y = 0.0, 0.0
    n = 0
    while n < limit and x * x + y * y <= 4.0:
        x, y = x * x - y * y + cx[i], 2.0 * x * y + cy[i]
        n += 1
    steps[i] = n


def make(n, dtype, rng):
    """Policy, arguments, and the counts. Points whose count a rounding would change are not drawn."""

    def count(c):
        z, steps = np.zeros_like(c), np.zeros(c.shape, np.int32)
        for _ in range(100):
            near = abs(z) <= 2.0
            z[near] = z[near] ** 2 + c[near]
            steps += near
        return steps

    c = rng.uniform(-2.0, 0.6, 2 * n + 20) + 1j * rng.uniform(-1.2, 1.2, 2 * n + 20)
    c = c[count(c) == count(c * 1.0001)][:n]
    return n, (100, c.real.astype(dtype), c.imag.astype(dtype), np.zeros(n, np.int32)), count(c)


if __name__ == "__main__":
    n, (limit, cx, cy, steps), expected = make(1000, np.float64, np.random.default_rng(1))
    with pk.use(*sys.argv[1:] or ["threads"]) as space:
        cx, cy, steps = pk.copy_of(cx), pk.copy_of(cy), pk.copy_of(steps)
        pk.parallel_for(n, mandelbrot, limit, cx, cy, steps)
    np.testing.assert_array_equal(steps.to_numpy(), expected)
    print(f"mandelbrot on {space}: {n} counts are right, {(expected == limit).sum()} points stay inside")
