"""Command line: `python -m models.edm {embed,simplex,smap,ccm,lagged,crossmap,test} DATA ...`, and
`calibrate`.

Exit codes: 0 done, 2 the request cannot be met (the reason is on standard error), 130 interrupted; the rows that
crossmap has finished by then are kept if it has --out or --checkpoint, and the same command goes on from there.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import dataclasses
import sys
import warnings

import numpy as np
from rich.console import Console
from rich.table import Table

import portable as pk
from models import edm, page
from models.checks import check_outputs
from models.cluster import add_cluster, asked_for
from models.edm import calibrate, figures, files, frames
from models.edm.paper import Paper
from models.edm.surrogates import SURROGATES
from models.files import replacing
from models.sharding import here
from models.store import Store
from portable.errors import InputError, printable


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    options = _parser().parse_args(argv)
    try:
        if options.command is not _paper:
            check_outputs(options, "out", "plot", inputs=("data",))
        if options.command is _test and options.out:
            frames.pandas_or_why()
        if getattr(options, "plot", None):
            figures.check_file(options.plot)
        with asked_for(options), pk.use(here(options.client, options.space)), _told():
            if options.command in (_calibrate, _paper):
                options.command(options)
            else:
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
    parser = argparse.ArgumentParser(
        prog="python -m models.edm", description="Empirical dynamic modelling of a table."
    )
    parser.add_argument("--version", action="version", version=f"portable {pk.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name, command, text):
        made = commands.add_parser(name, help=text, description=text)
        made.add_argument("data", metavar="DATA", help=f"table: {files.READERS}")
        made.add_argument("--dataset", metavar="NAME", help="dataset of an HDF5 file")
        made.add_argument(
            "--columns",
            nargs="+",
            required=name not in ("crossmap", "test"),
            metavar="NAME",
            help="series to map (default: all)" if name in ("crossmap", "test") else "series to embed",
        )
        if name not in ("crossmap", "test"):
            made.add_argument(
                "--target",
                metavar="NAME",
                required=name in ("ccm", "lagged"),
                help="series to predict"
                + ("" if name in ("ccm", "lagged") else " (default: the first column)"),
            )
        made.add_argument("--tau", type=int, default=1, help="lag (default: %(default)s)")
        if name != "lagged":
            made.add_argument(
                "--Tp",
                type=int,
                default=0 if name in ("ccm", "crossmap", "test") else 1,
                help="steps ahead (default: %(default)s)",
            )
        made.add_argument(
            "--exclusion-radius",
            type=int,
            default=0,
            metavar="N",
            help="leave out neighbours so near in time",
        )
        for window in ("lib", "pred"):
            made.add_argument(
                f"--{window}",
                nargs=2,
                type=int,
                metavar=("BEGIN", "END"),
                help="window of times, from 0, END excluded",
            )
        if name in ("crossmap", "test"):
            made.add_argument(
                "--library",
                nargs="+",
                action="append",
                metavar="NAME",
                help="map from these columns together; may be said again, with as many "
                "(default: from each series)",
            )
        if name not in ("simplex", "test"):
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
    made.add_argument(
        "--theta",
        nargs="+",
        type=float,
        default=[0, 0.1, 0.3, 0.5, 1, 2, 3, 4, 6, 8],
        help="default: ten from 0 to 8",
    )
    made = add("ccm", _ccm, "convergent cross mapping of a target from one column")
    add_cluster(made)
    made.add_argument("-E", type=int, required=True, help="embedding dimension")
    made.add_argument("--sizes", nargs="+", type=int, required=True, metavar="N", help="library sizes")
    made.add_argument("--samples", type=int, default=100, help="default: %(default)s")
    _add_surrogates(made, 0)
    made = add("lagged", _lagged, "cross mapping of a target from one column, for a range of lags")
    made.add_argument("-E", type=int, required=True, help="embedding dimension")
    made.add_argument(
        "--lags",
        nargs=2,
        type=int,
        default=(-8, 8),
        metavar=("FIRST", "LAST"),
        help="steps ahead (default: -8 8)",
    )
    _add_surrogates(made, 0)
    made = add("test", _test, "cross map of all pairs, tested against surrogates")
    made.add_argument(
        "-E", type=int, help="dimension for all targets (default: the best of each up to --E-max)"
    )
    made.add_argument("--E-max", type=int, default=20, help="default: %(default)s")
    made.add_argument("--level", type=float, default=0.05, help="false discovery rate (default: %(default)s)")
    made.add_argument(
        "--adjust",
        choices=("bh", "by"),
        default="bh",
        help="Benjamini and Hochberg, or Yekutieli (default: bh)",
    )
    made.add_argument(
        "--most-surrogates",
        type=int,
        metavar="N",
        help="of pairs that no surrogate matches, where so many could tell (default: no more)",
    )
    made.add_argument(
        "--out", metavar="FILE.csv", help="write a row a pair: library, target, rho, p, q (needs pandas)"
    )
    made.add_argument(
        "--checkpoint", metavar="FOLDER", help="keeps what was found: the same command goes on from there"
    )
    _add_surrogates(made, 200)
    made = add("crossmap", _crossmap, "cross map of all pairs of columns")
    made.add_argument(
        "-E", type=int, help="dimension for all targets (default: the best of each up to --E-max)"
    )
    made.add_argument("--E-max", type=int, default=20, help="default: %(default)s")
    made.add_argument("--out", metavar="FILE.npy", help="write the matrix; resumed if interrupted")
    made.add_argument(
        "--checkpoint", metavar="FOLDER", help="keeps finished rows (default: FILE.npy.checkpoint, if --out)"
    )
    add_cluster(made)
    made = commands.add_parser("paper", help="Figures 2 to 9 and Table 1 of kEDM's paper, as a page")
    page.add_options(made, Paper, "edm-paper.html", add_data=False)
    made.set_defaults(command=_paper)
    made = commands.add_parser(
        "calibrate",
        help="how often surrogates mistake independent series for coupled ones, and miss coupled ones",
    )
    made.add_argument("--quick", action="store_true", help="few pairs: to see that it runs")
    made.add_argument("--pairs", type=int, help="pairs of each class (default: 500; --quick: 20)")
    made.add_argument("--times", type=int, default=400, help="of each series (default: %(default)s)")
    made.add_argument("--surrogates", type=int, default=99, help="default: %(default)s")
    made.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    made.add_argument("--space", metavar="NAME", help="execution space (default: the layer's own choice)")
    made.set_defaults(command=_calibrate)
    return parser


def _add_surrogates(made, n):
    made.add_argument(
        "--surrogates",
        type=int,
        default=n,
        metavar="N",
        help="surrogates of each target (default: %(default)s)",
    )
    made.add_argument(
        "--surrogate",
        choices=SURROGATES,
        help="kind (default: phase, unless a series has a season, bursts or a drift)",
    )
    made.add_argument("--period", type=int, metavar="STEPS", help="of a cycle, for seasonal surrogates")
    made.add_argument("--block", type=int, metavar="STEPS", help="of a block, for block surrogates")
    made.add_argument("--seed", type=int, default=0, help="default: %(default)s")


def _surrogates(options):
    return {
        "n_surrogates": options.surrogates,
        "surrogate": options.surrogate,
        "period": options.period,
        "block": options.block,
        "seed": options.seed,
    }


def _common(options, table):
    library = frames.choose(table, options.columns)
    target = None if options.target is None else frames.choose(table, options.target, "target")[:, 0]
    return library, {
        "tau": options.tau,
        **_horizon(options),
        "target": target,
        "exclusion_radius": options.exclusion_radius,
    }


def _horizon(options):
    return {} if options.command is _lagged else {"Tp": options.Tp}


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
    print(
        f"rho = {found.rho:.6f} over {int(np.isfinite(found.predicted + found.observed).sum())} predictions"
    )
    if options.out:
        times = frames.at_times(frames.index_of(table), found.times)
        times = found.times if times is None else _dated(times)
        with replacing(options.out) as beside, open(beside, "w", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(["time", "observed", "predicted", "variance"])
            for time, *values in zip(times, found.observed, found.predicted, found.variance):
                rows.writerow([time, *(f"{value:.10g}" for value in values)])


def _dated(times):
    """Dates as text, without hours where none has any; empty where it is unknown which follows the last."""
    days = times.astype("datetime64[D]")
    shown = days if ((days == times) | np.isnat(times)).all() else times.astype("datetime64[us]")
    return np.where(np.isnat(times), "", shown.astype(str)).tolist()


def _smap(options, table):
    library, common = _common(options, table)
    found = edm.smap(library, options.E, theta=options.theta, **common, **_windows(options))
    _print("S-map", ("theta", "rho"), zip(found.theta, found.rho))
    _plot(options, figures.draw_theta, found)


def _ccm(options, table):
    library, common = _common(options, table)
    found = edm.ccm(
        library,
        common.pop("target"),
        options.E,
        library_sizes=options.sizes,
        n_samples=options.samples,
        client=options.client,
        space=options.space,
        **_surrogates(options),
        **_windows(options),
        **common,
    )
    low, high = found.band()
    _print(
        "convergent cross mapping",
        ("size", "rho", "2.5 %", "97.5 %", "p"),
        zip(found.library_sizes, found.mean, low, high, found.p_values),
    )
    if len(options.sizes) > 1:
        test = found.test()
        print(
            f"largest less smallest library: {test.difference:.4f} ({test.difference_interval[0]:.4f} to "
            f"{test.difference_interval[1]:.4f}), p = {test.difference_p:.4g}; Kendall's tau "
            f"{test.tau:.3f}, p = {test.tau_p:.4g}"
        )
    _plot(options, figures.draw_convergence, found)


def _lagged(options, table):
    library, common = _common(options, table)
    first, last = options.lags
    found = edm.lagged_map(
        library,
        common.pop("target"),
        options.E,
        Tp=range(first, last + 1),
        **_surrogates(options),
        **_windows(options),
        **common,
    )
    _print(
        "cross mapping by lag",
        ("Tp", "rho", "2.5 %", "97.5 %", "p"),
        zip(found.Tp, found.rho, *found.interval, found.p_values),
    )
    _plot(options, figures.draw_lags, found)
    print(
        f"peak at Tp = {found.peak} ({found.peak_interval[0]} to {found.peak_interval[1]}), p = "
        f"{found.peak_p:.4g}"
    )


def _test(options, table):
    names = options.columns or list(table)
    dataset = frames.choose(table, names)
    common = {"tau": options.tau, "exclusion_radius": options.exclusion_radius}
    dims = _dimensions(options, dataset, common, options.checkpoint)
    libraries, rows = _libraries(options, names)
    names = [printable(name) for name in names]
    found = edm.cross_map_test(
        dataset,
        dims,
        Tp=options.Tp,
        libraries=libraries,
        level=options.level,
        method=options.adjust,
        most_surrogates=options.most_surrogates,
        checkpoint=options.checkpoint,
        **_surrogates(options),
        **_windows(options),
        **common,
    )
    found = dataclasses.replace(found, libraries=rows, targets=names)
    if options.out:
        with replacing(options.out) as beside:
            found.to_pandas(options.adjust).to_csv(beside, index=False, errors="backslashreplace")
    else:
        _matrix(names, found.adjusted(options.adjust), rows, f"q-values ({options.adjust})")
    print(found.summary(options.level, options.adjust))


def _libraries(options, names):
    """What is mapped from, as numbers of columns, and what it is called."""
    shown = [printable(name) for name in names]
    if options.library is None:
        return None, shown
    missing = [name for group in options.library for name in group if name not in names]
    if missing:
        raise InputError(f"--library: there is no column {missing[0]!r}; the columns are {', '.join(names)}")
    groups = [[names.index(name) for name in group] for group in options.library]
    return groups, [" + ".join(shown[c] for c in group) for group in groups]


def _dimensions(options, dataset, common, checkpoint):
    """Those asked for, or the best of each series in the windows, which are kept beside a checkpoint."""
    if options.E is not None:
        return options.E
    common = common | {key: window for key, window in _windows(options).items() if window}

    def run(before, begin, end):
        found = []
        while begin < end and not (found and store.due()):
            found.append(max(1, edm.embedding_dimension(dataset[:, begin], options.E_max, **common).best))
            begin += 1
        return {"end": np.array(begin), "best": np.array(found)}

    beside = checkpoint and f"{checkpoint}.dimensions"
    with Store(
        beside,
        "edm.embedding_dimension",
        {"dataset": dataset, "E_max": options.E_max} | common,
        "--checkpoint",
    ) as store:
        return np.concatenate([part["best"] for part in store.chain("series", dataset.shape[1], run)])


def _paper(options):
    page.run(Paper, options)


def _calibrate(options):
    n_pairs = options.pairs or (20 if options.quick else 500)
    _print_whole(calibrate.table(n_pairs, options.times, options.surrogates, options.seed))


def _crossmap(options, table):
    names = options.columns or list(table)
    dataset = frames.choose(table, names)
    libraries, rows = _libraries(options, names)
    names = [printable(name) for name in names]
    common = {"tau": options.tau, "exclusion_radius": options.exclusion_radius}
    dims = _dimensions(
        options, dataset, common, options.checkpoint or (options.out and f"{options.out}.checkpoint")
    )
    rho = edm.cross_map(
        dataset,
        dims,
        Tp=options.Tp,
        libraries=libraries,
        out=options.out,
        client=options.client,
        space=options.space,
        checkpoint=options.checkpoint,
        progress=sys.stderr.isatty(),
        **_windows(options),
        **common,
    )
    if not options.out:
        _matrix(names, rho, rows)
    _plot(
        options,
        figures.draw_cross_map,
        rho,
        names=names if len(names) <= 40 and libraries is None else None,
        cluster=libraries is None,
    )


def _matrix(names, rho, rows, what="skill"):
    """Print a matrix with names."""
    table = Table()
    for name in ("", *names):
        table.add_column(name, justify="right", no_wrap=True)
    for name, row in zip(rows, rho):
        table.add_row(name, *(f"{v:.4f}" for v in row))
    _print_whole(f"{what}; rows: libraries, columns: targets", table)


def _print_whole(*parts):
    """Print a table, its last part, in lines as long as it takes."""
    console = Console()
    wanted = console.measure(parts[-1], options=console.options.update(max_width=10**6)).maximum
    console.width = max(console.width, wanted)
    console.print(*parts, sep="\n")


if __name__ == "__main__":
    sys.exit(main())
