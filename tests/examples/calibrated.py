"""PYTHONPATH=docs/examples/gradients python -m tests.examples.calibrated 100: draw data of a user's model
with twelve parameters 100 times, sample it by nutpie with derived gradients, in a process for each core, and
rank true coefficients among draws. Ranks are uniform; squared distances from the truth, in standard
deviations, are about 1.
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
from nutpie_model import K, N, sample
from scipy.stats import chisquare


def ranked(k):
    """Return the ranks of the k-th set's coefficients among 99 draws, and their squared distances."""
    rng = np.random.default_rng(k)
    b, x = rng.normal(size=K), rng.normal(size=(N, K)) * 0.5
    draws = sample(x, 1.0 * rng.poisson(np.exp(x @ b)), k + 1).reshape(-1, K)
    return np.mean(draws[8::8] < b, axis=0), ((draws.mean(axis=0) - b) / draws.std(axis=0)) ** 2


if __name__ == "__main__":
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        ranks, squares = zip(*pool.map(ranked, range(int(sys.argv[1]))))
    # ten ranks in each of ten bins
    each = [chisquare(np.histogram(r, 10, (0, 1))[0]).pvalue for r in (np.ravel(ranks), *np.transpose(ranks))]
    print("p:", np.round(each, 4), "distance:", np.mean(squares))
