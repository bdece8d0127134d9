"""Draws from the posterior of a Hawkes process, as parameters and as summaries."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

from ..shared import Names, posteriors
from .compose import compose
from .parameters import Parameters, ParametersBase


class Posterior(posteriors.Posterior, eq=False, kw_only=True):
    """Draws of the free parameters, in the parameters' units.

    Attributes
    ----------
    start : Parameters
        The start of the first chain, with the values of the fixed parameters.
    attained_error : float
        Largest bound of the relative error, due to omitted pairs, of a log-likelihood that decided a step.
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
    def free(self) -> Names:
        """The names of the sampled parameters.

        Returns
        -------
        tuple of str
        """
        return self.names

    @property
    def fixed(self) -> dict[str, float]:
        """The values of the parameters that were not sampled, by name.

        Returns
        -------
        dict
        """
        return {name: getattr(self.start, name) for name in self.start.names() if name not in self.names}

    def _units(self):
        """Return the units of the parameters, by name."""
        return self.kind.units()

    def _about(self):
        """Return the arguments that define the class of the parameters, and the error of log-likelihoods."""
        return {"parameters": self.kind.spec, "attained_error": self.attained_error}

    @classmethod
    def _known(cls, about, fixed):
        """Return the parameters' names, and a function from a first draw to `start` and `attained_error`."""
        spec = json.loads(about["parameters"])
        kind = Parameters if spec is None else compose(**spec)
        free = [name for name in kind.names() if name not in fixed]

        def own(first):
            start = kind(**fixed | dict(zip(free, first.tolist())))
            return {"start": start, "attained_error": float(about["attained_error"])}

        return kind.names(), own

    def converged(self) -> Posterior:
        """Return the same draws, with notes if they have not converged; each note is also issued as a
        warning.

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
        """Return draw number `draw` of chain number `chain` as parameters.

        Parameters
        ----------
        chain, draw : int
            Numbers from 0 on.

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
        """Return the posterior means as parameters.

        Returns
        -------
        Parameters
        """
        return self._params(self.draws.mean(axis=(0, 1)))

    def thinned(self, n_draws: int) -> Iterator[ParametersBase]:
        """Return an iterator over about n_draws draws as parameters, evenly spaced over all chains.

        Parameters
        ----------
        n_draws : int
            Approximate number of draws; all draws if there are fewer.

        Yields
        ------
        Parameters
        """
        return map(self._params, self.rows(n_draws))
