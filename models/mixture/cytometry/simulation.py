"""Simulate samples with known populations, as an instrument would measure them."""

from __future__ import annotations

import numpy as np

from ...shared import InputError, check_count, generator_of
from .samples import Sample

MARKERS = "CD3 CD4 CD8 CD19 CD56 CD14 CD16 CD27 CD45RO CCR7 HLA-DR CD38 CD25 CD127 CXCR5 PD-1".split()
_DETECTORS = (
    "B530-A V450-A R780-A G575-A G780-A V525-A B710-A R660-A "
    "V605-A V655-A V705-A R710-A G610-A V780-A G660-A G710-A"
).split()
RANGE = 262144.0  # range of an instrument with 18 bits
# Mean intensities of cells without a marker, and of cells with it from dim to bright.
_LEVELS = (0.0, 10.0**2.6, 10.0**3.4, 10.0**4.2)
_CHANGED = (1, 3)  # least and largest number of markers in which a population differs from its ancestor
_OFFSET, _JITTER = 0.2, 0.1  # log10: shift of a marker's levels, and deviation of a population's
_SPREAD = (0.1, 0.3)  # log10: deviation of the cells of a population in a marker
_SIZE = 0.1  # log10: deviation of the size of cells, which affects all markers
_SKEW = 4.0  # largest shape parameter of a skew normal distribution
_FLOOR, _PHOTONS = 30.0, 6.0  # noise: deviation without light, variance per unit of light
_SPILL, _SPILLS = 0.08, 0.4  # spillover: largest share of light; share of pairs of detectors


def simulate(
    *,
    n_cells: int = 20_000,
    n_populations: int = 12,
    n_markers: int = 10,
    n_rare: int = 2,
    rare: float = 0.001,
    n_samples: int = 1,
    seed: int = 0,
) -> tuple[list[Sample], list[np.ndarray]]:
    """Simulate samples of one panel, not compensated, and return them with the population of each cell.

    Populations differ in the levels of the markers that they carry. The logarithms of their cells'
    intensities have a skew distribution about a mean; light spills over to other detectors, and is counted
    with noise. Shares of populations vary between samples, except for those of the rare ones.

    Parameters
    ----------
    n_cells : int
        Number of cells of each sample.
    n_populations : int
    n_markers : int, 3 to 16
    n_rare : int
        Number of rare populations, the last ones, which have the share `rare` each.
    rare : float
    n_samples : int
    seed : int, default 0

    Returns
    -------
    samples : list of Sample
        FSC-A, SSC-A, the markers' detectors and Time, with the spillover matrix.
    populations : list of ndarrays, shape (n_cells,)

    Raises
    ------
    InputError
        A count is out of its range.
    """
    check_count(n_cells, "n_cells")
    check_count(n_samples, "n_samples")
    _check_populations(n_populations, n_markers, n_rare, rare)
    random = generator_of(seed)
    light = _stained(random, n_populations, n_markers)
    common = random.dirichlet(np.full(n_populations - n_rare, 1.5))
    measured = _instrument(random, n_populations, n_markers)
    samples, populations = [], []
    for number in range(n_samples):
        shares = common if n_samples == 1 else random.dirichlet(40.0 * common)
        own = random.choice(n_populations, n_cells, p=_with_rare(shares, n_rare, rare))
        samples.append(measured(own, light(own), f"simulated{number + 1}"))
        populations.append(own)
    return samples, populations


def _check_populations(n_populations, n_markers, n_rare, rare):
    check_count(n_markers, "n_markers", 3, len(MARKERS))
    check_count(n_populations, "n_populations", 1, 3 ** (n_markers - 1))
    if not 0 <= n_rare < n_populations or not 0.0 <= n_rare * rare < 1.0:
        raise InputError(
            f"n_rare is {n_rare} and rare {rare}; expected fewer than n_populations ({n_populations}), "
            "whose shares add up to less than 1"
        )


def _stained(random, n_populations, n_markers):
    """Make a function that draws the light of cells from the numbers of their populations, shape (n_cells,
    n_markers).

    Each population has a level in each marker, and, on a log10 scale, its cells' mean relative to the level,
    their deviation, and the shape of a skew normal distribution.
    """
    levels = _patterns(random, n_populations, n_markers)
    offset = random.uniform(-_OFFSET, _OFFSET, n_markers)
    centre = offset + random.normal(0.0, _JITTER, levels.shape)
    spread = random.uniform(*_SPREAD, levels.shape)
    shape = random.uniform(-_SKEW, _SKEW, levels.shape)

    def light(own):
        skewed = _skew_normal(random, shape[own])
        size = _SIZE * random.normal(size=(len(own), 1))
        return np.array(_LEVELS)[levels[own]] * 10.0 ** (centre[own] + spread[own] * skewed + size)

    return light


def _instrument(random, n_populations, n_markers):
    """Make a function that returns the measurements of cells as a Sample, given their populations and their
    light."""
    scatter = random.uniform((4e4, 1e4), (1.2e5, 9e4), (n_populations, 2))
    shares = np.triu(random.uniform(0.0, _SPILL, (n_markers, n_markers)), 1)
    spill = np.eye(n_markers) + shares * (random.random(shares.shape) < _SPILLS)
    channels = "FSC-A", "SSC-A", *_DETECTORS[:n_markers], "Time"
    markers = "", "", *MARKERS[:n_markers], ""

    def sample(own, light, name):
        seen = light @ spill
        seen += np.sqrt(_FLOOR**2 + _PHOTONS * seen) * random.normal(size=seen.shape)
        body = scatter[own] * np.exp(0.12 * random.normal(size=(len(own), 2)))
        time = np.sort(random.uniform(0.0, 6000.0, len(own)))
        X = np.minimum(np.column_stack([body, seen, time]), RANGE - 1.0).astype(np.float32)
        limits = np.full(len(channels), RANGE - 1.0)
        return Sample(X, channels, markers, name, limits, (channels[2:-1], spill))

    return sample


def _with_rare(shares, n_rare, rare):
    """Return the shares of all populations; the common ones are at least twice as frequent as the rare
    ones."""
    shares = np.maximum(shares, 2.0 * rare)
    return np.append(shares * ((1.0 - n_rare * rare) / shares.sum()), np.full(n_rare, rare))


def _patterns(random, n_populations, n_markers):
    """Return the levels of the markers of each population, shape (n_populations, n_markers): each population
    except the first is a copy of an earlier one with some markers changed, as cells descend from each
    other."""
    found = random.integers(0, len(_LEVELS), (1, n_markers))
    while len(found) < n_populations:
        new = found[random.integers(len(found))].copy()
        changed = random.choice(n_markers, random.integers(*_CHANGED, endpoint=True), replace=False)
        new[changed] = random.integers(0, len(_LEVELS), len(changed))
        if (found != new).any(axis=1).all():
            found = np.vstack([found, new])
    return found


def _skew_normal(random, shape):
    """Draw skew normal numbers of mean 0 and variance 1 (Azzalini 1985)."""
    delta = shape / np.sqrt(1.0 + shape * shape)
    one, other = random.normal(size=(2, *shape.shape))
    middle = delta * np.sqrt(2.0 / np.pi)
    drawn = delta * np.abs(one) + np.sqrt(1.0 - delta * delta) * other
    return (drawn - middle) / np.sqrt(1.0 - middle * middle)
