"""Calibrate samplers, intervals and the test of triggering on simulated data sets.

`calibrate` is simulation-based calibration (Talts, Betancourt, Simpson, Vehtari, Gelman 2018): parameters are
drawn from priors, events from parameters, and posteriors from events; the rank of the true parameter among
independent posterior draws is then uniform. Events cannot be simulated from the kernel density (1), so the
background is uniform over a box and given to the likelihood as known.

`coverage`, `mutual_coverage` and `calibrate_noise` estimate the coverage of intervals and the rejection rate
of the test, over data sets that are analysed like real data, with an estimated background. The noise has no
triggering: places have one of six distributions, and times are uniform over a year or have a yearly season.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np

from ..shared.calibration import rank_truths, Ranks
from ..shared import SpaceLike, check_choice, check_count, check_seed
from ..shared.posteriors import mixing_looked_at
from ..shared.priors import log_normal
from ..shared.processes import map_numbers, space_of
from .backgrounds import fit_background
from .covariates import Covariates, season
from .fit import fit, standard_score
from .histogram import fit_histogram
from .likelihood import Likelihood
from .mutual import Mutual, omori_rates, simulate_mutual
from .mutual_fit import fit_mutual
from .mutual_likelihood import MutualLikelihood
from .sampler import sample_nuts, sample_posterior
from .parameters import Background, Parameters
from .priors import coordinate_name, is_reciprocal
from .significance import triggering_test
from .simulate import simulate


FREE = ("mu0", "theta", "omega", "h")
PRIORS = {
    "mu0": log_normal(1.0, 0.2),
    "theta": log_normal(0.4, 0.25),
    "omega": log_normal(1.0, 0.4),
    "1/h": log_normal(5.0, 0.4),
}
# for each method: the sampler, the length of the first chains, and options
_SAMPLERS = {
    "metropolis": (sample_posterior, 4_000, {"n_warmup": 500}),
    "nuts": (sample_nuts, 300, {"n_chains": 2, "n_warmup": 150}),
}
_SIDE_KM, _HORIZON_H, _KNOWN_IMMIGRANTS = 10.0, 1000.0, 250.0


class Calibration(Ranks):
    """Ranks of true parameters among posterior draws, with the least effective sample size and number of
    events.

    Attributes
    ----------
    least_ess : float
        The smallest effective sample size of any data set and parameter.
    least_events : int
    """

    least_ess: float
    least_events: int


def calibrate(
    method: Literal["metropolis", "nuts"] = "metropolis",
    *,
    n_sets: int = 200,
    n_kept: int = 99,
    least_ess: int = 500,
    seed: int = 0,
    space: SpaceLike = None,
    progress: bool = False,
    jobs: int = 1,
    client: object = None,
) -> Calibration:
    """Calibrate a sampler by simulation-based calibration.

    Parameters
    ----------
    method : {"metropolis", "nuts"}, default "metropolis"
        The sampler: Algorithm 1 of the paper, or the no-U-turn sampler.
    n_sets : int
        Simulated data sets, of at least 200 events each.
    n_kept : int
        Draws of each posterior that are kept; the n_kept + 1 ranks are divided into at most 20 bins.
    least_ess : int
        Effective draws of every parameter; the length of chains is doubled until they have them.
    seed : int
    space : str or Space, optional
    progress : bool
    jobs : int
        Processes that the data sets are divided among, each on one core unless a space is named.
    client : distributed.Client or "local", optional
        Divide the data sets among the workers of this client instead of `jobs`.

    Returns
    -------
    Calibration
        A p-value below 0.01 / n_free happens by chance once in a hundred calibrations.

    Raises
    ------
    DTypeError, InputError
        An argument of a wrong type or out of range; ArviZ or SciPy are not installed.
    """
    check_choice(method, "method", _SAMPLERS)
    n_kept, seed = check_count(n_kept, "n_kept", 9), check_seed(seed)
    one = functools.partial(_ranks, method, n_kept, least_ess, seed, space_of(space, jobs, client))
    how = {"jobs": jobs, "progress": progress, "client": client, "space": space}
    fields, (effective, sizes) = rank_truths(one, FREE, method, n_sets, n_kept, **how)
    return Calibration(**fields, least_ess=float(min(effective)), least_events=int(min(sizes)))


def _ranks(method, n_kept, least_ess, seed, space, k):
    """Return the ranks of the true parameters of data set k, the least effective sample size, and the
    number of events."""
    truth, likelihood = _data_set([seed, k], space)
    posterior, ess = _sample(method, likelihood, least_ess, seed + k)
    draws = posterior.draws.reshape(-1, len(FREE))
    kept = draws[np.linspace(0, len(draws) - 1, n_kept).astype(int)]
    return (kept < [getattr(truth, name) for name in FREE]).sum(axis=0), ess, likelihood.n_events


def _data_set(seed, space):
    """Return parameters drawn from the priors, and the likelihood of events simulated with them."""
    random = np.random.default_rng(seed)
    while True:
        values = {}
        for name in FREE:
            v = float(PRIORS[coordinate_name(Parameters, name)].draw(random, 1)[0])
            values[name] = 1.0 / v if is_reciprocal(Parameters, name) else v
        truth = Parameters(tau_x=1.0, tau_t=1.0, **values)
        # the mean cluster size is infinite; this happens about once in ten thousand draws of the prior
        if truth.theta >= 1.0:
            continue
        made = simulate(
            truth,
            n_immigrants=truth.mu0 * _KNOWN_IMMIGRANTS,
            horizon_h=_HORIZON_H,
            box_km=((0.0, _SIDE_KM),) * 2,
            seed=random,
        )
        # Small data sets are discarded, which hardly changes the prior. Observation begins at the first
        # event.
        if len(made.times) >= 200:
            break
    inside = ((made.locations >= 0.0) & (made.locations <= _SIDE_KM)).all(axis=1)
    background = Background(
        np.where(inside, _KNOWN_IMMIGRANTS / (_SIDE_KM**2 * _HORIZON_H), 0.0),
        _KNOWN_IMMIGRANTS,
        _KNOWN_IMMIGRANTS * made.times / _HORIZON_H,
    )
    return truth, Likelihood(
        made.locations, made.times, background=background, horizon_h=_HORIZON_H, space=space
    )


def _sample(method, likelihood, least_ess, seed):
    """Return a posterior with at least `least_ess` effective draws of every parameter, and the smallest
    number of effective draws."""
    sampler, length, how = _SAMPLERS[method]
    how = how | {"start": Parameters(1.0, 1.0, 1.0, 0.4, 1.0, 0.2), "priors": PRIORS, "seed": seed}
    while True:
        with mixing_looked_at():
            posterior = sampler(likelihood, n_draws=length, **how)
        ess = min(row["ess_bulk"] for row in posterior.summary().values())
        if ess >= least_ess:
            return posterior, ess
        length *= 2


BACKGROUNDS = ("constant", "piecewise", "declustered", "covariates", "paper")
# Clusters within minutes and metres, and within days and hundreds of metres.
CLUSTERS = {
    "fast": Parameters(1.0, 1.6, 336.0, 0.5, 5.0, 0.02),
    "slow": Parameters(1.0, 1.6, 336.0, 0.5, 1.0 / 120.0, 0.5),
}
# of mutual excitation; in the second kind the background has a daily season and a covariate
KINDS = "one decay", "covariates", "in space", "two decays", "omori", "histogram"
NAMES = ("theta", "omega", "h")
LEVEL, ALPHA = 0.9, 0.05
_YEAR_H, _IMMIGRANTS, _TOWN_KM = 8766.0, 300.0, 0.4
_BOX = ((0.0, _SIDE_KM),) * 2
_TOWNS = np.array([[3.0, 3.5], [7.5, 6.0]])
_CENTRES = np.array([[2.5, 3.0], [7.0, 2.0], [5.0, 7.5]])
_TRIGGERED = Parameters(1.0, 1.6, 336.0, theta=0.3, omega=0.1, h=0.1)
_MUTUAL_H, _MU = 3_000.0, (0.2, 0.1, 0.05)  # some 1,700 events
_HOURS = np.arange(_MUTUAL_H + 1.0)
_INFLUENCE = np.array([[0.3, 0.0, 0.2], [0.3, 0.2, 0.0], [0.0, 0.3, 0.1]])
_EDGES = np.array([0.0, 0.25, 0.5, 1.0, 2.0, 6.0])  # hours


class Share(NamedTuple):
    """A share of data sets, and the limits that a correct method meets.

    Attributes
    ----------
    what : str
    share, low, high : float
    judged : bool
        True if there are enough data sets to compare with the limits.
    """

    what: str
    share: float
    low: float
    high: float
    judged: bool


def coverage(background: str, clusters: str = "both", *, n_sets: int = 200, **how: Any) -> list[Share]:
    """Estimate the coverage of 90 % intervals, for clusters in space and time with a given `background`.

    Immigrants are uniform over a square and a year for "constant" and "paper" (the kernel density over all
    events); their rate is three times as high in the second half for "piecewise" and follows the hour of the
    day, and their density a grid, for "covariates"; and half of them are near three centres for
    "declustered".

    Parameters
    ----------
    background : {"constant", "piecewise", "declustered", "covariates", "paper"}
        The background that is fitted.
    clusters : {"fast", "slow", "both"}
        Delays of 12 minutes at 20 m, or of 5 days at 500 m.
    n_sets : int
    **how
        seed, space, jobs, progress and client, as in `calibrate`.

    Returns
    -------
    list of Share
        For a correct method and 200 sets, each share is between 0.84 and 0.96 in 995 of 1,000 cases.
    """
    check_choice(background, "background", BACKGROUNDS)
    check_choice(clusters, "clusters", (*CLUSTERS, "both"))
    shares, judged = [], n_sets >= 200 and background != "paper"
    for speed, truth in CLUSTERS.items():
        if clusters in (speed, "both"):
            one = functools.partial(_clustered, background, truth)
            held = _means(one, n_sets, f"{background}, {speed}", **how)
            for name in NAMES:
                what = f"{name} = {getattr(truth, name):.4g}, {speed} (mean {held['mean ' + name]:.4g})"
                shares.append(Share(what, held[name], 0.84, 0.96, judged))
            if "coefficients" in held:
                shares.append(Share(f"coefficients, {speed}", held["coefficients"], 0.84, 0.96, judged))
    return shares


def mutual_coverage(*, n_sets: int = 200, **how: Any) -> list[Share]:
    """Estimate the coverage of 90 % intervals, for three mutually exciting types, and for a histogram of
    delays.

    There are six cases: a decay whose rate is estimated, the same with covariates, and in space, with
    immigrants that are uniform in a box; two decays of known rates with separate ratios; Omori's law; and one
    type whose delays are in bins. The shares are over all sets and entries: of mu, of influences above 0, of
    influences equal to 0, whose intervals are conservative because they are truncated at 0, and of the rate,
    h and coefficients if they are estimated; and of the offspring in each bin and in all.

    Parameters
    ----------
    n_sets : int
    **how
        seed, space, jobs, progress and client, as in `calibrate`.

    Returns
    -------
    list of Share
    """
    shares = []
    for kind in KINDS:
        for name, share in _means(functools.partial(_mutual, kind), n_sets, kind, **how).items():
            high = 1.0 if name == "no influence" else 0.95
            shares.append(Share(f"{kind}: {name}", share, 0.85, high, n_sets >= 200))
    return shares


def calibrate_noise(
    *,
    n_sets: int = 1000,
    n_events: int = 1000,
    n_simulations: int = 199,
    n_triggered: int | None = None,
    **how: Any,
) -> list[Share]:
    """Estimate how often the default analysis rejects noise, detects triggering, and covers the true
    parameters.

    Parameters
    ----------
    n_sets : int
        Sets without triggering, of each shape.
    n_events : int
        Events of a set.
    n_simulations : int
        Simulated data sets without triggering, for each test.
    n_triggered : int, optional
        Sets with triggering, for all shapes in turn; a fifth of `n_sets` by default.
    **how
        seed, space, jobs, progress and client, as in `calibrate`.

    Returns
    -------
    list of Share
    """
    n_sets, n_events = check_count(n_sets, "n_sets"), check_count(n_events, "n_events", 20)
    n_simulations = check_count(n_simulations, "n_simulations", 19)
    n_triggered = -(-n_sets // 5) if n_triggered is None else check_count(n_triggered, "n_triggered")
    shares = []
    for shape in SHAPES:
        one = functools.partial(_noise, shape, n_events, n_simulations)
        rejected = _means(one, n_sets, shape, **how)["rejected"]
        what = f"{shape}: noise rejected at {ALPHA:.0%}"
        shares.append(Share(what, rejected, 0.035, 0.065, n_sets >= 1000))
    one = functools.partial(_test_data_set, n_events, n_simulations)
    for name, share in _means(one, n_triggered, "with triggering", **how).items():
        truth = "triggering" if name == "found" else f"= {getattr(_TRIGGERED, name):g}"
        limits = (0.95, 1.0) if name == "found" else (0.85, 0.95)
        shares.append(Share(f"{name} {truth}", share, *limits, n_triggered >= 200))
    return shares


def _means(
    one: Callable[..., dict],
    n: int,
    description: str,
    *,
    seed=0,
    space=None,
    jobs=1,
    progress=False,
    client=None,
) -> dict[str, float]:
    """Return the averages, by name, of the results of `one(seed, space, number)` over n data sets."""
    one = functools.partial(one, check_seed(seed), space_of(space, jobs, client))
    how = {"jobs": jobs, "description": description, "progress": progress, "client": client, "space": space}
    found = map_numbers(one, check_count(n, "n_sets"), **how)
    return {name: float(np.concatenate([np.ravel(held[name]) for held in found]).mean()) for name in found[0]}


def _contained(found, truth, names):
    """Return, for each parameter, True if its interval contains the true value."""
    held = {}
    for name in names:
        low, high = found.interval(name, LEVEL)
        held[name] = (low <= getattr(truth, name)) & (getattr(truth, name) <= high)
    return held


def _clustered(background, truth, seed, space, k):
    """Return, for data set k of clusters about immigrants, which intervals contain the true values, and
    the estimates."""
    made = simulate(
        truth,
        n_immigrants=_IMMIGRANTS,
        horizon_h=_YEAR_H,
        box_km=_BOX,
        immigrants=_IMMIGRATION.get(background),
        seed=np.random.default_rng([seed, k]),
    )
    start = Parameters(0.5, truth.tau_x, truth.tau_t, 0.3, 2.0 * truth.omega, 1.5 * truth.h)
    how = {"horizon_h": _YEAR_H, "space": space}
    if background == "paper":
        found, held = fit(Likelihood(made.locations, made.times, **how), start=start, n_simulations=0), {}
    else:
        how |= {"box_km": _BOX, "start": start, "n_simulations": 0}
        if background == "covariates":
            background, how = "constant", how | {"covariates": _DAYS, "grid": _GRID}
        whole = fit_background(made.locations, made.times, background, **how)
        found, held = whole.fit, {}
        if whole.coefficients is not None:
            b, errors = whole.coefficients
            held["coefficients"] = np.abs(b - _B) < standard_score(LEVEL) * errors
    held |= {f"mean {name}": getattr(found.params, name) for name in NAMES}
    return held | _contained(found, truth, NAMES)


def _mutual(kind, seed, space, k):
    """Return, for data set k of three types, which intervals contain the true values."""
    if kind == "histogram":
        return _histogram(seed, space, k)
    weights, rates, b, how = _model(kind)
    shares = np.full(len(rates), 1.0 / len(rates)) if weights is None else weights
    h = 0.3 if kind == "in space" else None
    truth = Mutual(_MU, shares[:, None, None] * _INFLUENCE, rates, b, h)
    made = simulate_mutual(truth, _MUTUAL_H, seed=1_000_003 * seed + k, **how)
    how |= {"n_types": 3, "space": space, "start_h": 0.0, "horizon_h": _MUTUAL_H}
    how |= {"locations": made.locations, "box_km": _BOX} if h else {}
    likelihood = MutualLikelihood(made.times, made.types, **how)
    one = len(rates) == 1
    found = fit_mutual(likelihood, rates, weights=weights, fixed_rates=not one)
    names = ["mu", "influence", *["rates"] * one, *["coefficients"] * (b is not None), *["h_km"] * bool(h)]
    held = _contained(found, truth, names)
    none = _INFLUENCE == 0.0
    return held | {"no influence": held["influence"][none], "influence": held["influence"][~none]}


def _model(kind):
    """Return weights and rates of decays, coefficients, and options of the likelihood."""
    if kind == "omori":
        return *omori_rates(1.5, 0.5, within_h=_MUTUAL_H)[::-1], None, {}
    if kind != "covariates":
        return None, np.array([5.0, 0.2] if kind == "two decays" else [1.5]), None, {}
    values = np.column_stack([season(_HOURS, 24.0), np.sin(0.01 * _HOURS[1:])])
    table = Covariates(_HOURS, values)
    return None, np.array([1.5]), np.diag([0.8, -0.5, 0.3]), {"covariates": table}


def _histogram(seed, space, k):
    """Return, for data set k of one type, which intervals of its histogram contain the true values."""
    made = simulate_mutual(Mutual([0.2], [[0.5]], 1.5), _MUTUAL_H, seed=1_000_003 * seed + k)
    found = fit_histogram(made.times, _EDGES, horizon_h=_MUTUAL_H, space=space)
    bins = -0.5 * np.diff(np.exp(-1.5 * _EDGES))
    truth = replace(found, mu=0.2, offspring=bins, branching=bins.sum())
    return _contained(found, truth, found.standard_errors)


def _noise(shape, n_events, n_simulations, seed, space, k):
    """Return, for set k of one shape without triggering, True if the test rejects."""
    at = list(SHAPES).index(shape)
    places, times = SHAPES[shape](np.random.default_rng([seed, at, k]), n_events)
    order = np.argsort(times, kind="stable")
    # separate random numbers for each shape, so that the results of shapes are independent
    how = {"n_simulations": n_simulations, "seed": seed + len(SHAPES) * k + at, "space": space}
    return {"rejected": _rejects(triggering_test(places[order], times[order], **how))}


def _rejects(test):
    return test.p_value <= ALPHA + 1e-12


def _test_data_set(n_events, n_simulations, seed, space, k):
    """Return, for data set k with triggering, True if the test rejects, and which intervals contain the
    true values."""
    shape = list(SHAPES)[k % len(SHAPES)]
    horizon = 3.0 * _YEAR_H if shape == "season" else _YEAR_H
    made = simulate(
        _TRIGGERED,
        n_immigrants=(1.0 - _TRIGGERED.theta) * n_events,
        horizon_h=horizon,
        immigrants=SHAPES[shape],
        seed=np.random.default_rng([seed, 99, k]),
    )
    how = {"horizon_h": horizon, "n_simulations": n_simulations, "space": space}
    found = fit_background(made.locations, made.times, **how).fit
    return {"found": _rejects(found.test)} | _contained(found, _TRIGGERED, NAMES)


def _year(random, n):
    return random.uniform(0.0, _YEAR_H, n)


def _square(random, n):
    return random.uniform(0.0, _SIDE_KM, (n, 2)), _year(random, n)


def _disc(random, n):
    radius, angle = 0.5 * _SIDE_KM * np.sqrt(random.random(n)), random.uniform(0.0, 2.0 * math.pi, n)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), _year(random, n)


def _l_shaped(random, n):
    """Draw places uniformly from the square without its upper right quarter."""
    places = random.uniform(0.0, 0.5 * _SIDE_KM, (n, 2))
    quarter = random.integers(0, 3, n)
    return places + 0.5 * _SIDE_KM * np.array([[0, 0], [1, 0], [0, 1]])[quarter], _year(random, n)


def _towns(random, n):
    """Draw half of the places uniformly, half in two towns."""
    places, times = _square(random, n)
    in_town = random.random(n) < 0.5
    some = _TOWNS[random.integers(0, 2, n)] + random.normal(0.0, _TOWN_KM, (n, 2))
    return np.where(in_town[:, None], some, places), times


def _gradient(random, n):
    """Draw places from a density that increases linearly from 0 at one side."""
    places, times = _square(random, n)
    places[:, 0] = _SIDE_KM * np.sqrt(random.random(n))
    return places, times


def _following(table, b, random, n):
    """Draw places uniformly, and times at a rate that follows covariates."""
    mass = np.diff(table.axes[0]) * np.exp(table.values @ b)
    which = random.choice(len(mass), n, p=mass / mass.sum())
    times = random.uniform(table.axes[0][which], table.axes[0][which + 1])
    return random.uniform(0.0, _SIDE_KM, (n, 2)), times


def _varied(random, n):
    places, times = _following(_DAYS, _B[:2], random, n)
    return np.maximum(0.625 * places, 2.5 * places - 15.0), times


def _late(random, n):
    """Draw three times as many events in the second half of the year as in the first."""
    times = random.uniform(0.0, 0.5 * _YEAR_H, n) + 0.5 * _YEAR_H * (random.random(n) < 0.75)
    return random.uniform(0.0, _SIDE_KM, (n, 2)), times


def _gathered(random, n):
    """Draw half of the places uniformly, half about three centres, within the square."""
    places = random.uniform(0.0, _SIDE_KM, (n, 2))
    near = random.random(n) < 0.5
    outside = near.copy()
    while outside.any():
        some = _CENTRES[random.integers(0, 3, outside.sum())]
        places[outside] = some + random.normal(0.0, 1.2, (outside.sum(), 2))
        outside = near & ((places < 0.0) | (places > _SIDE_KM)).any(axis=1)
    return places, _year(random, n)


def _table(hours, step, period_h):
    edges = np.arange(0.0, hours + step, step)
    return Covariates(edges, season(edges, period_h))


_DAYS, _GRID = _table(_YEAR_H, 1.0, 24.0), Covariates([[0.0, 5.0, _SIDE_KM]] * 2, np.indices((2, 2)).T)
# of places 80 % are in the lower half along each side, evenly
_B = np.append([0.8, -0.5], np.log([0.25] * 2))
SHAPES = {
    "square": _square,
    "disc": _disc,
    "L-shaped": _l_shaped,
    "two towns": _towns,
    "gradient": _gradient,
    # over three years
    "season": functools.partial(_following, _table(3.0 * _YEAR_H, 24.0, _YEAR_H), [0.0, 1.1]),
}
_IMMIGRATION = {
    "piecewise": _late,
    "declustered": _gathered,
    "covariates": _varied,
}
