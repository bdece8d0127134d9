"""Test the gallery: each broken kernel is reported in its line under each of 20 seeds, and no corrected
kernel is reported."""

import numpy as np
import pytest

import portable as pk
from portable.watch.checked.check import TEAM_SIZES

from .gallery_of_indices import INDICES
from .gallery_of_teams import TEAM_KERNELS

SEEDS = range(20)
GALLERY = [*INDICES, *TEAM_KERNELS]


def ids(case):
    return case.name


@pytest.mark.parametrize("case", GALLERY, ids=ids)
def test_a_broken_kernel_is_caught(case):
    """Under every seed the first finding is the defect, in the marked line, with the members involved.

    Consequences of the defect may be found, too: a kernel that takes one slot twice also writes it twice.
    """
    sizes = TEAM_SIZES if case.kind == "team size" else [getattr(case.policy, "team_size", 1)]
    for seed in SEEDS:
        report = pk.check(case.policy, case.broken, *case.args(), seeds=[seed], team_sizes=sizes)
        assert not report.ok
        found, *consequences = report.findings
        assert (found.kind, found.line) == (case.kind, case.line) and len(consequences) <= 1, str(report)
        assert (
            found.kernel == case.broken.name
            and found.file == case.broken.fn.__code__.co_filename
            and found.seed == seed
        )
        if case.kind in ("race", "missing barrier", "non-atomic update", "divergent barrier"):
            assert len(set(found.members)) == 2
        if case.kind not in ("divergent barrier", "scratch overflow", "integer overflow", "assertion"):
            assert found.view is not None and found.index is not None


@pytest.mark.parametrize("case", GALLERY, ids=ids)
def test_a_corrected_kernel_is_not_accused(case):
    report = pk.check(case.policy, case.corrected, *case.args(), seeds=SEEDS)
    assert report.ok, str(report)


def test_the_gallery_is_large():
    assert len({case.broken.name for case in GALLERY}) >= 25


def test_the_callers_arrays_stay():
    for case in GALLERY:
        args = case.args()
        before = [np.array(a, copy=True) if isinstance(a, np.ndarray) else a for a in args]
        pk.check(case.policy, case.broken, *args, seeds=[0], team_sizes=[1])
        for was, now in zip(before, args):
            if isinstance(now, np.ndarray):
                np.testing.assert_array_equal(was, now)
