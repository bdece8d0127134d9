"""The space "checked" as a backend: a kernel's typed tree as Python that watches what it does."""

from __future__ import annotations

from ...compiler import entry
from ...compiler.team import TeamHandle
from ...compiler.types import is_float
from ...compiler.typing import typed
from ...errors import DTypeError
from ...events import Stamp
from ...locks import Lock
from .code import Code
from .reducing import foldings

lock = Lock()
DEFAULT_TEAM_SIZE = 4  # more than one pair of members, and still quick
REGISTERS = 32  # of 64 bits that a member has: an AVX-512 machine's


class Entry(entry.Entry):
    """A kernel for teams of one size. `apart`: also where members part before a collective, or write what is read-only.

    Attributes
    ----------
    lower : Code
    foldings : a Folding for each reducer
    """

    def __init__(self, team_size, apart, *launch):
        self.team_size, self.apart = team_size, apart
        super().__init__(*launch)

    @staticmethod
    def lanes(signature):
        return 1

    def team_facts(self, width):
        return TeamHandle, self.team_size, REGISTERS

    def _typed(self, width):
        number = "number", "int", "varying", 0, False
        described = self.signature.described()
        if self.apart:
            described = [_writable(d) for d in described]
        n = {"team": 0, "box2": 2, "box3": 3}.get(self.policy_kind, 1)
        known = (*([number] * n or [self.team_facts(1)]), *described)
        return typed(self.kernel.portable_text, known[:len(self.kernel.portable_text.params)], 1, 1, self.signature.float_dtype,
                     self.kernel.name, asserts=True, apart=self.apart)

    def _emit(self):
        self.lower = Code(self.tree, self.signature.float_dtype, self.kernel.name, returns=bool(self.reducers))
        self.module, self.scratch_static = self.lower.source, self.lower.scratch_static
        self.foldings = foldings(self, self._contributions(self.tree.result)) if self.reducers else []
        if self.policy_kind.startswith("scan"):
            (dtype,), out = self.foldings[0].dtypes, self.signature.specs[-1][1]
            if is_float(dtype) and not is_float(out):
                raise DTypeError(f"out: an array of floats is wanted, as the prefixes are {dtype}; got {out}")


def _writable(described):
    """A description of an argument in which no view is read-only."""
    if described[0] == "tuple":
        return tuple(map(_writable, described))
    return (*described[:3], False, *described[4:]) if described[0] == "view" else described


class Compiled:
    """A kernel for a policy's kind and types of arguments."""

    def __init__(self, *launch, apart=False):
        self.kernel, self._launch, self._apart, self._entries = launch[0], launch, apart, {}

    def entry(self, team_size=DEFAULT_TEAM_SIZE):
        """The Entry for teams of a size."""
        if team_size not in self._entries:
            self._entries[team_size] = Entry(team_size, self._apart, *self._launch)
        return self._entries[team_size]


def prepare(space, kernel, policy_kind, specs, reducers=()):
    compiled = Compiled(kernel, policy_kind, specs, reducers)
    compiled.entry()
    return compiled


def stamp(space):
    return Stamp()


def fence(space):
    """Python has finished when it returns."""


def explain(space, kernel, policy, policy_kind, specs):
    return {"code": "plain Python, each access noted"}, []
