"""Test of no triggering: theta = 0 against any theta, delay and distance, exact whatever the background in
space and in time.

Without triggering, and with a background that is a density of places times a rate in time, each event's place
says nothing of its time. Given the places and the times that were observed, all ways to pair them are then
equally likely, so draws from the fitted background are permutations (Knox 1964; Besag and Diggle 1977):
neither the region's outline nor towns, trends and seasons have to be known. Triggering pairs what is near in
space with what is near in time. The statistic is computed alike for the events and for every draw: over a
grid of delays 1 / omega and distances h, with the share s of events that are offspring,

    S(omega, h) = max_s sum_n log(1 - s + s q_n),    q_n = xi_n / (theta f(x_n) g(t_n))     up to a constant,

f and g kernel densities of places and times without event n itself. Each sqrt(2 S) is counted in standard
deviations of the draws, and the largest over the grid is the statistic; the p-value is its rank among the
draws.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

import portable as pk

from ..shared.annotations import ArrayLike, Floats
from ..shared.checks import check_count, check_seed
from ..shared.launches import launch
from ..shared.shown import Shown
from .checks import check_events
from .kernels import LOG2_E

_N_H, N_OMEGA = 5, 8
# Neighbours on the grid: three squarings of the exponential, a factor of 8 in omega and of 8 in h^2.
FACTOR = 8.0
_WIDEST, SLOWEST = 0.25, 10.0  # h beside the spread of places, omega times the hours observed
# Pairs are sought within so many events in a row, of so many such rows, evenly over the record.
_ROW, _MOST_ROWS = 2_048, 4
_HALVINGS, _LEAST_SHARE = 16, 1e-5  # of the search for s
_MOST_BYTES = 1 << 28  # of q, at once


@dataclass(frozen=True)
class TriggeringTest(Shown):
    """Result of a test of no triggering.

    Attributes
    ----------
    p_value : float
        The share of draws without triggering, the events among them, in which events that are near in space
        are as near in time: at most alpha in a share alpha of records without triggering.
    statistic : float
    simulated : ndarray, shape (n_simulations,)
        The statistic of draws without triggering.
    delay_h, distance_km : float
        1 / omega and h of the grid where triggering explains most.
    share : float
        The share of events that are offspring there; of a rough background, so no estimate.
    n_tested : int
        Events that pairs were sought among.
    omega, h_km : ndarray
        The grid.
    """

    p_value: float
    statistic: float
    simulated: Floats
    delay_h: float
    distance_km: float
    share: float
    n_tested: int
    omega: Floats
    h_km: Floats

    def rejects(self, alpha: float = 0.05) -> bool:
        """Return True if the test rejects "no triggering" at level alpha, or as far as so many draws can.

        Parameters
        ----------
        alpha : float

        Returns
        -------
        bool
        """
        return self.p_value <= max(alpha, 1.0 / (1 + len(self.simulated))) < 1.0

    def __str__(self) -> str:
        n = len(self.simulated)
        if self.rejects():
            return (
                f"events near in space are nearer in time than chance allows: p = {self.p_value:.2g} of"
                f" {n} draws"
            )
        return (
            f"no evidence of triggering: in {self.p_value:.0%} of {n} draws without any, events that are"
            " near in space are as near in time as here"
        )


@pk.kernel
def place_density(s, i, n_dims, x, widths, out):
    """Sum the normal densities of all other places at place i of set s, each of its own width. 3 D + 3
    operations and an exponential per place."""
    total = 0.0
    for j in range(x.shape[2]):
        r2 = 0.0
        for c in range(n_dims):
            d = x[s, c, i] - x[s, c, j]
            r2 += d * d
        one = 1.0 / widths[s, j]
        scale = 1.0
        for _ in range(n_dims):
            scale *= one
        term = scale * pk.fast_exp2((-0.5 * LOG2_E) * r2 * one * one)
        total += pk.where(j == i, 0.0, term)
    out[s, i] = total


@pk.kernel
def pair_ratios(s, i, r, n_dims, n_h, n_omega, x, t, order, begin, before, slowest, widest, scale, f, g, out):
    """Compute q of event i of draw r of set s for each omega and h; `order` names the place that each time
    has in a draw.

    Neighbours on the grid are powers of one another, so a pair costs two exponentials, and 3 (n_h + n_omega)
    + 2 n_h n_omega operations.
    """
    sums = pk.local((n_omega, n_h), pk.float64)
    near = pk.local(n_h, pk.float64)
    for w in range(n_omega):
        for k in range(n_h):
            sums[w, k] = 0.0
    own = order[s, i, r]
    a_t = slowest[s]
    a_x = widest[s]
    for j in range(begin[s, i], before[s, i]):
        other = order[s, j, r]
        r2 = 0.0
        for c in range(n_dims):
            d = x[s, c, own] - x[s, c, other]
            r2 += d * d
        late = pk.fast_exp2(a_t * (t[s, i] - t[s, j]))
        term = pk.fast_exp2(a_x * r2)
        for k in range(n_h):
            near[k] = term
            term *= term
            term *= term
            term *= term
        for w in range(n_omega):
            for k in range(n_h):
                sums[w, k] += late * near[k]
            late *= late
            late *= late
            late *= late
    common = 1.0 / (f[s, own] * g[s, i])
    for w in range(n_omega):
        for k in range(n_h):
            out[s * n_omega * n_h + w * n_h + k, i, r] = pk.float32(
                min(scale[s, w, k] * common * sums[w, k], 1e30)
            )


@pk.kernel
def best_share(c, r, n_halvings, least, q, found, gained):
    """Find s that maximises sum_n log(1 + s (q_n - 1)) for one omega and h of draw r, and twice that sum's
    root. n_halvings + 2 passes over the events, 4 bytes and some 6 operations each."""
    n = q.shape[1]
    slope = 0.0
    for i in range(n):
        slope += pk.float64(q[c, i, r]) - 1.0
    low = pk.log(least)
    high = 0.0
    for _ in range(n_halvings):
        middle = 0.5 * (low + high)
        s = pk.exp(middle)
        rise = 0.0
        for i in range(n):
            d = pk.float64(q[c, i, r]) - 1.0
            rise += d / (1.0 + s * d)
        up = rise > 0.0
        low = pk.where(up, middle, low)
        high = pk.where(up, high, middle)
    s = pk.exp(low)
    total = 0.0
    for i in range(n):
        total += pk.log(1.0 + s * (pk.float64(q[c, i, r]) - 1.0))
    some = slope > 0.0 and total > 0.0
    found[c, r] = pk.where(some, s, 0.0)
    gained[c, r] = pk.where(some, pk.sqrt(2.0 * max(total, 0.0)), 0.0)


def triggering_test(
    locations: ArrayLike,
    times: ArrayLike,
    *,
    n_simulations: int = 199,
    seed: int = 0,
    space: pk.SpaceLike | None = None,
) -> TriggeringTest:
    """Test whether events trigger events, against any background that is a density of places times a rate in
    time.

    Parameters
    ----------
    locations : array-like, shape (n_events, n_dims), n_dims = 1, 2 or 3, kilometres
    times : array-like, shape (n_events,), hours, ascending
    n_simulations : int
        Draws without triggering: the smallest p-value is 1 / (n_simulations + 1).
    seed : int
        Of the draws.
    space : str or Space, optional

    Returns
    -------
    TriggeringTest
        A small p-value also comes of a background whose places change in time; of events at one place, or
        with less than three times, p is 1, since nothing can be said.

    Raises
    ------
    ShapeError, DTypeError, FiniteError, OrderError, InputError
        As `Likelihood`.

    References
    ----------
    Knox: The detection of space-time interactions. Applied Statistics 13 (1964). Besag, Diggle: Simple Monte
    Carlo tests for spatial pattern. Applied Statistics 26 (1977).

    Examples
    --------
    >>> import numpy as np
    >>> from portable.models import hawkes
    >>> random = np.random.default_rng(0)
    >>> noise = random.uniform(0.0, 10.0, (300, 2)), np.sort(random.uniform(0.0, 8766.0, 300))
    >>> hawkes.triggering_test(*noise, space="serial").p_value > 0.05
    True
    """
    locations, times = check_events(locations, times)
    return several_tests([(locations, times)], n_simulations=n_simulations, seeds=[seed], space=space)[0]


def several_tests(sets, *, n_simulations=199, seeds, space=None) -> list[TriggeringTest]:
    """Run `triggering_test` on several sets of equally many events, in launches for all of them."""
    n_simulations = check_count(n_simulations, "n_simulations")
    seeds = [check_seed(seed) for seed in seeds]
    with pk.use(pk.default_space() if space is None else space):
        tables = _Tables(sets)
        shares, roots = tables.gains([np.random.default_rng([seed, 62]) for seed in seeds], n_simulations)
    return [tables.judged(k, share, root) for k, (share, root) in enumerate(zip(shares, roots))]


class _Tables:
    """Places, times and densities of sets, and the grid of each."""

    def __init__(self, sets):
        rows = _rows(len(sets[0][1]))
        kept, ends = np.concatenate(rows), np.cumsum([0, *map(len, rows)]).tolist()
        self.rows = list(zip(ends, ends[1:]))
        x = np.stack([locations[kept].T for locations, _ in sets])
        self.t = np.stack([times[kept] for _, times in sets])
        self.x = x - x.mean(axis=2, keepdims=True)
        n_sets, self.n_dims, n = self.x.shape
        self.begin, self.before = np.empty((2, n_sets, n), np.int32)
        hours = np.zeros(n_sets)
        for low, high in self.rows:
            self.begin[:, low:high] = low
            for k, t in enumerate(self.t[:, low:high]):
                self.before[k, low:high] = low + np.searchsorted(t, t, side="left")
                hours[k] += t[-1] - t[0]
        spread = _or_one(np.sqrt(self.x.var(axis=2).mean(axis=1)))
        self.h = _WIDEST * spread[:, None] * FACTOR ** (-0.5 * np.arange(_N_H))
        self.omega = SLOWEST / _or_one(hours / len(rows))[:, None] * FACTOR ** np.arange(N_OMEGA)
        self.f = _adaptive_density(self.x, spread * n ** (-1.0 / (self.n_dims + 4)))
        span = _or_one(self.t[:, -1] - self.t[:, 0])
        self.g = _density(self.t[:, None, :], np.repeat((0.3 * span * n**-0.2)[:, None], n, axis=1))

    def _orders(self, randoms, n_simulations):
        """Draw which place each time has, shape (n_sets, n, 1 + n_simulations): first as it is."""
        order = np.empty((len(randoms), self.t.shape[1], 1 + n_simulations), np.int32)
        for k, random in enumerate(randoms):
            for low, high in self.rows:
                own = np.tile(np.arange(low, high, dtype=np.int32), (1 + n_simulations, 1))
                random.permuted(own[1:], axis=1, out=own[1:])
                order[k, low:high] = own.T
        return order

    def _scales(self):
        """Return what multiplies sums of pairs, shape (n_sets, n_omega, n_h): densities over offspring."""
        # expected offspring of theta = 1 that the rows hold, for each omega
        offspring = np.zeros(self.omega.shape)
        for low, high in self.rows:
            left = self.t[:, high - 1 : high] - self.t[:, low:high]
            offspring -= np.expm1(-self.omega[:, :, None] * left[:, None, :]).sum(axis=2)
        norm = self.omega[:, :, None] / (math.sqrt(2.0 * math.pi) * self.h[:, None, :]) ** self.n_dims
        return norm / _or_one(offspring)[:, :, None]

    def gains(self, randoms, n_simulations):
        """Return the best share and its root of twice the gain, shapes (n_sets, n_omega * n_h, 1 +
        n_simulations)."""
        n_sets, n = self.t.shape
        order, cells = self._orders(randoms, n_simulations), N_OMEGA * _N_H
        data = [pk.copy_of(v) for v in (self.x, self.t)]
        widths = -LOG2_E * self.omega[:, 0], -0.5 * LOG2_E / self.h[:, 0] ** 2
        rest = self.begin, self.before, *widths, self._scales(), self.f, self.g
        rest, sizes = [pk.copy_of(v) for v in rest], [pk.static(v) for v in (self.n_dims, _N_H, N_OMEGA)]
        found = np.empty((2, n_sets * cells, 1 + n_simulations))
        at_once = max(_MOST_BYTES // (4 * n_sets * cells * n), 8)
        for low in range(0, 1 + n_simulations, at_once):
            some = pk.copy_of(order[:, :, low : low + at_once])
            q = pk.empty((n_sets * cells, n, some.shape[2]), np.float32)
            launch(some.shape, pair_ratios, *sizes, *data, some, *rest, q)
            found[:, :, low : low + at_once] = best_shares(q)
        return found.reshape(2, n_sets, cells, 1 + n_simulations)

    def judged(self, k, shares, roots):
        """Return the test of set k."""
        largest = stands_out(roots)
        cell = int(roots[:, 0].argmax())
        w, i = divmod(cell, _N_H)
        best = float(1.0 / self.omega[k, w]), float(self.h[k, i]), float(shares[cell, 0])
        p_value, n_tested = float((largest >= largest[0]).mean()), self.t.shape[1]
        return TriggeringTest(
            p_value, float(largest[0]), largest[1:], *best, n_tested, self.omega[k], self.h[k]
        )


def stands_out(roots):
    """Return for each draw, shape (n_cells, n_draws), the largest height above the mean of all draws, in
    their standard deviations."""
    # sqrt(2 S) is about half of a normal law: less spread has a grid point that few draws reach at all
    spread = np.maximum(roots.std(axis=1, keepdims=True), 0.5)
    return ((roots - roots.mean(axis=1, keepdims=True)) / spread).max(axis=0)


def best_shares(q):
    """Return for each cell and draw of a View q, shape (n_cells, n_events, n_draws): the share of offspring
    that explains most, and the root of twice what it gains."""
    n_cells, _, n_draws = q.shape
    share, root = pk.empty((n_cells, n_draws)), pk.empty((n_cells, n_draws))
    launch((n_cells, n_draws), best_share, _HALVINGS, _LEAST_SHARE, q, share, root)
    return share.to_numpy(), root.to_numpy()


def _or_one(values):
    """Return values, 1 in place of 0: of events at one place, or at one time, every draw is the same."""
    return np.where(values > 0.0, values, 1.0)


def _rows(n):
    """Return numbers of events that are tested, in rows of neighbours in time."""
    if n <= _ROW:
        return [np.arange(n)]
    n_rows = min(-(-n // _ROW), _MOST_ROWS)
    length = min(n // n_rows, _ROW)
    return [np.arange(low, low + length) for low in np.linspace(0, n - length, n_rows).astype(int)]


def _density(x, widths):
    """Return the leave-one-out kernel density of places, each kernel of its own width; shape (n_sets,
    n_places)."""
    n_sets, n_dims, n = x.shape
    out = pk.empty((n_sets, n))
    launch((n_sets, n), place_density, pk.static(n_dims), pk.copy_of(x), pk.copy_of(widths), out)
    density = out.to_numpy() / ((2.0 * math.pi) ** (0.5 * n_dims) * n)
    return np.maximum(density, 1e-9 * _or_one(density.mean(axis=1, keepdims=True)))


def _adaptive_density(x, width):
    """Return the same, widths as the root of the density itself (Abramson 1982)."""
    n = x.shape[2]
    widths = np.repeat(width[:, None], n, axis=1)
    for _ in range(2):
        density = np.log(_density(x, widths))
        widths = width[:, None] * np.exp(
            np.clip(0.5 * (density.mean(axis=1, keepdims=True) - density), -3.0, 1.0)
        )
    return _density(x, widths)
