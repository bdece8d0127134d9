"""Test of no triggering: theta = 0 against any theta, delay and distance, exact for any separable
background in space and time.

Without triggering, and with a background that is a density of places times a rate in time, the place and the
time of an event are independent. Given the observed places and times, all pairings of them are then equally
likely, so draws from the null hypothesis are permutations (Knox 1964; Besag and Diggle 1977): neither the
region's outline nor towns, trends and seasons have to be known. Triggering pairs nearby places with nearby
times. The statistic is computed alike for the events and for every permutation: over a grid of delays 1 /
omega and distances h, with the share s of events that are offspring,

    S(omega, h) = max_s sum_n log(1 - s + s q_n),    q_n = xi_n / (theta f(x_n) g(t_n))     up to a constant,

where f and g are leave-one-out kernel densities of places and times. Each sqrt(2 S) is standardised by its
mean and standard deviation over the permutations, and the largest value over the grid is the statistic; the
p-value is its rank among the permutations.
"""

from __future__ import annotations

import math

import numpy as np

import portable as pk

from ..shared import ArrayLike, Floats, Frozen, SpaceLike, check_count, check_seed, launch
from .checks import check_events
from .kernels import LOG2_E, squared_distance

_N_H, N_OMEGA = 5, 8
_CELLS = _N_H * N_OMEGA
# Ratio of neighbours on the grid of omega and of h^2: 8, which is three squarings of the exponential.
FACTOR = 8.0
# largest h relative to the spread of places; smallest omega times the hours of observation
_WIDEST, SLOWEST = 0.25, 10.0
# Pairs are formed within runs of consecutive events: length of a run, and most runs, evenly spaced over the
# record.
_ROW, _MOST_ROWS = 2_048, 4
_HALVINGS, _LEAST_SHARE = 16, 1e-5  # bisections of the search for s, and its lower bound
_MOST_BYTES = 1 << 28  # most memory for q at once


class TriggeringTest(Frozen):
    """The result of a test of no triggering.

    Attributes
    ----------
    p_value : float
        The share of permutations (including the observed data) whose statistic is at least as large as
        observed. Without triggering, it is at most alpha with probability at most alpha.
    statistic : float
    simulated : ndarray, shape (n_simulations,)
        The statistic of each permutation.
    delay_h, distance_km : float
        1 / omega and h of the grid with the largest likelihood gain.
    share : float
        The maximising share of offspring there; the background is rough, so this is not an estimate.
    n_tested : int
        The number of events used.
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
        """Return True if the test rejects "no triggering" at level alpha, or at the smallest level that
        the number of permutations allows, if that is larger.

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
def weighted_density(team, n_dims, a_x, x, weights, places, same, out):
    """Compute sum_j weights_j exp(a_x_j r^2) at place i, without j = same[i]; one team per place. 3 D + 3
    operations and an exponential per pair."""
    i = team.league_rank
    own = same[i]
    total = 0.0
    for j in team.thread_range(x.shape[1]):
        term = weights[j] * pk.fast_exp2(LOG2_E * a_x[j] * squared_distance(n_dims, False, places, i, x, j))
        total += pk.where(j == own, 0.0, term)
    total = team.reduce(total)
    if team.single():
        out[i] = total


@pk.kernel
def pair_ratios(i, r, n_dims, n_h, n_omega, x, t, order, begin, before, slowest, widest, scale, f, g, out):
    """Compute q of event i of draw r for each omega and h; `order` holds the place that is paired with each
    time in a draw.

    Values of omega and h^2 on the grid differ by powers of FACTOR, so exponentials follow by squaring: a pair
    costs two exponentials, and 3 (n_h + n_omega) + 2 n_h n_omega operations.
    """
    sums = pk.local((n_omega, n_h), pk.float64)
    near = pk.local(n_h, pk.float64)
    sums[:] = 0.0
    own = order[i, r]
    for j in range(begin[i], before[i]):
        other = order[j, r]
        r2 = 0.0
        for c in range(n_dims):
            d = x[c, own] - x[c, other]
            r2 += d * d
        late = pk.fast_exp2(slowest * (t[i] - t[j]))
        term = pk.fast_exp2(widest * r2)
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
    common = 1.0 / (f[own] * g[i])
    for w in range(n_omega):
        for k in range(n_h):
            out[w * n_h + k, i, r] = pk.float32(min(scale[w, k] * common * sums[w, k], 1e30))


@pk.kernel
def best_share(c, r, n_halvings, least, q, found, gained):
    """Compute the s that maximises sum_n log(1 + s (q_n - 1)) for one omega and h of draw r, and the root
    of twice the maximum. n_halvings + 2 passes over the events, 4 bytes and about 6 operations each."""
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
    space: SpaceLike = None,
) -> TriggeringTest:
    """Test the hypothesis that events do not trigger events, for any background that is a density of
    places times a rate in time.

    Parameters
    ----------
    locations : array-like, shape (n_events, n_dims), n_dims = 1, 2 or 3, kilometres
    times : array-like, shape (n_events,), hours, ascending
    n_simulations : int
        Number of permutations: the smallest p-value is 1 / (n_simulations + 1).
    seed : int
        Of the permutations.
    space : str or Space, optional

    Returns
    -------
    TriggeringTest
        The p-value is also small if the distribution of places changes in time. It is 1 for events at one
        place, or with fewer than three distinct times, which carry no information.

    Raises
    ------
    ShapeError, DTypeError, FiniteError, OrderError, InputError
        As in `Likelihood`.

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
    n_simulations = check_count(n_simulations, "n_simulations")
    random = np.random.default_rng([check_seed(seed), 62])
    with pk.use(space):
        tables = _Tables(locations, times)
        shares, roots = tables.gains(random, n_simulations)
    largest, cell = stands_out(roots), int(roots[:, 0].argmax())
    w, i = divmod(cell, _N_H)
    return TriggeringTest(
        float((largest >= largest[0]).mean()),
        float(largest[0]),
        largest[1:],
        float(1.0 / tables.omega[w]),
        float(tables.h[i]),
        float(shares[cell, 0]),
        len(tables.t),
        tables.omega,
        tables.h,
    )


class _Tables:
    """Places, times and densities of the tested events, and the grid."""

    def __init__(self, locations, times):
        rows = _rows(len(times))
        kept, ends = np.concatenate(rows), np.cumsum([0, *map(len, rows)]).tolist()
        self.rows, self.t = list(zip(ends, ends[1:])), times[kept]
        x = np.ascontiguousarray(locations[kept].T)
        self.x = x - x.mean(axis=1, keepdims=True)
        self.n_dims, n = x.shape
        self.begin, self.before = np.empty((2, n), np.int32)
        hours = 0.0
        for low, high in self.rows:
            t, self.begin[low:high] = self.t[low:high], low
            self.before[low:high] = low + np.searchsorted(t, t)
            hours += t[-1] - t[0]
        spread = _or_one(np.sqrt(self.x.var(axis=1).mean()))
        self.h = _WIDEST * spread * FACTOR ** (-0.5 * np.arange(_N_H))
        self.omega = SLOWEST / _or_one(hours / len(rows)) * FACTOR ** np.arange(N_OMEGA)
        self.f = _adaptive_density(self.x, spread * n ** (-1.0 / (self.n_dims + 4)))
        span = _or_one(self.t[-1] - self.t[0])
        self.g = _density(self.t[None], np.full(n, 0.3 * span * n**-0.2))

    def _orders(self, random, n_simulations):
        """Draw the permutations: the place paired with each time, shape (n, 1 + n_simulations); the first is
        the observed pairing."""
        order = np.empty((len(self.t), 1 + n_simulations), np.int32)
        for low, high in self.rows:
            own = np.tile(np.arange(low, high, dtype=np.int32), (1 + n_simulations, 1))
            random.permuted(own[1:], axis=1, out=own[1:])
            order[low:high] = own.T
        return order

    def _scales(self):
        """Return the factors of the sums over pairs, shape (n_omega, n_h): normalising constants over
        expected offspring."""
        # expected offspring within the runs for theta = 1, for each omega
        offspring = np.zeros(N_OMEGA)
        for low, high in self.rows:
            left = self.t[high - 1] - self.t[low:high]
            offspring -= np.expm1(-self.omega[:, None] * left).sum(axis=1)
        norm = self.omega[:, None] / (math.sqrt(2.0 * math.pi) * self.h) ** self.n_dims
        return norm / _or_one(offspring)[:, None]

    def gains(self, random, n_simulations):
        """Return the best share s, and the root of twice its log-likelihood gain, shapes (n_omega * n_h, 1 +
        n_simulations)."""
        n, order = len(self.t), self._orders(random, n_simulations)
        arrays = self.x, self.t, self.begin, self.before, self._scales(), self.f, self.g
        x, t, begin, before, *rest = map(pk.copy_of, arrays)
        widths = -LOG2_E * self.omega[0], -0.5 * LOG2_E / self.h[0] ** 2
        sizes, found = [pk.static(v) for v in (self.n_dims, _N_H, N_OMEGA)], []
        at_once = max(_MOST_BYTES // (4 * _CELLS * n), 8)
        for low in range(0, 1 + n_simulations, at_once):
            some = pk.copy_of(order[:, low : low + at_once])
            q = pk.empty((_CELLS, *some.shape), np.float32)
            launch(some.shape, pair_ratios, *sizes, x, t, some, begin, before, *widths, *rest, q)
            found.append(best_shares(q))
        return np.concatenate(found, axis=2)


def stands_out(roots):
    """Return, for each draw, the largest of its standardised roots over cells; `roots` has the shape
    (n_cells, n_draws)."""
    # sqrt(2 S) is approximately half-normal; grid points where most draws are 0 have less spread
    spread = np.maximum(roots.std(axis=1, keepdims=True), 0.5)
    return ((roots - roots.mean(axis=1, keepdims=True)) / spread).max(axis=0)


def best_shares(q):
    """Return, for each cell and draw of a View q of shape (n_cells, n_events, n_draws), the share of
    offspring that maximises the likelihood, and the root of twice its gain."""
    n_cells, _, n_draws = q.shape
    share, root = pk.empty((n_cells, n_draws)), pk.empty((n_cells, n_draws))
    launch((n_cells, n_draws), best_share, _HALVINGS, _LEAST_SHARE, q, share, root)
    return share.to_numpy(), root.to_numpy()


def _or_one(values):
    """Return values with 1 in place of 0, for events at one place or at one time, for which all draws are
    the same."""
    return np.where(values > 0.0, values, 1.0)


def _rows(n):
    """Return the numbers of the tested events, in runs of consecutive events."""
    if n <= _ROW:
        return [np.arange(n)]
    n_rows = min(-(-n // _ROW), _MOST_ROWS)
    length = min(n // n_rows, _ROW)
    return [np.arange(low, low + length) for low in np.linspace(0, n - length, n_rows).astype(int)]


def kernel_sums(x, places, weights, widths, same):
    """Return `weighted_density` at `places`, shape (n_dims, n_places), for normal kernels at `x`."""
    out = pk.zeros(places.shape[1])
    rest = map(pk.copy_of, (-0.5 / widths**2, x, weights, places, same))
    launch(pk.TeamPolicy(out.size, 128), weighted_density, pk.static(len(x)), *rest, out)
    return out.to_numpy()


def _density(x, widths):
    """Return the leave-one-out kernel density at the places, with a separate width for each kernel; shape
    (n_places,)."""
    n_dims, n = x.shape
    sums = kernel_sums(x, x, widths**-n_dims, widths, np.arange(n))
    density = sums / ((2.0 * math.pi) ** (0.5 * n_dims) * n)
    return np.maximum(density, 1e-9 * _or_one(density.mean()))


def _adaptive_density(x, width):
    """Return the leave-one-out kernel density with widths inversely proportional to the root of a pilot
    density (Abramson 1982)."""
    widths = np.full(x.shape[1], width)
    for _ in range(2):
        density = np.log(_density(x, widths))
        widths = width * np.exp(np.clip(0.5 * (density.mean() - density), -3.0, 1.0))
    return _density(x, widths)
