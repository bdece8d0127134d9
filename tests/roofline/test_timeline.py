"""Test time lines of profiles, in files and notebooks, and that a profile keeps no objects alive."""

import gc
import json
import re
import sys
import time
import types
import weakref

import numpy as np
import pytest

import portable as pk
from portable import roofline
from portable.errors import InputError
from portable.roofline import __main__ as cli
from portable.roofline import memory, profiling
from portable.roofline.cases import layer
from tests.roofline.test_html import Page

from ..processes import python

N = 20_000


def axpy(space, x, y, **words):
    pk.parallel_for(pk.RangePolicy(0, len(y), space=space), layer.axpy, 2.0, x, y, **words)


@pytest.fixture
def heard(space):
    """Return a profile of regions, copies, launches and a graph."""
    x, y = (pk.copy_of(np.ones(N), space) for _ in range(2))
    with pk.capture(space) as graph:
        for _ in range(3):
            axpy(space, x, y)
    with roofline.profile() as p:
        with p.region("set up"):
            pk.deep_copy(y, np.ones(N))
        with p.region("work <b>"), p.region("inner"):
            for _ in range(5):
                axpy(space, x, y, label="one & all")
            graph.replay()
    return p


def test_everything_has_its_time(heard, space):
    assert [e.label for e in heard.events] == ["one & all"] * 5 + ["axpy + axpy + axpy"]
    ends = [(e.start, e.start + e.seconds) for e in heard.events]
    assert all(0 < begin <= end <= heard.seconds + 1e-3 for begin, end in ends)
    assert all(end <= begin + 1e-4 for (_, end), (begin, _) in zip(ends, ends[1:], strict=False)), "one queue"
    (copy,) = heard.copies
    assert (copy.nbytes, copy.region, copy.source) == (8 * N, "set up", "host") and copy.seconds > 0
    regions = {name: (start, start + seconds) for name, start, seconds in heard.regions}
    assert regions["set up"][0] <= copy.start and copy.start + copy.seconds <= regions["set up"][1]
    outer, inner = regions["work <b>"], regions["work <b> / inner"]
    assert outer[0] <= inner[0] <= ends[0][0] and inner[1] <= outer[1]


def test_what_is_counted_in_between_takes_no_time(space):
    """A region contains its launches, however long counting took; a region that began before the profile
    begins with it."""
    x, y = (pk.copy_of(np.ones(N), space) for _ in range(2))
    with roofline.region("before"), roofline.profile(lambda launch: time.sleep(0.05)) as p:
        begin = time.perf_counter()
        with p.region("counted"):
            axpy(space, x, y)
            axpy(space, x, y)
        wall = time.perf_counter() - begin
        pk.fence(space)
        with p.region("after"):
            pass
    names = [name for name, *_ in p.regions]
    (_, start, seconds), (_, after, _) = p.regions
    assert (
        names == ["before / counted", "before / after"]
        and seconds <= wall - 0.1
        and start <= p.events[0].start <= after
    )
    with roofline.region("outer"):
        with roofline.profile() as inner:
            axpy(space, x, y)
    assert inner.regions == [], "it had not ended"


def test_the_trace_is_chromes(heard, tmp_path):
    document = heard.trace(tmp_path / "trace.json")
    assert json.loads((tmp_path / "trace.json").read_text()) == document
    spans = [e for e in document["traceEvents"] if e["ph"] == "X"]
    names = {e["tid"]: e["args"]["name"] for e in document["traceEvents"] if e["name"] == "thread_name"}
    assert {e["ph"] for e in document["traceEvents"]} == {"X", "M"} and {e["tid"] for e in spans} == set(
        names
    )
    assert list(names.values())[0] == "regions" and "copies" in names.values()
    assert all(e["ts"] >= 0 and e["dur"] >= 0 and e["pid"] == 1 for e in spans)
    graph = next(e for e in spans if e["name"] == "axpy + axpy + axpy")
    assert graph["args"]["launches"] == 3 and graph["args"]["region"] == "work <b> / inner"
    launches = [e for e in spans if e["name"] == "one & all"]
    assert len(launches) in (5, 10), "on a device the host's part stands beside it"
    assert sum(e["dur"] for e in launches[-5:]) == pytest.approx(
        1e6 * sum(e.seconds for e in heard.events[:5])
    )


def test_queues_have_tracks_of_their_own(space):
    first, second = pk.instances(space, 2)
    x, y, z = (pk.copy_of(np.ones(N), space) for _ in range(3))
    with roofline.profile() as p:
        axpy(first, x, y)
        axpy(second, x, z)
    queues = {e.queue for e in p.events}
    assert len(queues) == len({first, second}) and {q.partition(",")[0] for q in queues} == {str(first)}


def test_a_notebook_shows_the_time_line(heard):
    page = Page(heard._repr_html_())
    text = " ".join(page.data)
    assert (
        "one & all" in text
        and "set up" in text
        and "copies" in text
        and "script" not in page.tags
        and "b" not in page.tags
    )
    assert re.search(r"in launches, of .*1 copies", text) and f"{N:,} indices" in text
    with roofline.profile() as empty:
        pass
    assert "0 s in launches" in " ".join(Page(empty._repr_html_()).data) and "0 launches" in repr(empty)


def test_many_launches_are_few_blocks(space):
    x, y = (pk.copy_of(np.ones(10), space) for _ in range(2))
    with roofline.profile() as p:
        for _ in range(3000):
            axpy(space, x, y)
    assert p._repr_html_().count("<rect") < 1500 and "launches: axpy" in p._repr_html_()


def test_arrays_of_past_launches_are_let_go(space):
    arrays = [np.ones(N), pk.copy_of(np.ones(N), space), pk.copy_of(np.ones(N), space)]
    gone = [weakref.ref(a) for a in arrays]
    with roofline.profile() as p:
        axpy(space, *arrays[1:])
        if arrays[1].memory == "host":
            axpy(space, arrays[0], arrays[2])
        with pk.capture(space) as graph:
            axpy(space, *arrays[1:])
        graph.replay()
    del arrays, graph
    gc.collect()
    assert [ref() for ref in gone] == [None] * 3
    assert p.events[0].seconds >= 0 and "axpy" in p._repr_html_(), "times and sizes are still told"
    with pytest.raises(InputError, match="arrays were freed.*counted=True"):
        p.counts()


def test_slices_are_found_again_while_their_memory_lives(space):
    x, y = (pk.copy_of(np.arange(2.0 * N), space) for _ in range(2))
    if x.memory == "host":
        x = np.asfortranarray(np.arange(4.0 * N).reshape(2, 2 * N))
        with roofline.profile() as p:
            axpy(space, x[1, ::2], y[3 : N + 3])
        ((_, (counts,)),) = p.counts(executed=False)
        assert counts.flops == 2 * N and counts.arrays == {"x": (8 * N, 0), "y": (8 * N, 8 * N)}
    with roofline.profile() as p:
        axpy(space, x[0] if x.ndim == 2 else x, y)
    assert p.counts(executed=False)[0][1][0].flops == 2 * len(y)


def test_launches_can_be_counted_as_they_come(monkeypatch, quick_ceilings):
    """The arrays of a launch need not outlive it."""
    with pk.use("serial"), roofline.profile(counted=True) as p:
        for n in (100, 200):
            axpy("serial", np.ones(n), np.ones(n))
    found = roofline.report(p)
    assert found["parts"][0]["failures"] == []
    assert sorted(r["roof"]["flops"] for r in found["parts"][0]["results"]) == [200, 400]


def test_what_is_gone_is_told_in_a_report(quick_ceilings):
    with pk.use("serial"), roofline.profile() as p:
        axpy("serial", np.ones(100), np.ones(100))
    (failure,) = roofline.report(p)["parts"][0]["failures"]
    assert "arrays were freed" in failure["message"] and failure["method"] == "axpy"


def test_nvtx_hears_of_regions_and_launches(space, monkeypatch):
    """A recorder replaces nvtx, if it is not installed."""
    told, fake = [], types.ModuleType("nvtx")

    class Annotation:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            told.append(("push", self.name))

        def __exit__(self, *error):
            told.append(("pop",))

    fake.annotate, fake.push_range, fake.pop_range = (
        Annotation,
        lambda name: told.append(("push", name)),
        lambda: told.append(("pop",)),
    )
    monkeypatch.setitem(sys.modules, "nvtx", fake)
    profiling._nvtx.cache_clear()
    x, y = (pk.copy_of(np.ones(10), space) for _ in range(2))
    with roofline.profile(), roofline.region("outer"):
        axpy(space, x, y)
        pk.deep_copy(x, 1.0)
    monkeypatch.setitem(sys.modules, "nvtx", None)
    profiling._nvtx.cache_clear()
    with roofline.profile() as p, roofline.region("silent"):
        axpy(space, x, y)
    profiling._nvtx.cache_clear()
    assert (
        told == [("push", "outer"), ("push", "axpy"), ("pop",), ("push", "copy"), ("pop",), ("pop",)]
        and len(p.events) == 1
    )


MEMORY = """
import numpy as np
from portable import roofline
with roofline.profile() as p:
    np.ones(8_000_000).sum()  # 64 MB for a moment
with roofline.profile() as small:
    pass
print(p.memory_bytes, small.memory_bytes)
"""


def test_memory_is_told_at_its_most():
    """In a separate process, since threads and workers of other tests release memory at any time."""
    found = python("-c", MEMORY)
    if "None" in found.stdout:
        pytest.skip("no Linux, or one that keeps it to itself: nobody tells")
    most, least = map(int, found.stdout.split())
    assert 50e6 < most < 200e6 and least < 20e6


def test_memory_that_nobody_tells_is_none(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "PROCESS", tmp_path / "none")
    with roofline.profile() as p:
        pass
    assert p.memory_bytes is None and "held" not in p.table().caption


PROGRAM = """
import numpy as np, portable as pk
from portable import roofline
@pk.kernel
def k(i, x):
    x[i] += 1.0
with roofline.region("part"):
    for _ in range(3):
        pk.parallel_for(1000, k, np.ones(1000))
"""


def test_a_programs_report_writes_its_trace(tmp_path, told):
    (tmp_path / "program.py").write_text(PROGRAM)
    files = ["--out", str(tmp_path / "page.html"), "--trace", str(tmp_path / "trace.json")]
    assert (
        cli.main([*"report --quick --space serial".split(), *files, *f"{tmp_path}/program.py".split()]) == 0
    )
    names = [
        e["name"] for e in json.loads((tmp_path / "trace.json").read_text())["traceEvents"] if e["ph"] == "X"
    ]
    assert names == "part k k k".split()
    assert cli.main(["report", *files]) == 2 and "--trace writes the time line of a program" in told.err
