"""Series of coupled systems, for figures and comparisons."""

import numpy as np


def coupled_logistic(n_steps: int, n_series: int, seed: int = 0, burn: int = 300) -> np.ndarray:
    """Simulate noisy logistic maps, each coupled to two others, in float32, shape (n_steps, n_series)."""
    random = np.random.default_rng(seed)
    r, x = random.uniform(3.6, 3.9, n_series), random.uniform(0.2, 0.8, n_series)
    a, b = random.integers(0, n_series, (2, n_series))
    c = random.uniform(0.0, 0.15, n_series)
    out = np.empty((n_steps, n_series), np.float32)
    for t in range(-burn, n_steps):
        x = x * (r - r * x) * (1.0 - c) + c * 0.5 * (x[a] + x[b])
        x = np.clip(x + 1e-3 * random.standard_normal(n_series), 1e-3, 1.0 - 1e-3)
        if t >= 0:
            out[t] = x
    return out
