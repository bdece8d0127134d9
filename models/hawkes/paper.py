"""The table of Holbrook et al. (2021), from the files that they analysed."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from portable.errors import InputError

from .files import read_events
from .likelihood import Likelihood
from .sampler import sample_posterior

# What the paper prints: file, its name for it, and (quantity, unit, factor from ours, mean, lower, upper).
_H, _DELAY = ("h", "m", 1000.0), ("1/omega", "min", 60.0)
PRINTED = (
    ("dc_gunfire_no_holidays_54582.csv.gz", "full", ((*_H, 69.5, 68.5, 70.8), (*_DELAY, 1.0, 0.98, 1.04),
                                                      ("theta", "", 1.0, 0.153, 0.150, 0.156))),
    ("dc_gunfire_with_holidays_84296.csv.gz", "full+holidays", (("theta", "", 1.0, 0.344, 0.340, 0.348),)),
)


@dataclass(frozen=True)
class Row:
    """A quantity as printed and as found."""

    data: str
    quantity: str
    unit: str
    printed: tuple
    found: dict
    long: dict | None
    attainable: float  # effective draws
    seconds: float  # of sampling the data set, the search for the mode included

    def cells(self):
        """For a table; a mean outside the printed interval is marked. With a long run, its mean and how far off ours is."""
        mean, low, high = self.printed
        mark = "" if low <= self.found["mean"] <= high else " OUTSIDE"
        cells = [f"{self.data}\n{self.quantity}" + f" ({self.unit})" * bool(self.unit), f"{mean}\n({low}, {high})",
                 f"{self.found['mean']:.4g}{mark}\n({self.found['q2.5']:.4g}, {self.found['q97.5']:.4g})",
                 f"{self.found['ess_bulk']:,.0f}\n{self.attainable:,.0f}", f"{self.found['r_hat']:.3f}", f"{self.seconds:.3g}"]
        if self.long:
            error = math.hypot(self.found["mcse"], self.long["mcse"])
            cells[1] += f"\nlong {self.long['mean']:.4g}"
            cells[2] += f"\n{(self.found['mean'] - self.long['mean']) / error:+.1f} s.e. off"
        return cells


def reproduce(folder, *, space=None, seed=0, thin=1, longer=0):
    """Sample both data sets as the paper did.

    Parameters
    ----------
    folder : Path
        Holds hawkes/dc_gunfire_*.csv.gz.
    space : str or Space, optional
    seed, thin : int
    longer : int
        If not 0, also sample chains so many times as long, with another seed.

    Returns
    -------
    list of Row
    """
    rows = []
    for file, name, quantities in PRINTED:
        path = Path(folder) / "hawkes" / file
        if not path.exists():
            raise InputError(f"data: '{path}' does not exist; name the folder that holds hawkes/{file}")
        likelihood = Likelihood(*_quietly(path), space=space)
        sample_posterior(likelihood, n_draws=100, n_warmup=0, seed=seed)  # compiles, and sums the background, which stays
        begin = time.perf_counter()
        posterior = sample_posterior(likelihood, thin=thin, seed=seed)
        seconds = time.perf_counter() - begin
        long = sample_posterior(likelihood, n_draws=10_000 * longer, seed=seed + 1) if longer else None
        for quantity, unit, factor, *printed in quantities:
            found, reference = (_scaled(p, quantity, factor) if p else None for p in (posterior, long))
            could = attainable(posterior, thin)[quantity.removeprefix("1/")]
            rows.append(Row(name, quantity, unit, tuple(printed), found, reference, could, seconds))
    return rows


def attainable(posterior, thin=1):
    """The effective draws that Algorithm 1 gives of each parameter where the posterior is normal.

    The best normal proposal in one dimension, accepted at 0.44, has an autocorrelation time of 4.35 updates. An update takes
    its parameter so much nearer to the mean that the d - 1 others imply; with one in d drawn at random, the time in steps is

        (4.35 + 1) d w_i - 1,    w_i = sum_k S_ik^2 (S^-1)_kk / S_ii,

    for the covariance S of the posterior: w_i is 1 without correlation, and greater with it.

    Parameters
    ----------
    posterior : Posterior
    thin : int
        Steps a draw; as long as they are few beside that time.

    Returns
    -------
    dict
        By parameter, for as many steps as the posterior's draws took.
    """
    draws = posterior.draws.reshape(-1, len(posterior.free))
    covariance = np.atleast_2d(np.cov(draws.T))
    w = covariance**2 @ np.diag(np.linalg.inv(covariance)) / np.diag(covariance)
    return dict(zip(posterior.free, thin * len(draws) / ((4.35 + 1.0) * len(w) * w - 1.0)))


def _quietly(path):
    """The events; that some repeat others is known here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return read_events(path)


def _scaled(posterior, quantity, factor):
    row = posterior.summary([quantity])[quantity]
    return {key: value * (1.0 if key in ("r_hat", "ess_bulk", "ess_tail") else factor) for key, value in row.items()}
