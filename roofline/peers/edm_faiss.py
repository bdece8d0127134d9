"""faiss's exact index, on the CPU."""

import faiss
import numpy as np

from portable.roofline.contract import Contender
from portable.roofline.peers.edm_scipy import embedded


def contenders(what, x, E, *, threads=1):
    """The E + 1 nearest of each point besides itself; see `portable.roofline.peers.edm_kedm`."""
    faiss.omp_set_num_threads(threads)
    points, out = embedded(x, E), []

    def call():
        index = faiss.IndexFlatL2(E)
        index.add(points)
        out[:] = index.search(points, E + 2)

    def result():
        return float(np.sqrt(np.maximum(out[0][:, -1], 0)).mean(dtype=np.float64))

    return [Contender("faiss IndexFlatL2", call, result=result)]
