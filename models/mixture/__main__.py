"""Command line: `python -m portable.models.mixture fit CELLS...` turns a cytometer's files into labelled
cells, tables and figures.

Exit codes: 0 success; 2 the request cannot be met, and nothing was written; 130 interrupted.
"""

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import portable as pk

from ..shared import InputError, add_cluster, command, need, printable
from ..shared.files import check_folder
from . import cytometry
from .cytometry import figures, tables
from .cytometry.files import stem_of
from .cytometry.fitting import folder_of
from .cytometry.labels import FORMATS
from .cytometry.panel import COMPENSATIONS


_SHOWN = 30  # populations in the terminal's table; the files list all
_CELLS = "FCS, .csv with a line of names, or .npz with X, channels and markers"
_FIGURES = (*(f"{name}.png" for name in figures.NAMES), "figures.pdf")
_MODEL = "mixture.npz"


def _parser():
    made, commands = command.parser("mixture", "Populations of cells by Gaussian mixtures.")
    for name, act, folder, words, *adds in (
        ("fit", _fit, "mixture", "fit a mixture to samples; write labelled cells, tables and figures")
        + (_add_panel, _add_mixture, _add_merging, _add_labels, _add_pairs, _add_figures, add_cluster),
        ("predict", _predict, "labelled", "label samples by a mixture that was fitted")
        + (_add_labels, _add_checkpoint),
        ("merge", _merge, "merged", "join components into other populations", _add_merging),
        ("figures", _figures, "figures", "draw a fitted mixture and samples", _add_pairs),
        (
            "compensate",
            _compensate,
            "controls",
            "estimate a spillover matrix from single stains",
            _add_unstained,
        ),
    ):
        one = commands.add_parser(name, help=words)
        one.set_defaults(act=act)
        if act not in (_fit, _compensate):
            one.add_argument("model", metavar="MODEL", help=f"{_MODEL}, which fit or merge wrote")
        one.add_argument("cells", nargs="+", metavar="CELLS", help=_CELLS)
        for add in adds:
            add(one)
        if act is not _compensate:
            one.add_argument("--clean", action="store_true", help="leave out doublets and unsteady times")
            command.add(one, cytometry.fit, "space")
        one.add_argument(
            "--out", metavar="FOLDER", default=folder, help="folder of results (default: %(default)s)"
        )
    return made


def _add_mixture(parser):
    names = "n_components", "covariance", "start", "n_starts", "max_iter", "rare", "seed", "dtype"
    halves = {"action": argparse.BooleanOptionalAction, "default": True}
    command.add(parser, cytometry.fit, *names, "checkpoint", "cells_per_sample", halves=halves)


def _add_panel(parser):
    changes = {
        "channels": {"nargs": "+", "metavar": "NAME"},
        "cofactor": {"help": "of arcsinh(x / cofactor) (default: 150, 5 for mass cytometers)"},
        "compensation": {"metavar": "file|none|FILE.csv"},
    }
    command.add(parser, cytometry.Panel.of, "transform", "saturation", **changes)


def _add_merging(parser):
    command.add(parser, cytometry.fit, "method", "n_populations", "least_cells", "least_share")


def _add_labels(parser):
    parser.add_argument(
        "--labels",
        nargs="+",
        choices=[*FORMATS, "none"],
        metavar="KIND",
        help="files with a label for each cell: %(choices)s (default: fcs if CELLS are, else csv)",
    )
    parser.add_argument(
        "--all-probabilities", action="store_true", help="write probabilities of every population"
    )


def _add_checkpoint(parser):
    command.add(parser, cytometry.tally, "checkpoint")


def _add_unstained(parser):
    command.add(parser, cytometry.spillover_of, unstained={"metavar": "FILE"})


def _add_pairs(parser):
    words = "channels or markers of biaxial plots (default: the most informative)"
    parser.add_argument("--pairs", nargs="+", metavar="X,Y", type=lambda pair: pair.split(","), help=words)


def _add_figures(parser):
    parser.add_argument("--figures", choices=("png", "none"), default="png", help="none needs no Matplotlib")


def _fit(options):
    drawn = () if options.figures == "none" else _FIGURES
    folder, kinds = _checked(options, (_MODEL, "components.csv", "populations.csv", "shares.csv", *drawn))
    samples = [_thinned(path, options, number) for number, path in enumerate(options.cells)]
    panel, start = _panel(options, samples), time.perf_counter()
    figures.check_pairs(panel, options.pairs)
    space = options.space or (None if options.client else str(pk.default_space()))
    asked = command.arguments_of(options, cytometry.fit) | {"panel": panel, "space": space}
    found = cytometry.fit(samples, options.n_components, **asked)
    seconds = time.perf_counter() - start
    _save(found, folder)
    tallies = _tallied(found, folder, kinds, options)
    tables.write_components(folder / "components.csv", found, tallies)
    if drawn:
        labels = [found.predict(sample) for sample in samples]
        figures.draw(folder, found, samples, labels, tallies, options.pairs)
    console = Console()
    console.print(_table(options, found, tallies))
    console.print(_describe_fit(found, tallies), f"{seconds:.2f} s on {options.space or pk.default_space()}")


def _read(path, options):
    sample = cytometry.read(path)
    return cytometry.clean(sample) if options.clean else sample


def _thinned(path, options, number):
    """Return a sample of at most --cells-per-sample cells."""
    sample, most = _read(path, options), options.cells_per_sample
    if most is None or sample.n_cells <= most:
        return sample
    random = np.random.default_rng([options.seed, number])
    return sample.take(np.sort(random.choice(sample.n_cells, most, replace=False)))


def _compensate(options):
    folder = check_folder(options.out, ("spillover.csv",), options.cells[0])
    dark = options.unstained and cytometry.read(options.unstained)
    found = cytometry.spillover_of([cytometry.read(path) for path in options.cells], dark)
    folder.mkdir(parents=True, exist_ok=True)
    cytometry.write_spillover(folder / "spillover.csv", *found)
    command.write_json(options, channels=found[0], spillover=found[1])


def _save(found, folder):
    folder.mkdir(parents=True, exist_ok=True)
    found.save(folder / _MODEL)
    tables.write_populations(folder / "populations.csv", found)


def _panel(options, samples):
    asked = command.arguments_of(options, cytometry.Panel.of)
    if options.compensation not in COMPENSATIONS:
        asked["compensation"] = cytometry.read_spillover(options.compensation)
    return cytometry.Panel.of(samples, **asked)


def _describe_fit(found, labels):
    n, left_out = np.sum([(own.n_cells, own.n_left_out) for own in labels], axis=0)
    ended = "converged" if found.model.converged_ else "stopped"
    return (
        f"{n:,} cells ({left_out:,} saturated ones or such without numbers left out), "
        f"{len(found.panel.names)} channels: {found.model.n_active_} components, "
        f"{found.n_populations} populations; EM {ended},"
    )


def _predict(options):
    folder, kinds = _checked(options, ("shares.csv",))
    found = _loaded(options)
    Console().print(_table(options, found, _tallied(found, folder, kinds, options)))


def _merge(options):
    folder, _ = _checked(options, (_MODEL, "populations.csv"))
    found, samples = _loaded(options), [_read(path, options) for path in options.cells]
    how = options.method, options.n_populations, options.least_cells, options.least_share
    found = found.merged(samples, *how)
    _save(found, folder)
    Console().print(_table(options, found, [found.predict(sample) for sample in samples]))


def _figures(options):
    folder, _ = _checked(options, _FIGURES)
    found, samples = _loaded(options), [_read(path, options) for path in options.cells]
    figures.check_pairs(found.panel, options.pairs)
    labels = [found.predict(sample) for sample in samples]
    folder.mkdir(parents=True, exist_ok=True)
    figures.draw(folder, found, samples, labels, labels, options.pairs)


def _checked(options, files):
    """Return the folder for results, which is writable and contains no input, and the formats of the label
    files, whose libraries are installed."""
    kinds = dict.fromkeys(getattr(options, "labels", ["none"]) or [_default_options(options.cells)])
    kinds.pop("none", None)
    if any(name.endswith(".png") for name in files):
        need("matplotlib", "plot", "figures")
    for kind in filter(FORMATS.get, kinds):
        need(*FORMATS[kind], f"labels as .{kind}")
    stems = Counter(map(stem_of, options.cells))
    ((stem, number),) = stems.most_common(1)
    if number > 1:
        raise InputError(
            f"CELLS holds {number} files called '{stem}', which would name results; expected distinct names"
        )
    files = (*files, *(f"{stem}.labelled.{kind}" for stem in stems for kind in kinds))
    for path in filter(None, (*options.cells, getattr(options, "model", None))):
        folder = check_folder(options.out, files, path)
    return folder, kinds


def _default_options(paths):
    return "fcs" if all(Path(path).suffix.lower() in (".fcs", ".lmd") for path in paths) else "csv"


def _loaded(options):
    return cytometry.Populations.load(options.model, space=str(options.space or pk.default_space()))


def _tallied(found, folder, kinds, options):
    """Count the cells of all samples, with one sample in memory at a time; write labels and shares."""
    folder.mkdir(parents=True, exist_ok=True)

    def write(sample, labels):
        for kind in kinds:
            labels.write(folder / f"{sample.name}.labelled.{kind}", sample, found.panel)

    tallies = cytometry.tally(
        found,
        options.cells,
        prepare=cytometry.clean if options.clean else None,
        write=write,
        probabilities=options.all_probabilities,
        checkpoint=folder_of(options.checkpoint, "files"),
        progress=sys.stderr.isatty() and not options.quiet,
    )
    tables.write_shares(folder / "shares.csv", tallies)
    return tallies


def _table(options, found, labels):
    """Return a table of the largest populations, with their markers and shares of the samples' cells; --json
    receives all populations."""
    counts, own = np.sum([label.counts for label in labels], axis=0), cytometry.shares(labels)
    more = {} if found.stability is None else {"stability": found.stability}
    command.write_json(options, populations=found.names, cells=counts, **more)
    columns = {"share": counts / max(counts.sum(), 1), "lowest": own.min(axis=0), "highest": own.max(axis=0)}
    columns |= more
    table = Table(title="populations by size, and their shares of the samples' cells", title_justify="left")
    for name in ("", "cells", *columns):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("markers")
    for number, name in enumerate(found.names[:_SHOWN]):
        spread = (
            "unknown" if np.isnan(column[number]) else f"{column[number]:.2%}" for column in columns.values()
        )
        table.add_row(str(number), f"{counts[number]:,}", *spread, escape(printable(name)))
    if len(found.names) > _SHOWN:
        table.caption = f"{len(found.names) - _SHOWN} smaller ones are in the files"
    return table


main = command.main_of("mixture", _parser)


if __name__ == "__main__":
    sys.exit(main())
