"""Find cells that should not be fitted: doublets, that is, two cells measured as one, and cells from times at
which the sample did not run evenly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...shared import check_kind, warn
from .channels import colours_of, is_clock, is_scatter
from .samples import Sample

REASONS = ("used", "doublet", "unsteady")  # index: number in `Sample.left_out`
_DOUBLET = 4.0  # deviations from the median of area over height (Emmaneel et al. 2022)
_UNSTEADY = 6.0  # deviations of a stretch of time from the median of all stretches
_CELLS, _MOST = 500, 200  # cells of a stretch, at least; stretches, at most
_FEWEST = 10  # with fewer stretches, unsteady times are not searched for
_DEVIATION = 1.4826  # standard deviation of a normal distribution, in median absolute deviations
_OF_MEDIAN = 1.2533  # standard error of a median, in standard errors of a mean
_COFACTOR = 150.0


def clean(sample: Sample) -> Sample:
    """Find doublets and times at which the sample did not run evenly; such cells are labelled -1.

    A cell is a doublet if its ratio of area to height of scatter, or its width, exceeds the median by four
    robust deviations. Cells are divided into stretches of time with equal numbers of cells. A stretch is
    unsteady if its duration, or its median in some colour, is six robust deviations away from the median of
    all stretches. A slow drift is not found, since it also increases the deviation.

    Parameters
    ----------
    sample : Sample

    Returns
    -------
    Sample
        The sample with `left_out` set.

    Warns
    -----
    RuntimeWarning
        There is no height or width of scatter, or no time, or there are too few cells to check time.

    References
    ----------
    A. Emmaneel et al.: PeacoQC: peak-based selection of high quality cytometry data. Cytometry A 101 (2022),
    325.
    """
    check_kind(sample, "sample", Sample, "be cytometry.Sample")
    found, shape = np.zeros(sample.n_cells, np.int8), _shape(sample)
    seen = np.isfinite(shape)
    if not seen.any():
        warn(f"{sample.name} has no height or width of scatter; doublets are not removed")
    else:
        usual = shape[seen]
        found[seen] = usual - np.median(usual) > _DOUBLET * _spread(usual)
    found[_unsteady(sample) & (found == 0)] = 2
    return replace(sample, left_out=found)


def _shape(sample):
    """Return area over height of the first scatter that has both, or its width; NaN if neither is known, or
    area or height is not positive."""
    places = {name.strip().upper(): place for place, name in enumerate(sample.channels) if is_scatter(name)}
    for name, place in places.items():
        height = places.get(f"{name[:-1]}H")
        if name.endswith("A") and height is not None:
            area, height = (sample.X[:, at].astype(np.float64) for at in (place, height))
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.where((area > 0.0) & (height > 0.0), area / height, np.nan)
        if name.endswith("W"):
            return sample.X[:, place].astype(np.float64)
    return np.full(sample.n_cells, np.nan)


def _spread(values):
    """Return the robust standard deviation of values along the first axis."""
    return _DEVIATION * np.median(np.abs(values - np.median(values, axis=0)), axis=0)


def _ordered(sample):
    """Return times, and the cells whose times are known in their order; none, with a warning, if these are
    too few."""
    clock = next((place for place, name in enumerate(sample.channels) if is_clock(name)), None)
    time = np.full(sample.n_cells, np.nan) if clock is None else sample.X[:, clock].astype(np.float64)
    order = np.argsort(time, kind="stable")  # NaN comes last
    order = order[np.isfinite(time[order])]
    if len(order) >= _FEWEST * _CELLS:
        time[order] = _within_ticks(time[order])
        return time, order
    why = "no time" if clock is None else f"{len(order)} cells, fewer than {_FEWEST * _CELLS}"
    warn(f"{sample.name} has {why}; unsteady times are not removed")
    return time, order[:0]


def _unsteady(sample):
    """Return a mask of the cells in unsteady stretches."""
    found, (time, order) = np.zeros(sample.n_cells, bool), _ordered(sample)
    if not len(order):
        return found
    light = np.arcsinh(np.nan_to_num(sample.X[:, colours_of(sample.channels)]) / _COFACTOR)
    parts = np.array_split(order, min(len(order) // _CELLS, _MOST))
    middles, errors, took = map(np.array, zip(*(_looked_at(light[part], time[part]) for part in parts)))
    took = np.log(np.maximum(took, np.median(took) * 1e-3) + np.finfo(float).tiny)
    for values, error in ((middles, np.median(errors, axis=0)), (took[:, None], len(parts[0]) ** -0.5)):
        away = np.abs(values - np.median(values, axis=0)) / np.maximum(_spread(values), error)
        for part, odd in zip(parts, (away > _UNSTEADY).any(axis=1)):
            found[part] |= odd
    return found


def _within_ticks(time):
    """Return ascending times with those of one tick of the clock spread over it: else a stretch within a tick
    would have no duration."""
    values, first, counts = np.unique(time, return_index=True, return_counts=True)
    tick = np.diff(values).min(initial=np.ptp(time))
    most = np.maximum(counts, np.median(counts))  # the last tick may end early
    return time + tick * (np.arange(len(time)) - np.repeat(first, counts)) / np.repeat(most, counts)


def _looked_at(light, time):
    """Return the medians of a stretch, their standard errors, and the stretch's duration."""
    return np.median(light, axis=0), light.std(axis=0) * _OF_MEDIAN / np.sqrt(len(light)), float(np.ptp(time))
