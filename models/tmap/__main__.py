"""`python -m models.tmap {fit,simulate,describe} FILE`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import portable as pk
from portable.errors import InputError, PortableError, printable

from .. import page
from ..checks import check_outputs
from ..cluster import add_cluster, asked_for
from ..files import replacing
from ..store import inside
from ..dates import ORDERS
from . import best_renewal, fit, goodness_of_fit, load, read, save, select_orders, standard_errors
from .paper import Paper
from .figures import complete_gaps, empirical_correlation, new_figure, overview


def main(argv: list[str] | None = None) -> int:
    """Run the command line; the exit status."""
    options = _parser().parse_args(argv)
    console = Console(width=None if sys.stdout.isatty() else 160)
    try:
        _check_outputs(options)
        with asked_for(options):
            options.run_command(options, console)
    except PortableError as error:
        Console(stderr=True).print(f"[bold red]error:[/] {escape(str(error))}", highlight=False)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def _check_outputs(options):
    """Refuse, before anything is computed, what could not be written after."""
    check_outputs(options, "out", "figure", inputs=("file", "model"))
    if options.run_command is _simulate and Path(options.out).suffix != ".npz":
        raise InputError(f"--out is {options.out}; a name that ends in .npz is wanted")
    if getattr(options, "figure", None):
        known = new_figure().canvas.get_supported_filetypes()
        if Path(options.figure).suffix[1:] not in known:
            raise InputError(
                f"--figure is {options.figure}; a name that ends in one of {', '.join(sorted(known))} is wanted"
            )


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m models.tmap", description="Transient Markovian arrival processes."
    )
    parser.add_argument("--version", action="version", version=f"portable {pk.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    fitting = commands.add_parser("fit", help="fit a process to runs")
    fitting.add_argument("file", metavar="FILE", help="runs, .npz or .csv")
    which = fitting.add_mutually_exclusive_group(required=True)
    which.add_argument("--orders", type=_orders, metavar="1,1,2", help="orders of the branches")
    which.add_argument("--total", type=int, metavar="N", help="choose orders that add up to N")
    fitting.add_argument(
        "--criterion",
        choices=("bic", "aic", "held_out", "cross_validated"),
        default="bic",
        help="what orders are chosen by (default: %(default)s)",
    )
    fitting.add_argument("--starts", type=int, default=8, help="random starts (default: %(default)s)")
    fitting.add_argument("--max-iter", type=int, default=1000, help="EM steps of each (default: %(default)s)")
    fitting.add_argument(
        "--tol", type=float, default=1e-8, help="gain for each gap at which to stop (default: %(default)s)"
    )
    fitting.add_argument("--dtype", choices=("float64", "float32"), default="float64")
    fitting.add_argument("--seed", type=int, default=0)
    fitting.add_argument(
        "--memory-limit", type=int, metavar="BYTES", help="of the space, for gaps; what is more is streamed"
    )
    fitting.add_argument(
        "--renewal", action="store_true", help="compare with the best renewal process of as many stages"
    )
    fitting.add_argument("--errors", action="store_true", help="standard errors too")
    fitting.add_argument(
        "--checkpoint", metavar="FOLDER", help="keeps where each start has come to: the same command goes on"
    )
    fitting.add_argument("--out", metavar="MODEL.json", help="write the model")
    fitting.add_argument("--figure", metavar="FILE.png", help="draw fitted against empirical")
    add_cluster(fitting)
    fitting.set_defaults(run_command=_fit)

    simulating = commands.add_parser("simulate", help="random runs of a process")
    simulating.add_argument("file", metavar="MODEL.json", help="what fit --out wrote")
    simulating.add_argument("--runs", type=int, required=True)
    simulating.add_argument("--seed", type=int, default=0)
    simulating.add_argument("--out", metavar="RUNS.npz", required=True)
    simulating.set_defaults(run_command=_simulate)

    describing = commands.add_parser("describe", help="figures of runs, beside those of a process")
    describing.add_argument("file", metavar="FILE", help="runs, .npz or .csv")
    describing.add_argument("--model", metavar="MODEL.json", help="compare with this process, and test it")
    describing.set_defaults(run_command=_describe)

    papers = commands.add_parser(
        "paper", help="Table 1 and Figures 3 and 4 of Brazenas, Horvath and Telek, as a page"
    )
    page.add_options(papers, Paper, "tmap-paper.html")
    papers.set_defaults(run_command=_paper)

    for command in (fitting, describing):
        command.add_argument(
            "--run", default="run", help="column of run names in a .csv (default: %(default)s)"
        )
        command.add_argument("--one-run", action="store_true", help="with --time: all events are of one run")
        command.add_argument("--gap", default="gap", help="column of gaps (default: %(default)s)")
        command.add_argument("--time", help="column of event times, in place of gaps")
        command.add_argument("--timeout", type=float, help="with --time: a longer gap ends a run")
        command.add_argument(
            "--end", help="with --time: when the record ended, a number or a date; what goes on is censored"
        )
        command.add_argument("--censored", help="column that is true where a run's last gap is still open")
        command.add_argument("--resolution", type=float, help="gaps are rounded to multiples of this")
        command.add_argument(
            "--date-order", choices=ORDERS, help="of dates in text that may be read in two ways"
        )
    for command in (fitting, simulating, describing):
        command.add_argument(
            "--space", metavar="NAME", help="execution space (default: the layer's own choice)"
        )
    return parser


def _paper(options, console):
    page.run(Paper, options, lambda line: console.print(line, highlight=False, markup=False))


def _orders(text):
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of whole numbers such as 1,1,2") from error


def _read(options):
    try:
        end = options.end and float(options.end)
    except ValueError:
        end = options.end
    return read(
        options.file,
        gap=options.gap,
        run=None if options.one_run else options.run,
        time=options.time,
        timeout=options.timeout,
        end=end,
        censored=options.censored,
        resolution=options.resolution,
        date_order=options.date_order,
    )


def _fit(options, console):
    runs = _read(options)
    console.print(repr(runs), highlight=False)
    how = {
        "n_starts": options.starts,
        "max_iter": options.max_iter,
        "tol": options.tol,
        "dtype": options.dtype,
        "seed": options.seed,
        "memory_limit": options.memory_limit,
        "space": options.space,
        "client": options.client,
    }
    if options.orders:
        model, info = fit(runs, orders=options.orders, checkpoint=inside(options.checkpoint, "fit"), **how)
    else:
        found = select_orders(
            runs,
            options.total,
            criterion=options.criterion,
            checkpoint=inside(options.checkpoint, "orders"),
            **how,
        )
        _print_candidates(found, options.criterion, console)
        model, info = found[0].model, found[0].info
    errors, notes = _errors(model, runs, options)
    console.print(_table_of(model, errors))
    rest = "at rest" if info.converged else "not yet at rest: try more --max-iter"
    console.print(
        f"log-likelihood {info.log_likelihood:.6f} after {info.n_iterations} steps, {rest}", highlight=False
    )
    if options.renewal:
        renewal = best_renewal(
            runs, int(model.orders.sum()), checkpoint=inside(options.checkpoint, "renewal"), **how
        )
        console.print(
            f"log-likelihood {renewal:.6f} of the best renewal process of as many stages", highlight=False
        )
    for note in (*info.notes, *notes):
        console.print(f"note: {note}", highlight=False)
    if options.out:
        save(options.out, model)
    if options.figure:
        with replacing(options.figure, "--figure") as beside:
            overview(model, runs).savefig(beside, dpi=90)


def _errors(model, runs, options):
    """Standard errors where they are wanted and there are any, and why there are none."""
    if not options.errors:
        return None, ()
    try:
        return standard_errors(
            model, runs, memory_limit=options.memory_limit, space=options.space, client=options.client
        ), ()
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
        if errors is None:
            return f"{value:.5g}"
        return f"{value:.5g} (held)" if np.isnan(error) else f"{value:.5g} ± {error:.2g}"  # at its bound

    table = Table(title="the process" + ("" if errors is None else ", ± standard errors"))
    columns = ["branch", "order", "rate", "start", "end", *(f"to {j}" for j in range(model.n_branches))]
    for name in columns:
        table.add_column(name, justify="right")
    blank = (
        np.zeros(model.n_branches),
        np.zeros(model.n_branches),
        np.zeros(model.n_branches),
        np.zeros_like(model.switching),
    )
    rates, alpha, exits, switching = (
        blank if errors is None else (errors.rates, errors.alpha, errors.exits, errors.switching)
    )
    for i in range(model.n_branches):
        parts = [
            cell(model.rates[i], rates[i]),
            cell(model.alpha[i], alpha[i]),
            cell(model.exits[i], exits[i]),
        ]
        parts += [cell(*pair) for pair in zip(model.switching[i], switching[i])]
        table.add_row(str(i), str(model.orders[i]), *parts)
    return table


def _simulate(options, console):
    runs = load(options.file).simulate(options.runs, seed=options.seed, space=options.space)
    with replacing(options.out, "--out") as beside:
        np.savez(beside, values=runs.values, lengths=runs.lengths)
    console.print(f"{runs!r} in {escape(printable(Path(options.out).name))}", highlight=False)


def _describe(options, console):
    runs = _read(options)
    model = load(options.model) if options.model else None
    gaps = runs.values[complete_gaps(runs)]
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
    if model:
        fitness = goodness_of_fit(model, runs, space=options.space)
        console.print(
            f"log-likelihood {model.log_likelihood(runs, space=options.space):.6f}", highlight=False
        )
        console.print(
            f"rescaled gaps: distance from uniform {fitness.distance:.4f} (p = {fitness.p_distance:.3g}), correlation of "
            f"neighbours {fitness.correlation:.4f} (p = {fitness.p_correlation:.3g})",
            highlight=False,
        )


if __name__ == "__main__":
    sys.exit(main())
