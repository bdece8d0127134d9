"""Command line: `python -m models.edm {embed,simplex,smap,ccm,lagged,crossmap,test} DATA ...`, and
`calibrate`.

Exit codes: 0 done, 2 the request cannot be met (the reason is on standard error), 130 interrupted; the rows
that crossmap has finished by then are kept if it has --out or --checkpoint, and the same command goes on from
there.
"""

from __future__ import annotations

import csv
import dataclasses
import sys
from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.table import Table

import portable as pk
from models import command, edm, page
from models.checks import check_outputs
from models.cluster import add_cluster
from models.edm import calibrate, figures, files, frames
from models.edm.paper import Paper
from models.files import replacing
from models.store import Store
from portable.errors import InputError, printable

_WINDOWS = {
    name: {
        "nargs": 2,
        "type": int,
        "metavar": ("BEGIN", "END"),
        "help": f"window of times of {what}, from 0, END excluded",
    }
    for name, what in (("lib", "candidates"), ("pred", "points"))
}
_E = {"E": {"required": True, "type": int, "help": "embedding dimension"}}
_SURROGATES = "n_surrogates", "surrogate", "period", "block", "seed"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    return command.run("edm", _parser(), argv)


def _parser():
    made, commands = command.parser("edm", "Empirical dynamic modelling of a table.")
    for add in (_add_embed, _add_simplex, _add_smap, _add_ccm, _add_lagged, _add_test, _add_crossmap):
        add(commands)
    one = commands.add_parser("paper", help="Figures 2 to 9 and Table 1 of kEDM's paper, as a page")
    page.add_options(one, Paper, "edm-paper.html", add_data=False)
    one = commands.add_parser(
        "calibrate",
        help="how often surrogates mistake independent series for coupled ones, and miss coupled ones",
    )
    one.add_argument("--quick", action="store_true", help="few pairs: to see that it runs")
    command.add(
        one,
        calibrate.table,
        "n_times",
        "n_surrogates",
        "seed",
        n_pairs={"default": None, "help": "pairs of each class (default: 500; --quick: 20)"},
    )
    command.add(one, edm.simplex, "space")
    one.set_defaults(act=_calibrate)
    return made


def _add(commands, name, act, function, text, *names, **changes):
    """A command that calls a function of a table, with options for parameters of that."""
    one = commands.add_parser(name, help=text, description=text)
    one.add_argument("data", metavar="DATA", help=f"table: {files.READERS}")
    one.add_argument("--dataset", metavar="NAME", help="dataset of an HDF5 file")
    pairs, target = name in ("crossmap", "test"), name in ("ccm", "lagged")
    what = "series to map (default: all)" if pairs else "series to embed"
    one.add_argument("--columns", nargs="+", required=not pairs, metavar="NAME", help=what)
    if not pairs:
        what = "series to predict" + " (default: the first column)" * (not target)
        one.add_argument("--target", metavar="NAME", required=target, help=what)
    else:
        one.add_argument(
            "--library",
            nargs="+",
            action="append",
            metavar="NAME",
            help="map from these columns together; may be repeated, with as many (default: from each series)",
        )
    command.add(one, function, "tau", "exclusion_radius", *names, **_WINDOWS, **changes)
    command.add(one, function, "space")
    if name not in ("simplex", "test", "crossmap"):
        command.add_json(one)
    if name not in ("simplex", "test"):
        one.add_argument("--plot", metavar="FILE", help="draw the result (needs matplotlib)")
    one.set_defaults(act=lambda options: _on_table(act, options))
    return one


def _on_table(act, options):
    check_outputs(options, "out", "plot", "json", inputs=("data",))
    act(options, files.read(options.data, options.dataset))


def _add_embed(commands):
    text = "skill for each embedding dimension"
    _add(commands, "embed", _embed, edm.embedding_dimension, text, "Tp", "dtype", "E_max")


def _add_simplex(commands):
    text = "predictions by simplex projection"
    one = _add(commands, "simplex", _simplex, edm.simplex, text, "Tp", "dtype", **_E)
    one.add_argument("--out", metavar="FILE", help="write time, observed, predicted as CSV")


def _add_smap(commands):
    theta = {
        "nargs": "+",
        "type": float,
        "required": False,
        "default": [0, 0.1, 0.3, 0.5, 1, 2, 3, 4, 6, 8],
        "help": "how fast weights fall with the distance (default: ten from 0 to 8)",
    }
    _add(commands, "smap", _smap, edm.smap, "skill of S-maps for each theta", "Tp", **_E, theta=theta)


def _add_ccm(commands):
    text = "convergent cross mapping of a target from one column"
    one = _add(commands, "ccm", _ccm, edm.ccm, text, "Tp", "n_samples", *_SURROGATES, "dtype", **_E)
    one.add_argument(
        "--sizes", nargs="+", type=int, required=True, metavar="N", dest="library_sizes", help="library sizes"
    )
    command.add(one, edm.lagged_map, "level")
    add_cluster(one)


def _add_lagged(commands):
    text = "cross mapping of a target from one column, for a range of lags"
    one = _add(commands, "lagged", _lagged, edm.lagged_map, text, *_SURROGATES, "level", "dtype", **_E)
    one.add_argument(
        "--lags",
        nargs=2,
        type=int,
        default=(-8, 8),
        metavar=("FIRST", "LAST"),
        help="steps ahead (default: -8 8)",
    )


def _add_dimensions(one):
    one.add_argument(
        "-E",
        type=int,
        metavar="N",
        help="dimension for all targets (default: the best of each up to --E-max)",
    )
    command.add(one, edm.embedding_dimension, "E_max")


def _add_test(commands):
    text = "cross map of all pairs, tested against surrogates"
    names = "Tp", *_SURROGATES, "fdr", "method", "max_surrogates", "dtype", "checkpoint"
    one = _add(commands, "test", _test, edm.cross_map_test, text, *names)
    _add_dimensions(one)
    one.add_argument(
        "--out", metavar="FILE.csv", help="a row for each pair: library, target, rho, p, q (needs pandas)"
    )


def _add_crossmap(commands):
    text = "cross map of all pairs of columns"
    out = {"metavar": "FILE.npy", "help": "write the matrix; resumed if interrupted"}
    one = _add(commands, "crossmap", _crossmap, edm.cross_map, text, "Tp", "dtype", "checkpoint", out=out)
    _add_dimensions(one)
    command.progress(one)
    add_cluster(one)


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
    found = edm.embedding_dimension(table, options.E_max, **command.given(options, edm.embedding_dimension))
    _print(f"best E: {found.best}", ("E", "rho"), zip(found.E, found.rho))
    command.write_json(options, dimensions=found)
    _plot(options, figures.draw_dimensions, found)


def _simplex(options, table):
    found = edm.simplex(table, options.E, **command.given(options, edm.simplex))
    print(
        f"rho = {found.rho:.6f} over {int(np.isfinite(found.predicted + found.observed).sum())} predictions"
    )
    if options.out:
        times = found.times if found.index is None else _dated(found.index)
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
    found = edm.smap(table, options.E, **command.given(options, edm.smap))
    _print("S-map", ("theta", "rho"), zip(found.theta, found.rho))
    command.write_json(options, theta=found.theta, rho=found.rho)
    _plot(options, figures.draw_theta, found)


def _ends(level):
    """The names of an interval's ends."""
    return tuple(f"{share:g} %" for share in (50 - 50 * level, 50 + 50 * level))


def _ccm(options, table):
    found = edm.ccm(table, options.target, options.E, **command.given(options, edm.ccm))
    low, high = found.interval(options.level)
    _print(
        "convergent cross mapping",
        ("size", "rho", *_ends(options.level), "p"),
        zip(found.library_sizes, found.mean, low, high, found.p_values),
    )
    if len(found.library_sizes) > 1:
        test = found.test(options.level)
        print(
            f"largest less smallest library: {test.difference:.4f} ({test.difference_interval[0]:.4f} to "
            f"{test.difference_interval[1]:.4f}), p = {test.difference_p:.4g}; Kendall's tau "
            f"{test.tau:.3f}, p = {test.tau_p:.4g}"
        )
    test = {} if len(found.library_sizes) < 2 else {"test": found.test(options.level)}
    command.write_json(options, convergence=found, **test)
    _plot(options, figures.draw_convergence, found)


def _lagged(options, table):
    first, last = options.lags
    given = command.given(options, edm.lagged_map)
    found = edm.lagged_map(table, options.target, options.E, Tp=range(first, last + 1), **given)
    _print(
        "cross mapping by lag",
        ("Tp", "rho", *_ends(options.level), "p"),
        zip(found.Tp, found.rho, *found.interval, found.p_values),
    )
    command.write_json(options, lags=found)
    _plot(options, figures.draw_lags, found)
    print(
        f"peak at Tp = {found.peak} ({found.peak_interval[0]} to {found.peak_interval[1]}), p = "
        f"{found.peak_p:.4g}"
    )


def _test(options, table):
    if options.out:
        frames.pandas_or_why()
    names = options.columns or list(table)
    dataset = frames.choose(table, names)
    dims = _dimensions(options, dataset, options.checkpoint)
    libraries, rows = _libraries(options, names)
    given = command.given(options, edm.cross_map_test)
    found = edm.cross_map_test(dataset, dims, libraries=libraries, **given)
    names = [printable(name) for name in names]
    found = dataclasses.replace(found, libraries=rows, targets=names)
    if options.out:
        with replacing(options.out) as beside:
            found.to_pandas(options.method).to_csv(beside, index=False, errors="backslashreplace")
    else:
        _matrix(names, found.adjusted(options.method), rows, f"q-values ({options.method})")
    print(found.summary(options.fdr, options.method))


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


def _dimensions(options, dataset, checkpoint):
    """Those asked for, or the best of each series in the windows, which are kept beside a checkpoint."""
    if options.E is not None:
        return options.E
    names = "tau", "exclusion_radius", "lib", "pred"
    common = {name: getattr(options, name) for name in names if getattr(options, name) is not None}

    def run(before, begin, end):
        found = []
        while begin < end and not (found and store.due()):
            found.append(max(1, _best(dataset[:, begin], options, common)))
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


def _best(series, options, common):
    return edm.embedding_dimension(series, options.E_max, space=options.space, **common).best


def _calibrate(options):
    n_pairs = options.n_pairs or (20 if options.quick else 500)
    with pk.use(options.space or pk.default_space()):
        _print_whole(calibrate.table(n_pairs, options.n_times, options.n_surrogates, options.seed))


def _crossmap(options, table):
    names = options.columns or list(table)
    dataset = frames.choose(table, names)
    libraries, rows = _libraries(options, names)
    names = [printable(name) for name in names]
    dims = _dimensions(options, dataset, options.checkpoint or (options.out and f"{options.out}.checkpoint"))
    rho = edm.cross_map(dataset, dims, libraries=libraries, **command.given(options, edm.cross_map))
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
