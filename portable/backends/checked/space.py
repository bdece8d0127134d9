"""The space "checked" as a backend: it refuses what the compilers refuse, then runs the text as plain Python and watches it."""

from __future__ import annotations

from typing import Any, NamedTuple

from ... import events
from ...compiler.shown import shown
from ...locks import Lock
from .. import contract, registry


class Typed(NamedTuple):
    """A kernel, and what plain Python must be told: bytes of scratch whose shapes are known at compile time, the reducers' dtypes."""

    kernel: Any
    policy_kind: str
    reducers: tuple
    scratch_static: int
    dtypes: tuple

    def room(self, policy):
        return self.scratch_static + getattr(policy, "scratch_bytes", 0)


class _Launches(contract.Launches):
    interprets, lock = True, Lock()

    def prepare(self, space, kernel, policy_kind, specs, reducers=()):
        entry = registry.check_text(kernel, policy_kind, specs, reducers)
        return Typed(kernel, policy_kind, reducers, entry.scratch_static, tuple(state[0].dtype for state in entry.states))

    def run_for(self, space, compiled, policy, words):
        from . import interpreter

        with events.changed(interpreting=True):
            interpreter.run_for(policy, compiled.kernel.fn, words, room=compiled.room(policy))

    def run(self, pattern, space, compiled, policy, words, outs):
        from . import interpreter

        fn, reducers = compiled.kernel.fn, compiled.reducers
        with events.changed(interpreting=True):
            if pattern == "scan":
                inclusive = compiled.policy_kind == "scan inclusive"
                results = interpreter.run_scan(policy, fn, words[:-1], reducers[0], words[-1], inclusive)
            else:
                results = interpreter.run_reduce(policy, fn, words, reducers, compiled.dtypes, room=compiled.room(policy))
        return contract.delivered(results, outs)

    def explain(self, space, kernel, policy, policy_kind, specs):
        return {"code": "plain Python, each access noted"}, [], shown(registry.check_text(kernel, policy_kind, specs, ()).tree)


LAUNCHES = _Launches()
