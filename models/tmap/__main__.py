"""`python -m portable.models.tmap {fit,simulate,describe} FILE`."""

import argparse
import contextlib
import sys
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..shared import InputError, add_cluster, check_outputs, command, printable, replacing
from ..shared.store import inside
from . import fit, TransientMAP, best_renewal, goodness_of_fit, read, select_orders, standard_errors
from .figures import empirical_correlation, overview
from .fit import N_STARTS
from .select import count_partitions


def _parser():
    made, commands = command.parser("tmap", "Transient Markovian arrival processes.")
    fitting = commands.add_parser("fit", help="fit a process to runs")
    fitting.add_argument("file", metavar="FILE", help="runs, .npz or .csv")
    which = fitting.add_mutually_exclusive_group(required=True)
    which.add_argument("--orders", type=_orders, metavar="1,1,2", help="orders of the branches")
    which.add_argument("--total", type=int, metavar="N", help="choose orders that add up to N")
    command.add(fitting, select_orders, criterion={"help": "criterion for the orders"})
    command.add(fitting, select_orders, max_branches={"help": "most branches, for --total"})
    command.progress(fitting)
    command.add(fitting, fit, "max_iter", "tol", "dtype", "seed", "memory_mb", n_starts={"default": N_STARTS})
    fitting.add_argument(
        "--renewal", action="store_true", help="compare with the best renewal process of as many stages"
    )
    fitting.add_argument("--errors", action="store_true", help="compute standard errors")
    command.add(fitting, fit, "checkpoint")
    fitting.add_argument("--out", metavar="MODEL.json", help="write the model")
    fitting.add_argument("--plot", metavar="FILE", help="draw fitted against empirical")
    add_cluster(fitting)
    fitting.set_defaults(act=_fit)

    simulating = commands.add_parser("simulate", help="random runs of a process")
    simulating.add_argument("file", metavar="MODEL.json", help="file that fit --out wrote")
    command.add(simulating, TransientMAP.simulate, "n_runs", "seed")
    simulating.add_argument("--out", metavar="RUNS.npz", required=True, help="the runs")
    simulating.set_defaults(act=_simulate)

    describing = commands.add_parser("describe", help="figures of runs, beside those of a process")
    describing.add_argument("file", metavar="FILE", help="runs, .npz or .csv")
    describing.add_argument("--model", metavar="MODEL.json", help="compare with this process, and test it")
    describing.set_defaults(act=_describe)

    for one in (fitting, describing):
        command.add(
            one, read, "run", "gap", "time", "timeout", "end", "censored", "resolution", "upper", "date_order"
        )
        one.add_argument("--one-run", action="store_true", help="all gaps, or events, are of one run")
        command.add(one, read, "alone")
    for one in (fitting, simulating, describing):
        command.add(one, TransientMAP.simulate, "space")
    return made


def _orders(text):
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of whole numbers such as 1,1,2") from error


def _read(options):
    with contextlib.suppress(ValueError, TypeError):  # otherwise it is a date, or None
        options.end = float(options.end)
    return read(
        options.file, **command.arguments_of(options, read) | ({"run": None} if options.one_run else {})
    )


def _fit(options):
    check_outputs(options, "out", "plot", "json", inputs=("file",))
    console, runs = Console(highlight=False), _read(options)
    console.print(repr(runs))
    how = command.arguments_of(options, fit)

    def options_of(part):
        return how | {"checkpoint": inside(options.checkpoint, part)}

    if options.orders:
        model, info = fit(runs, **options_of("fit"))
    else:
        del how["orders"]
        ways, fewer = (count_partitions(options.total, n) for n in (options.max_branches, 3))
        hint = f" ({fewer:,} with --max-branches 3)" if fewer < ways else ""
        console.print(f"{ways:,} ways to share {options.total} stages among branches{hint}; each is fitted")
        found = select_orders(
            runs,
            options.total,
            criterion=options.criterion,
            max_branches=options.max_branches,
            **options_of("orders"),
        )
        _print_candidates(found, options.criterion, console)
        model, info = found[0].model, found[0].info
    errors, notes = _errors(model, runs, options)
    console.print(_table_of(model, errors))
    ended = "converged" if info.converged else "not converged: try more --max-iter"
    console.print(f"log-likelihood {info.log_likelihood:.6f} after {info.n_iterations} steps, {ended}")
    if options.renewal:
        how.pop("orders", None)
        renewal = best_renewal(runs, int(model.orders.sum()), **options_of("renewal"))
        console.print(f"log-likelihood {renewal:.6f} of the best renewal process of as many stages")
    for note in (*info.notes, *notes):
        console.print(f"note: {note}", markup=False)
    parts = {name: getattr(model, name) for name in ("alpha", "orders", "rates", "switching", "exits")}
    command.write_json(options, process=parts, standard_errors=errors, fit=info)
    if options.out:
        model.save(options.out)
    if options.plot:
        with replacing(options.plot, "--plot") as beside:
            overview(model, runs).savefig(beside, dpi=90)


def _errors(model, runs, options):
    """Compute standard errors if requested; return them or None, and a note if they do not exist."""
    if not options.errors:
        return None, ()
    try:
        return standard_errors(model, runs, **command.arguments_of(options, standard_errors)), ()
    except InputError as error:
        return None, (f"no standard errors: {error}",)


def _print_candidates(found, criterion, console):
    scored = criterion in ("held_out", "cross_validated")
    table = Table(title=f"orders by {criterion.replace('_', ' ') if scored else criterion.upper()}")
    for name in (
        "orders",
        "log-likelihood",
        "parameters",
        "AIC",
        "BIC",
        *(["minus log-likelihood a gap left out"] * scored),
    ):
        table.add_column(name, justify="right")
    for one in found[:10]:
        orders = ", ".join(map(str, one.orders))
        table.add_row(
            orders,
            f"{one.info.log_likelihood:.3f}",
            str(one.n_parameters),
            f"{one.aic:.3f}",
            f"{one.bic:.3f}",
            *([f"{one.score:.5f}"] * scored),
        )
    console.print(table)


def _table_of(model, errors):
    def cell(value, error):
        shown = "<1e-9" if 0 < value < 1e-9 else f"{value:.5g}" if value >= 1e-4 else f"{value:.2g}"
        if errors is None:
            return shown
        return f"{shown}\n(held)" if np.isnan(error) else f"{shown}\n± {error:.2g}"  # NaN: at its bound

    table = Table(title="the process" + ("" if errors is None else ", ± standard errors"))
    columns = ["branch", "order", "rate", "start", "end", *(f"to {j}" for j in range(model.n_branches))]
    for name in columns:
        table.add_column(name, justify="right", overflow="fold")
    values, widths = (
        np.column_stack([one.rates, one.alpha, one.exits, one.switching]) for one in (model, errors or model)
    )
    for i, pairs in enumerate(zip(values, widths)):
        table.add_row(str(i), str(model.orders[i]), *(cell(*pair) for pair in zip(*pairs)))
    return table


def _simulate(options):
    check_outputs(options, "out", inputs=("file",))
    if Path(options.out).suffix != ".npz":
        raise InputError(f"--out is {options.out}; expected a name that ends in .npz")
    process = TransientMAP.load(options.file)
    runs = process.simulate(options.n_runs, **command.arguments_of(options, process.simulate))
    with replacing(options.out, "--out") as beside:
        np.savez(beside, values=runs.values, lengths=runs.lengths)
    command.write_json(options, n_runs=len(runs.lengths), n_gaps=runs.n_gaps)
    Console(highlight=False).print(f"{runs!r} in {escape(printable(Path(options.out).name))}")


def _describe(options):
    check_outputs(options, "json", inputs=("file", "model"))
    console, runs = Console(highlight=False), _read(options)
    model = TransientMAP.load(options.model) if options.model else None
    gaps = runs.values[runs.complete]
    rows = [
        ("runs", f"{runs.n_runs:,}", ""),
        ("gaps", f"{runs.n_gaps:,}", ""),
        ("gaps of zero", f"{(gaps == 0.0).mean():.2%}", ""),
        ("gaps of a run, mean", f"{runs.lengths.mean():.5g}", model and f"{model.mean_arrivals():.5g}"),
        (
            "gaps of a run, variance",
            f"{runs.lengths.var():.5g}",
            model and f"{model.variance_arrivals():.5g}",
        ),
        ("gap, mean", f"{gaps.mean():.5g}", model and f"{model.mean_gap():.5g}"),
        (
            "correlation at lag 1",
            f"{empirical_correlation(runs, 1):.4f}",
            model and f"{model.lag_correlation():.4f}",
        ),
    ]
    table = Table(title=escape(printable(Path(options.file).name)), title_justify="left")
    for name in ("", "runs", "process") if model else ("", "runs"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*row[: 3 if model else 2])
    console.print(table)
    fitness = goodness_of_fit(model, runs, space=options.space) if model else None
    own = {"n_runs": runs.n_runs, "n_gaps": runs.n_gaps, "mean_gap": gaps.mean()}
    command.write_json(options, runs=own | {"mean_arrivals": runs.lengths.mean()}, goodness=fitness)
    if model:
        console.print(f"log-likelihood {model.log_likelihood(runs, space=options.space):.6f}")
        console.print(
            f"rescaled gaps: distance from uniform {fitness.distance:.4f} (p = {fitness.p_distance:.3g}),"
            f" correlation of neighbours {fitness.correlation:.4f} (p = {fitness.p_correlation:.3g})"
        )


main = command.main_of("tmap", _parser)


if __name__ == "__main__":
    sys.exit(main())
