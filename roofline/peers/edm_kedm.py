"""kEDM (`pip install kedm`, or `kedm-cuda13x` for a GPU), on all cores or on its GPU, as it was built."""

import kedm
import numpy as np

from roofline.contract import Contender


def contenders(what, data, given, **_):
    """Its cross map of all pairs; of neighbours it tells only what they predict, so that is timed.

    Parameters
    ----------
    what : {"cross_map", "neighbours"}
    data : ndarray of float32, shape (n_steps, n_series) or (n_steps,)
    given : array of int, shape (n_series,), or int
        Embedding dimensions.
    """
    label, out = f"kedm {kedm.__version__}", []
    if what == "neighbours":
        return [Contender(f"{label}, simplex", lambda: kedm.simplex(data, data, E=given, tau=1, Tp=1))]

    def call():
        out[:] = [kedm.xmap(data, given.tolist(), tau=1, Tp=0)]

    return [Contender(label, call, result=lambda: float(np.mean(out[0], dtype=np.float64)))]
