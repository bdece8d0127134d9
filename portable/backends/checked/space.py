"""The space "checked" as a backend: it refuses what the compilers refuse, then runs the text as plain Python."""

from __future__ import annotations

from ...events import Stamp
from .. import registry


def prepare(space, kernel, policy_kind, specs, reducers=()):
    registry.check_text(kernel, policy_kind, specs, reducers)
    return True


def stamp(space):
    return Stamp()


def fence(space):
    """Plain Python has finished when it returns."""


def explain(space, kernel, policy, policy_kind, specs):
    return {"code": "plain Python, an index after the other"}, []
