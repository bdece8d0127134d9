"""Test the merging of components to populations, and their names."""

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

import portable as pk
from portable.models.mixture.__main__ import main
from portable.models.mixture import DirichletMixture, cytometry
from portable.models.mixture.blocks import Components, Points
from portable.models.mixture.cytometry.signatures import signatures, thresholds
from portable.models.mixture.fitting import agreement

from . import reference
from .panels import fitted, simulated
from .problems import draw, factors_of, random_mixture


def groups_apart(X, weights, means, covariances, groups, pairs, counts=1.0):
    """Compute the entropies of pairs of groups, and their probabilities, by NumPy."""
    r = reference.responsibilities(X, weights, means, covariances)
    R = np.stack([r[:, group].sum(axis=1) for group in groups], axis=1) * np.reshape(counts, (-1, 1))
    a, b = R[:, pairs[:, 0]], R[:, pairs[:, 1]]
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.nan_to_num(a * np.log((a + b) / a)) + np.nan_to_num(b * np.log((a + b) / b))
    return np.stack([each.sum(axis=0), a.sum(axis=0), b.sum(axis=0)], axis=1)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("weighted", [False, True])
def test_entropies_of_groups_agree_with_numpy(space, dtype, weighted):
    n = 40 if space == "checked" else 5000
    weights, means, covariances = random_mixture(5, 2)
    means[4] += 1e3  # no point is there
    X = draw(n, weights[:4] / weights[:4].sum(), means[:4], covariances[:4]).astype(dtype)
    counts = default_rng(3).integers(0, 4, n).astype(float) if weighted else None
    points = Points(X, 5, space, X.mean(axis=0, dtype=float), False, weights=counts)
    groups, pairs = [(0, 2), (1,), (3, 4)], np.array([[0, 1], [0, 2], [2, 1]])
    got = points.group_entropies(Components(np.log(weights), means, factors_of(covariances)), groups, pairs)
    wanted = groups_apart(
        X.astype(float), weights, means, covariances, groups, pairs, 1.0 if counts is None else counts
    )
    # float32: l_ij has an error of some units in the last place of its terms, here up to 1e2 * 2^-24
    assert_allclose(got, wanted, rtol=1e-10 if dtype == np.float64 else 1e-4)


WEIGHTS = np.array([0.4, 0.2, 0.2, 0.2, 0.0])
MEANS = np.array(
    [[0.0, 0.0], [1.4, 0.0], [2.8, 0.0], [9.0, 0.0], [9.5, 0.5]]
)  # a chain of three, one apart, one idle


def chain(kind="full", space="serial"):
    """Return a mixture with these components, of covariance 1, and points of it with the component of
    each."""
    random = default_rng(1)
    own = random.choice(5, 2000, p=WEIGHTS)
    X = MEANS[own] + random.normal(size=(2000, 2))
    model = DirichletMixture(5, covariance=kind, random_state=0, space=space, max_iter=1, tol=-1.0).fit(
        X[:200]
    )
    one = {
        "full": np.tile(np.eye(2), (5, 1, 1)),
        "tied": np.eye(2),
        "diag": np.ones((5, 2)),
        "spherical": np.ones(5),
    }[kind]
    model.weights_, model.means_, model.covariances_, model.precisions_cholesky_ = WEIGHTS, MEANS, one, one
    return model, X, own


@pytest.mark.parametrize("method", ["entropy", "modes"])
@pytest.mark.parametrize("kind", "full diag tied spherical".split())
def test_what_overlaps_is_one_population(method, kind):
    """The chain has one mode, and no gap between its cells; the idle component joins its neighbour."""
    model, X, own = chain(kind)
    members, joins = cytometry.merge(model, X, method)
    assert members.tolist() == [0, 0, 0, 1, 1] and len(joins) == (2 if method == "entropy" else 0)
    assert agreement(members[model.predict(X)], members[own]) > 0.99


def test_a_component_without_cells_joins_the_population_at_its_mean():
    """It has a share, but is so far away that no cell belongs to it."""
    model, X, _ = chain()
    model.weights_, model.means_ = WEIGHTS + [0.0, 0.0, 0.0, 0.0, 1e-3], MEANS.copy()
    model.means_[4] = 99.0 * (MEANS[3] - MEANS[0])
    members, _ = cytometry.merge(model, X)
    assert members.tolist() == [0, 0, 0, 1, 1]


def test_joins_are_made_in_the_order_of_uncertainty():
    model, X, _ = chain()
    members, joins = cytometry.merge(model, X, n_populations=1)
    assert members.tolist() == [0] * 5 and [join.n_groups for join in joins] == [3, 2, 1]
    assert [sorted(sum(join.components, ())) for join in joins][1:] == [[0, 1, 2], [0, 1, 2, 3]]
    assert 1.0 > joins[0].uncertainty > 0.25 > 0.05 > joins[2].uncertainty > 0.0
    groups, pairs = [(0,), (1,), (2,), (3,)], np.array([[0, 1], [1, 2]])
    both, one, other = groups_apart(
        X, WEIGHTS + 1e-300, MEANS, np.tile(np.eye(2), (5, 1, 1)), groups, pairs
    ).T
    wanted = both / (one * np.log((one + other) / one) + other * np.log((one + other) / other))
    assert joins[0].uncertainty == pytest.approx(wanted.max(), rel=1e-10)


def test_a_number_of_populations_that_is_asked_for():
    model, X, _ = chain()
    assert cytometry.merge(model, X, n_populations=3)[0].max() == 2
    none, joins = cytometry.merge(model, X, "none")
    assert none.tolist() == [0, 1, 2, 3, 3] and not joins  # by size; equal ones in the components' order


@pytest.mark.parametrize("options", [{}, {"method": "modes"}, {"method": "none"}, {"n_populations": 3}])
def test_some_cells_are_no_population(options):
    """Twelve cells far away, which have a separate component, are assigned to the others."""
    model, X, _ = chain()
    model.weights_ = np.array([0.3, 0.3, 0.38, 0.02, 0.0])
    X = np.vstack([X[:1200], X[:12] * 0.0 + MEANS[3]])
    X = X[model.predict(X) != 3]
    X = np.vstack([X, np.tile(MEANS[3], (12, 1))])
    members, _ = cytometry.merge(model, X, **options)
    assert np.bincount(members[model.predict(X)]).min() >= 20
    members, _ = cytometry.merge(model, X, **options, least_cells=12)
    assert np.bincount(members[model.predict(X)]).min() == 12


def test_two_cells_are_one_population():
    """The largest group is a population, however small."""
    rng = default_rng(0)
    for n in (2, 3, 15, 200):
        X = rng.normal([100.0, 70.0], [20.0, 50.0], (n, 2))
        model = DirichletMixture(5, random_state=0).fit(X)
        members, _ = cytometry.merge(model, X)
        assert (members == 0).all(), n


def test_a_join_counts_what_places_leave_of_the_entropy():
    """Components at the same place are indistinguishable, whatever their shares; distant ones are
    separate."""
    model, X, _ = chain()
    model.weights_, model.means_ = (
        np.array([0.9, 0.05, 0.05, 0.0, 0.0]),
        MEANS * 0.0 + np.eye(5)[2, :, None] * 50.0,
    )
    _, joins = cytometry.merge(model, np.vstack([X[:400], X[:21] + 50.0]), n_populations=1)
    assert joins[0].components == ((0,), (1,)) and joins[0].uncertainty == pytest.approx(1.0, rel=1e-12)
    assert joins[1].uncertainty == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"method": "shape"}, "method is 'shape'"),
        ({"n_populations": 0}, "n_populations is 0"),
        ({"method": "modes", "n_populations": 2}, "n_populations is 2; only method='entropy'"),
    ],
)
def test_merges_that_are_none(options, words):
    model, X, _ = chain()
    with pytest.raises(pk.InputError, match=words):
        cytometry.merge(model, X, **options)
    with pytest.raises(pk.DTypeError, match="model must be mixture.DirichletMixture, got int"):
        cytometry.merge(3, X)


def test_signatures_name_the_markers_that_part_populations():
    medians = np.array([[0.0, 5.0, 1.0], [4.0, 5.2, 1.1], [4.2, 0.0, 1.0], [4.1, 5.1, 1.2]])
    deviations = np.full((4, 3), 0.4)
    limits = thresholds(medians, deviations)
    assert_allclose(limits[:2], [2.0, 2.5])
    assert np.isnan(limits[2])
    short, whole = signatures(medians, deviations, ("CD3", "CD4", "CD8"))
    assert short == ["CD4+", "CD3+ CD4+ (1)", "CD3+", "CD3+ CD4+ (2)"]
    assert whole == ["CD3- CD4+", "CD3+ CD4+", "CD3+ CD4-", "CD3+ CD4+"]
    assert signatures(medians[:1], deviations[:1], ("CD3", "CD4", "CD8")) == (["all low"], [""])


def test_simulated_populations_are_found_in_both_samples():
    samples, populations = simulated()
    found = fitted()
    for sample, own in zip(samples, populations):
        labels = found.predict(sample)
        used = labels.population >= 0
        assert agreement(labels.population[used], own[used]) > 0.9
        assert (labels.population[~used] == -1).all() and labels.n_left_out == (
            sample.X[:, :-1] >= 262143.0
        ).any(axis=1).sum()
    assert found.cells.sum() == sum((found.predict(sample).population >= 0).sum() for sample in samples)
    assert (np.diff(found.cells) <= 0).sum() >= found.n_populations - 2


def test_populations_of_other_merges():
    samples, _ = simulated()
    two = fitted().merged(samples, "entropy", 2)
    assert two.n_populations == 2 and two.model is fitted().model and len(two.names) == 2
    whole, parts = two.predict(samples[0]).population, fitted().predict(samples[0]).population
    table = np.unique(np.stack([whole, parts]), axis=1)
    assert (
        table.shape[1] <= fitted().n_populations + 2
    )  # except for cells on the edge each part is in one of the two


def test_equal_weight_for_each_sample():
    samples, _ = simulated()
    few = cytometry.fit(samples, 6, cells_per_sample=200, rare=False, max_iter=20)
    assert few.cells.sum() == 400 and few.predict(samples[0]).counts.sum() > 450


def test_rare_populations_are_looked_for():
    """The smallest of three populations has 40 of 4,000 cells, and only two components were offered."""
    random = default_rng(1)
    own = np.repeat([0, 1, 2], [2000, 1960, 40])
    X = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])[own] + random.normal(size=(4000, 2))
    sample = cytometry.Sample(X, ["A", "B"], limits=[np.inf] * 2)
    for rare, number in ((False, 2), (True, 3)):
        panel = cytometry.Panel.of([sample], transform="none")
        found = cytometry.fit([sample], 2, panel=panel, rare=rare)
        assert found.n_populations == number
    assert_array_equal(found.predict(sample).population == 2, own == 2)


@pytest.mark.parametrize("n_cells", [2, 3, 5, 9])
def test_few_cells_are_one_population(n_cells):
    """There are fewer cells than components."""
    X = default_rng(n_cells).normal(100.0, 20.0, (n_cells, 2))
    sample = cytometry.Sample(X, ("FL1", "FL2"))
    for method in ("entropy", "modes", "none"):
        found = cytometry.fit([sample], method=method)
        assert found.cells.sum() == n_cells and found.members.min() == 0
        assert found.predict(sample).counts.sum() == n_cells and np.isfinite(found.medians).all()


def test_two_cells_from_end_to_end(tmp_path, told):
    """A gate or an empty well leaves a sample of two cells."""
    (tmp_path / "two.csv").write_text("FL1,FL2\n1.5,2.5\n2.5,3\n")
    assert main(f"fit {tmp_path}/two.csv --space serial --out {tmp_path}/out".split()) == 0
    assert "2 cells" in told.out and (tmp_path / "out" / "marginals.png").exists()
