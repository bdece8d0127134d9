"""Physics: lattices, orbits, cables, rapidities. Tables, small integers, the inverse and hyperbolic
functions.

    python docs/examples/fields/physics.py [space]
"""

import math
import sys

import numpy as np

import portable as pk

CX, CY = (0, 1, 0, -1, 0, 1, -1, -1, 1), (0, 0, 1, 0, -1, 1, 1, -1, -1)
WEIGHTS = (4 / 9,) + (1 / 9,) * 4 + (1 / 36,) * 4
MOVES = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]], np.int8)


@pk.kernel
def lattice_boltzmann(i, j, f, out, rate):
    """One step of D2Q9, pulled: what arrives from nine sides relaxes towards its equilibrium."""
    n, m = f.shape[1], f.shape[2]
    density, ux, uy = 0.0, 0.0, 0.0
    for k, (cx, cy) in enumerate(zip(CX, CY)):
        g = f[k, (i - cx) % n, (j - cy) % m]
        density, ux, uy = density + g, ux + cx * g, uy + cy * g
    ux, uy = ux / density, uy / density
    for k in range(f.shape[0]):
        along = 3.0 * (CX[k] * ux + CY[k] * uy)
        equilibrium = WEIGHTS[k] * density * (1.0 + along + 0.5 * along * along - 1.5 * (ux * ux + uy * uy))
        g = f[k, (i - CX[k]) % n, (j - CY[k]) % m]
        out[k, i, j] = g + rate * (equilibrium - g)


def a_fluid():
    f = np.random.default_rng(1).uniform(0.5, 1.0, (9, 12, 20))
    g = np.stack([np.roll(f[k], (CX[k], CY[k]), (0, 1)) for k in range(9)])
    density = g.sum(0)
    ux, uy = (np.tensordot(c, g, 1) / density for c in (CX, CY))
    along = [3 * (x * ux + y * uy) for x, y in zip(CX, CY)]
    equilibrium = np.stack(
        [w * density * (1 + a + a * a / 2 - 1.5 * (ux**2 + uy**2)) for w, a in zip(WEIGHTS, along)]
    )
    return pk.MDRangePolicy((0, 0), (12, 20)), (f, np.zeros_like(f), 0.6), 1, g + 0.6 * (equilibrium - g)


@pk.kernel
def ising(i, j, spins, colour, coupling, seed):
    """Metropolis' step of the spins of one colour, which are int8."""
    n, m = spins.shape
    if (i + j) % 2 == colour:
        around = (
            spins[(i + 1) % n, j]
            + spins[(i + n - 1) % n, j]
            + spins[i, (j + 1) % m]
            + spins[i, (j + m - 1) % m]
        )
        if pk.random.uniform(seed, i * m + j, colour) < math.exp(-2.0 * coupling * spins[i, j] * around):
            spins[i, j] = -spins[i, j]


def a_magnet():
    spins = np.random.default_rng(2).choice([-1, 1], (16, 16)).astype(np.int8)
    i, j = np.indices(spins.shape)
    around = sum(np.roll(spins, s, d) for s in (1, -1) for d in (0, 1))
    flips = ((i + j) % 2 == 1) & (
        pk.random.uniform(3, i * 16 + j, np.uint64(1)) < np.exp(-2 * 0.4 * spins * around)
    )
    return pk.MDRangePolicy((0, 0), spins.shape), (spins.copy(), 1, 0.4, 3), 0, np.where(flips, -spins, spins)


@pk.kernel
def kepler(i, mean, eccentricity, out):
    """Locate a planet: Kepler's equation by Newton's method, then its true anomaly and distance."""
    m, e = math.remainder(mean[i], 2.0 * math.pi), eccentricity[i]
    at = m + math.copysign(0.85, m) * e
    for _ in range(20):
        at -= (at - e * math.sin(at) - m) / (1.0 - e * math.cos(at))
    x, y = math.cos(at) - e, math.sqrt(1.0 - e * e) * math.sin(at)
    out[0, i], out[1, i] = math.atan2(y, x), math.hypot(x, y)


def planets():
    rng = np.random.default_rng(3)
    at, e = rng.uniform(-np.pi, np.pi, 50), rng.uniform(0, 0.7, 50)
    half = 2 * np.arctan(np.sqrt((1 + e) / (1 - e)) * np.tan(at / 2))
    mean = at - e * np.sin(at) + 2 * np.pi * rng.integers(-3, 4, 50)
    return 50, (mean, e, np.zeros((2, 50))), 2, [half, 1 - e * np.cos(at)]


@pk.kernel
def cables(i, span, sag, out):
    """The length of a cable between two poles: a catenary, whose constant is found by Newton's method."""
    half = 0.5 * span[i]
    c = half * half / (2.0 * sag[i])
    for _ in range(30):
        slope = math.cosh(half / c) - 1.0 - half / c * math.sinh(half / c)
        c -= (c * (math.cosh(half / c) - 1.0) - sag[i]) / slope
    out[i] = 2.0 * c * math.sinh(half / c)


def poles():
    rng = np.random.default_rng(4)
    c, half = rng.uniform(50, 200, 40), rng.uniform(10, 60, 40)
    return 40, (2 * half, c * (np.cosh(half / c) - 1), np.zeros(40)), 2, 2 * c * np.sinh(half / c)


@pk.kernel
def rapidity(i, momentum, mass, out):
    """Energy, rapidity and pseudorapidity of particles, and a way back."""
    px, py, pz = momentum[0, i], momentum[1, i], momentum[2, i]
    across = math.hypot(px, py)
    energy = math.hypot(math.hypot(across, pz), mass)
    y = math.atanh(pz / energy)
    out[0, i], out[1, i] = y, math.asinh(pz / across)
    out[2, i] = math.sqrt(across * across + mass * mass) * math.cosh(y) - energy


def particles():
    p = np.random.default_rng(5).normal(size=(3, 40))
    energy, across = np.sqrt((p**2).sum(0) + 0.25), np.hypot(p[0], p[1])
    return (
        40,
        (p, 0.5, np.zeros((3, 40))),
        2,
        [0.5 * np.log((energy + p[2]) / (energy - p[2])), np.arcsinh(p[2] / across), np.zeros(40)],
    )


@pk.kernel
def stars(i, ecliptic, tilt, out):
    """Right ascension and declination, in degrees, of places along and beside the ecliptic."""
    along, beside = math.radians(ecliptic[0, i]), math.radians(ecliptic[1, i])
    out[0, i] = math.degrees(
        math.atan2(math.sin(along) * math.cos(tilt) - math.tan(beside) * math.sin(tilt), math.cos(along))
    )
    out[1, i] = math.degrees(
        math.asin(math.sin(beside) * math.cos(tilt) + math.cos(beside) * math.sin(tilt) * math.sin(along))
    )


def a_sky():
    rng, tilt = np.random.default_rng(7), math.radians(23.4393)
    sky = np.stack([rng.uniform(-180, 180, 40), rng.uniform(-85, 85, 40)])
    along, beside = np.radians(sky)
    x, y, z = np.cos(beside) * np.cos(along), np.cos(beside) * np.sin(along), np.sin(beside)
    y, z = y * math.cos(tilt) - z * math.sin(tilt), y * math.sin(tilt) + z * math.cos(tilt)
    return (
        40,
        (sky, tilt, np.zeros((2, 40))),
        2,
        np.degrees([np.arctan2(y, x), np.arctan2(z, np.hypot(x, y))]),
    )


@pk.kernel
def walks(i, n, weights, seed, out):
    """Walkers that choose one of four directions by weight, from a table of int8."""
    x, y = 0, 0
    for step in range(n):
        k = pk.random.categorical(seed, i, step, weights)
        x += MOVES[k, 0]
        y += MOVES[k, 1]
    out[i, 0], out[i, 1] = x, y


def walkers():
    weights = np.array([4.0, 1.0, 2.0, 1.0])
    steps = np.stack([pk.random.categorical(6, np.arange(30), k, weights) for k in range(25)], 1)
    return 30, (25, weights, 6, np.zeros((30, 2), np.int64)), 3, MOVES[steps].astype(int).sum(1)


EXAMPLES = [
    (lattice_boltzmann, a_fluid),
    (ising, a_magnet),
    (kepler, planets),
    (cables, poles),
    (rapidity, particles),
    (stars, a_sky),
    (walks, walkers),
]

if __name__ == "__main__":
    with pk.use(*sys.argv[1:] or ["threads"]) as space:
        for kernel, make in EXAMPLES:
            policy, args, k, expected = make()
            args = [pk.copy_of(a) if isinstance(a, np.ndarray) else a for a in args]
            pk.parallel_for(policy, kernel, *args)
            np.testing.assert_allclose(args[k].to_numpy(), expected, rtol=1e-9, atol=1e-9)
            print(f"{kernel.name} on {space}: right")
