"""Command line: `python -m portable.models.edm {embed,simplex,smap,ccm,lagged,crossmap,test} DATA ...`, and
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
from portable.models.shared import command
from portable.models import edm
from portable.models.shared.checks import check_outputs
from portable.models.shared.cluster import add_cluster
from portable.models.edm import calibrate, figures, files, frames
from portable.models.edm.dimensions import OF, best_dimension
from portable.models.shared.files import replacing
from portable.models.shared.store import Store
from portable.errors import InputError, printable


_WINDOWS = {
    name: {
        "nargs": "+",
        "action": "append",
        "metavar": ("BEGIN", "END"),
        "help": f"window of times of {what}, from 0, END excluded, or names of --segments; may be repeated",
    }
    for name, what in (("lib", "candidates"), ("pred", "points"))
}
_E = {"E": {"required": True, "type": int, "help": "embedding dimension"}}
# crossmap tests so many pairs itself, against so many surrogates; lines of drivers that are printed
TESTED_AT_ONCE, N_TESTED, MOST_TESTED, MOST_LINES = 150, 199, 2000, 20
CROSS_ALONE = "out", "checkpoint", "progress", "client"  # what `cross_map` takes, and the test does not want
_SURROGATES = "n_surrogates", "surrogate", "period", "block", "seed"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    return command.run("edm", _parser(), argv)


def _parser():
    made, commands = command.parser("edm", "Empirical dynamic modelling of a table.")
    for add in (_add_embed, _add_simplex, _add_smap, _add_ccm, _add_lagged, _add_test, _add_crossmap):
        add(commands)
    one = commands.add_parser(
        "calibrate",
        help="how often surrogates mistake independent series for coupled ones, and miss coupled ones",
    )
    one.add_argument("--quick", action="store_true", help="few pairs: to see that it runs")
    command.add(
        one,
        calibrate.calibrate,
        "n_times",
        "n_surrogates",
        "seed",
        "kinds",
        n_pairs={"default": None, "help": "pairs of each class (default: 1000; --quick: 20)"},
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
    command.add(one, function, "tau", "exclusion_radius", "segments", *names, **_WINDOWS, **changes)
    command.add(one, function, "space")
    if name not in ("simplex", "test", "crossmap"):
        command.add_json(one)
    if name not in ("simplex", "test"):
        one.add_argument("--plot", metavar="FILE", help="draw the result (needs matplotlib)")
    one.set_defaults(act=lambda options: _on_table(act, options))
    return one


def _on_table(act, options):
    check_outputs(options, "out", "plot", "json", inputs=("data",))
    for name in _WINDOWS:
        setattr(options, name, _windows(name, getattr(options, name), options.segments))
    table = files.read(options.data, options.dataset, options.segments)
    table, options.segments = frames.without_segments(table, options.segments)
    act(options, table)


def _windows(name, given, segments):
    """Windows as numbers; with segments their names."""
    if given is None or segments:
        return given and [one for part in given for one in part]
    for part in given:
        if len(part) != 2 or not all(one.isdecimal() for one in part):
            raise InputError(f"--{name} is {' '.join(part)}; BEGIN END are wanted, or names of --segments")
    return [tuple(map(int, part)) for part in given]


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
        help="dimension for all pairs (default: as --dims says)",
    )
    one.add_argument(
        "--dims",
        choices=OF,
        default="library",
        help="whose best dimension is taken (default: library; kEDM's paper: target)",
    )
    command.add(one, edm.cross_map, "E_max")


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
            rows, numbers = csv.writer(file, lineterminator="\n"), ("observed", "predicted", "variance")
            names = {} if found.segments is None else {"segment": found.segments}
            rows.writerow([*names, "time", *numbers])
            for *before, observed, predicted, variance in zip(
                *names.values(), times, *(getattr(found, name) for name in numbers)
            ):
                rows.writerow([*before, *(f"{value:.10g}" for value in (observed, predicted, variance))])


def _dated(times):
    """Dates as text, without hours where none has any; empty where it is unknown which follows the last.
    Numbers of a clock as they are.
    """
    if times.dtype.kind != "M":
        return [f"{time:.15g}" if isinstance(time, float) else time for time in times.tolist()]
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
    dataset, names, libraries, rows = _pairs(options, table)
    dims = _dimensions(options, dataset, libraries, options.checkpoint)
    given = command.given(options, edm.cross_map_test) | {"dims": dims, "libraries": libraries}
    found = edm.cross_map_test(dataset, **given)
    found = dataclasses.replace(found, libraries=rows, targets=names)
    if options.out:
        with replacing(options.out) as beside:
            found.to_pandas(options.method).to_csv(beside, index=False, errors="backslashreplace")
    else:
        what = f"q-values ({options.method})"
        _matrix(names, found.adjusted(options.method), rows, found.E, what)
    print(found.summary(options.fdr, options.method))
    _drivers(found, options.fdr, options.method)


def _pairs(options, table):
    """The series to map, their names, what is mapped from, as numbers of columns (None: each), and its
    names.
    """
    if options.columns is None and table.clock is not None:
        print(
            f"edm: '{printable(table.clock)}' counts the times, and is no series; --columns takes it "
            "all the same",
            file=sys.stderr,
        )
    names = options.columns or table.series
    libraries, rows = _libraries(options, names)
    dataset = frames.choose(table, names)
    if len(set(names)) == len(names):  # so that messages name the series
        dataset = files.Table(dict(zip(names, dataset.T)), table.times)
        dataset.clock = None
    return dataset, [printable(name) for name in names], libraries, rows


def _drivers(found, fdr, method):
    """Print who drives whom, as far as the test tells."""
    lines = found.drivers(fdr, method)
    for line in lines[:MOST_LINES]:
        print(line)
    if len(lines) > MOST_LINES:
        print(f"and {len(lines) - MOST_LINES} more pairs: --out writes all")
    if not lines:
        print("No skill exceeds that of surrogates, so no driver is named")


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


def _dimensions(options, dataset, libraries, checkpoint):
    """Those asked for, or the best of each series in the windows, which are kept beside a checkpoint."""
    if options.E is not None:
        return options.E
    dataset = np.column_stack(list(dataset.values())) if isinstance(dataset, dict) else dataset
    names = "tau", "exclusion_radius", "lib", "pred"
    common = {name: getattr(options, name) for name in names if getattr(options, name) is not None}

    def run(before, begin, end):
        found = []
        while begin < end and not (found and store.due()):
            keys = common | {"space": options.space, "segments": options.segments}
            found.append(best_dimension(dataset[:, begin], options.E_max, keys))
            begin += 1
        return {"end": np.array(begin), "best": np.array(found)}

    beside = checkpoint and f"{checkpoint}.dimensions"
    windows = {} if options.segments is None else {"segments": np.array(options.segments.windows)}
    with Store(
        beside,
        "edm.embedding_dimension",
        {"dataset": dataset, "E_max": options.E_max} | windows | common,
        "--checkpoint",
    ) as store:
        best = np.concatenate([part["best"] for part in store.chain("series", dataset.shape[1], run)])
    if options.dims == "target":
        return best
    of = np.arange(len(best))[:, None] if libraries is None else np.array(libraries)
    return best[of].max(axis=1)[:, None]


def _calibrate(options):
    n_pairs = options.n_pairs or (20 if options.quick else 1000)
    with pk.use(options.space or pk.default_space()):
        found = calibrate.calibrate(
            n_pairs, options.n_times, options.n_surrogates, options.seed, options.kinds
        )
    _print_whole(found.table())
    if not found.outside():
        return 0
    print(f"edm: outside of 3.5 to 6.5 %: {', '.join(found.outside())}", file=sys.stderr)
    return 1


def _crossmap(options, table):
    dataset, names, libraries, rows = _pairs(options, table)
    beside = options.checkpoint or (options.out and f"{options.out}.checkpoint")
    dims = _dimensions(options, dataset, libraries, beside)
    given = command.given(options, edm.cross_map) | {"dims": dims, "libraries": libraries}
    rho = edm.cross_map(dataset, **given)
    if not options.out:
        _matrix(names, rho, rows, np.broadcast_to(dims, rho.shape))
        _named(options, dataset, names, rows, given)
    _plot(
        options,
        figures.draw_cross_map,
        rho,
        names=names if len(names) <= 40 and libraries is None else None,
        cluster=libraries is None,
    )


def _named(options, dataset, names, rows, given):
    """Print who drives whom, of a small table: that takes a test of each pair."""
    if len(rows) * len(names) > TESTED_AT_ONCE:
        print(
            "`python -m portable.models.edm test` says which skills are more than chance, and so who "
            "drives whom"
        )
        return
    keys = {name: value for name, value in given.items() if name not in CROSS_ALONE}
    found = edm.cross_map_test(dataset, n_surrogates=N_TESTED, max_surrogates=MOST_TESTED, **keys)
    _drivers(dataclasses.replace(found, libraries=rows, targets=names), 0.05, "bh")


def _matrix(names, values, rows, E, what="skill"):
    """Print a matrix with names, and the dimensions: of each row, of each column, or of each pair."""
    table, by_row = Table(), (E == E[:, :1]).all()
    for name in ("", *(("E",) if by_row else ()), *names):
        table.add_column(name, justify="right", no_wrap=True)
    for name, row, own in zip(rows, values, E):
        table.add_row(name, *((str(own[0]),) if by_row else ()), *(f"{v:.4f}" for v in row))
    if not by_row and (E == E[0]).all():
        table.add_row("E", *map(str, E[0].tolist()))
    print(f"{what}; row X, column Y: how well X's history finds Y, so Y drives X. E: embedding dimension")
    _print_whole(table)


def _print_whole(*parts):
    """Print a table, its last part, in lines as long as it takes."""
    console = Console()
    wanted = console.measure(parts[-1], options=console.options.update(max_width=10**6)).maximum
    console.width = max(console.width, wanted)
    console.print(*parts, sep="\n")


if __name__ == "__main__":
    sys.exit(main())
