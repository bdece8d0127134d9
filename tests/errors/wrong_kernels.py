"""Kernels that must be refused. The offending line carries the mark `# wrong`."""

import os
from types import SimpleNamespace

import numpy as np

import portable as pk

settings = SimpleNamespace(values=[1, 2, 3])
outside = np.zeros(9000)


def not_marked(x):
    return x + 1.0


@pk.kernel
def stores_a_string(i, x):
    x[i] = "zero"  # wrong


@pk.kernel
def makes_a_dict(i, x):
    table = {0: 1.0}  # wrong
    x[i] = table[0]


@pk.kernel
def calls_the_system(i, x):
    t = x[i]
    x[i] = t + os.getpid()  # wrong


@pk.kernel
def calls_unmarked(i, x):
    x[i] = not_marked(x[i])  # wrong


@pk.kernel
def uses_an_undefined_name(i, x):
    x[i] = x[i] * undefined_factor  # noqa: F821  # wrong


@pk.kernel
def uses_before_assignment(i, x):
    x[i] = late  # noqa: F821  # wrong
    late = 1.0  # noqa: F841


@pk.kernel
def uses_an_outside_array(i, x):
    x[i] = outside[i]  # wrong


@pk.kernel
def adds_a_view(i, x):
    x[i] = x + 1.0  # wrong


@pk.kernel
def too_many_indices(i, x):
    x[i, i] = 1.0  # wrong


@pk.kernel
def tries(i, x):
    try:  # wrong
        x[i] = 1.0
    except ValueError:
        x[i] = 2.0


@pk.kernel
def defines_a_function(i, x):
    def inner(t):  # wrong
        return t

    x[i] = inner(x[i])


@pk.kernel
def imports(i, x):
    import math  # wrong

    x[i] = math.pi


@pk.function
def forever(t):
    return forever(t)  # wrong


@pk.kernel
def recurses(i, x):
    x[i] = forever(x[i])


@pk.kernel
def unpacks_too_much(i, x):
    a, b, c = x[i], 1.0  # wrong
    x[i] = a + b + c


@pk.kernel
def mixes_signs(i, x, k, u):
    x[i] = k[i] + u[i]  # wrong


@pk.kernel
def shifts_a_float(i, x):
    x[i] = x[i] << 2  # wrong


@pk.kernel
def writes_to_the_first(i, x, y):
    x[i] = y[i]  # wrong


@pk.kernel
def returns_nothing(i, x):
    x[i] = 1.0


@pk.kernel
def returns_sometimes(i, x):
    if x[i] > 2.0:
        return 1.0


@pk.function
def sometimes(x):
    if x > 2.0:
        return 1.0


@pk.kernel
def stores_sometimes(i, x):
    x[i] = sometimes(x[i])


@pk.kernel
def takes_a_number_from_and(i, k):
    k[i] = k[i] and 5


@pk.kernel
def adds_a_number_too_large(i, k):
    k[i] = k[i] + 4294967296  # wrong


@pk.kernel
def returns_a_row(i, x):
    return x[:2]


@pk.kernel
def returns_two(i, x):
    return x[i], 1.0


@pk.kernel
def barrier_for_some(team, x):
    for j in team.thread_range(x.shape[0]):
        if x[j] > 0.0:
            team.barrier()  # wrong


@pk.kernel
def reduce_for_some(team, x):
    if team.rank == 0:
        x[0] = team.reduce(1.0)  # wrong


@pk.kernel
def reduces_by_a_number(team, x):
    x[0] = team.reduce(1.0, 2.0)  # wrong


@pk.kernel
def barrier_in_single(team, x):
    if team.single():
        team.barrier()  # wrong


@pk.kernel
def barrier_in_a_ragged_loop(team, x):
    for k in range(team.rank):
        team.barrier()  # wrong


@pk.kernel
def barrier_after_some_left(team, x):
    if team.rank > 0:
        return
    team.barrier()  # wrong


@pk.kernel
def scratch_in_a_loop(team, x):
    for k in range(3):
        s = team.scratch(4, x.dtype)  # wrong
        s[0] = x[k]


@pk.kernel
def scratch_in_a_branch(team, x):
    if team.league_rank == 0:
        s = team.scratch(4, x.dtype)  # wrong
        s[0] = x[0]


@pk.kernel
def scratch_of_no_size(team, x):
    s = team.scratch(0, x.dtype)  # wrong
    x[0] = s[0]


@pk.kernel
def asks_the_team_for_more(team, x):
    x[0] = team.vector_length  # wrong


@pk.kernel
def index_as_team(i, x):
    x[i.league_rank] = 1.0  # wrong


@pk.kernel
def fill(i, value, x):
    x[i] = value


@pk.kernel
def entry(i, x):
    return x[i]


@pk.kernel
def reuses_a_name(i, x):
    t = x[i]
    x[0] = t
    t = pk.uint32(1)
    x[i] = pk.int32(2) + t  # wrong


@pk.kernel
def adds_to_a_number(i, x, s):
    s += x[i]  # wrong


@pk.kernel
def adds_to_a_number_in_a_loop(i, x, s):
    for j in range(i):
        s = s + x[j]  # wrong


@pk.kernel
def assigns_to_an_array_s_name(i, x, y):
    y = 2.0 * x[i]  # wrong  # noqa: F841


@pk.function
def adds_in_vain(s, v):
    s += v  # wrong


@pk.kernel
def adds_by_a_function(i, x, s):
    adds_in_vain(s, x[i])


@pk.kernel
def returns_from_parallel_for(i, x):
    return 2.0 * x[i]  # wrong


@pk.kernel
def returns_early_from_parallel_for(i, x):
    if i < 2:
        return
    if i == 2:
        return x[i]  # wrong


@pk.kernel
def launches(i, x):
    pk.parallel_for(5, makes_a_dict, x)  # wrong


@pk.kernel
def draws_by_numpy(i, x):
    x[i] = np.random.rand()  # wrong


@pk.kernel
def shares_a_share_out(team, x):
    for a in team.thread_range(2):
        for b in team.thread_range(2):  # wrong
            x[2 * a + b] = 1.0


@pk.function
def fills_a_share(team, x, a):
    for b in team.thread_range(2):  # wrong
        x[2 * a + b] = 1.0


@pk.kernel
def shares_a_share_out_by_a_function(team, x):
    for a in team.thread_range(2):
        fills_a_share(team, x, a)


@pk.kernel
def shares_for_one_member(team, x):
    if team.single():
        for b in team.thread_range(4):  # wrong
            x[b] = 1.0


@pk.kernel
def shares_after_some_left(team, x):
    if team.rank > 2:
        return
    for b in team.thread_range(4):  # wrong
        x[b] = 1.0


@pk.kernel
def reduces_a_complex_number_by_max(team, x):
    x[0] = team.reduce(1j * x[1], pk.Max)  # wrong


@pk.kernel
def places_a_complex_number(team, x):
    x[0], place = team.reduce(1j * x[1], pk.MinLoc)  # wrong
    x[1] = place


@pk.kernel
def writes_and_returns(i, x):
    x[i] += 1.0
    return x[i]


@pk.kernel
def a_complex_number(i, z):
    return z[i]


def pairs_added(a, b):
    return a[0] + b[0], a[1] + b[1]


def parts_of(z):
    return z.real, z.imag


Pair = pk.Reducer("Pair", pairs_added, (0.0, 0.0))


@pk.kernel
def reads_behind_the_end(i, x, y):
    y[i] = x[i + 1]
