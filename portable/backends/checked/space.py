"""The space "checked" as a backend: it refuses what the compilers refuse, then runs the text as plain Python and watches it."""

from __future__ import annotations

from ...events import Stamp
from .. import registry


def prepare(space, kernel, policy_kind, specs, reducers=()):
    """The bytes of scratch whose shapes are known at compile time, which is all that is made here."""
    return getattr(registry.check_text(kernel, policy_kind, specs, reducers), "scratch_static", 0)


def stamp(space):
    return Stamp()


def fence(space):
    """Plain Python has finished when it returns."""


def explain(space, kernel, policy, policy_kind, specs):
    return {"code": "plain Python, each access noted"}, []
