"""The space "checked" as a backend: a kernel's typed tree as Python that checks its operations."""

import functools

from ...core.compiler.writing import entry
from ..printed_tree import printed_tree
from ...core.compiler.reading.team import TeamHandle
from ...core.language.types import VARYING
from ...core.compiler.reading.typing import typed
from ...core.locks import Lock, lazy_attribute
from ...core.places.policy import n_indices
from ...core.machines import contract
from .code import Code
from .reducing import Folding, combining
from .team import DEFAULT_TEAM_SIZE

REGISTERS = 32  # of 64 bits that a member has: an AVX-512 machine's


class Entry(entry.Entry):
    """A kernel for teams of one size. `apart`: compile even if members diverge before a collective, or write
    to read-only arrays.
    """

    step = 1

    def __init__(self, team_size, apart, *launch):
        self.team_size, self.apart = team_size, apart
        super().__init__(self, *launch)

    @staticmethod
    def lanes(entry):
        """Return one index at a time."""
        return 1

    def typed_for(self, width):
        index = (
            ("number", "int", VARYING, 0, False)
            if self.policy_kind != "team"
            else (TeamHandle, self.team_size, REGISTERS, 1)
        )
        args = map(_writable, self.signature.described()) if self.apart else self.signature.described()
        return typed(
            self.kernel.portable_text,
            (*[index] * n_indices(self.policy_kind), *args)[: len(self.kernel.portable_text.params)],
            1,
            1,
            self.signature.float_dtype,
            self.kernel.name,
            asserts=True,
            apart=self.apart,
        )

    @lazy_attribute
    def code(self):
        names = self.signature.float_dtype, self.kernel.name
        with self.source_stack():
            return Code(self.tree, *names, combining, returns=bool(self.reducers))

    @lazy_attribute
    def foldings(self):
        """Return a Folding for each reducer."""
        values = self.contributions(self.tree.result) if self.reducers else ()
        return [Folding(self, *each) for each in zip(self.reducers, values, self.states)]


def _writable(described):
    """Return a description of an argument in which no view is read-only."""
    if described[0] == "tuple":
        return "tuple", described[1], *map(_writable, described[2:])
    return (*described[:3], False, *described[4:]) if described[0] == "view" else described


class Compiled:
    """A kernel for a policy's kind and types of arguments: `entry(size)` for teams of a size."""

    def __init__(self, *launch, apart=False):
        self.kernel, self.entry = launch[0], functools.cache(lambda size: Entry(size, apart, *launch))


class _Launches(contract.Launches):
    interprets, _one = True, Lock()

    def prepare(self, space, *launch):
        # Imported now, when no thread forks: in a child its import would stay incomplete
        from . import interpreter  # noqa: F401

        compiled = Compiled(*launch)
        entry = compiled.entry(DEFAULT_TEAM_SIZE)
        entry.code, entry.foldings  # noqa: B018  errors of the text come before anything runs
        return compiled

    def run_for(self, space, compiled, policy, words):
        from . import interpreter

        with self._one:
            interpreter.run(compiled, policy, words)

    def run(self, pattern, space, compiled, policy, words, outs):
        from . import interpreter

        scan = compiled.entry(DEFAULT_TEAM_SIZE).policy_kind if pattern == "scan" else None
        with self._one:
            return interpreter.run(compiled, policy, words, scan, outs)

    def explain(self, space, kernel, policy, *launch):
        tree = Compiled(kernel, *launch).entry(DEFAULT_TEAM_SIZE).tree
        return {"code": "plain Python, each access noted"}, [], printed_tree(tree)


LAUNCHES = _Launches()
