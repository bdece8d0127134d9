"""The micro-kernels of the ceilings and the kernels of comparisons lower to PTX on a machine without a GPU."""

import pytest

import portable as pk
from portable.backends.cuda.space import lower_to_ptx
from portable.space import resolve
from roofline import measuring, microkernels, peers
from roofline.cases import layer

from ..launching import builds


def ceilings():
    space = resolve("serial")
    for plan in [*measuring.plans(space, True)[2], *measuring._gpu_bandwidth(space, [("L2", 1 << 20)], True)]:
        plan.call()
    for name in microkernels.FUNCTIONS:
        for dtype in ("float32", "float64"):
            measuring.special(space, name, dtype, True).call()
    measuring.special(space, "random.words", "uint32", True).call()


def comparisons():
    for duel in layer.duels("serial", 64, True):
        duel.ours.call()


@pytest.mark.parametrize("run, least", [(ceilings, 15), (comparisons, 9)], ids=["ceilings", "layer"])
def test_every_kernel_lowers(run, least, monkeypatch):
    monkeypatch.setattr(peers, "gather", lambda *args, **options: ([], []))
    launched = set()
    with pk.listening(lambda when, what, launch: launched.add(launch.kernel)):
        run()
    assert len(launched) >= least
    for kernel in launched:
        for policy_kind, specs, reducers in builds(kernel):
            ptx = lower_to_ptx(kernel, policy_kind, specs, reducers, capability=(9, 0))
            assert ".visible .entry entry" in ptx, kernel.name
