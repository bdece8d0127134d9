"""Compare how far populations of cells without labels agree between fits.

The two files of cells below PORTABLE_DATA are fitted, or a simulated panel if there are none, at most 20,000
cells of each, drawn at random: the mean adjusted Rand index of the labels of all these cells between fits
from ten seeds, and between fits to the two halves of the cells, five times. k-means is given the median
number of populations that ours found. The times are those of one fit.

`--n` sets the most cells of a file. With --quick there are two seeds and one pair of halves.
"""

import itertools
import os
from pathlib import Path

import numpy as np

from portable.models.mixture import cytometry
from portable.models.mixture.fitting import agreement
from portable.roofline.cases import common
from portable.roofline.cases.cytometry import OURS, fit_options

CELLS, SEEDS, HALVES = 20_000, 10, 5
FILES = {  # how to read their numbers: whether the instrument compressed them, and the channels
    "flowkit_100715": {},
    "fcm_3FITC_4PE_004": {"transform": "none", "channels": ("FSC-H", "SSC-H", "FL1-H", "FL2-H")},
}


class File:
    """Fit cells without labels by each contender.

    Parameters
    ----------
    sample : Sample
    most : int
        The most cells, drawn at random.
    seeds, halves : int
        Fits of all cells, and pairs of fits of halves.
    options : dict
        Options of the panel.
    fits : dict
        Options of our fits.

    Attributes
    ----------
    ways : dict of callables of (cells to fit, seed), by contender
        Each returns the labels of all cells.
    """

    def __init__(self, sample, most, seeds, halves, options, fits):
        if most < sample.n_cells:
            sample = sample.take(np.random.default_rng(0).choice(sample.n_cells, most, replace=False))
        self.panel = cytometry.Panel.of([sample], **options)
        points, good = self.panel.points(sample)
        self.sample, self.X, self.all = sample.take(good), points[good], np.arange(good.sum())
        self.seeds, self.halves, self._fits, self._numbers = seeds, halves, fits, []
        self.ways = {OURS: self._ours}

    def number(self):
        """Return the number of populations that ours found, the median of its fits."""
        return int(np.median(self._numbers))

    def _ours(self, use, seed):
        found = cytometry.fit([self.sample.take(use)], panel=self.panel, seed=seed, **self._fits)
        self._numbers.append(found.n_populations)
        return found.predict(self.sample).population

    def describe_fits(self, rows):
        """Fit from all seeds and to all halves; return a line on the mean adjusted Rand indices of all
        contenders."""
        found = []
        for name, labels in self.ways.items():
            whole = [labels(self.all, seed) for seed in range(self.seeds)]
            of_seeds = [agreement(*pair) for pair in itertools.combinations(whole, 2)]
            of_halves = []
            for q in range(self.halves):
                halves = np.array_split(np.random.default_rng(q).permutation(self.all), 2)
                of_halves.append(agreement(*(labels(half, 0) for half in halves)))
            found.append(
                f"{name}: {np.mean(of_seeds):.3f} between seeds, {np.mean(of_halves):.3f} between halves"
            )
        return f"{self.number()} populations (median); agreement {'; '.join(found)}"


def duels(space, n, quick):
    """Return the duels of ours with each peer; see `portable.roofline.cases.Case`."""
    folder = Path(os.environ.get("PORTABLE_DATA", Path(__file__).parents[3] / "shared" / "data")) / "mixture"
    paths = {folder / f"{name}.npz": options for name, options in FILES.items()}
    samples = [(cytometry.read(path), options) for path, options in paths.items() if path.exists()]
    samples = samples or [(cytometry.simulate()[0][0], {})]
    return [_duel(space, n, quick, *own) for own in samples]


def _duel(space, most, quick, sample, options):
    cells, *counts = (600, 2, 1) if quick else (CELLS, SEEDS, HALVES)
    file = File(sample, most or cells, *counts, options, fit_options(space, quick))
    n, p = file.X.shape
    title = f"{sample.name}: {n:,} cells, {p} channels, {file.seeds} seeds and {2 * file.halves} halves"
    return common.duel(
        title,
        space,
        lambda: file.ways[OURS](file.all, 0),
        "cytometry_files",
        file,
        tools=["sklearn"],
        rounds=1,
        told=file.describe_fits,
    )
