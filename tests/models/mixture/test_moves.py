"""Test starts and moves: the right number of components, the bound that ranks moves, entropies and children
compared with NumPy, k-means++."""

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn import metrics

from portable.models.mixture import covariance, starts, DirichletMixture, Prior
from portable.models.mixture.blocks import Components, Points
from portable.models.mixture.em_run import Climb
from portable.models.mixture.fitting import agreement
from portable.models.mixture.moves import Moves, _State
from portable.models.mixture.prior import WithoutPrior, WithPrior
from portable.models.mixture.rows import Rows
from portable.models.mixture.search_kernels import BLOCK
from portable.models.mixture.starts import Few, typical

from . import reference
from .problems import draw, factors_of, random_mixture


def clean_clusters(n, separation, seed):
    """Draw three round clusters of deviation 1 on a triangle."""
    centres = separation * np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])
    return draw(n, np.array([0.5, 0.3, 0.2]), centres, np.tile(np.eye(2), (3, 1, 1)), seed)


def assert_marked(model):
    """Check that the objective never falls, and that each move is an entry that exceeds the one before by its
    gain.
    """
    history = model.objective_history_
    assert np.diff(history).min(initial=0.0) >= -1e-11 * np.abs(history).max()
    for move in model.moves_:
        assert move.gain > 0.0
        assert history[move.entry] - history[move.entry - 1] == pytest.approx(move.gain, rel=1e-6)


@pytest.mark.parametrize("separation", [6.0, 8.0])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_three_clean_clusters_come_out_of_ten_components(separation, seed):
    """The objective is at least that of the truth, which EM without moves missed by about 60 in each of
    these, with five to ten components."""
    X = clean_clusters(3000, separation, seed)
    model = DirichletMixture(10, random_state=seed).fit(X)
    assert_marked(model)
    assert model.converged_ and model.n_active_ == 3 and (model.weights_ > 0.01).sum() == 3
    means = np.append(
        separation * np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]]),
        np.tile(X.mean(axis=0), (7, 1)),
        axis=0,
    )
    first = {
        "means_init": means,
        "weights_init": np.append([0.5, 0.3, 0.2], np.full(7, 1e-9)) / (1.0 + 7e-9),
        "covariances_init": np.tile(np.eye(2), (10, 1, 1)),
    }
    truth = DirichletMixture(10, prior=model.prior_, moves=False, **first).fit(X)
    assert model.objective_history_[-1] >= truth.objective_history_[-1] - 0.1


@pytest.mark.parametrize("seed", [3, 4, 20, 21, 23])
def test_few_points_are_no_more_clusters_than_many(seed):
    """Without moves each of these kept six components: the prior was as narrow as EM's parts of clusters, and
    no single merge had a gain."""
    model = DirichletMixture(6, random_state=seed).fit(clean_clusters(400, 6.0, seed))
    assert_marked(model)
    assert model.n_active_ == 3
    assert_allclose(np.linalg.slogdet(model.prior_.scale)[1], 0.0, atol=0.5)  # as wide as the clusters


def test_a_component_on_two_clusters_is_split(space):
    if space == "checked":
        pytest.skip("too many operations for plain Python")
    n = 600
    X = np.append(
        draw(n, np.array([0.5, 0.5]), np.array([[-5.0, 0.0], [5.0, 0.0]]), np.tile(np.eye(2), (2, 1, 1))),
        draw(n, np.array([1.0]), np.array([[0.0, 40.0]]), np.eye(2)[None]),
        axis=0,
    )
    first = {
        "means_init": [[0.0, 0.0], [0.0, 40.0], [0.0, 20.0]],
        "covariances_init": np.tile(np.diag([25.0, 1.0]), (3, 1, 1)),
        "weights_init": [0.5, 0.5 - 1e-9, 1e-9],
    }
    prior = Prior(scale=np.eye(2))
    alone = DirichletMixture(3, prior=prior, moves=False, space=space, **first).fit(X)
    model = DirichletMixture(3, prior=prior, space=space, **first).fit(X)
    assert alone.n_active_ == 2 and model.n_active_ == 3
    assert "split" in [move.kind for move in model.moves_]
    assert_marked(model)


@pytest.mark.parametrize("kind", covariance.KINDS)
def test_without_a_prior_two_are_merged_and_a_third_is_split(kind):
    """Two components are on one cluster and one is on two: EM cannot leave this state."""
    centres = np.array([[0.0, 0.0], [30.0, 0.0], [42.0, 0.0]])
    X = draw(1500, np.full(3, 1.0 / 3.0), centres, np.tile(np.eye(2), (3, 1, 1)))
    first = {"means_init": [[-1.0, 0.0], [1.0, 0.0], [36.0, 0.0]]}
    models = [
        DirichletMixture(3, prior=None, covariance=kind, moves=moves, **first).fit(X)
        for moves in (False, True)
    ]
    assert [move.kind for move in models[1].moves_][:1] == ["merge and split"]
    assert models[1].objective_history_[-1] > models[0].objective_history_[-1] + 100.0
    assert_allclose(np.sort(models[1].means_[:, 0]), centres[:, 0], atol=0.3)
    assert_marked(models[1])


def test_several_starts_are_compared():
    X = clean_clusters(1000, 7.0, 4)
    model = DirichletMixture(6, n_init=3, random_state=0).fit(X)
    assert len(model.starts_) == 3 and {start.n_active for start in model.starts_} == {3}
    assert (
        max(start.agreement for start in model.starts_) == 1.0
        and min(start.agreement for start in model.starts_) > 0.98
    )
    assert_marked(model)


def test_many_points_start_from_some_of_them():
    X = clean_clusters(30_000, 6.0, 5)
    model = DirichletMixture(10, random_state=0, space="threads").fit(X)
    assert model.n_active_ == 3 and model.converged_
    assert_marked(model)


def test_agreement_is_the_adjusted_rand_index():
    random = default_rng(1)
    for k in (1, 2, 5):
        labels, others = random.integers(0, k, 200), random.integers(0, 3, 200)
        others[:100] = labels[:100]
        assert agreement(labels, others) == pytest.approx(
            metrics.adjusted_rand_score(labels, others), abs=1e-12
        )
    assert agreement(labels, labels) == 1.0


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("weighted", [False, True])
def test_entropies_of_pairs_agree_with_numpy(space, dtype, weighted):
    n = 40 if space == "checked" else 5000
    weights, means, covariances = random_mixture(3, 2)
    X = draw(n, weights, means, covariances).astype(dtype)
    counts = default_rng(3).integers(0, 4, n).astype(float) if weighted else None
    points = Points(X, 3, space, X.mean(axis=0, dtype=float), False, weights=counts)
    pairs = np.array([[0, 1], [0, 2], [1, 2]])
    got = points.pair_entropies(Components(np.log(weights), means, factors_of(covariances)), pairs)
    r = reference.responsibilities(X.astype(float), weights, means, covariances)
    a, b = r[:, pairs[:, 0]], r[:, pairs[:, 1]]
    each = (a + b) * np.log(a + b) - a * np.log(a) - b * np.log(b)
    assert_allclose(
        got,
        (each if counts is None else counts[:, None] * each).sum(axis=0),
        rtol=1e-10 if dtype == np.float64 else 1e-4,
    )


def bound(X, r, kind, reg_covar=0.0):
    """Return sum_ij r_ij (log pi_j N_ij - log r_ij) at the best parameters for r."""
    n = r.sum(axis=0)
    means = (r.T @ X) / n[:, None]
    away = X[:, None] - means
    scatter = np.einsum("ij,ija,ijb->jab", r, away, away)
    p = X.shape[1]
    full = {
        "full": lambda: scatter / n[:, None, None],
        "tied": lambda: np.tile(scatter.sum(axis=0) / n.sum(), (len(n), 1, 1)),
        "diag": lambda: scatter * np.eye(p) / n[:, None, None],
        "spherical": lambda: (np.trace(scatter, axis1=1, axis2=2) / (p * n))[:, None, None] * np.eye(p),
    }[kind]()
    terms = reference.log_joint(X, np.log(n / n.sum()), means, full)
    return (r * (terms - np.log(np.where(r > 0.0, r, 1.0)))).sum()


@pytest.mark.parametrize("kind", covariance.KINDS)
def test_gains_are_those_of_the_bound(kind):
    """The gain of a merge is exact; that of a split with known shares is its negative."""
    weights, means, covariances = random_mixture(4, 3)
    X = draw(400, weights, means, covariances)
    c = {
        "full": covariances,
        "tied": covariances.mean(axis=0),
        "diag": np.diagonal(covariances, axis1=1, axis2=2).copy(),
        "spherical": np.trace(covariances, axis1=1, axis2=2) / 3,
    }[kind]
    points = Points(X, 4, "serial", X.mean(axis=0), covariance.is_diagonal(kind))

    def make(weights):
        return WithoutPrior(0.0, kind, weights)

    climb = Climb(points, make, kind, weights, means, c)
    climb.run(0, 0.0)
    state = _State(climb)
    r = points.responsibilities(climb.components)
    pairs = np.array([[0, 1], [1, 3]])
    got = state.merge_gains(pairs) - points.pair_entropies(climb.components, pairs)
    for (a, b), gain in zip(pairs, got):
        merged = np.delete(r, b, axis=1)
        merged[:, a] = r[:, a] + r[:, b]
        assert gain == pytest.approx(bound(X, merged, kind) - bound(X, r, kind), rel=1e-9)


@pytest.mark.parametrize("kind", covariance.KINDS)
def test_children_raise_the_bound(space, kind):
    """Splitting a cluster of two halves has a gain; the prior makes the split of a single cluster a loss."""
    n = 10 if space == "checked" else 400
    random = default_rng(6)
    X = np.append(
        random.normal(size=(n, 2)),
        random.normal(size=(n, 2)) + np.where(np.arange(n)[:, None] % 2, [20.0, 4.0], [20.0, -4.0]),
        axis=0,
    )
    prior = Prior(scale=np.eye(2)).for_data(X.mean(axis=0), X.var(axis=0))
    points = Points(X, 3, space, X.mean(axis=0), covariance.is_diagonal(kind))

    def make(weights):
        return WithPrior(prior, kind, weights)

    c = {
        "full": np.tile(np.eye(2), (3, 1, 1)),
        "tied": np.eye(2),
        "diag": np.ones((3, 2)),
        "spherical": np.ones(3),
    }[kind]
    climb = Climb(
        points,
        make,
        kind,
        np.array([0.5, 0.5 - 1e-9, 1e-9]),
        np.array([[0.0, 0.0], [20.0, 0.0], [10.0, 0.0]]),
        c,
    )
    climb.run(1, 0.0)
    moves = Moves()
    (gain, j, children), *others = moves._splits(_State(climb))
    assert j == 1 and gain > 0.25 * n
    assert space == "checked" or all(gain < 0.0 for gain, *_ in others)
    assert_allclose(sorted(xbar[1] for _, xbar, _ in children), [-4.0, 4.0], atol=1.0)
    if space == "checked":
        return
    better, move = moves.better(climb)
    assert move.kind == "split" and better.history[-1] > climb.history[-1] + 0.2 * n


@pytest.mark.parametrize("how", ["k-means++", "random"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_starts_are_the_same_on_every_space_and_in_every_order(space, how, dtype):
    X = default_rng(1).normal(size=(60, 3)).astype(dtype)
    order = default_rng(2).permutation(60)
    repeated = np.append(X, X[:7], axis=0)
    chosen = [
        Few(Rows(points, where, BLOCK), weights, 9, default_rng(5)).means(9, np.ones(3), how, default_rng(7))
        for where, points, weights in [
            ("serial", X, None),
            (space, X, None),
            (space, X[order], None),
            (space, repeated, None),
            (space, np.append(X, 2.0 * X, axis=0), np.repeat([1.0, 0.0], 60)),
        ]
    ]
    for other in chosen[1:]:
        assert_array_equal(other, chosen[0])
    assert len(np.unique(chosen[0], axis=0)) == 9


def test_a_start_is_sought_among_one_point_of_each_stretch(monkeypatch):
    monkeypatch.setattr(starts, "_FEW", 70)
    for name in ("_FEW_A_COMPONENT", "_FEW_A_NUMBER"):
        monkeypatch.setattr(starts, name, 0)
    X, weights = np.arange(100.0)[:, None], np.arange(100.0) + 1.0
    taken = []
    for seed in range(60):
        few = Few(Rows(X, "serial", BLOCK), weights, 3, default_rng(seed))
        taken.append(few.X[:, 0])
        assert_array_equal(few.weights, few.X[:, 0] + 1.0)
    ends = np.arange(71) * 100 // 70
    assert all(((ends[:-1] <= some) & (some < ends[1:])).all() for some in taken)
    assert len(np.unique(taken)) == 100  # any point of a stretch may be chosen


@pytest.mark.parametrize("how", ["k-means++", "random"])
def test_more_components_than_distinct_points(space, how):
    """All distinct points come first; the others are drawn among all points with weight."""
    X = np.repeat([[0.0], [1.0], [3.0]], 5, axis=0)
    weights = np.ones(15)
    weights[10:] = 0.0
    few = Few(Rows(X, space, BLOCK), weights, 6, default_rng(1))
    found = few.means(6, np.ones(1), how, default_rng(2))[:, 0]
    assert set(found[:2]) == {0.0, 1.0} == set(found)


def test_first_means_are_drawn_by_squared_distance():
    """With three places, after the first one of the two others is drawn in proportion to the squares of their
    distances; chi-squared, 1 in 1000."""
    X = np.array([[0.0], [1.0], [3.0]])
    few, random = Few(Rows(X, "serial", BLOCK), None, 2, default_rng(1)), default_rng(3)
    pairs = [tuple(few.means(2, np.ones(1), "k-means++", random)[:, 0]) for _ in range(900)]
    wanted = {
        (0.0, 1.0): 1 / 10,
        (0.0, 3.0): 9 / 10,
        (1.0, 0.0): 1 / 5,
        (1.0, 3.0): 4 / 5,
        (3.0, 0.0): 9 / 13,
        (3.0, 1.0): 4 / 13,
    }
    counts = [pairs.count(pair) for pair in wanted]
    assert (
        sum(counts) == 900
        and stats.chisquare(counts, [300.0 * share for share in wanted.values()]).pvalue > 1e-3
    )


def test_typical_widths_are_those_of_narrow_components():
    covariances = np.stack([np.eye(2), 4.0 * np.eye(2)])
    assert_allclose(typical("full", np.array([1.0, 1.0]), covariances, np.ones(2)), 1.6 * np.eye(2))
    assert_allclose(
        typical("spherical", np.array([1.0, 1.0]), np.array([1.0, 4.0]), np.ones(2)), 1.6 * np.eye(2)
    )


def test_small_clusters_in_wide_data_keep_their_width():
    """Their distances make the data's variances 10,000 times their own: a prior of that width would enlarge
    them a hundredfold."""
    centres = 200.0 * default_rng(1).normal(size=(6, 2))
    X = draw(1200, np.full(6, 1.0 / 6.0), centres, np.tile(np.eye(2), (6, 1, 1)))
    model = DirichletMixture(10, random_state=0).fit(X)
    assert model.n_active_ == 6
    variances = np.diagonal(model.covariances_[:6], axis1=1, axis2=2)
    assert 0.7 < variances.min() and variances.max() < 1.5
