"""`python -m portable.models.hawkes`: fit, probabilities and residuals of events in a file; simulate; the
paper's table; calibration."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from portable.errors import InputError, printable

from ..shared import command
from ..shared.checks import check_outputs
from ..shared.cluster import add_cluster
from ..shared.extras import need
from ..shared.files import check_folder, replacing, write
from . import figures
from .backgrounds import fit_background
from .calibration import calibrate
from .catalogue import read_catalogue, write_table
from .command_parts import (
    add_found,
    add_model,
    given,
    number_or_text,
    print_coverage,
    print_mutual,
    print_noise,
    start_of,
)
from .coverage import BACKGROUNDS, CLUSTERS
from .evidence import evidence
from .fit import fit
from .forecast import Forecast, decluster, forecast, predictive_check
from .guards import jitter, notes
from .repeats import places
from .likelihood import Likelihood
from .noise import calibrate_noise
from .nuts import sample_nuts
from .parameters import Parameters
from .posterior import Posterior
from .probabilities import cluster_sizes, parent_probabilities, posterior_probabilities
from .residuals import residuals
from .sampler import sample_posterior
from .simulate import simulate


console = Console(highlight=False)

# tables of `--out`, none of which may be read
_WRITTEN = "probabilities.csv", "parents.csv", "forecast.csv"
_SHOWN = {
    "r_hat": ("R-hat", "{:.3f}"),
    "ess_bulk": ("ESS", "{:,.0f}"),
    "ess_tail": ("tail", "{:,.0f}"),
    "mcse": None,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status."""
    return command.run("hawkes", _parser(), argv)


def _parser():
    made, commands = command.parser("hawkes", __doc__)
    for add in (_add_fit, _add_others, _add_simulate, _add_calibrate):
        add(commands)
    return made


def _add_fit(commands):
    one = commands.add_parser(
        "fit", help="estimate the parameters; write draws (NetCDF), a table (JSON) and figures"
    )
    _add_events(one)
    one.add_argument(
        "--method",
        choices=("metropolis", "nuts", "likelihood", "mode"),
        default="metropolis",
        help="Algorithm 1 of the paper, the no-U-turn sampler, maximum likelihood or the posterior mode",
    )
    _add_sampling(one)
    add_cluster(one)
    one.set_defaults(act=run_fit)


def _add_others(commands):
    """Commands that take an earlier fit."""
    one = commands.add_parser(
        "probabilities", help="who was triggered, by whom, and how large families are; CSV and figures"
    )
    _add_events(one)
    _add_sampling(one)
    one.add_argument(
        "--average", type=int, default=500, metavar="N", help="posterior draws to average over (500)"
    )
    add_found(one)
    one.set_defaults(act=run_probabilities)

    one = commands.add_parser("residuals", help="test of the fit by time rescaling, with a figure")
    _add_events(one)
    add_found(one)
    command.add_json(one)
    one.set_defaults(act=run_residuals)

    one = commands.add_parser(
        "forecast", help="how many events come after the record, with intervals; a posterior predictive check"
    )
    _add_events(one)
    add_found(one)
    command.add(one, forecast, "hours", "n_draws", "seed")
    command.add(one, Forecast.interval, "level")
    command.add_json(one)
    one.set_defaults(act=run_forecast)

    one = commands.add_parser("compare", help="AIC, and with --posterior WAIC and leave-one-out")
    _add_events(one)
    add_found(one)
    command.add_json(one)
    one.set_defaults(act=run_compare)


def _add_simulate(commands):
    one = commands.add_parser("simulate", help="draw events with known parents, as CSV")
    one.add_argument("--out", required=True, metavar="FILE.csv", help="the events")
    for name, default in (("theta", 0.3), ("omega", 1.0), ("h", 0.1)):
        one.add_argument(f"--{name}", type=float, default=default, help="default: %(default)s")
    asked = {"n_immigrants": 200.0, "horizon_h": 1000.0}
    command.add(one, simulate, **{name: {"required": False, "default": n} for name, n in asked.items()})
    one.add_argument(
        "--box-km",
        type=float,
        nargs="+",
        default=[0, 10, 0, 10],
        metavar="LOW HIGH",
        help="a pair for each dimension",
    )
    command.add(one, simulate, "method", "seed")
    one.set_defaults(act=run_simulate)


def _add_calibrate(commands):
    one = commands.add_parser("calibrate", help="simulation-based calibration of a sampler")
    command.add(one, calibrate, "method")
    one.add_argument(
        "--background", choices=BACKGROUNDS, help="coverage of 90 %% intervals with this background instead"
    )
    one.add_argument(
        "--noise",
        action="store_true",
        help="level, power and coverage of the default analysis instead, over six shapes of the background",
    )
    one.add_argument(
        "--mutual", action="store_true", help="coverage of 90 %% intervals of types that excite one another"
    )
    command.add(one, calibrate_noise, "n_events", "n_simulations", "n_triggered")
    one.add_argument("--clusters", choices=(*CLUSTERS, "both"), default="both", help="of that (both)")
    command.add(
        one,
        calibrate,
        "space",
        "jobs",
        "seed",
        n_sets={"default": None, "help": "simulated data sets (default: 200; --noise: 1,000; --quick: 20)"},
    )
    one.add_argument("--quick", action="store_true", help="20 sets: shows that everything runs")
    command.progress(one)
    add_cluster(one)
    one.set_defaults(act=run_calibrate)


def _add_events(one):
    one.add_argument("events", metavar="EVENTS", help=".csv, .csv.gz, .parquet or .npz")
    add_model(one)
    one.add_argument("--places", nargs="+", default=["x_km", "y_km"], metavar="COLUMN")
    command.add(one, read_catalogue, "time", "length_unit", "time_unit", "lonlat")
    one.add_argument(
        "--tau-x", type=float, help="spatial scale of the paper's background, km (1.6, which is Washington's)"
    )
    one.add_argument(
        "--tau-t",
        type=float,
        help="temporal scale of the paper's background, hours (336, which is Washington's)",
    )
    one.add_argument(
        "--sample-tau",
        action="store_true",
        help="estimate these two as well; an event leaves its own background",
    )
    end = {"help": "end of observation, hours after the first event (the last event)"}
    command.add(one, Likelihood, "dtype", "error_bound", "space", horizon_h=end)
    one.add_argument("--out", default=".", metavar="FOLDER", help="where results go (here)")
    one.add_argument("--figures", choices=("png", "svg", "none"), default="png")


def _add_sampling(one):
    command.add(
        one,
        sample_posterior,
        "n_chains",
        n_draws={"default": None, "help": "of each chain (10,000; of the no-U-turn sampler 1,000)"},
        n_warmup={
            "default": None,
            "help": "steps before these, not kept (1,000; of the no-U-turn sampler 300)",
        },
    )
    command.add(one, sample_posterior, "n_thin", "seed", "checkpoint")
    command.progress(one)


def _prepare(options):
    """The output folder, the events, their likelihood, a start and what stays fixed."""
    method = getattr(options, "method", "metropolis")
    if getattr(options, "checkpoint", None) and method != "metropolis":
        raise InputError(f"--checkpoint keeps draws of --method metropolis; --method {method} keeps nothing")
    check_outputs(options, "json", inputs=("events", "params", "posterior"))
    _check_background(options)
    folder = check_folder(options.out, "--out", _WRITTEN, options.events)
    folder.mkdir(parents=True, exist_ok=True)
    found = given(options)  # what is misspelt is told before anything is computed
    options.reference_mark, options.end = map(number_or_text, (options.reference_mark, options.end))
    events = read_catalogue(options.events, **command.given(options, read_catalogue))
    if options.jitter is not None:
        events = replace(
            events, locations=jitter(events.locations, options.jitter, seed=getattr(options, "seed", 0))
        )
    start = start_of(options, events)
    how = {name: getattr(options, name) for name in ("dtype", "error_bound", "space", "repeats")}
    if options.horizon_h is not None:
        how["horizon_h"] = options.horizon_h
    span = f"{events.times[-1] / 24:.5g} days"
    where = places(events.locations)
    console.print(
        f"{len(events.times):,} events in {events.locations.shape[1]} dimensions over {span}; {where}"
    )
    _need_writers(options)
    if options.client is not None:
        how["client"] = options.client
    if options.background == "paper":
        likelihood = events.likelihood(background_self=not options.sample_tau, **how)
        console.print(
            f"background: kernel density over all events, tau_x = {start.tau_x:g} km and tau_t ="
            f" {start.tau_t:g} h"
            + (
                ""
                if options.tau_x and options.tau_t
                else (
                    " (unless given, those of gunfire in Washington, D.C.: is this "
                    "such? --tau-x, --tau-t, --sample-tau, --background)"
                )
            )
        )
        _print_test(options, likelihood)
        return folder, events, likelihood, start, () if options.sample_tau else ("tau_x", "tau_t"), found
    box = None if options.box_km is None else np.reshape(options.box_km, (-1, 2))
    horizon = how.pop("horizon_h", events.horizon_h)
    marks = {} if events.marks is None else {"marks": events.marks, "reference_mark": events.reference_mark}
    made = fit_background(
        events.locations,
        events.times,
        options.background,
        box_km=box,
        polygon=None if options.polygon is None else events.polygon(options.polygon),
        n_periods=options.n_periods,
        n_simulations=options.n_simulations,
        start=start if type(start) is not Parameters else None,
        least=_least(options),
        horizon_h=horizon,
        **marks,
        **how,
    )
    width = "" if made.bandwidth_km is None else f", bandwidth {made.bandwidth_km:.3g} km"
    console.print(
        f"background: {options.background}{width}; {made.fit.params.mu0:.1%} of the events; "
        f"{made.n_iterations} iterations, " + ("converged" if made.converged else "not converged")
    )
    _print_test(options, made.likelihood)
    return folder, events, made.likelihood, made.fit.params, ("tau_x", "tau_t"), found


def _check_background(options):
    """Refuse options of the paper's background with another."""
    asked = {
        "--tau-x": options.tau_x,
        "--tau-t": options.tau_t,
        "--sample-tau": options.sample_tau,
        "--cluster": getattr(options, "client", None),
    }
    if options.polygon and options.background == "paper":
        raise InputError("--polygon is for a fitted background, and --background is paper; leave one out")
    wrong = [name for name, value in asked.items() if value]
    if wrong and options.background != "paper":
        raise InputError(
            f"{wrong[0]} is for the paper's background, and --background is {options.background}; add"
            " --background paper, or leave it out"
        )


def _print_test(options, likelihood):
    """Say whether there is any triggering to speak of."""
    if options.n_simulations:
        test = likelihood.triggering_test(options.n_simulations)
        console.print(f"test: {test}", style="" if test.rejects() else "yellow", markup=False)


def _need_writers(options):
    """Ask for the libraries that results are written with before anything is drawn, not after an hour of
    it."""
    method = getattr(options, "method", None)
    if method in ("metropolis", "nuts"):
        for module in ("arviz_base", "arviz_stats", "h5netcdf"):
            need(module, "arviz", "posterior.nc and its summary")
    if options.figures != "none" and method not in ("likelihood", "mode"):
        need("matplotlib", "plot", "figures (--figures none does without)")


def _least(options):
    return None if options.least_h is None else {"h": options.least_h}


def _sample(options, likelihood, start, fixed, method="metropolis"):
    sampler = sample_nuts if method == "nuts" else sample_posterior
    asked = {name: value for name, value in command.given(options, sampler).items() if value is not None}
    least = _least(options)
    if options.background != "paper" and "omega" in start.names():
        # longer delays than the record are no other than background, and theta then has no bound
        least = (least or {}) | {"omega": 1.0 / likelihood.horizon_h}
    try:
        return sampler(likelihood, **asked | {"start": start, "fixed": fixed, "least": least})
    except KeyboardInterrupt as error:
        if hasattr(error, "posterior"):
            file = Path(options.out) / "posterior.nc"
            error.posterior.save(file)
            console.print(f"stopped; what was drawn until then is in {printable(file)}", markup=False)
        raise


def _params_or_mode(options, likelihood, start, fixed, found):
    if found is None:
        return fit(
            likelihood, start=start, fixed=fixed, posterior=True, least=_least(options), n_simulations=0
        ).params
    return found.mean() if isinstance(found, Posterior) else found


def run_fit(options):
    """Estimate; write fit.json, posterior.nc and figures."""
    folder, _, likelihood, start, fixed, _ = _prepare(options)
    said = ()
    if options.method in ("likelihood", "mode"):
        found = fit(
            likelihood,
            start=start,
            fixed=fixed,
            posterior=options.method == "mode",
            least=_least(options),
            n_simulations=options.n_simulations,
        )
        rows = {
            name: {
                "estimate": getattr(found.params, name),
                "standard error": found.standard_errors[name],
                "q2.5": found.interval(name)[0],
                "q97.5": found.interval(name)[1],
            }
            for name in found.free
        }
        params, bound, said = found.params, likelihood.attained_error, found.notes
        console.print(f"log-likelihood {found.log_likelihood:.4f}, AIC {found.aic:.4f}")
    else:
        posterior = _sample(options, likelihood, start, fixed, options.method)
        rows = posterior.summary([*posterior.free, *(["1/omega"] if "omega" in posterior.free else [])])
        params, bound = posterior.mean(), posterior.attained_error
        said = notes(likelihood, params, posterior.free, n_simulations=options.n_simulations)
        posterior.save(folder / "posterior.nc")
        if options.figures != "none":
            _save(figures.posterior_densities(posterior), folder, "posterior", options)
    _print_rows(rows, type(params))
    console.print(
        f"largest bound of a log-likelihood's relative error: {bound:.1e}; last sums: {likelihood.method}"
    )
    for note in [note for note in said if not note.startswith("no evidence")]:  # which stands above
        console.print(f"note: {note}", style="yellow", markup=False)
    values = dict(zip(params.names(), params.values()))
    units = {name: params.unit(name) for name in values | rows}
    write(
        folder / "fit.json",
        json.dumps({"params": values, "units": units, "table": rows}, indent=1) + "\n",
        "--out",
    )
    if params.spec:
        values["triggering"] = params.spec
    write(folder / "params.json", json.dumps(values, indent=1) + "\n", "--out")
    command.write_json(options, params=values, table=rows, notes=said)


def run_probabilities(options):
    """Write probabilities.csv and parents.csv, and two figures."""
    folder, events, likelihood, start, fixed, found = _prepare(options)
    if found is not None and not isinstance(found, Posterior):
        params = found
        columns = {"probability": likelihood.excitation_probabilities(params)}
    else:
        posterior = found or _sample(options, likelihood, start, fixed)
        params = posterior.mean()
        found = posterior_probabilities(likelihood, posterior, n_draws=options.average)
        columns = {
            "probability": found.mean,
            "sd": found.sd,
            "q2.5": found.quantiles[0],
            "q97.5": found.quantiles[2],
        }
    parents = parent_probabilities(likelihood, params)
    columns["family_size"] = cluster_sizes(parents)
    columns["background"] = decluster(likelihood, params, seed=options.seed).background
    km = {f"{axis}_km": column for axis, column in zip("xyz", events.locations.T)}
    write_table(folder / "probabilities.csv", events.joined(**km, t_hours=events.times, **columns))
    _write_csv(
        folder / "parents.csv",
        ["child", "parent", "probability"],
        zip(
            events.ids[parents.children].tolist(),
            events.ids[parents.parents].tolist(),
            parents.probabilities.tolist(),
        ),
    )
    mean = columns["probability"]
    console.print(f"{mean.sum():,.1f} of {len(mean):,} events ({mean.mean():.1%}) were triggered by others")
    command.write_json(options, n_events=len(mean), expected_triggered=mean.sum())
    if options.figures != "none":
        _save(figures.probability_map(events.locations, mean).figure, folder, "map", options)
        _save(figures.probabilities_in_time(events.times, mean).figure, folder, "time", options)


def run_residuals(options):
    """Print the test; write a figure."""
    folder, _, likelihood, start, fixed, given = _prepare(options)
    params = _params_or_mode(options, likelihood, start, fixed, given)
    found = residuals(likelihood, params)
    command.write_json(options, residuals=found)
    console.print(
        f"expected {found.rescaled[-1]:,.1f} events until the last of {likelihood.n_events:,};"
        f" Kolmogorov-Smirnov {found.statistic:.4f}, p = {found.p_value:.2g}; correlation of neighbours"
        f" {found.correlation:+.4f}"
    )
    if found.p_value < 0.01:
        console.print(
            "note: the model does not fit: gaps on its clock are not exponential. Try another --decay (omori,"
            " 2 or 3 exponentials), --marks, or another --background, and compare",
            style="yellow",
            markup=False,
        )
    if options.figures != "none":
        _save(figures.residual_plot(found).figure, folder, "residuals", options)
        _save(figures.decay_plot(params).figure, folder, "decay", options)
        if likelihood.n_dims == 2 and (likelihood.background is None or likelihood.background.at is not None):
            _save(figures.intensity_map(likelihood, params).figure, folder, "intensity", options)


def run_forecast(options):
    """Print intervals of counts, and what catalogues drawn from the model look like."""
    folder, events, likelihood, start, fixed, given = _prepare(options)
    found = given or _params_or_mode(options, likelihood, start, fixed, None)
    ahead = forecast(likelihood, found, options.hours, n_draws=options.n_draws, seed=options.seed)
    low, high = ahead.interval(options.level)
    until = events.dates([ahead.begin_h, ahead.end_h])
    console.print(
        f"from {until[0]} to {until[1]}: {ahead.mean:.1f} events expected, {100 * options.level:g} % between"
        f" {low:g} and {high:g}"
    )
    check = predictive_check(likelihood, found, n_draws=min(options.n_draws, 100), seed=options.seed)
    for name, value in check.observed.items():
        console.print(
            f"  {name}: {value:.4g} observed, {np.mean(check.drawn[name]):.4g} drawn, p ="
            f" {check.p_values[name]:.2g}"
        )
    limits = {"mean": ahead.mean, "level": options.level, "interval": (low, high)}
    command.write_json(options, begin=until[0], end=until[1], n_events=limits, check=check)
    _write_csv(folder / "forecast.csv", ["draw", "n_events"], enumerate(ahead.counts.tolist()))


def run_compare(options):
    """Print criteria by which models of the same events compare."""
    _, _, likelihood, start, fixed, given = _prepare(options)
    if isinstance(given, Posterior):
        found = evidence(likelihood, given)
        command.write_json(options, evidence=found)
        console.print(
            f"WAIC {found.waic:.2f} ± {found.waic_se:.2f} ({found.p_waic:.1f} parameters); leave-one-out"
            f" {found.loo:.2f} ± {found.loo_se:.2f} (largest k {found.worst_k:.2f})"
        )
        return
    found = fit(likelihood, start=given or start, fixed=fixed, least=_least(options), n_simulations=0)
    command.write_json(options, log_likelihood=found.log_likelihood, aic=float(found.aic), free=found.free)
    console.print(
        f"log-likelihood {found.log_likelihood:.4f}, {len(found.free)} parameters, AIC {found.aic:.4f},"
        f" comparable with others of --background {options.background} and the same options of it"
    )


def run_simulate(options):
    """Write a CSV of events with their parents."""
    check_outputs(options, "out")
    if len(options.box_km) % 2:
        raise InputError(
            f"--box-km has {len(options.box_km)} numbers; a pair LOW HIGH for each dimension is wanted"
        )
    box = np.reshape(options.box_km, (-1, 2))
    params = Parameters(mu0=1.0, tau_x=1.0, tau_t=1.0, theta=options.theta, omega=options.omega, h=options.h)
    made = simulate(params, **command.given(options, simulate) | {"box_km": box})
    places = [f"{axis}_km" for axis in "xyz"[: len(box)]]
    _write_csv(
        Path(options.out),
        [*places, "t_hours", "parent"],
        (
            [*map(repr, row), parent]
            for row, parent in zip(
                np.column_stack([made.locations, made.times]).tolist(), made.parents.tolist()
            )
        ),
    )
    command.write_json(options, n_events=len(made.times), n_triggered=(made.parents >= 0).sum())
    console.print(
        f"{len(made.times):,} events, {(made.parents >= 0).sum():,} of them triggered, in"
        f" {printable(options.out)}",
        markup=False,
    )


def run_calibrate(options):
    """Print p-values of uniform ranks, or coverage."""
    options.n_sets = sets = options.n_sets or (20 if options.quick else 1000 if options.noise else 200)
    if options.mutual:
        return print_mutual(options, console)
    if options.noise:
        return print_noise(options, console)
    if options.background:
        return print_coverage(options, sets, console)
    found = calibrate(options.method, **command.given(options, calibrate))
    command.write_json(options, p_values=found.p_values)
    console.print(
        f"{sets} data sets of at least {found.least_events} events, at least {found.least_ess:.0f} effective "
        "draws"
    )
    for name, p_value in found.p_values.items():
        console.print(f"  {name:6} ranks uniform: p = {p_value:.3f}")
    least = 0.01 / len(found.p_values)
    console.print(
        f"a p-value below {least:.4f} comes by chance once in a hundred calibrations of a right sampler"
    )
    if min(found.p_values.values()) < least:
        print(
            f"hawkes: calibration failed: the smallest p-value is {min(found.p_values.values()):.2g}",
            file=sys.stderr,
        )
        return 1
    return 0


def _print_rows(rows, kind):
    """Numbers that fit 80 columns; fit.json has all of them, and all digits."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("parameter", no_wrap=True)
    shown = {name: _SHOWN.get(name, (name, "{:.4g}")) for name in next(iter(rows.values()))}
    shown = {name: style for name, style in shown.items() if style}
    for title, _ in shown.values():
        table.add_column(title, justify="right", no_wrap=True)
    for name, row in rows.items():
        unit = kind.unit(name)
        table.add_row(
            name if unit == "1" else f"{name} ({unit})",
            *(form.format(row[key]) for key, (_, form) in shown.items()),
        )
    console.print(table)


def _write_csv(path, names, rows):
    with replacing(path, "--out") as beside, open(beside, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows(rows)


def _save(figure, folder, name, options):
    with replacing(folder / f"{name}.{options.figures}", "--out") as beside:
        figure.savefig(beside, dpi=150)


if __name__ == "__main__":
    sys.exit(main())
