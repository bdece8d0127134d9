"""DirichletMixture: the estimator, with scikit-learn's conventions."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import numpy.typing as npt

import portable as pk
from portable.errors import InputError, ShapeError

from ..shared.annotations import ArrayOrView, ClientLike, LargeLike, PathLike, Real, Spaces, Whole
from ..shared.checks import check_count, check_flag, check_kind, check_seed
from ..shared.cluster import connected
from ..shared.mapped import Streamed, opened
from ..shared.progress import bar
from ..shared.sharding import here
from ..shared.store import Store
from . import covariance, gibbs, missing, online
from .checks import (
    check_covariances,
    check_sample_weight,
    check_table,
    check_variances,
    check_weights,
    feature_names,
)
from .fitted import Fitted
from .fitting import Fit, Given
from .kept import Log
from .moves import Move
from .posterior import Posterior
from .prior import Prior
from .rows import Rows, on_host
from .search_kernels import BLOCK
from .spread import spread_of


_KEYS = "tol", "reg_covar", "init_params", "random_state"  # arguments that a checkpoint depends on


class DirichletMixture(Fitted):
    """Gaussian mixture, fitted by EM or sampled from; of n_samples * n_components numbers an eighth is stored
    at a time, or as many as fill 64 MB.

    Parameters
    ----------
    n_components : int, default 1
        Number of components; with a prior at most so many, of which those without use die out.
    prior : Prior or None, default "default"
        "default" is Prior(); None is plain maximum likelihood.
    covariance : {"full", "tied", "diag", "spherical"}, default "full"
        A prior is that of full matrices, restricted to those of this kind; a tied one has it once.
    max_iter : int, default 1000
    tol : float, default 1e-6
        EM ends when the objective per point grows by less, and no move raises it; a negative one asks for
        `max_iter` iterations, no less.
    reg_covar : float, default 1e-6
        Added to the diagonal of each covariance; maximum likelihood only.
    n_init : int, default 1
        Starts. They are compared after EM and moves among at most 20,000 points (more for many components);
        the one of the largest objective goes on with all points.
    init_params : {"k-means++", "random"}, default "k-means++"
        How points are chosen as first means. The first covariances are the data's variances on the diagonal.
    means_init, covariances_init, weights_init : array-like, optional
        Starts of the shapes of `means_`, `covariances_` and `weights_` instead. EM begins at given means with
        all points, however many there are.
    moves : bool, optional
        Whether to merge, split and delete components where that raises the objective. By default with a
        prior; without one (by moves that merge two components and split a third) only if asked for: plain EM
        is step for step that of other libraries.
    missing : bool, default False
        Whether X may hold NaN, in `fit` and all that follows: what is missing is integrated out, by EM over
        the patterns in which it is missing, from a fit to the complete points on (to points filled with
        means where fewer than half are complete). Without `sample_weight`, `checkpoint` and `client`.
    warm_start : bool, default False
        Whether `fit` begins, with all points, with the components of the `fit` before.
    random_state : int, Generator or None
    space : str, Space or a list of them, optional
        Where to compute; the default space if not given. Spaces of a list, such as several GPUs, work side by
        side.

    Attributes
    ----------
    weights_, means_ : ndarrays, shapes (k,), (k, n_features)
    covariances_, precisions_ : ndarrays, shape (k, n_features, n_features), (n_features, n_features), (k,
    n_features) or (k,)
        For "full", "tied", "diag", "spherical".
    precisions_cholesky_ : ndarray, of the same shape
        Upper triangular, as in scikit-learn, or reciprocal standard deviations.
    objective_history_ : ndarray, shape (`n_iter_` + 1,)
        Equation (8), or the log-likelihood, after 0, 1, ... iterations with all points; never falls, but for
        the effect of reg_covar and rounding. A move, with the iterations after which it was judged, is one
        entry.
    moves_ : list of Move
        Which entries of `objective_history_` they are, and what was done.
    lower_bound_ : float
        The last objective over the number of points (the sum of their weights).
    n_active_ : int
        Components with more than n_features + 1 points: as many as it takes for a covariance of their own.
    starts_ : tuple of Start
        With n_init > 1 what became of each start: its objective, its n_active, and how far its labels agree
        with those of the best.
    prior_ : Prior or None
        With every number given.
    n_iter_, n_features_in_ : int
    converged_ : bool
    feature_names_in_ : ndarray of str
        Only after a fit to a data frame.

    Raises
    ------
    ShapeError, DTypeError, FiniteError, InputError
        From `fit`, before anything is computed; without a prior also InputError where a component has
        collapsed.

    Warns
    -----
    ConvergenceWarning
        From `fit`: it ended before EM had converged.

    Notes
    -----
    Points in float32 are computed in float32 and added up in float64. A `numpy.memmap`, a Zarr
    or dask array, or Parquet files (by their name, or as a `pyarrow.dataset.Dataset`) are read once an
    iteration and may be larger than memory.

    References
    ----------
    Suchard et al. (2010); equations (1) to (8) of `portable.models.mixture`. Moves: N. Ueda, R. Nakano, Z.
    Ghahramani, G. E. Hinton: SMEM algorithm for mixture models. Neural Computation 12 (2000), 2109.

    Examples
    --------
    >>> from portable.models import mixture
    >>> X = np.random.default_rng(1).normal(size=(200, 1)) + np.repeat([[0.0], [9.0]], 100, axis=0)
    >>> model = mixture.DirichletMixture(5, random_state=0, space="serial").fit(X)
    >>> model.n_active_, np.sort(model.means_[model.weights_ > 0.01, 0]).round(1).tolist()
    (2, [-0.1, 8.9])
    """

    def __init__(
        self,
        n_components: Whole = 1,
        *,
        prior: Prior | Literal["default"] | None = "default",
        covariance: Literal["full", "tied", "diag", "spherical"] = "full",
        max_iter: Whole = 1000,
        tol: Real = 1e-6,
        reg_covar: Real = 1e-6,
        n_init: Whole = 1,
        init_params: Literal["k-means++", "random"] = "k-means++",
        means_init: npt.ArrayLike | None = None,
        covariances_init: npt.ArrayLike | None = None,
        weights_init: npt.ArrayLike | None = None,
        moves: bool | None = None,
        missing: bool = False,
        warm_start: bool = False,
        random_state: Whole | np.random.Generator | None = None,
        space: Spaces | None = None,
    ) -> None:
        self.n_components, self.prior, self.covariance, self.n_init = n_components, prior, covariance, n_init
        self.max_iter, self.tol, self.reg_covar, self.init_params = max_iter, tol, reg_covar, init_params
        self.means_init, self.covariances_init, self.weights_init = means_init, covariances_init, weights_init
        self.moves, self.missing, self.warm_start = moves, missing, warm_start
        self.random_state, self.space = random_state, space

    def fit(
        self,
        X: LargeLike | pk.View,
        y: object = None,
        sample_weight: npt.ArrayLike | None = None,
        *,
        checkpoint: PathLike | None = None,
        progress: bool = False,
        client: ClientLike = None,
    ) -> DirichletMixture:
        """Fit by EM.

        Parameters
        ----------
        X : array-like or View, shape (n_samples, n_features)
        y : ignored
        sample_weight : array-like, shape (n_samples,), optional
            How often each point counts; not negative.
        checkpoint : path, optional
            A folder that keeps what EM has come to every few seconds. The same fit goes on from there to the
            same mixture; one with more `max_iter` or `n_init` goes further. It wants a whole number as
            `random_state`.
        progress : bool
            Show on standard error how many iterations of EM were made, those of starts and trials among them,
            and the objective per point.
        client : distributed.Client or "local", optional
            Whose workers share the points. What is computed of sums over points is computed here. The mixture
            is the same for any number of workers.

        Returns
        -------
        DirichletMixture
            Itself.

        Raises
        ------
        ClusterError
            A worker of another version or without the space; a scheduler that is gone.
        ShapeError, DTypeError, FiniteError
            X is no table of finite numbers with two points or more.
        InputError
            An option out of its range, a constant column, a covariance that stopped being positive definite
            (maximum likelihood).
        """
        X = opened(X, "X")
        names, streamed = feature_names(X), isinstance(X, (np.memmap, Streamed))
        random = self._check_parameters()
        X = check_table(X)
        if self.missing:
            if sample_weight is not None or checkpoint is not None or client is not None:
                raise InputError("missing=True goes without sample_weight, checkpoint and client")
            clone = type(self)(**self.get_params() | {"missing": False})
            missing.fit(self, X, clone)
            return self._named(names)
        weights = check_sample_weight(sample_weight, len(X))
        rows = Rows(X, here(client, self.space), BLOCK)
        self._centre, variances = spread_of(rows, weights)
        prior, first = self._first(X, variances)
        moves = prior is not None if self.moves is None else self.moves
        if checkpoint is not None and not isinstance(self.random_state, (int, np.integer)):
            raise InputError(
                f"random_state is {self.random_state!r}; with a checkpoint a whole number is wanted, so that"
                " the same starts are made again"
            )
        settings = {"X": X if checkpoint is None else on_host(X), "sample_weight": weights, "moves": moves}
        settings |= {"prior": prior and vars(prior), "first": vars(first), "kind": self.covariance}
        settings |= {name: getattr(self, name) for name in _KEYS}
        store = Store(checkpoint, "mixture.fit", settings)
        with bar(progress) as shown, store, connected(client) as client:
            task = shown.add_task("EM", total=None)

            def step(climb):
                value = climb.history[-1] / climb.points.total
                shown.update(task, advance=1, description=f"EM, objective {value:.8g}")

            log = Log(store, step if progress else None)
            found = Fit(self, rows, weights, variances, prior, first, moves, random, streamed, log, client)
            shown.update(task, total=shown.tasks[0].completed)
        for name in ("prior", "converged", "moves", "starts", "n_active"):
            setattr(self, f"{name}_", getattr(found, name))
        self.n_features_in_ = X.shape[1]
        self._ended(found.climb)
        return self._named(names)

    def partial_fit(
        self, X: LargeLike | pk.View, y: object = None, sample_weight: npt.ArrayLike | None = None
    ) -> DirichletMixture:
        """Return one step of online EM with some points; the first call fits to its points, which should
        be a fair sample.

        Sums over points are means over all calls, of which later ones count more: step t has the share (t +
        2)^-0.6 (Cappé and Moulines 2009). `lower_bound_` is the mean log-density of the call's points before
        the step.

        Parameters
        ----------
        X : array-like or View, shape (n_samples, n_features)
        y : ignored
        sample_weight : array-like, shape (n_samples,), optional

        Returns
        -------
        DirichletMixture
            Itself.

        Raises
        ------
        ShapeError, DTypeError, FiniteError, InputError
            As `fit`; points of another number of features than those before.
        """
        if not hasattr(self, "means_"):
            return self.fit(X, y, sample_weight)
        self._check_parameters()
        X = self._check(X)
        points = self._over(X, streamed=True, weights=check_sample_weight(sample_weight, len(X)))
        self.lower_bound_, self._online, found = online.step(
            points, self.covariance, self._fitted(), self.prior_, self.reg_covar, self._online
        )
        self.weights_, self.means_, self.covariances_, self.precisions_cholesky_ = found
        self.n_iter_ += 1
        return self

    def fit_predict(self, X: LargeLike | pk.View, y: object = None) -> ArrayOrView:
        """`fit`, then `predict`.

        Parameters
        ----------
        X : array-like or View, shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        ndarray of int, shape (n_samples,)
            A View, as `predict` gives.

        Raises
        ------
        ShapeError, DTypeError, FiniteError, InputError
            As `fit`.
        """
        return self.fit(X).predict(X)

    @classmethod
    def _part(cls, held):
        of_cells = held["class"] == "mixture.cytometry.Populations"
        return super()._part(dict(held["fields"])["model"] if of_cells else held)

    @classmethod
    def _earlier(cls, header, arrays):
        """Read arrays by their attributes' names, with arguments and numbers in the header."""
        if header["format"] != "models.mixture":
            return None
        starts = {name: array for name, array in arrays.items() if name.endswith("_init")}
        fitted = {name: v for name, v in arrays.items() if name.endswith("_") or name == "_centre"}
        fitted |= header["numbers"] | {"prior_": _earlier_prior(header, arrays, "prior_"), "starts_": ()}
        fitted["moves_"] = [Move(entry, kind, tuple(own), gain) for entry, kind, own, gain in header["moves"]]
        sums = tuple(arrays[f"online_{name}"] for name in ("n", "xbar", "scatter"))
        fitted["_online"] = sums, *header["online"]
        if header["feature_names"] is not None:
            fitted["feature_names_in_"] = header["feature_names"]
        arguments = header["arguments"] | starts | {"prior": _earlier_prior(header, arrays, "prior")}
        return cls._of({"parameters": arguments, "fitted": fitted})

    def sample_posterior(
        self,
        X: LargeLike | pk.View,
        n_draws: Whole = 1000,
        *,
        n_warmup: Whole = 100,
        n_thin: Whole = 1,
        seed: Whole = 0,
        n_moves: Whole = 1,
        checkpoint: PathLike | None = None,
        progress: bool = False,
        client: ClientLike = None,
    ) -> Posterior:
        """Return draws from the posterior by blocked Gibbs sampling, from the fitted mode on.

        Parameters
        ----------
        X : array-like or View, shape (n_samples, n_features)
        n_draws, n_warmup, n_thin : int
            Draws kept; sweeps before the first of them; sweeps for each.
        seed : int, 0 to 2^64 - 1
        n_moves : int, default 1
            Proposals in each sweep that split a component or merge two.
        checkpoint : path, optional
            A folder that keeps draws every few seconds. The same call goes on from there to the same draws,
            one for more draws adds to them.
        progress : bool
            Show a bar of sweeps on standard error.
        client : distributed.Client or "local", optional
            Whose workers share the points. Labels come back from them, a byte or two each; proposals that
            split and merge are made here. Draws are the same for any number of workers.

        Returns
        -------
        Posterior
            Components carry the names of the mode's, or with burn-in those of the largest likelihood there,
            which are named after the mode's: each time those that share most points (Hungarian matching).

        Raises
        ------
        InputError
            Without a prior; a checkpoint of another run, or in use.
        StorageError
            The checkpoint cannot be written; what was kept before stays.
        ClusterError
            A worker of another version or without the space; a scheduler that is gone.
        KeyboardInterrupt
            After Ctrl-C; its attribute `posterior` has the draws until then, if there are any.

        Warns
        -----
        MixingWarning
            The draws have not converged; `Posterior.notes` says so too.
        """
        self._check_fitted()
        if self.prior is None:
            raise InputError("sample_posterior needs a prior; this DirichletMixture has prior=None")
        n_draws = check_count(n_draws, "n_draws", 1)
        n_warmup, n_thin = check_count(n_warmup, "n_warmup", 0), check_count(n_thin, "n_thin", 1)
        X = opened(X, "X")
        streamed = isinstance(X, (np.memmap, Streamed))
        X = self._check(X)
        if check_count(n_moves, "n_moves", 0) and len(X) < 2:
            raise ShapeError(
                f"X has shape {X.shape}; split and merge proposals want two points or more, or n_moves=0"
            )
        start, seed = self._fitted(), check_seed(seed)
        sweeps = {"n_warmup": n_warmup, "n_thin": n_thin, "seed": seed, "n_moves": n_moves}
        settings = vars(self.prior_) | vars(start) | sweeps | {"X": X if checkpoint is None else on_host(X)}
        settings |= {"centre": self._centre, "covariance": self.covariance}
        with bar(progress) as shown, connected(client) as client:
            points = self._over(X, streamed=streamed, client=client)
            points.check()
            with Store(checkpoint, "mixture.sample_posterior", settings) as store:
                task = shown.add_task("sweeps", total=n_warmup + n_draws * n_thin)
                sweeps |= {"store": store, "step": lambda done: shown.update(task, completed=done)}
                return gibbs.sample(points, self.covariance, self.prior_, start, n_draws, **sweeps)

    def _check_parameters(self):
        """Check the parameters that need no data; returns the generator of starts."""
        random = self._check_common()
        prior = self._full_prior()
        if prior is not None:
            check_kind(prior, "prior", Prior, "be mixture.Prior, or None for maximum likelihood")
        check_flag(self.warm_start, "warm_start")
        check_flag(self.missing, "missing")
        if self.moves is not None:
            check_flag(self.moves, "moves")
        return random

    def _first(self, X, variances):
        """Return the prior, its scale not yet given, and what of a start is known."""
        k, kind, prior = self.n_components, self.covariance, self._full_prior()
        n, p = X.shape
        if prior is None and n < k:
            raise ShapeError(
                f"X has shape {X.shape}: with {k} components at least {k} points are wanted, or a prior"
            )
        if prior is not None:
            prior.for_data(self._centre, variances)  # checked before anything is computed
        if self.warm_start and hasattr(self, "means_"):
            if self.means_.shape != (k, p) or self.covariances_.shape != covariance.shape(kind, k, p):
                raise ShapeError(
                    f"warm_start: the fit before had means_ of shape {self.means_.shape}; {(k, p)} and"
                    f" covariance={kind!r} are asked for now"
                )
            if prior is not None and prior.scale is None and self.prior_ is not None:
                prior = replace(prior, scale=self.prior_.scale, mean_scale=self.prior_.mean_scale)
            return prior, Given(self.weights_, self.means_, self.covariances_, True)
        weights, first = np.full(k, 1.0 / k), covariance.alike(kind, k, variances)
        if self.weights_init is not None:
            weights = check_weights(self.weights_init, k, "weights_init")
        if self.covariances_init is not None:
            check = check_variances if covariance.is_diagonal(kind) else check_covariances
            first = check(self.covariances_init, first.shape, "covariances_init")
        return prior, Given(weights, self._first_means(k, p), first, self.covariances_init is not None)

    def _full_prior(self):
        return Prior() if isinstance(self.prior, str) and self.prior == "default" else self.prior


def _earlier_prior(header, arrays, name):
    numbers = header[name]
    if not isinstance(numbers, dict):
        return numbers
    return Prior(**numbers, **{part: arrays.get(f"{name}.{part}") for part in ("mean", "scale")})
