"""The team as a member sees it in plain Python, and what its collectives answer once all members have arrived."""
import functools
import itertools
import math
import sys

import numpy as np

from ...reducer import Sum
from .access import store
from .memory import Fault, Watched, unwritten, whole
from .plain import reducing
from .rewrite import site_of

_ALIGN = 64  # every space gives scratch in multiples of it




class Team:
    """What a kernel of a TeamPolicy gets first, one object a member.

    Attributes
    ----------
    league_rank, league_size : int
        This team's number, and the number of teams.
    rank, size : int
        This member's number in the team, and the number of members.
    registers : int
        Numbers of 64 bits that a member's registers hold; here those of an AVX-512 machine.
    """

    registers = 32

    def __init__(self, member, group, run):
        self.rank, self.size = member.rank, group.size
        self.league_rank, self.league_size = group.number, run.policy.league_size
        self._member, self._group, self._run = member, group, run
        self._scratch_calls = 0

    def thread_range(self, begin, end=None):
        """This member's share of range(begin, end), or of range(begin): every size-th index."""
        begin, end = (0, whole(begin)) if end is None else (whole(begin), whole(end))
        return range(begin + self.rank, end, self.size)

    def single(self):
        """True for one member."""
        return self.rank == 0

    def barrier(self):
        """Wait for the whole team."""
        self._meet("barrier", lambda values: None, None)

    def reduce(self, value, reducer=Sum):
        """The values of all members, combined in the order of ranks; every member gets the result."""
        lift, combine, finish = reducing(reducer)

        def over_members(values):
            return finish(functools.reduce(combine, values))
        state = lift(*value) if reducer.with_index else lift(value, None)
        state = tuple(map(self._strong, state)) if isinstance(state, tuple) else self._strong(state)
        return self._meet("reduce", over_members, state)

    def scan(self, value, reducer=Sum):
        """The values of the members before this one, combined; the reducer's neutral number for the first."""
        _, combine, _ = reducing(reducer)

        def running(values):
            own = values[0].dtype
            return list(itertools.accumulate(values[:-1], combine, initial=own.type(reducer.identity(own.name))))
        return self._meet("scan", running, self._strong(value))[self.rank]

    def broadcast(self, value, rank=0):
        """The value of member `rank`; every member gets it."""
        return self._meet("broadcast", lambda values: values[rank], value)

    def append(self, view, at, value, keep):
        """The values of the members that keep, side by side from view[at] on in rank order; where the next would go."""
        ends = self._meet("append", lambda kept: list(itertools.accumulate(kept, initial=at)), int(keep))
        if keep:
            frame = sys._getframe(1)
            store(view, ends[self.rank], value, site_of(frame.f_code, frame.f_lineno))
        return ends[-1]

    def scratch(self, shape, dtype):
        """An array that the team shares; a member's n-th call gives every member's n-th array."""
        self._scratch_calls += 1
        shape = tuple(int(n) for n in shape) if isinstance(shape, tuple) else (int(shape),)
        return self._group.scratch(self._scratch_calls, shape, np.dtype(dtype), self._run)

    def _strong(self, v):
        """A number of a state: weak floats are the kernel's own, other weak numbers and bools int64."""
        if v.__class__ is float:
            return self._run.own_float(v)
        return v if isinstance(v, np.number) else np.int64(v)

    def _meet(self, word, answer, value):
        frame = sys._getframe(2)          # the kernel's own line, above the word and this function
        member = self._member
        member.place, member.answer, member.value = (word, frame.f_code.co_filename, frame.f_lineno), answer, value
        return member.switch()


class Group:
    """Members that run together: a team, or one index alone.

    Its members meet at collectives. When all have arrived, each gets the answer; where some cannot, the group is over.
    """

    def __init__(self, number, size):
        self.number, self.size, self.members = number, size, []
        self.failed = False
        self._arrays, self._used = {}, 0

    def settled(self):
        """Whether no member can go on by itself."""
        return all(m.done or m.place for m in self.members)

    def disagreement(self):
        """(waiting member, other member) where not all stand at the same collective; None if they do."""
        waiting = [m for m in self.members if not m.done]
        gone = next((m for m in self.members if m.done), None)
        if gone is not None:
            return waiting[0], gone
        at = {}
        for m in waiting:
            at.setdefault(m.place, []).append(m)
        if len(at) == 1:
            return None
        few, most = sorted(at.values(), key=lambda ms: (len(ms), ms[0].place[2]))[:2]
        return few[0], most[0]

    def answers(self):
        """What each member gets at the collective where all of them stand; the next phase begins."""
        word = self.members[0].place[0]
        result = self.members[0].answer([m.value for m in self.members])
        for m in self.members:
            m.place = m.answer = None
            m.value = result
            m.phase += 1
            m.epoch += word == "barrier"

    def scratch(self, call, shape, dtype, run):
        """The team's array of its members' call number `call`."""
        view = self._arrays.get(call)
        if view is None:
            end = self._used + math.prod(shape) * dtype.itemsize
            self._used = -(-end // _ALIGN) * _ALIGN
            if run.room is not None and end > run.room:
                raise Fault("scratch overflow", f"{end} bytes of scratch are asked for, but there is room for {run.room}; "
                            "say TeamPolicy(..., scratch_bytes=) for shapes that are known only at run time", None, None)
            array = unwritten(shape, dtype)
            first = run.memory.claim(array.nbytes)
            view = self._arrays[call] = Watched(array, run, first)
            run.memory.own(first, [view])
            run.scratch_cells.append((first, first + array.nbytes))
        elif view.array.shape != shape or view.dtype != dtype:
            raise Fault("divergent barrier", f"members of team {self.number} ask for different scratch in their call number "
                        f"{call}: {view.array.shape} {view.dtype} and {shape} {dtype}. Call scratch at the kernel's top level "
                        "with the same arguments for all members.", None, None)
        return view
