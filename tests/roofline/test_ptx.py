"""Lower the micro-kernels of the ceilings and the kernels of comparisons to PTX on a machine without a
GPU."""

import numpy as np
import pytest

import portable as pk
from portable.core.machines.cuda.lower import entry_of
from portable.watch.counts.counting import Marked
from portable.watch.counts.cuda import ptx as counting_ptx
from portable.core.machines.cuda.space import lower_to_ptx
from portable.core.launch.dispatch import describe_launch
from portable.core.places.space import resolve
from portable.roofline import measuring, microkernels, peers, truth
from portable.roofline.truth import validate
from portable.roofline.cases import counters, layer
from portable.roofline.cases import kernels as anybody

from ..launching import builds, hardly_optimised


def ceilings():
    space = resolve("serial")
    for plan in [*measuring.plans(space, True)[2], *measuring._gpu_bandwidth(space, [("L2", 1 << 20)], True)]:
        (plan.plan(plan.sizes[0]) if plan.unit == "byte" else plan).call()
    for name in microkernels.FUNCTIONS:
        for dtype in ("float32", "float64"):
            measuring.special(space, name, dtype, True).call()
    measuring.special(space, "random.words", "uint32", True).call()


def comparisons():
    for duel in layer.duels("serial", 64, True):
        duel.ours.call()


def anybodys():
    for task in anybody.tasks("serial", None, True):
        anybody.bound("serial", task)[0]()


def planted():
    for pair in truth.corpus():
        for side in pair.make("threads:2", np.random.default_rng(0), 0):
            validate._call(side)()


@pytest.mark.parametrize(
    "run, least",
    [(ceilings, 15), (comparisons, 9), (anybodys, 40), (planted, 50)],
    ids="ceilings layer kernels truth".split(),
)
def test_every_kernel_lowers(run, least, monkeypatch):
    monkeypatch.setattr(peers, "gather", lambda *args, **options: ([], []))
    monkeypatch.setattr(truth.machine, "_check_banks", lambda space: None)  # only for a GPU
    launched = set()
    with hardly_optimised():
        with pk.listening(lambda when, what, launch: launched.add(launch.kernel), into_graphs=True):
            run()
        assert len(launched) >= least
        for kernel in launched:
            for policy_kind, specs, reducers in builds(kernel):
                ptx = lower_to_ptx(kernel, policy_kind, specs, reducers, capability=(9, 0))
                assert ".visible .entry entry" in ptx, kernel.name


def counting_build(policy, kernel, args, reducer=()):
    """Return the PTX of the build that counts a launch's executed operations."""
    _, _, _, kind, specs, reducers, _ = describe_launch(policy, kernel, args, reducer)
    entry = entry_of(kernel, kind, specs, reducers, 128 if kind == "team" else 0, Marked)
    return entry, counting_ptx(entry, (9, 0), kernel.name, lambda n_bytes: 1 << 40)[0]


def test_what_the_counters_are_read_of_lowers():
    for label, policy, kernel, args, reducer in counters.launches(resolve("serial"), many=1 << 10):
        assert "atom.global.add.u64" in counting_build(policy, kernel, args, reducer)[1], label


@pk.kernel
def decayed(i, x, y):
    y[i] = pk.exp(-x[i]) * pk.log(x[i])


@pytest.mark.parametrize("dtype, indices", [("float32", 4), ("float64", 2)])
def test_functions_of_several_indices_a_thread_are_counted(dtype, indices):
    """The last indices are processed one by one: a function exists for packs and for single numbers."""
    entry, ptx = counting_build(
        pk.RangePolicy(0, 9, space="serial"), decayed, (np.ones(9, dtype), np.ones(9, dtype))
    )
    assert entry.width == indices and "atom.global.add.u64" in ptx
