"""The options of `portable hawkes`, and what they say: the model, where estimates begin, an earlier fit."""

from __future__ import annotations

from portable.errors import InputError

from ..shared import command
from ..shared.cluster import add_cluster
from ..shared.files import read_json
from .backgrounds import KINDS, fit_background
from .calibration import calibrate
from .catalogue import read_catalogue
from .compose import compose
from .coverage import BACKGROUNDS, CLUSTERS, calibrate_noise
from .forecast import Forecast, forecast
from .likelihood import Likelihood
from .mutual_fit import MutualFit, fit_mutual
from .mutual_likelihood import MutualLikelihood
from .parameters import Parameters
from .posterior import Posterior
from .sampler import sample_posterior
from .simulate import simulate

# where estimates begin, unless options say otherwise
_STARTS = {
    **{"mu0": 0.5, "tau_x": 1.6, "tau_t": 336.0, "theta": 0.3, "h": 1.0, "omega": 1.0, "c": 0.1, "p": 1.1},
    **{"q": 1.5, "alpha": 0.5, "gamma": 0.2},
    **{f"omega_{k + 1}": 10.0 / 100.0**k for k in range(8)},
    **{f"weight_{k}": 1.0 for k in range(2, 9)},
}
_BOX = {"type": float, "nargs": "+", "metavar": "LOW HIGH"}


def add_events(one):
    """Add options that say what the events are, which model is fitted, and where results go."""
    one.add_argument("events", metavar="EVENTS", help=".csv, .csv.gz, .parquet or .npz")
    command.add(one, read_catalogue, "ids", "marks", "reference_mark", "end", "date_order")
    _add(
        one, "--decay", "exponential, omori, or a number of exponentials (exponential)", default="exponential"
    )
    command.add(one, compose, "within_h", "distance", "growth")
    words = "fitted in turns with the triggering (declustered), or the paper's kernel density over all events"
    _add(one, "--background", words, choices=("paper", *KINDS), default="declustered")
    command.add(one, fit_background, "n_periods", "n_simulations")
    _add(one, "--box-km", "where the background is: a pair for each dimension", **_BOX)
    words = "in place of the box: the region, projected as the events"
    _add(one, "--polygon", words, metavar="FILE.geojson")
    for flag, words in (
        ("--least-h", "lower bound of h, such as the rounding of places"),
        ("--jitter", "spread places at random over so wide a box"),
    ):
        _add(one, flag, words, type=float, metavar="KM")
    command.add(one, Likelihood, "repeats")
    one.add_argument("--places", nargs="+", default=["x_km", "y_km"], metavar="COLUMN")
    command.add(one, read_catalogue, "time", "length_unit", "time_unit", "lonlat")
    for flag, words in (
        ("--tau-x", "spatial scale of the paper's background, km (1.6, which is Washington's)"),
        ("--tau-t", "temporal scale of the paper's background, hours (336, which is Washington's)"),
    ):
        _add(one, flag, words, type=float)
    words = "estimate these two as well; an event leaves its own background"
    _add(one, "--sample-tau", words, action="store_true")
    end = {"help": "end of observation, hours after the first event (the last event)"}
    command.add(one, Likelihood, "dtype", "error_bound", "space", horizon_h=end)
    _add(one, "--out", "where results go (here)", default=".", metavar="FOLDER")
    one.add_argument("--figures", choices=("png", "svg", "none"), default="png")


def _add(one, flag, words, **how):
    one.add_argument(flag, help=words, **how)


def add_sampling(one):
    """Add options of the samplers."""
    draws = {"default": None, "help": "of each chain (10,000; of the no-U-turn sampler 1,000)"}
    warmup = "steps before these, not kept (1,000; of the no-U-turn sampler 300)"
    changes = {"n_draws": draws, "n_warmup": {"default": None, "help": warmup}}
    command.add(one, sample_posterior, "n_chains", **changes)
    command.add(one, sample_posterior, "n_thin", "seed", "checkpoint")
    command.progress(one)


def add_fit(one):
    add_events(one)
    words = "Algorithm 1 of the paper, the no-U-turn sampler, maximum likelihood or the posterior mode"
    methods = ("metropolis", "nuts", "likelihood", "mode")
    _add(one, "--method", words, choices=methods, default="metropolis")
    add_sampling(one)
    add_cluster(one)


def add_probabilities(one):
    add_events(one)
    add_sampling(one)
    _add(one, "--average", "posterior draws to average over (500)", type=int, default=500, metavar="N")
    _add_earlier(one)


def add_judged(one):
    """Add options of commands that take an earlier fit and write numbers."""
    add_events(one)
    _add_earlier(one)


def add_forecast(one):
    add_judged(one)
    command.add(one, forecast, "hours", "n_draws", "seed")
    command.add(one, Forecast.interval, "level")


def add_mutual(one):
    one.add_argument("events", metavar="EVENTS", help=".csv, .csv.gz, .parquet or .npz")
    _add(one, "--type", "column of types", default="type", metavar="COLUMN")
    command.add(one, read_catalogue, "time", "end", "time_unit", "date_order")
    words = "decays, an hour; estimated from there (one, of the mean rate)"
    _add(one, "--rates", words, type=float, nargs="+", metavar="RATE")
    command.add(one, fit_mutual, "fixed_rates")
    command.add(one, MutualFit.interval, "level")
    command.add(one, MutualLikelihood, "space")
    _add(one, "--out", "who influences whom, as a table", metavar="FILE.csv")


def add_simulate(one):
    _add(one, "--out", "the events", required=True, metavar="FILE.csv")
    for name, default in (("theta", 0.3), ("omega", 1.0), ("h", 0.1)):
        _add(one, f"--{name}", "default: %(default)s", type=float, default=default)
    asked = {"n_immigrants": 200.0, "horizon_h": 1000.0}
    command.add(one, simulate, **{name: {"required": False, "default": n} for name, n in asked.items()})
    _add(one, "--box-km", "a pair for each dimension", default=[0, 10, 0, 10], **_BOX)
    command.add(one, simulate, "method", "seed")


def add_calibrate(one):
    command.add(one, calibrate, "method")
    _add(one, "--background", "coverage of 90 %% intervals with this background instead", choices=BACKGROUNDS)
    for flag, words in (
        (
            "--noise",
            "level, power and coverage of the default analysis instead, over six shapes of the background",
        ),
        ("--mutual", "coverage of 90 %% intervals of types that excite one another"),
        ("--quick", "20 sets: shows that everything runs"),
    ):
        _add(one, flag, words, action="store_true")
    command.add(one, calibrate_noise, "n_events", "n_simulations", "n_triggered")
    _add(one, "--clusters", "of that (both)", choices=(*CLUSTERS, "both"), default="both")
    sets = {"default": None, "help": "simulated data sets (default: 200; --noise: 1,000; --quick: 20)"}
    command.add(one, calibrate, "space", "jobs", "seed", n_sets=sets)
    command.progress(one)
    add_cluster(one)


def _add_earlier(one):
    _add(one, "--params", "params.json of a fit, instead of a posterior")
    _add(one, "--posterior", "posterior.nc of a fit")


def start_of(options, events):
    """Return the parameters at which estimates begin: scales of the background as given, those of the
    triggering as data mostly have them."""
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


def given(options):
    """Return the parameters, or the posterior, of an earlier fit; None if neither is named."""
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
        raise InputError(f"--params: '{options.params}' is no JSON object of {wanted}: {error}") from error
