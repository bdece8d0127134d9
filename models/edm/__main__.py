"""Command line: `python -m portable.models.edm {embed,simplex,smap,ccm,lagged,crossmap,test} DATA ...`, and
`calibrate`.

Exit codes: 0 success, 2 the request cannot be met (the reason is on standard error), 130 interrupted. The
rows that crossmap has finished are stored if --out or --checkpoint is given, and the same command resumes
from there.
"""

import dataclasses
import functools
import sys

import numpy as np
from rich.console import Console
from rich.table import Column, Table

import portable as pk
from portable.models.shared import Store, add_cluster, check_outputs, command, replacing
from portable.models import edm
from portable.models.edm import calibrate, figures, files, frames
from portable.models.edm.dimensions import OF, choose_dimensions
from portable.models.edm.libraries import check_libraries
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
# of crossmap: the largest number of pairs that it tests itself, the surrogates of each target, the most
# surrogates of an unmatched pair, and the most lines of drivers that are printed
TESTED_AT_ONCE, N_TESTED, MOST_TESTED, MOST_LINES = 150, 199, 2000, 20
MOST_LABELS = 40  # labels on an axis of a figure
CROSS_ALONE = "out", "checkpoint", "progress", "client"  # arguments that `cross_map_test` does not take


def _parser():
    made, commands = command.parser("edm", "Empirical dynamic modelling of a table.")
    for name, (act, function, text, names, changes) in COMMANDS.items():
        one = commands.add_parser(name, help=text, description=text)
        one.set_defaults(act=functools.partial(_on_table, act, function))
        every = "tau", "exclusion_radius", "segments", "space"
        command.add(one, function, *names, *every, **_WINDOWS, **changes)
        for flag, which, value, words, how in OPTIONS:
            if name in which:
                one.add_argument(flag, metavar=value, help=words, **how)
        if name in ("ccm", "crossmap"):
            add_cluster(one)
        if name == "crossmap":
            command.progress(one)
    text = "how often surrogates mistake independent series for coupled ones, and miss coupled ones"
    one = commands.add_parser("calibrate", help=text)
    one.add_argument("--quick", action="store_true", help="few pairs, for a trial run")
    n_pairs = {"default": None, "help": "pairs of each class (default: 1000; --quick: 20)"}
    names = "n_times", "n_surrogates", "seed", "kinds"
    command.add(one, calibrate.calibrate, *names, n_pairs=n_pairs)
    command.add(one, edm.simplex, "space")
    one.set_defaults(act=_calibrate)
    return made


def _on_table(act, function, options):
    check_outputs(options, "out", "plot", "json", inputs=("data",))
    for name in _WINDOWS:
        setattr(options, name, _windows(name, getattr(options, name), options.segments))
    table = files.read(options.data, options.dataset, options.segments)
    table, options.segments = frames.without_segments(table, options.segments)
    act(options, table, command.arguments_of(options, function))


def _windows(name, given, segments):
    """Return windows as pairs of numbers; with segments, also names of segments."""
    if given is None or segments:
        return given and [one for part in given for one in part]
    for part in given:
        if len(part) != 2 or not all(one.isdecimal() for one in part):
            raise InputError(f"--{name} is {' '.join(part)}; expected BEGIN END, or names of --segments")
    return [tuple(map(int, part)) for part in given]


def _show(options, title, columns, draw, found, **json):
    """Print the columns of a result, and write the files and the figure that the options request."""
    table = Table(*(Column(name, justify="right") for name in columns), title=title)
    for row in zip(*columns.values()):
        table.add_row(*(f"{v:.6g}" for v in row))
    Console().print(table)
    command.write_json(options, **json)
    _plot(options, draw, found)


def _plot(options, draw, *args, **keywords):
    if options.plot:
        with replacing(options.plot, "plot") as beside:
            draw(*args, **keywords).figure.savefig(beside, bbox_inches="tight")


def _embed(options, table, given):
    found = edm.embedding_dimension(table, options.E_max, **given)
    title = f"best E: {found.best}"
    _show(options, title, found._columns(), figures.draw_dimensions, found, dimensions=found)


def _simplex(options, table, given):
    found = edm.simplex(table, options.E, **given)
    n = int(np.isfinite(found.predicted + found.observed).sum())
    print(f"rho = {found.rho:.6f} over {n} predictions")
    command.write_json(options, rho=found.rho, n_predictions=n)
    if options.out:
        with replacing(options.out) as beside:
            found.to_pandas().to_csv(beside, index=False, float_format="%.10g")


def _smap(options, table, given):
    found = edm.smap(table, options.E, **given)
    columns = {"theta": found.theta, "rho": found.rho}
    _show(options, "S-map", columns, figures.draw_theta, found, **columns)


def _ccm(options, table, given):
    found = edm.ccm(table, options.target, options.E, **given)
    test = {} if len(found.library_sizes) < 2 else {"test": found.test(options.level)}
    columns = found._columns(options.level)
    draw = functools.partial(figures.draw_convergence, level=options.level)
    _show(options, "convergent cross mapping", columns, draw, found, convergence=found, **test)
    for one in test.values():
        low, high = one.difference_interval
        print(
            f"largest less smallest library: {one.difference:.4f} ({low:.4f} to {high:.4f}), p = "
            f"{one.difference_p:.4g}; Kendall's tau {one.tau:.3f}, p = {one.tau_p:.4g}"
        )


def _lagged(options, table, given):
    first, last = options.lags
    found = edm.lagged_map(table, options.target, options.E, Tp=range(first, last + 1), **given)
    _show(options, "cross mapping by lag", found._columns(), figures.draw_lags, found, lags=found)
    low, high = found.peak_interval
    print(f"peak at Tp = {found.peak} ({low} to {high}), p = {found.peak_p:.4g}")


def _test(options, table, given):
    if options.out:
        frames.make_table({})
    dataset, names, rows, pairs = _pairs(options, table, options.checkpoint)
    found = edm.cross_map_test(dataset, **given, **pairs)
    found = dataclasses.replace(found, libraries=rows, targets=names)
    command.write_json(options, test=found)
    if options.out:
        with replacing(options.out) as beside:
            found.to_pandas(options.method).to_csv(beside, index=False, errors="backslashreplace")
    else:
        what = f"q-values ({options.method})"
        _matrix(names, found.adjusted(options.method), rows, found.E, what)
    print(found.summary(options.fdr, options.method))
    _drivers(found, options.fdr, options.method)


def _crossmap(options, table, given):
    beside = options.checkpoint or (options.out and f"{options.out}.checkpoint")
    dataset, names, rows, pairs = _pairs(options, table, beside)
    rho = edm.cross_map(dataset, **given, **pairs)
    if not options.out:
        command.write_json(options, rho=rho, libraries=rows, targets=names, E=pairs["dims"])
        _matrix(names, rho, rows, np.broadcast_to(pairs["dims"], rho.shape))
        _named(dataset, names, rows, given | pairs)
    alone = options.library is None
    labels = {"names": names, "libraries": rows} if max(rho.shape) <= MOST_LABELS else {}
    _plot(options, figures.draw_cross_map, rho, cluster=alone, **labels)


def _pairs(options, table, checkpoint):
    """Return the series to map, their names, the names of the libraries, and the arguments dimensions and
    libraries."""
    if options.columns is None and table.clock is not None:
        words = "numbers the times, and is no series; --columns includes it"
        print(f"edm: '{printable(table.clock)}' {words}", file=sys.stderr)
    names = options.columns or table.series
    shown = [printable(name) for name in names]
    array, groups, rows = frames.choose(table, names), None, shown
    if options.library is not None:
        for name in (name for group in options.library for name in group if name not in names):
            raise InputError(f"--library: there is no column {name!r}; the columns are {', '.join(names)}")
        groups = [[names.index(name) for name in group] for group in options.library]
        rows = [" + ".join(shown[c] for c in group) for group in groups]
    dims, dataset = _dimensions(options, array, check_libraries(groups, names), checkpoint), array
    if len(set(names)) == len(names):  # so that messages name the series
        dataset = files.Table(dict(zip(names, array.T)), table.times)
        dataset.clock = None
    return dataset, shown, rows, {"dims": dims, "libraries": groups}


def _dimensions(options, dataset, libraries, checkpoint):
    """Return the requested dimensions, or the best of each series, which are stored next to a checkpoint."""
    if options.E is not None:
        return options.E
    names = "tau", "exclusion_radius", "lib", "pred", "segments"
    keys = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    settings = {"dataset": dataset, "E_max": options.E_max} | keys
    if options.segments is not None:
        settings["segments"] = np.array(options.segments.windows)
    beside = checkpoint and f"{checkpoint}.dimensions"
    keys["space"] = options.space
    with Store(beside, "edm.embedding_dimension", settings, "--checkpoint") as store:
        return choose_dimensions(options.dims, dataset, libraries, options.E_max, keys, store)


def _drivers(found, fdr, method):
    """Print the pairs of driver and driven series whose null hypothesis the test rejects."""
    lines = found.drivers(fdr, method)
    if len(lines) > MOST_LINES:
        lines[MOST_LINES:] = [f"and {len(lines) - MOST_LINES} more pairs: --out writes all"]
    print("\n".join(lines) or "No skill exceeds that of surrogates, so no driver is named")


def _named(dataset, names, rows, given):
    """Test each pair of a small table, and print the pairs of driver and driven series."""
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
    """Print a matrix with names, and the dimensions of each row, of each column, or of each pair."""
    by_row = int((E == E[:, :1]).all())
    header = "", *["E"] * by_row, *names
    table = Table(*(Column(name, justify="right", no_wrap=True) for name in header))
    for name, row, own in zip(rows, values, E):
        table.add_row(name, *[str(own[0])] * by_row, *(f"{v:.4f}" for v in row))
    if not by_row and (E == E[0]).all():
        table.add_row("E", *map(str, E[0].tolist()))
    print(f"{what}; row X, column Y: how well X's history finds Y, so Y drives X. E: embedding dimension")
    _print_whole(table)


def _print_whole(table):
    """Print a table without a limit on the width of lines."""
    console = Console()
    wanted = console.measure(table, options=console.options.update(max_width=10**6)).maximum
    console.width = max(console.width, wanted)
    console.print(table)


def _calibrate(options):
    n_pairs = options.n_pairs or (20 if options.quick else 1000)
    with pk.use(options.space or pk.default_space()):
        given = options.n_times, options.n_surrogates, options.seed, options.kinds
        found = calibrate.calibrate(n_pairs, *given)
    _print_whole(found.table())
    if not found.outside():
        return 0
    print(f"edm: outside of 3.5 to 6.5 %: {', '.join(found.outside())}", file=sys.stderr)
    return 1


_E = {"E": {"required": True, "type": int, "help": "embedding dimension"}}
_THETA = {
    "nargs": "+",
    "type": float,
    "required": False,
    "default": [0, 0.1, 0.3, 0.5, 1, 2, 3, 4, 6, 8],
    "help": "how fast weights fall with the distance (default: ten from 0 to 8)",
}
_OUT = {"metavar": "FILE.npy", "help": "write the matrix; resumed if interrupted"}
_SURROGATES = "n_surrogates", "surrogate", "period", "block", "seed"
_TESTED = *_SURROGATES, "fdr", "method", "max_surrogates", "checkpoint"
# by command: the function to run, the documented function, its help, and its parameters that are options
COMMANDS = {
    "embed": (
        _embed,
        edm.embedding_dimension,
        "skill for each embedding dimension",
        ("Tp", "dtype", "E_max"),
        {},
    ),
    "simplex": (_simplex, edm.simplex, "predictions by simplex projection", ("Tp", "dtype"), _E),
    "smap": (_smap, edm.smap, "skill of S-maps for each theta", ("Tp",), _E | {"theta": _THETA}),
    "ccm": (
        _ccm,
        edm.ccm,
        "convergent cross mapping of a target from one column",
        ("Tp", "n_samples", *_SURROGATES, "dtype"),
        _E,
    ),
    "lagged": (
        _lagged,
        edm.lagged_map,
        "cross mapping of a target from one column, for a range of lags",
        (*_SURROGATES, "level", "dtype"),
        _E,
    ),
    "test": (
        _test,
        edm.cross_map_test,
        "cross map of all pairs, tested against surrogates",
        ("Tp", *_TESTED, "dtype", "E_max"),
        {},
    ),
    "crossmap": (
        _crossmap,
        edm.cross_map,
        "cross map of all pairs of columns",
        ("Tp", "dtype", "checkpoint", "E_max"),
        {"out": _OUT},
    ),
}
FORWARD, CAUSAL, PAIRS = ("embed", "simplex", "smap"), ("ccm", "lagged"), ("test", "crossmap")
_MANY = {"nargs": "+"}
_LIBRARY = "map from these columns together; may be repeated with equal numbers (default: from each series)"
_DIMS = "series with the used dimension (default: library; kEDM's paper: target)"
_ROWS = "a row for each pair: library, target, rho, p, q (needs pandas)"
_SIZES = {"type": int, "required": True, "dest": "library_sizes"}
_LAGS = {"nargs": 2, "type": int, "default": (-8, 8)}
# option, commands that have it, name of its value, help, and further arguments of `add_argument`
OPTIONS = (
    ("data", COMMANDS, "DATA", f"table: {files.READERS}", {}),
    ("--dataset", COMMANDS, "NAME", "dataset of an HDF5 file", {}),
    ("--columns", FORWARD + CAUSAL, "NAME", "series to embed", _MANY | {"required": True}),
    ("--columns", PAIRS, "NAME", "series to map (default: all)", _MANY),
    ("--target", FORWARD, "NAME", "series to predict (default: the first column)", {}),
    ("--target", CAUSAL, "NAME", "series to predict", {"required": True}),
    ("--library", PAIRS, "NAME", _LIBRARY, _MANY | {"action": "append"}),
    ("-E", PAIRS, "N", "dimension for all pairs (default: see --dims)", {"type": int}),
    ("--dims", PAIRS, None, _DIMS, {"choices": OF, "default": "library"}),
    ("--sizes", ("ccm",), "N", "library sizes", _MANY | _SIZES),
    ("--level", ("ccm",), None, "of intervals: 0.95 for 95 %%", {"type": float, "default": 0.95}),
    ("--lags", ("lagged",), ("FIRST", "LAST"), "steps ahead (default: -8 8)", _LAGS),
    ("--plot", ("embed", "smap", *CAUSAL, "crossmap"), "FILE", "draw the result (needs matplotlib)", {}),
    ("--out", ("simplex",), "FILE", "write time, observed, predicted as CSV", {}),
    ("--out", ("test",), "FILE.csv", _ROWS, {}),
)

main = command.main_of("edm", _parser)


if __name__ == "__main__":
    sys.exit(main())
