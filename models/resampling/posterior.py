"""Draws of parameters, and what is asked of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from portable.errors import InputError

from ..shared import posteriors
from ..shared.annotations import PathLike
from ..shared.extras import need
from ..shared.shown import Shown


@dataclass(frozen=True, eq=False)
class Posterior(Shown):
    """Draws of the free parameters of a state-space model.

    Attributes
    ----------
    names : tuple of str
        The free parameters.
    draws : ndarray, shape (n_chains, n_draws, n_free)
    log_likelihood : ndarray, shape (n_chains, n_draws)
        The estimate that came with each draw (PMMH), or the log-density of path and observations (particle
        Gibbs).
    acceptance : ndarray, shape (n_chains,)
        Share of accepted proposals.
    priors : dict
        In words.
    fixed : dict
    parameters : tuple of str
        All parameters of the model, in its order.
    method : str
    seed : int
    complete : bool
        False if sampling was stopped.
    notes : tuple of str
        What to know before the draws are used: that they have not converged, that log-likelihoods were NaN.
    n_nan : ndarray of int, shape (n_chains,)
        Proposals that were rejected because their log-likelihood was NaN.
    """

    names: tuple[str, ...]
    draws: np.ndarray = field(repr=False)
    log_likelihood: np.ndarray = field(repr=False)
    acceptance: np.ndarray = field(repr=False)
    priors: dict[str, str] = field(repr=False)
    fixed: dict[str, float]
    parameters: tuple[str, ...] = field(repr=False)
    method: str
    seed: int
    complete: bool
    notes: tuple[str, ...] = ()
    n_nan: np.ndarray = field(default_factory=lambda: np.zeros(0, int))

    def __getitem__(self, name: str) -> np.ndarray:
        """The draws of a parameter, shape (n_chains, n_draws)."""
        if name not in self.names:
            raise InputError(f"'{name}' was not sampled; wanted one of {', '.join(self.names)}")
        return self.draws[:, :, self.names.index(name)]

    def thinned(self, n_draws: int) -> dict[str, np.ndarray]:
        """About so many draws, evenly spaced over all chains, as the params of that many filters.

        Parameters
        ----------
        n_draws : int
            At most; all draws if there are fewer.

        Returns
        -------
        dict of names and ndarrays, shape (n_rows,)
            Of all parameters of the model, the fixed ones with them.
        """
        flat = self.draws.reshape(-1, len(self.names))
        rows = flat[np.unique(np.linspace(0, len(flat) - 1, min(n_draws, len(flat))).astype(int))]
        return {
            name: (
                rows[:, self.names.index(name)]
                if name in self.names
                else np.full(len(rows), self.fixed[name])
            )
            for name in self.parameters
        }

    def summary(self) -> dict[str, dict[str, float]]:
        """Mean, sd, quantiles, R-hat, effective sample sizes and Monte Carlo standard error (by arviz-stats).

        Returns
        -------
        dict of names and dicts of numbers
            Of each free parameter: mean, sd, q2.5, q97.5, r_hat, ess_bulk, ess_tail, mcse.

        Raises
        ------
        InputError
            arviz-stats is not installed.
        """
        return {name: posteriors.summary(self[name]) for name in self.names}

    def lines(self) -> Iterator[str]:
        """The summary as a table's lines, and the notes."""
        yield f"{'':10} {'mean':>9} {'sd':>9} {'2.5 %':>9} {'97.5 %':>9} {'R-hat':>6} {'ESS':>7}"
        for name, row in self.summary().items():
            yield (
                f"{name:10} {row['mean']:9.4g} {row['sd']:9.4g} {row['q2.5']:9.4g} {row['q97.5']:9.4g}"
                f" {row['r_hat']:6.3f} {row['ess_bulk']:7.0f}"
            )
        yield from (f"note: {note}" for note in self.notes)

    def to_arviz(self) -> Any:
        """An ArviZ DataTree: group posterior, and group sample_stats with the log-likelihood.

        Returns
        -------
        xarray.DataTree

        Raises
        ------
        InputError
            ArviZ is not installed.
        """
        base = need("arviz_base", "arviz", "ArviZ objects")
        tree = base.from_dict(
            {
                "posterior": {name: self[name] for name in self.names},
                "sample_stats": {"log_likelihood": self.log_likelihood},
            }
        )
        tree["posterior"].attrs.update(
            {"method": self.method, "seed": str(self.seed), "complete": int(self.complete)}
            | {"parameters": json.dumps(self.parameters), "acceptance": json.dumps(self.acceptance.tolist())}
            | {"notes": json.dumps(self.notes), "n_nan": json.dumps(self.n_nan.tolist())}
        )
        tree["posterior"].attrs.update({f"prior of {name}": text for name, text in self.priors.items()})
        tree["posterior"].attrs.update({f"fixed {name}": value for name, value in self.fixed.items()})
        return tree

    def save(self, path: PathLike) -> None:
        """Write NetCDF that ArviZ reads.

        Parameters
        ----------
        path : str or Path
            Replaced only when everything is written.

        Raises
        ------
        InputError
            ArviZ or h5netcdf is not installed.
        StorageError
            It cannot be written.
        """
        posteriors.write(self, path)

    @classmethod
    def load(cls, path: PathLike) -> Posterior:
        """The Posterior that `save` wrote.

        Parameters
        ----------
        path : str or Path

        Returns
        -------
        Posterior

        Raises
        ------
        InputError
            It cannot be read, or holds something else; ArviZ or h5netcdf is not installed.
        """
        with posteriors.read(path, "resampling") as (draws, told, stats):
            parameters = tuple(json.loads(told["parameters"]))
            fixed = {k.removeprefix("fixed "): float(v) for k, v in told.items() if k.startswith("fixed ")}
            names = tuple(name for name in parameters if name not in fixed)
            return cls(
                names,
                np.stack([draws[name].to_numpy() for name in names], axis=-1),
                stats["log_likelihood"].to_numpy(),
                np.array(json.loads(told["acceptance"])),
                {name: str(told[f"prior of {name}"]) for name in names},
                fixed,
                parameters,
                str(told["method"]),
                int(told["seed"]),
                bool(told["complete"]),
                tuple(json.loads(told.get("notes", "[]"))),
                np.array(json.loads(told.get("n_nan", "[]")), int),
            )
