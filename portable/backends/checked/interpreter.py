"""What a launch means: its kernel in plain Python at every index, with each access noted and looked into.

`run_for`, `run_reduce` and `run_scan` raise what they find; a `Run` by itself hands it back. Arguments are views, NumPy arrays, numbers and tuples of these.
"""

from __future__ import annotations

import array
import itertools
import traceback

import numpy as np

from ...errors import CheckError, InputError, LanguageError, PortableError
from ...compiler.types import UNSIGNED, converted
from ...events import current
from ...policy import AUTO, MDRangePolicy, RangePolicy, TeamPolicy
from . import races
from .arithmetic import Overflow
from .findings import Notes
from .memory import (
    CELL_SHIFT,
    SITE_SHIFT,
    WRITE,
    Fault,
    Memory,
    Watched,
    arrays_in,
    replaced,
    unwritten,
    whole,
)
from .plain import reducing, unmark
from .rewrite import SITES, WATCHED, Site, site_of, watched
from .schedule import NEVER, Member, Schedule
from .team import Group, Team

DEFAULT_TEAM_SIZE = 4                     # more than one pair of members, and still quick
MOST_MEMBERS = 1024                       # of a block of CUDA's


class Run:
    """One launch at work.

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

    def __init__(self, policy, fn, args, *, names=None, seed=None, room=None, limit=None, out=None, contributed=None):
        seed = current().seed if seed is None else seed
        self.policy, self.fn, self.seed, self.room, self.limit = policy, fn, seed, room, limit
        self.is_team = isinstance(policy, TeamPolicy)
        self.team_size = None if not self.is_team else DEFAULT_TEAM_SIZE if policy.team_size is AUTO else policy.team_size
        if self.is_team and self.team_size > MOST_MEMBERS:
            raise InputError(f"TeamPolicy: team_size {self.team_size} is beyond the limit of {MOST_MEMBERS}, a GPU's")
        self.trace, self.segments, self.scratch_cells = array.array("q"), [], []
        self.log = self.trace.append
        self.notes = Notes(fn.__name__, seed, self.team_size)
        self.memory, self.left, self.member, self.contributed = Memory(), NEVER, None, contributed
        self._places = list(_places(policy)) if isinstance(policy, MDRangePolicy) else None
        names = names or fn.__code__.co_varnames[len(policy.begin) if self._places is not None else 1:fn.__code__.co_argcount]
        *args, self.out = self._watch((*args, out), (*names, "out"))
        self.args = tuple(args)
        single = self._is_single()
        self.own_float = np.float32 if single else np.float64
        self.call, says_double = watched(fn, single, self)
        self.float32_only = single and not says_double

    # ---- arguments
    def _watch(self, args, names):
        return unmark(replaced(args, iter(self.memory.watch(list(arrays_in(args, names)), self))))

    def _is_single(self):
        dtypes = set()

        def look(arg):
            for part in arg if isinstance(arg, tuple) else (arg,):
                look(part) if isinstance(part, tuple) else dtypes.add(getattr(part, "dtype", None) if isinstance(part, Watched) else None)
        look(self.args)
        return np.dtype(np.float32) in dtypes and np.dtype(np.float64) not in dtypes

    # ---- running
    def results(self):
        """What the kernel returned at each index (a team: its member 0), in order; None where it did not come to an end."""
        n = self.policy.league_size if self.is_team else len(self._places) if self._places is not None else self.policy.end - self.policy.begin
        n = n if self.limit is None else min(n, self.limit)
        results = [None] * n
        with np.errstate(all="ignore", over="call", call=Overflow.handler):
            before, Overflow.tell = Overflow.tell, self._overflowed
            try:
                if self.is_team or self.seed:
                    self._interleaved(n, results)
                else:
                    self._one_by_one(n, results)
            finally:
                Overflow.tell = before
        return results

    def _one_by_one(self, n, results):
        call, args, trace, segments = self.call, self.args, self.trace, self.segments
        for lane in range(n):
            member = self.member = Member(0, lane, None, lane)
            segments.append((len(trace), lane, lane, 0, 0))
            try:
                results[lane] = call(*self._index(lane), *args)
                self._finished(results[lane], lane)
            except PortableError:
                raise
            except (Exception, Fault) as error:  # noqa: BLE001  (whatever a kernel raises is a finding)
                self._failed(error, member)

    def _interleaved(self, n, results):
        def groups():
            for number in range(n):
                group = Group(number, self.team_size or 1)
                group.members = [Member(rank, number * group.size + rank, group, number) for rank in range(group.size)]
                yield group

        def body(member):
            try:
                first = (Team(member, member.group, self),) if self.is_team else self._index(member.lane)
                result = self.call(*first, *self.args)
                if member.rank == 0:
                    results[member.index] = result
                    self._finished(result, member.index)
            except PortableError:
                raise
            except (Exception, Fault) as error:  # noqa: BLE001  (whatever a kernel raises is a finding)
                self._failed(error, member)
                member.group.failed = True
            member.done = True

        Schedule(self, self.seed, "team" if self.is_team else "index").go(groups(), body)

    def _index(self, lane):
        return self._places[lane] if self._places is not None else (self.policy.begin + lane,)

    def _finished(self, result, lane):
        """An index has returned; in a scan its prefix is written now."""
        if self.contributed is not None:
            cell, _ = self.out.element(self.policy.begin + lane, 0)
            self.log(cell << CELL_SHIFT | site_of(self.fn.__code__, self.fn.__code__.co_firstlineno) << SITE_SHIFT | WRITE)
            self.contributed(result, lane)

    def enter(self, member, left):
        """The schedule goes on with a member."""
        self.member, self.left = member, left
        self.segments.append((len(self.trace), member.lane, member.index, member.epoch, member.phase))

    def pause(self):
        """Enough accesses: let the schedule take another member."""
        member = self.member
        if member.group is None:
            self.left = NEVER
        else:
            member.switch()

    # ---- what goes wrong
    def name_of(self, lane):
        """A lane in words."""
        if self.is_team:
            return f"member {lane % self.team_size} of team {lane // self.team_size}"
        index = self._index(lane)
        return f"index {index[0] if len(index) == 1 else index}"

    def note(self, kind, place, message, view=None, index=None, lanes=None, **more):
        """Note a defect at a place (a Site, or a file and line)."""
        file, line = (place.file, place.line) if isinstance(place, Site) else place
        lanes = (self.member.lane,) if lanes is None else lanes
        self.notes.add(kind, file, line, message, view, index, tuple(map(self.name_of, lanes)), **more)

    def unwritten(self, view, cell, site):
        """A private array's element was read before it was written."""
        index = view.root.index_of(cell)
        self.note("uninitialised read", SITES[site], lambda: f"{self.name_of(self.member.lane)} reads {_element(view.name, index)}, "
                  "which it has not written: a private array's content starts undefined", view.name, index)

    def leak(self, view, cell, site):
        """A float64 value is stored into float32."""
        index = view.root.index_of(cell)
        self.note("float64 in float32", SITES[site], f"a float64 value is stored in '{view.name}', although all float views "
                  "of this kernel are float32: the arithmetic was done in float64. Pass Python floats or np.float32 as "
                  "arguments, or say pk.float32(...) if it is meant", view.name, index)

    def overflow(self, message, site):
        """A signed integer does not fit."""
        self.note("integer overflow", SITES[site], f"{message}; compute in pk.int64, or in an unsigned type if it is meant to wrap")

    def _overflowed(self, message, frame):
        while frame is not None and WATCHED not in frame.f_globals:
            frame = frame.f_back
        if frame is not None:
            self.note("integer overflow", (frame.f_code.co_filename, frame.f_lineno),
                      f"{message}; compute in pk.int64, or in an unsigned type if it is meant to wrap")

    def leave(self, line):
        """The member returns."""
        self.member.left_at = line

    def diverged(self, waiting, other):
        """A collective that not all members reach."""
        word, file, line = waiting.place
        who = f"{self.name_of(waiting.lane)} waits at team.{word}()"
        if other.done:
            elsewhere = other.left_at
            where = f"in line {elsewhere}" if elsewhere else "at the end"
            what = f"member {other.rank} has returned {where}"
        else:
            elsewhere = other.place[2]
            what = f"member {other.rank} is at team.{other.place[0]}() in line {elsewhere}"
        self.note("divergent barrier", (file, line), f"{who} in line {line} while {what}. "
                  f"Every member must reach the same team.{word}()", lanes=(waiting.lane, other.lane), other_line=elsewhere)

    def _failed(self, error, member):
        """A lane cannot go on."""
        place = self.fn.__code__.co_filename, self.fn.__code__.co_firstlineno
        for frame, line in traceback.walk_tb(error.__traceback__):
            if WATCHED in frame.f_globals:
                place = frame.f_code.co_filename, line
        who = self.name_of(member.lane)
        if isinstance(error, Fault):
            kind, message, view, index = error.args
            self.note(kind, place, f"{who}: {message}", view, index, (member.lane,))
        elif isinstance(error, AssertionError):
            self.note("assertion", place, f"{who}: the assertion does not hold{': ' * bool(str(error))}{error}", lanes=(member.lane,))
        else:
            self.note("exception", place, f"{who}: {type(error).__name__}: {error}", lanes=(member.lane,))

    def findings(self):
        """Everything found, after the run: a list of Finding."""
        races.look(self, SITES)
        return self.notes.findings()

    def conversion(self, dtype, round_):
        """The word that makes an integer of `dtype` of a number, rounded by `round_` first."""
        make = int if dtype == "int" else np.dtype(dtype).type

        def convert(site, value):
            value = round_(value) if round_ and isinstance(value, (float, np.floating)) else value
            return make(self.fitted(value, dtype, "int64" if dtype == "int" else dtype, site))
        return convert

    def fitted(self, value, dtype, what, site):
        """A number as an integer of `dtype`, by the rules of types.converted; noted where a signed one, or a float, does not fit."""
        by_bits = dtype in UNSIGNED or isinstance(value, np.unsignedinteger)  # what has no sign is meant to wrap
        if isinstance(value, np.generic):
            value = value.item()
        number = converted(value, dtype)
        lost = value != value or int(value) != number if isinstance(value, float) and abs(value) != np.inf else value != number
        if lost and (isinstance(value, float) or not by_bits):
            self.overflow(f"{value} does not fit {what}", site)
        return number

    def range(self, site, *bounds):
        """range(...), whose bounds may be bools. A step beyond the ends of int64 is noted."""
        steps = range(*map(whole, bounds))
        if abs(steps.step) > 1 and not -2**63 <= steps.stop + steps.step < 2**63:
            self.overflow(f"{steps} steps beyond int64", site)
        return steps

    def local(self, site, shape, dtype):
        """pk.local, of which every byte that has been written is known."""
        values = unwritten(shape, dtype)
        return Watched(values, self, 0, valid=bytearray(max(values.nbytes, 1)))


def _element(label, index):
    return f"{label}[{', '.join(map(str, index or ()))}]"


def _raise(run):
    found = run.findings()
    if found:
        raise CheckError(found)


def run_for(policy, fn, args, **options):
    """Call `fn` for every index of `policy`; CheckError with all that was found, if anything was.

    Parameters
    ----------
    policy : RangePolicy, MDRangePolicy or TeamPolicy
    fn : function
        The user's own function.
    args : tuple of views, ndarrays, numbers and tuples of them
    names : sequence of str, optional
        Of the arguments; `fn`'s own parameters if not given.
    seed : int, optional
        The schedule; that of `testing.watching`, or 0, if not given.
    room : int, optional
        Bytes of scratch that a team may use; any if not given.
    """
    run = Run(policy, fn, args, **options)
    run.results()
    _raise(run)


def run_reduce(policy, fn, args, reducers, dtypes=None, **options):
    """Combine what `fn` returns for every index of `policy`, from the first index to the last.

    Parameters
    ----------
    policy, fn, args, options
        As for `run_for`. A team contributes what its member 0 returns.
    reducers : sequence of Reducer
        One for each value that `fn` returns.
    dtypes : sequence of str, optional
        Of the first number of each reducer's state, by which the neutral state is made; float64 if not given.

    Returns
    -------
    tuple
        One result a reducer, as Python numbers or tuples of them. An index of a box is its place counted row by row.
    """
    run = Run(policy, fn, args, **options)
    values = run.results()
    _raise(run)
    return combined(run, values, reducers, dtypes)


def combined(run, values, reducers, dtypes=None):
    """The results of a reduction from what each index returned."""
    totals, steps = [None] * len(reducers), [reducing(r) for r in reducers]
    first = run.policy.begin if isinstance(run.policy, RangePolicy) else 0
    with np.errstate(all="ignore"):
        for index, result in enumerate(values, first):
            for k, ((lift, combine, _), value) in enumerate(zip(steps, _contributions(run.fn, result, reducers))):
                state = _widen(lift(value, index))
                totals[k] = state if totals[k] is None else combine(totals[k], state)
        return tuple(_python_number(finish(_neutral(reducer, dtype) if total is None else total))
                     for reducer, dtype, (_, _, finish), total in zip(reducers, dtypes or ["float64"] * len(reducers), steps, totals))


def _neutral(reducer, dtype):
    """The neutral state, whose first number has this dtype."""
    state = reducer.identity(dtype)
    first, *others = state if isinstance(state, tuple) else (state,)
    first = np.dtype(dtype).type(first)
    return (first, *others) if isinstance(state, tuple) else first


def run_scan(policy, fn, args, reducer, out, inclusive, **options):
    """Write the prefixes of what `fn` returns into `out`, an index after the other; the total as a one-tuple."""
    (lift, combine, _), total, prefixes = reducing(reducer), None, np.asarray(out)

    def write(result, lane):
        nonlocal total
        index = policy.begin + lane
        before = reducer.identity(prefixes.dtype.name) if total is None else total
        state = _widen(lift(_contributions(fn, result, (reducer,))[0], index))
        total = state if total is None else combine(total, state)
        prefixes[index] = total if inclusive else before

    run = Run(policy, fn, args, seed=0, out=out, contributed=write, **options)
    run.results()
    _raise(run)
    return (_python_number(reducer.identity(prefixes.dtype.name) if total is None else total),)


def _places(policy):
    """The tuples of indices of a box, the last the fastest."""
    if 0 in policy.extents:  # product would first list the other dimensions
        return ()
    return itertools.product(*(range(low, high) for low, high in zip(policy.begin, policy.end)))


def _contributions(fn, result, reducers):
    """What one index returned, a number or tuple a reducer; the compiler has seen to their number, but not to every path."""
    if result is None:
        raise LanguageError(f"kernel '{fn.__name__}' ({_place(fn)}): a reduction's kernel returns its contribution, but for "
                            "some index it returned nothing")
    alone = len(reducers) == 1 and not (isinstance(result, tuple) and len(result) == 1)
    return (result,) if alone or not isinstance(result, tuple) else result


def _widen(value):
    """Whole numbers add up in 64 bits, where unsigned ones wrap (signed ones, in plain Python, have no limit)."""
    if isinstance(value, tuple):
        return tuple(_widen(v) for v in value)
    if isinstance(value, np.unsignedinteger):
        return np.uint64(value)
    return int(value) if isinstance(value, (bool, np.bool_, np.integer)) else value


def _python_number(value):
    if isinstance(value, tuple):
        return tuple(_python_number(v) for v in value)
    return value.item() if isinstance(value, np.generic) else value


def _place(fn):
    return f"{fn.__code__.co_filename}:{fn.__code__.co_firstlineno}"
