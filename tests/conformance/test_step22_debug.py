"""Step 22: the debug build reports errors with line, value and extent, and changes no result."""

import dataclasses
import threading

import numpy as np
import pytest
from numpy.random import default_rng

import portable as pk
from portable.errors import CheckError, InputError, LoweringError
from portable.core.machines.cuda.space import lower_to_ptx

from ..processes import python
from ..conftest import SPACES, space_fixture
from ..launching import launch_for, launch_reduce, move
from .debug_kernels import BROKEN, N, element, gather, numbers, whole


# The checked space is already a debug build; four threads run the same code as two.
space = space_fixture([name for name in SPACES if name != "checked"], default=True)


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: case.kernel.name)
def test_each_broken_kernel_is_named(space, case):
    launch = launch_reduce if case.reducer else launch_for
    with pk.use(debug=case.debug), pytest.raises(CheckError) as caught:
        launch(case.policy, case.kernel, *case.args)
    (fault,) = caught.value.findings
    assert fault.kind == case.kind and fault.kernel == case.kernel.name
    if not case.kernel.name.endswith("in_a_function"):  # there the line is that of the function
        assert fault.line == case.line and fault.file == __file__.replace(
            "test_step22_debug", "debug_kernels"
        )
    assert (
        case.number in (None, fault.number)
        and case.limit in (None, fault.limit)
        and case.index in (None, fault.index)
    )
    assert str(fault) == str(caught.value) and case.kernel.name in str(fault)


def test_the_line_of_a_function_that_is_called(space):
    import inspect

    (broken,) = (case for case in BROKEN if case.kernel.name == "in_a_function")
    with pk.use(debug=True), pytest.raises(CheckError) as caught:
        launch_for(broken.policy, broken.kernel, *broken.args, space=space)
    assert caught.value.findings[0].line == inspect.getsourcelines(element.fn)[1] + 2


@pk.kernel
def of_what_is_given(i, x, k, y):
    s, top = 0.0, 0.0
    for j in range(k[i]):
        s += pk.sqrt(x[i]) if x[i] >= 0.0 else x[i]
        top = pk.maximum(top, s / j if j > 0 else s)
        if s > 9.0:
            s -= x[j]
    y[i] += s * top
    if x[i] > 0.0:
        y[i] += pk.log(x[i])


@pytest.mark.parametrize("n", [40, 1000])
@pytest.mark.parametrize("packed", [True, False])
def test_a_nan_that_was_there_and_what_other_lanes_would_make_are_not_told(space, n, packed):
    random = default_rng(n)
    x, k = random.choice([np.nan, np.nan, 0.0, -2.0, 1.5, 3.0], n), random.integers(0, 9, n)
    kernel, results = pk.kernel(of_what_is_given.fn, packed=packed), []
    for debug in (False, True, "nan"):
        y = move(np.ones(n), space)
        with pk.use(debug=debug):
            pk.parallel_for(pk.RangePolicy(0, n, space=space), kernel, move(x, space), move(k, space), y)
        results.append(y.to_numpy() if isinstance(y, pk.View) else y)
    assert np.isnan(results[0]).any() and np.isfinite(results[0]).any()
    assert results[0].tobytes() == results[1].tobytes() == results[2].tobytes()


def test_plans_and_graphs_tell_too_and_go_on(space):
    k, x, y = (move(a, space) for a in (whole((5, N)), numbers(), np.zeros(N)))
    right = move(whole(), space)
    policy = pk.RangePolicy(0, N, space=space)
    with pk.use(debug=True):
        plan, other = pk.plan(policy, gather, k, x, y), pk.plan(policy, gather, right, x, y)
        with pk.capture(space) as graph:
            pk.parallel_for(policy, gather, right, x, y)
            pk.parallel_for(policy, gather, k, x, y)
        for call in (plan, graph.replay):
            with pytest.raises(CheckError, match=f"index {N} is outside extent {N}, at index 5"):
                call()
        other()
    content = y.to_numpy() if isinstance(y, pk.View) else y
    assert (content == 1.0).all()


def test_a_finding_is_told_once_and_the_usual_build_stays(space):
    args = [move(a, space) for a in (whole((5, N)), numbers(), numbers())]
    policy = pk.RangePolicy(0, N, space=space)
    with pk.use(space, debug=True):
        with pytest.raises(CheckError):
            pk.parallel_for(N, gather, *args)
        pk.parallel_for(policy, gather, move(whole(), space), *args[1:])
    assert len(gather.compiled) >= 2


def test_sums_are_those_of_the_usual_build(space):
    x = default_rng(1).random(10_000)

    def total():
        return launch_reduce(pk.RangePolicy(0, len(x)), _value, x, space=space)

    plain = total()
    with pk.use(debug=True):
        assert total() == pytest.approx(plain, rel=1e-14)


@pk.kernel
def _value(i, x):
    return x[i]


@pk.kernel
def _rows_of_scratch(team, n, y):
    rows = team.scratch((n, 8), y.dtype)  # all scratch of the team
    for e in team.thread_range(64):
        rows[e // 8, e % 8] = 1.0 * e
    team.barrier()
    for k in team.thread_range(8):
        row = rows[team.league_rank]
        y[team.league_rank, k] = row[k]


def test_a_part_of_scratch_takes_no_more_of_it(space):
    """Such a row was once reported to end beyond the team's scratch; on spaces that continue after a fault it
    was empty.
    """
    with pk.use(debug=True):
        y = launch_for(
            pk.TeamPolicy(8, scratch_bytes=512), _rows_of_scratch, 8, np.zeros((8, 8)), space=space
        )
    np.testing.assert_array_equal(y, np.arange(64.0).reshape(8, 8))


def test_wrong_values_of_debug():
    with pytest.raises(InputError, match="debug is 'yes'; expected False, True or 'nan'"):
        with pk.use("serial", debug="yes"):
            pass


def test_spaces_that_differ_in_it_are_equal(space):
    asked = pk.core.places.space.resolve(space)
    assert dataclasses.replace(asked, debug=True) == asked


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: case.kernel.name)
def test_the_debug_build_lowers_to_ptx(case):
    from portable.core.launch import dispatch
    from portable.core.places.policy import as_policy, kind_of

    kind = kind_of(as_policy(case.policy))
    specs = dispatch.compiler_specs(case.args, pk.core.places.space.resolve("serial"), case.kernel, kind)
    ptx = lower_to_ptx(case.kernel, kind, specs, (case.reducer,) if case.reducer else (), debug=case.debug)
    assert "atom" in ptx and ".cas.b64" in ptx and ptx.count("portable_fault") > 1


def test_what_is_only_added_to_is_not_read(space):
    from .test_step06_scatter import reads

    with pk.use(debug=True), pytest.raises(LoweringError, match="is a ScatterView here"):
        pk.parallel_for(
            pk.RangePolicy(0, 9, space=space), reads, pk.ScatterView(move(np.zeros(9, np.int64), space))
        )


@pk.kernel
def gather_twice(i, k, j, x, y):
    y[i] = x[k[i]] + x[j[i]]


@pytest.mark.parametrize("n", [5000])
def test_the_lane_of_a_pack_is_named(space, n):
    """Long ranges are processed in packs; of several failed checks of a block, the first is reported."""
    right = whole(n=n)
    x, y = move(numbers(n), space), move(np.zeros(n), space)
    for first, second in ((3000, None), (17, 17), (None, 4999), (2047, None), (1023, 2048)):
        k, j = (right if place is None else whole((place, -7 - place), n=n) for place in (first, second))
        places = {place for place in (first, second) if place is not None}
        with pk.use(debug=True), pytest.raises(CheckError) as caught:
            pk.parallel_for(
                pk.RangePolicy(0, n, space=space), gather_twice, move(k, space), move(j, space), x, y
            )
        (fault,) = caught.value.findings
        (index,) = fault.index
        assert index in places and fault.number == -7 - index and fault.limit == n
    content = y.to_numpy() if isinstance(y, pk.View) else y
    assert (content == 2.0).sum() >= n - len(places) or not space.startswith("cuda")


@pk.kernel
def tally(i, k, counts):
    pk.atomic_add(counts, k[i], 1)


def test_a_count_outside_is_named_and_the_others_stay(space):
    """In the debug build, too, a ScatterView has copies for threads and a GPU's blocks."""
    counts = move(np.zeros(N, np.int64), space)
    with pk.use(debug=True):
        for k in (whole(), whole((5, N)), whole((5, -1))):
            launch = pk.RangePolicy(0, N, space=space), tally, move(k, space), pk.ScatterView(counts)
            if k[5] == 5:
                pk.parallel_for(*launch)
                continue
            with pytest.raises(CheckError, match=f"'counts', dimension 0: index {k[5]} is outside"):
                pk.parallel_for(*launch)
    content = counts.to_numpy() if isinstance(counts, pk.View) else counts
    assert content[5] == 1 and content.max() <= 3
    if space.startswith("cuda"):  # spaces on which the kernel continues
        assert (np.delete(content, 5) == 3).all()


@pytest.mark.parametrize("n_bins", [7, 10_000_000])
@pytest.mark.parametrize("place", [3, 39_990])
def test_what_follows_a_fault_begins_with_empty_copies(space, n_bins, place):
    n = 40_000
    counts, k = move(np.zeros(n_bins, np.int64), space), np.arange(n) % 7
    policy, outside = pk.RangePolicy(0, n, space=space), k.copy()
    outside[place] = n_bins
    with pk.use(debug=True):
        wrong, right = (
            pk.plan(policy, tally, move(which, space), pk.ScatterView(counts)) for which in (outside, k)
        )
        with pytest.raises(CheckError, match=f"index {n_bins} is outside extent .*, at index {place}"):
            wrong()
        before = counts.to_numpy() if isinstance(counts, pk.View) else counts.copy()
        for _ in range(2):
            right()
    content = counts.to_numpy() if isinstance(counts, pk.View) else counts
    assert before.sum() < n and (before[:7] <= np.bincount(k)).all()
    assert (content[:7] - before[:7] == 2 * np.bincount(k)).all() and not content[7:].any()
    if not space.startswith("cuda"):
        assert any(one.merges for key, one in tally.compiled.items() if "debug True" in key)


def test_its_copies_are_a_blocks_in_ptx():
    specs = ("view", "int64", 1, True, False), ("scatter", "int64", 1, True, False)
    for debug in (False, True):
        assert "atom.shared.add.u64" in lower_to_ptx(tally, "range", specs, debug=debug)


@pk.kernel
def slow_gather(i, k, x, y):
    s = 0.0
    for j in range(2000):
        s += x[j % len(x)]
    y[i] = s + x[k[i]]


def test_threads_hear_of_their_own_faults(space):
    """Two Python threads launch one kernel at the same time; only one of the launches is wrong."""
    found = {}

    def run(name, k):
        args = [move(a, space) for a in (k, numbers(400), numbers(400))]
        found[name] = []
        with pk.use(debug=True):
            again = pk.plan(pk.RangePolicy(0, 400, space=space), slow_gather, *args)
            for _ in range(20):
                try:
                    again()
                except CheckError as error:
                    found[name].append(error.findings[0].number)

    jobs = (("right", whole(n=400)), ("wrong", whole((399, 400), n=400)))
    threads = [threading.Thread(target=run, args=job) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {"right": [], "wrong": [400] * 20}


SCRIPT = """
import numpy as np, portable as pk
from tests.conformance.debug_kernels import gather, whole, numbers
pk.parallel_for(pk.RangePolicy(0, 37, space="serial"), gather, whole((7, -1)), numbers(), numbers())
"""


def test_the_environment_asks_for_it(monkeypatch):
    monkeypatch.setenv("PORTABLE_DEBUG", "1")
    done = python("-c", SCRIPT, check=False)
    assert done.returncode == 1 and "index -1 is outside extent 37, at index 7" in done.stderr
