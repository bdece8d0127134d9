"""Common parts of the families' posteriors: convergence of draws, interrupted runs, summaries, and NetCDF
files by ArviZ."""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from statistics import NormalDist
from typing import Any, ClassVar, Self

import numpy as np

from portable.errors import InputError

from . import user_warnings
from .annotations import Array, Names, PathLike
from .extras import need
from .files import replacing
from .notebook_html import Frozen


MOST_R_HAT, LEAST_ESS_A_CHAIN = 1.01, 100  # Vehtari et al. (2021)
_FEWEST = 8  # smallest number of draws of a chain for autocorrelations of its halves


class MixingWarning(RuntimeWarning):
    """Draws of a sampler that have not converged."""


def mixing(draws: Mapping[str, Array], remedy: str) -> Names:
    """Return a sentence on draws that have not converged, or none; ArviZ is not required.

    Parameters
    ----------
    draws : dict of names and ndarrays, shape (n_chains, n_draws)
    remedy : str
        The recommended remedy, for the message.

    Returns
    -------
    tuple of str

    References
    ----------
    Vehtari, Gelman, Simpson, Carpenter, Bürkner: Rank-normalization, folding, and localization: an improved
    R-hat for assessing convergence of MCMC. Bayesian Analysis 16 (2021).
    """
    n_chains, n_draws = next(iter(draws.values())).shape
    if n_draws < _FEWEST:
        return (f"the draws have not converged: {n_draws} of each chain are too few to tell; {remedy}",)
    least, poor = LEAST_ESS_A_CHAIN * n_chains, []
    for name, values in draws.items():
        found = r_hat(values), effective(values)
        if not (found[0] <= MOST_R_HAT and found[1] >= least):
            poor.append(f"{name} {found[0]:.3f} and {found[1]:.0f}")
    if not poor:
        return ()
    return (
        f"the draws have not converged: R-hat and effective draws are {', '.join(poor)}; expected at "
        f"most {MOST_R_HAT} and at least {least}: {remedy}",
    )


def warn(notes: Names) -> None:
    """Give a `MixingWarning` for each note of `mixing`."""
    for note in notes:
        user_warnings.warn(note, MixingWarning)


@contextlib.contextmanager
def mixing_looked_at() -> Iterator[None]:
    """Suppress `MixingWarning` within the block, for callers that check convergence themselves."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MixingWarning)
        yield


def stopped(stop: KeyboardInterrupt, posterior: Any) -> KeyboardInterrupt:
    """Return the exception with the draws before it in its attribute `posterior`."""
    stop.posterior = posterior  # type: ignore[attr-defined]
    stop.add_note("what was drawn until then is in this exception's attribute `posterior`")
    return stop


def run_steps(store: Any, name: str, n: int, sampler: Any) -> tuple[list[dict], KeyboardInterrupt | None]:
    """Run the steps of a sampler, each from the state after the one before, in parts that a store keeps.

    Parameters
    ----------
    store : Store
    name : str
        Name of the chain, for `Store.chain`.
    n : int
        Number of steps.
    sampler : object
        Has advance(number), which makes a step and returns a record of it; part(records), the arrays of a
        part, with the state after it; resume(part), which takes that state; `finished`, True if no further
        step is to be made; and report(done, records), called after every `piece` steps, when a part may end.

    Returns
    -------
    parts : list of dict
        Those of the steps that were made, now or before.
    stop : KeyboardInterrupt or None
        The interruption that ended them.
    """
    parts, stop = [], None

    def run(before, done, until):
        nonlocal stop
        if before is not None:
            sampler.resume(before)
        seen, begin = [], done
        try:
            while done < until and not sampler.finished:
                record = sampler.advance(done)
                seen += [record]  # without a call, so that Ctrl-C cannot come between these
                done += 1
                if done % sampler.piece == 0:
                    sampler.report(done, seen)
                    if store.due():
                        break
        except KeyboardInterrupt as error:
            if done == begin:
                raise
            stop = error
        return {"end": np.array(done), **sampler.part(seen)}

    try:
        for part in store.chain(name, n, run):
            parts.append(part)
            if stop is not None or part.get("finished"):
                break
    except KeyboardInterrupt as error:
        stop = error
    return parts, stop


def r_hat(draws: Array) -> float:
    """Return the larger one of the rank-normalised split R-hat of draws and that of their distances from the
    median; NaN for constant draws."""
    parts = halves(draws)
    return max(_r_hat(_normalised(values)) for values in (parts, np.abs(parts - np.median(parts))))


def effective(draws: Array) -> float:
    """Return the bulk effective sample size, of rank-normalised halves of chains; NaN for constant draws."""
    return sample_size(_normalised(halves(draws)))


def sample_size(x: Array) -> float:
    """Return the effective sample size of chains, shape (chains, draws); NaN for constant ones."""
    n_chains, n = x.shape
    lags = _autocovariances(x).mean(axis=0)
    within = lags[0] * n / (n - 1.0)
    whole = lags[0] + x.mean(axis=1).var(ddof=1)
    if not whole > 0.0:
        return np.nan
    rho = 1.0 - (within - lags) / whole
    rho[0] = 1.0
    pairs = rho[: n // 2 * 2].reshape(-1, 2).sum(axis=1)  # Geyer (1992): positive, and falling
    most = (n - 3) // 2
    end = next((place for place, pair in enumerate(pairs[:most].tolist()) if pair <= 0.0), most)
    tau = -1.0 + 2.0 * np.minimum.accumulate(pairs[:end]).sum() + max(rho[2 * end], 0.0)
    return n_chains * n / max(tau, 1.0 / np.log10(n_chains * n))


def _autocovariances(x):
    """Return the autocovariances of each chain by lag."""
    n = x.shape[1]
    spectrum = np.fft.rfft(x - x.mean(axis=1, keepdims=True), 2 * n, axis=1)
    return np.fft.irfft(np.abs(spectrum) ** 2, axis=1)[:, :n] / n


def halves(draws: Array) -> Array:
    """Return the halves of chains, as chains."""
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, -half:]])


def _normalised(draws):
    """Return the normal scores of the ranks of draws; equal draws have equal scores."""
    values, places, counts = np.unique(draws, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - 0.5 * (counts - 1.0)
    score = NormalDist().inv_cdf
    scores = np.array([score(rank) for rank in ((ranks - 0.375) / (draws.size + 0.25)).tolist()])
    return scores[places].reshape(draws.shape)


def _r_hat(x):
    n, within = x.shape[1], x.var(axis=1, ddof=1).mean()
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.sqrt((n - 1.0) / n + x.mean(axis=1).var(ddof=1) / within))


def summary(draws: Array) -> dict[str, float]:
    """Return moments, quantiles and diagnostics of the draws of a parameter, shape (chains, draws);
    diagnostics are NaN for fewer than four draws of a chain, as of an interrupted call."""
    low, *tails, high = np.quantile(draws, [0.025, 0.05, 0.95, 0.975])
    sd = draws.std(ddof=1) if draws.size > 1 else np.nan
    found = {"mean": draws.mean(), "sd": sd, "q2.5": low, "q97.5": high}
    if draws.shape[1] < 4:
        found |= dict.fromkeys(("r_hat", "ess_bulk", "ess_tail", "mcse"), np.nan)
    else:
        found |= {
            "r_hat": r_hat(draws),
            "ess_bulk": effective(draws),
            "ess_tail": min(sample_size(halves(draws <= at).astype(float)) for at in tails),
            "mcse": sd / np.sqrt(sample_size(halves(draws))),
        }
    return {key: float(value) for key, value in found.items()}


class Drawn(Frozen):
    """Base of draws that are saved in NetCDF files by ArviZ.

    A class has a name, `family`, and `to_arviz`; `_of` makes its objects from the content of a file.
    """

    family: ClassVar[str]

    def save(self, path: PathLike) -> None:
        """Write NetCDF that ArviZ reads.

        Parameters
        ----------
        path : str or Path
            An existing file is replaced.

        Raises
        ------
        InputError
            ArviZ or h5netcdf are not installed.
        StorageError
            The file cannot be written; an existing file is unchanged.
        """
        need("h5netcdf", "arviz", "NetCDF files")
        with replacing(path, "path") as beside:
            self.to_arviz().to_netcdf(beside, engine="h5netcdf")

    @classmethod
    def load(cls, path: PathLike) -> Self:
        """Read a Posterior that was written by `save`.

        Parameters
        ----------
        path : path

        Returns
        -------
        Posterior

        Raises
        ------
        InputError
            The file cannot be read, or has other content; or its parameters are of a user's triggering
            function, which a file cannot contain; h5netcdf or xarray is not installed.
        """
        with read(path, cls.family) as found:
            return cls._of(*found)


class Posterior(Drawn, eq=False, kw_only=True):
    """Draws of parameters by chains, with conversion to NetCDF, ArviZ and pandas; base of the families'
    classes.

    A family's class has a name, `family`, and a property or field `fixed`, the values of parameters that were
    not sampled. Further content of files is written by `_about`, and read by `_known`.

    Attributes
    ----------
    names : tuple of str
        Names of the sampled parameters.
    draws : ndarray, shape (n_chains, n_draws, n_names), in the parameters' units
    log_likelihood : ndarray, shape (n_chains, n_draws)
    acceptance : ndarray, shape (n_chains,) or (n_chains, n)
        Share of accepted proposals.
    priors : dict
        The priors in words, by coordinate.
    method : str
    seed : int
    complete : bool
        False if sampling was stopped.
    notes : tuple of str
        Warnings for the use of the draws: that they have not converged.
    """

    names: Names
    draws: Array = field(repr=False)
    log_likelihood: Array = field(repr=False)
    acceptance: Array = field(repr=False)
    priors: dict[str, str] = field(repr=False)
    method: str
    seed: int
    complete: bool
    notes: Names = ()

    def _units(self) -> Mapping[str, str]:
        """Return the units of parameters that have any, by name."""
        return {}

    def __getitem__(self, name: str) -> Array:
        """Return the draws of a parameter, or their reciprocals for a name such as '1/omega'.

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
        plain = name.removeprefix("1/")
        if plain not in self.names:
            raise InputError(f"'{plain}' was not sampled; expected one of {', '.join(self.names)}")
        draws = self.draws[:, :, self.names.index(plain)]
        return draws if plain == name else 1.0 / draws

    def rows(self, n_draws: int) -> Array:
        """Return draws evenly spaced over all chains.

        Parameters
        ----------
        n_draws : int
            Approximate number of draws; all if there are fewer.

        Returns
        -------
        ndarray, shape (n_rows, n_names)
        """
        flat = self.draws.reshape(-1, len(self.names))
        return flat[np.unique(np.linspace(0, len(flat) - 1, min(n_draws, len(flat))).astype(int))]

    def summary(self, names: Sequence[str] | None = None) -> dict[str, dict[str, float]]:
        """Return mean, sd, quantiles, R-hat, effective sample sizes and Monte Carlo standard error, by
        parameter.

        Parameters
        ----------
        names : sequence of str, optional
            Parameters or their reciprocals, such as '1/omega'; by default all sampled parameters.

        Returns
        -------
        dict of dicts
            mean, sd, q2.5, q97.5, r_hat, ess_bulk, ess_tail, mcse.

        Raises
        ------
        InputError
            A parameter was not sampled.
        """
        return {name: summary(self[name]) for name in names or self.names}

    def to_pandas(self) -> Any:
        """Return a DataFrame with one row per draw, indexed by chain and draw.

        Returns
        -------
        pandas.DataFrame
            Columns of the parameters and `log_likelihood`.

        Raises
        ------
        InputError
            pandas is not installed.
        """
        pandas = need("pandas", "files", "data frames")
        n_chains, n_draws = self.log_likelihood.shape
        columns = {name: self[name].ravel() for name in self.names}
        columns["log_likelihood"] = self.log_likelihood.ravel()
        ranges = [range(n_chains), range(n_draws)]
        index = pandas.MultiIndex.from_product(ranges, names=["chain", "draw"])
        return pandas.DataFrame(columns, index=index)

    def to_arviz(self) -> Any:
        """Return an ArviZ DataTree: group posterior with the unit at each parameter that has one, group
        sample_stats with the log-likelihood.

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
        for name, unit in self._units().items():
            if name in self.names:
                tree["posterior"][name].attrs["units"] = unit
        attributes = {"acceptance": self.acceptance.tolist(), "notes": self.notes, **self._about()}
        tree["posterior"].attrs.update(
            {"family": self.family, "method": self.method, "seed": str(self.seed)}
            | {"complete": int(self.complete)}
            | {name: json.dumps(value) for name, value in attributes.items()}
            | {f"prior of {name}": text for name, text in self.priors.items()}
            | {f"fixed {name}": value for name, value in self.fixed.items()}
        )
        return tree

    @classmethod
    def _of(cls, draws: Any, attributes: dict[str, Any], stats: Any) -> Self:
        """Return the object of a file."""
        fixed, priors = (
            {name.removeprefix(mark): value for name, value in attributes.items() if name.startswith(mark)}
            for mark in ("fixed ", "prior of ")
        )
        fixed = {name: float(value) for name, value in fixed.items()}
        names, own = cls._known(attributes, fixed)
        names = tuple(name for name in names if name not in fixed)
        values = np.stack([draws[name].to_numpy() for name in names], axis=-1)
        return cls(
            names=names,
            draws=values,
            log_likelihood=stats["log_likelihood"].to_numpy(),
            acceptance=np.array(json.loads(attributes["acceptance"])),
            priors=priors,
            method=str(attributes["method"]),
            seed=int(attributes["seed"]),
            complete=bool(attributes["complete"]),
            notes=tuple(json.loads(attributes.get("notes", "[]"))),
            **own(values[0, 0]),
        )


@contextlib.contextmanager
def read(path: PathLike, family: str) -> Iterator[tuple[Any, dict[str, Any], Any]]:
    """Yield (draws, attributes, statistics) of a file that `Drawn.save` wrote; errors inside the block are
    reported as a bad file.

    Raises
    ------
    InputError
        The file cannot be read, or has other content; h5netcdf or xarray is not installed.
    """
    need("h5netcdf", "arviz", "NetCDF files")
    xarray = need("xarray", "arviz", "NetCDF files")
    if not Path(path).is_file():
        raise InputError(f"'{path}': there is no such file; expected what Posterior.save wrote")
    try:
        with xarray.open_datatree(path, engine="h5netcdf") as tree:
            draws, attributes = tree["posterior"].dataset.load(), dict(tree["posterior"].attrs)
            if (whose := attributes.get("family", family)) != family:
                raise InputError(
                    f"'{path}' holds draws of portable.models.{whose}, whose Posterior loads them;"
                    f" expected draws of portable.models.{family}"
                )
            stats = tree["sample_stats"].dataset.load()
        yield draws, attributes, stats
    except InputError:
        raise
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise InputError(
            f"'{path}' holds no posterior of portable.models.{family}: {type(error).__name__}: {error}"
        ) from error
