"""The paper's set-up: x_i ~ N(0, 1), w_i = N(x_i; y, 1). Resampled particles are draws of N(y / 2, 1 / 2).

python docs/examples/resampling/gaussian.py [space]
"""

import math
import sys

import numpy as np

from portable.models import resampling

STEPS = {0.0: 4, 1.0: 6, 2.0: 16, 3.0: 60, 4.0: 354}  # B* of the paper for a bias of 0.01
SCHEMES = [
    "systematic",
    "stratified",
    "multinomial",
    "residual",
    "ssp",
    "killing",
    "metropolis",
    "megopolis",
    "rejection",
]

if __name__ == "__main__":
    space = sys.argv[1] if len(sys.argv) > 1 else "threads"
    n = 60 if space == "checked" else 1 << 17
    x = np.random.default_rng(1).normal(size=n)
    for y, steps in STEPS.items():
        w = np.exp(-0.5 * (x - y) ** 2)
        size = resampling.effective_sample_size(w, space=space)
        # The mean weight varies with relative variance (2 / sqrt(3) exp(y^2 / 6) - 1) / n; five standard
        # errors.
        error = 5 * math.sqrt((2 / math.sqrt(3) * math.exp(y * y / 6) - 1) / n)
        assert n == 60 or abs(resampling.metropolis_steps(w, space=space) - steps) <= error * steps + 0.5
        if n == 60 or y > 2:
            continue
        for name in SCHEMES:
            ancestors = resampling.resample(w, method=name, seed=3, space=space)
            # Weights and draws each bring an error; the chains start from x, of which 0.01 may be left.
            limit = 5 * math.sqrt(0.5 * (1 / size + 1 / n)) + (0.02 if "polis" in name else 0.0)
            assert abs(x[ancestors].mean() - y / 2) <= limit, (name, y)
            assert abs(x[ancestors].var() - 0.5) <= 2 * limit, (name, y)
    print(f"gaussian on {space}: B* is the paper's, and every scheme draws from the posterior")
