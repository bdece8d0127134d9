"""`portable hawkes`: fit, probabilities, residuals and forecasts of events in a file; simulate; calibrate."""

from __future__ import annotations

import inspect
import json
import math
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from ..shared import InputError, Names, check_outputs, command, need, printable, replacing, write
from ..shared.files import check_folder
from . import (
    Likelihood,
    MutualLikelihood,
    Parameters,
    ParametersBase,
    Posterior,
    calibrate,
    cluster_sizes,
    decluster,
    evidence,
    figures,
    fit,
    fit_background,
    fit_mutual,
    forecast,
    jitter,
    mutual_residuals,
    notes,
    parent_probabilities,
    places,
    posterior_probabilities,
    predictive_check,
    read_catalogue,
    residuals,
    sample_nuts,
    sample_posterior,
    simulate,
)
from . import command_parts as parts
from .catalogue import write_table
from .calibration import calibrate_noise, coverage, mutual_coverage

console = Console(highlight=False, markup=False)
# tables written to `--out`; none of them may be an input file
_WRITTEN = "probabilities.csv", "parents.csv", "forecast.csv"
_SHOWN = {
    "r_hat": ("R-hat", "{:.3f}"),
    "ess_bulk": ("ESS", "{:,.0f}"),
    "ess_tail": ("tail", "{:,.0f}"),
    "mcse": None,
}


def _parser():
    made, commands = command.parser("hawkes", __doc__)
    for name, (add, act) in _COMMANDS.items():
        words = inspect.getdoc(act).rstrip(".")
        one = commands.add_parser(name, help=words[0].lower() + words[1:])
        add(one)
        one.set_defaults(act=act)
    return made


class _Job(NamedTuple):
    """The input of a command; `earlier` is the earlier fit that an option names, or None."""

    options: Any
    folder: Path
    events: Any
    likelihood: Likelihood
    start: ParametersBase
    fixed: Names
    earlier: Any

    def fit(self, **how):
        how = {"start": self.start, "n_simulations": 0} | how
        return fit(self.likelihood, fixed=self.fixed, least=self.options.least, **how)

    def params(self):
        """Return the parameters of the earlier fit, or the posterior mode."""
        if isinstance(self.earlier, Posterior):
            return self.earlier.mean()
        return self.earlier or self.fit(posterior=True).params

    def sample(self, method="metropolis"):
        """Draw from the posterior; on Ctrl-C, save the draws until then."""
        sampler = sample_nuts if method == "nuts" else sample_posterior
        asked = command.arguments_of(self.options, sampler) | {"start": self.start, "fixed": self.fixed}
        if self.options.background != "paper" and "omega" in self.start.names():
            # mean delays longer than the record cannot be distinguished from background, and theta is then
            # unbounded
            asked["least"] = (asked["least"] or {}) | {"omega": 1.0 / self.likelihood.horizon_h}
        asked = {name: value for name, value in asked.items() if value is not None}
        try:
            return sampler(self.likelihood, **asked)
        except KeyboardInterrupt as error:
            if hasattr(error, "posterior"):
                file = self.folder / "posterior.nc"
                error.posterior.save(file)
                console.print(f"stopped; what was drawn until then is in {printable(file)}")
            raise

    def draw(self, name, figure, *args):
        """Write the figure that `figure(*args)` returns, unless --figures is none."""
        kind = self.options.figures
        if kind != "none":
            found = figure(*args)
            with replacing(self.folder / f"{name}.{kind}", "--out") as beside:
                getattr(found, "figure", found).savefig(beside, dpi=150)


def _note(text):
    console.print(f"note: {text}", style="yellow")


def _prepare(options):
    """Read the events and construct their likelihood; return a _Job."""
    method = getattr(options, "method", "metropolis")
    if getattr(options, "checkpoint", None) and method != "metropolis":
        raise InputError(f"--checkpoint is for --method metropolis, got --method {method}; leave it out")
    check_outputs(options, "json", inputs=("events", "params", "posterior"))
    _check_background(options)
    folder = check_folder(options.out, _WRITTEN, options.events)
    folder.mkdir(parents=True, exist_ok=True)
    # read first, so that a misspelt name is reported before anything is computed
    earlier = parts.read_earlier(options)
    options.least = None if options.least_h is None else {"h": options.least_h}
    events, start = _read(options)
    _need_writers(options)
    make = _with_paper if options.background == "paper" else _with_fitted
    likelihood, start, fixed = make(options, events, start)
    if options.n_simulations:
        test = likelihood.triggering_test(options.n_simulations)
        console.print(f"test: {test}", style="" if test.rejects() else "yellow")
    return _Job(options, folder, events, likelihood, start, fixed, earlier)


def _catalogue(options, **how):
    """Read the events, and displace their locations by --jitter."""
    options.end = parts.number_or_text(options.end)
    events = read_catalogue(options.events, **command.arguments_of(options, read_catalogue), **how)
    if options.jitter is None:
        return events
    moved = jitter(events.locations, options.jitter, seed=getattr(options, "seed", 0))
    return replace(events, locations=moved)


def _read(options):
    """Read the events; return them and the initial parameters."""
    options.reference_mark = parts.number_or_text(options.reference_mark)
    events = _catalogue(options)
    (n, n_dims), days = events.locations.shape, events.times[-1] / 24
    console.print(f"{n:,} events in {n_dims} dimensions over {days:.5g} days; {places(events.locations)}")
    return events, parts.start_of(options, events)


def _how(options):
    """Return the keyword arguments of the likelihood."""
    names = "dtype", "error_bound", "space", "repeats", "horizon_h", "client"
    return {name: value for name in names if (value := getattr(options, name)) is not None}


def _with_paper(options, events, start):
    """Return the likelihood with the paper's background, the initial parameters, and the names of the
    fixed ones."""
    likelihood = events.likelihood(background_self=not options.sample_tau, **_how(options))
    unasked = (
        " (unless given, those of gunfire in Washington, D.C.: is this such? --tau-x, --tau-t, --sample-tau,"
        " --background)"
    )
    scales = f"tau_x = {start.tau_x:g} km and tau_t = {start.tau_t:g} h"
    unasked = "" if options.tau_x and options.tau_t else unasked
    console.print(f"background: kernel density over all events, {scales}{unasked}")
    return likelihood, start, () if options.sample_tau else ("tau_x", "tau_t")


def _with_fitted(options, events, start):
    """Return the likelihood with a background fitted alternately with the triggering, the initial
    parameters, and the names of the fixed ones."""
    how = command.arguments_of(options, fit_background) | {"horizon_h": events.horizon_h} | _how(options)
    if events.marks is not None:
        how |= {"marks": events.marks, "reference_mark": events.reference_mark}
    how["box_km"] = None if options.box_km is None else np.reshape(options.box_km, (-1, 2))
    how["polygon"] = None if options.polygon is None else events.polygon(options.polygon)
    how["start"] = start if type(start) is not Parameters else None
    how |= parts.seasons_of(options, how["horizon_h"] or float(events.times[-1]))
    made = fit_background(events.locations, events.times, options.background, **how)
    width = "" if made.bandwidth_km is None else f", bandwidth {made.bandwidth_km:.3g} km"
    console.print(
        f"background: {options.background}{width}; {made.fit.params.mu0:.1%} of the events; "
        f"{made.n_iterations} iterations, {'' if made.converged else 'not '}converged; {made.outside:.1%} of"
        " offspring fall outside of the region, unrecorded"
    )
    _print_seasons(options.season or (), made.coefficients)
    return made.likelihood, made.fit.params, ("tau_x", "tau_t")


def _print_seasons(periods, coefficients, whose=""):
    for k, hours in enumerate(periods):
        a, b = coefficients[0, 2 * k : 2 * k + 2]
        most, peak = math.exp(math.hypot(a, b)), math.atan2(b, a) / (2.0 * math.pi) % 1.0 * hours
        console.print(
            f"{whose}season of {hours:g} hours: {most:.3g} times its mean, {peak:.3g} hours after the first"
            " event"
        )


def _check_background(options):
    """Raise InputError if options of the paper's background are combined with another background."""
    for name in ("polygon", "season"):
        if getattr(options, name) and options.background == "paper":
            raise InputError(f"--{name} is for a fitted background, and --background is paper; leave one out")
    asked = {"--tau-x": "tau_x", "--tau-t": "tau_t", "--sample-tau": "sample_tau", "--cluster": "client"}
    wrong = [flag for flag, name in asked.items() if getattr(options, name, None)]
    if wrong and options.background != "paper":
        raise InputError(
            f"{wrong[0]} is for the paper's background, and --background is {options.background}; add"
            " --background paper, or leave it out"
        )


def _need_writers(options):
    """Import the libraries that write results, so that a missing one is reported before sampling, not
    after an hour."""
    method = getattr(options, "method", None)
    if method in ("metropolis", "nuts"):
        for module in ("arviz_base", "h5netcdf"):
            need(module, "arviz", "posterior.nc and its summary")
    if options.figures != "none" and method not in ("likelihood", "mode"):
        need("matplotlib", "plot", "figures (--figures none does without)")


def run_fit(options):
    """Estimate the parameters; write draws (NetCDF), a table (JSON) and figures."""
    job = _prepare(options)
    rows, params, bound, said = (_by_optimum if options.method in ("likelihood", "mode") else _by_draws)(job)
    _print_rows(rows, type(params))
    console.print(
        f"largest bound of a log-likelihood's relative error: {bound:.1e}; last sums: {job.likelihood.method}"
    )
    for note in said:
        if not note.startswith("no evidence"):  # already printed with the test
            _note(note)
    values = asdict(params)
    units = {name: params.unit(name) for name in values | rows}
    whole = values | ({"triggering": params.spec} if params.spec else {})
    for name, held in (("fit", {"params": values, "units": units, "table": rows}), ("params", whole)):
        write(job.folder / f"{name}.json", json.dumps(held, indent=1) + "\n", "--out")
    command.write_json(options, params=whole, table=rows, notes=said)


def _by_optimum(job):
    """Maximise the likelihood or posterior; return rows of the table, parameters, the error bound, and
    notes."""
    options = job.options
    found = job.fit(posterior=options.method == "mode", n_simulations=options.n_simulations)
    rows = {}
    for name in found.free:
        values = getattr(found.params, name), found.standard_errors[name], *found.interval(name)
        rows[name] = dict(zip(("estimate", "standard error", "q2.5", "q97.5"), values))
    console.print(f"log-likelihood {found.log_likelihood:.4f}, AIC {found.aic:.4f}")
    return rows, found.params, job.likelihood.attained_error, found.notes


def _by_draws(job):
    """Sample the posterior; return rows of the table, parameters, the error bound, and notes."""
    posterior = job.sample(job.options.method)
    rows = posterior.summary([*posterior.free, *(["1/omega"] if "omega" in posterior.free else [])])
    params = posterior.mean()
    said = notes(job.likelihood, params, posterior.free, n_simulations=job.options.n_simulations)
    posterior.save(job.folder / "posterior.nc")
    job.draw("posterior", figures.posterior_densities, posterior)
    return rows, params, posterior.attained_error, said


def run_probabilities(options):
    """Estimate the parents of events, and the sizes of their clusters; write CSV and figures."""
    job = _prepare(options)
    likelihood, events = job.likelihood, job.events
    params, columns = _probabilities(job)
    parents = parent_probabilities(likelihood, params)
    columns["family_size"] = cluster_sizes(parents)
    columns["background"] = decluster(likelihood, params, seed=options.seed).background
    columns = _axes(events.locations) | {"t_hours": events.times} | columns
    write_table(job.folder / _WRITTEN[0], events.joined(**columns))
    pairs = {"child": events.ids[parents.children], "parent": events.ids[parents.parents]}
    write_table(job.folder / _WRITTEN[1], pairs | {"probability": parents.probabilities})
    mean = columns["probability"]
    console.print(f"{mean.sum():,.1f} of {len(mean):,} events ({mean.mean():.1%}) were triggered by others")
    command.write_json(options, n_events=len(mean), expected_triggered=mean.sum())
    job.draw("map", figures.probability_map, events.locations, mean)
    job.draw("time", figures.probabilities_in_time, events.times, mean)


def _probabilities(job):
    """Return the parameters, and columns of the probabilities of having been triggered."""
    params = job.earlier
    if isinstance(params, ParametersBase):
        return params, {"probability": job.likelihood.excitation_probabilities(params)}
    posterior = params or job.sample()
    found = posterior_probabilities(job.likelihood, posterior, n_draws=job.options.average)
    columns = found.mean, found.sd, found.quantiles[0], found.quantiles[2]
    return posterior.mean(), dict(zip(("probability", "sd", "q2.5", "q97.5"), columns))


def _axes(locations):
    """Return columns of locations by their names."""
    return {f"{axis}_km": column for axis, column in zip("xyz", locations.T)}


def run_residuals(options):
    """Test the fit by time rescaling, with a figure."""
    job = _prepare(options)
    likelihood, params = job.likelihood, job.params()
    found = residuals(likelihood, params)
    command.write_json(options, residuals=found)
    console.print(
        f"expected {found.rescaled[-1]:,.1f} events until the last of {likelihood.n_events:,};"
        f" Kolmogorov-Smirnov {found.statistic:.4f}, p = {found.p_value:.2g}; correlation of neighbours"
        f" {found.correlation:+.4f}"
    )
    if found.p_value < 0.01:
        _note(
            "the model does not fit. Try another --decay (omori, 2 or 3 exponentials), --marks or"
            " --background"
        )
    job.draw("residuals", figures.residual_plot, found)
    job.draw("decay", figures.decay_plot, params)
    if likelihood.n_dims == 2 and (likelihood.background is None or likelihood.background.at is not None):
        job.draw("intensity", figures.intensity_map, likelihood, params)


def run_forecast(options):
    """Forecast the number of events after the record, with intervals; a posterior predictive check."""
    job = _prepare(options)
    found, n_draws = job.earlier or job.params(), options.n_draws
    ahead = forecast(job.likelihood, found, options.hours, n_draws=n_draws, seed=options.seed)
    low, high = ahead.interval(options.level)
    begin, end = job.events.dates([ahead.begin_h, ahead.end_h])
    console.print(
        f"from {begin} to {end}: {ahead.mean:.1f} events expected, {100 * options.level:g} % between"
        f" {low:g} and {high:g}"
    )
    check = predictive_check(job.likelihood, found, n_draws=min(n_draws, 100), seed=options.seed)
    _print_check(check)
    limits = {"mean": ahead.mean, "level": options.level, "interval": (low, high)}
    command.write_json(options, begin=begin, end=end, n_events=limits, check=check)
    write_table(job.folder / _WRITTEN[2], {"draw": np.arange(n_draws), "n_events": ahead.counts})


def _print_check(check):
    for name, value in check.observed.items():
        drawn, p_value = np.mean(check.drawn[name]), check.p_values[name]
        console.print(f"  {name}: {value:.4g} observed, {drawn:.4g} drawn, p = {p_value:.2g}")


def run_compare(options):
    """Print AIC, or with --posterior WAIC and leave-one-out."""
    job = _prepare(options)
    if isinstance(job.earlier, Posterior):
        found = evidence(job.likelihood, job.earlier)
        command.write_json(options, evidence=found)
        console.print(
            f"WAIC {found.waic:.2f} ± {found.waic_se:.2f} ({found.p_waic:.1f} parameters); leave-one-out"
            f" {found.loo:.2f} ± {found.loo_se:.2f} (largest k {found.worst_k:.2f})"
        )
        return
    found = job.fit(start=job.earlier or job.start)
    command.write_json(options, log_likelihood=found.log_likelihood, aic=float(found.aic), free=found.free)
    console.print(
        f"log-likelihood {found.log_likelihood:.4f}, {len(found.free)} parameters, AIC {found.aic:.4f},"
        f" comparable with others of --background {options.background} and the same options of it"
    )


def _read_types(options):
    """Read times and types of events, and places if named; return their MutualLikelihood."""
    check_outputs(options, "out", "json", inputs=("events",))
    events = _catalogue(options, ids=options.type)
    how = {"horizon_h": events.horizon_h, "space": options.space}
    if options.places:
        how["locations"] = events.locations
    if options.polygon:
        how["polygon"] = events.polygon(options.polygon)
    how |= parts.seasons_of(options, events.horizon_h or events.times[-1])
    return MutualLikelihood(events.times, events.ids, **how)


def run_mutual(options):
    """Fit mutually exciting types of events, in time or with places: their influences, with intervals."""
    likelihood = _read_types(options)
    found = fit_mutual(likelihood, options.rates, **command.arguments_of(options, fit_mutual))
    graph = found.graph(options.level)
    ended = "" if found.converged else "not "
    console.print(
        f"{likelihood.n_events:,} events of {likelihood.n_types} types; {ended}converged, log-likelihood"
        f" {found.log_likelihood:.4f}, AIC {found.aic:.4f}"
    )
    _print_scales(options, found)
    cells = [[f"{v:.4g}" if isinstance(v, float) else str(v) for v in row.values()] for row in graph]
    _print_table(("from", "to", "direct offspring", "low", "high"), cells)
    residual = mutual_residuals(likelihood, found.params)
    console.print(
        f"residuals by time rescaling: p = {residual.p_value:.2g}, the worst type's times their number"
    )
    for note in found.notes:
        _note(note)
    command.write_json(options, params=found.params, names=found.names, graph=graph, p_value=residual.p_value)
    if options.out:
        columns = "source", "target", "influence", "low", "high"
        write_table(options.out, {key: np.array([row[key] for row in graph]) for key in columns})


def _print_scales(options, found):
    """Print delays, distances, and the seasons of each type."""
    params = found.params
    near = f"; distance: h = {params.h_km:.4g} km" if params.h_km else ""
    console.print(f"decays: {', '.join(map('{:.4g}'.format, params.rates))} an hour{near}")
    for name, row in zip(found.names, params.coefficients):
        _print_seasons(options.season or (), row[None], f"{name}: ")


def run_simulate(options):
    """Simulate events with known parents, as CSV."""
    check_outputs(options, "out")
    if len(options.box_km) % 2:
        raise InputError(
            f"--box-km has {len(options.box_km)} numbers; expected a pair LOW HIGH for each dimension"
        )
    box = np.reshape(options.box_km, (-1, 2))
    params = Parameters(1.0, 1.0, 1.0, options.theta, options.omega, options.h)
    made = simulate(params, **command.arguments_of(options, simulate) | {"box_km": box})
    write_table(Path(options.out), _axes(made.locations) | {"t_hours": made.times, "parent": made.parents})
    n_triggered = (made.parents >= 0).sum()
    command.write_json(options, n_events=len(made.times), n_triggered=n_triggered)
    console.print(
        f"{len(made.times):,} events, {n_triggered:,} of them triggered, in {printable(options.out)}"
    )


def run_calibrate(options):
    """Calibrate a sampler by simulation."""
    n_sets = options.n_sets or (20 if options.quick else 1000 if options.noise else 200)
    how = {name: getattr(options, name) for name in ("seed", "space", "jobs", "progress", "client")}
    how["n_sets"] = options.n_sets = n_sets
    if options.mutual:
        return _print_shares(options, mutual_coverage(**how))
    if options.noise:
        return _print_shares(options, calibrate_noise(**command.arguments_of(options, calibrate_noise) | how))
    if options.background:
        return _print_shares(options, coverage(options.background, options.clusters, **how))
    found = calibrate(options.method, **command.arguments_of(options, calibrate))
    command.write_json(options, p_values=found.p_values)
    console.print(
        f"{n_sets} data sets of at least {found.least_events} events, at least {found.least_ess:.0f}"
        " effective draws"
    )
    for name, p_value in found.p_values.items():
        console.print(f"  {name:6} ranks uniform: p = {p_value:.3f}")
    least, worst = 0.01 / len(found.p_values), min(found.p_values.values())
    console.print(
        f"a p-value below {least:.4f} comes by chance once in a hundred calibrations of a right sampler"
    )
    return _fail(f"calibration failed: the smallest p-value is {worst:.2g}") if worst < least else 0


def _print_shares(options, shares):
    """Print shares of data sets; return exit status 1 if some are outside their limits."""
    _print_table(
        ("over simulated sets", "share", "of a right method"),
        [(one.what, f"{one.share:.1%}", f"{one.low:.1%} to {one.high:.1%}") for one in shares],
    )
    command.write_json(options, shares={one.what: one.share for one in shares})
    off = [one.what for one in shares if one.judged and not one.low <= one.share <= one.high]
    return _fail(f"outside these limits: {'; '.join(off)}") if off else 0


def _fail(text):
    print(f"hawkes: {text}", file=sys.stderr)
    return 1


def _print_rows(rows, kind):
    """Print the table of parameters within 80 columns; fit.json has all columns and digits."""
    shown = {name: _SHOWN.get(name, (name, "{:.4g}")) for name in next(iter(rows.values()))}
    shown = {name: style for name, style in shown.items() if style}
    cells = []
    for name, row in rows.items():
        unit = kind.unit(name)
        title = name if unit == "1" else f"{name} ({unit})"
        cells.append((title, *(form.format(row[key]) for key, (_, form) in shown.items())))
    _print_table(("parameter", *(title for title, _ in shown.values())), cells)


def _print_table(titles, rows):
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for title in titles:
        table.add_column(title, justify="right" if table.columns else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console.print(table)


_COMMANDS = {
    "fit": (parts.add_fit, run_fit),
    "probabilities": (parts.add_probabilities, run_probabilities),
    "residuals": (parts.add_judged, run_residuals),
    "forecast": (parts.add_forecast, run_forecast),
    "compare": (parts.add_judged, run_compare),
    "mutual": (parts.add_mutual, run_mutual),
    "simulate": (parts.add_simulate, run_simulate),
    "calibrate": (parts.add_calibrate, run_calibrate),
}


main = command.main_of("hawkes", _parser)


if __name__ == "__main__":
    sys.exit(main())
