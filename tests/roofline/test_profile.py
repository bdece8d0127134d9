"""Test profiles: every launch is recorded, with its time, its place and its counts."""

import dataclasses
import io

import numpy as np
import pytest
from rich.console import Console

import portable as pk
from portable import roofline
from portable.errors import InputError
from portable.roofline import launch_counts, profiling
from portable.roofline.attainable import Analysis, analyse, bound
from portable.roofline.cases import layer
from portable.roofline.microkernels import element

from ..launching import space as space

N = 1000


@pk.kernel
def never(i, x):
    x[i] = 0.0


@pytest.fixture
def views(space):
    return [pk.copy_of(np.linspace(0.0, 1.0, N), space) for _ in range(2)]


def launch(space, x, y, times=3):
    for _ in range(times):
        pk.parallel_for(N, layer.axpy, 2.0, x, y)
    return pk.parallel_reduce(N, layer.product, x, y, label="scalar product")


def test_launches_are_gathered_with_their_regions(space, views):
    with roofline.profile() as p:
        launch(space, *views, times=1)
        with p.region("outer"), p.region("inner"):
            launch(space, *views)
    pk.parallel_for(N, never, views[0])
    assert [e.label for e in p.events] == ["axpy", "scalar product", "axpy", "axpy", "axpy", "scalar product"]
    assert [e.region for e in p.events] == [""] * 2 + ["outer / inner"] * 4
    assert all(e.seconds >= 0 and e.space == space for e in p.events)
    assert 0 < sum(e.seconds for e in p.events) < p.seconds
    assert {(region, label, len(s.values)) for (region, label, *_), s in p.groups().items()} == {
        ("", "axpy", 1),
        ("", "scalar product", 1),
        ("outer / inner", "axpy", 3),
        ("outer / inner", "scalar product", 1),
    }
    assert len(p.of(layer.axpy)) == 4
    text = io.StringIO()
    Console(file=text, width=200).print(p.table())
    assert "outer / inner" in text.getvalue() and "1,000" in text.getvalue()


def test_a_kernel_that_was_never_launched_is_told(space, views):
    with roofline.profile() as p:
        launch(space, *views, times=1)
    with pytest.raises(
        InputError, match="kernel 'never' was never launched .* launched were: 'axpy', 'scalar product'"
    ):
        p.of(never)


def test_launches_are_counted(space, views):
    out = pk.empty((N,), np.float64, space)
    with roofline.profile() as p:
        launch(space, *views, times=1)
        pk.parallel_scan(N, element, views[0], out=out)
    counts = [c for _, (c,) in p.counts(executed=False)]
    assert [c.flops for c in counts] == [2 * N, 2 * N, N]
    assert [c.compulsory for c in counts] == [24 * N, 16 * N, 16 * N]
    assert p.counts(executed=False)[0][1][0] is counts[0]


def test_a_graph_is_one_event(space, views):
    with pk.capture(space) as graph:
        for _ in range(3):
            pk.parallel_for(N, layer.axpy, 2.0, *views)
    with roofline.profile() as p:
        graph.replay()
    (event,) = p.events
    assert event.label == "axpy + axpy + axpy" and len(event.launches) == 3
    ((_, counts),) = p.counts(executed=False)
    assert [c.flops for c in counts] == [2 * N] * 3


def test_plans_are_heard_of(space, views):
    plan = pk.plan(N, layer.axpy, 2.0, *views)
    with roofline.profile() as p:
        plan()
        plan()
    assert [e.label for e in p.events] == ["axpy", "axpy"]


def test_short_launches_are_named(views, space, monkeypatch):
    monkeypatch.setattr(profiling, "SHORT", 10.0)
    with roofline.profile() as p:
        pk.parallel_for(1, never, views[0])
    assert p.short() == ["never"] and "too short" in p.table().caption
    monkeypatch.setattr(profiling, "SHORT", 0.0)
    assert p.short() == [] and "too short" not in p.table().caption


def test_apart_a_graph_is_as_many_events_as_launches(space, views):
    with pk.use(space), pk.capture() as graph:
        for label in ("first", "second"):
            pk.parallel_for(N, layer.axpy, 2.0, *views, label=label)
    with roofline.profile(apart=True) as p:
        graph.replay()
    assert [(e.label, len(e.launches)) for e in p.events] == [("first", 1), ("second", 1)] and all(
        e.seconds > 0 for e in p.events
    )


class Stamped:
    """Stamp of a device at a given second."""

    def __init__(self, at):
        self.at = at

    def seconds_since(self, other):
        return self.at - other.at


def test_what_two_stamps_tell_beside_a_kernel_is_taken_off(monkeypatch):
    """With an empty launch, 5 microseconds between two stamps, and 1 in a graph, 4 are due to the stamps."""
    monkeypatch.setattr(profiling, "_something", lambda space: None)
    monkeypatch.setattr(profiling, "_stamped", lambda *launch: 5e-6)
    monkeypatch.setattr(profiling, "in_a_graph", lambda policy, kernel, args, times: 1e-6)
    assert profiling._stamp_seconds.__wrapped__("cuda") == pytest.approx(4e-6)
    monkeypatch.setattr(profiling, "_stamp_seconds", lambda space: 4e-6)
    for apart, seconds in ((True, [2e-6, 1e-7]), (False, [6e-6, 3e-6])):
        p = profiling.Profile(apart=apart)
        p._marks = [
            profiling._Mark("k", "cuda", (), "", Stamped(0.0), Stamped(end), (0.0, 0.0))
            for end in (6e-6, 3e-6)
        ]
        assert [e.seconds for e in p.events] == pytest.approx(seconds)


def test_nothing_launched_is_an_empty_profile():
    with roofline.profile() as p:
        pass
    assert p.events == [] and p.groups() == {} and p.counts() == []
    assert analyse(p, 1.0, lambda special: None) is None


def test_launches_are_counted_in_their_own_space(monkeypatch):
    """The default space at the time of counting does not matter."""
    seen = []
    monkeypatch.setattr(launch_counts, "count", lambda *args, **options: seen.append(str(pk.default_space())))
    x, y = np.ones(10), np.ones(10)
    with pk.use("serial"), roofline.profile() as p:
        pk.parallel_for(10, layer.axpy, 2.0, x, y)
    with pk.use("checked"):
        p.counts()
    assert seen == ["serial"]


def test_a_call_is_held_against_its_roof(views, space, quick_ceilings):
    if space == "checked":
        pytest.skip("an interpreter has no roof")
    with roofline.profile() as p:
        launch(space, *views, times=1)
    asked, p.seconds = [], 0.5  # much of it outside of launches
    analysis = analyse(p, 0.5, lambda special: asked.append(special) or quick_ceilings(space))
    assert asked == [set()] and analysis.total("flops") == 4 * N and analysis.total("compulsory") == 40 * N
    assert analysis.intensity == pytest.approx(0.1) and 0 < analysis.share < 1
    assert analysis.attainable == sum(b.seconds for _, _, b, _ in analysis.launches)
    assert analysis.outside > 0.4
    assert (
        analysis.as_dict()["kernels"][0]["wants_seconds"][analysis.kernels[0].bound.by]
        == analysis.kernels[0].bound.seconds
    )


def test_the_largest_want_bounds_a_launch(quick_ceilings):
    roof = quick_ceilings("serial")
    x = np.ones(N)
    with pk.use("serial"):
        counts = roofline.count(N, layer.axpy, 2.0, x, x.copy())
    found = bound(counts, roof)
    level = roof.level_of(24 * N)
    assert found.wants["arithmetic"] == 2 * N / roof.rate("fma float64")
    assert found.wants[f"memory {level}"] == 24 * N / roof.bandwidth(level)
    assert found.seconds == max(found.wants.values()) and found.wants[found.by] == found.seconds


@pk.kernel
def differences(i, x, out):
    total = pk.exp(x[i])  # operations inside a special function count as special
    for k in range(64):
        total += (x[i] - 1.0) * (x[i] - 1.0)
    out[i] = total


def test_what_is_computed_once_is_no_part_of_the_roof(quick_ceilings):
    """Two of the source's four flops per iteration remain in the code."""
    roof, x = quick_ceilings("serial"), np.ones(N)
    with pk.use("serial"):
        counts = roofline.count(N, differences, x, x.copy())
    assert counts.flops == 4 * 64 * N
    found = bound(counts, roof)
    assert 2 * 64 * N <= (found.wants["arithmetic"] - found.special) * roof.rate("fma float64") < 2.1 * 64 * N


def test_a_function_without_a_ceiling_is_left_out_and_said(quick_ceilings):
    with pk.use("serial"):
        counts = roofline.count(4, odd, np.ones(4))
    found = bound(counts, quick_ceilings("serial"))
    assert (
        found.wants["arithmetic"] == 0
        and "no ceiling of tanh float64: its calls are left out" in found.notes[0]
    )


@pk.kernel
def odd(i, x):
    x[i] = pk.tanh(x[i])


def test_a_kernel_without_floating_point_has_a_roof_too(quick_ceilings):
    counts_of = np.arange(N) % layer.BINS
    with pk.use("serial"):
        counts = roofline.count(N, layer.count, counts_of, np.zeros(layer.BINS, np.int64))
    found = bound(counts, quick_ceilings("serial"))
    assert counts.flops == 0 and found.seconds > 0 and found.wants["atomics"] > 0


@pk.kernel
def filled(i, n, x):
    """Work only if n[0] is set."""
    if n[0] > i:
        x[i] = 2.0 * x[i]


def test_launches_that_differ_are_counted_on_their_own_data(space):
    """A sampler's steps use one graph with different data each time."""
    n, x = pk.copy_of(np.array([4]), space), pk.copy_of(np.ones(N), space)
    with roofline.profile(lambda launch: p.meet(launch, executed=False)) as p:
        for working in (4, 0, 2):
            pk.deep_copy(n, np.array([working]))
            pk.parallel_for(4, filled, n, x)
    counts = [c for _, (c,) in p.counts(executed=False)]
    assert [c.flops for c in counts] == [
        2
    ] * 3 and "the mean of 3 counts: launches of this kind differ" in counts[0].notes
    assert counts[0].arrays == {"n": (8, 0), "x": (16, 16)}


def test_of_many_launches_some_are_counted(space, views, monkeypatch):
    counted = []
    monkeypatch.setattr(
        launch_counts, "count_launch", lambda launch, **options: counted.append(p._busy) or found
    )
    found = roofline.count(
        pk.RangePolicy(0, 4, space="serial"), filled, np.ones(1, int), np.ones(4), executed=False
    )
    n, x = pk.copy_of(np.array([4]), space), views[0]
    with roofline.profile(lambda launch: p.meet(launch)) as p:
        for _ in range(100):
            pk.parallel_for(4, filled, n, x)
            pk.parallel_for(4, never, x)  # no condition: counted once
    assert 10 < len(counted) - 1 < 20 and p.counts()[0][1][0].flops == found.flops


@pk.kernel
def repeated(i, n, scale, x):
    for _ in range(n):
        x[i] *= scale


@pytest.mark.parametrize(("numbers", "least", "most"), [([3], 1, 1), ([1, 5], 10, 20)])
def test_launches_of_a_kind_differ_by_whole_numbers_alone(monkeypatch, numbers, least, most):
    """The places of arrays do not matter, nor do floats, which conditions do not depend on."""
    counted, count = [], launch_counts.count_launch
    monkeypatch.setattr(
        launch_counts, "count_launch", lambda launch, **how: counted.append(launch) or count(launch, **how)
    )
    arrays = [np.ones(4) for _ in range(50)]
    with roofline.profile(lambda launch: p.meet(launch, executed=False)) as p:
        for k, x in enumerate(arrays):
            pk.parallel_for(
                pk.RangePolicy(0, 4, space="serial"), repeated, numbers[k % len(numbers)], 0.5 + k, x
            )
    flops = [counts.flops for _, (counts,) in p.counts(executed=False)]
    assert least <= len(counted) <= most and len(flops) == 50
    assert flops[0] == pytest.approx(4 * sum(numbers) / len(numbers), rel=0.3)


def test_units_of_a_gpu_work_at_the_same_time(quick_ceilings):
    """On a CPU the times of flops and special functions add up; on a GPU special functions of float32 have
    separate units.
    """
    roof = quick_ceilings("serial")
    text = {
        ("", "*", "float32"): 1000,
        ("", "exp", "float32"): 100,
        ("", "+", "float64"): 10,
        ("", "exp", "float64"): 1,
    }
    with pk.use("serial"):
        counts = dataclasses.replace(roofline.count(1, odd, np.ones(1), executed=False), text=text)
    flops = {dtype: n / roof.rate(f"fma {dtype}") for dtype, n in (("float32", 1000), ("float64", 10))}
    calls = {dtype: n / roof.rate(f"exp {dtype}") for dtype, n in (("float32", 100), ("float64", 1))}
    own = {
        dtype: max(0.5 * s, s - 2 * n / roof.rate(f"no fma {dtype}"))
        for (dtype, s), n in zip(calls.items(), (100, 1), strict=True)
    }
    assert bound(counts, roof).wants["arithmetic"] == pytest.approx(sum(flops.values()) + sum(own.values()))
    device = dataclasses.replace(roof, space="cuda")
    most = max(flops["float32"], calls["float32"], flops["float64"] + own["float64"])
    assert bound(counts, device).wants["arithmetic"] == pytest.approx(most)


def test_kernels_of_one_kind_are_told_in_the_mean(quick_ceilings):
    roof, arrays = quick_ceilings("serial"), [np.ones(N), np.ones(N)]
    few, many = (
        roofline.count(pk.RangePolicy(0, 4, space="serial"), filled, np.array([n]), arrays[0]) for n in (0, 4)
    )
    bounds = [bound(counts, roof) for counts in (few, many)]
    launches = [
        ("filled", few, bounds[0], 1e-3),
        ("filled", many, bounds[1], 2e-3),
        ("filled", many, bounds[1], 3e-3),
    ]
    (kernel,) = Analysis(0.01, launches, []).kernels
    assert kernel.times == (1e-3, 2e-3, 3e-3) and kernel.counts.flops == round(8 / 3)
    assert kernel.attainable == pytest.approx(bounds[0].seconds + 2 * bounds[1].seconds)


@pk.kernel
def powers(i, E, x, y):
    for _ in range(E):
        y[i] += x[i]


def test_static_arguments_tell_kernels_apart(quick_ceilings):
    """This holds in a call, and among a program's launches."""
    x, y = np.ones(N), np.ones(N)
    with pk.use("serial"), roofline.profile() as p:
        for E in (2, 5):
            pk.parallel_for(N, powers, pk.static(E), x, y)
    kernels = analyse(p, p.seconds, lambda special: quick_ceilings("serial"), executed=False).kernels
    assert {k.label: k.counts.flops for k in kernels} == {"powers (E = 2)": 2 * N, "powers (E = 5)": 5 * N}
    rows = roofline.report(p)["parts"][0]["results"]
    assert {r["source"]: r["roof"]["flops"] for r in rows} == {
        "launches, E = 2": 2 * N,
        "launches, E = 5": 5 * N,
    }
