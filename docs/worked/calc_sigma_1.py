"""Covariances of a mixture's components, as the formula is written: a launch for each entry of each
component.

    python -m portable.roofline report docs/worked/calc_sigma_1.py [space] [points] [components]

S_j[a, b] = sum_i r[i, j] (x[i, a] - m[j, a]) (x[i, b] - m[j, b]), unnormalised.
"""

import sys
import time

import numpy as np

import portable as pk

P = 14  # coordinates


@pk.kernel
def calc_sigma(i, r, x, y, x_mean, y_mean):
    return r[i] * (x[i] - x_mean) * (y[i] - y_mean)


def sigma(r, x, means, out):
    means = np.asarray(means.to_numpy())
    for j in range(len(means)):
        for a in range(P):
            for b in range(a + 1):
                rows = r[:, j], x[:, a], x[:, b]
                center, place = (means[j, a], means[j, b]), out[j, a, b : b + 1]
                pk.parallel_reduce(r.shape[0], calc_sigma, *rows, *center, out=place, label="covariances")


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
    print(f"calc_sigma_1 on {space}: {seconds * 1e3:.1f} ms for all covariances")
