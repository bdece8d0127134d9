"""The space "numba", as machines/contract.py requires: portable's code on numba's threads."""

from ..core.machines.cpu.machine import Serial
from ..core.places.place import Space
from . import missing, most_threads


class _Numba(Serial):
    """The threads of numba's prange: at most "numba:4" of those that NUMBA_NUM_THREADS and set_num_threads
    allow.
    """

    def space(self, name, number):
        return None if number == 0 else Space(name, n_threads=number or most_threads())

    def unavailable(self, space):
        most, why = most_threads(), missing()
        if why is None and space.n_threads > most:
            return f"numba has {most} thread{'s' * (most > 1)}; NUMBA_NUM_THREADS says how many"
        return why

    def pool(self, space):
        from .threads import Pool

        return Pool(space.n_threads)

    def about(self, space):
        from .threads import layer

        ((name, threads),) = super().about(space)
        return [(name, f"{threads} of numba's, layer {layer()}")]


BACKENDS = {"numba": _Numba()}
