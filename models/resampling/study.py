"""The study of Murray, Lee and Jacob on the machine at hand: bias, error and time of the schemes over N and y.

Weights are w_i = N(x_i; y, 1), x_i ~ N(0, 1). Of K offspring vectors o, with e = N w / sum w:
    MSE / N        mean of |o - e|^2 / N                                   (Figure 3)
    bias share     |mean o - e|^2 / MSE: 1 / K for an unbiased scheme      (Figure 2)
    seconds        of a call until a permuted ancestor vector, median      (Figures 4 and 5)
    decision       the fastest scheme at each N and y                      (Figure 6)
"""

from __future__ import annotations

import functools
import itertools
import json
import pathlib
import statistics
import time

import numpy as np

import portable as pk
from portable.errors import InputError

from ..files import read_json, write
from ..processes import map_numbers
from ..store import Store
from . import schemes

SCHEMES = ("multinomial", "stratified", "systematic", "residual", "ssp", "killing", "metropolis", "megopolis", "rejection")
MOST_AT_ONCE, MOST_IN_ALL = 1 << 20, 1 << 24  # particles of all replicates: held together, and computed
ERRORS = "runs", "mse", "bias_share"
LONG_ENOUGH = 1.0  # seconds of timed calls
_KINDS = dict(scheme=str, kind=str, n=int, y=(int, float), runs=int, mse=(int, float), bias_share=(int, float), seconds=(int, float))
ROW = "{scheme:12} {kind:5} {n:9,d} {y:4.1f} {mse:9.4f} {bias_share:9.2e} {seconds:10.3e}"


def study(spaces, sizes, ys, n_runs, known=(), checkpoint=None, client=None):
    """The cells of the study, one after another.

    Parameters
    ----------
    spaces : list of str
    sizes : list of int
    ys : list of float
    n_runs : int
        K, replicates of a cell; fewer beyond 2^24 particles in all, but at least 4.
    known : list of dict
        Cells that need no computing. Of another kind of machine they say the errors: draws are the same everywhere.
    checkpoint : path, optional
        A folder that keeps each cell as it is finished: the same study goes on from there, a larger one adds to it.
    client : distributed.Client or "local", optional
        Whose workers compute errors, each cell's on a core of its own. Seconds are this machine's, and measured here.

    Yields
    ------
    dict: scheme, kind ("cpu" or "cuda"), n, y, runs, mse, bias_share, seconds
    """
    with Store(checkpoint, "resampling.study", {"n_runs": n_runs}) as store:
        kept = (store.get(part) for part in store.names())
        known = [*known, *(json.loads(str(part["cell"])) for part in kept if part is not None)]
        done = {_place(cell): cell for cell in known}
        errors = {(cell["scheme"], cell["n"], cell["y"]): {name: cell[name] for name in ERRORS} for cell in known}
        if client is not None:
            wanted = [place for place in itertools.product(SCHEMES, sizes, ys) if place not in errors]
            found = map_numbers(functools.partial(_errors_of, wanted, n_runs), len(wanted), client=client, space="serial")
            errors |= dict(zip(wanted, found))
        for space in spaces:
            for n in sizes:
                for y in ys:
                    w = _weights(n, y)
                    for name in SCHEMES:
                        cell = {"scheme": name, "kind": kind_of(space), "n": n, "y": y}
                        if _place(cell) not in done:
                            done[_place(cell)] = cell = _measured(cell, errors, w, n_runs, space)
                            store.put("{kind}-{n:010d}-{y}-{scheme}".format(**cell), cell=np.array(json.dumps(cell)))
                        yield done[_place(cell)]


def _place(cell):
    return cell["scheme"], cell["kind"], cell["n"], cell["y"]


def _measured(cell, errors, w, n_runs, space):
    scheme, place = getattr(schemes, cell["scheme"]), (cell["scheme"], cell["n"], cell["y"])
    if place not in errors:
        errors[place] = _all_errors(scheme, w, n_runs, space)
    return cell | errors[place] | {"seconds": _seconds(scheme, w, space)}


def _weights(n, y):
    return np.exp(-0.5 * (np.random.default_rng(n).normal(size=n) - y) ** 2)


def _errors_of(places, n_runs, k):
    """On a worker: the errors of the cells at one place, which no machine changes."""
    name, n, y = places[k]
    return _all_errors(getattr(schemes, name), _weights(n, y), n_runs, "serial")


def _all_errors(scheme, w, n_runs, space):
    runs = min(n_runs, max(4, MOST_IN_ALL // len(w)))
    return dict(zip(ERRORS, (runs, *_errors(scheme, w, runs, space))))


def kind_of(space):
    """The machine that a study's cell is told of, "cpu" or "cuda"."""
    return "cuda" if str(space).startswith("cuda") else "cpu"


def _errors(scheme, w, n_runs, space):
    """(MSE / N, bias share)."""
    n, at_once = len(w), max(1, min(n_runs, MOST_AT_ONCE // len(w)))
    e, total, squares, done = n * w / w.sum(), 0.0, 0.0, 0
    for step in range(-(-n_runs // at_once)):
        rows = min(at_once, n_runs - done)
        o = scheme(np.tile(w, (rows, 1)), seed=1, step=step, output="offspring", space=space)
        total, squares, done = total + o.sum(axis=0), squares + ((o - e) ** 2).sum(), done + rows
    mse = squares / n_runs
    return float(mse / n), float(((total / n_runs - e) ** 2).sum() / mse) if mse else 0.0


def _seconds(scheme, w, space, repeats=5):
    view = pk.copy_of(w, space)
    scheme(view, seed=2, permuted=True, space=space)
    times = []
    for step in range(repeats):
        if sum(times) > LONG_ENOUGH:
            break
        start = time.perf_counter()
        scheme(view, seed=2, step=step, permuted=True, space=space)
        pk.fence(space)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def decisions(cells):
    """{"cpu" | "cuda" | "both": {(n, y): scheme}}, the fastest; "both" says which machine, too."""
    found = {}
    for kind in sorted({cell["kind"] for cell in cells}) + ["both"]:
        best = {}
        for cell in cells:
            at = cell["n"], cell["y"]
            if kind in (cell["kind"], "both") and (at not in best or cell["seconds"] < best[at]["seconds"]):
                best[at] = cell
        found[kind] = {at: cell["scheme"] + (f", {cell['kind']}" if kind == "both" else "") for at, cell in best.items()}
    return found


def merge(studies):
    """The cells of several studies; of the same cell the last one's."""
    return list({_place(cell): cell for cells in studies for cell in cells}.values())


def save(cells, folder):
    """Write study.json; returns its path."""
    path = pathlib.Path(folder) / "study.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, json.dumps({"schema": "resampling-study", "cells": cells}, indent=1) + "\n")
    return path


def load(path):
    """The cells of a study.json."""
    found = read_json(path)
    try:
        for cell in found["cells"]:
            if not all(isinstance(cell[name], kind) for name, kind in _KINDS.items()):
                raise TypeError(f"a cell is {cell}")
        return found["cells"]
    except (KeyError, TypeError) as error:
        raise InputError(f"'{path}' is no study that `python -m models.resampling experiment` wrote: {error}") from error
