"""Options of `portable hawkes`: the model, initial values, and an earlier fit."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ..shared import InputError, add_cluster, check_positive, command, read_json
from . import (
    Covariates,
    Forecast,
    Likelihood,
    MutualFit,
    MutualLikelihood,
    Parameters,
    Posterior,
    calibrate,
    compose,
    fit_background,
    fit_mutual,
    forecast,
    read_catalogue,
    sample_posterior,
    season,
    simulate,
)
from .calibration import BACKGROUNDS, CLUSTERS, calibrate_noise

# initial values of parameters, unless options replace them
_MOST_STEPS = 1e7  # of the covariates of a season
_STARTS = {
    **{"mu0": 0.5, "tau_x": 1.6, "tau_t": 336.0, "theta": 0.3, "h": 1.0, "omega": 1.0, "c": 0.1, "p": 1.1},
    **{"q": 1.5, "alpha": 0.5, "gamma": 0.2},
    **{f"omega_{k + 1}": 10.0 / 100.0**k for k in range(8)},
    **{f"weight_{k}": 1.0 for k in range(2, 9)},
}
_FILE = {"default": None, "metavar": "FILE.csv"}
_BOX = {"type": float, "nargs": "+", "metavar": "LOW HIGH"}
_KM, _POLYGON = {"metavar": "KM"}, {"metavar": "FILE.geojson"}
_SEASON = _BOX | {"metavar": "HOURS"}


def own_options(
    *,
    decay: str = "exponential",
    background: Literal["paper", "constant", "piecewise", "declustered"] = "declustered",
    box_km: list[float] | None = None,
    polygon: str | None = None,
    season: list[float] | None = None,
    least_h: float | None = None,
    jitter: float | None = None,
    tau_x: float | None = None,
    tau_t: float | None = None,
    sample_tau: bool = False,
    out: str = ".",
    figures: Literal["png", "svg", "none"] = "png",
    method: Literal["metropolis", "nuts", "likelihood", "mode"] = "metropolis",
    average: int = 500,
    params: str | None = None,
    posterior: str | None = None,
    type: str = "type",
    rates: list[float] | None = None,
    noise: bool = False,
    mutual: bool = False,
    quick: bool = False,
) -> None:
    """Define options of the commands that no function of the package has as parameters.

    Parameters
    ----------
    decay : str
        Exponential, omori, or a number of exponentials.
    background : str
        Fitted alternately with the triggering (declustered), or the paper's kernel density over all events.
    box_km : list of float
        Box of the background: a pair for each dimension.
    polygon : path
        The region, in place of the box, with the projection of the events.
    season : list of float
        Periods in hours that the background follows: 24 for the hour of the day, 168 for that of the week.
    least_h : float
        Lower bound of h, such as the rounding of places.
    jitter : float
        Displace locations at random within a box of this width.
    tau_x : float
        Spatial scale of the paper's background, km (1.6, chosen for Washington).
    tau_t : float
        Temporal scale of the paper's background, hours (336, chosen for Washington).
    sample_tau : bool
        Also estimate tau_x and tau_t; an event is then excluded from its own background.
    out : path
        Folder of the results.
    figures : str
        Format of figures.
    method : str
        Algorithm 1 of the paper, the no-U-turn sampler, maximum likelihood or the posterior mode.
    average : int
        Posterior draws to average over.
    params : path
        `params.json` of a fit, instead of a posterior.
    posterior : path
        `posterior.nc` of a fit.
    type : str
        Column of types.
    rates : list of float
        Decays, an hour; estimated from there (one, of the mean rate).
    noise : bool
        Level, power and coverage of the default analysis instead, over six shapes of the background.
    mutual : bool
        Coverage of 90 % intervals of mutually exciting types.
    quick : bool
        20 sets, only to check that everything runs.
    """


def _add_table(one, *columns):
    """Add the table of events, and options of the reader."""
    one.add_argument("events", metavar="EVENTS", help=".csv, .csv.gz, .parquet or .npz")
    command.add(one, read_catalogue, *columns)


def add_events(one):
    """Add the options that define the events, the model, and the folder of results."""
    _add_table(one, "ids", "marks", "reference_mark", "end", "date_order")
    command.add(one, own_options, "decay")
    command.add(one, compose, "within_h", "distance", "growth")
    command.add(one, own_options, "background")
    command.add(one, fit_background, "n_periods", "n_simulations")
    command.add(one, own_options, box_km=_BOX, polygon=_POLYGON, season=_SEASON, least_h=_KM, jitter=_KM)
    command.add(one, Likelihood, "repeats")
    one.add_argument("--places", nargs="+", default=["x_km", "y_km"], metavar="COLUMN")
    command.add(one, read_catalogue, "time", "length_unit", "time_unit", "lonlat", "spread_h")
    command.add(one, own_options, "tau_x", "tau_t", "sample_tau")
    end = {"help": "end of observation, hours after the first event (the last event)"}
    command.add(one, Likelihood, "dtype", "error_bound", "space", horizon_h=end)
    command.add(one, own_options, "figures", out={"metavar": "FOLDER"})


def add_sampling(one):
    """Add the options of the samplers."""
    draws = {"default": None, "help": "draws per chain (10,000; no-U-turn sampler: 1,000)"}
    warmup = "steps before these, not kept (1,000; of the no-U-turn sampler 300)"
    changes = {"n_draws": draws, "n_warmup": {"default": None, "help": warmup}}
    command.add(one, sample_posterior, "n_chains", **changes)
    command.add(one, sample_posterior, "n_thin", "seed", "checkpoint")
    command.progress(one)


def add_fit(one):
    add_events(one)
    command.add(one, own_options, "method")
    add_sampling(one)
    add_cluster(one)


def add_probabilities(one):
    add_events(one)
    add_sampling(one)
    command.add(one, own_options, "average", "params", "posterior")


def add_judged(one):
    """Add the options of commands that evaluate an earlier fit."""
    add_events(one)
    command.add(one, own_options, "params", "posterior")


def add_forecast(one):
    add_judged(one)
    command.add(one, forecast, "hours", "n_draws", "seed")
    command.add(one, Forecast.interval, "level")


def add_mutual(one):
    _add_table(one, "time", "end", "time_unit", "date_order", "length_unit", "lonlat", "spread_h")
    words = "columns of places, for excitation in space and time"
    one.add_argument("--places", nargs="+", default=(), metavar="COLUMN", help=words)
    rates = _BOX | {"metavar": "RATE"}
    command.add(one, own_options, "type", rates=rates, season=_SEASON, polygon=_POLYGON, jitter=_KM)
    command.add(one, fit_mutual, "fixed_rates", "background")
    command.add(one, MutualFit.interval, "level")
    command.add(one, MutualLikelihood, "space")
    command.add(one, own_options, out=_FILE | {"help": "who influences whom, as a table"})


def add_simulate(one):
    command.add(one, own_options, out=_FILE | {"required": True, "help": "the events"})
    for name, default in (("theta", 0.3), ("omega", 1.0), ("h", 0.1)):
        one.add_argument(f"--{name}", type=float, default=default, help="default: %(default)s")
    asked = {"n_immigrants": 200.0, "horizon_h": 1000.0}
    command.add(one, simulate, **{name: {"required": False, "default": n} for name, n in asked.items()})
    command.add(
        one, own_options, box_km=_BOX | {"default": [0, 10, 0, 10], "help": "a pair for each dimension"}
    )
    command.add(one, simulate, "seed")


def add_calibrate(one):
    command.add(one, calibrate, "method")
    words = "coverage of 90 %% intervals with this background instead"
    one.add_argument("--background", choices=BACKGROUNDS, help=words)
    command.add(one, own_options, "noise", "mutual", "quick")
    command.add(one, calibrate_noise, "n_events", "n_simulations", "n_triggered")
    one.add_argument("--clusters", choices=(*CLUSTERS, "both"), default="both", help="with --background")
    sets = {"default": None, "help": "simulated data sets (default: 200; --noise: 1,000; --quick: 20)"}
    command.add(one, calibrate, "space", "jobs", "seed", n_sets=sets)
    command.progress(one)
    add_cluster(one)


def seasons_of(options, hours):
    """Return the covariates that --season asks for as a keyword argument, over steps of a 24th of the
    shortest period."""
    periods = [check_positive(one, "--season") for one in options.season or ()]
    if not periods:
        return {}
    step = min(periods) / 24.0
    if hours > _MOST_STEPS * step:
        raise InputError(
            f"--season is {min(periods):g}; expected at least {24.0 * hours / _MOST_STEPS:g} hours"
        )
    edges = np.arange(0.0, hours + 2.0 * step, step)
    return {"covariates": Covariates(edges, np.hstack([season(edges, one) for one in periods]))}


def start_of(options, events):
    """Return the initial parameters: the given scales of the background, and typical values of the
    triggering."""
    kind = Parameters
    if options.decay != "exponential" or options.marks or options.distance != "normal" or options.growth:
        decay, within = int(options.decay) if options.decay.isdigit() else options.decay, options.within_h
        if decay == "omori" and not within:
            within = 10.0 * (options.horizon_h or events.horizon_h or float(events.times[-1]))
        shape = {"distance": options.distance, "marks": options.marks is not None, "growth": options.growth}
        kind = compose(decay, n_dims=events.locations.shape[1], within_h=within, **shape)
    asked = {name: v for name in ("tau_x", "tau_t") if (v := getattr(options, name))}
    return kind(**{name: (_STARTS | asked)[name] for name in kind.names()})


def number_or_text(text):
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def read_earlier(options):
    """Return the Parameters or the Posterior of an earlier fit; None if no option names one."""
    if getattr(options, "posterior", None) is not None:
        return Posterior.load(options.posterior)
    if getattr(options, "params", None) is None:
        return None
    values = read_json(options.params)
    try:
        spec = values.pop("triggering", None)
        return (Parameters if spec is None else compose(**spec))(**values)
    except (TypeError, AttributeError) as error:
        wanted = ", ".join(Parameters.names())
        raise InputError(
            f"--params: '{options.params}' must be a JSON object of {wanted}: {error}"
        ) from error
