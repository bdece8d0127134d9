"""Make cells for the tests of cytometry: a small simulated panel, and the real file if it is present."""

import functools

import numpy as np

from portable.models.mixture import cytometry

from ...real_data import real_data

CHANNELS, MARKERS = "FSC-A B515-A Time R660-A".split(), ["", "KI67", "", ""]


def raw_cells(n=300, seed=1):
    """Return two kinds of cells in two colours, two of them saturated."""
    random = np.random.default_rng(seed)
    kinds = np.array([[100.0, 3000.0], [5000.0, 40.0]])[random.integers(0, 2, n)]
    colours = kinds * np.exp(0.3 * random.normal(size=(n, 2)))
    X = np.column_stack([random.uniform(1e4, 2e4, n), colours[:, 0], np.arange(n), colours[:, 1]])
    X[7, 0] = X[11, 3] = 262143.5
    return X.astype(np.float32)


@functools.cache
def simulated():
    """Return two samples of four populations in four markers, and the population of each cell."""
    return cytometry.simulate(
        seed=4, n_cells=500, n_populations=4, n_markers=4, n_rare=1, rare=0.05, n_samples=2
    )


@functools.cache
def fitted():
    """Fit populations of both samples."""
    return cytometry.fit(simulated()[0], 6)


def real_file():
    """Return the path of flowkit_100715.npz; the test is skipped if it is absent."""
    return real_data("mixture", "flowkit_100715.npz")
