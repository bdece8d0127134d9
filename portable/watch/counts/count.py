"""Count a launch's operations, by a build of the kernel that counts while it runs."""

from __future__ import annotations


from typing import Any

from ...core.launch import dispatch
from ...core import events, locks
from ...core.language.annotations import AnyPolicy, Scan
from ...core import registry
from ...errors import InputError, SpaceError
from ...core.language.kernel import Kernel
from ...core.language.reducer import Reducers

_lock = locks.Lock()  # a build's counters are for one launch at a time
BUILDS = ("text", "touched", "lanes", "banks", "executed")


def count(
    policy: AnyPolicy,
    kernel: Kernel[Any, *tuple[Any, ...]],
    *args: Any,
    reducer: Reducers = (),
    scan: Scan | None = None,
    build: str = "text",
) -> dict[tuple[str, str, str], int]:
    """Run a launch once in a counting build, and tell how often each operation happened.

    Parameters
    ----------
    policy, kernel, *args : as in parallel_for; on "serial" or "threads", and on "cuda" for build "executed",
        that of the GPU's
        own code. The launch happens: what it writes is written.
    reducer : Reducer or tuple of Reducers
        Of a reduction or scan; their combine step then counts once an index.
    scan : "inclusive" or "exclusive", optional
        For build "executed" of a scan, whose output is the last argument.
    build : str
        "text": operations of the kernel's text, index by index; a team has one member, who does all the work.
        "touched": the same; and as ("", "touched x", "load") how many elements of argument x, and as ("",
        "lines x", "load") how many lines of 64 bytes, are read at all, with "store" written, whose ("",
        "bytes x", "") is an element's size. Arguments that share memory are one: "touched x, y". ("", "moves
        x", "") is how often an access was to another line than the access before it at the same place of the
        text; ("", "beyond 65536", "load") how many bytes the workers' caches would fetch, and with "store"
        write back, if they had so many bytes together and kept what was used last: from a sample. "lanes":
        the text's operations for packs of lanes, each lane that takes part; and as ("",
        "issued", "") how many lanes the packs had for all of these operations together, masked off or not.
        "lanes:32": in packs of so many, and teams have as many members. "touched:lanes", "touched:32": what
        is touched, by packs so. "banks": as "lanes:32" without "issued"; and as ("", "banks taken", ""), of a
        sample of the accesses to scratch, how often a GPU's shared memory would be asked, and as ("", "banks
        least", "") how often if no two words of an access were in one bank. "executed": instructions of the
        optimised code, also those of the loops around the kernel. Sums of a ScatterView are the text's
        atomics; executed are those of private copies, where the launch has them.

    Returns
    -------
    dict of (line, operation, type) to int
        line is "file:line". Of text the operation is a Python operator, a word of the language ("select",
        "convert"), an access ("load x", "store x", "atomic add x" of the argument x; "load (local)" and "load
        (scratch)" of arrays made in the kernel) or a function's name, and the type a dtype; what is known at
        compile time does not count. Executed operations and types are LLVM's; "special exp" is a call of one
        of the layer's own functions, and "inside exp fma" what such calls did, on a CPU of functions that
        have no branches.

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
    name, _, width = build.partition(":")
    wide = name in ("lanes", "touched") and width.isdigit() and 1 <= int(width) <= 64
    if name not in BUILDS or width and not wide and build != "touched:lanes":
        raise InputError(f"build: {build!r} was given; one of {', '.join(BUILDS)} is wanted")
    space, policy, backend, policy_kind, specs, reducers, words = dispatch.describe_launch(
        policy, kernel, args, reducer, scan
    )
    if name not in backend.builds:
        able = [f"'{other}'" for other in registry.names() if name in registry.launches(other).builds]
        raise SpaceError(
            f"build '{build}' is counted on {' and '.join(able)}, not on '{space}'; a kernel's text does the"
            " same on all"
        )
    with _lock, locks.uninterrupted():
        return backend.counted(space, kernel, policy, policy_kind, specs, reducers, words, build)
