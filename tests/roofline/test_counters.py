"""Read the output of `ncu`, and compare it with counts; the counters themselves require a GPU."""

import functools
import subprocess
from types import SimpleNamespace

import pytest

import portable as pk
from portable.errors import SpaceUnavailableError
from portable.roofline import __main__ as cli
from portable.roofline.truth import counters
from portable.roofline.cases import counters as workload

# test_ptx.py lowers counting builds, and checks thereby that every launch of the workload can be counted
SOME = "axpy", "dot product", "mixture density", "gather from anywhere"
HEAD = '==PROF== Connected to process 1\n"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n'


def printed(n=len(SOME), value="1,024"):
    """Return ncu's output for n kernels."""
    metrics = [*counters.FLOPS, *counters.BYTES.values(), *counters.SECTORS]
    return HEAD + "".join(f'"{k}","entry","{name}","inst","{value}"\n' for k in range(n) for name in metrics)


@pytest.fixture
def ncu(monkeypatch):
    """Pretend that the machine has a GPU whose ncu prints a given text."""

    def pretend(out, code=0, err=""):
        monkeypatch.setattr(counters.shutil, "which", lambda name: "/usr/bin/ncu")
        done = SimpleNamespace(stdout=out, stderr=err, returncode=code)
        monkeypatch.setattr(subprocess, "run", lambda *args, **options: done)

    some = [launch for launch in workload.launches("threads", 1 << 10, 1 << 10) if launch[0] in SOME]
    monkeypatch.setattr(workload, "launches", lambda space: some)
    monkeypatch.setattr(counters, "capacity", lambda: 50 << 20)
    monkeypatch.setattr(counters.pk, "unavailable_because", lambda space: None)
    return pretend


def test_kernels_are_read_in_their_order():
    text = HEAD + '"1","b","m","byte","2"\n"0","a","m","byte","1,000"\n"1","b","k","byte","3.0"\n'
    assert counters.parse(text) == [{"m": 1000}, {"m": 2, "k": 3}]
    with pytest.raises(SpaceUnavailableError, match="no kernel"):
        counters.parse("==PROF== nothing")


def test_counts_stand_beside_the_hardware(ncu, told):
    ncu(printed())
    assert cli.main(["counters"]) == 0
    out = told.out
    assert all(name in out for name in SOME) and f"{1024 * (1 + 1 + 2) * 2:,}" in out


@pytest.mark.parametrize(
    ("out", "code", "words"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM", 1, "administrator"),
        ("==ERROR== out of luck", 1, "out of luck"),
        (printed(2), 0, "ncu reported 2 kernels"),
    ],
)
def test_what_ncu_refuses_is_told(ncu, told, out, code, words):
    ncu(out, code)
    assert cli.main(["counters"]) == 2
    assert words in told.err


def test_without_a_gpu_or_the_tool_there_is_a_reason(monkeypatch, told):
    monkeypatch.setattr(counters.pk, "unavailable_because", lambda space: "no driver")
    assert cli.main(["counters"]) == 2 and "no driver" in told.err
    monkeypatch.setattr(counters.pk, "unavailable_because", lambda space: None)
    monkeypatch.setattr(counters.shutil, "which", lambda name: None)
    monkeypatch.setattr(counters.glob, "glob", lambda pattern: [])
    assert cli.main(["counters"]) == 2 and "not installed" in told.err


def test_the_workload_runs(monkeypatch):
    if pk.unavailable_because("cuda"):
        monkeypatch.setattr(workload, "launches", functools.partial(workload.launches, many=1 << 12))
        workload.run("serial")
    else:
        workload.run("cuda")
