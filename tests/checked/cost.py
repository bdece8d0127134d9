"""Measure the cost of a check: 1,000 teams of 16 members, 100 accesses for each member.

python -m tests.checked.cost
"""

import time

import numpy as np

import portable as pk

TEAMS, MEMBERS = 1000, 16


@pk.kernel
def hundred_accesses(team, x, out):
    """Read 33 elements of memory and of scratch in each member, and write 34 times."""
    t = team.league_rank
    s = team.scratch(32, pk.float64)
    s[team.rank] = 0.0
    for k in range(33):
        s[team.rank] = 0.5 * s[team.rank] + x[t, k]
    team.barrier()
    if team.single():
        out[t] = s[0]


def main():
    x, out = np.random.default_rng(1).random((TEAMS, 33)), np.zeros(TEAMS)
    policy = pk.TeamPolicy(TEAMS, MEMBERS)
    for what, options in (("one schedule", {"seeds": [0], "team_sizes": [MEMBERS]}), ("as it comes", {})):
        start = time.process_time()
        report = pk.check(policy, hundred_accesses, x, out, **options)
        print(f"{what}: {time.process_time() - start:.1f} s of one core; {report}")


if __name__ == "__main__":
    main()
