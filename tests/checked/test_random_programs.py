"""Random team programs: compare the verdict with an enumeration of all schedules.

A program is data: for each member and phase a few steps, each of which reads, writes or atomically updates a
cell of scratch or of memory. Barriers lie between phases. A program races if in some schedule two conflicting
steps of different members could both come next; the enumeration visits every state that some schedule
reaches, without epochs or a happens-before relation.
"""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import portable as pk
from portable.testing import watching

TEAMS, MEMBERS, CELLS = 2, 2, 2
NOTHING, READ, WRITE, ADD = range(4)


@pk.kernel
def program(team, steps, cells, x, out):
    s = team.scratch(CELLS, pk.int64)
    for j in team.thread_range(CELLS):
        s[j] = 0
    team.barrier()
    t = team.league_rank
    for phase in range(steps.shape[2]):
        for k in range(steps.shape[3]):
            if team.rank < MEMBERS:
                step = steps[t, team.rank, phase, k]
                c = cells[t, team.rank, phase, k]
                number = 1 + k + 2 * phase + 4 * team.rank + 8 * t
                if step == READ:
                    out[t, team.rank] = 3 * out[t, team.rank] + s[c]
                elif step == WRITE:
                    s[c] = number
                elif step == ADD:
                    pk.atomic_add(s, c, number)
                elif step == READ + 3:
                    out[t, team.rank] = 3 * out[t, team.rank] + x[c]
                elif step == WRITE + 3:
                    x[c] = number
                elif step == ADD + 3:
                    pk.atomic_add(x, c, number)
        team.barrier()


class Enumeration:
    """Enumerate every state that some schedule of a program reaches."""

    def __init__(self, steps, cells):
        self.steps, self.cells = steps, cells
        self.phases, self.length = steps.shape[2:]
        self.lanes = [(t, r) for t in range(TEAMS) for r in range(MEMBERS)]
        self.races, self.outcomes, self.seen = False, set(), set()
        self.walk((0,) * len(self.lanes), (0,) * TEAMS * CELLS, (0,) * CELLS, (0,) * len(self.lanes))

    def next_step(self, at, lane):
        """Return (step, memory, cell, number) of a lane, or None while it waits or after its end."""
        t, r = self.lanes[lane]
        phase, k = divmod(at[lane], self.length)
        team = [at[other] // self.length for other, (team, _) in enumerate(self.lanes) if team == t]
        if phase == self.phases or phase > min(team):
            return None
        step, cell = int(self.steps[t, r, phase, k]), int(self.cells[t, r, phase, k])
        memory = None if step == NOTHING else ("x", cell) if step > ADD else (t, cell)
        return (step - 1) % 3 + 1 if step else NOTHING, memory, 1 + k + 2 * phase + 4 * r + 8 * t

    def walk(self, *state):
        stack = [state]
        while stack:
            at, s, x, out = state = stack.pop()
            if state in self.seen:
                continue
            self.seen.add(state)
            ready = [
                (lane, step)
                for lane in range(len(self.lanes))
                if (step := self.next_step(at, lane)) is not None
            ]
            if not ready:
                self.outcomes.add((x, out))
            for a in range(len(ready)):
                for b in range(a):
                    self.races |= conflict(ready[a][1], ready[b][1])
            for lane, step in ready:
                stack.append(self.after(at, s, x, out, lane, step))

    def after(self, at, s, x, out, lane, step):
        """Return the state after a lane's next step."""
        kind, memory, number = step
        s, x, out = list(s), list(x), list(out)
        if memory is not None:
            values, cell = (x, memory[1]) if memory[0] == "x" else (s, memory[0] * CELLS + memory[1])
            if kind == READ:
                out[lane] = 3 * out[lane] + values[cell]
            else:
                values[cell] = number + (values[cell] if kind == ADD else 0)
        at = tuple(p + (k == lane) for k, p in enumerate(at))
        return at, tuple(s), tuple(x), tuple(out)


def conflict(a, b):
    """Return True if two steps must not happen at the same time."""
    return a[1] is not None and a[1] == b[1] and {a[0], b[0]} not in ({READ}, {ADD})


@st.composite
def programs(draw):
    shape = TEAMS, MEMBERS, draw(st.integers(1, 2)), draw(st.integers(1, 2))
    n = int(np.prod(shape))
    # Mostly empty steps, reads, and scratch: otherwise almost every program has a race.
    kinds = st.sampled_from([NOTHING] * 4 + [READ] * 2 + [WRITE] * 2 + [ADD, READ + 3, WRITE + 3, ADD + 3])
    steps = np.array(draw(st.lists(kinds, min_size=n, max_size=n)), np.int64).reshape(shape)
    cells = np.array(draw(st.lists(st.integers(0, CELLS - 1), min_size=n, max_size=n)), np.int64).reshape(
        shape
    )
    return steps, cells


def test_the_verdict_is_that_of_all_schedules():
    verdicts, policy = [], pk.TeamPolicy(TEAMS, MEMBERS)

    @settings(max_examples=300, deadline=None, derandomize=True, database=None)
    @given(drawn=programs(), seed=st.integers(0, 9))
    def holds(drawn, seed):
        steps, cells = drawn
        wanted = Enumeration(steps, cells)
        x, out = np.zeros(CELLS, np.int64), np.zeros((TEAMS, MEMBERS), np.int64)
        report = pk.check(policy, program, steps, cells, x, out, seeds=[seed], team_sizes=[MEMBERS])
        assert report.ok == (not wanted.races), f"{steps}\n{cells}\n{report}"
        assert {f.kind for f in report.findings} <= {"race", "missing barrier", "non-atomic update"}
        verdicts.append(report.ok)
        if report.ok:
            with watching(seed):
                pk.parallel_for(policy, program, steps, cells, x, out)
            assert wanted.outcomes == {(tuple(x), tuple(out.ravel()))}

    holds()
    assert min(verdicts.count(True), verdicts.count(False)) >= 50  # both kinds of programs were tried
