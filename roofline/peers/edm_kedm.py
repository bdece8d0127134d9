"""kEDM (`pip install kedm`, or `kedm-cuda13x` for a GPU), on all cores or on its GPU, as it was built.

Its OpenMP binds whoever imports it to one core, and so all threads that are started later, ours too: the
caller is let off while others are timed.
"""

import os

import numpy as np

from portable.roofline.contract import Contender

_bound_to = getattr(os, "sched_getaffinity", lambda _: None)
_bind = getattr(os, "sched_setaffinity", lambda *_: None)
_every = _bound_to(0)
import kedm  # noqa: E402  (it binds its threads when it is imported)

_own = _bound_to(0)
_bind(0, _every)


def contenders(what, data, given, **_):
    """Its cross map of all pairs; of neighbours it tells only what they predict, so that is timed.

    Parameters
    ----------
    what : {"cross_map", "neighbours", "simplex", "smap"}
    data : ndarray of float32, shape (n_steps, n_series) or (n_steps,)
    given : array of int, shape (n_series,), or int
        Embedding dimensions.
    """
    label, out = f"kedm {kedm.__version__}", []

    def as_it_likes(run):
        _bind(0, _own)
        out[:] = [run()]
        _bind(0, _every)

    def mean():
        return float(np.mean(out[0], dtype=np.float64))

    if what == "smap":
        form = {"target": data, "E": given, "tau": 1, "Tp": 1, "theta": 2.0}
        return [Contender(label, lambda: as_it_likes(lambda: kedm.smap(data, data, **form)))]
    if what != "cross_map":
        return [
            Contender(
                f"{label}, simplex",
                lambda: as_it_likes(lambda: kedm.simplex(data, data, E=given, tau=1, Tp=1)),
                result=mean if what == "simplex" else None,
            )
        ]

    def call():
        as_it_likes(lambda: kedm.xmap(data, given.tolist(), tau=1, Tp=0))

    return [Contender(label, call, result=mean)]
