"""Schedule members as greenlets, switched at collectives and, under a seed, at accesses.

Seed 0 runs indices, teams and members in their order, and switches only at collectives. Any other seed draws
which of several indices or teams in flight continues, and after how many accesses the next one does: by
Python's generator, so that a seed is the same schedule everywhere.
"""

import contextvars
import random

from greenlet import GreenletExit, greenlet

NEVER = 2**62  # accesses
_IN_FLIGHT = {"index": 8, "team": 3}  # enough that any two neighbours overlap
_LONGEST = 16  # accesses between two switches: mean 8, a few lines of a kernel


class Member:
    """One running lane: an index, or a member of a team."""

    def __init__(self, rank, lane, group, index):
        self.rank, self.lane, self.group, self.index = rank, lane, group, index
        self.epoch = self.phase = 0
        self.place = self.answer = self.value = self.left_at = None
        self.done = False

    def switch(self):
        """Leave this member until the schedule returns to it; inside the member only."""
        return self._loop.switch()

    def start(self, loop, body):
        """Make this member ready to run `body(member)`."""
        self._loop = loop
        self.greenlet = greenlet(body, loop)
        self.greenlet.gr_context = contextvars.copy_context()  # NumPy's error state is part of it


class Schedule:
    """Runs groups of members to their end.

    Parameters
    ----------
    run : Run
        Receives the running member (`run.enter`) and groups that cannot continue (`run.diverged`).
    seed : int
    kind : {"index", "team"}
    """

    def __init__(self, run, seed, kind):
        self.run, self.random = run, random.Random(seed) if seed else None
        self.in_flight = _IN_FLIGHT[kind] if seed else 1

    def go(self, groups, body):
        """Run `body(member)` for all members of an iterator of groups."""
        loop, ready, alive = greenlet.getcurrent(), [], 0
        while True:
            while alive < self.in_flight and (group := next(groups, None)) is not None:
                alive += 1
                for member in group.members:
                    member.start(loop, body)
                ready += group.members
            if not ready:
                return
            member = ready.pop(self.random.randrange(len(ready)) if self.random else 0)
            self.run.enter(member, self.random.randrange(1, _LONGEST) if self.random else NEVER)
            member.greenlet.switch(member.value if member.greenlet else member)
            group = member.group
            if group.failed:
                ready = [m for m in ready if m.group is not group]
                self._stop(group)
                alive -= 1
            elif not member.done and not member.place:
                ready.append(member)  # it was only interrupted
            elif group.halted():
                going = self._going(group)
                ready += going
                alive -= not going

    def _going(self, group):
        """Return the members that can continue in a group that all waits or has returned: none if they
        wait at different places."""
        if all(m.done for m in group.members):
            return []
        if (apart := group.disagreement()) is not None:
            self.run.diverged(*apart)
            self._stop(group)
            return []
        group.collective_results()
        return group.members

    @staticmethod
    def _stop(group):
        group.failed = True
        for member in group.members:
            if not member.done and member.greenlet:
                member.greenlet.throw(GreenletExit)
