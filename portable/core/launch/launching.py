"""The types of a launch's arguments, for type checkers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar, overload

from ..language.annotations import Arguments, Policy
from ..language.kernel import Kernel
from ..places.policy import MDRangePolicy

Given = TypeVar("Given", covariant=True)  # by a launch


class Launching(Protocol[Given]):
    """The signature of a launch: a kernel with the number of indices of its policy, followed by the
    arguments.
    """

    @overload
    def __call__(
        self, policy: Policy, kernel: Kernel[Any, *Arguments], *args: *Arguments, label: str | None = None
    ) -> Given: ...
    @overload
    def __call__(
        self,
        policy: MDRangePolicy,
        kernel: Kernel[Any, Any, *Arguments],
        *args: *Arguments,
        label: str | None = None,
    ) -> Given: ...
    @overload
    def __call__(
        self,
        policy: MDRangePolicy,
        kernel: Kernel[Any, Any, Any, *Arguments],
        *args: *Arguments,
        label: str | None = None,
    ) -> Given: ...
    @overload
    def __call__(
        self,
        policy: MDRangePolicy,
        kernel: Kernel[Any, Any, Any, Any, *Arguments],
        *args: *Arguments,
        label: str | None = None,
    ) -> Given: ...


def launching(launch: Callable[..., Given]) -> Launching[Given]:
    """Return a function unchanged, typed for type checkers by a launch's arguments."""
    return launch
