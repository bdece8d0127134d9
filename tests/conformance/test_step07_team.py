"""Step 7, teams: members share loops, meet at barriers, and reduce, whatever their number."""

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_array_equal

import portable as pk

from ..refusals import refusals
from ..launching import launch_for
from ..tolerance import assert_close

TEAM_SIZES = [pk.AUTO, 1, 2, 7, 32]
sizes = pytest.mark.parametrize("size", TEAM_SIZES, ids=str)


def in_pairs(*dtypes):
    """Pair each size of a team with one of the dtypes in turn, and each dtype with a size."""
    n = max(len(TEAM_SIZES), len(dtypes))
    pairs = [(TEAM_SIZES[k % len(TEAM_SIZES)], dtypes[k % len(dtypes)]) for k in range(n)]
    return pytest.mark.parametrize(("size", "dtype"), pairs, ids=str)


@pk.kernel
def matvec(team, a, x, y):
    i = team.league_rank
    row = 0.0
    for j in team.thread_range(a.shape[1]):
        row += a[i, j] * x[j]
    row = team.reduce(row)
    if team.single():
        y[i] = row


@in_pairs(np.float32, np.float64)
def test_matrix_times_vector(space, dtype, size):
    rng = default_rng(1)
    for shape in ((0, 3), (3, 0), (1, 1), (5, 7), (6, 8), (3, 33)):
        a, x = rng.random(shape).astype(dtype), rng.random(shape[1]).astype(dtype)
        y = launch_for(pk.TeamPolicy(shape[0], size), matvec, a, x, np.full(shape[0], -1, dtype))[2]
        assert_close(y, a.astype(np.float64) @ x, dtype, shape[1])


@pk.kernel
def numbers_of_the_team(team, out):
    own = team.rank
    last = team.reduce(own, pk.Max)
    members = team.reduce(1)
    if team.single():
        out[team.league_rank, 0] = team.league_size
        out[team.league_rank, 1] = last + 1 - team.size
        out[team.league_rank, 2] = members - team.size
        out[team.league_rank, 3] = team.league_rank


@sizes
def test_ranks_and_sizes_fit_together(space, size):
    out = launch_for(pk.TeamPolicy(5, size), numbers_of_the_team, np.full((5, 4), -1, np.int64))
    assert_array_equal(out, [[5, 0, 0, k] for k in range(5)])


@pk.kernel
def count_items(team, begin, end, visits, count):
    n = 0
    for j in team.thread_range(begin[team.league_rank], end[team.league_rank]):
        n += 1
        pk.atomic_add(visits, j, 1)
    n = team.reduce(n)
    if team.single():
        count[team.league_rank] = n


@sizes
def test_each_item_belongs_to_one_member(space, size):
    begin, end = np.array([0, 3, 3, 50, 9]), np.array([3, 3, 47, 51, 4])
    _, _, visits, count = launch_for(
        pk.TeamPolicy(5, size), count_items, begin, end, np.zeros(60, np.int32), np.zeros(5, np.int64)
    )
    wanted = np.zeros(60)
    for b, e in zip(begin, end):
        wanted[b:e] += 1
    assert_array_equal(visits, wanted)
    assert_array_equal(count, np.maximum(end - begin, 0))


@pk.kernel
def normalise(team, x):
    row = team.league_rank
    largest = -1e30
    for j in team.thread_range(x.shape[1]):
        largest = max(largest, x[row, j])
    largest = team.reduce(largest, pk.Max)
    total = 0.0
    for j in team.thread_range(x.shape[1]):
        total += x[row, j] - largest
    total = team.reduce(total)
    for j in team.thread_range(x.shape[1]):
        x[row, j] = (x[row, j] - largest) / total


@sizes
def test_two_reductions_in_a_row(space, size):
    x = default_rng(2).random((6, 19))
    below = x - x.max(1, keepdims=True)
    got = launch_for(pk.TeamPolicy(6, size), normalise, x)
    assert_close(got, below / below.sum(1, keepdims=True), np.float64, 19, scale=1.0)


@pk.kernel
def smallest_place(team, x, out):
    best = x[team.league_rank, 0]
    where = 0
    for j in team.thread_range(x.shape[1]):
        if x[team.league_rank, j] < best:
            best = x[team.league_rank, j]
            where = j
    best, where = team.reduce((best, where), pk.MinLoc)
    if team.single():
        out[team.league_rank] = where


@sizes
def test_where_the_smallest_is(space, size):
    x = default_rng(4).random((5, 40))
    assert_array_equal(
        launch_for(pk.TeamPolicy(5, size), smallest_place, x, np.zeros(5, np.int64))[1], x.argmin(1)
    )


@pk.kernel
def broadcast_first_and_last(team, out):
    first = team.broadcast(team.rank + 10, 0)
    last = team.broadcast(team.rank + 10, team.size - 1)
    if team.rank == 0:
        out[team.league_rank, 0] = first
        out[team.league_rank, 1] = last - team.size


@sizes
def test_broadcast(space, size):
    out = launch_for(pk.TeamPolicy(2, size), broadcast_first_and_last, np.zeros((2, 2)))
    assert_array_equal(out, [[10, 9], [10, 9]])


@pk.kernel
def place_by_scan(team, out):
    before = team.scan(team.rank + 1)
    total = team.reduce(team.rank + 1)
    wanted = team.rank * (team.rank + 1) // 2
    wrong = team.reduce(1 if before != wanted else 0)
    if team.single():
        out[team.league_rank, 0] = wrong
        out[team.league_rank, 1] = total - team.size * (team.size + 1) // 2


@sizes
def test_scan_sums_the_members_before(space, size):
    out = launch_for(pk.TeamPolicy(2, size), place_by_scan, np.full((2, 2), -1, np.int64))
    assert_array_equal(out, np.zeros((2, 2)))


@pk.kernel
def largest_before(team, x, out):
    """Compute per member the largest of 7 r mod 5 over members before r, in x's dtype, and the result of a
    scan of sums."""
    one = x[0]
    v = one * (7 * team.rank % 5)
    before = team.scan(v, pk.Max)
    wanted = one * 0
    for r in range(team.rank):
        wanted = max(wanted, one * (7 * r % 5))
    wrong = before != wanted if team.rank > 0 else before >= wanted
    wrong = team.reduce(1 if wrong else 0)
    if team.single():
        out[team.league_rank] = wrong


@in_pairs("int32", "int64", "float32", "float64")
def test_scan_takes_a_reducer(space, size, dtype):
    """The first member gets the neutral element: less than all others."""
    _, out = launch_for(pk.TeamPolicy(2, size), largest_before, np.ones(1, dtype), np.full(2, -1, np.int64))
    assert out.tolist() == [0, 0]


@pk.kernel
def leave_team(team, skip, x, out):
    if skip[team.league_rank] != 0:
        return
    total = 0.0
    for j in team.thread_range(x.shape[0]):
        total += x[j]
    total = team.reduce(total)
    if team.single():
        out[team.league_rank] = total


@sizes
def test_a_whole_team_may_leave_early(space, size):
    skip, x = np.array([0, 1, 0, 0, 1]), np.arange(30.0)
    out = launch_for(pk.TeamPolicy(5, size), leave_team, skip, x, np.full(5, -1.0))[2]
    assert_array_equal(out, np.where(skip, -1.0, x.sum()))


@pk.kernel
def keep_positive(team, x, values, places, count):
    row = x[team.league_rank]
    n = 0
    for begin in range(0, len(row), team.size):
        j = begin + team.rank
        keep = j < len(row) and row[min(j, len(row) - 1)] > 0
        team.append(places[team.league_rank], n, j, keep)
        n = team.append(values[team.league_rank], n, row[min(j, len(row) - 1)], keep)
    if team.single():
        count[team.league_rank] = n


@in_pairs(np.float32, np.float64, np.int32)
def test_append_keeps_the_order_of_ranks(space, dtype, size):
    """Elements after the last kept value are not modified; all, none and some members keep a value."""
    for length in (1, 16, 33):
        appended(space, length, dtype, size)


def appended(space, length, dtype, size):
    x = default_rng(length).integers(-9, 9, (4, length)).astype(dtype)
    x[1], x[2] = 1, -1
    _, values, places, count = launch_for(
        pk.TeamPolicy(4, size),
        keep_positive,
        x,
        np.full((4, length + 1), -7, dtype),
        np.full((4, length + 1), -7, np.int32),
        np.zeros(4, np.int32),
        space=space,
    )
    for row, v, p, n in zip(x, values, places, count):
        wanted = np.flatnonzero(row > 0)
        assert_array_equal(p, np.append(wanted, np.full(length + 1 - len(wanted), -7)))
        assert_array_equal(v, np.append(row[wanted], np.full(length + 1 - len(wanted), -7)))
        assert n == len(wanted)


@pk.kernel
def count_letters(team, letters, before, counts, sizes):
    """Count letters in a row: a warp's part is a run of neighbours, one for each member and step."""
    n_letters, n_steps, r = 5, before.shape[1] // team.size, team.league_rank
    own = team.scratch((team.size // team.warp_size, 5), counts.dtype)
    for e in team.thread_range(own.shape[0] * n_letters):
        own[e // n_letters, e % n_letters] = 0
    team.barrier()
    warp = team.rank // team.warp_size
    first = warp * n_steps * team.warp_size + team.rank % team.warp_size
    for m in range(n_steps):
        p = first + m * team.warp_size
        before[r, p] = team.tally(own[warp], letters[r, p])
    team.barrier()
    for letter in team.thread_range(n_letters):
        for w in range(own.shape[0]):
            counts[r, letter] += own[w, letter]
    if team.single():
        sizes[r, 0], sizes[r, 1] = team.size, team.warp_size


@in_pairs(np.int32, np.uint64)
def test_members_of_a_warp_are_tallied_in_their_order(space, dtype, size):
    """Tally random letters, equal ones, and a different one for each member."""
    letters = default_rng(1).integers(0, 5, (3, 512))
    letters[1], letters[2] = 4, np.arange(512) % 5
    launch = launch_for(
        pk.TeamPolicy(3, size),
        count_letters,
        letters,
        np.full(letters.shape, -1),
        np.zeros((3, 5), dtype),
        np.zeros((3, 2), np.int64),
    )
    _, before, counts, sizes_of = launch
    team_size, warp_size = sizes_of[0]
    assert team_size % warp_size == 0 and (sizes_of == sizes_of[0]).all()
    n = 512 // team_size * warp_size  # length of a warp's part
    for row, found, total in zip(letters, before, counts):
        used = row[: 512 // team_size * team_size]
        assert total.tolist() == np.bincount(used, minlength=5).tolist()
        for start in range(0, len(used), n):
            part = used[start : start + n].tolist()
            assert found[start : start + n].tolist() == [part[:k].count(v) for k, v in enumerate(part)]


def test_a_tally_of_several_members_is_found_safe():
    """Warps of one member pass the checked space, under several schedules and team sizes."""
    letters = default_rng(1).integers(0, 5, (2, 64))
    rest = np.full(letters.shape, -1), np.zeros((2, 5), np.int32), np.zeros((2, 2), np.int64)
    found = pk.check(pk.TeamPolicy(2), count_letters, letters, *rest, team_sizes=(1, 2, 32))
    assert not [f for f in found.findings if f.kind != "team size"]


def in_any_element(team, out):
    team.tally(out, 0)


def of_floats(team, out):
    team.tally(team.scratch(4, pk.float32), 0)


def of_its_own(team, out):
    own = pk.local((2, 4), pk.int32)
    team.tally(own[0], 1)


def at_no_integer(team, out):
    own = team.scratch(4, pk.int32)
    team.tally(own, 0.5)


def for_some(team, out):
    own = team.scratch(4, pk.int32)
    if team.rank > 0:
        team.tally(own, 0)


test_wrong_tallies = refusals(
    [
        (in_any_element, "tally takes a view of .* of one dimension whose extent is known"),
        (of_its_own, "that the team shares"),
        (of_floats, "tally takes a view of 32 or 64-bit whole numbers"),
        (at_no_integer, "the index must be an integer"),
        (for_some, "tally"),
    ],
    lambda text: pk.parallel_for(pk.TeamPolicy(1, 4, space="serial"), pk.kernel(text), np.zeros(4, np.int32)),
    error=pk.PortableError,
)


def test_concurrency_is_positive(space):
    assert pk.concurrency(space) >= 1
    with pk.use(space):
        assert pk.concurrency() == pk.concurrency(space)


def test_concurrency_of_threads_is_their_number():
    assert pk.concurrency(pk.Threads(3)) == 3
    assert pk.concurrency("serial") == 1


@pk.kernel
def members_of_a_pack(team, out):
    for k in team.thread_range(16):
        out[team.league_rank, k] = 1.0 * k


@pk.kernel
def members_and_more(team, out):
    for k in team.thread_range(17):
        out[team.league_rank, k] = 1.0 * k


def test_loops_of_known_ends_have_no_empty_parts():
    """Sixteen members are whole packs and need no masked code; seventeen do."""
    from portable.core.machines.cpu.entry import entry_of

    for kernel, masked in ((members_of_a_pack, 0), (members_and_more, 1)):
        with pk.use("serial"):
            pk.parallel_for(pk.TeamPolicy(2), kernel, np.zeros((2, 20)))
        ((_, *what),) = [key for key in kernel.compiled if key[0] == "cpu"]
        assert entry_of(kernel, *what).text.count('call void @"llvm.masked.store') == masked


@pk.kernel
def of_many_small_teams(team, out):
    i, n = team.league_rank, team.size
    total = team.reduce(team.rank + i)
    before = team.scan(team.rank)
    chosen = team.broadcast(team.rank + i, i % n)
    kept = team.append(out[i, 3:], 0, team.rank, team.rank % 3 == i % 3)
    if team.rank == n - 1:
        out[i, 0], out[i, 1], out[i, 2] = total - n * i, before, chosen - i
    team.barrier()
    if team.single():
        out[i, 2] += 100 * kept


def test_teams_that_share_a_block_are_apart(space):
    """Thirteen teams of a warp make a block of eight, and one that is not full."""
    out = launch_for(pk.TeamPolicy(13, 32), of_many_small_teams, np.full((13, 35), -1, np.int64))
    n = next(n for n in (1, 2, 4, 8, 16, 32) if out[0, 0] == n * (n - 1) // 2)
    for i, row in enumerate(out):
        kept = [rank for rank in range(n) if rank % 3 == i % 3]
        assert row[:3].tolist() == [out[0, 0], out[0, 1], i % n + 100 * len(kept)]
        assert row[3:].tolist() == kept + [-1] * (32 - len(kept))
