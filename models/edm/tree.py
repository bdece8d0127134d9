"""Neighbours by a k-d tree on the host, if it is faster than the distances of all pairs."""

import time
import timeit

import numpy as np

import portable as pk

from ..shared import launch
from . import point_kernels

# smallest number of candidates and points for a tree: below, it saves at most a fifth of the time
FEWEST = 16_000
MOST_DIMS = 10
SAMPLE = 64  # points of the timed search by a tree
KERNEL = 512  # points of the timed search by the kernel, which is run twice, as the first may compile


def may_serve(n_candidates, n_points, n_coordinates):
    """Return True if a tree may be faster, by the numbers of candidates, points and coordinates."""
    return min(n_candidates, n_points) >= FEWEST and n_coordinates <= MOST_DIMS


def build(candidates, points, k, workers, search):
    """Return a tree if it will be faster than the kernel, else None, by timing both on a few points.

    The speed of a tree depends on the dimension of the set that contains the points, a property of the
    series rather than of E.

    candidates, points : shape (n_coordinates, n)
    search : callable (n), which searches for n points by the kernel, and returns when it has finished
    """
    try:
        from scipy.spatial import cKDTree
    except ImportError:
        return None
    n_points = points.shape[1]
    begin = time.perf_counter_ns()
    tree = cKDTree(candidates.T)
    built = time.perf_counter_ns()
    tree.query(points[:, :: max(1, n_points // SAMPLE)].T, k=k + 1)
    queried = time.perf_counter_ns()
    of_tree = built - begin + (queried - built) * n_points / SAMPLE / workers
    some = min(timeit.repeat(lambda: search(KERNEL), timer=time.perf_counter_ns, number=1, repeat=2))
    return tree if of_tree < some * n_points / KERNEL else None


def nearest(tree, candidates, points, times, point_times, radius, k, workers):
    """Return distances and times of the k nearest, bit-identical to those of the kernel: ties in the order of
    times.

    times, point_times : times of candidates and points; candidates within `radius` of a point are excluded
    """
    n = candidates.shape[1]
    distances, found = np.empty((points.shape[1], k)), np.empty((points.shape[1], k), np.int64)
    open_rows = np.arange(points.shape[1])
    asked = k + 2 + (2 * radius + 1 if radius >= 0 else 0)
    while open_rows.size:
        asked = min(asked, n)
        _, near = tree.query(points[:, open_rows].T, k=asked, workers=workers)
        near = near.reshape(len(open_rows), asked)
        d = np.empty(near.shape)
        launch(near.shape, point_kernels.measure_listed, candidates, points, open_rows, near, d)
        pk.fence()
        farthest = d.max(axis=1)
        d[abs(times[near] - point_times[open_rows, None]) <= radius] = np.inf
        order = np.lexsort((near, d), axis=1)[:, :k]
        d, near = np.take_along_axis(d, order, axis=1), np.take_along_axis(near, order, axis=1)
        # The tree may have left out candidates that tie at the farthest distance, so the query is repeated
        # with more neighbours if the k-th is at that distance.
        done = (d[:, -1] < farthest * (1 - 1e-12)) | (asked == n)
        distances[open_rows[done]], found[open_rows[done]] = d[done], times[near[done]]
        open_rows, asked = open_rows[~done], 4 * asked
    return distances, found
