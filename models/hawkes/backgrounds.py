"""Backgrounds that do not take clusters for their own, estimated with the triggering in turns.

    constant      mu_n = mu0 N / (|A| T)
    piecewise     mu_n = mu0 N w_b(n) / |A|,      w_b ~ the background events of period b an hour
    declustered   mu_n = mu0 N f(x_n) / T,        f a kernel density of the background events, event n left
                  out

over a box or polygon A and the time observed T; so mu0 is about the share of events that are background. An
event counts as background by 1 - pi_n of (5), which the triggering gives; the triggering is fitted anew to
the background; and so on until neither moves, as in stochastic declustering (Zhuang, Ogata and Vere-Jones
2002). Kernels are cut off at its edge and scaled up to keep their mass. Where it pays, each has its own
width, the narrower the denser background events are about it (Abramson 1982), for towns in open country;
the width is the one under which each background event is likeliest, left out of the density itself.
"declustered" also takes the rate in time to be that of equal periods, so many as a penalised likelihood of
the background events wants.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

import portable as pk
from portable.errors import InputError

from ..shared.annotations import ArrayLike, Floats
from ..shared.checks import check_choice, check_count
from ..shared.launches import launch
from ..shared.shown import Shown
from .checks import check_enough, check_events, check_horizon, spread_of
from .fit import Fit, fit
from .kernels import LOG2_E, squared_distance
from .likelihood import Likelihood
from .parameters import Background, Parameters, ParametersBase, check_positive
from .regions import region_of
from .significance import triggering_test

KINDS = ("constant", "piecewise", "declustered")
_MOVED = 1e-3  # of any event's share: less is rest
_BANDWIDTHS = 12  # tried, even in their logarithm
# of the log-likelihood of events that are left out, from which on each kernel has its own width
_GAIN = 20.0
_JUDGED = 2_048  # events, at most, that bandwidths are compared by
_NARROWEST, _WIDEST = 0.05, 5.0  # a kernel's width beside the typical one
_DRAWN, _MUCH_OUTSIDE = 20, 0.05  # offspring drawn for each event; the least share that a note reports
_PERIODS, _LEAST_IN_PERIOD = (1, 2, 3, 4, 6, 8, 12, 16, 24, 36, 48), 15


@dataclass(frozen=True, eq=False)
class BackgroundFit(Shown):
    """A background and a triggering function that were fitted in turns.

    Attributes
    ----------
    likelihood : Likelihood
        With the background; for samplers, probabilities, residuals and forecasts.
    fit : Fit
        Of the parameters, given that background.
    background : Background
    weights : ndarray, shape (n_events,)
        The probability that each event is background.
    bandwidth_km : float or None
        Of "declustered": the median of its kernels.
    rates_per_h : ndarray, shape (n_periods,)
        Background events an hour in each period.
    n_iterations : int
    converged : bool
    outside : float
        Share of offspring that fall outside of the region, of those that the fit draws: none are recorded, so
        theta counts the others alone.
    """

    likelihood: Likelihood
    fit: Fit
    background: Background
    weights: Floats
    bandwidth_km: float | None
    rates_per_h: Floats
    n_iterations: int
    converged: bool
    outside: float


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


def fit_background(
    locations: ArrayLike,
    times: ArrayLike,
    kind: Literal["constant", "piecewise", "declustered"] = "declustered",
    *,
    box_km: ArrayLike | None = None,
    polygon: Any = None,
    n_periods: int | None = None,
    bandwidth_km: float | None = None,
    start: ParametersBase | None = None,
    fixed: Sequence[str] = ("tau_x", "tau_t"),
    least: dict | None = None,
    max_iter: int = 50,
    horizon_h: float | None = None,
    n_simulations: int = 199,
    space: pk.SpaceLike | None = None,
    **options: Any,
) -> BackgroundFit:
    """Fit a background and a triggering function in turns.

    Parameters
    ----------
    locations : array-like, shape (n_events, n_dims), kilometres
    times : array-like, shape (n_events,), hours, ascending
    kind : {"constant", "piecewise", "declustered"}
    box_km : sequence of (low, high), one a dimension, optional
        Where background events may be; that of the events if not given. It holds nothing outside.
    polygon : array-like, shape (n_vertices, 2), kilometres; WKT; GeoJSON; or a geometry; optional
        In place of a box: the region that was observed, as a ring's vertices, a text "POLYGON (...)", a
        GeoJSON mapping or file, or what shapely and GeoPandas make; with holes or several parts.
        `Catalogue.polygon` projects one of longitudes and latitudes. It must hold all events.
    n_periods : int, optional
        Periods of equal length in which the rate is constant: if not given 8 for "piecewise", and for
        "declustered" as many as the events want.
    bandwidth_km : float, optional
        Of "declustered", one for all kernels; chosen from the data if not given, and then each kernel's own.
    start : Parameters, optional
        Where the triggering begins; tau_x and tau_t do not matter. If not given, the delay and the distance
        at which the test finds most.
    fixed, least
        As in `fit`.
    max_iter : int
    n_simulations : int
        Draws without triggering for the test (`triggering_test`); 0 leaves it out.
    horizon_h, space
        As in `Likelihood`, and
    **options
        marks, reference_mark, method, dtype, error_bound, repeats.

    Returns
    -------
    BackgroundFit

    Raises
    ------
    ShapeError, DTypeError, FiniteError, OrderError, InputError
        As `Likelihood` and `fit`; a box without events; a polygon that crosses itself or does not hold all.

    References
    ----------
    Zhuang, Ogata, Vere-Jones: Stochastic declustering of space-time earthquake occurrences. JASA 97 (2002).
    """
    locations, times = check_events(locations, times)
    check_choice(kind, "kind", KINDS)
    max_iter = check_count(max_iter, "max_iter")
    horizon = check_horizon(horizon_h, times)
    check_enough(len(times))
    if kind == "constant" and n_periods not in (None, 1):
        raise InputError("n_periods is for 'piecewise' and 'declustered'; kind is 'constant'")
    if n_periods is None:
        n_periods = {"constant": 1, "piecewise": 8}.get(kind)
    else:
        n_periods = check_count(n_periods, "n_periods", most=10_000)
    if bandwidth_km is not None:
        bandwidth_km = check_positive(bandwidth_km, "bandwidth_km")
    region = region_of(box_km, polygon, locations)
    make = _Maker(locations, times, horizon, region, kind, n_periods, bandwidth_km, space)
    test = None
    if n_simulations:
        test = triggering_test(locations, times, n_simulations=n_simulations, space=space)
    start = start or _first_start(locations, make.span, test)
    weights, converged, how = make.inside.astype(float), False, {"fixed": fixed, "least": least}
    options |= {"horizon_h": horizon_h, "space": space}
    for n_iterations in range(1, max_iter + 1):
        likelihood = Likelihood(locations, times, background=make(weights), **options)
        found = fit(likelihood, start=start, n_simulations=0, **how)
        start, before = found.params, weights
        weights = (1.0 - likelihood.excitation_probabilities(start)) * make.inside
        # no part of a constant background depends on the weights
        converged = kind == "constant" or bool(np.abs(weights - before).max() < _MOVED)
        if converged:
            break
    if test is not None:
        likelihood.keep_test(test)
        found = fit(likelihood, start=start, n_simulations=n_simulations, **how)
    outside = _outside(region, likelihood, found.params)
    if outside > _MUCH_OUTSIDE and (test is None or test.rejects()):
        said = (
            f"{outside:.0%} of offspring fall outside of the region, where none are recorded: theta counts"
            " those inside alone, so that an event rather has"
            f" {found.params.theta / (1.0 - min(outside, 0.99)):.3g}"
        )
        found = replace(found, notes=(*found.notes, said))
    return BackgroundFit(
        likelihood,
        found,
        likelihood.background,
        weights,
        make.bandwidth_km,
        make.rates_per_h * found.params.mu0,
        n_iterations,
        converged and found.converged,
        outside,
    )


def _outside(region, likelihood, params):
    """Return the share of offspring of these events that fall outside of the region, by drawing some."""
    sums, trigger = likelihood.sums, params.triggering
    marks = sums.marks if trigger.marked else np.zeros(likelihood.n_events)
    places, marks = (np.repeat(v, _DRAWN, axis=0) for v in (sums.locations + likelihood.centre, marks))
    random = np.random.default_rng(0)
    shifts = trigger.draw(random, marks, likelihood.n_dims, params.trigger_values)[1]
    return float(1.0 - region.holds(places + shifts).mean())


def _first_start(locations, hours, test):
    """Return where estimates begin: at the delay and distance that the test found, if it found any."""
    omega, h = 50.0 / max(hours, 1e-3), 0.05 * max(spread_of(locations), 1e-3)
    if test is not None and test.rejects():
        omega, h = 1.0 / test.delay_h, test.distance_km
    return Parameters(0.5, 1.0, 1.0, 0.3, omega, max(h, 1e-6))


class _Maker:
    """Make a Background from the weights of events."""

    def __init__(self, locations, times, horizon, region, kind, n_periods, bandwidth_km, space):
        self.locations, self.times, self.kind, self.space = locations, times, kind, space
        self.region, self.span = region, horizon - times[0]
        if not self.span > 0.0:
            raise InputError("times span no time; horizon_h after the first event is wanted")
        self.inside = region.holds(locations)
        if not self.inside.any():
            raise InputError("box_km holds no event")
        self.n_periods, self._given_km = n_periods, bandwidth_km
        self.bandwidth_km = self.widths = None
        self._tries = 0

    def __call__(self, weights):
        n, declustered = len(self.times), self.kind == "declustered"
        self._tries += 1
        if self._tries <= (4 if declustered else 1):  # later choices would alternate between neighbours
            n_periods = self.n_periods or self._choose_periods(weights)
            self.edges = self.times[0] + self.span * np.linspace(0.0, 1.0, n_periods + 1)
            if declustered:
                self.widths = self._choose(weights)
                self.bandwidth_km = float(np.median(self.widths))
        hours = np.diff(self.edges)
        counts = np.bincount(_period(self.edges, self.times), weights, minlength=len(hours))
        # A period without background events would make its own triggering infinite: half an event stays in
        # each.
        counts = np.maximum(counts, 0.5 if len(hours) > 1 else 0.0)
        rates = counts / counts.sum() / hours  # an hour; the integral is 1
        self.rates_per_h = n * rates
        law, places = _Law(self.region, n, self.edges, rates), np.full(n, 1.0 / self.region.area)
        if declustered:
            scale = self._scaled(weights, self.widths)
            law.density = functools.partial(self._density, scale, self.widths)
            law.kernels = self.locations, weights, self.widths
            # of the density that is left when the event is out
            places = law.density(np.arange(n)) * (weights.sum() / np.maximum(weights.sum() - weights, 1e-300))
        places[~self.inside] = 0.0
        until = n * np.interp(self.times, self.edges, np.append(0.0, np.cumsum(rates * hours)))
        return Background(n * places * law.rate(self.times), float(n), until, law.at, law.draw)

    def _scaled(self, weights, widths):
        """Return weights with the kernels' constant, their mass within the box and their sum: kernels then
        integrate to 1 there."""
        n_dims = self.locations.shape[1]
        mass = self.region.mass(self.locations, widths)
        return (
            weights / np.maximum(mass, 1e-12) / weights.sum() / (math.sqrt(2.0 * math.pi) * widths) ** n_dims
        )

    def _density(self, scale, widths, at):
        """Return the density at events of these numbers, each left out of its own, or at places, shape
        (n_places, n_dims)."""
        own = at if at.ndim == 1 else np.full(len(at), -1)
        places = self.locations[at] if at.ndim == 1 else at
        with pk.use(pk.default_space() if self.space is None else self.space):
            out, middle = pk.zeros(len(places)), self.locations.mean(axis=0)
            x, y = (pk.copy_of((v - middle).T) for v in (self.locations, places))
            launch(
                pk.TeamPolicy(len(places), 128),
                weighted_density,
                pk.static(x.shape[0]),
                pk.copy_of(-0.5 / widths**2),
                x,
                pk.copy_of(scale),
                y,
                pk.copy_of(own),
                out,
            )
            return out.to_numpy().copy()

    def _choose(self, weights):
        """Return the width of each event's kernel: of the greatest weighted log-density of events that are
        left out."""
        n, n_dims = self.locations.shape
        if self._given_km is not None:
            return np.full(n, float(self._given_km))
        spread = max(spread_of(self.locations[self.inside]), 1e-6)
        typical, shape = spread * weights.sum() ** (-1.0 / (n_dims + 4)), np.ones(n)
        for _ in range(2):  # the second time of a density that follows towns already
            logs = self._log_density(weights, typical * shape, np.arange(n))
            shape = np.exp(0.5 * (weights @ logs / weights.sum() - logs))
            shape = np.clip(shape, _NARROWEST, _WIDEST)
        judges = np.linspace(0, n - 1, min(n, _JUDGED)).astype(int)
        tried = []
        for form, least in ((np.ones(n), 0.0), (shape, _GAIN)):
            for width in spread * np.geomspace(0.02, 1.0, _BANDWIDTHS):
                logs = self._log_density(weights, width * form, judges)
                tried.append((float(weights[judges] @ logs) - least, width * form))
        return max(tried, key=operator.itemgetter(0))[1]

    def _log_density(self, weights, widths, at):
        density = self._density(self._scaled(weights, widths), widths, at)
        return np.log(np.maximum(density, 1e-300))

    def _choose_periods(self, weights):
        """Return the number of seasons that the background events support, at twice the penalty of
        Schwarz's criterion: the rest of clusters would be taken for seasons."""
        n, tried = weights.sum(), [(0.0, 1)]
        for count in _PERIODS:
            if n < count * _LEAST_IN_PERIOD:
                break
            at = np.clip((count * (self.times - self.times[0]) / self.span).astype(int), 0, count - 1)
            inside = np.maximum(np.bincount(at, weights, minlength=count), 1e-300)
            tried.append((float(inside @ np.log(inside * count / n)) - (count - 1) * math.log(n), count))
        return max(tried)[1]


def _period(edges, times):
    """Return the period of each time; times beyond the edges are of the first or the last one."""
    return np.clip(np.searchsorted(edges, times, side="right") - 1, 0, len(edges) - 2)


@dataclass
class _Law:
    """A density of places times a rate in time, the last period's after the record.

    density : callable (places), uniform if None
    kernels : places, weights and widths of the kernels that it is the sum of
    """

    region: Any
    n: int
    edges: Floats
    rates: Floats
    density: Any = None
    kernels: Any = None

    def rate(self, times):
        return self.rates[_period(self.edges, times)]

    def at(self, locations, times):
        """Return the density at places and times."""
        places = 1.0 / self.region.area if self.density is None else self.density(locations)
        places = np.where(self.region.holds(locations), places, 0.0)
        return self.n * places * self.rate(times) * (times >= self.edges[0])

    def draw(self, random, mu0, begin, end):
        """Draw background events between two times."""
        cuts = np.unique(np.clip([begin, end, *self.edges], begin, end))
        counts = random.poisson(mu0 * self.n * self.rate(0.5 * (cuts[1:] + cuts[:-1])) * np.diff(cuts))
        times, region = random.uniform(np.repeat(cuts[:-1], counts), np.repeat(cuts[1:], counts)), self.region
        if self.kernels is None:
            return region.draw(random, len(times)), times
        locations, weights, widths = self.kernels
        which = random.choice(len(weights), len(times), p=weights / weights.sum())
        places, outside = np.empty((len(times), len(region.low))), np.ones(len(times), bool)
        while outside.any():  # kernels are cut off at the region
            places[outside] = random.normal(locations[which[outside]], widths[which[outside], None])
            outside = ~region.holds(places)
        return places, times
