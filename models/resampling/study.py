"""The study of Murray, Lee and Jacob on this machine: bias, error and time of the schemes over N and y.

Weights are w_i = N(x_i; y, 1), x_i ~ N(0, 1), in several sets. Of K offspring vectors o of a set, with
e = N w / sum w:

    MSE / N        mean of |o - e|^2 / N                                              (Figure 4)
    bias share     |mean o - e|^2 / MSE: 1 / K for an unbiased scheme                 (Figure 2)
    seconds        of a call that returns permuted ancestors, median                  (Figure 5)
    decision       the fastest scheme at each N and y                                 (Figure 6)

Both errors are means over the sets. Sets that fit into memory together are rows of one call, and each call of
each cell (scheme, N, y) has a separate seed, so that cells are independent; `excess` removes the 1 / K from
the bias share. `Design` gives the numbers of sets and vectors.

`resample` uses a scheme by its name, or the one that a study found fastest.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import pathlib
import statistics
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

import portable as pk

from ..shared import (
    Array,
    ArrayOrView,
    Frozen,
    InputError,
    NOWHERE,
    PathLike,
    SpaceLike,
    Store,
    check_choice,
    read_json,
    write,
)
from ..shared.processes import map_numbers
from . import schemes
from .weights import metropolis_steps

SCHEMES = (
    "multinomial",
    "stratified",
    "systematic",
    "residual",
    "ssp",
    "killing",
    "metropolis",
    "megopolis",
    "rejection",
)
CHAINS = "metropolis", "megopolis"
MOST_AT_ONCE = 1 << 20  # particles of replicates that are held at once
_MOST_WEIGHTS = 1 << 26  # weights that are kept for the next scheme
FEWEST = 4  # smallest number of vectors of a set
ERRORS = "sets", "runs", "mse", "bias_share"
_REPEATS = 5  # largest number of timed calls
_STEPS_A_PARTICLE = 8.0  # steps of a chain, or proposals, that cost as much as a particle elsewhere
_LONG = 1 << 26  # product of particles and steps above which a cell's sets are stored one by one
_BOUND = 1.0  # upper bound of the weights: exp(0)
_KINDS = dict(scheme=str, kind=str, n=int, y=Real, runs=int, mse=Real, bias_share=Real, seconds=Real)
ROW = "{scheme:12} {kind:5} {n:9,d} {y:4.1f} {mse:9.4f} {bias_share:9.2e} {seconds:10.3e}"


class Design(Frozen):
    """Size of a study.

    Attributes
    ----------
    n_runs : int
        K, the number of offspring vectors of a set.
    n_sets : int
        Weight sets of a cell.
    most : int
        Intended cost of a cell in particles, over all its vectors; 8 steps of a chain count as one. If the
        cost would be larger there are fewer vectors, then fewer sets, but at least one set of four vectors.
    limit : float
        Cells with a larger cost even so are omitted.
    dtype : {"float64", "float32"}
        Type of the weights.
    long_enough : float
        Total seconds of timed calls after which there is no further call.
    """

    n_runs: int = 16
    n_sets: int = 1
    most: int = 1 << 24
    limit: float = math.inf
    dtype: str = "float64"
    long_enough: float = 1.0

    def share(self, n: int, steps: float) -> tuple[int, int]:
        """Choose (sets, vectors of each) for cells of n particles with this number of steps; (0, 0) if the
        cell is omitted."""
        cost = n * max(1.0, steps / _STEPS_A_PARTICLE)
        runs = min(self.n_runs, max(FEWEST, int(self.most / (cost * self.n_sets))))
        sets = min(self.n_sets, max(1, int(self.most / (cost * runs))))
        return (sets, runs) if cost * runs * sets <= self.limit else (0, 0)


def study(
    spaces: Sequence[str],
    sizes: Sequence[int],
    ys: Sequence[float],
    design: Design,
    known: Sequence[dict] = (),
    checkpoint: object = None,
    names: Sequence[str] = SCHEMES,
    client: object = None,
    peers: Mapping[str, Callable] | None = None,
) -> Iterator[dict]:
    """Compute and yield the cells of the study, one after another.

    Parameters
    ----------
    spaces : list of str
    sizes : list of int
    ys : list of float
    design : Design
    known : list of dict
        Cells that need not be computed. Cells of another kind of machine still provide errors, as draws are
        the same everywhere.
    checkpoint : path, optional
        A folder that stores each finished cell, and each set of a long one: the same study resumes from
        there, and a study with more cells adds to it.
    names : list of str
        Schemes of SCHEMES, `peers`, or "metropolis / C" for B = B* / C.
    client : distributed.Client or "local", optional
        Its workers compute the errors of this package's schemes, each cell on a separate core. Seconds are
        measured on the local machine.
    peers : dict of callables (weights, seed, step, space) -> offspring, optional
        Other schemes by name, which are not timed.

    Yields
    ------
    dict: scheme, kind ("cpu" or "cuda"), n, y, sets, runs, mse, bias_share, seconds (None for peers)
    """
    settings = {"n_runs": design.n_runs, "n_sets": design.n_sets, "most": design.most, "dtype": design.dtype}
    with Store(checkpoint, "resampling.study", settings) as store:
        known = [*known, *(json.loads(str(part["cell"])) for part in store.parts("cell-"))]
        done = {_place(cell): cell for cell in known}
        errors = {
            _cell_settings(cell): {name: cell[name] for name in ERRORS if name in cell} for cell in known
        }
        if client is not None:
            places = itertools.product(filter(_is_ours, names), sizes, ys)
            cells = [{"scheme": name, "kind": "any", "n": n, "y": y} for name, n, y in places]
            cells = [cell for cell in cells if _cell_settings(cell) not in errors]
            found = map_numbers(
                functools.partial(_errors_elsewhere, cells, design), len(cells), client=client, space="serial"
            )
            errors |= {_cell_settings(cell): error for cell, error in zip(cells, found) if error is not None}
        for space in spaces:
            for n in sizes:
                for y in ys:
                    weights = _weights(n, y, design)
                    steps = metropolis_steps(weights(0), space=space)
                    for name in names:
                        cell = {"scheme": name, "kind": kind_of(space), "n": n, "y": y}
                        if _place(cell) not in done:
                            done[_place(cell)] = found = _measured(
                                cell, errors, design, weights, steps, space, store, peers
                            )
                            if found:
                                store.put(_name("cell", cell), cell=np.array(json.dumps(found)))
                        if done[_place(cell)]:
                            yield done[_place(cell)]


def weight_set(n: int, y: float, number: int, dtype: str = "float64") -> Array:
    """Draw weights of equation (12), at most 1; the same normal numbers for every y."""
    x = np.random.default_rng((n, number) if number else n).normal(size=n)
    return np.exp(-0.5 * (x - y) ** 2).astype(dtype)


def _weights(n, y, design):
    """Make a function that returns the cell's weight sets by their number."""
    kept = functools.lru_cache(max(1, _MOST_WEIGHTS // n))
    return kept(lambda number: weight_set(n, y, number, design.dtype))


def excess(cell: dict) -> float:
    """Compute the bias share less the 1 / K of unbiased offspring: |bias|^2 / MSE, in expectation."""
    k = cell["runs"]
    return (k * cell["bias_share"] - 1.0) / (k - 1)


def _place(cell):
    return cell["scheme"], cell["kind"], cell["n"], cell["y"]


def _cell_settings(cell):
    """Return the settings that determine a cell's errors: for this package's schemes not the machine."""
    return cell["scheme"], cell["n"], cell["y"], "any" if _is_ours(cell["scheme"]) else cell["kind"]


def _is_ours(name):
    return name.partition(" / ")[0] in SCHEMES


def _name(what, cell):
    scheme = "".join(c if c.isalnum() else "_" for c in cell["scheme"])
    return "{}-{kind}-{n:010d}-{y}-{}".format(what, scheme, **cell)


def _measured(cell, errors, design, weights, steps, space, store, peers):
    draw, steps, own = _drawing(cell["scheme"], steps, space, peers)
    sets, runs = design.share(cell["n"], steps)
    if not sets:
        return None
    if _cell_settings(cell) not in errors:
        errors[_cell_settings(cell)] = _errors_of(cell, draw, weights, sets, runs, steps, store)
    seconds = _seconds(own, weights(0), space, design) if own else None
    return cell | errors[_cell_settings(cell)] | {"seconds": seconds}


def _errors_of(cell, draw, weights, sets, runs, steps, store):
    """Compute the errors named by ERRORS, means over the sets; the store keeps the calls of a long cell."""
    found, long = [], cell["n"] * steps * runs * sets > _LONG
    together = max(1, MOST_AT_ONCE // (cell["n"] * runs))
    for first in range(0, sets, together):
        name = f"{_name('sets', cell)}-{first:03d}"
        part = store.get(name) if long else None
        if part is None:
            w = np.stack([weights(number) for number in range(first, min(first + together, sets))])
            part = {"errors": _errors(draw, w, runs, _seed(cell, first))}
            if long:
                store.put(name, **part)
        found.append(part["errors"])
    return dict(zip(ERRORS, (sets, runs, *np.concatenate(found).mean(axis=0).tolist())))


def _errors_elsewhere(cells, design, k):
    """Compute, on a worker, the errors of a cell, which do not depend on the machine; None if the design
    omits it."""
    cell = cells[k]
    weights = _weights(cell["n"], cell["y"], design)
    draw, steps, _ = _drawing(cell["scheme"], metropolis_steps(weights(0), space="serial"), "serial")
    sets, runs = design.share(cell["n"], steps)
    return _errors_of(cell, draw, weights, sets, runs, steps, NOWHERE) if sets else None


def _drawing(name, steps, space, peers=None):
    """Return (a function that draws offspring of rows of weights, its steps a particle, a function to be
    timed or None)."""
    if not _is_ours(name):
        return lambda w, seed, step: peers[name](w, seed, step, space), 1.0, None
    name, _, divisor = name.partition(" / ")
    more = {"rejection": {"max_weight": _BOUND}}.get(name, {})
    if name in CHAINS:
        steps = math.ceil(steps / int(divisor or 1))
        more = {"n_steps": steps} if divisor else {}
    elif name == "rejection":  # without the factor |log(0.01)| of B*
        steps = max(1.0, steps / 4.6)
    else:
        steps = 1.0
    scheme = getattr(schemes, name)

    def offspring(w, seed, step):
        return scheme(w, seed=seed, step=step, output="offspring", space=space, **more)

    def timed(w, step):
        return scheme(w, seed=2, step=step, permuted=True, space=space, **more)

    return offspring, steps, timed


def _seed(cell, number):
    """Compute a seed for the call of a cell that begins with set `number`."""
    words = zlib.crc32(cell["scheme"].encode()), cell["n"], round(2 * cell["y"]), number
    return int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0])


def kind_of(space: object) -> str:
    """Return the kind of machine of a study's cell, "cpu" or "cuda"."""
    return "cuda" if str(space).startswith("cuda") else "cpu"


def _errors(draw: Callable, w: Array, n_runs: int, seed: int) -> Array:
    """Compute (MSE / N, bias share) of each set, shape (sets, 2), of weights of shape (sets, n)."""
    sets, n = w.shape
    at_once = max(1, min(n_runs, MOST_AT_ONCE // w.size))
    e, total, squares, done = n * w / w.sum(axis=1, dtype=np.float64, keepdims=True), 0.0, 0.0, 0
    for step in range(-(-n_runs // at_once)):
        rows = min(at_once, n_runs - done)
        o = draw(np.repeat(w, rows, axis=0), seed, step).reshape(sets, rows, n)
        total, squares, done = total + o.sum(axis=1), squares + _squares(o - e[:, None]), done + rows
    mse, bias = squares / n_runs, _squares(total / n_runs - e)
    return np.stack([mse / n, np.divide(bias, mse, out=np.zeros(sets), where=mse > 0.0)], axis=1)


def _squares(x):
    x = x.reshape(len(x), -1)
    return np.einsum("ij,ij->i", x, x)


def _seconds(call, w, space, design):
    view = pk.copy_of(w, space)
    call(view, 0)
    times = []
    for step in range(_REPEATS):
        if sum(times) > design.long_enough:
            break
        start = time.perf_counter()
        call(view, step)
        pk.fence(space)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def decisions(cells: Sequence[dict]) -> dict:
    """Find the fastest scheme: {"cpu" | "cuda" | "both": {(n, y): scheme}}; "both" names the machine, too."""
    found = {}
    cells = [cell for cell in cells if cell["scheme"] in SCHEMES]
    for kind in sorted({cell["kind"] for cell in cells}) + ["both"]:
        best = {}
        for cell in cells:
            at = cell["n"], cell["y"]
            if kind in (cell["kind"], "both") and (at not in best or cell["seconds"] < best[at]["seconds"]):
                best[at] = cell
        found[kind] = {
            at: cell["scheme"] + (f", {cell['kind']}" if kind == "both" else "") for at, cell in best.items()
        }
    return found


def merge(studies: Sequence[Sequence[dict]]) -> list[dict]:
    """Join the cells of several studies; of equal cells the last one is kept."""
    return list({_place(cell): cell for cells in studies for cell in cells}.values())


def save(cells: Sequence[dict], folder: object) -> pathlib.Path:
    """Write study.json; return its path."""
    path = pathlib.Path(folder) / "study.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, json.dumps({"schema": "resampling-study", "cells": list(cells)}, indent=1) + "\n")
    return path


def load(path: object) -> list[dict]:
    """Load the cells of a study.json."""
    found = read_json(path)
    try:
        for cell in found["cells"]:
            if not all(isinstance(cell[name], kind) for name, kind in _KINDS.items()):
                raise TypeError(f"a cell is {cell}")
        return found["cells"]
    except (KeyError, TypeError) as error:
        raise InputError(
            f"'{path}' is no study that `python -m portable.models.resampling experiment` wrote: {error}"
        ) from error


def resample(
    weights: schemes.Rows = None,
    *,
    method: str = "auto",
    decisions: PathLike | None = None,
    log_weights: schemes.Rows = None,
    space: SpaceLike = None,
    **options: Any,
) -> ArrayOrView:
    """Draw ancestors by a scheme of a given name, or by the fastest one for such weights.

    Parameters
    ----------
    method : str, default "auto"
        A scheme's name, or "auto": the scheme that a study on this machine found fastest for the number of
        particles and the evenness of the weights; without a study, systematic. docs/measured.md has the
        gains.
    decisions : str or path, optional
        The study.json that `python -m portable.models.resampling experiment` wrote.
    weights, log_weights, space, **options : as in the schemes

    Returns
    -------
    ndarray of int64, or a View, as from the schemes

    Raises
    ------
    InputError
        `method` is not listed; `decisions` is not a study, or is of another machine; the scheme refuses an
        argument.

    Examples
    --------
    >>> from portable.models import resampling
    >>> resampling.resample([0.1, 0.2, 0.7], method="systematic", seed=1, space="serial").tolist()
    [1, 2, 2]
    """
    check_choice(method, "method", ("auto", *SCHEMES))
    if method == "auto":
        method = "systematic" if decisions is None else _fastest(decisions, weights, log_weights, space)
    return getattr(schemes, method)(weights, log_weights=log_weights, space=space, **options)


def _fastest(path, weights, log_weights, space):
    """Return the scheme of the study's nearest cell: by N on a logarithmic scale, then by the Metropolis
    steps of y."""
    table = _table(str(path))
    kind = kind_of(pk.default_space() if space is None else space)
    if kind not in table:
        raise InputError(
            f"decisions: the study in '{path}' has no cells for {kind}; run the experiment with --space"
        )
    given = weights if log_weights is None else log_weights
    n = (given if isinstance(given, pk.View) else np.asarray(given)).shape[-1]
    steps = metropolis_steps(weights, log_weights=log_weights, space=space)
    return min(
        table[kind].items(),
        key=lambda item: (abs(math.log(item[0][0] / n)), abs(math.log(_steps_at(item[0][1]) / steps))),
    )[1]


def _steps_at(y):
    """Compute B* of the paper's weights, whose mean is exp(-y^2 / 4) / sqrt(2) of their largest."""
    return math.log(0.01) / math.log1p(-math.exp(-y * y / 4) / math.sqrt(2.0))


@functools.lru_cache(maxsize=8)
def _table(path):
    return decisions(load(path))
