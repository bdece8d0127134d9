"""The transient MAP: its matrices, its moments, the likelihood of runs, and simulated runs."""

from __future__ import annotations

import functools
import itertools
import json
import math
from typing import Any

import numpy as np

import portable as pk

from ..shared import (
    ArrayLike,
    DType,
    Floats,
    InputError,
    Ints,
    PathLike,
    ShapeError,
    Shards,
    SpaceLike,
    Spaces,
    check_count,
    check_flag,
    check_kind,
    check_number,
    check_numbers,
    check_positive,
    check_seed,
    connected,
    launch,
    nodes,
    read_json,
    reduce,
    refuse,
    write,
)
from ..shared.sharding import Held, total
from . import kernels, run_kernels
from .checks import LARGEST, SMALLEST, check_dtype, check_memory, check_orders
from .packed import (
    FADED,
    NEVER,
    check_range,
    fill_table,
    log_factorials,
    log_unit,
    new_table,
    part_of,
    parts_of,
    tiny,
    unit_of,
    whole_of,
)
from .runs import Runs

_KEPT = "alpha", "orders", "rates", "switching"  # parts of a file
_ROUNDING = 1e-9  # tolerance of sums of probabilities


class TransientMAP:
    """A transient Markovian arrival process of Erlang branches.

    Parameters
    ----------
    alpha : array-like, shape (n_branches,)
        Probability to start in each branch; sums to 1.
    orders : array-like of int, shape (n_branches,)
        Stages of each branch's gap.
    rates : array-like, shape (n_branches,), per unit of time
        Rate of each stage; a branch's mean gap is orders / rates.
    switching : array-like, shape (n_branches, n_branches)
        Probability of the next gap's branch given this one's; 1 less the sum of a row is the probability to
        end.

    Attributes
    ----------
    n_branches : int
    alpha, orders, rates, switching : ndarray
    exits : ndarray, shape (n_branches,)
        Probability that a run ends after a gap of the branch.

    Raises
    ------
    ShapeError
        The arguments disagree on n_branches.
    DTypeError
        A value is not a number, or an order is not whole.
    FiniteError
        A value is NaN or infinite.
    InputError
        Probabilities are negative or do not fit together, a rate is not positive, or runs would never end.

    Examples
    --------
    >>> from portable.models import tmap
    >>> process = tmap.TransientMAP([1.0, 0.0], [1, 2], [2.0, 0.5], [[0.5, 0.3], [0.0, 0.6]])
    >>> round(float(process.mean_arrivals()), 4), round(float(process.mean_gap()), 4)
    (3.5, 2.0)
    """

    n_branches: int
    alpha: Floats
    orders: Ints
    rates: Floats
    switching: Floats
    exits: Floats

    def __init__(
        self,
        alpha: ArrayLike,
        orders: ArrayLike,
        rates: ArrayLike,
        switching: ArrayLike,
    ) -> None:
        self.orders = check_orders(orders)
        self.n_branches = n = len(self.orders)
        given = {"alpha": (alpha, (n,)), "rates": (rates, (n,)), "switching": (switching, (n, n))}
        for name, (value, shape) in given.items():
            array = check_numbers(value, name, len(shape))
            if array.shape != shape:
                raise ShapeError(f"{name} has shape {array.shape}; expected {shape}, as there are {n} orders")
            if name != "rates":
                refuse(array < 0.0, array, name, "a probability")
            setattr(self, name, array)
        if not SMALLEST <= self.rates.min() <= self.rates.max() <= LARGEST:
            raise InputError(
                f"rates is {rates!r}; expected positive numbers from {SMALLEST:g} to {LARGEST:g}"
            )
        if abs(self.alpha.sum() - 1.0) > _ROUNDING:
            raise InputError(f"alpha sums to {self.alpha.sum()}; expected 1")
        going_on = self.switching.sum(axis=1)
        if going_on.max() > 1.0 + _ROUNDING:
            row = int(going_on.argmax())
            raise InputError(f"switching: row {row} sums to {going_on[row]}; expected at most 1")
        self.exits = np.maximum(1.0 - going_on, 0.0)
        self._check_end()

    def _check_end(self):
        """Raise an error if a run may never end."""
        ends = self.exits > 0.0
        for _ in range(self.n_branches):
            ends |= (self.switching[:, ends] > 0.0).any(axis=1)
        if not ends.all():
            raise InputError(
                f"switching: a run in branch {int(np.argmin(ends))} never ends; rows that sum to less "
                "than 1 must be reachable from every branch"
            )

    def __repr__(self):
        return f"TransientMAP({', '.join(f'{name}={getattr(self, name).tolist()}' for name in _KEPT)})"

    def matrices(self) -> tuple[Floats, ...]:
        """Compute the process as a Markov chain on stages.

        Returns
        -------
        D0 : ndarray, shape (n_stages, n_stages)
            Rates of changes without an event, n_stages = sum of orders.
        D1 : ndarray, shape (n_stages, n_stages)
            Rates of changes with an event after which the run continues.
        d : ndarray, shape (n_stages,)
            Rates of events that end the run.
        start : ndarray, shape (n_stages,)
            Probability to start in each stage.
        """
        stages = np.repeat(self.rates, self.orders)
        last = np.cumsum(self.orders) - 1
        first = last - self.orders + 1
        inner = np.ones(len(stages), bool)
        inner[last] = False
        d0 = np.diag(-stages) + np.diag(np.where(inner, stages, 0.0)[:-1], 1)
        d1, d, start = np.zeros_like(d0), np.zeros(len(stages)), np.zeros(len(stages))
        d1[np.ix_(last, first)] = self.rates[:, None] * self.switching
        d[last] = self.rates * self.exits
        start[first] = self.alpha
        return d0, d1, d, start

    @classmethod
    def from_matrices(cls, d0: ArrayLike, d1: ArrayLike, start: ArrayLike) -> TransientMAP:
        """Make a process from matrices in the form of `matrices`.

        Parameters
        ----------
        d0 : array-like, shape (n_stages, n_stages)
            Rates without an event: stages of a branch follow one another, at one rate.
        d1 : array-like, shape (n_stages, n_stages)
            Rates with an event: from a branch's last stage to the first of any. The rest of a row ends runs.
        start : array-like, shape (n_stages,)
            Probabilities to start, nonzero for first stages only.

        Returns
        -------
        TransientMAP

        Raises
        ------
        DTypeError, FiniteError, ShapeError, InputError
            The matrices are not those of Erlang branches; runs of other processes may be given to `fit`.
        """
        d0, d1 = (check_numbers(v, name, 2) for v, name in ((d0, "d0"), (d1, "d1")))
        start, n = check_numbers(start, "start", 1), len(d0)
        if not d0.shape == d1.shape == (n, n) or start.shape != (n,) or not n:
            raise ShapeError(
                f"d0, d1 and start have shapes {d0.shape}, {d1.shape} and {start.shape}; "
                "expected (n, n) twice and (n,)"
            )
        last = np.flatnonzero(np.append(d0.diagonal(1) == 0.0, True))
        orders = np.diff(last, prepend=-1)
        first, rates = last - orders + 1, -d0.diagonal()[last]
        switching = d1[np.ix_(last, first)] / np.where(rates > 0.0, rates, 1.0)[:, None]
        made = cls(start[first], orders, rates, switching)
        own_d0, own_d1, _, own_start = made.matrices()
        for name, own, given in (("d0", own_d0, d0), ("d1", own_d1, d1), ("start", own_start, start)):
            if not np.allclose(own, given, rtol=1e-9, atol=1e-12):
                raise InputError(
                    f"{name} is not that of Erlang branches: stages of a branch follow one another at one"
                    " rate, and only the last has events"
                )
        return made

    @classmethod
    def from_moments(
        cls, mean: float, variance: float, *, mean_arrivals: float, correlation: float = 0.0
    ) -> TransientMAP:
        """Make a process of two branches with given moments, for example as a start for `fit`.

        Parameters
        ----------
        mean, variance : float
            Those of gaps. If variance is above mean^2, branches are exponential with balanced means;
            otherwise they are Erlang with one rate.
        mean_arrivals : float, above 1
            Mean number of gaps in a run.
        correlation : float, at least 0
            That of consecutive gaps.

        Returns
        -------
        TransientMAP

        Raises
        ------
        DTypeError, FiniteError, InputError
            Two branches cannot have such moments; the message gives the possible range.

        References
        ----------
        Tijms: Stochastic models, an algorithmic approach (1994), appendix B.

        Examples
        --------
        >>> from portable.models import tmap
        >>> model = tmap.TransientMAP.from_moments(2.0, 9.0, mean_arrivals=5.0, correlation=0.1)
        >>> round(model.mean_gap(), 9), round(model.mean_arrivals(), 9), round(model.lag_correlation(), 9)
        (2.0, 5.0, 0.1)
        """
        mean, variance = (check_positive(v, n) for v, n in ((mean, "mean"), (variance, "variance")))
        goes_on = 1.0 - 1.0 / check_number(mean_arrivals, "mean_arrivals", above=1.0)
        square = variance / mean**2
        if square >= 1.0:
            p = 0.5 * (1.0 + math.sqrt((square - 1.0) / (square + 1.0)))
            alpha, orders = np.array([p, 1.0 - p]), np.array([1, 1])
            rates = 2.0 * alpha / mean
        else:
            k = max(math.ceil(1.0 / square), 2)
            p = (k * square - math.sqrt(max(k * (1.0 + square) - k * k * square, 0.0))) / (1.0 + square)
            alpha, orders = np.array([p, 1.0 - p]), np.array([k - 1, k])
            rates = np.full(2, (k - p) / mean)
        means = orders / rates
        most = float((alpha @ means**2 - mean**2) / variance)
        if not 0.0 <= check_number(correlation, "correlation") <= most * (1.0 - 1e-9) and correlation:
            raise InputError(
                f"correlation is {correlation:g}; expected 0 to {most:.3g} for two branches with these "
                "moments"
            )
        stays = correlation / most if correlation else 0.0
        return cls(alpha, orders, rates, goes_on * ((1.0 - stays) * alpha + stays * np.eye(2)))

    def visits(self) -> Floats:
        """Compute the expected number of a run's gaps in each branch.

        Returns
        -------
        ndarray, shape (n_branches,)
        """
        return np.linalg.solve((np.eye(self.n_branches) - self.switching).T, self.alpha)

    def mean_arrivals(self) -> float:
        """Compute the expected number of gaps in a run.

        Returns
        -------
        float
        """
        return float(self.visits().sum())

    def variance_arrivals(self) -> float:
        """Compute the variance of the number of gaps in a run.

        Returns
        -------
        float
        """
        inverse = np.linalg.inv(np.eye(self.n_branches) - self.switching)
        pairs = 2.0 * self.visits() @ self.switching @ inverse.sum(axis=1)  # E[K (K - 1)]
        mean = self.mean_arrivals()
        return float(pairs + mean - mean**2)

    def arrivals_distribution(self, n_max: int) -> Floats:
        """Compute the probabilities of 1, 2, ..., n_max gaps in a run.

        Parameters
        ----------
        n_max : int, at least 1

        Returns
        -------
        ndarray, shape (n_max,)

        Raises
        ------
        DTypeError, InputError
            `n_max` is not a whole number, or below 1.
        """
        found, a = np.empty(check_count(n_max, "n_max")), self.alpha
        for k in range(len(found)):
            found[k] = a @ self.exits
            a = a @ self.switching
        return found

    def gap_moment(self, k: int, power: int = 1) -> float:
        """Compute a moment of the k-th gap, E[x_k^power], among runs that have one.

        Parameters
        ----------
        k : int, at least 1
            Number of the gap; the first is 1.
        power : int, at least 1

        Returns
        -------
        float, in the unit of time to that power

        Raises
        ------
        DTypeError, InputError
            An argument is not a whole number, or below 1; no run has k gaps.
        """
        k, power = check_count(k, "k"), check_count(power, "power")
        a = self.alpha @ np.linalg.matrix_power(self.switching, k - 1)
        if not a.sum() > 0.0:
            raise InputError(f"k is {k}, but no run has that many gaps")
        return float(a @ self._moments(power) / a.sum())

    def mean_gap(self) -> float:
        """Compute the mean gap over all gaps of all runs.

        Returns
        -------
        float, in the unit of time
        """
        visits = self.visits()
        return float(visits @ self._moments(1) / visits.sum())

    def lag_correlation(self, lag: int = 1) -> float:
        """Compute the correlation of x_k and x_(k+lag), over all such pairs of gaps within runs.

        Parameters
        ----------
        lag : int, at least 1
            Distance of the gaps in their run.

        Returns
        -------
        float, -1 to 1

        Raises
        ------
        DTypeError, InputError
            `lag` is not a whole number, or below 1; no run has more than `lag` gaps.
        """
        lag = check_count(lag, "lag")
        joint = self.visits()[:, None] * np.linalg.matrix_power(self.switching, lag)
        if not joint.sum() > 0.0:
            raise InputError(f"lag is {lag}, but no run has that many gaps")
        joint /= joint.sum()
        mean, square = self._moments(1), self._moments(2)
        early, late = joint.sum(axis=1), joint.sum(axis=0)
        covariance = mean @ joint @ mean - (early @ mean) * (late @ mean)
        variances = (share @ square - (share @ mean) ** 2 for share in (early, late))
        return float(covariance / math.sqrt(math.prod(variances)))

    def _moments(self, power):
        """Compute E[x^power] of each branch: r (r + 1) ... (r + power - 1) / rate^power."""
        return np.prod([(self.orders + m) / self.rates for m in range(power)], axis=0)

    def joint_density(self, gaps: ArrayLike, *, ended: bool = True) -> Floats | Any:
        """Compute the density of the first gaps of a run.

        Parameters
        ----------
        gaps : array-like, shape (..., k)
            The first k gaps of a run, or of several.
        ended : bool
            True: the run has exactly these gaps. False: it may have further ones.

        Returns
        -------
        ndarray, shape (...,), or float

        Raises
        ------
        DTypeError, FiniteError, InputError
            Gaps are not numbers, or negative.
        """
        gaps = check_numbers(gaps, "gaps")
        if not gaps.ndim or not gaps.size or gaps.min() < 0.0:
            raise InputError(
                f"gaps must be at least one number, none of them negative, got {gaps.tolist()!r:.60}"
            )
        a, last = np.broadcast_to(self.alpha, (*gaps.shape[:-1], self.n_branches)), gaps.shape[-1] - 1
        for k in range(last):
            a = a * self._densities(gaps[..., k]) @ self.switching
        return (a * self._densities(gaps[..., last])) @ (
            self.exits if check_flag(ended, "ended") else np.ones(self.n_branches)
        )

    def _densities(self, x):
        """Compute f_i(x) of (1), shape (..., n_branches)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            powers = np.where(self.orders == 1, 0.0, (self.orders - 1) * np.log(x)[..., None])
        return np.exp(
            self.orders * np.log(self.rates)
            - log_factorials(self.orders)
            + powers
            - self.rates * x[..., None]
        )

    def gap_survival(self, x: ArrayLike) -> Floats | Any:
        """Compute the probability that a gap is longer than x, over all gaps of all runs.

        Parameters
        ----------
        x : array-like, in the unit of time

        Returns
        -------
        ndarray, shape of x, or float
            1 if x < 0.

        Raises
        ------
        DTypeError, FiniteError
            A value of `x` is not a number, or not finite.
        """
        y = np.maximum(check_numbers(x, "x"), 0.0)[..., None] * self.rates
        # half of the exponent here and half at the end: exp(-y) would underflow too soon
        found, term = np.zeros_like(y), np.exp(-0.5 * y)
        for m in range(self.orders.max()):
            found += np.where(m < self.orders, term, 0.0)
            term = term * y / (m + 1)
        visits = self.visits()
        return (found * np.exp(-0.5 * y)) @ visits / visits.sum()

    def log_likelihood(
        self,
        runs: Runs,
        *,
        dtype: DType = "float64",
        memory_mb: float | None = None,
        space: Spaces = None,
        client: object = None,
    ) -> float:
        """Compute the log-likelihood (4) of runs: log-densities of complete gaps and log-probabilities of
        open ones.

        Parameters
        ----------
        runs : Runs
        dtype : {"float64", "float32"}
            Dtype of the recursion; sums over runs are in float64 either way.
        memory_mb : float, optional
            MiB of the space for gaps; if they need more, they are copied there in parts, one after the other.
        space : str, Space or a list of them, optional
        client : distributed.Client or "local", optional
            Its workers divide the runs.

        Returns
        -------
        float
            Minus infinity if the process cannot generate the runs: a gap of zero without a branch of order 1.

        Raises
        ------
        DTypeError, InputError
            `runs` are not Runs; memory_mb is too small for one part.
        """
        check_type(runs)
        dtype = check_dtype(dtype)
        check_range(runs, dtype)
        parts, _ = parts_of(runs, dtype, check_memory(memory_mb), space, client)
        with connected(client) as client:
            make = functools.partial(_Likelihood, self, dtype, unit_of(runs))
            (loglik,) = Shards(make, parts, client=client, space=space, room=0.0, label="tmap").reduce(
                "log_likelihood"
            )
        return float(loglik - log_unit(runs)) if loglik > 0.1 * NEVER[dtype] else -math.inf

    def branch_probabilities(
        self,
        runs: Runs,
        *,
        space: SpaceLike = None,
    ) -> Floats:
        """Compute the probability of each gap's branch given all gaps of its run: q_i[k] of (5).

        Parameters
        ----------
        runs : Runs
        space : str or Space, optional

        Returns
        -------
        ndarray, shape (n_gaps, n_branches)
            In the order of `runs.values`.

        Raises
        ------
        DTypeError
            `runs` are not Runs.
        """
        packed, shared = self._packed_in(runs, space)
        out = pk.empty((runs.n_gaps, self.n_branches), space=packed.space)
        *flags, rows, table = shared
        own = *flags, tiny(np.float64), rows, table, *packed.views, packed.begin, out
        launch(packed.teams(), run_kernels.branch_probabilities, *own)
        return out.to_numpy()

    def rescaled(
        self,
        runs: Runs,
        *,
        seed: int = 0,
        space: SpaceLike = None,
    ) -> Floats:
        """Compute for each gap the probability of one no longer than it, given the previous gaps and that
        there is a gap.

        These are independent and uniform on (0, 1) if the runs come from the process (time rescaling; Brown
        et al., Neural Computation 14, 2002). A gap of zero gives 0; an open gap is taken at its present
        length; a rounded gap is drawn within its interval (Dunn and Smyth, Journal of Computational and
        Graphical Statistics 5, 1996).

        Parameters
        ----------
        runs : Runs
        seed : int, 0 to 2^64 - 1
            Seed of the draws within the intervals of rounded gaps.
        space : str or Space, optional

        Returns
        -------
        ndarray, shape (n_gaps,), in [0, 1]
            NaN for a gap that the process cannot generate: zero, without a branch of order 1.

        Raises
        ------
        DTypeError, InputError
            `runs` are not Runs; `seed` is not a seed.
        """
        packed, shared = self._packed_in(runs, space)
        out = pk.empty(runs.n_gaps, space=packed.space)
        *flags, faded, rows, table = shared
        launch(
            packed.teams(),
            run_kernels.rescale,
            *flags,
            np.uint64(check_seed(seed)),
            NEVER[np.float64],
            faded,
            rows,
            table,
            *packed.views,
            packed.begin,
            out,
        )
        return out.to_numpy()

    def _packed_in(self, runs, space):
        """Pack runs in a space; return them and the first arguments of every kernel."""
        packed = whole_of(check_type(runs)).packed(space, np.float64)
        return packed, self._shared(packed, np.float64)

    def _shared(self, packed, dtype):
        """Return the first arguments of every kernel, which are the same for all packs unless gaps are
        rounded."""
        exact = self.rows(packed.unit)
        rows, rounded = pk.copy_of(exact.astype(dtype), packed.space), packed.distinct is not None
        table = new_table(packed.distinct, 1, self.n_branches, dtype, packed.space)
        if rounded:
            fill_table(pk.copy_of(exact[None], packed.space), packed.distinct, table)
        return (
            *kernels.branches(self.n_branches),
            pk.static(packed.censoring),
            pk.static(rounded),
            FADED[dtype],
            rows,
            table[0],
        )

    def save(self, path: PathLike) -> None:
        """Write the process as JSON.

        Parameters
        ----------
        path : str or Path
            An existing file is replaced.

        Raises
        ------
        StorageError
            The file cannot be written; an existing one is kept.
        """
        parts = {name: getattr(self, name).tolist() for name in _KEPT}
        write(path, json.dumps(parts, indent=1) + "\n", "path")

    @classmethod
    def load(cls, path: PathLike) -> TransientMAP:
        """Load a process that `save` wrote.

        Parameters
        ----------
        path : str or Path

        Returns
        -------
        TransientMAP

        Raises
        ------
        InputError
            The file cannot be read, or contains no process.
        """
        parts = read_json(path)
        try:
            return cls(**{name: parts[name] for name in _KEPT})
        except InputError:
            raise
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"'{path}' holds no model: {type(error).__name__}: {error}") from error

    def simulate(
        self,
        n_runs: int,
        *,
        seed: int = 0,
        space: SpaceLike = None,
        max_gaps: int = 100_000_000,
    ) -> Runs:
        """Simulate runs; equal seeds give equal walks through the branches on every space.

        Parameters
        ----------
        n_runs : int
            How many.
        seed : int, 0 to 2^64 - 1, default 0
        space : str or Space, optional
        max_gaps : int
            More are refused.

        Returns
        -------
        Runs

        Raises
        ------
        DTypeError, InputError
            An argument is out of range; more than `max_gaps` gaps are expected.
        """
        n_runs, seed, max_gaps = (
            check_count(n_runs, "n_runs"),
            check_seed(seed),
            check_count(max_gaps, "max_gaps"),
        )
        space = pk.default_space() if space is None else space
        lengths = pk.empty(n_runs, np.int64, space)
        if n_runs * self.mean_arrivals() > max_gaps:
            raise InputError(
                f"n_runs is {n_runs}, of {self.mean_arrivals():.3g} gaps each; expected fewer than "
                f"max_gaps = {max_gaps}"
            )
        shared = kernels.branches(self.n_branches)[1], pk.copy_of(self.rows(), space), np.uint64(seed)
        each = pk.RangePolicy(0, n_runs, space=space)
        launch(each, run_kernels.simulate_lengths, *shared, lengths)
        counts = lengths.to_numpy()
        ends = np.cumsum(counts)
        values = pk.empty(int(ends[-1]), space=space)
        launch(
            each,
            run_kernels.simulate_gaps,
            *shared,
            pk.copy_of(ends - counts, space),
            lengths,
            values,
        )
        return Runs(values, lengths)

    def rows(self, unit: float = 1.0) -> Floats:
        """Arrange the parameters as rows for the kernels of `portable.models.tmap.kernels`.

        Parameters
        ----------
        unit : float
            Unit of the gaps, in the unit of time.

        Returns
        -------
        ndarray, shape (5 + n_branches, n_branches)
            alpha, constants of the branches' log-densities, rates, orders less 1, exits, and the rows of
            switching.
        """
        rows = np.empty((kernels.SWITCHING + self.n_branches, self.n_branches))
        rows[kernels.ALPHA], rows[kernels.EXIT] = self.alpha, self.exits
        rows[kernels.SWITCHING :] = self.switching
        rows[kernels.RATE] = rates = self.rates * unit
        rows[kernels.CONSTANT] = self.orders * np.log(rates) - log_factorials(self.orders)
        rows[kernels.POWER] = self.orders - 1.0
        return rows


class _Likelihood:
    """A method for `sharding.Shards`: the likelihood of runs in a space."""

    def __init__(self, model, dtype, unit, space):
        self._model, self._dtype, self._unit, self._space = model, dtype, unit, space
        self._shared = None

    def prepare(self, piece):
        part = part_of(piece)
        packed = part.packed(self._space, self._dtype, self._unit)
        if self._shared is None or packed.distinct is not None:
            self._shared = self._model._shared(packed, self._dtype)
        return packed.shares(part.cuts, part.n_shards), self._shared

    def log_likelihood(self, pieces):
        for laid, shared in pieces:
            dealt, *packs = laid.views
            ends = itertools.pairwise(map(int, laid.columns))
            found = [(self._of_teams(shared, dealt[:, a:b], packs),) for a, b in ends]
            yield total(nodes(found, 0, len(found)))

    def _of_teams(self, shared, dealt, packs):
        found = pk.empty((), space=self._space)
        policy = pk.TeamPolicy(dealt.shape[1], kernels.PACK, space=self._space)
        reduce(policy, kernels.log_likelihood, *shared, dealt, *packs, out=found)
        return Held(found)


def check_model(model):
    return check_kind(model, "model", TransientMAP, "be tmap.TransientMAP")


def check_type(runs):
    return check_kind(runs, "runs", Runs, "be tmap.Runs")
