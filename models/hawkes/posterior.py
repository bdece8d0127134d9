"""Draws from the posterior, and what is asked of them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from portable.errors import InputError

from ..shared import posteriors
from ..shared.extras import need
from ..shared.shown import Shown
from .parameters import ParametersBase


@dataclass(frozen=True, eq=False)
class Posterior(Shown):
    """Draws of the free parameters, in the parameters' units.

    Attributes
    ----------
    kind : type
        The class of the parameters.
    start : Parameters
        Where the first chain began; it holds the values of the fixed parameters.
    free : tuple of str
    draws : ndarray, shape (n_chains, n_draws, n_free)
    log_likelihood : ndarray, shape (n_chains, n_draws)
    acceptance : ndarray, shape (n_chains, n_free) or (n_chains, 1)
        Share of accepted proposals.
    attained_error : float
        Largest bound of the relative error of any log-likelihood that decided a step: what leaving out pairs
        can have done.
    priors : dict
        The priors of the free parameters in words, by coordinate.
    method : str
    seed : int
    complete : bool
        False if sampling was stopped.
    notes : tuple of str
        What to know before the draws are used: that they have not converged.
    """

    kind: type[ParametersBase]
    start: ParametersBase
    free: tuple[str, ...]
    draws: npt.NDArray[np.float64] = field(repr=False)
    log_likelihood: npt.NDArray[np.float64] = field(repr=False)
    acceptance: npt.NDArray[np.float64] = field(repr=False)
    attained_error: float
    priors: dict[str, str] = field(repr=False)
    method: str
    seed: int
    complete: bool
    notes: tuple[str, ...] = ()

    def converged(self, stacklevel: int) -> Posterior:
        """The same draws with notes, each a warning too, if they have not converged.

        Parameters
        ----------
        stacklevel : int
            As of `warnings.warn`.

        Returns
        -------
        Posterior
        """
        remedy = "take more n_draws (--draws), or sample_nuts (--method nuts)"
        notes = posteriors.mixing({name: self[name] for name in self.free}, remedy)
        posteriors.warn(notes, stacklevel + 1)
        return replace(self, notes=notes)

    def __getitem__(self, name: str) -> npt.NDArray[np.float64]:
        """The draws of a parameter; of '1/omega' the reciprocals.

        Parameters
        ----------
        name : str

        Returns
        -------
        ndarray, shape (n_chains, n_draws), in the parameter's unit

        Raises
        ------
        InputError
            The parameter was not sampled.
        """
        inverse = name.startswith("1/")
        name = name.removeprefix("1/")
        if name not in self.free:
            raise InputError(f"'{name}' was not sampled; wanted one of {', '.join(self.free)}")
        draws = self.draws[:, :, self.free.index(name)]
        return 1.0 / draws if inverse else draws

    def params(self, chain: int, draw: int) -> ParametersBase:
        """One draw as parameters.

        Parameters
        ----------
        chain, draw : int
            Their numbers, from 0.

        Returns
        -------
        Parameters

        Raises
        ------
        IndexError
            There is no such draw.
        """
        values = {name: getattr(self.start, name) for name in self.start.names()}
        return self.kind(**values | dict(zip(self.free, self.draws[chain, draw].tolist())))

    def mean(self) -> ParametersBase:
        """Posterior means as parameters.

        Returns
        -------
        Parameters
        """
        values = {name: getattr(self.start, name) for name in self.start.names()}
        return self.kind(**values | dict(zip(self.free, self.draws.mean(axis=(0, 1)).tolist())))

    def thinned(self, n_draws: int) -> Iterator[ParametersBase]:
        """Draws as parameters, evenly spaced over all chains.

        Parameters
        ----------
        n_draws : int
            About how many; all of them, where there are fewer.

        Yields
        ------
        Parameters
        """
        n_chains, length, _ = self.draws.shape
        for flat in np.unique(
            np.linspace(0, n_chains * length - 1, min(n_draws, n_chains * length)).astype(int)
        ):
            yield self.params(flat // length, flat % length)

    def summary(self, names: Sequence[str] | None = None) -> dict[str, dict[str, float]]:
        """Mean, sd, quantiles, R-hat, effective sample sizes and Monte Carlo standard error, by parameter.

        Parameters
        ----------
        names : sequence of str, optional
            Parameters or their reciprocals, such as '1/omega'; all that were sampled, if not given.

        Returns
        -------
        dict of dicts
            mean, sd, q2.5, q97.5, r_hat, ess_bulk, ess_tail, mcse; R-hat and the rest from ArviZ
            (arviz-stats).

        Raises
        ------
        InputError
            A parameter was not sampled; ArviZ is not installed.
        """
        return {name: posteriors.summary(self[name]) for name in names or self.free}

    def to_arviz(self) -> Any:
        """An ArviZ DataTree: group posterior with a unit at each parameter, group sample_stats with the
        log-likelihood.

        Returns
        -------
        xarray.DataTree

        Raises
        ------
        InputError
            ArviZ is not installed.
        """
        base = need("arviz_base", "arviz", "ArviZ objects")
        attributes = {
            "method": self.method,
            "seed": str(self.seed),
            "complete": int(self.complete),
            "attained_error": self.attained_error,
            "notes": json.dumps(self.notes),
        }
        tree = base.from_dict(
            {
                "posterior": {name: self[name] for name in self.free},
                "sample_stats": {"log_likelihood": self.log_likelihood},
            }
        )
        for name in self.free:
            tree["posterior"][name].attrs["units"] = self.kind.units()[name]
        tree["posterior"].attrs.update(attributes)
        tree["posterior"].attrs.update(
            {"parameters": json.dumps(self.kind.spec), "acceptance": json.dumps(self.acceptance.tolist())}
        )
        tree["posterior"].attrs.update({f"prior of {name}": text for name, text in self.priors.items()})
        tree["posterior"].attrs.update(
            {
                f"fixed {name}": getattr(self.start, name)
                for name in self.start.names()
                if name not in self.free
            }
        )
        return tree

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write NetCDF that ArviZ reads.

        Parameters
        ----------
        path : str or Path
            A file that is there is replaced.

        Raises
        ------
        InputError
            ArviZ or h5netcdf are not installed.
        StorageError
            The file cannot be written; one that was there stays.
        """
        posteriors.write(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Posterior:
        """The Posterior that `save` wrote.

        Parameters
        ----------
        path : path

        Returns
        -------
        Posterior

        Raises
        ------
        InputError
            It cannot be read, or holds something else; parameters of a user's own triggering function, which
            a file cannot hold.
        """
        from .compose import compose
        from .parameters import Parameters

        with posteriors.read(path, "hawkes") as (draws, attributes, stats):
            spec = json.loads(attributes["parameters"])
            kind = Parameters if spec is None else compose(**spec)
            fixed = {
                name.removeprefix("fixed "): float(value)
                for name, value in attributes.items()
                if name.startswith("fixed ")
            }
            priors = {
                name.removeprefix("prior of "): text
                for name, text in attributes.items()
                if name.startswith("prior of ")
            }
            free = tuple(name for name in kind.names() if name not in fixed)
            values = np.stack([draws[name].to_numpy() for name in free], axis=-1)
            start = kind(**fixed | dict(zip(free, values[0, 0].tolist())))
            return cls(
                kind,
                start,
                free,
                values,
                stats["log_likelihood"].to_numpy(),
                np.array(json.loads(attributes["acceptance"])),
                float(attributes["attained_error"]),
                priors,
                str(attributes["method"]),
                int(attributes["seed"]),
                bool(attributes["complete"]),
                tuple(json.loads(attributes.get("notes", "[]"))),
            )
