"""Command line: `python -m models.mixture fit CELLS`: transform, fit, table of components, figures of marginals.

Exit codes: 0 done; 2 the request cannot be met, nothing was written; 130 interrupted.
"""

import argparse
import csv
import sys
import time
import warnings

import numpy as np
from rich.console import Console
from rich.table import Table

import portable as pk
from portable.errors import PortableError, printable

from ..files import check_folder, replacing
from . import covariance, cytometry, figures
from .estimator import DirichletMixture
from .sklearn_protocol import ConvergenceWarning
from .starts import STARTS

_SHOWN = 20  # components in the terminal's table; the file has all
_FAR = 0.75  # standard deviations


def main(argv=None):
    """Run the command line; returns the exit code."""
    options = _parser().parse_args(argv)
    try:
        return _fit(options)
    except PortableError as error:
        print(f"mixture: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _parser():
    parser = argparse.ArgumentParser(prog="python -m models.mixture", description="Gaussian mixtures of many cells.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    fit = commands.add_parser("fit", help="transform cells, fit a mixture, write a table and figures")
    fit.add_argument("cells", metavar="CELLS", help=".npz with X, channels and markers, or .csv with a line of names")
    fit.add_argument("--components", type=int, default=32, metavar="K", help="at most so many (default: %(default)s)")
    fit.add_argument("--covariance", choices=covariance.KINDS, default="full")
    fit.add_argument("--cofactor", type=float, default=150.0, help="of arcsinh(x / cofactor) (default: %(default)s)")
    fit.add_argument("--saturation", type=float, default=262143.0, help="cells that reach it are dropped (default: %(default)s)")
    fit.add_argument("--init", choices=STARTS, default="k-means++", help="how EM starts (default: %(default)s)")
    fit.add_argument("--starts", type=int, default=1, metavar="N", help="keep the best of so many (default: %(default)s)")
    fit.add_argument("--iterations", type=int, default=1000, metavar="N", help="at most (default: %(default)s)")
    fit.add_argument("--seed", type=int, default=0)
    fit.add_argument("--single", action="store_true", help="compute in float32")
    fit.add_argument("--space", metavar="NAME", help="execution space (default: the layer's own choice)")
    fit.add_argument("--checkpoint", metavar="FOLDER", help="keeps what EM has come to: the same command goes on from there")
    fit.add_argument("--out", metavar="FOLDER", default="mixture", help="where files go (default: %(default)s)")
    return parser


def _fit(options):
    figures.figure_class()  # said now if it is missing, not after the fit
    folder = check_folder(options.out, "--out", ("components.csv", "marginals.png", "mixture.npz"), options.cells)
    cells = cytometry.transform(*cytometry.read(options.cells), cofactor=options.cofactor, saturation=options.saturation)
    points = cells.points.astype(np.float32 if options.single else np.float64)
    space = str(options.space or pk.default_space())
    model = DirichletMixture(options.components, covariance=options.covariance, init_params=options.init,
                             n_init=options.starts, max_iter=options.iterations, random_state=options.seed, space=space)
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        model.fit(points, checkpoint=options.checkpoint)
    seconds = time.perf_counter() - start
    counts = np.bincount(model.predict(points), minlength=options.components)
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / "marginals.png", "--out") as beside:
        figures.marginals(model, points, cells.names, beside)
    order = np.argsort(-model.weights_)
    _write_table(folder / "components.csv", model, cells, counts, order)
    with replacing(folder / "mixture.npz", "--out") as beside:
        np.savez(beside, weights=model.weights_, means=model.means_, covariances=model.covariances_,
                 objective=model.objective_history_, names=cells.names, centres=cells.centres, scales=cells.scales)
    console = Console()
    console.print(_table(model, cells, counts, order))
    ended = "converged" if model.converged_ else "stopped"
    console.print(f"{len(points):,} cells ({cells.n_saturated:,} saturated ones dropped), {len(cells.names)} colours: "
                  f"{ended} after {model.n_iter_} iterations, {seconds:.2f} s on {space}, "
                  f"log-density {model.score(points):.4f} a cell")
    for warning in caught:
        print(f"mixture: {warning.message}", file=sys.stderr)
    console.print(f"components.csv, marginals.png and mixture.npz are in {printable(folder)}", soft_wrap=True)
    return 0


def _table(model, cells, counts, order):
    """The largest components: weights, cells whose most probable one they are, colours far from the mean of all cells."""
    table = Table(title=f"components by weight; colours more than {_FAR:g} standard deviations above or below all cells' mean",
                  title_justify="left")
    for name in ("", "weight", "cells"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("high")
    table.add_column("low")
    for j in order[:_SHOWN]:
        high, low = (", ".join(name for name, m in zip(cells.names, sign * model.means_[j]) if m > _FAR) for sign in (1, -1))
        table.add_row(str(j), f"{model.weights_[j]:.4f}", f"{counts[j]:,}", high, low)
    if len(order) > _SHOWN:
        table.caption = f"{len(order) - _SHOWN} smaller ones, and all numbers, are in components.csv"
    return table


def _write_table(path, model, cells, counts, order):
    """Means and deviations of all components in arcsinh(raw / cofactor)."""
    k, p = model.means_.shape
    means = cells.centres + cells.scales * model.means_
    deviations = cells.scales * np.sqrt(covariance.variances(model.covariance, model.covariances_, k, p))
    with replacing(path, "--out") as beside, beside.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["component", "weight", "cells", *(f"{name} mean" for name in cells.names),
                       *(f"{name} deviation" for name in cells.names)])
        rows.writerows([j, model.weights_[j], counts[j], *means[j], *deviations[j]] for j in order)


if __name__ == "__main__":
    sys.exit(main())
