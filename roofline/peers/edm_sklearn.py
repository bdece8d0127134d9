"""scikit-learn's nearest neighbours, by its own choice of algorithm."""

import numpy as np
from sklearn.neighbors import NearestNeighbors

from portable.roofline.contract import Contender
from portable.roofline.peers.edm_scipy import embedded


def contenders(what, x, E, *, threads=1):
    """The E + 1 nearest of each point besides itself; see `portable.roofline.peers.edm_kedm`."""
    points, out = embedded(x, E), []

    def call():
        out[:] = NearestNeighbors(n_neighbors=E + 1, n_jobs=threads).fit(points).kneighbors()

    return [
        Contender(
            "scikit-learn NearestNeighbors",
            call,
            result=lambda: float(np.mean(out[0][:, -1], dtype=np.float64)),
        )
    ]
