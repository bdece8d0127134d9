"""A launch prepared once, for programs that run it again and again."""

from __future__ import annotations

from typing import Any

from ..core.launch import dispatch
from ..core.launch.launching import launching
from ..core import events
from ..core.events import current
from ..core.locks import Lock, arm
from ..core.places.space import use


class Plan:
    """A launch prepared once; calling it runs the kernel again on the same arguments (numbers as they were
    then)."""

    __slots__ = ("_call", "_launch", "_bound", "_lock", "_build", "_plain")

    def __init__(self, launch, bound):
        self._call = dispatch.repeated_launch(launch, bound)
        self._launch, self._bound, self._lock, hooks = launch, bound, Lock(), current()
        self._build = hooks.redirect, hooks.debug
        # hooks that require no further work
        self._plain = events.NONE if self._build == (None, events.NONE.debug) else None

    def __call__(self) -> None:
        hooks = current()
        if hooks is not self._plain:
            launch = self._launch
            if not self.as_made:  # another context, which checks or debugs its launches
                with use(launch.space):  # the space for which it was made
                    return dispatch.parallel_for(
                        launch.policy, launch.kernel, *launch.args, label=launch.label
                    )
            if hooks.recording is not None:
                return hooks.recording.record(launch, self._bound)
        try:
            with self._lock.held:  # calls of one plan run one after the other, in any threads
                if hooks is self._plain:
                    return self._call()
                with events.kernel(launch):
                    return self._call()
        except BaseException as error:
            raise dispatch.interrupted(error)  # noqa: B904  (the same)

    @property
    def as_made(self) -> bool:
        """True if a call may run the prepared code: not if this context, or the plan's own, has another
        build, as `pk.use(debug=...)` and `portable.testing.watching` set.
        """
        hooks = current()
        return (hooks.redirect, hooks.debug) == self._build

    def __repr__(self):
        return f"<plan of '{self._launch.label}' on '{self._launch.space}'>"


@launching
def plan(policy: Any, kernel: Any, *args: Any, label: str | None = None) -> Plan:
    """Prepare a launch: `p = plan(...); p()` costs the least host time.

    Parameters
    ----------
    policy, kernel, *args, label : as in parallel_for

    Returns
    -------
    Plan
        Callable without arguments. It keeps the views alive; their elements are read when it runs, numbers
        are frozen. In a capture, a call is recorded as the launch would be.

    Examples
    --------
    >>> @pk.kernel
    ... def add(i, a, x):
    ...     x[i] += a
    >>> x = np.zeros(2)
    >>> again = pk.plan(2, add, 1.0, x)
    >>> again(); again()
    >>> x.tolist()
    [2.0, 2.0]
    """
    bound = space, policy, *_ = dispatch.bound(policy, kernel, args, ())
    launch = dispatch.Launch(policy, kernel, args, space, label or kernel.name)
    arm()
    return Plan(launch, bound)
