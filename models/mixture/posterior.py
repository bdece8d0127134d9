"""Draws from the posterior, and results computed from them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from ..shared import Array, ArrayLike, Names, ShapeError, SpaceLike, check_choice, need, posteriors
from . import covariance
from .blocks import Components, Points
from .checks import check_points


_NAMES = "weights", "means", "covariances", "alpha"


class Posterior(posteriors.Drawn):
    """Draws from the posterior, with components matched: component j is the same one in all draws.

    Attributes
    ----------
    weights : ndarray, shape (n_draws, k)
    means : ndarray, shape (n_draws, k, p)
    covariances : ndarray, shape (n_draws, k, p, p), (n_draws, p, p), (n_draws, k, p) or (n_draws, k)
        For "full", "tied", "diag", "spherical".
    alpha : ndarray, shape (n_draws,)
    log_likelihood : ndarray, shape (n_draws,)
        Log-likelihood of the points at the parameters of the draw.
    counts : ndarray, shape (n_draws, k)
        Points assigned to each component.
    covariance : {"full", "tied", "diag", "spherical"}
    accepted : float
        Share of the split and merge proposals that were accepted.
    notes : tuple of str
        Warnings about the draws: that log-likelihood or alpha, which do not depend on the numbers of
        components, have not converged.
    """

    family = "mixture"
    weights: Array
    means: Array
    covariances: Array
    alpha: Array
    log_likelihood: Array
    counts: Array
    covariance: str = "full"
    accepted: float = 0.0
    notes: Names = ()

    def log_density(self, X: ArrayLike, *, space: SpaceLike = None) -> Array:
        """Return the logarithm of the posterior predictive density: of the mean over draws of the mixture's
        density at each point.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
        space : str or Space, optional
            Where to compute; the default space if not given.

        Returns
        -------
        ndarray, shape (n_samples,)

        Raises
        ------
        ShapeError, DTypeError, FiniteError
        """
        X = np.asarray(check_points(X))
        k, p = self.means.shape[1:]
        if X.shape[1] != p:
            raise ShapeError(f"X has {X.shape[1]} features, but the draws have {p}")
        kind, total = self.covariance, None
        points = Points(X, k, space, X.mean(axis=0, dtype=np.float64), covariance.is_diagonal(kind))
        for weights, means, covariances in zip(self.weights, self.means, self.covariances):
            factors = covariance.factors_of(kind, covariances)
            own = points.log_densities(Components.of(kind, weights, means, factors))
            total = own if total is None else np.logaddexp(total, own)
        return total - np.log(len(self.weights)).astype(total.dtype)

    def to_arviz(self) -> Any:
        """Return an ArviZ DataTree of one chain: groups posterior (weights, means, covariances, alpha) and
        sample_stats (lp, the log-likelihood, and counts).

        Returns
        -------
        xarray.DataTree

        Raises
        ------
        InputError
            ArviZ is not installed.
        """
        base = need("arviz_base", "arviz", "ArviZ objects")
        own = ["component"]
        features = {"full": [*own, "feature", "other"], "tied": ["feature", "other"], "spherical": own}
        of_covariances = features.get(self.covariance, [*own, "feature"])
        stats = {"lp": self.log_likelihood[None], "counts": self.counts[None]}
        tree = base.from_dict(
            {"posterior": {name: getattr(self, name)[None] for name in _NAMES}, "sample_stats": stats},
            dims={"weights": own, "means": [*own, "feature"], "covariances": of_covariances, "counts": own},
        )
        told = {
            "family": self.family,
            "covariance": self.covariance,
            "accepted": self.accepted,
            "notes": json.dumps(self.notes),
        }
        tree["posterior"].attrs.update(told)
        return tree

    @classmethod
    def _of(cls, draws: Any, told: dict[str, Any], stats: Any) -> Posterior:
        """Return the object of a file."""
        return cls(
            *(draws[name].to_numpy()[0] for name in _NAMES),
            stats["lp"].to_numpy()[0],
            stats["counts"].to_numpy()[0],
            check_choice(str(told["covariance"]), "covariance", covariance.KINDS),
            float(told["accepted"]),
            tuple(json.loads(told.get("notes", "[]"))),
        )
