"""Banks of filters of many parameters, divided among places; a row is one filter, a shard some rows.

A row's random numbers are indexed by the row's number, and no result of a row depends on other rows, so that
results are the same for any distribution of rows. A place runs its consecutive rows concurrently. Rows too
long for one team (`ParticleFilter.takes_rows`) index their draws within a launch for all of them: these are
not divided.
"""

import copy
import functools
from typing import Any, NamedTuple

import numpy as np

import portable as pk

from ..shared import FiniteError, InputError, Shards, tracked
from . import nan_source, row_kernels
from .filtered import Filtered, collect, joined
from .filter_run import Run, increments, log_likelihoods
from .summaries import Summaries

_MOST = 256  # largest number of shards of a bank


class Problem(NamedTuple):
    """Filters of n particles of a model, its data, priors if there are any, and the places to run filters in:
    those of a client or of spaces; the default space, if neither is given. For samplers also the number of
    chains or populations, the seed and the model."""

    filters: Any
    data: Any
    priors: Any
    n: int
    client: Any = None
    space: Any = None
    n_chains: int = 1
    seed: int = 0
    model: Any = None


class Rows(NamedTuple):
    """Rows from `begin` to `end`."""

    begin: int
    end: int

    @property
    def nbytes(self):
        return 16


def rows_of(n_rows, together=False):
    """Cut rows into shards.

    Parameters
    ----------
    n_rows : int
    together : bool
        Make one shard of all rows.

    Returns
    -------
    list of Rows
    """
    size = n_rows if together else -(-n_rows // _MOST)
    return [Rows(begin, min(begin + size, n_rows)) for begin in range(0, n_rows, size)]


def split(pieces, array):
    """Split an array of consecutive rows into those of each shard.

    Parameters
    ----------
    pieces : list of Rows
    array : ndarray
        Its last axis is that of rows.

    Returns
    -------
    iterator of ndarray
    """
    first = pieces[0].begin
    return (array[..., piece.begin - first : piece.end - first] for piece in pieces)


def by_rows(method):
    """Make a method for shards that are rows, from one of `Rows` and further arguments, which runs on the
    space of its object and returns an array whose last axis is that of rows."""

    @functools.wraps(method)
    def split_rows(self, pieces, *args):
        own = list(pieces)
        with pk.use(self.space):
            return split(own, method(self, Rows(own[0].begin, own[-1].end), *args))

    return split_rows


class Bank:
    """A method for `sharding.Shards`, whose shards are rows: runs of a filter.

    Parameters
    ----------
    model : ParticleFilter
    n : int
        Particles of a row.
    data : Data
        Its parameters are those of all rows, or of one; calls pass others.
    space : str or Space
    """

    def __init__(self, model, n, data, space):
        with pk.use(space) as self.space:
            self._model, self._n, self._data = moved(model, self.space), n, data
        self._rows, self._run, self._stands = Rows(0, 0), None, None

    def _begun(self, rows, params, keys):
        """Prepare a run of rows of parameters, before its first step."""
        params, keys = (np.ascontiguousarray(array[slice(*rows)]) for array in (params, keys))
        if self._run is None or self._rows != rows:
            self._rows, data = rows, of_rows(self._data, params)
            self._run = Run(self._model, data, self._n, keys, first=rows.begin)
        else:
            pk.deep_copy(self._run.params, params.astype(self._model.dtype))
            self._run.take_keys(keys)
            self._run.reset()
        self._stands = None
        return self._run

    @by_rows
    def log_likelihoods(self, rows, params, keys, n_steps=None):
        """Estimate log-likelihoods of rows of parameters, shape (n_rows, n_params), with random numbers from
        keys, shape (n_rows, n_blocks), and the first n_steps observations; NaN for rows that died of NaN."""
        run = self._begun(rows, params, keys)
        return log_likelihoods(run, self._data.n_steps if n_steps is None else n_steps)

    @by_rows
    def increments(self, rows, params, keys, number, begin, end):
        """Compute the contributions of steps begin .. end - 1 to the estimates, shape (end - begin, n_rows).

        Rows of the same parameters and keys have the same number: a place that has run them up to `begin`
        continues from there, another one runs them from step 0 on.
        """
        goes_on = self._stands == (number, rows, begin)
        run = self._run if goes_on else self._begun(rows, params, keys)
        found = increments(run, begin if goes_on else 0, begin, end)
        self._stands = number, rows, end
        return found

    @by_rows
    def wandered(self, rows, params, keys, swarm, free):
        """Move parameters of particles through all steps, from an array of shape (n_free, n, n_rows); return
        them followed by the particles' log-weights and estimates of the likelihood. `free` is as in `Run`."""
        data = of_rows(self._data, np.ascontiguousarray(params[slice(*rows)]))
        run = Run(self._model, data, self._n, keys[slice(*rows)], first=rows.begin, free=free)
        x = np.zeros(run.x.shape[1:])
        x[data.n_dims :] = swarm[..., slice(*rows)].swapaxes(1, 2)
        pk.deep_copy(run.x[run.x.shape[0] - 1], x.astype(self._model.dtype))
        total = log_likelihoods(run, data.n_steps)
        moved = run.x[(data.n_steps - 1) % run.x.shape[0]].to_numpy()[data.n_dims :]
        logs = run.log_w[0].to_numpy()
        return np.stack([*moved, logs, np.broadcast_to(total[:, None], logs.shape)]).swapaxes(1, 2)

    def filtered(self, pieces, asked):
        """Run `ParticleFilter.run` for all rows of this place; the first shard gets the results, the others
        None."""
        own = list(pieces)
        first, last = own[0].begin, own[-1].end
        with pk.use(self.space):
            data = of_rows(self._data, self._data.params[first:last])
            found = filtered(self._model, data, self._n, asked, first=first)
        return iter([found] + [None] * (len(own) - 1))


class Asked(NamedTuple):
    """Checked arguments of `ParticleFilter.run`; `moments` returns `n_moments` numbers."""

    seed: int
    keep: bool
    means: bool
    variances: bool
    levels: np.ndarray
    moments: object
    n_moments: int
    on_nan: nan_source.OnNan


def filtered(model, data, n, asked, *, first=0, progress=False):
    """Run filters on the default space: `ParticleFilter.run` after its checks.

    Parameters
    ----------
    model : ParticleFilter
    data : Data
    n : int
        Particles of a row.
    asked : Asked
    first : int
        The number of the first filter in its bank.

    Returns
    -------
    Filtered

    Raises
    ------
    FiniteError
        As in `ParticleFilter.run`.
    """
    keys = np.full((len(data.params), 1), asked.seed, np.uint64)
    run = Run(model, data, n, keys, keep=asked.keep, means=asked.means, first=first)
    summaries = Summaries(run, *asked[3:7])
    pieces = [(t, t + 1) for t in range(data.n_steps)] if summaries.requested else run.pieces(data.n_steps)
    if progress:  # even a hidden bar would start a thread
        pieces = tracked(pieces, "filtering")
    for begin, end in pieces:
        run.steps(begin, end)
        if summaries.requested:
            summaries.after(begin)

    def reason(row):
        said = blamed(model, data, n, keys, row, first)
        if asked.on_nan == "raise":
            raise FiniteError(said)
        return said

    return Filtered(**collect(run, summaries, data.single, asked.means, reason))


def blamed(model, data, n, keys, row, first=0):
    """Describe the function that gave the first NaN of a row that died of NaN: `blame.sentence` of a run on
    the default space.

    Parameters
    ----------
    model : ParticleFilter
    data : Data
        That of all rows.
    n : int
        Particles of a row.
    keys : ndarray of uint64, shape (n_rows, n_blocks)
    row, first : int
        The row's number here, and that of row 0 in its bank.

    Returns
    -------
    str
    """
    number = None if data.single else first + row
    if model.takes_rows(n):  # its random numbers do not depend on other rows
        data, keys, first, row = of_rows(data, data.params[[row]]), keys[[row]], first + row, 0
    return nan_source.sentence(Run(model, data, n, keys, first=first), data, row, number)


def moved(model, space):
    """Copy a filter to another space.

    Parameters
    ----------
    model : ParticleFilter
    space : str, Space or None

    Returns
    -------
    ParticleFilter
    """
    found = copy.copy(model)
    found.space = found.spaces = space
    return found


def of_rows(data, params):
    """Return the same data with other parameters.

    Parameters
    ----------
    data : Data
    params : ndarray, shape (n_rows, n_params)

    Returns
    -------
    Data
    """
    found = copy.copy(data)
    found.params = params
    return found


def shared(problem, n_rows):
    """Make a bank of rows, divided among the places of a problem.

    Parameters
    ----------
    problem : Problem
    n_rows : int

    Returns
    -------
    Shards

    Raises
    ------
    InputError
        There are several places, but rows are too long for one team.
    """
    model, data, _, n, client, space, *_ = problem
    together = not model.takes_rows(n)
    if together and (client is not None or isinstance(space, (list, tuple))):
        raise InputError(
            f"{'space' if client is None else 'client'}: filters of method {model.method!r} with {n}"
            f" particles{' in place' * model.in_place} run in one launch; expected method 'systematic' with"
            f" at most {row_kernels.MOST} particles"
        )
    make = functools.partial(Bank, moved(model, None), n, data)
    return Shards(make, rows_of(n_rows, together), client=client, space=space, label="filters")


def run_shared(problem, asked):
    """Run filters as `ParticleFilter.run` does, in several places.

    Parameters
    ----------
    problem : Problem
    asked : Asked

    Returns
    -------
    Filtered
        Views of a run on one space become Views in this machine's memory.
    """
    shards = shared(problem, len(problem.data.params))
    return joined([part for part in shards.map("filtered", asked) if part is not None])
