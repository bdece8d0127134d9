"""Backgrounds that do not absorb clusters, estimated alternately with the triggering.

    constant      mu_n = mu0 N / (|A| T)
    piecewise     mu_n = mu0 N w_b(n) / |A|,      w_b ~ the background events of period b an hour
    declustered   mu_n = mu0 N f(x_n) / T,        f a kernel density of the background events, event n left
                  out

over a box or polygon A and the time of observation T; mu0 is thus about the share of background events. Event
n has weight 1 - pi_n of (5), given the triggering, in the estimate of the background; then the triggering is
fitted given the background; this is iterated to convergence, as in stochastic declustering (Zhuang, Ogata and
Vere-Jones 2002). Kernels are truncated at the boundary of A and rescaled to keep their mass. If it improves
the fit enough, each kernel has a separate width, which decreases with the density of background events
(Abramson 1982), for towns in open country. Widths are chosen by the leave-one-out likelihood of the
background events. "declustered" also has a rate that is piecewise constant in time over equal periods, whose
number is chosen by a penalised likelihood of the background events.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

import portable as pk

from ..shared import (
    ArrayLike,
    Floats,
    Frozen,
    InputError,
    SpaceLike,
    check_choice,
    check_count,
    check_kind,
    check_positive,
)
from .checks import check_enough, check_events, check_horizon, spread_of
from .covariates import Covariates, LogLinear, cell_of, clipped, corners_of, draw_times, period_of
from .fit import Fit, covariance_of, fit
from .likelihood import Likelihood
from .parameters import Background, Parameters, ParametersBase
from .regions import region_of
from .significance import kernel_sums, triggering_test

Kind: TypeAlias = Literal["constant", "piecewise", "declustered"]
MOVED = 1e-3  # convergence: largest change of any event's weight
_BANDWIDTHS = 12  # number of bandwidths compared, evenly spaced in their logarithm
# Gain in the leave-one-out log-likelihood above which each kernel has a separate width.
_GAIN = 20.0
_JUDGED = 2_048  # most events in the likelihood by which bandwidths are compared
_NARROWEST, _WIDEST = 0.05, 5.0  # bounds of a kernel's width relative to the typical one
# offspring simulated per event; least share outside of the region that is reported in a note
_DRAWN, _MUCH_OUTSIDE = 20, 0.05
_STEP = 1e-3  # of differences in the logarithms of parameters
_PERIODS, _LEAST_IN_PERIOD = (1, 2, 3, 4, 6, 8, 12, 16, 24, 36, 48), 15


class BackgroundFit(Frozen, eq=False):
    """A background and a triggering function that were fitted alternately.

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
        Of "declustered": the median width of its kernels.
    rates_per_h : ndarray, shape (n_periods,)
        Background events an hour in each period.
    n_iterations : int
    converged : bool
    outside : float
        Estimated share of offspring outside of the region, by simulation from the fit. Such events are not
        recorded, so theta counts only offspring inside.
    coefficients : ndarray, shape (2, n_covariates), or None
        Of covariates of time, then of a grid: the estimates and their standard errors.
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
    coefficients: Floats | Any = None


def fit_background(
    locations: ArrayLike,
    times: ArrayLike,
    kind: Kind = "declustered",
    *,
    box_km: ArrayLike | None = None,
    polygon: Any = None,
    n_periods: int | None = None,
    covariates: Covariates | None = None,
    grid: Covariates | None = None,
    bandwidth_km: float | None = None,
    start: ParametersBase | None = None,
    fixed: Sequence[str] = ("tau_x", "tau_t"),
    least: dict | None = None,
    max_iter: int = 50,
    horizon_h: float | None = None,
    n_simulations: int = 199,
    space: SpaceLike = None,
    **options: Any,
) -> BackgroundFit:
    """Fit a background and a triggering function to events alternately.

    Parameters
    ----------
    locations : array-like, shape (n_events, n_dims), kilometres
    times : array-like, shape (n_events,), hours, ascending
    kind : {"constant", "piecewise", "declustered"}
    box_km : sequence of (low, high), one a dimension, optional
        The region of background events; the bounding box of the events if not given. The background is 0
        outside.
    polygon : array-like, shape (n_vertices, 2), kilometres; WKT; GeoJSON; or a geometry; optional
        The observed region, in place of a box: the vertices of a ring, a text "POLYGON (...)", a GeoJSON
        mapping or file, or a geometry of shapely or GeoPandas, with holes or several parts.
        `Catalogue.polygon` projects a polygon of longitudes and latitudes. It must contain all events.
    n_periods : int, optional
        Number of periods of equal length with a constant rate; if not given, 8 for "piecewise", and chosen
        from the data for "declustered".
    covariates : Covariates, optional
        Covariates of time, in place of periods: the rate is proportional to exp(b . z(t)).
    grid : Covariates, optional
        Covariates of space, not for "declustered": the density is proportional to exp(b . z(x)).
    bandwidth_km : float, optional
        Of "declustered": the width of all kernels. If not given, it is chosen from the data, possibly
        separately for each kernel.
    start : Parameters, optional
        Initial values of the triggering; tau_x and tau_t have no effect. If not given, the delay and distance
        of strongest evidence in the test.
    fixed, least
        As in `fit`.
    max_iter : int
    n_simulations : int
        Simulated data sets without triggering for the test (`triggering_test`); 0 omits the test.
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
        As in `Likelihood` and `fit`; a box without events; a polygon that crosses itself or does not contain
        all events.

    References
    ----------
    Zhuang, Ogata, Vere-Jones: Stochastic declustering of space-time earthquake occurrences. JASA 97 (2002).
    """
    locations, times = check_events(locations, times)
    check_choice(kind, "kind", Kind)
    max_iter = check_count(max_iter, "max_iter")
    horizon = check_horizon(horizon_h, times)
    check_enough(len(times), horizon - times[0])
    if kind == "constant" and n_periods not in (None, 1):
        raise InputError("n_periods is for 'piecewise' and 'declustered'; kind is 'constant'")
    if covariates is not None and n_periods is not None:
        raise InputError("covariates replace periods; leave out n_periods")
    usual = {"constant": 1, "piecewise": 8}.get(kind)
    n_periods = usual if n_periods is None else check_count(n_periods, "n_periods", most=10_000)
    if bandwidth_km is not None:
        bandwidth_km = check_positive(bandwidth_km, "bandwidth_km")
    region = region_of(box_km, polygon, locations)
    make = Maker(locations, times, horizon, region, kind, n_periods, bandwidth_km, space)
    if covariates is not None:
        make.follow(covariates)
    if grid is not None:
        make.spread(grid)
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
        # a constant background does not depend on the weights
        converged = kind == "constant" and not make.parts or bool(np.abs(weights - before).max() < MOVED)
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
        _coefficients(make.parts.values(), likelihood, found, weights) if make.parts else None,
    )


def _coefficients(parts, likelihood, found, weights):
    """Return the coefficients of covariates and their standard errors, from the joint observed information:
    the derivative in them is the sum over events of the share of the background times z less its mean."""
    z, params, at = np.hstack([one.z[one.cell] - one.mean for one in parts]), found.params, 0
    own = -(z * (weights * (1.0 - weights))[:, None]).T @ z
    for one in parts:
        some = slice(at, at := at + len(one.b))
        own[some, some] += weights.sum() * one.spread

    def shares(name, step):
        moved = replace(params, **{name: getattr(params, name) * math.exp(step)})
        return likelihood.excitation_probabilities(moved)

    moved = [shares(name, _STEP) - shares(name, -_STEP) for name in found.free]
    cross = np.array(moved) @ z / (2.0 * _STEP)
    # finite for parameters about which the events say something
    known = np.nan_to_num(found.log_covariance, posinf=0.0)
    covariance = covariance_of(own - cross.T @ known @ cross, np.zeros(len(own), bool))[0]
    found = np.stack([np.concatenate([one.b for one in parts]), np.sqrt(np.diag(covariance))])
    return found / np.concatenate([one.unit for one in parts])


def _outside(region, likelihood, params):
    """Return the share of offspring of these events outside of the region, by simulation."""
    sums, trigger = likelihood.sums, params.triggering
    marks = sums.marks if trigger.marked else np.zeros(likelihood.n_events)
    places, marks = (np.repeat(v, _DRAWN, axis=0) for v in (sums.locations + likelihood.centre, marks))
    random = np.random.default_rng(0)
    shifts = trigger.draw(random, marks, likelihood.n_dims, params.trigger_values)[1]
    return float(1.0 - region.holds(places + shifts).mean())


def _first_start(locations, hours, test):
    """Return initial parameters: the delay and distance of the test if it rejects, otherwise multiples of
    the data's scales."""
    omega, h = 50.0 / max(hours, 1e-3), 0.05 * max(spread_of(locations), 1e-3)
    if test is not None and test.rejects():
        omega, h = 1.0 / test.delay_h, test.distance_km
    return Parameters(0.5, 1.0, 1.0, 0.3, omega, max(h, 1e-6))


class Maker:
    """A function from the weights of events to a Background."""

    def __init__(self, locations, times, horizon, region, kind, n_periods, bandwidth_km, space):
        self.locations, self.times, self.kind, self.space = locations, times, kind, space
        self.region, self.span = region, horizon - times[0]
        self.inside = region.holds(locations)
        if not self.inside.any():
            raise InputError("box_km holds no event")
        self.n_periods, self._given_km = n_periods, bandwidth_km
        self.bandwidth_km = self.widths = None
        self._tries, self.parts = 0, {}

    def follow(self, covariates):
        """Let the rate follow covariates of time."""
        edges = clipped(covariates, self.times[0], self.span)
        values = covariates.values[np.diff(edges) > 0.0]
        self.edges = self.times[0] + np.unique(edges)
        hours, period = np.diff(self.edges), period_of(self.edges, self.times)
        self.parts["time"] = LogLinear(period, hours, values)

    def spread(self, grid):
        """Let the density follow covariates of space."""
        check_kind(grid, "grid", Covariates, "be hawkes.Covariates")
        if self.kind == "declustered" or len(grid.axes) != self.locations.shape[1]:
            raise InputError("grid needs edges for each dimension; 'declustered' has none")
        self.grid, corners = grid, corners_of(grid)
        areas = self.region.areas(*corners)
        if not math.isclose(areas.sum(), self.region.area, rel_tol=1e-9):
            raise InputError("grid must cover the region")
        self.corners = corners
        self.parts["space"] = LogLinear(cell_of(grid, self.locations), areas, grid.values)

    def __call__(self, weights):
        n, declustered = len(self.times), self.kind == "declustered"
        self._tries += 1
        # further choices could alternate between neighbouring values
        if self._tries <= (4 if declustered else 1):
            if "time" not in self.parts:
                n_periods = self.n_periods or self._choose_periods(weights)
                self.edges = self.times[0] + self.span * np.linspace(0.0, 1.0, n_periods + 1)
            if declustered:
                self.widths = self._choose(weights)
                self.bandwidth_km = float(np.median(self.widths))
        hours = np.diff(self.edges)
        if "time" in self.parts:
            rates = self.parts["time"].fit(weights)
        else:
            counts = np.bincount(period_of(self.edges, self.times), weights, minlength=len(hours))
            # In a period without background events the background would be 0 and its events certain
            # offspring; each period therefore has at least half an event.
            counts = np.maximum(counts, 0.5 if len(hours) > 1 else 0.0)
            rates = counts / counts.sum() / hours  # per hour; the integral is 1
        self.rates_per_h = n * rates
        law, places = _Law(self.region, n, self.edges, rates), np.full(n, 1.0 / self.region.area)
        if declustered:
            scale = self._scaled(weights, self.widths)
            law.density = functools.partial(self._density, scale, self.widths)
            widths = self.widths
            law.parts = weights, functools.partial(_draw_near, self.locations, widths)
            # leave-one-out density: renormalise by the weights of the other events
            places = law.density(np.arange(n)) * (weights.sum() / np.maximum(weights.sum() - weights, 1e-300))
        if "space" in self.parts:
            part = self.parts["space"]
            density = part.fit(weights)
            places, law.density = density[part.cell], functools.partial(_density_of_cells, density, self.grid)
            law.parts = part.sizes * density, functools.partial(_draw_within, self.corners)
        places[~self.inside] = 0.0
        until = n * np.interp(self.times, self.edges, np.append(0.0, np.cumsum(rates * hours)))
        return Background(n * places * law.rate(self.times), float(n), until, law.at, law.draw)

    def _scaled(self, weights, widths):
        """Return the weights divided by their sum, by each kernel's mass inside the region, and by its
        normalising constant, so that the density integrates to 1 in the region."""
        n_dims = self.locations.shape[1]
        mass = self.region.mass(self.locations, widths)
        return (
            weights / np.maximum(mass, 1e-12) / weights.sum() / (math.sqrt(2.0 * math.pi) * widths) ** n_dims
        )

    def _density(self, scale, widths, at):
        """Return the density at the events with numbers `at`, without each event's kernel; or at places
        `at`, shape (n_places, n_dims)."""
        own = at if at.ndim == 1 else np.full(len(at), -1)
        places = self.locations[at] if at.ndim == 1 else at
        middle = self.locations.mean(axis=0)
        with pk.use(self.space):
            return kernel_sums(*((v - middle).T for v in (self.locations, places)), scale, widths, own)

    def _choose(self, weights):
        """Return the width of each event's kernel, which maximises the weighted leave-one-out log-density."""
        n, n_dims = self.locations.shape
        if self._given_km is not None:
            return np.full(n, float(self._given_km))
        spread = max(spread_of(self.locations[self.inside]), 1e-6)
        typical, shape = spread * weights.sum() ** (-1.0 / (n_dims + 4)), np.ones(n)
        for _ in range(2):  # the second iteration uses a pilot density with separate widths
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
        """Return the number of periods that the background events support, at twice the penalty of
        Schwarz's criterion, because remnants of clusters would otherwise appear as changes of the rate."""
        n, tried = weights.sum(), [(0.0, 1)]
        for count in _PERIODS:
            if n < count * _LEAST_IN_PERIOD:
                break
            at = np.clip((count * (self.times - self.times[0]) / self.span).astype(int), 0, count - 1)
            inside = np.maximum(np.bincount(at, weights, minlength=count), 1e-300)
            tried.append((float(inside @ np.log(inside * count / n)) - (count - 1) * math.log(n), count))
        return max(tried)[1]


# functions, not lambdas, so that a fit can be pickled
def _draw_near(locations, widths, random, k):
    return random.normal(locations[k], widths[k, None])


def _draw_within(corners, random, k):
    return random.uniform(*(side[k] for side in corners))


def _density_of_cells(density, grid, at):
    return density[cell_of(grid, at)]


@dataclass
class _Law:
    """The density of a background: a density in space times a rate in time; after the record, the rate of
    the last period.

    density : callable (places), uniform if None
    parts : weights of kernels or cells, and a function that draws a place from each of some of them
    """

    region: Any
    n: int
    edges: Floats
    rates: Floats
    density: Any = None
    parts: Any = None

    def rate(self, times):
        return self.rates[period_of(self.edges, times)]

    def at(self, locations, times):
        """Return the background density at places and times."""
        places = 1.0 / self.region.area if self.density is None else self.density(locations)
        places = np.where(self.region.holds(locations), places, 0.0)
        return self.n * places * self.rate(times) * (times >= self.edges[0])

    def draw(self, random, mu0, begin, end):
        """Simulate background events between two times."""
        cuts = np.unique(np.clip([begin, end, *self.edges], begin, end))
        means = mu0 * self.n * self.rate(0.5 * (cuts[1:] + cuts[:-1])) * np.diff(cuts)
        times, region = draw_times(random, cuts, means[:, None])[0], self.region
        if self.parts is None:
            return region.draw(random, len(times)), times
        weights, draw = self.parts
        which = random.choice(len(weights), len(times), p=weights / weights.sum())
        places, outside = np.empty((len(times), len(region.low))), np.ones(len(times), bool)
        while outside.any():  # kernels and cells are truncated to the region
            places[outside] = draw(random, which[outside])
            outside = ~region.holds(places)
        return places, times
