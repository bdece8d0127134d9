"""FastCCM (`pip install fastccm torch`): pairs of series by one dimension, and S-maps of one series."""

import fastccm
import numpy as np
import torch

from portable.roofline.contract import Contender
from portable.roofline.peers.edm_scipy import embedded


def contenders(what, data, given, *, threads=None):
    """Its scores of all pairs; see `portable.roofline.peers.edm_kedm`.

    Parameters
    ----------
    what : {"cross_map", "smap"}
    data : ndarray of float32, shape (n_steps, n_series) or (n_steps,)
    given : array of int, the same for all, or int
        Embedding dimensions.
    """
    if threads:
        torch.set_num_threads(threads)
    E, out = int(np.max(given)), []
    points = [embedded(column, E) for column in np.atleast_2d(data.T)]
    maps = fastccm.PairwiseCCM("cpu" if threads else "cuda", memory_budget_gb=4.0)
    form = {"method": "smap", "theta": 2.0, "tp": 1} if what == "smap" else {"tp": 0}

    def call():
        out[:] = [maps.score_matrix(points, [own[:, -1:] for own in points], **form)]

    def result():
        return float(out[0].mean(dtype=np.float64))

    return [Contender(f"FastCCM {fastccm.__version__}", call, result=result)]
