"""Findings of the checked space, each with its place, its memory and the members that it is about."""

from __future__ import annotations

from dataclasses import dataclass

# The kinds of findings, in the order of a report: possible causes of the others come first.
KINDS = dict(
    line.split(": ", 1)
    for line in """
divergent barrier: a barrier or collective that some members do not reach
out of bounds: an index beyond the view, its scratch or its private array
negative index: an index below zero: indices never wrap
read-only write: a write through a read-only view
scratch overflow: more scratch than TeamPolicy(scratch_bytes=) asked for
uninitialised read: a read of memory that was never written
missing barrier: members of a team that reach the same element, one of them writing, without a barrier between
non-atomic update: an element that some update atomically and others read or write plainly
race: indices, teams or members that reach the same element in no order, one of them writing
float overflow: finite numbers beyond float16 or bfloat16
integer overflow: signed integers beyond 32 or 64 bits
float64 in float32: a float64 value stored by a kernel whose views are all float32
not associative: a reducer whose result depends on how contributions are grouped, by more than rounding
does not commute: a reducer made without commutes=False whose result depends on which contribution comes first
assertion: an assert that does not hold
exception: anything else that Python raised
team size: results that differ between team sizes by more than rounding
""".strip().splitlines()
)
_RANK = {kind: rank for rank, kind in enumerate(KINDS)}


@dataclass(frozen=True, slots=True)
class Finding:
    """One defect of a kernel, as `pk.check` reports it.

    Attributes
    ----------
    kind : str
        A key of `KINDS`.
    kernel, file : str
    line : int
        The place of the defect. Of two accesses that of the later one in the kernel's course.
    message : str
        The defect and its remedy.
    view : str or None
        The label of the memory concerned: a view's label, else the name of the parameter or variable.
    index : tuple of int or None
        The element.
    members : tuple of str
        The index, team or members concerned, "index 3" or "member 1 of team 0"; two where two are involved.
    other_line : int or None
        Where the other member was.
    seed : int
        The schedule; the same seed and team size run the same schedule again.
    team_size : int or None
        Members of a team in that run; None for a policy without teams.
    times : int
        How often the same was found.
    """

    kind: str
    kernel: str
    file: str
    line: int
    message: str
    view: str | None = None
    index: tuple | None = None
    members: tuple = ()
    other_line: int | None = None
    seed: int = 0
    team_size: int | None = None
    times: int = 1

    def __str__(self):
        run = f"seed {self.seed}" + (f", team size {self.team_size}" if self.team_size is not None else "")
        again = f"; found {self.times:,} times" if self.times > 1 else ""
        return f"{self.kind}: kernel '{self.kernel}' ({self.file}:{self.line}): {self.message} [{run}{again}]"

    @property
    def key(self):
        """The findings of one key are one defect."""
        return self.kind, self.file, self.line, self.view


def in_order(findings):
    """Return a list of findings, causes first."""
    return sorted(findings, key=lambda f: (_RANK[f.kind], f.file, f.line))
