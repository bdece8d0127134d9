"""Test counts of a report's methods that are made in advance, by several processes."""

import dataclasses
import multiprocessing

import numpy as np
import pytest

import portable as pk
from portable.roofline import parallel_counts, machine, reporting
from portable.roofline.cases import hawkes, layer
from portable.roofline.contract import Run


@pytest.fixture
def cores(monkeypatch):
    """Pretend that this machine has four cores, two of which get a process."""
    monkeypatch.setattr(machine, "usable_cores", lambda: 4)


def told(counts):
    """Return the events of each launch, in order."""
    return [[(one.kernel, one.policy, one.text, one.arrays) for one in event] for event in counts]


def test_processes_count_what_this_one_would(cores):
    """Methods that none of the processes could count are left out."""
    method = "Hawkes, windowed, background kept"
    asked, heard = [("hawkes", name, "simulated") for name in (method, "nobody's")], []
    with parallel_counts.processes("serial", ["hawkes"], None, quick=True) as count:
        found = count(asked, lambda *how: heard.append(how))
    assert list(found) == asked[:1] and heard == [(0, 2), (1, 2), (2, 2)]
    with pk.use("serial"):
        (run,) = (run for run in hawkes.prepare("serial", None, True) if run.method == method)
        assert told(found[asked[0]]) == told(parallel_counts.counts_of(run))


def test_an_interruption_ends_them(cores):
    before = set(multiprocessing.active_children())
    with pytest.raises(KeyboardInterrupt), parallel_counts.processes("serial", ["hawkes"], None, quick=True):
        assert len(set(multiprocessing.active_children()) - before) == 2
        raise KeyboardInterrupt
    assert set(multiprocessing.active_children()) <= before


def test_few_cores_start_no_process(monkeypatch):
    monkeypatch.setattr(machine, "usable_cores", lambda: 3)
    monkeypatch.setattr(parallel_counts.concurrent.futures, "ProcessPoolExecutor", None)
    with parallel_counts.processes("serial", ["hawkes"], None) as count:
        assert count([("hawkes", "Hawkes, all pairs, mixed", "simulated")]) == {}


def axpy(n):
    """Return a run on one thread."""
    x, y = np.ones(n), np.zeros(n)
    policy = pk.RangePolicy(0, n, space="serial")
    return Run("axpy", "made", n, "elements", lambda: pk.parallel_for(policy, layer.axpy, 2.0, x, y))


@pytest.mark.parametrize("size", [100, 101])
def test_a_report_takes_counts_that_are_known_if_they_are_of_its_launches(size, quick_ceilings):
    """A launch over another size is counted again."""
    run = axpy(100)
    ((counts,),) = parallel_counts.counts_of(axpy(size))
    known = {("here", "axpy", "made"): [[dataclasses.replace(counts, notes=["known"])]]}
    report = reporting.Report("serial", machine.facts("serial"), quick=True)
    with pk.use("serial"):
        reporting.collect(report, [("here", run)], ceilings=lambda *_: quick_ceilings("serial"), counts=known)
    (result,) = report.results
    ((_, taken, _, _),) = result.roof.launches
    assert (taken.notes == ["known"]) == (size == 100) and taken.policy == "100 indices"
