"""`python -m models.hawkes`: fit, probabilities and residuals of events in a file; simulate; the paper's table; calibration."""

from __future__ import annotations

import argparse
import csv
import json
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

import portable as pk
from portable.errors import InputError, PortableError, printable

from .. import page
from ..checks import check_outputs
from ..cluster import add_cluster, asked_for
from ..files import check_folder, replacing, write
from . import figures
from .backgrounds import fit_background
from .calibration import calibrate
from .catalogue import read_catalogue, write_table
from .command_parts import add_found, add_model, given, number_or_text, print_coverage, start_of
from .coverage import BACKGROUNDS, CLUSTERS
from .evidence import evidence
from .extras import need
from .files import LENGTHS_KM, TIMES_H
from .fit import fit
from .forecast import decluster, forecast, predictive_check
from .guards import jitter, notes, places
from .likelihood import METHODS, PRECISIONS
from .nuts import sample_nuts
from .paper import Paper
from .parameters import Parameters
from .posterior import Posterior
from .probabilities import cluster_sizes, parent_probabilities, posterior_probabilities
from .residuals import residuals
from .sampler import sample_posterior
from .simulate import simulate

console = Console()

# Vehtari, Gelman, Simpson, Carpenter, Buerkner (2021): chains that disagree, or too few effective draws to say whether they do.
_MOST_R_HAT, _LEAST_ESS_A_CHAIN = 1.01, 100
_WRITTEN = (
    "probabilities.csv",
    "parents.csv",
    "forecast.csv",
)  # tables of `--output`, none of which may be read
_SHOWN = {
    "r_hat": ("R-hat", "{:.3f}"),
    "ess_bulk": ("ESS", "{:,.0f}"),
    "ess_tail": ("tail", "{:,.0f}"),
    "mcse": None,
}


def main(argv: list[str] | None = None) -> int:
    """Run one command; the exit status."""
    options = _parser().parse_args(argv)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            warnings.simplefilter("always", RuntimeWarning)
            with asked_for(options):
                options.run(options)
        for warning in caught:
            if issubclass(warning.category, (UserWarning, RuntimeWarning)):
                console.print(
                    f"warning: {printable(warning.message)}", style="yellow", markup=False, highlight=False
                )
    except PortableError as error:
        console.print(f"hawkes: {error}", style="red", markup=False, highlight=False)
        return 2
    except OSError as error:
        console.print(
            f"hawkes: {error.strerror}: '{printable(error.filename)}'",
            style="red",
            markup=False,
            highlight=False,
        )
        return 2
    except KeyboardInterrupt:
        console.print(
            "hawkes: stopped before there was anything to write", style="red", markup=False, highlight=False
        )
        return 130
    return 0


def _parser():
    parser = argparse.ArgumentParser(prog="python -m models.hawkes", description=__doc__)
    parser.add_argument("--version", action="version", version=f"portable {pk.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    one = commands.add_parser(
        "fit", help="estimate the parameters; write draws (NetCDF), a table (JSON) and figures"
    )
    _add_events(one)
    one.add_argument(
        "--by",
        choices=("metropolis", "nuts", "likelihood", "mode"),
        default="metropolis",
        help="Algorithm 1 of the paper, the no-U-turn sampler, maximum likelihood or the posterior mode",
    )
    _add_sampling(one)
    add_cluster(one)
    one.set_defaults(run=run_fit)

    one = commands.add_parser(
        "probabilities", help="who was triggered, by whom, and how large families are; CSV and figures"
    )
    _add_events(one)
    _add_sampling(one)
    one.add_argument(
        "--average", type=int, default=500, metavar="N", help="posterior draws to average over (500)"
    )
    add_found(one)
    one.set_defaults(run=run_probabilities)

    one = commands.add_parser("residuals", help="test of the fit by time rescaling, with a figure")
    _add_events(one)
    add_found(one)
    one.set_defaults(run=run_residuals)

    one = commands.add_parser(
        "forecast", help="how many events come after the record, with intervals; a posterior predictive check"
    )
    _add_events(one)
    add_found(one)
    one.add_argument("--hours", type=float, required=True, help="how far ahead")
    one.add_argument("--futures", type=int, default=500, metavar="N", help="draws of the future (500)")
    one.add_argument("--seed", type=int, default=0)
    one.set_defaults(run=run_forecast)

    one = commands.add_parser("compare", help="AIC, and with --posterior WAIC and leave-one-out")
    _add_events(one)
    add_found(one)
    one.set_defaults(run=run_compare)

    one = commands.add_parser("simulate", help="draw events with known parents, as CSV")
    one.add_argument("output", help="CSV to write")
    for name, default in (
        ("theta", 0.3),
        ("omega", 1.0),
        ("h", 0.1),
        ("immigrants", 200.0),
        ("horizon-h", 1000.0),
    ):
        one.add_argument(f"--{name}", type=float, default=default)
    one.add_argument(
        "--box-km",
        type=float,
        nargs="+",
        default=[0, 10, 0, 10],
        metavar="LOW HIGH",
        help="a pair a dimension",
    )
    one.add_argument("--method", choices=("branching", "thinning"), default="branching")
    one.add_argument("--seed", type=int, default=0)
    one.set_defaults(run=run_simulate)

    one = commands.add_parser(
        "paper", help="Figures 1 to 4 and the numbers of Holbrook et al. (2021), as a page"
    )
    page.add_options(one, Paper, "hawkes-paper.html")
    one.add_argument("--thin", type=int, default=1, help="steps a draw (1)")
    one.add_argument(
        "--long", type=int, default=0, metavar="N", help="also compare with chains N times as long"
    )
    one.add_argument("--seed", type=int, default=0)
    one.set_defaults(run=run_paper)

    one = commands.add_parser("calibrate", help="simulation-based calibration of a sampler")
    one.add_argument("--sampler", choices=("metropolis", "nuts"), default="metropolis")
    one.add_argument(
        "--background", choices=BACKGROUNDS, help="coverage of 90 %% intervals with this background instead"
    )
    one.add_argument("--clusters", choices=(*CLUSTERS, "both"), default="both", help="of that (both)")
    one.add_argument("--sets", type=int, help="simulated data sets (200)")
    one.add_argument("--quick", action="store_true", help="20 sets")
    one.add_argument("--space", default=None)
    one.add_argument(
        "--jobs",
        type=int,
        default=1,
        metavar="N",
        help="processes that share the data sets out, each on one core unless --space is given (1)",
    )
    add_cluster(one)
    one.add_argument("--seed", type=int, default=0)
    one.set_defaults(run=run_calibrate)
    return parser


def _add_events(command):
    command.add_argument("events", metavar="EVENTS", help=".csv, .csv.gz, .parquet or .npz")
    add_model(command)
    command.add_argument("--places", nargs="+", default=["x_km", "y_km"], metavar="COLUMN")
    command.add_argument("--time", default="t_hours", metavar="COLUMN")
    command.add_argument("--length-unit", choices=tuple(LENGTHS_KM), default="km")
    command.add_argument("--time-unit", choices=tuple(TIMES_H), default="h")
    command.add_argument(
        "--lonlat", action="store_true", help="places are longitude and latitude: project them"
    )
    command.add_argument(
        "--tau-x", type=float, help="spatial scale of the paper's background, km (1.6, which is Washington's)"
    )
    command.add_argument(
        "--tau-t",
        type=float,
        help="temporal scale of the paper's background, hours (336, which is Washington's)",
    )
    command.add_argument(
        "--sample-tau",
        action="store_true",
        help="estimate these two as well; an event leaves its own background",
    )
    command.add_argument("--method", choices=METHODS, default="auto")
    command.add_argument("--precision", choices=PRECISIONS, default="float64")
    command.add_argument(
        "--tolerance", type=float, default=1e-9, help="bound on the relative error of log-likelihoods (1e-9)"
    )
    command.add_argument(
        "--horizon-h", type=float, help="end of observation, hours after the first event (the last event)"
    )
    command.add_argument("--space", default=None, help="serial, threads, cuda (the fastest there is)")
    command.add_argument("--output", default=".", metavar="FOLDER", help="where results go (here)")
    command.add_argument("--figures", choices=("png", "svg", "none"), default="png")


def _add_sampling(command):
    command.add_argument("--chains", type=int, default=4)
    command.add_argument("--draws", type=int, help="of each chain (10,000; of the no-U-turn sampler 1,000)")
    command.add_argument(
        "--warmup", type=int, help="steps before these, not kept (1,000; of the no-U-turn sampler 300)"
    )
    command.add_argument("--thin", type=int, default=1, help="steps a draw of Algorithm 1 (1)")
    command.add_argument("--seed", type=int, default=0)
    command.add_argument(
        "--checkpoint",
        metavar="FOLDER",
        help="keeps the draws of Algorithm 1, from which the same command goes on",
    )


def _prepare(options):
    """The output folder, the events, their likelihood, a start and what stays fixed."""
    by = getattr(options, "by", "metropolis")
    if getattr(options, "checkpoint", None) and by != "metropolis":
        raise InputError(f"--checkpoint keeps draws of --by metropolis; --by {by} keeps nothing")
    folder = check_folder(options.output, "--output", _WRITTEN, options.events)
    folder.mkdir(parents=True, exist_ok=True)
    found = given(options)  # what is misspelt is told before anything is computed
    events = read_catalogue(
        options.events,
        places=options.places,
        time=options.time,
        length_unit=options.length_unit,
        time_unit=options.time_unit,
        lonlat=options.lonlat,
        ids=options.ids,
        marks=options.marks,
        reference_mark=number_or_text(options.reference_mark),
        end=number_or_text(options.end),
        date_order=options.date_order,
    )
    if options.jitter is not None:
        events = replace(
            events, locations=jitter(events.locations, options.jitter, seed=getattr(options, "seed", 0))
        )
    start = start_of(options, events)
    how = {
        "method": options.method,
        "precision": options.precision,
        "tolerance": options.tolerance,
        "space": options.space,
        "repeats": options.repeats,
    }
    if options.horizon_h is not None:
        how["horizon_h"] = options.horizon_h
    span = f"{events.times[-1] / 24:.5g} days"
    where = places(events.locations)
    console.print(
        f"{len(events.times):,} events in {events.locations.shape[1]} dimensions over {span}; {where}",
        highlight=False,
    )
    _need_writers(options)
    if options.client is not None:
        if options.background != "paper" or options.by == "metropolis":
            raise InputError(
                "--cluster shares out the events of a fit with --background paper, --by likelihood, mode or nuts"
            )
        how["client"] = options.client
    if options.background == "paper":
        likelihood = events.likelihood(background_self=not options.sample_tau, **how)
        console.print(
            f"background: kernel density over all events, tau_x = {start.tau_x:g} km and tau_t = {start.tau_t:g} h"
            + (
                ""
                if options.tau_x and options.tau_t
                else " (unless given, those of gunfire in Washington, D.C.: is this "
                "such? --tau-x, --tau-t, --sample-tau, --background)"
            ),
            highlight=False,
        )
        return folder, events, likelihood, start, () if options.sample_tau else ("tau_x", "tau_t"), found
    box = None if options.box_km is None else np.reshape(options.box_km, (-1, 2))
    horizon = how.pop("horizon_h", events.horizon_h)
    marks = {} if events.marks is None else {"marks": events.marks, "reference_mark": events.reference_mark}
    made = fit_background(
        events.locations,
        events.times,
        options.background,
        box_km=box,
        n_periods=options.periods,
        start=start,
        least=_least(options),
        horizon_h=horizon,
        **marks,
        **how,
    )
    width = "" if made.bandwidth_km is None else f", bandwidth {made.bandwidth_km:.3g} km"
    console.print(
        f"background: {options.background}{width}; {made.fit.params.mu0:.1%} of the events; {made.n_rounds} rounds, "
        + ("at rest" if made.converged else "not yet at rest"),
        highlight=False,
    )
    return folder, events, made.likelihood, made.fit.params, ("tau_x", "tau_t"), found


def _need_writers(options):
    """Ask for the libraries that results are written with before anything is drawn, not after an hour of it."""
    by = getattr(options, "by", None)
    if by in ("metropolis", "nuts"):
        for module in ("arviz_base", "arviz_stats", "h5netcdf"):
            need(module, "arviz", "posterior.nc and its summary")
    if options.figures != "none" and by not in ("likelihood", "mode"):
        need("matplotlib", "plot", "figures (--figures none does without)")


def _least(options):
    return None if options.least_h is None else {"h": options.least_h}


def _sample(options, likelihood, start, fixed, sampler="metropolis"):
    common = {
        "n_chains": options.chains,
        "start": start,
        "fixed": fixed,
        "least": _least(options),
        "seed": options.seed,
        "progress": console.is_terminal,
    }
    common |= {
        name: n for name, n in (("n_draws", options.draws), ("n_warmup", options.warmup)) if n is not None
    }
    if sampler == "nuts":
        return sample_nuts(likelihood, **common)
    return sample_posterior(likelihood, thin=options.thin, checkpoint=options.checkpoint, **common)


def _params_or_mode(options, likelihood, start, fixed, found):
    if found is None:
        return fit(likelihood, start=start, fixed=fixed, posterior=True, least=_least(options)).params
    return found.mean() if isinstance(found, Posterior) else found


def run_fit(options):
    """Estimate; write fit.json, posterior.nc and figures."""
    folder, _, likelihood, start, fixed, _ = _prepare(options)
    written = ""
    said = ()
    if options.by in ("likelihood", "mode"):
        found = fit(
            likelihood, start=start, fixed=fixed, posterior=options.by == "mode", least=_least(options)
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
        params, bound, said = found.params, likelihood.error_bound, found.notes
        console.print(f"log-likelihood {found.log_likelihood:.4f}, AIC {found.aic:.4f}", highlight=False)
    else:
        posterior = _sample(options, likelihood, start, fixed, options.by)
        rows = posterior.summary([*posterior.free, *(["1/omega"] if "omega" in posterior.free else [])])
        params, bound = posterior.mean(), posterior.error_bound
        said = notes(likelihood, params, posterior.free)
        _warn_of_mixing(rows, len(posterior.draws))
        posterior.save(folder / "posterior.nc")
        written = ", posterior.nc"
        if options.figures != "none":
            _save(figures.posterior_densities(posterior), folder, "posterior", options)
            written += f", posterior.{options.figures}"
    _print_rows(rows, type(params))
    console.print(
        f"largest bound of a log-likelihood's relative error: {bound:.1e}; last method: {likelihood.method}"
    )
    for note in said:
        console.print(f"note: {note}", style="yellow", markup=False, highlight=False)
    values = dict(zip(params.names(), params.values()))
    units = {name: params.unit(name) for name in values | rows}
    write(
        folder / "fit.json",
        json.dumps({"params": values, "units": units, "table": rows}, indent=1) + "\n",
        "--output",
    )
    if params.spec:
        values["triggering"] = params.spec
    write(folder / "params.json", json.dumps(values, indent=1) + "\n", "--output")
    console.print(
        f"written to {printable(folder)}: fit.json, params.json{written}", highlight=False, markup=False
    )


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
    if options.figures != "none":
        _save(figures.probability_map(events.locations, mean).figure, folder, "map", options)
        _save(figures.probabilities_in_time(events.times, mean).figure, folder, "time", options)


def run_residuals(options):
    """Print the test; write a figure."""
    folder, _, likelihood, start, fixed, given = _prepare(options)
    params = _params_or_mode(options, likelihood, start, fixed, given)
    found = residuals(likelihood, params)
    console.print(
        f"expected {found.rescaled[-1]:,.1f} events until the last of {likelihood.n_events:,}; Kolmogorov-Smirnov "
        f"{found.statistic:.4f}, p = {found.p_value:.2g}; correlation of neighbours {found.correlation:+.4f}"
    )
    if found.p_value < 0.01:
        console.print(
            "note: the model does not fit: gaps on its clock are not exponential. Try another --decay (omori, 2 or 3 "
            "exponentials), --marks, or another --background, and compare",
            style="yellow",
            markup=False,
            highlight=False,
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
    ahead = forecast(likelihood, found, options.hours, n_draws=options.futures, seed=options.seed)
    low, high = ahead.interval(0.9)
    until = events.dates([ahead.begin_h, ahead.end_h])
    console.print(
        f"from {until[0]} to {until[1]}: {ahead.mean:.1f} events expected, 90 % between {low:g} and {high:g}",
        highlight=False,
    )
    check = predictive_check(likelihood, found, n_draws=min(options.futures, 100), seed=options.seed)
    for name, value in check.observed.items():
        console.print(
            f"  {name}: {value:.4g} observed, {np.mean(check.drawn[name]):.4g} drawn, p = {check.p_values[name]:.2g}",
            highlight=False,
        )
    _write_csv(folder / "forecast.csv", ["draw", "n_events"], enumerate(ahead.counts.tolist()))
    console.print(f"written to {printable(folder)}: forecast.csv", highlight=False, markup=False)


def run_compare(options):
    """Print criteria by which models of the same events compare."""
    _, _, likelihood, start, fixed, given = _prepare(options)
    if isinstance(given, Posterior):
        found = evidence(likelihood, given)
        console.print(
            f"WAIC {found.waic:.2f} ± {found.waic_se:.2f} ({found.p_waic:.1f} parameters); leave-one-out {found.loo:.2f} ± "
            f"{found.loo_se:.2f} (largest k {found.worst_k:.2f})",
            highlight=False,
        )
        return
    found = fit(likelihood, start=given or start, fixed=fixed, least=_least(options))
    console.print(
        f"log-likelihood {found.log_likelihood:.4f}, {len(found.free)} parameters, AIC {found.aic:.4f}",
        highlight=False,
    )


def run_simulate(options):
    """Write a CSV of events with their parents."""
    check_outputs(options, "output")
    if len(options.box_km) % 2:
        raise InputError(f"--box-km has {len(options.box_km)} numbers; a pair LOW HIGH a dimension is wanted")
    box = np.reshape(options.box_km, (-1, 2))
    params = Parameters(mu0=1.0, tau_x=1.0, tau_t=1.0, theta=options.theta, omega=options.omega, h=options.h)
    made = simulate(
        params,
        n_immigrants=options.immigrants,
        horizon_h=options.horizon_h,
        box_km=box,
        method=options.method,
        seed=options.seed,
    )
    places = [f"{axis}_km" for axis in "xyz"[: len(box)]]
    _write_csv(
        Path(options.output),
        [*places, "t_hours", "parent"],
        (
            [*map(repr, row), parent]
            for row, parent in zip(
                np.column_stack([made.locations, made.times]).tolist(), made.parents.tolist()
            )
        ),
    )
    console.print(
        f"{len(made.times):,} events, {(made.parents >= 0).sum():,} of them triggered, in {printable(options.output)}",
        markup=False,
    )


def run_paper(options):
    """Write the paper's page."""
    page.run(
        Paper,
        options,
        lambda line: console.print(line, highlight=False, markup=False),
        seed=options.seed,
        thin=options.thin,
        longer=options.long,
    )


def run_calibrate(options):
    """Print p-values of uniform ranks, or coverage."""
    sets = options.sets or (20 if options.quick else 200)
    if options.background:
        print_coverage(options, sets, console)
        return
    found = calibrate(
        options.sampler,
        n_sets=sets,
        space=options.space,
        seed=options.seed,
        progress=console.is_terminal,
        jobs=options.jobs,
        client=options.client,
    )
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
        raise InputError(f"calibration failed: the smallest p-value is {min(found.p_values.values()):.2g}")


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


def _warn_of_mixing(rows, n_chains):
    least = _LEAST_ESS_A_CHAIN * n_chains
    poor = [
        f"{name} {row['r_hat']:.3f} and {row['ess_bulk']:.0f}"
        for name, row in rows.items()
        if not name.startswith("1/") and (row["r_hat"] > _MOST_R_HAT or row["ess_bulk"] < least)
    ]
    if poor:
        warnings.warn(
            f"R-hat and effective draws are {', '.join(poor)}; at most {_MOST_R_HAT} and at least {least} are wanted: take "
            "more --draws, or --by nuts",
            RuntimeWarning,
            stacklevel=2,
        )


def _write_csv(path, names, rows):
    with replacing(path, "--output") as beside, open(beside, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows(rows)


def _save(figure, folder, name, options):
    with replacing(folder / f"{name}.{options.figures}", "--output") as beside:
        figure.savefig(beside, dpi=150)


if __name__ == "__main__":
    sys.exit(main())
