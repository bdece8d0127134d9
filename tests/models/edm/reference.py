"""Evaluate the equations of `portable.models.edm` in plain NumPy: slow, float64, all distances at once."""

import numpy as np


def embedded(columns, E, tau):
    """Return rows of the embedding, shape (n_times - (E - 1) tau, n_columns * E); the latest lag first."""
    columns = np.asarray(columns, float).reshape(len(columns), -1)
    n = len(columns) - (E - 1) * tau
    return np.stack(
        [c[(E - 1 - e) * tau : (E - 1 - e) * tau + n] for c in columns.T for e in range(E)], axis=1
    )


def knn(library, E, k, *, tau=1, points=None, Tp=0, radius=0):
    """Return distances (1) and rows of the k nearest, shape (n_rows, k)."""
    candidates = embedded(library, E, tau)
    queried = candidates if points is None else embedded(points, E, tau)
    d2 = np.zeros((len(queried), len(candidates)))
    for e in range(candidates.shape[1]):
        d2 += (queried[:, None, e] - candidates[None, :, e]) ** 2
    row = np.arange(len(candidates))
    end = row + (E - 1) * tau + Tp
    d2[:, (end < 0) | (end >= len(library))] = np.inf
    d2[np.isnan(d2)] = np.inf
    if points is None:
        d2[abs(row[:, None] - row) <= radius] = np.inf
    nearest = np.argsort(d2, axis=1, kind="stable")[:, :k]
    return np.sqrt(np.take_along_axis(d2, nearest, axis=1)), nearest


def weights(distances):
    """Return (2), divided by their sum."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.exp(-distances / distances[:, :1])
    w = np.maximum(np.where(distances[:, :1] > 0, ratio, distances == 0), 1e-6)
    return w / w.sum(axis=1, keepdims=True)


def simplex(library, target, E, *, tau=1, Tp=1, points=None, radius=0):
    """Return (3) for every row."""
    distances, nearest = knn(library, E, E + 1, tau=tau, points=points, Tp=Tp, radius=radius)
    return (weights(distances) * np.asarray(target, float)[nearest + (E - 1) * tau + Tp]).sum(axis=1)


def rho(predicted, observed):
    """Return (4), where both are known."""
    both = np.isfinite(predicted) & np.isfinite(observed)
    return np.corrcoef(predicted[both], observed[both])[0, 1]


def cross_map(dataset, dims, *, tau=1, Tp=0, radius=0):
    """Return (4) of each pair, shape (n_series, n_series)."""
    n_times, n_series = dataset.shape
    out = np.empty((n_series, n_series))
    for i in range(n_series):
        for j, E in enumerate(dims):
            times = np.arange((E - 1) * tau, n_times) + Tp
            there = (times >= 0) & (times < n_times)
            predicted = simplex(dataset[:, i], dataset[:, j], E, tau=tau, Tp=Tp, radius=radius)
            out[i, j] = rho(predicted[there], dataset[times[there], j])
    return out


def smap(library, target, E, theta, *, tau=1, Tp=1):
    """Return predictions and coefficients (5) for the rows whose target is within the series, each fitted to
    all others."""
    rows = embedded(library, E, tau)
    times = np.arange(len(rows)) + (E - 1) * tau + Tp
    there = (times >= 0) & (times < len(library))
    candidates, values = rows[there], np.asarray(target, float)[times[there]]
    solutions = []
    for i in np.flatnonzero(there):
        other = np.flatnonzero(there) != i
        d = np.sqrt(((candidates[other] - rows[i]) ** 2).sum(axis=1))
        w = np.exp(-theta * d / d.mean())
        a = np.column_stack([np.ones(other.sum()), candidates[other]]) * w[:, None]
        solutions.append(np.linalg.lstsq(a, w * values[other], rcond=None)[0])
    solutions = np.array(solutions)
    return solutions[:, 0] + (solutions[:, 1:] * candidates).sum(axis=1), solutions
