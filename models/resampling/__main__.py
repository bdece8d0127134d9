"""Command line: `python -m portable.models.resampling maximise` and `profile`, maximum likelihood by iterated
filtering; `experiment`, the paper's study on this machine, `figures` of studies, and `calibrate`."""

from __future__ import annotations

import importlib.util
import pathlib
import pkgutil
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

import portable as pk

from ..shared import (
    InputError,
    add_cluster,
    check_choice,
    check_count,
    command,
    numbers,
    printable,
    priors,
    read_csv,
)
from . import calibration, iterated
from .calibration import METHODS, likelihoods, smoothers
from .figures import draw
from .sampling import Filtering
from .study import ROW, Design, decisions, load, merge, save, study


def _parser():
    made, commands = command.parser("resampling", "Resampling measured on this machine, and samplers tested.")
    kept = {"help": "stores finished parts; the same command resumes them (default: checkpoint in --out)"}
    methods = {"action": "append", "choices": METHODS, "metavar": None}
    floats = {"type": float}
    one = _command(commands, maximise, "data", "model", "params", "profile", "n_particles", values=floats)
    command.add(one, iterated.search, "n_chains", "n_iterations", "sd", "cooling", "initial", "n_repeats")
    command.add(one, Filtering, "guided", "seed", "checkpoint", "space")
    all_of = maximise, iterated.search, Filtering
    one.set_defaults(
        act=lambda options: command.write_json(
            options, found=maximise(**command.arguments_of(options, *all_of))
        )
    )
    two = _command(commands, experiment, "largest", "runs", "out", "quick", checkpoint=kept, space=_SPACES)
    last = _command(commands, figures, "out")
    last.add_argument("studies", nargs="+", metavar="STUDY", help="a study.json that experiment wrote")
    three = _command(commands, calibrate, "n_sets", "seed", "space", "jobs", "quick", method=methods)
    for longer in (one, two, three):
        add_cluster(longer)
    for longer in (one, three):
        command.progress(longer)
    return made


_SPACES = {"metavar": "NAMES", "help": "execution spaces, as in threads,cuda (default: all but serial)"}


def _command(commands, act, *names, **changes):
    """Add a command that calls a function, with options of its parameters."""
    one = commands.add_parser(act.__name__, help=act.__doc__.partition(".")[0])
    command.add(one, act, *names, **changes)
    one.set_defaults(act=lambda options: act(**command.arguments_of(options, act)))
    return one


def maximise(
    *,
    data: str,
    model: str,
    params: Sequence[str] = (),
    profile: str = "",
    values: Sequence[float] = (),
    n_particles: int = 1000,
    **options: Any,
) -> Any:
    """Maximise the likelihood of a state-space model's parameters by iterated filtering.

    Parameters
    ----------
    data : str
        CSV file of observations: a row for each step, NA where one is missing.
    model : str
        Model as MODULE:NAME, such as portable.models.resampling.ready:linear_gaussian.
    params : sequence of str
        Parameters: NAME=PRIOR:NUMBERS if searched, as in sigma=half_normal:1, or NAME=NUMBER if fixed.
    profile : str
        Parameter of a profile likelihood at --values, with its standard error, instead of the maximum.
    values : sequence of float
        Values of that parameter, at least 4.
    n_particles : int
        Particles of each filter.
    **options
        As in `portable.models.resampling.maximise`.

    Returns
    -------
    Maximum or Profile

    Raises
    ------
    InputError, DTypeError
        A file or an option is wrong.
    """
    fixed, known = {}, {}
    try:
        chosen = pkgutil.resolve_name(model)
        for text in params:
            name, form = text.split("=")
            prior, _, given = form.rpartition(":")
            make, kept = float, fixed
            if prior:
                check_choice(prior, f"the prior of {name}", priors.FORMS)
                make, kept = getattr(priors, prior), known
            kept[name] = make(*map(float, given.split(",")))
        chosen.need("maximise", "log_weight")
    except (AttributeError, ImportError, TypeError, ValueError) as error:
        raise InputError(f"--model {model}, --params {params}: {error}") from error
    y = np.stack([numbers(own, name, data) for name, own in read_csv(data).items()], axis=1)
    run, along = (iterated.profile, (profile, values)) if profile else (iterated.maximise, ())
    found = run(chosen, y, n_particles, *along, priors=known, fixed=fixed, **options)
    for name, value in vars(found).items():
        print(name, value)
    return found


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
    check_count(largest, "--largest", 4, 30)
    check_count(runs, "--runs")
    usual = [s for s in ("threads", "cuda") if pk.unavailable_because(s) is None]
    spaces = space.split(",") if space else usual
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


main = command.main_of("resampling", _parser)


if __name__ == "__main__":
    sys.exit(main())
