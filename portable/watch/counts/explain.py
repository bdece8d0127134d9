"""Explain a kernel's code: packed or scalar, registers and spills, and the lines with non-contiguous memory
accesses.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ...core.launch import dispatch
from ..html_table import html_table
from ...core.language.annotations import AnyPolicy, Scan
from ...core.language.kernel import AnyKernel
from ...core.language.reducer import Reducers


class Access(NamedTuple):
    """Access pattern of one line to one view: "uniform" (all lanes the same element), "contiguous", or
    "strided or gathered"."""

    line: str
    view: str
    how: str


class Explanation:
    """Facts about a kernel's compiled code; prints as text, shows as a table in notebooks.

    Attributes
    ----------
    kernel, space : str
    facts : dict of str
    accesses : list of Access
    tree : str
        The typed tree: every operation with its dtype, and its kind: uniform, linear or varying between
        lanes.
    """

    def __init__(self, kernel, space, facts, accesses, tree):
        self.kernel, self.space, self.facts, self.tree = kernel, space, facts, tree
        self.accesses = [Access(*a) for a in accesses]

    def _rows(self):
        yield from self.facts.items()
        for a in self.accesses:
            yield f"{a.line}: {a.view}", a.how

    def __str__(self):
        return "\n".join(
            [
                f"kernel '{self.kernel}' on '{self.space}'",
                *(f"  {name}: {value}" for name, value in self._rows()),
            ]
        )

    __repr__ = __str__

    def _repr_html_(self):
        return html_table(f"{self.kernel} on {self.space}", self._rows())


def explain(policy: AnyPolicy, kernel: AnyKernel, *args: Any) -> Explanation:
    """Explain the code that parallel_for would run: packed or scalar, registers, spills, occupancy, and
    each line's access pattern.

    Parameters
    ----------
    policy, kernel, *args : as in parallel_for; nothing runs

    Returns
    -------
    Explanation
        An access that is "strided or gathered" costs a memory transaction a lane: put the lane's index last
        (`x[c, i]`).

    Examples
    --------
    >>> @pk.kernel
    ... def add(i, a, x):
    ...     x[i] += a
    >>> told = pk.explain(pk.RangePolicy(0, 9, space="serial"), add, 1.0, np.zeros(9))
    >>> [access.how for access in told.accesses]
    ['contiguous']
    """
    space, policy, backend, policy_kind, specs, _, _ = dispatch.describe_launch(policy, kernel, args)
    return Explanation(kernel.name, str(space), *backend.explain(space, kernel, policy, policy_kind, specs))


def listing(
    policy: AnyPolicy,
    kernel: AnyKernel,
    *args: Any,
    reducer: Reducers = (),
    scan: Scan | None = None,
) -> str:
    """Return the machine code of a launch as text: this CPU's assembly, or PTX.

    Parameters
    ----------
    policy, kernel, *args, reducer, scan : as in count; nothing runs

    Returns
    -------
    str

    Raises
    ------
    SpaceError
        On "checked", which has no machine code.

    Examples
    --------
    >>> @pk.kernel
    ... def add(i, a, x):
    ...     x[i] += a
    >>> len(pk.listing(pk.RangePolicy(0, 9, space="serial"), add, 1.0, np.zeros(9))) > 100
    True
    """
    space, policy, backend, policy_kind, specs, reducers, _ = dispatch.describe_launch(
        policy, kernel, args, reducer, scan
    )
    return backend.listing(space, kernel, policy, policy_kind, specs, reducers)
