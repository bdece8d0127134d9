"""Count a launch's operations, by a build of the kernel that counts while it runs."""

from __future__ import annotations

from typing import Any

from ...core.launch import dispatch
from ...core import events, locks, registry
from ...core.language.annotations import AnyPolicy, Scan
from ...errors import InputError, SpaceError
from ...core.language.kernel import AnyKernel
from ...core.language.reducer import Reducers

_lock = locks.Lock()  # a build's counters are for one launch at a time
BUILDS = ("text", "touched", "lanes", "banks", "executed")


def count(
    policy: AnyPolicy,
    kernel: AnyKernel,
    *args: Any,
    reducer: Reducers = (),
    scan: Scan | None = None,
    build: str = "text",
) -> dict[tuple[str, str, str], int]:
    """Run a launch once in a counting build, and return how often each operation happened.

    Parameters
    ----------
    policy, kernel, *args : as in parallel_for; on "serial" or "threads", and on "cuda" for build "executed",
        that of the GPU's machine code. The launch takes effect: its output is written.
    reducer : Reducer or tuple of Reducers
        Of a reduction or scan; their combine step then counts once an index.
    scan : "inclusive" or "exclusive", optional
        For build "executed" of a scan, whose output is the last argument.
    build : str
        "text": operations of the kernel's source, index by index; a team has one member, which does all the
        work. "touched": the same; and as ("", "touched x", "load") the number of elements of argument x, and
        as ("", "lines x", "load") the number of lines of 64 bytes, that are read at all, with "store"
        written; ("", "bytes x", "") is an element's size. Arguments that share memory are one: "touched x,
        y". ("", "moves x", "") is the number of accesses to another line than the preceding access at the
        same place of the source; ("", "beyond 65536", "load") the number of bytes that the workers' caches
        would fetch, and with "store" write back, if they had so many bytes together and replaced the least
        recently used line: estimated from a sample. "lanes": the source's operations for packs of lanes,
        counting each active lane; and as ("", "issued", "") the number of lanes of the packs for all of these
        operations together, masked off or not. "lanes:32": in packs of 32, and teams have as many members.
        "touched:lanes", "touched:32": the same as "touched", by such packs. "banks": as "lanes:32" without
        "issued"; and as ("", "banks taken", ""), for a sample of the accesses to scratch, the number of
        passes through a GPU's shared memory, and as ("", "banks least", "") that number without bank
        conflicts. "executed": instructions of the optimised code, also those of the loops around the kernel.
        Sums of a ScatterView count as atomics in the source's builds; "executed" counts those of private
        copies, if the launch has them.

    Returns
    -------
    dict of (line, operation, type) to int
        line is "file:line". For builds of the source the operation is a Python operator, a word of the
        language ("select", "convert"), an access ("load x", "store x", "atomic add x" of the argument x;
        "load (local)" and "load (scratch)" of arrays made in the kernel) or a function's name, and the type a
        dtype; values known at compile time do not count. Executed operations and types are LLVM's; "special
        exp" is a call of one of portable's functions, and "inside exp fma" the operations of such calls, on a
        CPU of functions without branches.

    Raises
    ------
    InputError, SpaceError
        There is no such `build`, or the space does not count it.

    Examples
    --------
    >>> @pk.kernel
    ... def add(i, a, x):
    ...     x[i] += a
    >>> counts = pk.count(pk.RangePolicy(0, 9, space="serial"), add, 1.0, np.zeros(9))
    >>> sum(n for (line, operation, dtype), n in counts.items() if operation == "+")
    9
    """
    events.refuse_while_recording("a count, which runs the launch,")
    name, _, width = str(build).partition(":")
    wide = name in ("lanes", "touched") and width.isdigit() and 1 <= int(width) <= 64
    if name not in BUILDS or width and not wide and build != "touched:lanes":
        raise InputError(f"build is {build!r}; expected one of {', '.join(BUILDS)}")
    space, policy, backend, policy_kind, specs, reducers, words = dispatch.describe_launch(
        policy, kernel, args, reducer, scan
    )
    if name not in backend.builds:
        able = [f"'{other}'" for other in registry.names() if name in registry.launches(other).builds]
        raise SpaceError(
            f"build '{build}' is counted on {' and '.join(able)}, not on '{space}'; counts are the same"
            " on all"
        )
    with _lock, locks.uninterrupted():
        return backend.counted(space, kernel, policy, policy_kind, specs, reducers, words, build)
