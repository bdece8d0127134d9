"""pk.check: run a launch on copies of its arguments in the checked space, and report its findings."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.language.annotations import AnyPolicy
from ...errors import InputError
from ..html_table import html_table
from ...core.language.kernel import AnyKernel
from ...core import registry
from ...core.places.policy import TeamPolicy, as_policy, check_index
from ...core.language.reducer import Reducers
from ...core.launch.dispatch import check_reducers

if TYPE_CHECKING:
    from .findings import Finding

SEEDS = (0, 1)
TEAM_SIZES = (1, 2, 7, 32)


class Report:
    """Findings of `check`; true if there are none. Prints as text, shows as a table in notebooks.

    Attributes
    ----------
    kernel : str
    findings : tuple of Finding, causes first
    ok : bool
    seeds, team_sizes : tuple of int
        The schedules that ran; no team sizes for a policy without teams.
    limit : int or None
        How many teams or indices the further schedules visited; None for all. The first one visits all.
    """

    def __init__(
        self,
        kernel: str,
        findings: Iterable[Finding],
        seeds: Iterable[int],
        team_sizes: Iterable[int],
        limit: int | None,
    ):
        self.kernel, self.findings, self.limit = kernel, tuple(findings), limit
        self.seeds, self.team_sizes = tuple(seeds), tuple(team_sizes)

    @property
    def ok(self) -> bool:
        """Return True if there are no findings."""
        return not self.findings

    def __bool__(self) -> bool:
        return self.ok

    def _title(self):
        found = f"{len(self.findings)} finding(s)" if self.findings else "nothing found"
        sizes = f", team sizes {', '.join(map(str, self.team_sizes))}" if self.team_sizes else ""
        first = f"; the first {self.limit} only, after one run of all" if self.limit else ""
        return f"kernel '{self.kernel}': {found} (seeds {', '.join(map(str, self.seeds))}{sizes}{first})"

    def __str__(self):
        return "\n".join([self._title(), *(f"  {finding}" for finding in self.findings)])

    __repr__ = __str__

    def _repr_html_(self):
        rows = [(f.kind, f"{f.file}:{f.line}", f.message, f.seed, f.team_size or "") for f in self.findings]
        return html_table(self._title(), rows, ("kind", "line", "what", "seed", "team size"))


def check(
    policy: AnyPolicy,
    kernel: AnyKernel,
    *args: Any,
    reducer: Reducers | None = None,
    seeds: Sequence[int] | None = None,
    team_sizes: Sequence[int] = TEAM_SIZES,
    **named: Any,
) -> Report:
    """Run a launch in the checked space, on copies, and report races, missing barriers and the like.

    Parameters
    ----------
    policy, kernel, *args : as in parallel_for, or parallel_reduce
        Nothing that the caller holds is changed. Views of a GPU are copied to the host. The policy's space is
        not used.
    reducer : Reducer or tuple of Reducers, optional
        For kernels that return contributions; without one, returned values are ignored.
    seeds : sequence of int, optional
        One schedule each. 0 runs indices and members in order; any other number interleaves them at accesses.
        The ordering of accesses does not depend on it, unless the kernel's control flow does. Default: 0, and
        1 if the launch is small enough.
    team_sizes : sequence of int, default (1, 2, 7, 32)
        The launch is repeated with teams of these sizes, if it is small enough; results must agree within
        rounding. The policy's own size runs first. Not used by other policies.

    Returns
    -------
    Report

    Raises
    ------
    InputError, KernelError
        The launch is refused on every space; no index was run.

    Notes
    -----
    docs/checked.md lists the defects that are found, and those that are not.

    Examples
    --------
    >>> @pk.kernel
    ... def shift(i, x):
    ...     x[i] = x[i + 1]
    >>> report = pk.check(3, shift, np.zeros(4))
    >>> report.ok, report.findings[0].kind
    (False, 'race')
    """
    from . import trials  # imported here, so that importing portable costs no more

    policy = dataclasses.replace(as_policy(policy), space="checked")
    kernel, args = registry.part("given arguments").arranged(policy, kernel, args, named)
    reducers = () if reducer is None else reducer if isinstance(reducer, tuple) else (reducer,)
    if reducers:
        check_reducers(policy, reducers)
    in_full, seeds = seeds is not None, _numbers(SEEDS if seeds is None else seeds, "seeds", 0)
    sizes = _numbers(team_sizes, "team_sizes", 1) if isinstance(policy, TeamPolicy) else ()
    return Report(kernel.name, *trials.run(policy, kernel, args, reducers, seeds, in_full, sizes))


def _numbers(values, name, least):
    values = values if np.iterable(values) else (values,)
    found = tuple(check_index(v, f"check: {name}", least) for v in values)
    if not found:
        raise InputError(f"check: {name} is empty; expected one or more integers")
    return found
