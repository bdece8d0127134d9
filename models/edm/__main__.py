"""Command line: `python -m models.edm {embed,simplex,smap,ccm,crossmap} DATA ...`.

Exit codes: 0 done, 2 the request cannot be met (the reason is on standard error), 130 interrupted; the rows that
crossmap has finished by then are kept if it has --out or --checkpoint, and the same command goes on from there.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import warnings

import numpy as np
from rich.console import Console
from rich.table import Table

import portable as pk
from models import edm
from models.checks import check_outputs
from models.edm import figures, files, frames
from models.files import replacing
from portable.errors import printable


def main(argv=None):
    """Run the command line; returns the exit code."""
    options = _parser().parse_args(argv)
    try:
        check_outputs(options, "out", "plot", inputs=("data",))
        if getattr(options, "plot", None):
            figures.check_file(options.plot)
        with pk.use(options.space or pk.default_space()), _told():
            options.command(options, files.read(options.data, options.dataset))
    except pk.PortableError as error:
        print(f"edm: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


@contextlib.contextmanager
def _told():
    """Say warnings in a line each, once all is done."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("always", RuntimeWarning)
        try:
            yield
        finally:
            for warning in caught:
                print(f"edm: warning: {printable(warning.message)}", file=sys.stderr)


def _parser():
    parser = argparse.ArgumentParser(prog="python -m models.edm", description="Empirical dynamic modelling of a table.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name, command, text):
        made = commands.add_parser(name, help=text, description=text)
        made.add_argument("data", metavar="DATA", help=f"table: {files.READERS}")
        made.add_argument("--dataset", metavar="NAME", help="dataset of an HDF5 file")
        made.add_argument("--columns", nargs="+", required=name != "crossmap", metavar="NAME",
                          help="series to map (default: all)" if name == "crossmap" else "series to embed")
        if name != "crossmap":
            made.add_argument("--target", metavar="NAME", help="series to predict (default: the first column)")
        made.add_argument("--tau", type=int, default=1, help="lag (default: %(default)s)")
        made.add_argument("--Tp", type=int, default=0 if name in ("ccm", "crossmap") else 1,
                          help="steps ahead (default: %(default)s)")
        made.add_argument("--exclusion-radius", type=int, default=0, metavar="N", help="leave out neighbours so near in time")
        if name in ("embed", "simplex", "smap"):
            for window in ("lib", "pred"):
                made.add_argument(f"--{window}", nargs=2, type=int, metavar=("BEGIN", "END"),
                                  help="window of times, from 0, END excluded")
        if name != "simplex":
            made.add_argument("--plot", metavar="FILE", help="draw the result (needs matplotlib)")
        made.add_argument("--space", metavar="NAME", help="execution space (default: the layer's own choice)")
        made.set_defaults(command=command)
        return made

    made = add("embed", _embed, "skill for each embedding dimension")
    made.add_argument("--E-max", type=int, default=10, help="default: %(default)s")
    made = add("simplex", _simplex, "predictions by simplex projection")
    made.add_argument("-E", type=int, required=True, help="embedding dimension")
    made.add_argument("--out", metavar="FILE", help="write time, observed, predicted as CSV")
    made = add("smap", _smap, "skill of S-maps for each theta")
    made.add_argument("-E", type=int, required=True, help="embedding dimension")
    made.add_argument("--theta", nargs="+", type=float, default=[0, 0.1, 0.3, 0.5, 1, 2, 3, 4, 6, 8],
                      help="default: ten from 0 to 8")
    made = add("ccm", _ccm, "convergent cross mapping of a target from one column")
    made.add_argument("-E", type=int, required=True, help="embedding dimension")
    made.add_argument("--sizes", nargs="+", type=int, required=True, metavar="N", help="library sizes")
    made.add_argument("--samples", type=int, default=100, help="default: %(default)s")
    made.add_argument("--surrogates", type=int, default=0, help="surrogate targets for p-values (default: none)")
    made.add_argument("--surrogate", choices=("random", "phase"), default="random", help="default: %(default)s")
    made.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    made = add("crossmap", _crossmap, "cross map of all pairs of columns")
    made.add_argument("-E", type=int, help="dimension for all targets (default: the best of each up to --E-max)")
    made.add_argument("--E-max", type=int, default=20, help="default: %(default)s")
    made.add_argument("--out", metavar="FILE.npy", help="write the matrix; resumed if interrupted")
    made.add_argument("--checkpoint", metavar="FOLDER", help="keeps finished rows (default: FILE.npy.checkpoint, if --out)")
    return parser


def _common(options, table):
    library = frames.choose(table, options.columns)
    target = None if options.target is None else frames.choose(table, options.target, "target")[:, 0]
    return library, {"tau": options.tau, "Tp": options.Tp, "target": target, "exclusion_radius": options.exclusion_radius}


def _windows(options):
    return {"lib": options.lib, "pred": options.pred}


def _print(title, header, rows):
    table = Table(title=title)
    for name in header:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*(f"{v:.6g}" for v in row))
    Console().print(table)


def _plot(options, draw, *args, **keywords):
    if options.plot:
        with replacing(options.plot, "plot") as beside:
            draw(*args, **keywords).figure.savefig(beside, bbox_inches="tight")


def _embed(options, table):
    library, common = _common(options, table)
    found = edm.embedding_dimension(library, options.E_max, **common, **_windows(options))
    _print(f"best E: {found.best}", ("E", "rho"), zip(found.E, found.rho))
    _plot(options, figures.draw_dimensions, found)


def _simplex(options, table):
    library, common = _common(options, table)
    found = edm.simplex(library, options.E, **common, **_windows(options))
    print(f"rho = {found.rho:.6f} over {int(np.isfinite(found.predicted + found.observed).sum())} predictions")
    if options.out:
        columns = np.column_stack([found.times, found.observed, found.predicted, found.variance])
        with replacing(options.out) as beside:
            np.savetxt(beside, columns, delimiter=",", header="time,observed,predicted,variance", comments="", fmt="%.10g")


def _smap(options, table):
    library, common = _common(options, table)
    found = edm.smap(library, options.E, theta=options.theta, **common, **_windows(options))
    _print("S-map", ("theta", "rho"), zip(found.theta, found.rho))
    _plot(options, figures.draw_theta, found)


def _ccm(options, table):
    library, common = _common(options, table)
    common["target"] = library[:, 0] if common["target"] is None else common["target"]
    found = edm.ccm(library, common.pop("target"), options.E, library_sizes=options.sizes, n_samples=options.samples,
                    n_surrogates=options.surrogates, surrogate=options.surrogate, seed=options.seed, **common)
    low, high = found.band()
    _print("convergent cross mapping", ("size", "rho", "2.5 %", "97.5 %", "p"),
           zip(found.library_sizes, found.mean, low, high, found.p_values))
    _plot(options, figures.draw_convergence, found)


def _crossmap(options, table):
    names = options.columns or list(table)
    dataset = frames.choose(table, names)
    names = [printable(name) for name in names]
    common = {"tau": options.tau, "exclusion_radius": options.exclusion_radius}
    dims = options.E
    if dims is None:
        dims = [max(1, edm.embedding_dimension(column, options.E_max, **common).best) for column in dataset.T]
    rho = edm.cross_map(dataset, dims, Tp=options.Tp, out=options.out, checkpoint=options.checkpoint,
                        progress=sys.stderr.isatty(), **common)
    if not options.out:
        _matrix(names, rho)
    _plot(options, figures.draw_cross_map, rho, names=names if len(names) <= 40 else None)


def _matrix(names, rho):
    """Print a matrix, in lines as long as it takes."""
    table = Table()
    for name in ("", *names):
        table.add_column(name, justify="right", no_wrap=True)
    for name, row in zip(names, rho):
        table.add_row(name, *(f"{v:.4f}" for v in row))
    console = Console()
    console.width = max(console.width, console.measure(table, options=console.options.update(max_width=10**6)).maximum)
    console.print("rows: libraries, columns: targets", table, sep="\n")


if __name__ == "__main__":
    sys.exit(main())
