"""Draws from the posterior, as parameters and as summaries."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace


from ..shared import posteriors
from .compose import compose
from .parameters import Parameters, ParametersBase


@dataclass(frozen=True, eq=False, kw_only=True)
class Posterior(posteriors.Posterior):
    """Draws of the free parameters, in the parameters' units.

    Attributes
    ----------
    start : Parameters
        Where the first chain began; it holds the values of the fixed parameters.
    attained_error : float
        Largest bound of the relative error of any log-likelihood that decided a step: what leaving out pairs
        can have done.
    """

    family = "hawkes"
    start: ParametersBase
    attained_error: float

    @property
    def kind(self) -> type[ParametersBase]:
        """The class of the parameters.

        Returns
        -------
        type
        """
        return type(self.start)

    @property
    def free(self) -> tuple[str, ...]:
        """The parameters that were sampled.

        Returns
        -------
        tuple of str
        """
        return self.names

    @property
    def fixed(self) -> dict[str, float]:
        """The values of parameters that were not sampled.

        Returns
        -------
        dict
        """
        return {name: getattr(self.start, name) for name in self.start.names() if name not in self.names}

    def _units(self):
        """Return the units of the parameters, by name."""
        return self.kind.units()

    def _about(self):
        """Return the kind of the parameters, and the error of log-likelihoods."""
        return {"parameters": self.kind.spec, "attained_error": self.attained_error}

    @classmethod
    def _known(cls, about, fixed):
        """Return the parameters' names, and what gives `start` and the error by a first draw."""
        spec = json.loads(about["parameters"])
        kind = Parameters if spec is None else compose(**spec)
        free = [name for name in kind.names() if name not in fixed]

        def own(first):
            start = kind(**fixed | dict(zip(free, first.tolist())))
            return {"start": start, "attained_error": float(about["attained_error"])}

        return kind.names(), own

    def converged(self) -> Posterior:
        """Return the same draws with notes, each a warning too, if they have not converged.

        Returns
        -------
        Posterior
        """
        other = "" if self.method.startswith("NUTS") else ", or sample_nuts (--method nuts)"
        remedy = f"take more n_draws (--draws){other}"
        notes = posteriors.mixing({name: self[name] for name in self.free}, remedy)
        posteriors.warn(notes)
        return replace(self, notes=notes)

    def _params(self, values):
        return replace(self.start, **dict(zip(self.names, values.tolist())))

    def params(self, chain: int, draw: int) -> ParametersBase:
        """Return one draw as parameters.

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
        return self._params(self.draws[chain, draw])

    def mean(self) -> ParametersBase:
        """Return posterior means as parameters.

        Returns
        -------
        Parameters
        """
        return self._params(self.draws.mean(axis=(0, 1)))

    def thinned(self, n_draws: int) -> Iterator[ParametersBase]:
        """Return draws as parameters, evenly spaced over all chains.

        Parameters
        ----------
        n_draws : int
            About how many; all of them, where there are fewer.

        Yields
        ------
        Parameters
        """
        return map(self._params, self.rows(n_draws))
