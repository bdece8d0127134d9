"""A backend of another package: the space "toy", which runs ranges as plain Python in a separate memory.

Its memory is the host's, but launches of other spaces and NumPy functions have no access to it: its content
arrives by copies.
"""

import ctypes
import types

import numpy as np

import portable as pk
from portable.core.machines import contract
from portable.core import registry


class Shelf(contract.Memory):
    """Memory that is accessed only by its addresses."""

    copy_to_host = copy_to_device = staticmethod(ctypes.memmove)

    def allocate(self, nbytes, zero=False):
        raw = np.full(nbytes + 1, 0 if zero else 0xAB, np.uint8)
        return types.SimpleNamespace(pointer=raw.ctypes.data, raw=raw)


class Toy(contract.Backend, contract.Launches):
    """Run one index after the other. Methods that are not defined here are those of the contract."""

    interprets = True  # receives the arguments, not their addresses

    def __init__(self):
        self.shelf = Shelf()

    def launches(self):
        return self

    def space(self, name, number):
        return pk.Space(name, memory=name) if number is None else None

    def memory(self, name):
        return self.shelf

    def about(self, space):
        return [(space.name, "plain Python, as an example")]

    def prepare(self, space, kernel, policy_kind, specs, reducers):
        if policy_kind != "range":
            raise pk.SpaceError(f"'{space}' runs ranges, not a {policy_kind}")
        # refuses kernels that the checked space cannot run
        registry.launches("checked").prepare(space, kernel, policy_kind, specs, reducers)
        return kernel

    def run_for(self, space, compiled, policy, words):
        arguments = reached(words)
        for i in range(policy.begin, policy.end):
            compiled(i, *arguments)


def reached(arguments):
    """Return arguments as a kernel's plain Python expects them: NumPy arrays over the shelf's memory in place
    of views.
    """
    if isinstance(arguments, tuple):
        return tuple(map(reached, arguments))
    if isinstance(arguments, pk.static):
        return arguments.value
    if not isinstance(arguments, pk.View):
        return arguments
    v = arguments
    return np.asarray(
        types.SimpleNamespace(
            __array_interface__={
                "data": (v.pointer, v.readonly),
                "shape": v.shape,
                "strides": v.strides,
                "typestr": v.dtype.str,
                "version": 3,
            }
        )
    )


TOY = Toy()
