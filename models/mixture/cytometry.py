"""Cells by flow cytometry: from raw channels to points that a mixture can be fitted to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from portable.errors import InputError, ShapeError, printable

from ..checks import check_number
from ..files import check_file, numbers, read_csv, read_npz
from .checks import check_points

_NO_COLOURS = ("FSC", "SSC", "TIME")  # scatter and time, which say little about the kind of a cell


@dataclass(frozen=True)
class Cells:
    """Transformed cells.

    Parameters
    ----------
    points : ndarray, shape (n_cells, n_colours)
        arcsinh(raw / cofactor), standardised.
    names : list of str
        Of the columns: the marker, or the channel where it has none.
    centres, scales : ndarrays, shape (n_colours,)
        Mean and standard deviation of arcsinh(raw / cofactor).
    n_saturated : int
        Cells left out.
    """

    points: np.ndarray
    names: list
    centres: np.ndarray
    scales: np.ndarray
    n_saturated: int


def read(path):
    """Raw cells, channels and markers.

    Parameters
    ----------
    path : str or Path
        A .npz file with X, shape (n_cells, n_channels), and `channels`, and `markers` if known; or a .csv file whose first
        line names the channels.

    Returns
    -------
    X, channels, markers
    """
    if check_file(path, (".npz", ".csv", ".csv.gz")) == ".npz":
        data = read_npz(path, lambda names: [name for name in names if name in ("X", "channels", "markers")])
        if "X" not in data or "channels" not in data:
            raise InputError(f"'{path}' holds {', '.join(sorted(data)) or 'nothing'}; 'X' and 'channels' are wanted")
        X, channels = data["X"], [printable(name).strip() for name in np.ravel(data["channels"])]
        markers = [printable(name).strip() for name in np.ravel(data.get("markers", [""] * len(channels)))]
    else:
        columns = read_csv(path)
        channels, markers = list(map(printable, columns)), [""] * len(columns)
        if not all(channels):
            raise InputError(f"'{path}', cell {channels.index('') + 1} of the header is empty; names of channels are wanted")
        X = np.column_stack([numbers(column, name, path) for name, column in columns.items()] or [[]])
    if X.ndim != 2 or X.shape[1] != len(channels) or len(markers) != len(channels):
        raise ShapeError(f"'{path}': X has shape {X.shape}, but there are {len(channels)} channels and {len(markers)} markers")
    return X, channels, markers


def transform(X, channels, markers, *, cofactor=150.0, saturation=262143.0):
    """Colour channels of the cells that are saturated in no channel, as arcsinh(x / cofactor), standardised.

    Parameters
    ----------
    X : array-like, shape (n_cells, n_channels)
    channels, markers : lists of str
        Channels named FSC, SSC or Time are left out.
    cofactor : float, channel units
        Below it the transformation is nearly linear, above nearly logarithmic.
    saturation : float, channel units
        What a detector gives at its limit.

    Returns
    -------
    Cells
    """
    X = check_points(X).astype(np.float64)
    check_number(cofactor, "cofactor", above=0.0)
    check_number(saturation, "saturation")
    colours = [c for c, name in enumerate(channels) if not name.upper().startswith(_NO_COLOURS)]
    if not colours:
        raise InputError(f"channels are {channels}: none of them is a colour")
    good = (X < saturation).all(axis=1)
    if not good.any():
        raise InputError(f"every cell reaches the saturation of {saturation} in some channel")
    colour = np.arcsinh(X[good][:, colours] / cofactor)
    centres, scales = colour.mean(axis=0), colour.std(axis=0)
    names = [markers[c] or channels[c] for c in colours]
    still = [name for name, scale in zip(names, scales) if scale == 0.0]
    if still:
        raise InputError(f"all cells have the same {', '.join(still)}; leave such channels out")
    return Cells((colour - centres) / scales, names, centres, scales, int((~good).sum()))
