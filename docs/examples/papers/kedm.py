"""Algorithms 1 to 3 of kEDM as its paper writes them: all distances, top k by queues in scratch, lookups of
many targets.

    python docs/examples/papers/kedm.py [space]

K. Takahashi et al.: kEDM, a performance-portable implementation of empirical dynamic modeling using Kokkos.
PEARC 2021. `portable.models.edm` keeps no matrix of distances (`edm.bound`, `edm.nearest`) and reads targets
through caches (`edm.look_up`); `python docs/papers/edm.py` times both.
"""

import math
import sys

import numpy as np

import portable as pk


@pk.kernel
def distances(team, E, tau, x, squared):
    """Algorithm 1: a team a point i, members over j; x[i + k tau] is staged in scratch, the embedding never
    stored."""
    i, n = team.league_rank, squared.shape[1]
    own = team.scratch(E, x.dtype)
    for k in team.thread_range(E):
        own[k] = x[i + k * tau]
    team.barrier()
    for j in team.thread_range(n):
        total = 0.0 * own[0]
        for k in range(E):
            d = own[k] - x[j + k * tau]
            total += d * d
        squared[i, j] = total


@pk.function
def push(near, where, me, k, d, j):
    """Put j at distance d into a member's queue, from whose end the farthest falls."""
    place = k - 1
    while place > 0 and near[me, max(place - 1, 0)] > d:
        near[me, place] = near[me, place - 1]
        where[me, place] = where[me, place - 1]
        place -= 1
    near[me, place] = d
    where[me, place] = j


@pk.function
def merge(n_queues, near, where, k, i, distance, index):
    """The k nearest of all queues, in order."""
    heads = pk.local(128, pk.int32)
    for m in range(n_queues):
        heads[m] = 0
    for q in range(k):
        best, least = 0, math.inf
        for m in range(n_queues):
            h = min(heads[m], k - 1)
            if heads[m] < k and near[m, h] < least:
                best, least = m, near[m, h]
        distance[i, q] = math.sqrt(least)
        index[i, q] = where[best, heads[best]]
        heads[best] += 1


@pk.kernel
def nearest(team, k, squared, distance, index):
    """Algorithm 2: each member keeps the k least of what it meets in a queue in scratch; one merges them."""
    i, n, me = team.league_rank, squared.shape[1], team.rank
    near, where = team.scratch((team.size, k), squared.dtype), team.scratch((team.size, k), pk.int32)
    for q in range(k):
        near[me, q] = math.inf
        where[me, q] = -1
    for j in team.thread_range(n):
        d = squared[i, j]
        if j != i and d < near[me, k - 1]:
            push(near, where, me, k, d, j)
    team.barrier()
    if team.single():
        merge(team.size, near, where, k, i, distance, index)


@pk.kernel
def weigh(i, distance, weight):
    """Simplex weights of a point's neighbours, in place of their distances."""
    k = distance.shape[1]
    closest, total = distance[i, 0], 0.0 * distance[0, 0]
    for q in range(k):
        w = (
            max(math.exp(-distance[i, q] / closest), 1e-6)
            if closest > 0.0
            else pk.where(distance[i, q] > 0.0, 1e-6, 1.0)
        )
        weight[i, q] = w
        total += w
    for q in range(k):
        weight[i, q] /= total


@pk.kernel
def look_up(team, shift, weight, index, targets, predicted):
    """Algorithm 3: a team a target of this E, staged in scratch; members over points, a serial sum over
    neighbours."""
    t, n = team.league_rank, weight.shape[0]
    series = team.scratch(targets.shape[1], targets.dtype)
    for j in team.thread_range(targets.shape[1]):
        series[j] = targets[t, j]
    team.barrier()
    for i in team.thread_range(n):
        total = 0.0 * weight[0, 0]
        for q in range(weight.shape[1]):
            total += weight[i, q] * series[index[i, q] + shift]
        predicted[t, i] = total


TEAM = 32  # members; on a CPU as many as a pack has lanes


def search(x, E, tau=1):
    """Return all distances, then the E + 1 nearest neighbours of each embedded point: (squared, distance,
    index), views."""
    n, k = x.shape[0] - (E - 1) * tau, E + 1
    squared, distance, index = (
        pk.empty((n, n), x.dtype),
        pk.empty((n, k), x.dtype),
        pk.empty((n, k), np.int32),
    )
    room = pk.scratch_bytes((E, x.dtype))
    pk.parallel_for(pk.TeamPolicy(n, TEAM, scratch_bytes=room), distances, E, tau, x, squared)
    select(k, squared, distance, index)
    return squared, distance, index


def select(k, squared, distance, index):
    """Algorithm 2 on all rows."""
    room = pk.scratch_bytes(((TEAM, k), squared.dtype), ((TEAM, k), np.int32))
    pk.parallel_for(
        pk.TeamPolicy(squared.shape[0], TEAM, scratch_bytes=room), nearest, k, squared, distance, index
    )


def predict(shift, weight, index, targets, predicted):
    """Algorithm 3 on all targets."""
    room = pk.scratch_bytes((targets.shape[1], targets.dtype))
    pk.parallel_for(
        pk.TeamPolicy(targets.shape[0], 128, scratch_bytes=room),
        look_up,
        shift,
        weight,
        index,
        targets,
        predicted,
    )


if __name__ == "__main__":
    space = (sys.argv[1:] or ["threads"])[0]
    random, E, n = np.random.default_rng(1), 3, 20 if space == "checked" else 120
    x, y = random.random((n + E - 1)), random.random((4, n + E - 1))
    with pk.use(space):
        squared, distance, index = search(pk.copy_of(x), E)
        weight, predicted = pk.empty(distance.shape), pk.empty((4, n))
        pk.parallel_for(n, weigh, distance, weight)
        predict(E - 1, weight, index, pk.copy_of(y), predicted)
        squared, distance, index, weight, predicted = (
            v.to_numpy() for v in (squared, distance, index, weight, predicted)
        )
    points = np.lib.stride_tricks.sliding_window_view(x, E)
    wanted = ((points[:, None] - points) ** 2).sum(-1)
    np.testing.assert_allclose(squared, wanted, rtol=1e-12, atol=1e-15)
    np.fill_diagonal(wanted, np.inf)
    np.testing.assert_array_equal(index, np.argsort(wanted, axis=1)[:, : E + 1])
    np.testing.assert_allclose(weight.sum(axis=1), 1.0)
    np.testing.assert_allclose(predicted, (weight * y[:, index + E - 1]).sum(-1), rtol=1e-12)
    print(f"kedm on {space}: distances, neighbours and lookups are right")
