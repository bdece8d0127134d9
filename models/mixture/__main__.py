"""Command line: `python -m portable.models.mixture fit CELLS...`: from a cytometer's files to labelled cells,
tables and figures.

Exit codes: 0 done; 2 the request cannot be met, nothing was written; 130 interrupted.
"""

import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import portable as pk
from portable.errors import InputError, printable

from ..shared import command
from ..shared.cluster import add_cluster
from ..shared.extras import need
from ..shared.files import check_folder
from . import cytometry
from .cytometry import figures, tables
from .cytometry.labels import FORMATS
from .cytometry.panel import COMPENSATIONS


_SHOWN = 30  # populations in the terminal's table; the file has all
_CELLS = "FCS, .csv with a line of names, or .npz with X, channels and markers"
_FIGURES = (*(f"{name}.png" for name in figures.NAMES), "figures.pdf")
_MODEL = "mixture.npz"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    return command.run("mixture", _parser(), argv)


def _parser():
    made, commands = command.parser("mixture", "Populations of cells by Gaussian mixtures.")
    fit = commands.add_parser(
        "fit", help="fit a mixture to samples; write labelled cells, tables and figures"
    )
    fit.set_defaults(act=_fit)
    fit.add_argument("cells", nargs="+", metavar="CELLS", help=_CELLS)
    for add in (_add_panel, _add_mixture, _add_merging, _add_labels, _add_pairs):
        add(fit)
    fit.add_argument("--figures", choices=("png", "none"), default="png", help="none does without Matplotlib")
    add_cluster(fit)
    _add_out(fit, "mixture")
    for name, act, add, folder, words in (
        ("predict", _predict, _add_labels, "labelled", "label samples by a mixture that was fitted"),
        ("merge", _merge, _add_merging, "merged", "join components into other populations"),
        ("figures", _figures, _add_pairs, "figures", "draw a fitted mixture and samples"),
    ):
        one = commands.add_parser(name, help=words)
        one.set_defaults(act=act)
        one.add_argument("model", metavar="MODEL", help=f"{_MODEL}, which fit or merge wrote")
        one.add_argument("cells", nargs="+", metavar="CELLS", help=_CELLS)
        add(one)
        _add_out(one, folder)
    return made


def _add_mixture(parser):
    names = "n_components", "covariance", "start", "n_starts", "max_iter", "rare", "seed", "dtype"
    command.add(parser, cytometry.fit, *names, "checkpoint", "cells_per_sample")


def _add_panel(parser):
    parser.add_argument(
        "--channels", nargs="+", metavar="NAME", help="of channels or markers (default: all colours)"
    )
    command.add(parser, cytometry.Panel.of, "transform", "saturation")
    parser.add_argument(
        "--cofactor", type=float, help="of arcsinh(x / cofactor) (default: 150, 5 for mass cytometers)"
    )
    parser.add_argument(
        "--compensation",
        default="file",
        metavar="file|none|FILE.csv",
        help="by each file's spillover matrix, by none, or by that of a table (default: %(default)s)",
    )


def _add_merging(parser):
    command.add(parser, cytometry.fit, "method", "n_populations", "least_cells")


def _add_labels(parser):
    parser.add_argument(
        "--labels",
        nargs="+",
        choices=[*FORMATS, "none"],
        help="kinds of files with a label for each cell (default: fcs if CELLS are, else csv)",
    )
    parser.add_argument("--all-probabilities", action="store_true", help="write those of every population")


def _add_pairs(parser):
    parser.add_argument(
        "--pairs",
        nargs="+",
        metavar="X,Y",
        help="channels or markers of biaxial plots (default: those that tell most)",
    )


def _add_out(parser, folder):
    command.add(parser, cytometry.fit, "space")
    parser.add_argument(
        "--out", metavar="FOLDER", default=folder, help="where files go (default: %(default)s)"
    )


def _fit(options):
    drawn = () if options.figures == "none" else _FIGURES
    folder, kinds = _checked(options, (_MODEL, "components.csv", "populations.csv", "shares.csv", *drawn))
    samples = [cytometry.read(path) for path in options.cells]
    panel, start = _panel(options, samples), time.perf_counter()
    if options.pairs:
        figures.check_pairs(panel, _pairs(options))
    found = _fitted(options, samples, panel)
    seconds = time.perf_counter() - start
    folder.mkdir(parents=True, exist_ok=True)
    labels = _written(found, samples, folder, kinds, options)
    if drawn:
        figures.draw(folder, found, samples, labels, _pairs(options))
    console = Console()
    console.print(_table(options, found, labels))
    console.print(_said(found, labels), f"{seconds:.2f} s on {options.space or pk.default_space()}")


def _written(found, samples, folder, kinds, options):
    """The labels of all samples, once they and the tables are in the folder."""
    found.save(folder / _MODEL)
    labels = _label(found, samples, folder, kinds, options.all_probabilities)
    tables.write_components(folder / "components.csv", found, labels)
    tables.write_populations(folder / "populations.csv", found)
    return labels


def _panel(options, samples):
    compensation = options.compensation
    if compensation not in COMPENSATIONS:
        compensation = cytometry.read_spillover(compensation)
    return cytometry.Panel.of(
        samples, **command.given(options, cytometry.Panel.of) | {"compensation": compensation}
    )


def _fitted(options, samples, panel):
    space = options.space or (None if options.client else str(pk.default_space()))
    asked = command.given(options, cytometry.fit) | {"panel": panel, "space": space}
    return cytometry.fit(samples, options.n_components, **asked)


def _said(found, labels):
    n, left_out = (
        sum(numbers) for numbers in zip(*((len(own.population), own.n_left_out) for own in labels))
    )
    ended = "converged" if found.model.converged_ else "stopped"
    return (
        f"{n:,} cells ({left_out:,} saturated ones or such without numbers left out), "
        f"{len(found.panel.names)} channels: {found.model.n_active_} components, "
        f"{found.n_populations} populations; EM {ended},"
    )


def _predict(options):
    folder, kinds = _checked(options, ("shares.csv",))
    found, samples = _loaded(options)
    folder.mkdir(parents=True, exist_ok=True)
    labels = _label(found, samples, folder, kinds, options.all_probabilities)
    Console().print(_table(options, found, labels))


def _merge(options):
    folder, _ = _checked(options, (_MODEL, "populations.csv"))
    found, samples = _loaded(options)
    found = found.merged(samples, options.method, options.n_populations, options.least_cells)
    folder.mkdir(parents=True, exist_ok=True)
    found.save(folder / _MODEL)
    tables.write_populations(folder / "populations.csv", found)
    Console().print(_table(options, found, [found.predict(sample) for sample in samples]))


def _figures(options):
    folder, _ = _checked(options, _FIGURES)
    found, samples = _loaded(options)
    if options.pairs:
        figures.check_pairs(found.panel, _pairs(options))
    labels = [found.predict(sample) for sample in samples]
    folder.mkdir(parents=True, exist_ok=True)
    figures.draw(folder, found, samples, labels, _pairs(options))


def _checked(options, files):
    """The folder for results, which can be written to and holds no input; kinds of files for labels, whose
    libraries are there."""
    kinds = list(dict.fromkeys(getattr(options, "labels", ["none"]) or [_usual(options.cells)]))
    kinds = [kind for kind in kinds if kind != "none"]
    if any(name.endswith(".png") for name in files):
        need("matplotlib", "plot", "figures")
    for kind in kinds:
        if FORMATS[kind] is not None:
            need(*FORMATS[kind], f"labels as .{kind}")
    stems = Counter(_stem(path) for path in options.cells)
    for stem, number in stems.items():
        if number > 1:
            raise InputError(
                f"CELLS holds {number} files called '{stem}'; results are called after them, so names that "
                "differ are "
                "wanted"
            )
    files = (*files, *(f"{stem}.labelled.{kind}" for stem in stems for kind in kinds))
    for path in [*options.cells, *([options.model] if "model" in options else [])]:
        folder = check_folder(options.out, "--out", files, path)
    return folder, kinds


def _usual(paths):
    return "fcs" if all(Path(path).suffix.lower() in (".fcs", ".lmd") for path in paths) else "csv"


def _stem(path):
    name = Path(path).name
    return next(
        (
            name[: -len(kind)]
            for kind in (".csv.gz", ".csv", ".npz", ".fcs", ".lmd")
            if name.lower().endswith(kind)
        ),
        name,
    )


def _pairs(options):
    return [pair.split(",") for pair in options.pairs] if options.pairs else None


def _loaded(options):
    found = cytometry.Populations.load(options.model, space=str(options.space or pk.default_space()))
    return found, [cytometry.read(path) for path in options.cells]


def _label(found, samples, folder, kinds, probabilities):
    """Labels of all samples, written with the table of shares."""
    labels = []
    for sample in samples:
        labels.append(found.predict(sample, probabilities=probabilities))
        for kind in kinds:
            labels[-1].write(folder / f"{sample.name}.labelled.{kind}", sample, found.panel)
    tables.write_shares(folder / "shares.csv", labels)
    return labels


def _table(options, found, labels):
    """Return the largest populations, with their markers and shares of the samples' cells; keep all for
    --json."""
    table = Table(title="populations by size, and their shares of the samples' cells", title_justify="left")
    for name in ("", "cells", "share", "lowest", "highest"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("markers")
    counts, own = np.sum([label.counts for label in labels], axis=0), cytometry.shares(labels)
    command.write_json(options, populations=found.names, cells=counts)
    for number, name in enumerate(found.names[:_SHOWN]):
        spread = [f"{edge:.2%}" for edge in (own[:, number].min(), own[:, number].max())]
        table.add_row(
            str(number),
            f"{counts[number]:,}",
            f"{counts[number] / max(counts.sum(), 1):.2%}",
            *spread,
            escape(printable(name)),
        )
    if len(found.names) > _SHOWN:
        table.caption = f"{len(found.names) - _SHOWN} smaller ones are in the files"
    return table


if __name__ == "__main__":
    sys.exit(main())
