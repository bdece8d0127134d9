"""mvNormalPDF of Suchard et al.'s Appendix B as it is printed: blocks of 32 points by 16 densities, padded,
staged in scratch.

    python docs/examples/papers/mv_normal_pdf.py [space] [points] [densities]

M. A. Suchard et al.: Understanding GPU programming for statistical computation (JCGS 2010), Appendices B and
C. A density's record of PACK numbers is its mean, the rows of the inverse of its covariance's lower factor,
and the logarithm of its constant, padded to a multiple of 16. `portable.models.mixture` needs no record, no
padding and no n x k array of densities.
"""

import math
import sys
import time

import numpy as np

import portable as pk

DATA, DENSITIES, P = 32, 16, 14  # points and densities of a block; coordinates
PACK = -(-(P + P * (P + 1) // 2 + 1) // 16) * 16  # numbers of a record
PADDED = -(-P // 16) * 16  # numbers of a point


@pk.function
def density(data, i, info, j):
    """Return the appendix's device function: point i in density j, both in scratch."""
    square, place = 0.0 * data[0, 0], P
    for a in range(P):
        z = 0.0 * data[0, 0]
        for b in range(a + 1):
            z += info[j, place + b] * (data[i, b] - info[j, b])
        place += a + 1
        square += z * z
    return math.exp(info[j, place] - 0.5 * square)


@pk.kernel
def mv_normal_pdf(team, points, records, pdf):
    """A record's numbers lie side by side, so that transactions are whole."""
    block, across = team.league_rank, pdf.shape[1] // DENSITIES
    first, first_density = DATA * (block // across), DENSITIES * (block % across)
    data, info = team.scratch((DATA, P), points.dtype), team.scratch((DENSITIES, PACK), points.dtype)
    for e in team.thread_range(DATA * P):
        data[e // P, e % P] = points[first + e // P, e % P]
    for e in team.thread_range(DENSITIES * PACK):
        info[e // PACK, e % PACK] = records[first_density + e // PACK, e % PACK]
    team.barrier()
    for e in team.thread_range(DATA * DENSITIES):
        i, j = e // DENSITIES, e % DENSITIES
        pdf[first + i, first_density + j] = density(data, i, info, j)


def records_of(means, covariances, weights, dtype=np.float64):
    """Return the padded records of weighted densities, a multiple of 16 of them."""
    k = len(means)
    records = np.zeros((-(-k // DENSITIES) * DENSITIES, PACK), dtype)
    factors = np.linalg.inv(np.linalg.cholesky(covariances))
    constant = (
        np.log(weights) + np.log(factors.diagonal(0, 1, 2)).sum(axis=1) - 0.5 * P * math.log(2.0 * math.pi)
    )
    triangle = factors[:, *np.tril_indices(P)]
    records[:k, : P + triangle.shape[1] + 1] = np.concatenate([means, triangle, constant[:, None]], axis=1)
    return records


def padded(x, dtype=np.float64):
    """Return the padded points, a multiple of 32 of them."""
    points = np.zeros((-(-len(x) // DATA) * DATA, PADDED), dtype)
    points[: len(x), :P] = x
    return points


def densities(points, records, pdf):
    """Launch a team of 512 members for each block."""
    n_blocks = points.shape[0] // DATA * (records.shape[0] // DENSITIES)
    pk.parallel_for(pk.TeamPolicy(n_blocks, DATA * DENSITIES), mv_normal_pdf, points, records, pdf)


if __name__ == "__main__":
    space, n, k = (*sys.argv[1:], *("threads", "20000", "64")[len(sys.argv) - 1 :])
    random = np.random.default_rng(0)
    x, means = random.normal(size=(int(n), P)), random.normal(size=(int(k), P))
    spread = random.normal(size=(int(k), P, P)) / 4.0
    covariances, weights = np.eye(P) + spread @ spread.transpose(0, 2, 1), random.dirichlet(np.ones(int(k)))
    with pk.use(space):
        points, records = pk.copy_of(padded(x)), pk.copy_of(records_of(means, covariances, weights))
        pdf = pk.zeros((points.shape[0], records.shape[0]))
        for _ in range(3):
            begin = time.perf_counter()
            densities(points, records, pdf)
            pk.fence()
            seconds = time.perf_counter() - begin
    away = x[:, None, :] - means
    z = np.einsum("nkp,kpq,nkq->nk", away, np.linalg.inv(covariances), away)
    wanted = weights * np.exp(-0.5 * z) / np.sqrt(np.linalg.det(2.0 * np.pi * covariances))
    np.testing.assert_allclose(pdf.to_numpy()[: int(n), : int(k)], wanted, rtol=1e-8, atol=1e-300)
    print(f"mv_normal_pdf on {space}: {seconds * 1e3:.1f} ms for {int(n):,} x {int(k)} densities")
