"""Posterior draws of parameters, and their summaries."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Any

import numpy as np

from ..shared import Array, Names, posteriors

_EVIDENCE = "log_evidence", "log_evidence_error"


class Posterior(posteriors.Posterior, eq=False, kw_only=True):
    """Draws of the free parameters of a state-space model.

    For PMMH `log_likelihood` is the estimate at each draw, for particle Gibbs the joint log-density of path
    and observations.

    Attributes
    ----------
    fixed : dict
    parameters : tuple of str
        All parameters of the model, in its order.
    n_nan : ndarray of int, shape (n_chains,)
        Proposals that were rejected because their log-likelihood was NaN.
    log_evidence, log_evidence_error : float
        For SMC^2 and SMC samplers: log p(observations), and its standard error, estimated from the
        populations.
    """

    family = "resampling"
    fixed: dict[str, float]
    parameters: Names = field(repr=False)
    n_nan: Array = field(default_factory=lambda: np.zeros(0, int))
    log_evidence: float = math.nan
    log_evidence_error: float = math.nan

    def _about(self) -> dict[str, Any]:
        """Return the model's parameters, the numbers of log-likelihoods that were NaN, and the evidence, to
        be saved."""
        found = {"parameters": self.parameters, "n_nan": self.n_nan.tolist()}
        return found | {name: getattr(self, name) for name in _EVIDENCE}

    @classmethod
    def _known(
        cls, about: dict[str, Any], fixed: dict[str, float]
    ) -> tuple[Names, Callable[[Array], dict[str, Any]]]:
        """Return the model's parameters, and a function that makes the fields of this class from saved
        ones."""
        parameters, n_nan = tuple(json.loads(about["parameters"])), json.loads(about.get("n_nan", "[]"))
        return parameters, lambda _: {
            "fixed": fixed,
            "parameters": parameters,
            "n_nan": np.array(n_nan, int),
            **{name: json.loads(about[name]) for name in _EVIDENCE if name in about},
        }

    def thinned(self, n_draws: int) -> dict[str, Array]:
        """Select n_draws draws, evenly spaced over all chains, as the params of as many filters.

        Parameters
        ----------
        n_draws : int
            The largest number; all draws if there are fewer.

        Returns
        -------
        dict of names and ndarrays, shape (n_rows,)
            All parameters of the model, including fixed ones.
        """
        rows = self.rows(n_draws)
        columns = dict(zip(self.names, rows.T))
        return {
            name: columns[name] if name in columns else np.full(len(rows), self.fixed[name])
            for name in self.parameters
        }

    def lines(self) -> Iterator[str]:
        """Yield the summary as a table's lines, and the notes."""
        yield f"{'':10} {'mean':>9} {'sd':>9} {'2.5 %':>9} {'97.5 %':>9} {'R-hat':>6} {'ESS':>7}"
        for name, row in self.summary().items():
            yield (
                f"{name:10} {row['mean']:9.4g} {row['sd']:9.4g} {row['q2.5']:9.4g} {row['q97.5']:9.4g}"
                f" {row['r_hat']:6.3f} {row['ess_bulk']:7.0f}"
            )
        if not math.isnan(self.log_evidence):
            yield f"log-evidence {self.log_evidence:.3f} +- {self.log_evidence_error:.2g}"
        yield from (f"note: {note}" for note in self.notes)
