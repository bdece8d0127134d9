"""A team of real members in plain Python: each member is a greenlet, which gives way only inside the team's words.

A member that calls a collective leaves the value it brings and switches back to the team's loop. When every member has
done so, the loop works the answer out and wakes the members in the order of their ranks. So a run is deterministic,
and a collective that some member misses is seen at once instead of waited for.
"""
import functools
import sys

import numpy as np
from greenlet import greenlet

from ...errors import LanguageError
from ...reducer import Sum
from .plain import reducing

DEFAULT_TEAM_SIZE = 4                     # more than one pair of members, and still quick


class Team:
    """What a kernel of a TeamPolicy gets first, one object a member.

    Attributes
    ----------
    league_rank, league_size : int
        This team's number, and the number of teams.
    rank, size : int
        This member's number in the team, and the number of members.
    """

    def __init__(self, rank, meeting):
        self.rank = rank
        self.size = meeting.size
        self.league_rank = meeting.league_rank
        self.league_size = meeting.league_size
        self._meeting = meeting
        self._scratch_calls = 0

    def thread_range(self, begin, end=None):
        """This member's share of range(begin, end), or of range(begin): every size-th index."""
        begin, end = (0, begin) if end is None else (begin, end)
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
        return self._meet("reduce", over_members, lift(*value) if reducer.with_index else lift(value, None))

    def scan(self, value):
        """The sum of the values of the members before this one; 0 for the first."""
        def running(values):
            sums = [values[0] * 0]        # a zero of the values' own type
            for other in values[:-1]:
                sums.append(sums[-1] + other)
            return sums
        return self._meet("scan", running, value)[self.rank]

    def broadcast(self, value, rank=0):
        """The value of member `rank`; every member gets it."""
        return self._meet("broadcast", lambda values: values[rank], value)

    def append(self, view, at, value, keep):
        """The values of the members that keep, side by side from view[at] on in rank order; where the next would go."""
        def kept(offers):
            values = [v for v, wanted in offers if wanted]
            for k, v in enumerate(values):
                view[at + k] = v
            return at + len(values)
        return self._meet("append", kept, (value, keep))

    def scratch(self, shape, dtype):
        """An array that the team shares; a member's n-th call gives every member's n-th array."""
        self._scratch_calls += 1
        return self._meeting.scratch(self._scratch_calls, shape, np.dtype(dtype))

    def _meet(self, word, answer, value):
        frame = sys._getframe(2)          # the kernel's own line, above the word and this function
        return self._meeting.wait((word, frame.f_code.co_filename, frame.f_lineno), answer, value)


class Meeting:
    """One team at work: its members, its scratch, and the collective they stand at."""

    def __init__(self, kernel, league_rank, league_size, size):
        self.kernel, self.league_rank, self.league_size, self.size = kernel, league_rank, league_size, size
        self._arrays = {}

    def run(self, fn, args):
        """Run `fn(team, *args)` for every member; return their results in the order of ranks."""
        loop = greenlet.getcurrent()

        def member(rank):
            with np.errstate(all="ignore"):       # a greenlet starts with NumPy's own error state
                return None, fn(Team(rank, self), *args)

        members = [greenlet(member, loop) for _ in range(self.size)]
        reports = [m.switch(rank) for rank, m in enumerate(members)]
        while not all(m.dead for m in members):
            self._agree(members, reports)
            answer = reports[0][1]([value for _, _, value in reports])
            reports = [m.switch(answer) for m in members]
        return [value for _, value in reports]

    def wait(self, place, answer, value):
        return greenlet.getcurrent().parent.switch((place, answer, value))

    def scratch(self, call, shape, dtype):
        array = self._arrays.get(call)
        if array is None:
            array = self._arrays[call] = np.empty(shape, dtype)
            array.fill(np.nan if dtype.kind == "f" else np.iinfo(dtype).max if dtype.kind in "iu" else True)
        elif array.shape != np.empty(shape, dtype).shape or array.dtype != dtype:
            raise LanguageError(f"kernel '{self.kernel}': members of team {self.league_rank} ask for different scratch "
                                f"in their call number {call}: {array.shape} {array.dtype} and {shape} {dtype}. "
                                "Call scratch at the kernel's top level with the same arguments for all members.")
        return array

    def _agree(self, members, reports):
        """Raise unless all members stand at the same collective."""
        first = next(rank for rank, m in enumerate(members) if not m.dead)
        place = reports[first][0]
        for rank, (m, report) in enumerate(zip(members, reports)):
            if m.dead or report[0] != place:
                word, file, line = place
                other = "has returned" if m.dead else f"is at team.{report[0][0]}() in line {report[0][2]}"
                raise LanguageError(f"kernel '{self.kernel}' ({file}:{line}): in team "
                                    f"{self.league_rank} member {first} is at team.{word}() in line {line} while member "
                                    f"{rank} {other}. Every member must reach the same team.{word}().")
