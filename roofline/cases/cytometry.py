"""Compare methods that find populations of cells without their number: quality, also for rare ones, and time.

Twenty panels are simulated (`portable.models.mixture.cytometry.simulate`), none of which was used for tuning:
10 to 30 populations in 8 to 14 markers, 50,000 cells, three populations of 0.1 %, shares of the others from a
Dirichlet distribution; populations descend from each other with one to three markers changed, so neighbours
overlap. Ours is given the sample as an instrument writes it. The peers are given its compensated, transformed
points and the true number of populations: scikit-learn's GaussianMixture, best of 10 starts, and k-means in
the manner of FlowSOM, 100 clusters (best of 10 starts) whose means are joined by average linkage. Quality is
the adjusted Rand index with the true populations of the cells; a population of 0.1 % is found if a cluster
has at least half of its cells, which are at least half of the cluster's.

`--n` sets the cells of a panel. With --quick there is one small panel.
"""

from dataclasses import dataclass

import numpy as np

from portable.models.mixture import cytometry
from portable.models.mixture.fitting import agreement
from portable.roofline.cases import common

PANELS = range(100, 120)  # the method was tuned on panels below 10
CELLS, N_RARE, RARE = 50_000, 3, 0.001
OURS = "portable"


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
    return [_on_panel(space, number, n_cells, small, tally) for number in (PANELS[:1] if small else PANELS)]


def fit_options(space, small):
    """Return the options of our fits."""
    return {"n_components": 6 if small else 60, "max_iter": 3 if space == "checked" else 1000, "space": space}


def _on_panel(space, number, n_cells, small, tally):
    sample, problem = panel(number, n_cells, small)
    found = {}

    def fit():
        labels = cytometry.fit([sample], **fit_options(space, small)).predict(sample)
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
