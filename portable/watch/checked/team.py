"""The team as a member's Python code uses it, and the results of its collectives once all members have
arrived.
"""

import itertools
import math

import numpy as np

from .access import store
from .code import SITES
from .memory import ALIGN, SITE_SHIFT, Fault, Watched, unwritten

DEFAULT_TEAM_SIZE = 4  # more than one pair of members, and still quick


class Team:
    """A kernel's first argument under a TeamPolicy, one object for each member.

    Attributes
    ----------
    league_rank, league_size : int
        This team's number, and the number of teams.
    rank, size : int
        This member's number in the team, and the number of members.
    """

    def __init__(self, member, group, run):
        self.rank, self.size = member.rank, group.size
        self.league_rank, self.league_size = group.number, run.policy.league_size
        self._member, self._group, self._run = member, group, run

    def barrier(self, site):
        """Wait for the whole team."""
        self._reach_collective("barrier", site, lambda values: None, None)

    def reduce(self, site, combine, state):
        """Return the states of all members, combined in the order of ranks; every member receives
        the result.
        """

        def over_members(states):
            total = states[0]
            for other in states[1:]:
                total = combine(*total, *other)
            return total

        return self._reach_collective("reduce", site, over_members, state)

    def scan(self, site, combine, neutral, state):
        """Return the states of the members before this one, combined; the neutral one for the first."""

        def running(states):
            return list(itertools.accumulate(states[:-1], lambda a, b: combine(*a, *b), initial=neutral))

        return self._reach_collective("scan", site, running, state)[self.rank]

    def broadcast(self, site, value, rank):
        """Return the value of member `rank`; every member receives it."""
        return self._reach_collective("broadcast", site, lambda values: values[rank], value)

    def append(self, site, view, at, value, keep):
        """Return the values of the members that keep, side by side from view[at] on in rank order; how
        many these are."""
        ends = self._reach_collective(
            "append", site, lambda kept: list(itertools.accumulate(kept, initial=at)), int(keep)
        )
        if keep:
            store(view, ends[self.rank], site << SITE_SHIFT, value)
        return ends[-1] - at

    def scratch(self, call, shape, dtype, name):
        """Return an array that the team shares: the same for each member's same call in the source."""
        return self._group.scratch(call, shape, np.dtype(dtype), name, self._run)

    def _reach_collective(self, word, site, answer, value):
        member, place = self._member, SITES[site]
        member.place, member.answer, member.value = (word, place.file, place.line), answer, value
        return member.switch()


class Group:
    """Members that run together: a team, or a single index.

    Its members meet at collectives. When all have arrived, each receives the result; if some cannot, the
    group ends.
    """

    def __init__(self, number, size):
        self.number, self.size, self.running, self.members = number, size, size, []
        self.failed = False
        self._arrays, self._used = {}, 0

    def halted(self):
        """Count one more member that cannot continue by itself; return True if no member can."""
        self.running -= 1
        return not self.running

    def disagreement(self):
        """Return (waiting member, other member) if not all wait at the same collective; None if they do."""
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

    def collective_results(self):
        """Return each member's result of the collective that all of them have reached; the next phase
        begins."""
        word, self.running = self.members[0].place[0], self.size
        result = self.members[0].answer([m.value for m in self.members])
        for m in self.members:
            m.place = m.answer = None
            m.value = result
            m.phase += 1
            m.epoch += word == "barrier"

    def scratch(self, call, shape, dtype, name, run):
        """Return the team's array of this call."""
        view = self._arrays.get(call)
        if view is None:
            end = self._used + math.prod(shape) * dtype.itemsize
            self._used = -(-end // ALIGN) * ALIGN
            if run.room is not None and end > run.room:
                raise Fault(
                    "scratch overflow",
                    f"the kernel uses {end} bytes of scratch, but the team has {run.room}; "
                    "pass TeamPolicy(..., scratch_bytes=) for shapes known only at run time",
                    None,
                    None,
                )
            array = unwritten(shape, dtype)
            first = run.memory.claim(array.nbytes)
            view = self._arrays[call] = Watched(array, run, first, label=name or None)
            run.memory.owners.append((first, [view]))
            run.scratch_cells.append((first, first + array.nbytes))
        return view
