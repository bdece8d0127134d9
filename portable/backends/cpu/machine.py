"""The spaces "serial", "threads" and "numba", as backends/contract.py wants them: one machine, and whose
threads they take."""

from ... import numba
from ...locks import once
from ...space import Space
from ..contract import Backend
from . import Threads


class _Serial(Backend):
    def launches(self):
        from . import space

        return space

    def about(self, space):
        return [(space.name, f"{space.n_threads} thread{'s' * (space.n_threads > 1)}")]

    @once
    def pool(self, space):
        """What deals the chunks of a launch to threads."""
        from .pool import Pool

        return Pool(space.n_threads)


class _Threads(_Serial):
    def space(self, name, number):
        return None if number == 0 else Threads(number)

    def copy_bytes(self, target, source, nbytes):
        """Copy within the host's memory, by all threads; see `Pool.copy`."""
        self.pool(Threads()).copy(target, source, nbytes)

    def native_pool(self):
        """The pool of all threads, or None where they are not POSIX threads."""
        pool = self.pool(Threads())
        return pool if pool.native else None


class _Numba(_Serial):
    """The threads of numba's prange: at most "numba:4" of those that NUMBA_NUM_THREADS and set_num_threads
    leave."""

    def space(self, name, number):
        return None if number == 0 else Space(name, n_threads=number or numba.most_threads())

    def unavailable(self, space):
        most, why = numba.most_threads(), numba.missing()
        if why is None and space.n_threads > most:
            return f"numba has {most} thread{'s' * (most > 1)}; NUMBA_NUM_THREADS says how many"
        return why

    def pool(self, space):
        from ...numba.threads import Pool

        return Pool(space.n_threads)

    def about(self, space):
        from ...numba.threads import layer

        ((name, threads),) = super().about(space)
        return [(name, f"{threads} of numba's, layer {layer()}")]


BACKENDS = {"serial": _Serial(), "threads": _Threads(), "numba": _Numba()}
