"""The space "checked" as a backend: it refuses what the compilers refuse, then runs the text as plain Python."""

from __future__ import annotations

from .. import registry


def prepare(space, kernel, policy_kind, specs, reducers=()):
    """The bytes of scratch that a team gets for arrays whose shape is known at compile time."""
    return registry.check_text(kernel, policy_kind, specs, reducers).scratch_static


def fence(space):
    """Plain Python has finished when it returns."""


def explain(space, kernel, policy, policy_kind, specs):
    return {"code": "plain Python, an index after the other"}, []
