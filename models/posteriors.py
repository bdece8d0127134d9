"""What posteriors of the families share: summaries, and NetCDF files, by ArviZ."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from portable.errors import InputError

from .annotations import PathLike
from .extras import need
from .files import replacing


def summary(draws: np.ndarray) -> dict[str, float]:
    """Moments, quantiles and diagnostics of the draws of a parameter, shape (chains, draws).

    Raises
    ------
    InputError
        ArviZ is not installed.
    """
    stats = need("arviz_stats", "arviz", "posterior summaries")
    low, high = np.quantile(draws, [0.025, 0.975])
    found = {
        "mean": draws.mean(),
        "sd": draws.std(ddof=1),
        "q2.5": low,
        "q97.5": high,
        "r_hat": stats.rhat(draws),
        "ess_bulk": stats.ess(draws, method="bulk"),
        "ess_tail": stats.ess(draws, method="tail", prob=(0.05, 0.95)),
        "mcse": stats.mcse(draws, method="mean"),
    }
    return {key: float(value) for key, value in found.items()}


def write(posterior: Any, path: PathLike) -> None:
    """Write what `posterior.to_arviz()` gives; a file that is there is replaced when all is written.

    Raises
    ------
    InputError
        ArviZ or h5netcdf is not installed.
    StorageError
        The file cannot be written.
    """
    need("h5netcdf", "arviz", "NetCDF files")
    with replacing(path, "path") as beside:
        posterior.to_arviz().to_netcdf(beside, engine="h5netcdf")


@contextlib.contextmanager
def read(path: PathLike, family: str) -> Iterator[tuple[Any, dict[str, Any], Any]]:
    """The draws (an xarray Dataset), what was told of them, and the Dataset of their log-likelihoods, of a
    file that `write` wrote; what goes wrong while they are used is the file's fault, too.

    Raises
    ------
    InputError
        It cannot be read, or holds something else; h5netcdf or xarray is not installed.
    """
    need("h5netcdf", "arviz", "NetCDF files")
    xarray = need("xarray", "arviz", "NetCDF files")
    if not Path(path).is_file():
        raise InputError(f"'{path}': there is no such file; what Posterior.save wrote is wanted")
    try:
        with xarray.open_datatree(path, engine="h5netcdf") as tree:
            draws, told = tree["posterior"].dataset.load(), dict(tree["posterior"].attrs)
            stats = tree["sample_stats"].dataset.load()
        yield draws, told, stats
    except InputError:
        raise
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise InputError(
            f"'{path}' holds no posterior of models.{family}: {type(error).__name__}: {error}"
        ) from error
