"""Tests of programs that use portable: one kernel on all spaces, and launches on the checked space."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from .core.launch import dispatch
from .core import events, registry
from .core.places import space as spaces
from .core.language.annotations import AnyPolicy
from .library.copies import copy_of
from .core.language.kernel import AnyKernel
from .core.places.policy import as_policy
from .core.language.reducer import Reducers

_REFERENCE = "checked"  # the space that defines the meaning of a kernel


def assert_same_on_all_spaces(
    policy: AnyPolicy,
    kernel: AnyKernel,
    *args: Any,
    reducer: Reducers | None = None,
    terms: int | None = None,
) -> None:
    """Run a launch on "checked" and on every other available space, and compare the results.

    Parameters
    ----------
    policy, kernel, *args : as in parallel_for, or parallel_reduce
        Arrays are copied; the caller's do not change.
    reducer : Reducer or tuple of Reducers, optional
        For kernels that return contributions.
    terms : int, optional
        The largest number of terms in a sum of the results. Default: the number of elements that a team or
        index reads, in a reduction plus the number of indices of the policy.

    Raises
    ------
    CheckError
        The checked space found a defect.
    AssertionError
        Two spaces differ: integers at all, floats by more than (8 + terms) eps times the largest number in
        the arrays.

    Examples
    --------
    >>> @pk.kernel
    ... def add(i, a, x):
    ...     x[i] += a
    >>> from portable.testing import assert_same_on_all_spaces
    >>> assert_same_on_all_spaces(9, add, 1.0, np.zeros(9))
    """
    from .watch.checked import trials

    policy = as_policy(policy)
    reducers = () if reducer is None else reducer if isinstance(reducer, tuple) else (reducer,)
    kernel, args = dispatch.named_arguments().arranged(policy, kernel, args, {})
    wanted = trials.reference(policy, kernel, args, reducers)
    if terms is None:
        terms = wanted.n_accesses // wanted.n_indices + (wanted.n_indices if reducers else 0)
    for name in registry.names():
        if name != _REFERENCE and spaces.unavailable_because(name) is None:
            got = _run(dataclasses.replace(policy, space=name), kernel, args, reducers, name)
            _check_same(kernel, wanted, got, terms, name)


def _check_same(kernel, wanted, got, terms, space):
    """Raise AssertionError unless a launch's results on a space match the reference."""
    from .watch.checked import sizes

    reference = sizes.results(wanted.args, wanted.reduced)
    for label, one, other in zip(sizes.names(kernel, wanted), reference, sizes.results(*got), strict=True):
        bound = sizes.bound([one, other], reference, terms)
        apart = sizes.differing_places(one, other, bound)
        if apart.any():
            index = tuple(map(int, np.argwhere(apart)[0]))
            raise AssertionError(
                f"kernel '{kernel.name}' ({kernel.place}): {label}{list(index)} is {one[index]} on"
                f" 'checked' and {other[index]} on '{space}'; {int(apart.sum())} element(s) differ by more"
                f" than {bound:.3g}"
            )


def _run(policy, kernel, args, reducers, space):
    """Run a launch on copies of the arguments; return these and its results."""
    from .watch.checked import memory, trials

    moved, results = trials.copied(args), ()
    if spaces.resolve(space).memory != spaces.HOST:
        moved = memory.replaced(moved, lambda array: copy_of(memory.array_of(array), space))
    if reducers:
        results = dispatch.parallel_reduce(policy, kernel, *moved, reducer=reducers)
    else:
        dispatch.parallel_for(policy, kernel, *moved)
    spaces.fence(policy.space)
    return moved, results


@contextlib.contextmanager
def watching(seed: int = 0) -> Iterator[dict[str, int]]:
    """Send every launch of this thread on the host to the checked space: `with watching() as launches: ...`.

    This includes launches that name a space. Launches on a GPU stay there, as do those that a capture records
    for another space.

    Parameters
    ----------
    seed : int
        The schedule; see `pk.check`.

    Yields
    ------
    dict
        "checked": the number of launches on the checked space so far; "elsewhere": of all others.

    Examples
    --------
    >>> @pk.kernel
    ... def add(i, a, x):
    ...     x[i] += a
    >>> from portable.testing import watching
    >>> with watching() as launches:
    ...     pk.parallel_for(2, add, 1.0, np.zeros(2))
    >>> launches["checked"]
    1
    """
    launches, outer = {"checked": 0, "elsewhere": 0}, events.current().redirect or dispatch.bind

    def redirected(policy, kernel, args, reducers, scan=None, debug=False):
        policy, recording = as_policy(policy), events.current().recording
        elsewhere = recording is not None and recording.space.name != _REFERENCE
        if spaces.resolve(policy.space).memory == spaces.HOST and not elsewhere:
            policy = dataclasses.replace(policy, space=_REFERENCE)
        bound = outer(policy, kernel, args, reducers, scan, debug)
        launches["checked" if bound[0].name == _REFERENCE else "elsewhere"] += 1
        return bound

    with events.changed(redirect=redirected, seed=seed), spaces.use(_REFERENCE):
        yield launches
