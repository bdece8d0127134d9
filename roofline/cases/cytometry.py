"""Compare methods that find populations of cells without their number: quality, also for rare ones, and time.

Twenty panels are simulated (`portable.models.mixture.cytometry.simulate`), none of which was used for tuning:
10 to 30 populations in 8 to 14 markers, 50,000 cells, three populations of 0.1 %, shares of the others from a
Dirichlet distribution; populations descend from each other with one to three markers changed, so neighbours
overlap. Ours is given the sample as an instrument writes it. The peers are given its compensated, transformed
points and the true number of populations: scikit-learn's GaussianMixture, best of 10 starts, and k-means in
the manner of FlowSOM, 100 clusters (best of 10 starts) whose means are joined by average linkage. Quality is
the adjusted Rand index with the true populations of the cells; a population of 0.1 % is found if a cluster
has at least half of its cells, which are at least half of the cluster's.

The two files of cells below PORTABLE_DATA follow, which have no labels: the mean adjusted Rand index of the
labels of all cells between fits from ten seeds, and between fits to the two halves of the cells, five times.
k-means is given the number that ours found.

`--n` sets the cells of a panel and the most cells of a file. With --quick there is one small panel, two seeds
and one pair of halves.
"""

import functools
import itertools
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from portable.models.mixture import cytometry
from portable.models.mixture.fitting import agreement
from portable.roofline.cases import common

PANELS = range(100, 120)  # the method was tuned on panels below 10
CELLS, N_RARE, RARE = 50_000, 3, 0.001
SEEDS, HALVES = 10, 5
OURS = "portable"
FILES = {  # how to read their numbers: whether the instrument compressed them, and the channels
    "flowkit_100715": {},
    "fcm_3FITC_4PE_004": {"transform": "none", "channels": ("FSC-H", "SSC-H", "FL1-H", "FL2-H")},
}


@dataclass(frozen=True)
class Problem:
    """Store points, shape (n, p), with the population of each; the last `n_rare` of `k` are rare."""

    X: np.ndarray
    labels: np.ndarray
    k: int
    n_rare: int


def panel(number: int, n_cells: int = CELLS, small: bool = False) -> tuple[cytometry.Sample, Problem]:
    """Return the panel of a number: the input of ours, and the input of the peers."""
    place = number - PANELS[0]
    k, p, n_rare, rare = (
        (4, 4, 1, 0.05)
        if small
        else (10 + round(20 * place / (len(PANELS) - 1)), 8 + number % 7, N_RARE, RARE)
    )
    samples, labels = cytometry.simulate(
        seed=number, n_cells=n_cells, n_populations=k, n_markers=p, n_rare=n_rare, rare=rare
    )
    points, good = cytometry.Panel.of(samples).points(samples[0])
    return samples[0], Problem(points[good], labels[0][good], k, n_rare)


def n_found(labels: np.ndarray, problem: Problem) -> int:
    """Return the number of rare populations with a separate cluster."""
    found = 0
    for population in range(problem.k - problem.n_rare, problem.k):
        own = problem.labels == population
        clusters, shared = np.unique(labels[own], return_counts=True)
        largest = clusters[shared.argmax()]
        found += bool(2 * shared.max() >= max(own.sum(), (labels == largest).sum()))
    return found


def duels(space, n, quick):
    """Return the duels of ours with each peer; see `portable.roofline.cases.Case`."""
    small = quick or space == "checked"
    n_cells = n or (300 if space == "checked" else 600 if quick else CELLS)
    tally = common.Tally("rare")
    found = [_on_panel(space, number, n_cells, small, tally) for number in (PANELS[:1] if small else PANELS)]
    if space != "checked":
        found += [
            _on_file(space, path, n or (600 if quick else None), quick, options) for path, options in _files()
        ]
    return found


def _options(space, small):
    return {"n_components": 6 if small else 60, "max_iter": 3 if space == "checked" else 1000, "space": space}


def _on_panel(space, number, n_cells, small, tally):
    sample, problem = panel(number, n_cells, small)
    found = {}

    def fit():
        labels = cytometry.fit([sample], **_options(space, small)).predict(sample)
        found["labels"] = labels.population[labels.population >= 0]

    def judge(labels, name):
        rare, clusters = n_found(labels, problem), len(np.unique(labels))
        index, words = agreement(labels, problem.labels), f"{clusters}, rare {rare}"
        return tally.keep(number, name, index, words, rare, problem.n_rare)

    n, p = problem.X.shape
    title = f"panel {number}: {n:,} cells, {p} markers, {problem.k} populations, {problem.n_rare} rare"
    return common.duel(
        title,
        space,
        fit,
        "cytometry",
        problem,
        judge,
        result=lambda: judge(found["labels"], OURS),
        tools=["sklearn"],
        options={"starts": 2 if small else 10},
        tolerance=10.0,
        rounds=1,
        told=lambda rows: f"{problem.k} populations; {tally.lines_told(number)}",
    )


def _files():
    folder = Path(os.environ.get("PORTABLE_DATA", Path(__file__).parents[3] / "shared" / "data")) / "mixture"
    return [
        (folder / f"{name}.npz", options)
        for name, options in FILES.items()
        if (folder / f"{name}.npz").exists()
    ]


class _File:
    """Compare the fits of each contender to cells without labels.

    Parameters
    ----------
    path : Path
    most : int or None
        The most cells, drawn at random.
    seeds, halves : int
        Fits of all cells, and pairs of fits of halves.
    options : dict
        Options of the panel.
    """

    def __init__(self, path, most, seeds, halves, options):
        sample = cytometry.read(path)
        if most is not None and most < sample.n_cells:
            sample = sample.take(np.random.default_rng(0).choice(sample.n_cells, most, replace=False))
        self.panel = cytometry.Panel.of([sample], **options)
        points, good = self.panel.points(sample)
        self.sample, self.X, self.seeds = sample.take(good), points[good], seeds
        self.halves = [
            np.array_split(np.random.default_rng(q).permutation(good.sum()), 2) for q in range(halves)
        ]
        self._agreements, self._numbers = {}, []

    def number(self):
        """Return the number of populations that ours found, the median of its fits."""
        return int(np.median(self._numbers))

    def judge(self, labels, name):
        """Store the agreement of a contender's fits; `labels` is called with the cells to fit, and a seed,
        and returns the labels of all cells."""
        self._agreements[name] = mean_agreement(labels, np.arange(len(self.X)), self.seeds, self.halves)

    def ours(self, use, seed, **options):
        """Return the labels of all cells from a fit to some of them."""
        found = cytometry.fit([self.sample.take(use)], panel=self.panel, seed=seed, **options)
        self._numbers.append(found.n_populations)
        return found.predict(self.sample).population

    def describe_fits(self, rows):
        """Return a line on all contenders."""
        return f"{self.number()} populations (median); agreement " + "; ".join(
            f"{name}: {seeds:.3f} between seeds, {halves:.3f} between halves"
            for name, (seeds, halves) in self._agreements.items()
        )


def _on_file(space, path, most, quick, options):
    file = _File(path, most, *((2, 1) if quick else (SEEDS, HALVES)), options)

    def fit():
        file.judge(functools.partial(file.ours, **_options(space, quick)), OURS)

    n, p = file.X.shape
    title = f"{path.stem}: {n:,} cells, {p} channels, {file.seeds} seeds and {2 * len(file.halves)} halves"
    about = {"tools": ["sklearn"], "rounds": 1, "told": file.describe_fits}
    return common.duel(title, space, fit, "cytometry_files", file, **about)


def mean_agreement(labels, use, seeds: int, halves) -> tuple[float, float]:
    """Return the mean adjusted Rand indices of the labels of all cells between fits from several seeds, and
    between fits to halves.

    Parameters
    ----------
    labels : callable of (cells to fit, seed)
        Returns the labels of all cells.
    use : ndarray of int
        All cells.
    seeds : int
    halves : list of pairs of ndarrays of int
    """
    whole = [labels(use, seed) for seed in range(seeds)]
    of_seeds = [agreement(one, other) for one, other in itertools.combinations(whole, 2)]
    of_halves = [agreement(labels(one, 0), labels(other, 0)) for one, other in halves]
    return float(np.mean(of_seeds)), float(np.mean(of_halves))
