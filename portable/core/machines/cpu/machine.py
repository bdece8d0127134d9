"""The spaces "serial" and "threads", as machines/contract.py defines them: one machine, which uses the host's
memory.
"""

from ...locks import compile_once
from ...places.place import HOST
from ..contract import Backend
from ..host import Host
from . import Threads

_HOST = Host()


class Serial(Backend):
    """One thread; `pool` returns the threads of spaces with several."""

    def memory(self, name):
        return _HOST if name == HOST else super().memory(name)

    def launches(self):
        from . import space

        return space

    def about(self, space):
        return [(space.name, f"{space.n_threads} thread{'s' * (space.n_threads > 1)}")]

    @compile_once
    def pool(self, space):
        """Return the pool that deals a launch's chunks to threads."""
        from .pool import Pool

        return Pool(space.n_threads)


class _Threads(Serial):
    def space(self, name, number):
        return None if number == 0 else Threads(number)

    def copy_bytes(self, target, source, nbytes):
        """Copy within the host's memory, by all threads; see `Pool.copy`."""
        self.pool(Threads()).copy(target, source, nbytes)

    def native_pool(self):
        """Return the pool of all threads, or None if it does not use POSIX threads."""
        pool = self.pool(Threads())
        return pool if pool.native else None


BACKENDS = {"serial": Serial(), "threads": _Threads()}
