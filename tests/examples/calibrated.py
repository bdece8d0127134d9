"""PYTHONPATH=docs/examples/gradients python -m tests.examples.calibrated 100: draw data of a user's model
with twelve parameters 100 times, sample it by nutpie with derived gradients, and rank true coefficients
among draws. Ranks are uniform; squared distances from the truth, in standard deviations, are about 1.
"""

import sys

import numpy as np
from nutpie_model import K, N, sample
from scipy.stats import chisquare

ranks, squares = [], []
for k in range(int(sys.argv[1])):
    rng = np.random.default_rng(k)
    b, x = rng.normal(size=K), rng.normal(size=(N, K)) * 0.5
    draws = sample(x, 1.0 * rng.poisson(np.exp(x @ b)), k + 1).reshape(-1, K)
    ranks.append(np.mean(draws[8::8] < b, axis=0))  # of 99 draws: ten ranks in each of ten bins
    squares.append(((draws.mean(axis=0) - b) / draws.std(axis=0)) ** 2)
each = [chisquare(np.histogram(r, 10, (0, 1))[0]).pvalue for r in (np.ravel(ranks), *np.transpose(ranks))]
print("p:", np.round(each, 2), "distance:", np.mean(squares))
