"""Command line: `python -m models.resampling experiment`, the paper's study on this machine, `figures` of studies, and `calibrate`."""

from __future__ import annotations

import argparse
import importlib.util
import pathlib
import sys

import portable as pk
from portable.errors import PortableError, printable

from .. import page
from ..cluster import add_cluster, asked_for
from .calibration import calibrate
from .exactness import likelihoods, smoothers
from .figures import draw
from .paper import Paper
from .study import ROW, Design, decisions, load, merge, save, study


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m models.resampling")
    parser.add_argument("--version", action="version", version=f"portable {pk.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    made = commands.add_parser(
        "experiment", help="bias, error and time of every scheme; figures, and a table for method='auto'"
    )
    made.add_argument(
        "--space",
        action="append",
        metavar="NAME",
        help="where to run; may be repeated (default: all but serial)",
    )
    made.add_argument(
        "--largest", type=int, default=22, metavar="P", help="up to N = 2^P (default: %(default)s)"
    )
    made.add_argument(
        "--runs", type=int, default=16, metavar="K", help="replicates of a cell (default: %(default)s)"
    )
    made.add_argument(
        "--out",
        default="resampling-study",
        metavar="FOLDER",
        help="default: %(default)s; what its study.json holds is not computed again",
    )
    made.add_argument(
        "--checkpoint",
        metavar="FOLDER",
        help="keeps finished cells: the same command goes on from there (default: checkpoint in --out)",
    )
    add_cluster(made)
    made.add_argument(
        "--quick", action="store_true", help="N = 2^4 to 2^8, three values of y: shows that everything runs"
    )
    made.set_defaults(run=experiment)
    drawn = commands.add_parser(
        "figures", help="Figures 2 to 6 of studies, of one machine or of several, and their table in one"
    )
    drawn.add_argument(
        "studies",
        nargs="+",
        metavar="STUDY",
        help="a study.json that experiment wrote; of cells in several, the last counts",
    )
    drawn.add_argument(
        "--out", required=True, metavar="FOLDER", help="for figures and study.json, which is overwritten"
    )
    drawn.set_defaults(run=figures)
    ranked = commands.add_parser(
        "calibrate", help="ranks of true parameters among draws of PMMH and of particle Gibbs"
    )
    ranked.add_argument(
        "--sampler",
        action="append",
        choices=("pmmh", "correlated", "gibbs"),
        help="may be repeated (default: all)",
    )
    ranked.add_argument(
        "--sets", type=int, default=200, metavar="K", help="simulated data sets (default: %(default)s)"
    )
    ranked.add_argument("--seed", type=int, default=0)
    ranked.add_argument("--space", metavar="NAME")
    ranked.add_argument(
        "--jobs",
        type=int,
        default=1,
        metavar="N",
        help="processes that share the data sets out, each on one core unless --space is given "
        "(default: %(default)s)",
    )
    add_cluster(ranked)
    ranked.add_argument(
        "--quick",
        action="store_true",
        help="twenty data sets, nineteen draws each, few steps: shows that everything runs",
    )
    ranked.set_defaults(run=calibrated)
    printed = commands.add_parser(
        "paper", help="Figures 2 to 6 of Murray, Lee and Jacob in single precision, as a page"
    )
    page.add_options(printed, Paper, "resampling-paper.html", add_data=False)
    printed.add_argument(
        "--cost",
        type=int,
        metavar="P",
        help="sets and vectors so that a cell costs 2^P particles (24: about an hour of two cores)",
    )
    printed.add_argument(
        "--checkpoint",
        metavar="FOLDER",
        help="keeps finished weight sets: the same command goes on from there (default: OUT.checkpoint)",
    )
    printed.add_argument(
        "--beside",
        action="append",
        default=[],
        metavar="STUDY",
        help="a study.json of another machine, for Figure 6 of both; may be repeated",
    )
    printed.set_defaults(run=paper)
    options = parser.parse_args(argv)
    if options.run is experiment and (not 4 <= options.largest <= 30 or options.runs < 1):
        parser.error(
            f"--largest is {options.largest} and --runs {options.runs}; 4 to 30 and at least 1 are wanted"
        )
    try:
        with asked_for(options):
            return options.run(options) or 0
    except (PortableError, OSError, ImportError) as error:
        print(f"resampling: {printable(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def calibrated(options):
    """Exit code 1 where a z is beyond its bound or a p-value of ranks below 0.001: by chance once in some ten runs.

    The bounds: 24 likelihoods within 3 standard errors (beyond 3 by chance once in 15 runs), 60 smoothed means within 4 (once in
    260), nine p-values above 0.001 (once in 110).
    """
    failed = False
    print("filters against Kalman's: mean of p(y) / p_Kalman(y), less 1, in standard errors")
    for name, missing, runs, z in likelihoods(1000 if options.quick else 32_000, options.seed, options.space):
        print(
            f"  {name:24}{', a quarter missing' if missing else '':20} {runs:6,d} runs  z = {z:5.2f}",
            flush=True,
        )
        failed |= abs(z) >= 3
    print("smoothers against Rauch, Tung and Striebel's: largest distance of 20 means, in standard errors")
    for name, z in smoothers(*((20, 500) if options.quick else (100, 2000)), options.seed, options.space):
        print(f"  {name:24} |z| = {z:5.2f}", flush=True)
        failed |= z >= 4
    sizes = {"n_kept": 19, "n_steps": 60, "long_enough": 0.0} if options.quick else {}
    sets = 20 if options.quick else options.sets
    print("samplers: chi-square tests of the ranks of true parameters among draws")
    for sampler in options.sampler or ("pmmh", "correlated", "gibbs"):
        found = calibrate(
            sampler,
            n_sets=sets,
            seed=options.seed,
            space=options.space,
            jobs=options.jobs,
            progress=True,
            client=options.client,
            **sizes,
        )
        print(f"  {found}; {sets} data sets, {found.n_kept} draws each", flush=True)
        failed |= min(found.p_values.values()) < 0.001
    print("failed" if failed else "all within their bounds")
    return int(failed)


def paper(options):
    checkpoint = options.checkpoint or f"{options.out}.checkpoint"
    page.run(Paper, options, cost=options.cost, checkpoint=checkpoint, beside=options.beside)


def experiment(options):
    spaces = options.space or [s for s in ("threads", "cuda") if pk.unavailable_because(s) is None]
    sizes = [1 << p for p in range(4, (8 if options.quick else options.largest) + 1, 2)]
    ys = [0.0, 2.0, 4.0] if options.quick else [0.5 * k for k in range(9)]
    print("scheme       where         N    y     MSE/N bias/MSE    seconds")
    folder = pathlib.Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    table = folder / "study.json"
    known = load(table) if table.exists() else []
    try:
        for cell in study(
            spaces,
            sizes,
            ys,
            Design(options.runs),
            known,
            options.checkpoint or folder / "checkpoint",
            client=options.client,
        ):
            print(ROW.format(**cell), flush=True)
            if cell not in known:
                known.append(cell)
    finally:
        if known:
            save(known, folder)
    if importlib.util.find_spec("matplotlib"):
        _show(known, options.out)
    else:
        _say(known)
        print(
            f"wrote {printable(table)}; figures want matplotlib, here or elsewhere: python -m models.resampling figures "
            f"{printable(table)}"
        )


def figures(options):
    _show(merge([load(path) for path in options.studies]), options.out)


def _show(cells, folder):
    for path in [save(cells, folder), *draw(cells, folder)]:
        print(f"wrote {printable(path)}")
    _say(cells)


def _say(cells):
    for kind, best in decisions(cells).items():
        names = sorted(set(best.values()))
        print(
            f"fastest, {kind}: "
            + "; ".join(f"{name} in {list(best.values()).count(name)} of {len(best)} cells" for name in names)
        )


if __name__ == "__main__":
    sys.exit(main())
