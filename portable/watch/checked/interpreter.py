"""A launch: a kernel's Python run at every index, with each access recorded and checked.

`run` raises its findings; a `Run` used directly returns them.
"""

import array
import dataclasses
import itertools
import re
import traceback

import numpy as np

from ...core.compiler.reading.tree import Operation, flat
from ...core.language.types import converted
from ...errors import CheckError, InputError, PortableError
from ...core.events import current
from ...core.places.policy import AUTO, WITH_PREFIXES, MDRangePolicy, RangePolicy
from ...core.language.words import static
from . import races
from .arithmetic import Numbers, number
from .code import PLACES, SITES, site_of
from .findings import Finding, in_order
from .memory import CELL_SHIFT, SITE_SHIFT, WRITE, Fault, Memory, Watched, arrays_in, replaced, unwritten
from .schedule import NEVER, Member, Schedule
from .team import DEFAULT_TEAM_SIZE, Group, Team

MOST_MEMBERS = 1024  # of a block of CUDA's


class Run(Numbers):
    """One launch of Compiled code.

    Attributes
    ----------
    left : int
        Accesses until the schedule takes another member.
    log : callable
        Appends to the trace.
    segments : list of (first entry of the trace, lane, team, epoch, phase)
        Who made the accesses from there on.
    room : int or None
        Bytes of scratch that a team may use; None for any.
    limit : int or None
        Teams or indices to visit; None for all.
    """

    def __init__(
        self, compiled, policy, args, *, names=None, seed=None, bounded=True, limit=None, write=None
    ):
        self.policy, self.seed, self.write = policy, current().seed if seed is None else seed, write
        self.team_size, bounds = _extent(policy)
        self.entry = compiled.entry(self.team_size or DEFAULT_TEAM_SIZE)
        self.code, self.text = self.entry.code, self.entry.kernel.portable_text
        self.room = self.entry.scratch_static + getattr(policy, "scratch_bytes", 0) if bounded else None
        self.trace, self.segments, self.scratch_cells = array.array("q"), [], []
        self.log = self.trace.append
        self.found, self.memory, self.left, self.member = {}, Memory(), NEVER, None
        self.places = _indices(bounds, limit)
        self._take(args, names or self.entry.params, self.code.leaves[len(bounds) :])

    def _take(self, args, names, leaves):
        """The arguments with watched memory."""
        watched = iter(self.memory.watch(list(arrays_in(args, names)), self))
        args = replaced(args, lambda array: next(watched))
        self.outs = flat(tuple(args[-1:]))  # of a scan
        with np.errstate(over="ignore"):  # a number beyond float32 is infinite there
            self.args = [_number(a, leaf, self.code) for a, leaf in zip(flat(tuple(args)), leaves)]

    # ---- running
    def results(self):
        """Return the kernel's results by index (a team: of its member 0), in order; None for one that did
        not end."""
        results = [None] * len(self.places)

        def body(member):
            self._visit(member, results)

        with np.errstate(all="ignore"):
            if self.team_size or self.seed:
                Schedule(self, self.seed, "team" if self.team_size else "index").go(self._groups(), body)
                return results
            for group in self._groups():
                self.enter(group.members[0], NEVER)
                body(group.members[0])
        return results

    def _groups(self):
        """Yield the teams, or indices, with their members."""
        size = self.team_size or 1
        for k in range(len(self.places)):
            group = Group(k, size)
            group.members = [Member(rank, k * size + rank, group, k) for rank in range(size)]
            yield group

    def _visit(self, member, results):
        """Run one member through the kernel; its exceptions become findings."""
        try:
            first = (Team(member, member.group, self),) if self.team_size else self.places[member.index]
            result = self.code.function(self, *first, *self.args)
            if member.rank == 0:
                results[member.index] = result
                if self.write is not None:
                    self._write(result, *first)
        except PortableError:
            raise
        except (Exception, Fault) as error:  # noqa: BLE001  (whatever a kernel raises)
            self._failed(error, member)
            member.group.failed = True
        member.done = True

    def _write(self, result, index):
        """Write the prefix of a scan at an index that has returned."""
        site = site_of(self.text.file, self.text.line)
        for out, prefix in zip(self.outs, self.write(result, index)):
            self.log(out.cell((index,)) << CELL_SHIFT | site << SITE_SHIFT | WRITE)
            out.array[index] = converted(prefix, out.array.dtype.name)

    def enter(self, member, left):
        """Switch to a member, chosen by the schedule."""
        self.member, self.left = member, left
        self.segments.append((len(self.trace), member.lane, member.index, member.epoch, member.phase))

    # ---- findings
    def name_of(self, lane):
        """Return a lane in words."""
        if self.team_size:
            return f"member {lane % self.team_size} of team {lane // self.team_size}"
        index = self.places[lane]
        return f"index {index[0] if len(index) == 1 else index}"

    def note(self, kind, place, message, view=None, index=None, lanes=None, other_line=None, times=1):
        """Note a defect at a place (a Site, or a file and line), each once; `message` may be a function that
        makes it, called only for the first.
        """
        key = kind, *place[:2], view
        known = self.found.get(key)
        if known is None:
            members = tuple(map(self.name_of, (self.member.lane,) if lanes is None else lanes))
            text, name = message() if callable(message) else message, self.entry.kernel.name
            where = text, view, index, members, other_line, self.seed, self.team_size, 0
            known = Finding(kind, name, *place[:2], *where)
        self.found[key] = dataclasses.replace(known, times=known.times + times)

    def unwritten(self, view, cell, site):
        """Record a read of a private array's unwritten element."""
        index = view.root.index_of(cell)
        self.note(
            "uninitialised read",
            SITES[site],
            lambda: (
                f"{self.name_of(self.member.lane)} reads {view.name}[{', '.join(map(str, index or ()))}], "
                "which it has not written: a private array's content starts undefined"
            ),
            view.name,
            index,
        )

    def leak(self, view, index, site):
        """Record a store of a float64 value into float32."""
        if self.code.leaks:
            index = view.root.index_of(view.cell(index if isinstance(index, tuple) else (index,)))
            self.note(
                "float64 in float32",
                SITES[site],
                f"a float64 value is stored in '{view.name}', although all float views are float32: pass"
                " Python floats or np.float32, or write pk.float32(...)",
                view.name,
                index,
            )

    def record_infinity(self, message, site):
        """Record a number that became infinite."""
        self.note("float overflow", SITES[site], f"{message}, where it becomes infinite")

    def overflow(self, message, site):
        """Record a signed integer that does not fit."""
        wider = "floats" if "int64" in message else "pk.int64"
        self.note(
            "integer overflow",
            SITES[site],
            f"{message}; compute in {wider}, or in an unsigned type if it should wrap",
        )

    def diverged(self, waiting, other):
        """Record a collective that not all members reach."""
        word, file, line = waiting.place
        who = f"{self.name_of(waiting.lane)} waits at team.{word}()"
        if other.done:
            elsewhere = other.left_at
            where = f"in line {elsewhere}" if elsewhere else "at the end"
            what = f"member {other.rank} has returned {where}"
        else:
            elsewhere = other.place[2]
            what = f"member {other.rank} is at team.{other.place[0]}() in line {elsewhere}"
        self.note(
            "divergent barrier",
            (file, line),
            f"{who} in line {line} while {what}. Every member must reach the same team.{word}()",
            lanes=(waiting.lane, other.lane),
            other_line=elsewhere,
        )

    def _failed(self, error, member):
        """Record the finding of a lane that cannot continue."""
        place = self.text.file, self.text.line
        for frame, line in traceback.walk_tb(error.__traceback__):
            place = frame.f_globals[PLACES][line - 1] if PLACES in frame.f_globals else place
        who = self.name_of(member.lane)
        if isinstance(error, Fault):
            kind, message, view, index = error.args
            self.note(kind, place, f"{who}: {message}", view, index, (member.lane,))
        elif isinstance(error, AssertionError):
            self.note(
                "assertion",
                place,
                f"{who}: the assertion does not hold{': ' * bool(str(error))}{error}",
                lanes=(member.lane,),
            )
        else:
            message = re.sub(r"'(\w+)_\d+'", r"'\1'", str(error))  # variables by the user's names
            self.note("exception", place, f"{who}: {type(error).__name__}: {message}", lanes=(member.lane,))

    def look_at_reducers(self, values, in_order=False):
        """Record reducers whose combination of the first contributions depends on the grouping or (unless
        `in_order`) on the order.
        """
        with np.errstate(all="ignore"):
            first = [] if None in values else list(_states(self, values[:_TRIED]))
        for folding, states in first:
            for kind, message in itertools.islice(folding.broken_laws(states, in_order), 1):
                text = folding.reducer.combine.portable_text
                self.note(kind, (text.file, text.line), f"{folding.reducer!r}: {message}", lanes=())

    def findings(self):
        """Return everything found, after the run: a list of Finding."""
        races.find_races(self)
        return in_order(self.found.values())

    def table(self, values, name):
        """Return an array of numbers known at compile time."""
        return Watched(values, self, 0, valid=bytearray(b"\1" * values.nbytes), label=name)

    def local(self, shape, dtype, name):
        """Return a pk.local array, which records the bytes that have been written."""
        values = unwritten(shape, dtype)
        return Watched(values, self, 0, valid=bytearray(max(values.nbytes, 1)), label=name or None)


def _extent(policy):
    """Return the number of members of a team, None without teams; and the bounds of each dimension of the
    indices.
    """
    if isinstance(policy, MDRangePolicy):
        return None, list(zip(policy.begin, policy.end))
    if isinstance(policy, RangePolicy):
        return None, [(policy.begin, policy.end)]
    size = DEFAULT_TEAM_SIZE if policy.team_size is AUTO else policy.team_size
    if size > MOST_MEMBERS:
        raise InputError(f"TeamPolicy: team_size {size} is beyond the limit of {MOST_MEMBERS}, a GPU's")
    return size, [(0, policy.league_size)]


def _indices(bounds, limit):
    """Return the first indices within bounds."""
    if any(low >= high for low, high in bounds):
        return []  # product would first list those of the other dimensions
    return list(itertools.islice(itertools.product(*(range(*each) for each in bounds)), limit))


_TRIED = 40  # contributions


def run(compiled, policy, args, scan=None, outs=()):
    """Return the results of a launch, one a reducer, as Python numbers or tuples of them, or in `outs`;
    CheckError with all findings.

    An index of a box is its place counted row by row. A team's contribution is the return value of its member
    0.
    """
    if outs:
        compiled.entry(DEFAULT_TEAM_SIZE).results.addresses(outs, 0)  # or they are refused
    if scan in WITH_PREFIXES:
        results = _run_scan(compiled, policy, args, scan == "scan inclusive")
    else:
        launch = Run(compiled, policy, args)
        values = launch.results()
        launch.look_at_reducers(values)
        _raise(launch)
        results = combined(launch, values)
    for view, value in zip(outs, flat(results)):
        np.asarray(view)[...] = value
    return None if outs else results


def _raise(launch):
    found = launch.findings()
    if found:
        raise CheckError(found)


def combined(launch, values):
    """Return the results of a reduction from the return values of the indices."""
    with np.errstate(all="ignore"):
        results = [folding.result(folding.total(states)) for folding, states in _states(launch, values)]
    return launch.entry.paired(results, complex)


def _states(launch, values):
    """Yield (reducer, its states from the return values of the indices) for each reducer."""
    first, place = launch.policy.begin if isinstance(launch.policy, RangePolicy) else 0, 0
    for folding in launch.entry.foldings:
        end = place + folding.n
        yield folding, [folding.state(value[place:end], index) for index, value in enumerate(values, first)]
        place = end


def _run_scan(compiled, policy, args, inclusive):
    """Write the prefixes of a kernel's return values into the last argument, one index after the other;
    return the total as a one-tuple.
    """
    (folding,) = compiled.entry(DEFAULT_TEAM_SIZE).foldings
    total = folding.neutral

    def write(values, index):
        nonlocal total
        before, total = total, folding.combine(*total, *folding.state(values, index))
        return folding.finished(total if inclusive else before)

    launch = Run(compiled, policy, args, seed=0, write=write)
    launch.look_at_reducers(launch.results(), in_order=True)
    _raise(launch)
    return (folding.result(total),)


def _number(value, leaf, code):
    """Return an argument as a number of the checked space; views unchanged."""
    value = value.value if isinstance(value, static) else value
    return number(value, code.strong(leaf.dtype)) if isinstance(leaf, Operation) else value
