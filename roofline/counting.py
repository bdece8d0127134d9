"""`roofline.count`: the operations of one launch, in the source and executed, and the bytes that it must
move.

Conventions. A floating-point operation (flop) is one of + - * / // % on floats; an fma is two. Negation, abs,
min, max, comparisons, selections and conversions are listed, but are no flops. A special function (exp, sqrt,
a random number) is one operation under its own name. Values that are known at compile time, and the counters
of loops, are no operations of the source. In the source a team has one member, which does all the work; if a
kernel reads its team's size, and a launch sets one, all members are counted, and values that are uniform over
a pack count once.

Sums of a ScatterView are counted as those of a private copy: a load, an addition and a store. Three byte
figures are distinguished: compulsory (of the touched elements the read ones, and the written ones, once),
requested (every load and store) and transferred (which only hardware counters measure). Accesses to scratch
and to a kernel's private small arrays are in none of these.
"""

from __future__ import annotations

import ast
import collections
import dataclasses
import functools
import math
from typing import Any, Literal

import numpy as np

import portable as pk
from portable.errors import InputError, LoweringError
from portable.roofline.arguments import Data
from portable.roofline.cost import disagreements
from portable.roofline.counts import Counts
from portable.roofline.operation_mix import ARITHMETIC, executed_totals, spilled
from portable.roofline.side import batch_seconds
from portable.roofline.touched import (
    SIZES,
    accesses,
    bytes_beyond_caches,
    by_data,
    by_names,
    compulsory,
    scattered,
    summed,
)

WARP, MEMBERS = 32, 1024  # members of a GPU's smallest team, and of its largest
ISSUED = "", "issued", ""  # of build "lanes": all lanes of the packs
# blocks of a launch that are timed separately; launches of each in a graph, and replays, of which the fastest
# counts
BLOCKS, IN_A_ROW, REPEATS = 4, 20, 3
SOME = 32  # blocks of a launch that represent all


def count(
    policy: int | pk.RangePolicy | pk.MDRangePolicy | pk.TeamPolicy,
    kernel: pk.Kernel[Any, *tuple[Any, ...]],
    *args: Any,
    reducer: pk.Reducer | tuple[pk.Reducer, ...] = (),
    scan: Literal["inclusive", "exclusive"] | None = None,
    executed: bool = True,
) -> Counts:
    """Count the operations of one launch, without hardware counters.

    The launch runs in separate builds; its writes are undone afterwards, so that the arguments are unchanged.
    The source's operations are counted on the host, with copies of the views of a device, because a source
    has the same operations on every space; executed operations are counted in the space of the launch, in the
    code that the optimiser produced for it.

    Parameters
    ----------
    policy : int, RangePolicy, MDRangePolicy or TeamPolicy
    kernel : Kernel
    *args
        The kernel's arguments, as of a launch.
    reducer : Reducer or tuple of Reducers, for a parallel_reduce or parallel_scan
        Its combine step counts once for each index.
    scan : "inclusive" or "exclusive", optional
        The last argument is then the scan's `out`.
    executed : bool
        Also count the instructions of the optimised code and masked lanes: two more runs.

    Returns
    -------
    Counts

    Raises
    ------
    KernelError, InputError, SpaceError
        As a launch would.
    """
    wanted, space = _on_host(policy)
    on_device = space.startswith("cuda")
    data = Data(args, executed, with_room=on_device and _as_many_members(kernel, wanted))
    notes = data.notes
    with data:
        text, touched, moves, passed_on = _text(wanted, kernel, data.args, reducer, scan, on_device)
        if not reducer:
            text = summed(text, set(scattered(names_of(kernel, wanted), args)))
        if branches(kernel):
            notes.append("the text has conditions: the counts are of these data" + _changes(text))
        masked, instructions = 0.0, None
        if executed and not (on_device and isinstance(wanted, pk.TeamPolicy)):
            masked = _masked(wanted, kernel, data, reducer, scan, f"lanes:{WARP}" if on_device else "lanes")
            data.restore()
        if executed and not on_device:
            instructions = pk.count(wanted, kernel, *args, reducer=reducer, scan=scan, build="executed")
    apart, alike, occupancy, local, alone = 0, 0, "", 0, 0.0
    if on_device and not reducer:
        found = pk.explain(policy, kernel, *args)
        apart, alike, occupancy = _explained(found, text, moves, wanted)
        local = int(found.facts.get("spills and local arrays, bytes a thread", 0))
    banks, spills = (0, 0), 0
    if executed and on_device and not reducer and _reaches_scratch(text):
        if not _as_many_members(kernel, wanted) or wanted.team_size == WARP:
            data.restore()
            found = pk.count(wanted, kernel, *data.args, build="banks")
            banks = tuple(found.get(("", f"banks {name}", ""), 0) for name in ("taken", "least"))
    if executed and not on_device and _much_arithmetic(instructions):
        spills = _spills(pk.listing(policy, kernel, *args, reducer=reducer, scan=scan), instructions)
    if executed and on_device:
        with data.on_device():
            instructions = pk.count(policy, kernel, *args, reducer=reducer, scan=scan, build="executed")
            alone = 0.0 if reducer else _time_block(policy, kernel, args)
    counts = Counts(
        kernel.name,
        kernel.place,
        in_words(wanted),
        text,
        instructions,
        masked,
        compulsory(text, touched, names_of(kernel, wanted), args),
        on_device,
        notes,
        apart,
        occupancy,
        {names: (read, written) for names, (_, (read, written)) in touched.items()},
        moves,
        passed_on,
        alike,
        spills,
        local,
        banks,
        by_data(kernel),
        alone,
    )
    quantities = {"flops": counts.flops, "bytes": counts.compulsory, "special": sum(counts.special.values())}
    notes += disagreements(kernel, _extent(wanted), args, quantities)
    return counts


def _explained(found, text, moves, policy):
    """Return (elements at scattered places, bytes of elements that a whole warp loads, occupancy in words) of
    a launch, from the reports of a device's compiler.

    The compiler does not know the data: an element that each index accesses once is scattered if the index
    before it accessed another sector, which is half a line.
    """
    asked = collections.Counter()
    for (_, operation, _), n in text.items():
        asked[operation.rpartition(" ")[2]] += n
    (extent, _), ways = size_of(policy), {(a.line, a.view): a.how for a in found.accesses}
    apart = alike = 0
    for (line, operation, dtype), n in text.items():
        name = operation.rpartition(" ")[2]
        how = ways.get((line, name), "")
        if accesses(operation, ("load ", "store ", "atomic ")) and how.startswith("strided"):
            apart += min(n, 2 * moves.get(name, n)) if asked[name] <= extent else n
        elif accesses(operation, "load ") and how == "uniform":
            alike += n * SIZES[dtype]
    registers, room = (
        found.facts.get("registers a thread"),
        found.facts.get("occupancy", "").partition(" ")[0],
    )
    occupancy = f"{registers} registers a thread leave room for {room} of its threads" if room else ""
    return apart, alike, occupancy


def _time_block(policy, kernel, args):
    """Return seconds of one block of a launch by itself, the slowest of several, on a device's present
    data."""
    facts = pk.explain(policy, kernel, *args).facts
    policy = pk.RangePolicy(0, policy) if isinstance(policy, int) else policy
    parts, _ = blocks_of(policy, facts.get("blocks"), facts.get("threads a block"))
    return max((in_a_graph(part, kernel, args) for part in parts[:BLOCKS]), default=0.0)


def blocks_of(policy, grid, threads):
    """Return (some of the blocks of a launch, as separate launches; the number of all blocks). The first team
    represents all teams.

    Parameters
    ----------
    policy : RangePolicy, MDRangePolicy or TeamPolicy
    grid : int or tuple of int, or None
        Blocks along each axis, that of the last index first; None for a space without blocks.
    threads : int
        Threads of a block.

    Returns
    -------
    (list of policies, int)
    """
    if not grid:
        return [], 0
    if isinstance(policy, pk.TeamPolicy):
        return [dataclasses.replace(policy, league_size=1)], policy.league_size
    total = math.prod(grid) if isinstance(grid, tuple) else grid
    few = np.random.default_rng(0).permutation(total)[:SOME] if total > SOME else range(total)
    if isinstance(policy, pk.RangePolicy):
        width = -(-(policy.end - policy.begin) // total)
        starts = (policy.begin + width * int(k) for k in few)
        return [dataclasses.replace(policy, begin=s, end=min(s + width, policy.end)) for s in starts], total
    extents = policy.extents
    width = 1 << max(-(-extents[-1] // grid[0]) - 1, 0).bit_length()
    sides = (*[1] * (len(extents) - 2), threads // width, width)
    tiles = [-(-n // side) for n, side in zip(extents, sides)]
    found = []
    for k in few:
        at = [int(t) * side for t, side in zip(np.unravel_index(int(k), tiles), sides)]
        begin = tuple(b + a for b, a in zip(policy.begin, at))
        end = tuple(min(b + side, e) for b, side, e in zip(begin, sides, policy.end))
        found.append(dataclasses.replace(policy, begin=begin, end=end))
    return found, total


def in_a_graph(policy, kernel, args, times=IN_A_ROW):
    """Return seconds of a launch, as one of several in a graph."""
    with pk.use(policy.space) as space, pk.capture(space) as graph:
        for _ in range(times):
            pk.parallel_for(policy, kernel, *args)
    wait = functools.partial(pk.fence, space)
    graph.replay()
    wait()
    return min(batch_seconds(graph.replay, wait, 1) for _ in range(REPEATS)) / times


def _reaches_scratch(text):
    return any(operation.endswith("(scratch)") for _, operation, _ in text)


def _much_arithmetic(executed):
    """Return True if code does so much arithmetic that registers may be too few; other code need not be
    tested."""
    totals = executed_totals(executed)
    return 4 * sum(totals["flops"].values()) > totals["loaded"] + totals["stored"]


def _spills(assembly, executed):
    """Return bytes that a launch spilled to its stack and reloaded: those of the block of loops with most
    arithmetic in the machine code, times the executions of its arithmetic."""
    each, arithmetic = spilled(assembly)
    ran = sum(n for (_, name, _), n in executed.items() if name in ARITHMETIC)
    return round(each * ran / max(arithmetic, 1))


def _on_host(policy):
    """Return the policy on a space of the host, and the name of its original space."""
    policy = pk.RangePolicy(0, policy) if isinstance(policy, int) else policy
    space = getattr(policy, "space", None)
    with pk.use(space if space is not None else pk.default_space()) as here:
        pass
    host = here if here.name in ("serial", "threads") else pk.Threads()
    return (dataclasses.replace(policy, space=host) if dataclasses.is_dataclass(policy) else policy), str(
        here
    )


def _text(policy, kernel, args, reducer, scan, on_device):
    """Return (counts of the source, the touched parts of its arguments, moves from line to line, bytes that
    caches fetch and write back by their size); a scan counts as a reduction, and a store of each prefix.

    Touched: {names: ((bytes read, written), (lines read, written))} of the arguments that share memory.
    """
    builds = _builds(kernel, policy, reducer, on_device)
    for roomy, build in builds:
        try:
            found = pk.count(roomy, kernel, *(args[:-1] if scan else args), reducer=reducer, build=build)
            break
        except (LoweringError, InputError):  # the work that a team divides may be too much for few members
            if build == builds[-1][1]:
                raise
    marks = {key: found.pop(key) for key in list(found) if not key[0]}
    for out in () if not scan else args[-1] if isinstance(args[-1], tuple) else args[-1:]:
        key = kernel.place, "store out", out.dtype.name
        found[key] = found.get(key, 0) + policy.end - policy.begin
    return (
        found,
        dict(by_names(marks)),
        {what.removeprefix("moves "): n for (_, what, _), n in marks.items() if what.startswith("moves ")},
        bytes_beyond_caches(marks),
    )


def _builds(kernel, policy, reducer, on_device):
    """Return (policy, build) pairs that may count a kernel's source, in the order in which they are tried.

    If a kernel reads the size of its team, its arrays may fit teams of the requested size only. A host's
    teams are smaller: each is given the scratch for the work that a device's many members divide.
    """
    if not isinstance(policy, pk.TeamPolicy):
        several = reducer if isinstance(reducer, tuple) else (reducer,)
        steps = (step for one in several for step in (one.lift, one.combine) if step is not None)
        straight = on_device and all(map(_straight, (kernel, *steps)))
        return [(policy, "touched:lanes" if straight else "touched")]
    if not _asks_for_size(kernel):
        return [(policy, "touched")]
    size, builds = policy.team_size, ["touched:lanes", f"touched:{WARP}", f"touched:{2 * WARP}"]
    if size is pk.AUTO:
        size, builds[0] = MEMBERS, "touched"
    elif on_device and size <= WARP:
        builds = [f"touched:{WARP}", "touched:lanes"]
    return [(_roomy(policy, size, build) if on_device else policy, build) for build in builds]


def _roomy(policy, size, build):
    """Return a policy with scratch for the work of `size` members, if the build has fewer."""
    _, _, width = build.partition(":")
    parts = -(-size // (int(width) if width.isdigit() else 1))
    return dataclasses.replace(policy, scratch_bytes=parts * policy.scratch_bytes)


def _as_many_members(kernel, policy):
    """Return True if a kernel's work is arranged for teams of the size of a launch."""
    return isinstance(policy, pk.TeamPolicy) and policy.team_size is not pk.AUTO and _asks_for_size(kernel)


def _asks_for_size(kernel):
    """Return True if a source, or a function that it calls, reads the size of its team."""
    return any(isinstance(node, ast.Attribute) and node.attr == "size" for node in _nodes(kernel))


@functools.cache
def _nodes(function):
    """Return the nodes of the syntax trees of a kernel or function and of the functions that it calls."""
    texts, seen, found = [function.portable_text], set(), []
    while texts:
        text = texts.pop()
        if id(text) in seen:
            continue
        seen.add(id(text))
        for node in ast.walk(text.tree):
            found.append(node)
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func).split(".")
                called = functools.reduce(lambda a, b: getattr(a, b, None), name[1:], text.scope.get(name[0]))
                texts += [called.portable_text] if hasattr(called, "portable_text") else []
    return found


def _straight(function):
    """Return True if neither a source nor the functions that it calls branch on values, or call one of their
    arguments: packs then do for each index the same operations as a single index."""
    choices, nodes = (ast.If, ast.While, ast.IfExp, ast.BoolOp), _nodes(function)
    given = {node.arg for node in nodes if isinstance(node, ast.arg)}
    called = {ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)}
    return not given & called and not any(isinstance(node, choices) for node in nodes)


def _masked(policy, kernel, data, reducer, scan, build):
    """Return the share of inactive lanes among the lanes for which operations were issued, in packs or in a
    GPU's warps."""
    data.restore()
    inputs = data.args[:-1] if scan else data.args  # without the scan's `out`
    found = pk.count(policy, kernel, *inputs, reducer=reducer, build=build)
    issued = found.pop(ISSUED, 0)
    return 1.0 - sum(found.values()) / issued if issued else 0.0


@functools.cache
def branches(kernel):
    """Return True if a source branches on values."""
    return any(
        isinstance(node, (ast.If, ast.While, ast.IfExp)) for node in ast.walk(kernel.portable_text.tree)
    )


def _changes(text):
    """Return a remark on a launch that writes the arguments that it reads, else "". A second run would show
    more, but may write out of bounds: a kernel that appends to an array would continue after its end."""
    read, written = (
        {operation.split(" ")[-1] for _, operation, _ in text if accesses(operation, words)}
        for words in (("load ", "atomic "), ("store ", "atomic "))
    )
    names = ", ".join(f"'{name}'" for name in sorted(read & written))
    return f", and the launch itself changes {names}: another one may count otherwise" if names else ""


def _extent(policy):
    """Return the number of indices or teams; for a box the tuple of its extents."""
    if isinstance(policy, pk.TeamPolicy):
        return policy.league_size
    return policy.extents if isinstance(policy, pk.MDRangePolicy) else policy.end - policy.begin


def in_words(policy):
    """Return the size of a policy: "1,000 indices", "20 teams"."""
    extent = _extent(policy)
    sizes = " x ".join(f"{n:,}" for n in (extent if isinstance(extent, tuple) else (extent,)))
    return f"{sizes} {'teams' if isinstance(policy, pk.TeamPolicy) else 'indices'}"


def size_of(policy):
    """Return the number of indices or teams of a policy, and the unit, "indices" or "teams"."""
    extent = _extent(policy)
    return math.prod(extent) if isinstance(extent, tuple) else extent, in_words(policy).split()[-1]


def names_of(kernel, policy):
    """Return the names of the arguments after the index or the team."""
    n_indices = len(policy.begin) if isinstance(policy, pk.MDRangePolicy) else 1
    return [*kernel.portable_text.params[n_indices:], "out"]


def static_arguments(launch):
    """Return {name: value} of the pk.static arguments, for which a launch's kernel was compiled."""
    names = names_of(launch.kernel, launch.policy)
    return {
        name: a.value for name, a in zip(names, launch.args, strict=False) if type(a) is type(pk.static(0))
    }
