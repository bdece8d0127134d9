"""The space "checked" as a backend: it refuses what the compilers refuse, then runs the text as plain Python and watches it."""

from __future__ import annotations

from typing import NamedTuple

from ...compiler.shown import shown
from ...events import Stamp
from ...locks import Lock
from .. import registry


lock = Lock()


class Typed(NamedTuple):
    """What plain Python must be told: bytes of scratch whose shapes are known at compile time, and the reducers' dtypes."""

    scratch_static: int
    dtypes: tuple


def prepare(space, kernel, policy_kind, specs, reducers=()):
    entry = registry.check_text(kernel, policy_kind, specs, reducers)
    return Typed(entry.scratch_static, tuple(state[0].dtype for state in entry.states))


def stamp(space):
    return Stamp()


def fence(space):
    """Plain Python has finished when it returns."""


def explain(space, kernel, policy, policy_kind, specs):
    return {"code": "plain Python, each access noted"}, [], shown(registry.check_text(kernel, policy_kind, specs, ()).tree)
