"""Command line: `python -m portable.models.resampling experiment`, the paper's study on this machine,
`figures` of studies, and `calibrate`."""

from __future__ import annotations

import importlib.util
import pathlib
import sys
from collections.abc import Sequence

import portable as pk
from portable.errors import InputError, printable

from ..shared import command
from ..shared.cluster import add_cluster
from .calibration import METHODS, calibrate
from .exactness import likelihoods, smoothers
from .figures import draw
from .study import ROW, Design, decisions, load, merge, save, study


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    return command.run("resampling", _parser(), argv)


def _parser():
    made, commands = command.parser("resampling", "Resampling measured on this machine, and samplers tested.")
    for add in (_add_experiment, _add_figures, _add_calibrate):
        add(commands)
    return made


def _add_checkpoint(one, default):
    kept = f"keeps what was found: the same command goes on from there (default: {default})"
    command.add(one, study, checkpoint={"help": kept})


def _add_experiment(commands):
    one = commands.add_parser(
        "experiment", help="bias, error and time of every scheme; figures, and a table for method='auto'"
    )
    one.add_argument(
        "--space", metavar="NAMES", help="execution spaces, as in threads,cuda (default: all but serial)"
    )
    one.add_argument(
        "--largest", type=int, default=22, metavar="P", help="up to N = 2^P (default: %(default)s)"
    )
    one.add_argument(
        "--runs", type=int, default=16, metavar="K", help="replicates of a cell (default: %(default)s)"
    )
    one.add_argument(
        "--out",
        default="resampling-study",
        metavar="FOLDER",
        help="default: %(default)s; what its study.json holds is not computed again",
    )
    _add_checkpoint(one, "checkpoint in --out")
    add_cluster(one)
    one.add_argument(
        "--quick", action="store_true", help="N = 2^4 to 2^8, three values of y: shows that everything runs"
    )
    one.set_defaults(act=experiment)


def _add_figures(commands):
    one = commands.add_parser(
        "figures", help="Figures 2 to 6 of studies, of one machine or of several, and their table in one"
    )
    one.add_argument(
        "studies",
        nargs="+",
        metavar="STUDY",
        help="a study.json that experiment wrote; of cells in several, the last counts",
    )
    one.add_argument(
        "--out", required=True, metavar="FOLDER", help="for figures and study.json, which is overwritten"
    )
    one.set_defaults(act=figures)


def _add_calibrate(commands):
    one = commands.add_parser(
        "calibrate", help="ranks of true parameters among draws of samplers of parameters"
    )
    one.add_argument(
        "--method",
        action="append",
        choices=METHODS,
        help="the sampler; may be repeated (default: all)",
    )
    command.add(one, calibrate, "n_sets", "seed", "space", "jobs")
    command.progress(one)
    add_cluster(one)
    one.add_argument(
        "--quick",
        action="store_true",
        help="twenty data sets, nineteen draws each, few steps: shows that everything runs",
    )
    one.set_defaults(act=calibrated)


def calibrated(options):
    """Exit code 1 where a z is beyond its bound or a p-value of ranks below 0.001: by chance once in some ten
    runs.

    The bounds: 24 likelihoods within 3 standard errors (beyond 3 by chance once in 15 runs), 60 smoothed
    means within 4 (once in 260), fifteen p-values above 0.001 (once in 67), two evidences within 3 standard
    errors (once in 180).
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
    options.n_sets = 20 if options.quick else options.n_sets
    print("samplers: chi-square tests of the ranks of true parameters among draws")
    for method in options.method or METHODS:
        found = calibrate(method, **command.given(options, calibrate), **sizes)
        print(f"  {found}; {options.n_sets} data sets, {found.n_kept} draws each", flush=True)
        failed |= min(found.p_values.values()) < 0.001 or abs(found.evidence_z) >= 3
    command.write_json(options, failed=bool(failed))
    print("failed" if failed else "all within their bounds")
    return int(failed)


def experiment(options):
    if not 4 <= options.largest <= 30 or options.runs < 1:
        raise InputError(
            f"--largest is {options.largest} and --runs {options.runs}; 4 to 30 and at least 1 are wanted"
        )
    spaces = options.space and options.space.split(",")
    spaces = spaces or [s for s in ("threads", "cuda") if pk.unavailable_because(s) is None]
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
            f"figures want matplotlib, here or elsewhere: python -m"
            f" portable.models.resampling figures {printable(table)}"
        )


def figures(options):
    _show(merge([load(path) for path in options.studies]), options.out)


def _show(cells, folder):
    save(cells, folder)
    draw(cells, folder)
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
