"""The spaces "serial" and "threads", as backends/contract.py wants them."""

from ..contract import Backend
from . import Threads


class _Serial(Backend):
    def launches(self):
        from . import space

        return space

    def about(self, space):
        return [(space.name, f"{space.n_threads} thread{'s' * (space.n_threads > 1)}")]


class _Threads(_Serial):
    def space(self, name, number):
        return None if number == 0 else Threads(number)


BACKENDS = {"serial": _Serial(), "threads": _Threads()}
