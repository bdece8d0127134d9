"""DirichletMixture: an estimator with scikit-learn's conventions."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Literal

import numpy as np

from ..shared import (
    ArrayLike,
    ArrayOrView,
    ClientLike,
    InputError,
    LargeLike,
    PathLike,
    Real,
    ShapeError,
    Spaces,
    Store,
    Streamed,
    Whole,
    bar,
    check_count,
    check_flag,
    check_kind,
    check_seed,
    connected,
    opened,
)
from . import covariance, gibbs, missing, online
from .checks import (
    check_covariances,
    check_sample_weight,
    check_table,
    check_variances,
    check_weights,
    feature_names,
)
from .covariance import Covariance
from .fitted import Fitted
from .fitting import Fit, Given
from .em_store import Log
from .moves import Move
from .posterior import Posterior
from .prior import Prior
from .rows import on_host
from .starts import Init


_KEYS = "tol", "reg_covar", "init_params", "random_state"  # arguments that a checkpoint depends on


@dataclass(eq=False, repr=False)
class DirichletMixture(Fitted):
    """Gaussian mixture, fitted by EM or by sampling from the posterior. At most an eighth of the n_samples *
    n_components probabilities, or 64 MB of them, are stored at a time.

    Parameters
    ----------
    n_components : int, default 1
        Number of components; with a prior their largest number, of which superfluous ones lose their points.
    prior : Prior or None, default "default"
        "default" is Prior(); None is plain maximum likelihood.
    covariance : {"full", "tied", "diag", "spherical"}, default "full"
        The prior of such covariances is that of full matrices, restricted to this kind; a tied covariance has
        it only once.
    max_iter : int, default 1000
    tol : float, default 1e-6
        EM ends when the objective per point grows by less, and no move raises it; if `tol` is negative, EM
        does not end before `max_iter` iterations.
    reg_covar : float, default 1e-6
        Added to the diagonal of each covariance; maximum likelihood only.
    n_init : int, default 1
        Starts. They are compared after EM and moves among at most 20,000 points (more for many components);
        the one of the largest objective continues with all points.
    init_params : {"k-means++", "random"}, default "k-means++"
        Method by which points are chosen as first means. The first covariances are the data's variances on
        the diagonal.
    means_init, covariances_init, weights_init : array-like, optional
        Initial values instead, of the shapes of `means_`, `covariances_` and `weights_`. EM begins at given
        means with all points, even if there are many.
    moves : bool, optional
        Whether to merge, split and delete components if that raises the objective. The default is True with a
        prior and False without one, since plain EM agrees with that of other libraries step for step; without
        a prior each move merges two components and splits a third.
    missing : bool, default False
        Whether X may contain NaN, in `fit` and later calls. Missing coordinates are integrated out by EM over
        their patterns. It starts from a fit to the complete points, or, if fewer than half are complete, to
        points with missing coordinates replaced by means. Not with `sample_weight`, `checkpoint` or `client`.
    warm_start : bool, default False
        Whether `fit` begins with the components of the previous `fit`, and with all points.
    random_state : int, Generator or None
    space : str, Space or a list of them, optional
        Where to compute; the default space if not given. The spaces of a list, such as several GPUs, compute
        in parallel.

    Attributes
    ----------
    weights_, means_ : ndarrays, shapes (k,), (k, n_features)
    covariances_, precisions_ : ndarrays, shape (k, n_features, n_features), (n_features, n_features), (k,
    n_features) or (k,)
        For "full", "tied", "diag", "spherical".
    precisions_cholesky_ : ndarray, of the same shape
        Upper triangular, as in scikit-learn, or reciprocal standard deviations.
    objective_history_ : ndarray, shape (`n_iter_` + 1,)
        Equation (8), or the log-likelihood, after 0, 1, ... iterations with all points; it never decreases
        except by the effect of reg_covar and rounding. A move together with its trial iterations is one
        entry.
    moves_ : list of Move
        The moves made, with their entries of `objective_history_`.
    lower_bound_ : float
        The last objective over the number of points (the sum of their weights).
    n_active_ : int
        Components with more than n_features + 1 points, the number that a full covariance requires.
    starts_ : tuple of Start
        With n_init > 1 the result of each start: its objective, its n_active, and the agreement of its labels
        with those of the best.
    prior_ : Prior or None
        The prior used, with a value for every parameter.
    n_iter_, n_features_in_ : int
    converged_ : bool
    feature_names_in_ : ndarray of str
        Only after a fit to a data frame.

    Raises
    ------
    ShapeError, DTypeError, FiniteError, InputError
        From `fit`, before anything is computed; without a prior also InputError if a component has collapsed.

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

    n_components: Whole = 1
    _: KW_ONLY
    prior: Prior | Literal["default"] | None = "default"
    covariance: Covariance = "full"
    max_iter: Whole = 1000
    tol: Real = 1e-6
    reg_covar: Real = 1e-6
    n_init: Whole = 1
    init_params: Init = "k-means++"
    means_init: ArrayLike | None = None
    covariances_init: ArrayLike | None = None
    weights_init: ArrayLike | None = None
    moves: bool | None = None
    missing: bool = False
    warm_start: bool = False
    random_state: Whole | np.random.Generator | None = None
    space: Spaces = None

    def fit(
        self,
        X: LargeLike,
        y: object = None,
        sample_weight: ArrayLike | None = None,
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
            Multiplicity of each point; not negative.
        checkpoint : path, optional
            A folder to which the state of EM is written every few seconds. The same fit continues from there
            to the same mixture; one with larger `max_iter` or `n_init` extends it. `random_state` must be an
            integer.
        progress : bool
            Show on standard error the number of EM iterations, including those of starts and trials, and the
            objective per point.
        client : distributed.Client or "local", optional
            A cluster whose workers divide the points between them. Computations from sums over points run in
            this process. The mixture is the same for any number of workers.

        Returns
        -------
        DirichletMixture
            Itself.

        Raises
        ------
        ClusterError
            A worker of another version or without the space; a scheduler that is gone.
        ShapeError, DTypeError, FiniteError
            X is not a table of finite numbers with two points or more.
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
                raise InputError("missing=True excludes sample_weight, checkpoint and client")
            clone = type(self)(**self.get_params() | {"missing": False})
            missing.fit(self, X, clone)
            return self._named(names)
        weights = check_sample_weight(sample_weight, len(X))
        rows, variances = self._spread(X, weights, client)
        prior, first = self._first(X, variances)
        moves = prior is not None if self.moves is None else self.moves
        if checkpoint is not None and not isinstance(self.random_state, (int, np.integer)):
            raise InputError(
                f"random_state is {self.random_state!r}; expected a whole number with a checkpoint, so that"
                " starts are reproducible"
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
        self, X: LargeLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> DirichletMixture:
        """Take one step of online EM with some points; the first call fits to its points, which should be a
        representative sample.

        Sums over points are weighted means over all calls, in which later calls have larger weights: step t
        has the share (t + 2)^-0.6 (Cappé and Moulines 2009). `lower_bound_` is the mean log-density of the
        call's points before the step.

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
            As `fit`; the points have another number of features than those before.
        """
        if not hasattr(self, "means_"):
            return self.fit(X, y, sample_weight)
        self._check_parameters()
        X = self._check(X)
        points = self._blocks_of(X, streamed=True, weights=check_sample_weight(sample_weight, len(X)))
        online.step(self, points)
        return self

    def fit_predict(self, X: LargeLike, y: object = None) -> ArrayOrView:
        """Fit to points, then return the most probable component of each.

        Parameters
        ----------
        X : array-like or View, shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        ndarray of int, shape (n_samples,)
            A View, as `predict` returns.

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
        """Read a file of an earlier format: arrays by the names of attributes, with arguments and numbers in
        the header."""
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
        X: LargeLike,
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
        """Draw from the posterior by blocked Gibbs sampling, starting at the fitted mode.

        Parameters
        ----------
        X : array-like or View, shape (n_samples, n_features)
        n_draws, n_warmup, n_thin : int
            Number of draws; sweeps before the first of them; sweeps for each.
        seed : int, 0 to 2^64 - 1
        n_moves : int, default 1
            Proposals in each sweep that split a component or merge two.
        checkpoint : path, optional
            A folder to which draws are written every few seconds. The same call continues from there to the
            same draws; a call for more draws adds to them.
        progress : bool
            Show a bar of sweeps on standard error.
        client : distributed.Client or "local", optional
            A cluster whose workers divide the points between them. They return labels, of one or two bytes
            each; split and merge proposals are made in this process. Draws are the same for any number of
            workers.

        Returns
        -------
        Posterior
            Components are numbered as those of the mode with which they share most points (Hungarian
            matching). With burn-in they are matched to the burn-in state of largest likelihood, which is
            matched to the mode.

        Raises
        ------
        InputError
            There is no prior; the checkpoint belongs to another run, or is in use.
        StorageError
            The checkpoint cannot be written; its earlier contents remain.
        ClusterError
            A worker of another version or without the space; a scheduler that is gone.
        KeyboardInterrupt
            After Ctrl-C; its attribute `posterior` has the draws made so far, if any.

        Warns
        -----
        MixingWarning
            The draws have not converged; `Posterior.notes` also reports it.
        """
        self._check_fitted()
        if self.prior is None:
            raise InputError("sample_posterior needs a prior; this DirichletMixture has prior=None")
        n_draws = check_count(n_draws, "n_draws")
        n_warmup, n_thin = check_count(n_warmup, "n_warmup", 0), check_count(n_thin, "n_thin")
        X = opened(X, "X")
        streamed = isinstance(X, (np.memmap, Streamed))
        X = self._check(X)
        if check_count(n_moves, "n_moves", 0) and len(X) < 2:
            raise ShapeError(
                f"X has shape {X.shape}; expected two points or more for split and merge proposals, or "
                "n_moves=0"
            )
        start, seed = self._fitted(), check_seed(seed)
        sweeps = {"n_warmup": n_warmup, "n_thin": n_thin, "seed": seed, "n_moves": n_moves}
        settings = vars(self.prior_) | vars(start) | sweeps | {"X": X if checkpoint is None else on_host(X)}
        settings |= {"centre": self._centre, "covariance": self.covariance}
        with bar(progress) as shown, connected(client) as client:
            points = self._blocks_of(X, streamed=streamed, client=client)
            points.check()
            with Store(checkpoint, "mixture.sample_posterior", settings) as store:
                task = shown.add_task("sweeps", total=n_warmup + n_draws * n_thin)
                sweeps["report"] = lambda done, *_: shown.update(task, completed=done)
                chain = gibbs.Chain(points, self.covariance, self.prior_, start, **sweeps)
                return chain.sample(n_draws, store)

    def _check_parameters(self):
        """Check the parameters that need no data; return the generator of random numbers for starts."""
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
        """Return the prior, whose scale may still be missing, and the given values of a start."""
        k, kind, prior = self.n_components, self.covariance, self._full_prior()
        n, p = X.shape
        if prior is None and n < k:
            raise ShapeError(
                f"X has shape {X.shape}; expected at least {k} points with {k} components, or a prior"
            )
        if prior is not None:
            prior.for_data(self._centre, variances)  # checked before anything is computed
        if self.warm_start and hasattr(self, "means_"):
            if self.means_.shape != (k, p) or self.covariances_.shape != covariance.shape(kind, k, p):
                raise ShapeError(
                    f"warm_start: the previous fit had means_ of shape {self.means_.shape}; expected {(k, p)}"
                    f" and covariance={kind!r}"
                )
            if prior is not None and prior.scale is None and self.prior_ is not None:
                prior = replace(prior, scale=self.prior_.scale, mean_scale=self.prior_.mean_scale)
            return prior, Given(self.weights_, self.means_, self.covariances_, True)
        weights, first = np.full(k, 1.0 / k), covariance.equal_covariances(kind, k, variances)
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
