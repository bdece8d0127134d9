"""Test facts about the machine."""

import collections
import json
import os

import pytest

from portable.roofline import machine

from ..processes import python


def test_facts_are_fit_for_json():
    facts = json.loads(json.dumps(machine.facts("serial")))
    assert facts["space"] == "serial" and facts["device"] is None
    assert facts["cores"] >= 1 and facts["cpu"] and facts["versions"]["numpy"]


@pytest.mark.parametrize(
    ("space", "name"), [("cuda", "NVIDIA H200"), ("cuda:1", "NVIDIA T4"), ("cuda:2", None), ("threads", None)]
)
def test_gpu_model_reads_the_driver(tmp_path, space, name):
    for bus, model in (("0000:1b", "NVIDIA H200"), ("0000:2c", "NVIDIA T4")):
        (tmp_path / bus).mkdir()
        (tmp_path / bus / "information").write_text(f"Model: \t\t {model}\nIRQ:   99\n")
    assert machine.gpu_model(space, tmp_path) == name


TIMES = collections.namedtuple("times", "user nice system idle iowait irq softirq steal guest")


def test_busy_cores_are_ours_without_our_own_time(monkeypatch):
    """Idle time, other cores, and the time of this process and of its children do not count."""
    busy, own = [TIMES(9, 1, 2, 50, 5, 0, 0, 3, 4), TIMES(*[99] * 9), TIMES(*[1] * 9)], iter((0, 0, 5, 5))
    looks = iter([[TIMES(*[0] * 9)] * 3, busy, busy])
    process = machine.psutil.Process
    monkeypatch.setattr(machine, "_ours", lambda: [0, 2])
    monkeypatch.setattr(machine.psutil, "cpu_times", lambda percpu: next(looks))
    monkeypatch.setattr(machine.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(process, "children", lambda self, recursive: [process()])
    monkeypatch.setattr(process, "cpu_times", lambda self: (next(own), 0, 0, 0, 7))
    assert machine.busy_cores(10.0) == 1.1
    monkeypatch.setattr(machine, "_ours", lambda: [7])
    assert machine.busy_cores() is None


def test_a_processor_is_told_by_its_numbers():
    assert machine.cpu_id({"cpu family": "6", "model": "143", "stepping": "8"}) == "6/143/8"
    assert machine.cpu_id({"model name": "Neoverse"}) is None


ALONE = """
import os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import numpy as np
import portable as pk
from portable import roofline
from portable.roofline import measuring
from portable.roofline.cases import layer
with pk.use("threads") as space:
    assert space.n_threads == 1
    x = np.ones(100)
    with roofline.profile() as p:
        pk.parallel_for(100, layer.axpy, 2.0, x, x)
    ((_, (counts,)),) = p.counts()
    assert counts.flops == 200 and counts.executed_totals["flops"] == {"float64": 208}
    assert measuring.special(space, "exp", "float64", quick=True).measure(quick=True).median > 0
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no way to take cores away")
def test_one_core_is_enough():
    done = python("-c", ALONE, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
