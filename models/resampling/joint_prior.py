"""Priors of parameters, by name, and the unbounded coordinates in which chains move, one for each parameter.

The densities are those of `portable.models.shared.priors`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..shared import Array, DTypeError, InputError, Names, Prior, check_kind, check_number


def _check(names, priors, fixed):
    """Raise unless each parameter is in one of `priors` and `fixed`, and these have no others."""
    if not isinstance(priors, Mapping) or not priors:
        raise DTypeError(f"priors must be a dict of parameters and priors, at least one, got {priors!r:.60}")
    for what, given in (("priors", priors), ("fixed", fixed)):
        for name in given:
            if name not in names:
                raise InputError(
                    f"{what} has {name!r}, which is no parameter of the model; expected one of "
                    f"{', '.join(names)}"
                )
    for name, prior in priors.items():
        check_kind(
            prior,
            f"priors[{name!r}]",
            Prior,
            "be made by normal, half_normal, gamma, log_normal, uniform or beta of"
            " portable.models.resampling.priors",
        )
    both = [n for n in names if n in priors and n in fixed]
    neither = [n for n in names if n not in priors and n not in fixed]
    if both or neither:
        raise InputError(
            f"{', '.join(both)} in priors and in fixed; expected one of them"
            if both
            else f"{', '.join(neither)} neither in priors nor in fixed"
        )


class Priors:
    """Independent priors of some of a model's parameters, the others fixed.

    Parameters
    ----------
    names : tuple of str
        All parameters of the model.
    priors : mapping of names and Prior
    fixed : mapping of names and numbers, or None

    Attributes
    ----------
    free : tuple of str
    limits : ndarray, shape (n_free, 2)

    Raises
    ------
    DTypeError, FiniteError, InputError
        A parameter is not the model's, or is in neither or both of `priors` and `fixed`; a value is not a
        prior.
    """

    def __init__(self, names: Names, priors: Mapping[str, Prior], fixed: Mapping[str, float] | None) -> None:
        fixed = dict(fixed or {})
        _check(names, priors, fixed)
        self.names, self.free = names, tuple(name for name in names if name in priors)
        self.fixed = {name: check_number(value, f"fixed[{name!r}]") for name, value in fixed.items()}
        self.priors = [priors[name] for name in self.free]
        self.texts = {name: priors[name].text for name in self.free}
        self.limits = np.array([(prior.low, prior.high) for prior in self.priors])
        self._low, self._high = self.limits.T

    def draw(self, random: np.random.Generator, size: int) -> Array:
        """Draw values of the free parameters.

        Parameters
        ----------
        random : numpy.random.Generator
        size : int

        Returns
        -------
        ndarray, shape (size, n_free)
        """
        return np.stack([prior.draw(random, size) for prior in self.priors], axis=1)

    def log_density(self, values: Array) -> Array:
        """Compute the logarithm of the density, summed over parameters.

        Parameters
        ----------
        values : ndarray, shape (n, n_free)

        Returns
        -------
        ndarray, shape (n,)
            -inf where a value is out of bounds.
        """
        inside = ((values > self._low) & (values < self._high)).all(axis=1)
        with np.errstate(all="ignore"):
            total = sum(prior.log_density(values[:, k]) for k, prior in enumerate(self.priors))
        return np.where(inside & np.isfinite(total), total, -np.inf)

    def table(self, values: Array) -> Array:
        """Return all parameters of the model, from the free ones.

        Parameters
        ----------
        values : ndarray, shape (n, n_free)

        Returns
        -------
        ndarray, shape (n, n_params)
        """
        return np.stack(
            [
                values[:, self.free.index(n)] if n in self.free else np.full(len(values), self.fixed[n])
                for n in self.names
            ],
            axis=1,
        )

    def to_line(self, values: Array) -> Array:
        """Transform values to coordinates without bounds: logarithms, log-odds, or the values themselves.

        Parameters
        ----------
        values : ndarray, shape (n, n_free)

        Returns
        -------
        ndarray, shape (n, n_free)
        """
        low, high = self._low, self._high
        with np.errstate(all="ignore"):
            below, above = np.log(values - low), np.log(high - values)
            found = np.where(np.isfinite(low), np.where(np.isfinite(high), below - above, below), values)
        return found

    def from_line(self, z: Array) -> tuple[Array, Array]:
        """Transform coordinates without bounds to values.

        Parameters
        ----------
        z : ndarray, shape (n, n_free)

        Returns
        -------
        values : ndarray, shape (n, n_free)
        volume : ndarray, shape (n,)
            Logarithm of the Jacobian determinant of values with respect to coordinates.
        """
        low, high = self._low, self._high
        with np.errstate(all="ignore"):
            width = high - low
            share = 1.0 / (1.0 + np.exp(-z))
            bounded = np.isfinite(low) & np.isfinite(high)
            values = np.where(bounded, low + width * share, np.where(np.isfinite(low), low + np.exp(z), z))
            volume = np.where(
                bounded, np.log(width) + np.log(share) + np.log1p(-share), np.where(np.isfinite(low), z, 0.0)
            )
        return values, volume.sum(axis=1)

    def at(self, z: Array) -> tuple[Array, Array]:
        """Transform coordinates without bounds to values; compute the logarithm of the density of the
        coordinates.

        Parameters
        ----------
        z : ndarray, shape (n, n_free)

        Returns
        -------
        values : ndarray, shape (n, n_free)
        log_density : ndarray, shape (n,)
        """
        values, volume = self.from_line(z)
        return values, self.log_density(values) + volume
