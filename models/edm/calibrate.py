"""Measure false positives and power of surrogate tests: `python -m portable.models.edm calibrate`.

False positives: pairs of independent series of one class, a p-value each for the skill of the whole library;
at a level of 5 % a test that holds its level rejects 5 % of them. Power: pairs of which one drives the other.
"""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
from rich.table import Table

from ..shared import Result, tracked
from .inference import cross_map_test
from .segments import Segments
from .surrogates import SURROGATES

LEVEL = 0.05
HOLDS = 0.035, 0.065  # range of the rejected share of 1,000 pairs, nearly always, if the level holds
ENOUGH = 1000
REPLICATES, STEPS = 10, 30  # of each series of a class of replicates
APART = Segments(
    tuple(map(str, range(REPLICATES))), tuple((STEPS * k, STEPS * (k + 1)) for k in range(REPLICATES))
)
# classes for which the default holds it
HELD = ("AR(1) 0.5", "AR(1) 0.9", "seasonal", "replicates, AR(1) 0.5", "replicates, AR(1) 0.9")
YEAR = 12
E = 3
SKIPPED = 300  # steps that are discarded at the start of a simulation
NOISE = 0.1  # standard deviation of the observation noise of a driven system, in that of its series


def autoregressive(random, n, phi):
    """Return a series x[t + 1] = phi x[t] + noise of n values."""
    noise = random.normal(size=n + SKIPPED)
    x = np.zeros(n + SKIPPED)
    for t in range(1, n + SKIPPED):
        x[t] = phi * x[t - 1] + noise[t]
    return x[SKIPPED:]


def coloured(random, n, exponent):
    """Return noise with a power spectrum f^-exponent: a part of a series four times as long, since that
    series is periodic, so that its last value would be close to the first.
    """
    size = np.fft.rfftfreq(4 * n)
    size[1:] **= -exponent / 2
    real, imaginary = random.normal(size=len(size)), random.normal(size=len(size))
    return np.fft.irfft(size * (real + 1j * imaginary), 4 * n)[:n]


def seasonal(random, n):
    """Return a cycle of twelve steps, with the same phase in all series, plus autocorrelated noise."""
    year = random.uniform(0.8, 1.5) * np.sin(2 * np.pi / YEAR * np.arange(n))
    return year + 0.7 * autoregressive(random, n, 0.5)


def intermittent(random, n):
    """Return the excess of an autoregressive process above one and a half standard deviations, else 0."""
    x = autoregressive(random, n, 0.8)
    return np.where(x > 1.5 * x.std(), np.exp(x - 1.5 * x.std()) - 1.0, 0.0)


def replicates(random, n, phi):
    """Return REPLICATES independent autoregressive series of STEPS times each, one after the other, whatever
    n is."""
    return np.concatenate([autoregressive(random, STEPS, phi) for _ in range(REPLICATES)])


CLASSES = {
    **{f"AR(1) {phi}": partial(autoregressive, phi=phi) for phi in (0.5, 0.9, 0.98)},
    "red noise, 1/f": partial(coloured, exponent=1.0),
    "random walk, 1/f^2": partial(coloured, exponent=2.0),
    "seasonal": seasonal,
    "intermittent": intermittent,
    **{f"replicates, AR(1) {phi}": partial(replicates, phi=phi) for phi in (0.5, 0.9)},
}


def logistic_pair(random, n):
    """Return the driven series and its driver, two logistic maps x' = x (3.8 - 3.8 x), y' = y (3.5 - 3.5 y -
    0.1 x), observed with noise.
    """
    x, y = random.uniform(0.2, 0.4, 2)
    out = np.empty((n + SKIPPED, 2))
    for t in range(n + SKIPPED):
        out[t] = y, x
        x, y = x * (3.8 - 3.8 * x), y * (3.5 - 3.5 * y - 0.1 * x)
    return _noisy(random, out[SKIPPED:])


def lorenz_pair(random, n, step=0.005, every=10):
    """Return z of a Lorenz system and y, which drives it, both observed every 0.05 with noise (Runge and
    Kutta, fourth order).
    """

    def slope(s):
        return np.array([10.0 * (s[1] - s[0]), s[0] * (28.0 - s[2]) - s[1], s[0] * s[1] - 8.0 / 3.0 * s[2]])

    s, out = random.normal(size=3) + [0, 0, 20], np.empty((n, 2))
    for t in range(-SKIPPED, n):
        for _ in range(every):
            a = slope(s)
            b = slope(s + step / 2 * a)
            c = slope(s + step / 2 * b)
            s = s + step / 6 * (a + 2 * b + 2 * c + slope(s + step * c))
        if t >= 0:
            out[t] = s[0], s[1]
    return _noisy(random, out)


def _noisy(random, x):
    return (x + NOISE * x.std(axis=0) * random.normal(size=x.shape)).T


COUPLED = {"coupled logistic maps": logistic_pair, "Lorenz, x and y": lorenz_pair}


def rejections(pairs, surrogate, n_surrogates, seed, segments=None):
    """Return the share of the pairs (library, target) whose null hypothesis is rejected at LEVEL.

    surrogate : a kind, or None for the default of the test
    """
    keys, rejected = {"period": YEAR} if surrogate == "seasonal" else {}, 0
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "surrogate='random'")
        warnings.filterwarnings("ignore", ".*may drift as a random walk")
        for number, pair in enumerate(pairs):
            found = cross_map_test(
                np.column_stack(pair),
                E,
                libraries=[0],
                n_surrogates=n_surrogates,
                surrogate=surrogate,
                stop_after=None,
                seed=seed + number,
                segments=segments,
                **keys,
            )
            rejected += found.p_values[0, 1] <= LEVEL
    return rejected / len(pairs)


class Calibration(Result):
    """Shares of pairs that are rejected at 5 %, by class and kind of surrogates.

    Attributes
    ----------
    n_pairs, n_times, n_surrogates : int
    shares : dict of str to dict of str to float
        By class, then by kind; "default" is the default kind of the test.
    """

    n_pairs: int
    n_times: int
    n_surrogates: int
    shares: dict[str, dict[str, float]]

    def outside(self) -> list[str]:
        """Return the classes of `HELD` whose default kind rejects less than 3.5 % or more than 6.5 %; none if
        there are fewer than ENOUGH pairs.
        """
        if self.n_pairs < ENOUGH:
            return []
        low, high = HOLDS
        return [name for name in HELD if not low <= self.shares[name]["default"] <= high]

    def table(self) -> Table:
        """Return the shares as a table of the package rich."""
        kinds = list(next(iter(self.shares.values())))
        made = Table(
            "class",
            *kinds,
            title=f"rejected at {LEVEL:.0%}: {self.n_pairs} pairs of each class, {self.n_times} times, "
            f"E = {E}, {self.n_surrogates} surrogates; two standard errors of {LEVEL:.0%} are "
            f"{2 * np.sqrt(LEVEL * (1 - LEVEL) / self.n_pairs):.1%}",
        )
        for name, row in self.shares.items():
            what = f"{name} (power)" if name in COUPLED else name
            made.add_row(what, *(f"{row[kind]:.1%}" if kind in row else "" for kind in kinds))
        return made


def calibrate(
    n_pairs: int = 1000, n_times: int = 400, n_surrogates: int = 99, seed: int = 0, kinds: bool = False
) -> Calibration:
    """Compute the share of rejected pairs of all classes, with a progress bar on standard error.

    Parameters
    ----------
    n_pairs : int
        Pairs of each class.
    n_times : int
        Times of each series.
    n_surrogates : int
        Surrogates of each series.
    seed : int
    kinds : bool
        Test also with each kind of surrogates, in addition to the default.

    Returns
    -------
    Calibration
    """
    shares = {}
    for k, (name, make) in enumerate(tracked((CLASSES | COUPLED).items(), "calibrating")):
        pairs = []
        for pair in range(n_pairs):
            random = np.random.default_rng([seed, k, pair])
            one = make(random, n_times)
            pairs.append(one if name in COUPLED else (one, make(random, n_times)))
        segments = APART if name.startswith("replicates") else None  # too short for "seasonal"
        kinds_of = [kind for kind in SURROGATES if kinds and not (segments and kind == "seasonal")]
        tried = {"default": None} | {kind: kind for kind in kinds_of}
        shares[name] = {
            what: rejections(pairs, kind, n_surrogates, seed, segments) for what, kind in tried.items()
        }
    return Calibration(n_pairs, n_times, n_surrogates, shares)
