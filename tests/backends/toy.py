"""A backend as another package would bring it: the space "toy", which runs ranges as plain Python in a memory
of its own.

Its memory is the host's, but no launch of another space and no NumPy function is let near it: what is there
came by a copy.
"""

import ctypes
import types

import numpy as np

import portable as pk
from portable.core.machines import contract
from portable.core import registry


class Shelf(contract.Memory):
    """Memory that is reached by its addresses alone."""

    copy_to_host = copy_to_device = staticmethod(ctypes.memmove)

    def allocate(self, nbytes, zero=False):
        raw = np.full(nbytes + 1, 0 if zero else 0xAB, np.uint8)
        return types.SimpleNamespace(pointer=raw.ctypes.data, raw=raw)


class Toy(contract.Backend, contract.Launches):
    """One index after the other. What is not said here is as the contract has it."""

    interprets = True  # wants the arguments, not their addresses

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
        # refuses what nobody runs
        registry.launches("checked").prepare(space, kernel, policy_kind, specs, reducers)
        return kernel

    def run_for(self, space, compiled, policy, words):
        arguments = reached(words)
        for i in range(policy.begin, policy.end):
            compiled(i, *arguments)


def reached(arguments):
    """Arguments as a kernel's plain Python takes them: NumPy arrays over the shelf's memory in place of
    views.
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
