"""Command line: `python -m portable.models.resampling experiment`, the paper's study on this machine,
`figures` of studies, and `calibrate`."""

from __future__ import annotations

import importlib.util
import pathlib
import sys
from collections.abc import Sequence

import portable as pk
from portable.errors import InputError, printable

from ..shared import add_cluster, command
from . import calibration
from .calibration import METHODS, likelihoods, smoothers
from .figures import draw
from .study import ROW, Design, decisions, load, merge, save, study


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    return command.run("resampling", _parser(), argv)


def _parser():
    made, commands = command.parser("resampling", "Resampling measured on this machine, and samplers tested.")
    kept = {"help": "stores finished parts; the same command resumes them (default: checkpoint in --out)"}
    methods = {"action": "append", "choices": METHODS, "metavar": None}
    one = _command(commands, experiment, "largest", "runs", "out", "quick", checkpoint=kept, space=_SPACES)
    add_cluster(one)
    one = _command(commands, figures, "out")
    one.add_argument("studies", nargs="+", metavar="STUDY", help="a study.json that experiment wrote")
    one = _command(commands, calibrate, "n_sets", "seed", "space", "jobs", "quick", method=methods)
    command.progress(one)
    add_cluster(one)
    return made


_SPACES = {"metavar": "NAMES", "help": "execution spaces, as in threads,cuda (default: all but serial)"}


def _command(commands, act, *names, **changes):
    """Add a command that calls a function, with options of its parameters."""
    one = commands.add_parser(act.__name__, help=act.__doc__.partition(".")[0])
    command.add(one, act, *names, **changes)
    one.set_defaults(act=lambda options: act(**command.arguments_of(options, act)))
    return one


def calibrate(
    *,
    method: Sequence[str] | None = None,
    n_sets: int = 200,
    seed: int = 0,
    space: str | None = None,
    jobs: int = 1,
    progress: bool = False,
    client: object = None,
    quick: bool = False,
) -> int:
    """Test samplers by the ranks of true parameters among their draws, and filters by Kalman's.

    Parameters
    ----------
    method : sequence of str, optional
        The sampler; may be repeated (default: all).
    n_sets : int
        Simulated data sets.
    seed, space, progress, client
        Handed on to `calibration.calibrate`.
    jobs : int
        Processes that share the data sets out, each on one core unless a space is named.
    quick : bool
        Twenty data sets, nineteen draws each, few steps: shows that everything runs.

    Returns
    -------
    int
        Exit code 1 where a z is beyond its bound or a p-value of ranks below 0.001: by chance once in some
        ten runs. The bounds: 24 likelihoods within 3 standard errors (beyond 3 by chance once in 15 runs), 60
        smoothed means within 4 (once in 260), fifteen p-values above 0.001 (once in 67), two evidences within
        3 standard errors (once in 180).
    """
    failed = _closed_forms(quick, seed, space)
    sizes = {"n_kept": 19, "n_steps": 60, "long_enough": 0.0} if quick else {}
    how = {"n_sets": 20 if quick else n_sets, "seed": seed, "space": space, "jobs": jobs}
    print("samplers: chi-square tests of the ranks of true parameters among draws")
    for one in method or METHODS:
        found = calibration.calibrate(one, **how, **sizes, progress=progress, client=client)
        print(f"  {found}; {how['n_sets']} data sets, {found.n_kept} draws each", flush=True)
        failed |= min(found.p_values.values()) < 0.001 or abs(found.evidence_z) >= 3
    print("failed" if failed else "all within their bounds")
    return int(failed)


def _closed_forms(quick, seed, space):
    """Print the differences of filters and smoothers from closed forms; return True if one is too large."""
    failed = False
    print("filters against Kalman's: mean of p(y) / p_Kalman(y), less 1, in standard errors")
    for name, missing, runs, z in likelihoods(1000 if quick else 32_000, seed, space):
        print(
            f"  {name:24}{', a quarter missing' if missing else '':20} {runs:6,d} runs  z = {z:5.2f}",
            flush=True,
        )
        failed |= abs(z) >= 3
    print("smoothers against Rauch, Tung and Striebel's: largest distance of 20 means, in standard errors")
    for name, z in smoothers(*((20, 500) if quick else (100, 2000)), seed, space):
        print(f"  {name:24} |z| = {z:5.2f}", flush=True)
        failed |= z >= 4
    return failed


def experiment(
    *,
    space: str | None = None,
    largest: int = 22,
    runs: int = 16,
    out: str = "resampling-study",
    checkpoint: str | None = None,
    client: object = None,
    quick: bool = False,
) -> None:
    """Measure bias, error and time of every scheme, for figures and a table for method='auto'.

    Parameters
    ----------
    space : str, optional
    largest : int
        Up to N = 2^LARGEST.
    runs : int
        Replicates of a cell.
    out : str
        Folder; what its study.json holds is not computed again.
    checkpoint, client
        Handed on to `study`.
    quick : bool
        N = 2^4 to 2^8, three values of y: shows that everything runs.

    Raises
    ------
    InputError
        `largest` or `runs` is out of range.
    """
    if not 4 <= largest <= 30 or runs < 1:
        raise InputError(f"--largest is {largest} and --runs {runs}; expected 4 to 30 and at least 1")
    spaces = space and space.split(",")
    spaces = spaces or [s for s in ("threads", "cuda") if pk.unavailable_because(s) is None]
    sizes = [1 << p for p in range(4, (8 if quick else largest) + 1, 2)]
    ys = [0.0, 2.0, 4.0] if quick else [0.5 * k for k in range(9)]
    print("scheme       where         N    y     MSE/N bias/MSE    seconds")
    folder = pathlib.Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    table = folder / "study.json"
    known = load(table) if table.exists() else []
    try:
        for cell in study(
            spaces, sizes, ys, Design(runs), known, checkpoint or folder / "checkpoint", client=client
        ):
            print(ROW.format(**cell), flush=True)
            if cell not in known:
                known.append(cell)
    finally:
        if known:
            save(known, folder)
    if importlib.util.find_spec("matplotlib"):
        _show(known, out)
    else:
        _print_cells(known)
        print(
            "figures need matplotlib, here or elsewhere: python -m"
            f" portable.models.resampling figures {printable(table)}"
        )


def figures(*, studies: Sequence[str], out: str) -> None:
    """Draw Figures 2 to 6 of studies, of one machine or of several, and write their table in one.

    Parameters
    ----------
    studies : sequence of str
        Files study.json that experiment wrote; of cells in several, the last counts.
    out : str
        Folder for figures and study.json, which is overwritten.
    """
    _show(merge([load(path) for path in studies]), out)


def _show(cells, folder):
    save(cells, folder)
    draw(cells, folder)
    _print_cells(cells)


def _print_cells(cells):
    for kind, best in decisions(cells).items():
        names = sorted(set(best.values()))
        print(
            f"fastest, {kind}: "
            + "; ".join(f"{name} in {list(best.values()).count(name)} of {len(best)} cells" for name in names)
        )


if __name__ == "__main__":
    sys.exit(main())
