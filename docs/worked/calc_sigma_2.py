"""Sums in one launch: an index for each entry of each component and each slice of the points.

    python -m portable.roofline report docs/worked/calc_sigma_2.py [space] [points] [components]

Neighbouring indices are neighbouring components, so that what they read of r lies side by side.
"""

import sys
import time

import numpy as np

import portable as pk

P, ENTRIES = 14, 105  # coordinates; entries of a triangle


@pk.kernel
def entries(index, slices, r, x, means, out):
    n, k = r.shape
    j, entry = index % k, index // k % ENTRIES
    length = (n + slices - 1) // slices
    begin = index // k // ENTRIES * length
    a = 0
    while (a + 1) * (a + 2) // 2 <= entry:
        a += 1
    b = entry - a * (a + 1) // 2
    total = 0.0
    for i in range(begin, min(begin + length, n)):
        total += r[i, j] * (x[i, a] - means[j, a]) * (x[i, b] - means[j, b])
    pk.atomic_add(out, (j, a, b), total)


def sigma(r, x, means, out):
    slices = min(8 * pk.concurrency(), r.shape[0] // 256 + 1)  # of the points: enough to fill the machine
    policy = r.shape[1] * ENTRIES * slices
    pk.parallel_for(policy, entries, slices, r, x, means, out, label="covariances")


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
    print(f"calc_sigma_2 on {space}: {seconds * 1e3:.1f} ms for all covariances")
