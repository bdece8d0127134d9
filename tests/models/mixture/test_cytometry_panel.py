"""Test the conversion of an instrument's file to points: compensation, scales, omitted cells."""

import math

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

import portable as pk
from portable.models.mixture import cytometry
from portable.models.mixture.cytometry import Panel, Sample, Scale

from ...refusals import refusals
from .panels import CHANNELS, MARKERS, raw_cells


def sample(X=None, **options):
    return Sample(raw_cells() if X is None else X, CHANNELS, MARKERS, **options)


def test_colours_become_standardised_points():
    X = raw_cells()
    panel = Panel.of([sample(X)], cofactor=100.0)
    points, good = panel.points(sample(X))
    assert (
        panel.names == ("KI67", "R660-A")
        and np.flatnonzero(~good).tolist() == [7, 11]
        and points.shape == (300, 2)
    )
    assert_allclose(panel.intensities(points[good]), X[good][:, [1, 3]], rtol=1e-12)
    assert_allclose(points[good].mean(axis=0), 0.0, atol=1e-12)
    assert_allclose(points[good].std(axis=0), 1.0, rtol=1e-12)


def test_compensation_takes_back_what_spilled_over():
    """The true light of cells is mixed by the matrix that the sample carries."""
    random = default_rng(1)
    light, spill = (
        random.uniform(0.0, 1e4, (50, 3)),
        np.array([[1.0, 0.1, 0.0], [0.02, 1.0, 0.3], [0.0, 0.05, 1.0]]),
    )
    X = np.column_stack([np.full(50, 5e4), light @ spill[:, [1, 0, 2]], np.arange(50)])
    mixed = Sample(X, "FSC-A B A C Time".split(), spillover=(["A", "B", "C"], spill))
    panel = Panel.of([mixed], channels=["A", "C"])
    assert_allclose(panel.values(mixed)[0], light[:, [0, 2]], rtol=1e-10)
    assert_array_equal(Panel.of([mixed], channels=["A"], compensation="none").values(mixed)[0][:, 0], X[:, 2])
    own = Panel.of([mixed], channels=["A"], compensation=(["A", "B"], [[1.0, 0.1], [0.0, 1.0]]))
    assert_allclose(own.values(mixed)[0][:, 0], X[:, 2], rtol=1e-12)
    from flowutils.compensate import compensate

    assert_allclose(panel.values(mixed)[0], compensate(X, spill, [2, 1, 3])[:, [2, 3]], rtol=1e-12)


GATING_ML = {  # Gating-ML 2.0, examples of the logicle scale with T = 1000, W = 1, M = 4, A = 0
    -10.0: 0.067574,
    -5.0: 0.147986,
    -1.0: 0.228752,
    0.0: 0.25,
    0.3: 0.256384,
    1.0: 0.271248,
    3.0: 0.312897,
    10.0: 0.432426,
    100.0: 0.739548,
    1000.0: 1.0,
}


def test_logicle_scales_have_the_published_values():
    scale = Scale("logicle", (1000.0, 1.0, 4.0))
    x = np.array(list(GATING_ML))
    assert_allclose(scale.apply(x), list(GATING_ML.values()), atol=1e-6)
    assert_allclose(scale.invert(scale.apply(x)), x, atol=1e-9)


def test_a_logicle_scale_makes_room_for_negative_values():
    """W is computed from the fifth percentile of the negative values, T from the range (Parks, Roederer and
    Moore 2006).
    """
    X = raw_cells().astype(float)
    X[:, 1] = default_rng(2).normal(0.0, 200.0, 300)
    panel = Panel.of([sample(X)], transform="logicle")
    good = panel.values(sample(X))[1]
    below = X[good & (X[:, 1] < 0.0), 1]
    t, w, m = panel.scales[0].numbers
    assert (t, m) == (262144.0, 4.5) and w == pytest.approx(
        (m - math.log10(t / -np.quantile(below, 0.05))) / 2.0
    )
    assert panel.scales[1].numbers == (262144.0, 0.5, 4.5)


def test_scatter_is_linear_and_a_mass_cytometer_has_its_own_cofactor():
    panel = Panel.of([sample()], channels=["FSC-A", "KI67"])
    assert [scale.kind for scale in panel.scales] == ["none", "arcsinh"] and panel.scales[1].numbers == (
        150.0,
    )
    X = default_rng(1).exponential(20.0, (50, 2))
    mass = Panel.of([Sample(X, ["Yb172Di", "Er168Di"])])
    assert [scale.numbers for scale in mass.scales] == [(5.0,), (5.0,)] and mass.points(
        Sample(X, ["Yb172Di", "Er168Di"])
    )[1].all()
    spectral = Panel.of([Sample(1e4 * X, ["V1-A", "V2-A"], limits=[2.0**22 - 1] * 2)])
    assert spectral.scales[0].numbers == (2400.0,)


def test_what_is_left_out():
    """Cells at the limit of a detector are omitted, and those with NaN; the clock has no limit."""
    X = raw_cells().astype(float)
    X[3, 2], X[4, 1], X[5, 3] = 1e9, np.nan, np.inf
    panel = Panel.of([sample(X)])
    assert np.flatnonzero(~panel.points(sample(X))[1]).tolist() == [4, 5, 7, 11]
    assert np.isfinite(panel.points(sample(X))[0]).all()
    lower = Panel.of([sample(X)], saturation=float(np.sort(X[:, 0])[-10]))
    assert (~lower.points(sample(X))[1]).sum() >= 10
    assert (
        Sample(X / 1000.0, CHANNELS).limits[0] == 2.0**10 - 1.0
        and Sample(X * 10.0, CHANNELS).limits[0] == 2.0**22 - 1.0
    )


def test_samples_are_matched_by_channel():
    X = raw_cells()
    panel = Panel.of([sample(X)])
    turned = Sample(
        np.column_stack([np.ones(300), X[:, ::-1]]), ["extra", *CHANNELS[::-1]], limits=np.full(5, 262143.0)
    )
    assert_array_equal(panel.points(turned)[0], panel.points(sample(X))[0])
    with pytest.raises(pk.InputError, match="other lacks R660-A; it has FSC-A, B515-A, Time"):
        panel.points(Sample(X[:, :3], CHANNELS[:3], name="other"))


def compensated(*names):
    return Sample(
        raw_cells(), CHANNELS, spillover=(names, np.eye(len(names)) + 0.1 * np.tri(len(names), k=-1))
    )


test_panels_that_cannot_be = refusals(
    [
        ([sample()], {"cofactor": 0.0}, "cofactor is 0.0"),
        ([sample()], {"saturation": -1.0}, "100% of the cells reach -1"),
        ([sample()], {"saturation": 15_000.0}, "of the cells reach 15000 in FSC-A.* give saturation="),
        ([Sample(raw_cells(), "FSC-A FSC-H Time SSC-A".split())], {}, "none of them is a colour"),
        ([sample()], {"channels": ["CD3"]}, "no channel 'CD3'"),
        ([sample()], {"transform": "log"}, "transform is 'log'"),
        ([sample()], {"compensation": "spill"}, "compensation is 'spill'"),
        ([sample()], {"compensation": 3}, "compensation is 3"),
        ([sample()], {"compensation": (["CD3"], [[1.0]])}, "sample lacks CD3 of the spillover matrix"),
        (
            [compensated("B515-A", "R660-A"), sample(name="plain")],
            {},
            "plain has no spillover matrix, sample has one",
        ),
        ([compensated("B515-A", "CD3")], {}, "sample lacks CD3 of the spillover matrix"),
        (
            [sample(np.where(np.arange(4) == 3, 7.0, raw_cells()), limits=np.full(4, np.inf))],
            {},
            "all cells have the same R660-A",
        ),
        (
            [sample(np.full((9, 4), np.nan))],
            {},
            "no cell has a number in B515-A, R660-A; leave such channels",
        ),
        (
            [sample(np.where((np.arange(300)[:, None] + np.arange(4) // 2) % 2, np.nan, raw_cells()))],
            {},
            "every cell is saturated, or not a number",
        ),
        ([], {}, "samples is empty"),
        (sample(), {}, "samples is one cytometry.Sample"),
        ([raw_cells()], {}, "samples must hold cytometry.Sample"),
    ],
    lambda samples, options: Panel.of(samples, **options),
    error=pk.InputError,
)


def test_files_that_were_compensated_elsewhere_are_left_as_they_are():
    """Their channels have other names than those of the matrix."""
    exported = compensated("FITC-A", "PE-A")
    assert_array_equal(Panel.of([exported]).values(exported)[0], raw_cells()[:, [1, 3]])


def test_simulated_panels_are_as_asked():
    samples, populations = cytometry.simulate(
        seed=2, n_cells=4000, n_populations=6, n_markers=5, n_rare=2, rare=0.01, n_samples=2
    )
    assert [own.X.shape for own in samples] == [(4000, 8)] * 2 and samples[0].spillover[0] == samples[
        0
    ].channels[2:7]
    for own in populations:
        counts = np.bincount(own, minlength=6)
        assert counts[:4].min() > 4000 * 0.01 and np.abs(counts[4:] - 40).max() < 5 * math.sqrt(40)
    again = cytometry.simulate(
        seed=2, n_cells=4000, n_populations=6, n_markers=5, n_rare=2, rare=0.01, n_samples=2
    )
    assert again[0][1].X.tobytes() == samples[1].X.tobytes()
    for wrong in ({"n_markers": 2}, {"n_cells": 0}, {"n_rare": 12}, {"rare": 0.6}, {"n_populations": 0}):
        with pytest.raises(pk.InputError, match=next(iter(wrong))):
            cytometry.simulate(seed=1, **wrong)
