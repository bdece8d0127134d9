"""Squares of four by four entries in registers: what is read of a point serves sixteen entries instead of
one.

    python -m portable.roofline report docs/worked/calc_sigma_4.py [space] [points] [components]

A team has one of the triangle's ten squares and a slice of the points; members are components.
"""

import sys
import time

import numpy as np

import portable as pk

P, SIDE, SQUARES = 14, 4, 10  # coordinates; entries along a square; squares of a triangle


@pk.kernel
def squares(team, slices, r, x, means, out):
    n, k = r.shape
    square = team.league_rank % SQUARES
    length = (n + slices - 1) // slices
    begin = team.league_rank // SQUARES * length
    A = 0
    while (A + 1) * (A + 2) // 2 <= square:
        A += 1
    B = square - A * (A + 1) // 2
    part = pk.local((SIDE, SIDE), pk.float64)
    row_means, column_means, weighted = (
        pk.local(SIDE, pk.float64),
        pk.local(SIDE, pk.float64),
        pk.local(SIDE, pk.float64),
    )
    for j in team.thread_range(k):
        for a in range(SIDE):
            row_means[a] = means[j, min(A * SIDE + a, P - 1)]
            column_means[a] = means[j, min(B * SIDE + a, P - 1)]
            for b in range(SIDE):
                part[a, b] = 0.0
        for i in range(begin, min(begin + length, n)):
            for a in range(SIDE):
                weighted[a] = r[i, j] * (x[i, min(A * SIDE + a, P - 1)] - row_means[a])
            for b in range(SIDE):
                d = x[i, min(B * SIDE + b, P - 1)] - column_means[b]
                for a in range(SIDE):
                    part[a, b] += weighted[a] * d
        for a in range(SIDE):
            for b in range(SIDE):
                row, column = A * SIDE + a, B * SIDE + b
                if row < P and column <= row:
                    pk.atomic_add(out, (j, row, column), part[a, b])


def sigma(r, x, means, out):
    slices = min(8 * pk.concurrency(), r.shape[0] // 256 + 1)  # of the points: enough to fill the machine
    policy = pk.TeamPolicy(SQUARES * slices, min(128, r.shape[1]))
    pk.parallel_for(policy, squares, slices, r, x, means, out, label="covariances")


if __name__ == "__main__":
    space, n, k = (*sys.argv[1:], *("threads", "20000", "64")[len(sys.argv) - 1 :])
    random = np.random.default_rng(0)
    x, r, means = (
        random.normal(size=(int(n), P)),
        random.random((int(n), int(k))),
        random.normal(size=(int(k), P)),
    )
    with pk.use(space):
        r_there, x_there, m_there, out = (
            pk.copy_of(r),
            pk.copy_of(x),
            pk.copy_of(means),
            pk.zeros((int(k), P, P)),
        )
        for _ in range(5):
            pk.deep_copy(out, np.zeros(out.shape))
            pk.fence()
            start = time.perf_counter()
            sigma(r_there, x_there, m_there, out)
            pk.fence()
            seconds = time.perf_counter() - start
    wanted = [(r[:, j] * (x - m).T) @ (x - m) for j, m in enumerate(means)]
    np.testing.assert_allclose(out.to_numpy(), np.tril(wanted), rtol=1e-9, atol=1e-9)
    print(f"calc_sigma_4 on {space}: {seconds * 1e3:.1f} ms for all covariances")
