"""Team kernels that are correct, each with one defect in its broken form (case.py): the line that is then
wrong carries a mark."""

import numpy as np

import portable as pk

from .case import Case

N = 12  # number of items, which the members of a team divide
TEAMS = 3


# ---- writing and reading scratch without a barrier between
@pk.kernel
def reverse(team, x, out):
    row = team.scratch(N, pk.float64)
    for j in team.thread_range(N):
        row[j] = x[team.league_rank, j]
    team.barrier()  # broken: -
    for j in team.thread_range(N):
        out[team.league_rank, j] = row[N - 1 - j]  # wrong


# ---- a reduction by hand: member 0 adds up, the others read too early
@pk.kernel
def shares(team, x, out):
    part = team.scratch(64, pk.float64)
    total = team.scratch(1, pk.float64)
    part[team.rank] = 0.0
    for j in team.thread_range(N):
        part[team.rank] += x[team.league_rank, j]
    team.barrier()
    if team.single():
        total[0] = 0.0
        for r in range(team.size):
            total[0] += part[r]
    team.barrier()  # broken: -
    for j in team.thread_range(N):
        out[team.league_rank, j] = x[team.league_rank, j] / total[0]  # wrong


# ---- a tree of sums whose levels overlap in time
@pk.kernel
def tree(team, x, out):
    row = team.scratch(8, pk.float64)
    for j in team.thread_range(8):
        row[j] = x[team.league_rank, j]
    team.barrier()
    width = 4
    while width > 0:
        for j in team.thread_range(width):
            row[j] += row[j + width]  # wrong
        team.barrier()  # broken: -
        width //= 2
    # also: team.barrier()
    if team.single():
        out[team.league_rank, 0] = row[0]


# ---- scratch used again in the next iteration of a loop, while other members still read it
@pk.kernel
def rows_in_turn(team, x, out):
    row = team.scratch(N, pk.float64)
    for k in range(2):
        for j in team.thread_range(N):
            row[j] = x[team.league_rank, j] + k  # wrong
        team.barrier()
        for j in team.thread_range(N):
            out[team.league_rank, j] += row[(j + 1) % N]
        team.barrier()  # broken: -


# ---- a sweep in scratch that overwrites values which neighbours still read
@pk.kernel
def diffuse(team, x, out):
    row = team.scratch(N, pk.float64)
    new = team.scratch(N, pk.float64)  # broken: -
    for j in team.thread_range(N):
        row[j] = x[team.league_rank, j]
    team.barrier()
    for j in team.thread_range(N):
        new[j] = 0.5 * (row[j] + row[(j + 1) % N])
        # broken: row[j] = 0.5 * (row[j] + row[(j + 1) % N])  # wrong
    # also: team.barrier()
    for j in team.thread_range(N):
        out[team.league_rank, j] = new[j]
        # broken: out[team.league_rank, j] = row[j]


# ---- one member prepares, the others do not wait
@pk.kernel
def scale_by_first(team, x, out):
    first = team.scratch(1, pk.float64)
    if team.single():
        first[0] = x[team.league_rank, 0]
    team.barrier()  # broken: -
    for j in team.thread_range(N):
        out[team.league_rank, j] = x[team.league_rank, j] / first[0]  # wrong


# ---- a reduction mistaken for a barrier
@pk.kernel
def mirror_of_shares(team, x, out):
    row = team.scratch(N, pk.float64)
    part = 0.0
    for j in team.thread_range(N):
        row[j] = x[team.league_rank, j]
        part += row[j]
    total = team.reduce(part)
    team.barrier()  # broken: -
    for j in team.thread_range(N):
        out[team.league_rank, j] = row[N - 1 - j] / total  # wrong


# ---- lost updates of a histogram in scratch
@pk.kernel
def counts_of_rows(team, x, out):
    bins = team.scratch(4, pk.int64)
    for b in team.thread_range(4):
        bins[b] = 0
    team.barrier()
    for j in team.thread_range(N):
        pk.atomic_add(bins, int(0.5 * x[team.league_rank, j]) % 4, 1)
        # broken: bins[int(0.5 * x[team.league_rank, j]) % 4] += 1  # wrong
    team.barrier()
    for b in team.thread_range(4):
        out[team.league_rank, b] = bins[b]


# ---- all members write the team's one result
@pk.kernel
def last_item(team, x, out):
    for j in team.thread_range(N):
        if j == N - 1:
            # broken: if j >= 0:
            out[team.league_rank, 0] = x[team.league_rank, j]  # wrong


# ---- all teams add to one element
@pk.kernel
def grand_total(team, x, out):
    part = 0.0
    for j in team.thread_range(N):
        part += x[team.league_rank, j]
    part = team.reduce(part)
    if team.single():
        pk.atomic_add(out, (0, 0), part)
        # broken: out[0, 0] += part  # wrong


# ---- a barrier mistaken for one between teams: the neighbour's block may not be written yet
@pk.kernel
def halo(team, x, out):
    own = team.league_rank
    for j in team.thread_range(N):
        out[own, j] = 2.0 * x[own, j]
    team.barrier()
    if team.single():
        out[own, 0] = 0.5 * (2.0 * x[(own + 1) % team.league_size, N - 1])
        # broken: out[own, 0] = 0.5 * out[(own + 1) % team.league_size, N - 1]  # wrong


# ---- a table that one team makes and other teams read: scratch is private to a team
@pk.kernel
def table(team, x, out):
    table = team.scratch(N, pk.float64)
    for j in team.thread_range(N):
        table[j] = 0.5 * j
        # broken: if team.league_rank == 0: table[j] = 0.5 * j
    team.barrier()
    for j in team.thread_range(N):
        out[team.league_rank, j] = table[j]  # wrong


# ---- sums in scratch without an initial value
@pk.kernel
def sums(team, x, out):
    sums = team.scratch(N, pk.float64)
    for j in team.thread_range(N):
        sums[j] = x[team.league_rank, j]
        # broken: sums[j] += x[team.league_rank, j]  # wrong
        out[team.league_rank, j] = sums[j]


# ---- a barrier that only some members reach
@pk.kernel
def barrier_for_some(team, x, out):
    team.barrier()
    # broken: if team.rank < 2: team.barrier()  # wrong
    for j in team.thread_range(N):
        out[team.league_rank, j] = x[team.league_rank, j]


# ---- members without an item leave before the barrier
@pk.kernel
def early_return(team, x, out):
    # also: if team.rank > 1: return
    team.barrier()  # wrong
    for j in team.thread_range(N):
        out[team.league_rank, j] = x[team.league_rank, j]


# ---- a barrier in a loop that is longer for some members: 13 items, 4 members
@pk.kernel
def ragged(team, x, out):
    for j in team.thread_range(N):
        # broken: for j in team.thread_range(N + 1):
        out[team.league_rank, j] = x[team.league_rank, j]
        # broken: out[team.league_rank, j % N] = x[team.league_rank, j % N]
        # also: team.barrier()  # wrong
    team.barrier()  # broken: -


# ---- a collective called only by the member that needs the result
@pk.kernel
def total_for_one(team, x, out):
    part = x[team.league_rank, 0]
    # broken: part = x[team.league_rank, team.rank % N]
    for j in team.thread_range(N):  # broken: -
        part = max(part, x[team.league_rank, j])  # broken: -
    largest = team.reduce(part, pk.Max)  # broken: -
    if team.single():
        out[team.league_rank, 0] = largest
        # broken: out[team.league_rank, 0] = team.reduce(part, pk.Max)  # wrong


# ---- scratch for four members; teams may have more
@pk.kernel
def maxima(team, x, out):
    part = team.scratch(1024, pk.float64)
    # broken: part = team.scratch(4, pk.float64)
    part[team.rank] = x[team.league_rank, team.rank % N]  # wrong
    team.barrier()
    if team.single():
        out[team.league_rank, 0] = part[0]


# ---- scratch of a length known only at run time, which was not requested
@pk.kernel
def buffer(team, x, out):
    row = team.scratch(pk.static(N), pk.float64)
    # broken: row = team.scratch(x.shape[1], pk.float64)  # wrong
    for j in team.thread_range(x.shape[1]):
        row[j] = x[team.league_rank, j]
        out[team.league_rank, j] = row[j]


# ---- a loop in steps of the requested size, not of the actual size
@pk.kernel
def strided_sum(team, x, out):  # wrong
    part = 0.0
    for j in range(team.rank, N, team.size):
        # broken: for j in range(team.rank, N, 4):
        part += x[team.league_rank, j]
    part = team.reduce(part)
    if team.single():
        out[team.league_rank, 0] = part


def arrays():
    return np.arange(TEAMS * N, dtype=np.float64).reshape(TEAMS, N) + 1.0, np.zeros((TEAMS, N))


FOUR, EIGHT = pk.TeamPolicy(TEAMS, 4), pk.TeamPolicy(TEAMS, 8)
TEAM_KERNELS = [
    Case("missing barrier", reverse, FOUR, arrays),
    Case("missing barrier", shares, FOUR, arrays),
    Case("race", tree, FOUR, arrays),
    Case("missing barrier", rows_in_turn, FOUR, arrays),
    Case("race", diffuse, FOUR, arrays),
    Case("missing barrier", scale_by_first, FOUR, arrays),
    Case("missing barrier", mirror_of_shares, FOUR, arrays),
    Case("race", counts_of_rows, FOUR, arrays),
    Case("race", last_item, FOUR, arrays),
    Case("race", grand_total, FOUR, arrays),
    Case("race", halo, FOUR, arrays),
    Case("uninitialised read", table, FOUR, arrays),
    Case("uninitialised read", sums, FOUR, arrays),
    Case("divergent barrier", barrier_for_some, FOUR, arrays),
    Case("divergent barrier", early_return, FOUR, arrays),
    Case("divergent barrier", ragged, FOUR, arrays),
    Case("divergent barrier", total_for_one, FOUR, arrays),
    Case("out of bounds", maxima, EIGHT, arrays),
    Case("scratch overflow", buffer, FOUR, arrays),
    Case("team size", strided_sum, FOUR, arrays),
]
