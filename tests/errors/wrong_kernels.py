"""Kernels that must be refused. The offending line carries the mark `# wrong`."""

import os
from types import SimpleNamespace

import numpy as np

import portable as pk
from portable.errors import LanguageError, LoweringError

X = np.ones(5)
READ_ONLY = np.ones(5)
READ_ONLY.flags.writeable = False
TABLE = []


def refused(exception, words, args=(X,), marked=None):
    """Add a kernel to the table, with its exception and words of the message; `marked` is the function with
    the mark."""

    def add(fn):
        kernel = pk.kernel(fn)
        TABLE.append((kernel, exception, words, args, marked or kernel))
        return kernel

    return add


settings = SimpleNamespace(values=[1, 2, 3])
outside = np.zeros(9000)


def not_marked(x):
    return x + 1.0


@refused(LanguageError, "string")
def stores_a_string(i, x):
    x[i] = "zero"  # wrong


@refused(LanguageError, "dict.*number its keys")
def makes_a_dict(i, x):
    table = {0: 1.0}  # wrong
    x[i] = table[0]


@refused(LanguageError, r"os\.getpid.*pass the result")
def calls_the_system(i, x):
    t = x[i]
    x[i] = t + os.getpid()  # wrong


@refused(LanguageError, r"not_marked.*@pk\.function")
def calls_unmarked(i, x):
    x[i] = not_marked(x[i])  # wrong


@refused(LanguageError, "'undefined_factor' is not defined")
def uses_an_undefined_name(i, x):
    x[i] = x[i] * undefined_factor  # noqa: F821  # wrong


@refused(LanguageError, "'late'.*before")
def uses_before_assignment(i, x):
    x[i] = late  # noqa: F821  # wrong
    late = 1.0  # noqa: F841


@refused(LanguageError, "outside.*argument")
def uses_an_outside_array(i, x):
    x[i] = outside[i]  # wrong


@refused(LoweringError, "a number.*got an array")
def adds_a_view(i, x):
    x[i] = x + 1.0  # wrong


@refused(LoweringError, "'x'.*1 dimension.*2 indices")
def too_many_indices(i, x):
    x[i, i] = 1.0  # wrong


@refused(LanguageError, "try")
def tries(i, x):
    try:  # wrong
        x[i] = 1.0
    except ValueError:
        x[i] = 2.0


@refused(LanguageError, "nested function")
def defines_a_function(i, x):
    def inner(t):  # wrong
        return t

    x[i] = inner(x[i])


@refused(LanguageError, "import")
def imports(i, x):
    import math  # wrong

    x[i] = math.pi


@pk.function
def forever(t):
    return forever(t)  # wrong


@refused(LanguageError, "'forever' calls itself", marked=forever)
def recurses(i, x):
    x[i] = forever(x[i])


@refused(LoweringError, "3 values.*a, b, c.*a tuple of 2")
def unpacks_too_much(i, x):
    a, b, c = x[i], 1.0  # wrong
    x[i] = a + b + c


@refused(LoweringError, "int64.*uint64.*cast", args=(X, np.ones(5, np.int64), np.ones(5, np.uint64)))
def mixes_signs(i, x, k, u):
    x[i] = k[i] + u[i]  # wrong


@refused(LoweringError, "integers.*float64")
def shifts_a_float(i, x):
    x[i] = x[i] << 2  # wrong


@refused(LoweringError, "'x'.*read-only", args=(READ_ONLY, X))
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


@refused(LoweringError, "4294967296.*int32", args=(np.ones(5, np.int32),))
def adds_a_number_too_large(i, k):
    k[i] = k[i] + 4294967296  # wrong


@pk.kernel
def returns_a_row(i, x):
    return x[:2]


@pk.kernel
def returns_two(i, x):
    return x[i], 1.0


@refused(LanguageError, "barrier.*every member")
def barrier_for_some(team, x):
    for j in team.thread_range(x.shape[0]):
        if x[j] > 0.0:
            team.barrier()  # wrong


@refused(LanguageError, "reduce.*every member")
def reduce_for_some(team, x):
    if team.rank == 0:
        x[0] = team.reduce(1.0)  # wrong


@refused(LoweringError, r"`2\.0` is not a reducer")
def reduces_by_a_number(team, x):
    x[0] = team.reduce(1.0, 2.0)  # wrong


@refused(LanguageError, "barrier.*every member")
def barrier_in_single(team, x):
    if team.single():
        team.barrier()  # wrong


@refused(LanguageError, "barrier.*every member")
def barrier_in_a_ragged_loop(team, x):
    for k in range(team.rank):
        team.barrier()  # wrong


@refused(LanguageError, "barrier.*every member")
def barrier_after_some_left(team, x):
    if team.rank > 0:
        return
    team.barrier()  # wrong


@refused(LanguageError, "scratch.*top level")
def scratch_in_a_loop(team, x):
    for k in range(3):
        s = team.scratch(4, x.dtype)  # wrong
        s[0] = x[k]


@refused(LanguageError, "scratch.*top level")
def scratch_in_a_branch(team, x):
    if team.league_rank == 0:
        s = team.scratch(4, x.dtype)  # wrong
        s[0] = x[0]


@refused(LoweringError, "scratch.*positive")
def scratch_of_no_size(team, x):
    s = team.scratch(0, x.dtype)  # wrong
    x[0] = s[0]


@refused(LanguageError, "vector_length.*league_rank")
def asks_the_team_for_more(team, x):
    x[0] = team.vector_length  # wrong


@refused(LanguageError, "league_rank")
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


@refused(LanguageError, r"`s \+= x\[i\]`.*nothing reads.*parallel_reduce", args=(X, 0.0))
def adds_to_a_number(i, x, s):
    s += x[i]  # wrong


@refused(LanguageError, r"`s = s \+ x\[j\]`.*nothing reads", args=(X, 0.0))
def adds_to_a_number_in_a_loop(i, x, s):
    for j in range(i):
        s = s + x[j]  # wrong


@refused(LanguageError, r"`y = 2\.0 \* x\[i\]`.*y\[\.\.\.\]", args=(X, X))
def assigns_to_an_array_s_name(i, x, y):
    y = 2.0 * x[i]  # wrong  # noqa: F841


@pk.function
def adds_in_vain(s, v):
    s += v  # wrong


@pk.kernel
def adds_by_a_function(i, x, s):
    adds_in_vain(s, x[i])


@refused(LanguageError, r"`return 2\.0 \* x\[i\]`.*parallel_reduce")
def returns_from_parallel_for(i, x):
    return 2.0 * x[i]  # wrong


@refused(LanguageError, r"drops.*`return x\[i\]`")
def returns_early_from_parallel_for(i, x):
    if i < 2:
        return
    if i == 2:
        return x[i]  # wrong


@refused(LanguageError, r"pk\.parallel_for.*for the host")
def launches(i, x):
    pk.parallel_for(5, makes_a_dict, x)  # wrong


@refused(LanguageError, r"np\.random\.rand.*pk\.random")
def draws_by_numpy(i, x):
    x[i] = np.random.rand()  # wrong


@refused(LanguageError, r"thread_range\(2\).*a part.*n \* m")
def shares_a_share_out(team, x):
    for a in team.thread_range(2):
        for b in team.thread_range(2):  # wrong
            x[2 * a + b] = 1.0


@pk.function
def fills_a_share(team, x, a):
    for b in team.thread_range(2):  # wrong
        x[2 * a + b] = 1.0


@refused(LanguageError, r"thread_range\(2\).*a part.*n \* m", marked=fills_a_share)
def shares_a_share_out_by_a_function(team, x):
    for a in team.thread_range(2):
        fills_a_share(team, x, a)


@refused(LanguageError, r"thread_range\(4\).*a part.*condition")
def shares_for_one_member(team, x):
    if team.single():
        for b in team.thread_range(4):  # wrong
            x[b] = 1.0


@refused(LanguageError, r"thread_range\(4\).*a part.*return")
def shares_after_some_left(team, x):
    if team.rank > 2:
        return
    for b in team.thread_range(4):  # wrong
        x[b] = 1.0


@refused(LoweringError, r"pk\.Max.*complex.*z\.real")
def reduces_a_complex_number_by_max(team, x):
    x[0] = team.reduce(1j * x[1], pk.Max)  # wrong


@refused(LoweringError, r"pk\.MinLoc.*\(value, index\)")
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
