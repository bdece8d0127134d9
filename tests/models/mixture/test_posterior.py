"""Blocked Gibbs: the conditional draws, simulation-based calibration, the same draws on every space, labels."""

import numpy as np
import pytest

import portable as pk
from models.mixture import DirichletMixture, Prior, gibbs, reference
from models.mixture.blocks import Components, Points

from .problems import draw

stats = pytest.importorskip("scipy.stats")

# A false alarm of each statistical test: one in a thousand over all of its comparisons; seeds are fixed.
LEVEL = 1e-3


def test_inverse_wishart_factors_have_the_moments_of_scipy():
    scale, dof, n = np.array([[2.0, 0.5], [0.5, 1.0]]), 9.0, 40_000
    factors = gibbs.inverse_wishart_factors(np.full(n, dof), np.tile(scale, (n, 1, 1)), np.random.default_rng(1))
    assert (factors[:, 1, 0] == 0.0).all()
    drawn = np.linalg.inv(factors @ factors.transpose(0, 2, 1))
    law = stats.invwishart(dof, scale)
    errors = np.sqrt(law.var() / n)
    assert (np.abs(drawn.mean(axis=0) - law.mean()) < 4.5 * errors).all()  # three numbers: false alarm 2e-5
    assert stats.kstest(drawn[:, 0, 0], stats.invgamma((dof - 1.0) / 2.0, scale=1.0).cdf).pvalue > LEVEL


def test_assignments_follow_the_responsibilities(space):
    """One point many times: labels are draws from one distribution; chi-squared over 3 cells."""
    n = 200 if space == "checked" else 4000
    components = Components(np.log([0.5, 0.3, 0.2]), np.array([[0.0], [1.0], [-1.0]]), np.ones((3, 1, 1)))
    points = Points(np.full((n, 1), 0.3), 3, space, np.zeros(1), diagonal=False)
    assignments = gibbs.Assignments(points, seed=5)
    _, sums, _ = points.sweep(components, assignments.draw)
    weights = np.array([0.5, 0.3, 0.2]) * np.exp(-0.5 * (0.3 - np.array([0.0, 1.0, -1.0])) ** 2)
    assert sums[:, 0, 0].sum() == n
    assert stats.chisquare(sums[:, 0, 0], n * weights / weights.sum()).pvalue > LEVEL
    labels = np.concatenate([labels.to_numpy() for labels in assignments.labels])[:n]
    np.testing.assert_array_equal(np.bincount(labels, minlength=3), sums[:, 0, 0])
    np.testing.assert_array_equal(assignments.shared(assignments.labels), np.diag(sums[:, 0, 0]))


def simulate(prior, n, k, p, random):
    """Parameters from the prior and points from them: the mixture, alpha, X."""
    alpha = random.gamma(prior.shape) / prior.rate
    sticks = random.beta(1.0, alpha, k - 1)
    weights = np.append(sticks, 1.0) * np.append(1.0, np.cumprod(1.0 - sticks))
    factors = gibbs.inverse_wishart_factors(np.full(k, prior.dof), np.tile(prior.scale, (k, 1, 1)), random)
    roots = np.linalg.inv(factors).transpose(0, 2, 1)
    means = prior.mean + np.sqrt(prior.mean_scale) * np.einsum("jab,jb->ja", roots, random.standard_normal((k, p)))
    X = draw(n, weights / weights.sum(), means, roots @ roots.transpose(0, 2, 1), seed=random)
    return Components(np.log(weights), means, factors), alpha, X


def quantities(weights, means, covariances, alpha):
    """Numbers that do not depend on labels: alpha, the largest weight, the mixture's mean and its spread."""
    mean = np.einsum("sj,sja->sa", weights, means)
    inner = np.einsum("sj,sjaa->s", weights, covariances)
    outer = np.einsum("sj,sja->s", weights, (means - mean[:, None]) ** 2)
    return np.stack([alpha, weights.max(axis=1), mean[:, 0], inner + outer])


def test_simulation_based_calibration():
    """Ranks of true values among draws are uniform (Talts et al. 2018): 4 numbers, 80 data sets, 19 draws each."""
    n, k, p, n_draws = 25, 3, 2, 19
    prior = Prior(mean=np.zeros(p), mean_scale=5.0, dof=5.0, scale=np.eye(p), shape=3.0, rate=2.0)
    random = np.random.default_rng(11)
    ranks = []
    for trial in range(80):
        truth, alpha, X = simulate(prior, n, k, p, random)
        points = Points(X, k, "serial", np.zeros(p), diagonal=False)
        drawn = gibbs.sample(points, prior, truth, n_draws, 0, 6, seed=trial)
        roots = np.linalg.inv(truth.factors).transpose(0, 2, 1)
        true = quantities(np.exp(truth.log_weights)[None], truth.means[None], (roots @ roots.transpose(0, 2, 1))[None],
                          np.array([alpha]))
        ranks.append((quantities(drawn.weights, drawn.means, drawn.covariances, drawn.alpha) < true).sum(axis=1))
    for column in np.transpose(ranks):
        counts = np.bincount(column // 4, minlength=5)
        assert stats.chisquare(counts).pvalue > LEVEL / 4, counts


def test_same_draws_on_every_space(space):
    n = 40
    X = draw(n, np.array([0.6, 0.4]), np.array([[0.0, 0.0], [5.0, 5.0]]), np.tile(np.eye(2), (2, 1, 1)))
    found = []
    for where in (space, "serial"):
        model = DirichletMixture(3, random_state=0, max_iter=5, space="serial").fit(X)
        model.space = where
        found.append(model.sample_posterior(X, 3, n_burn=2, n_thin=2, seed=9))
    for name in ("weights", "means", "covariances", "alpha", "counts"):
        np.testing.assert_allclose(getattr(found[0], name), getattr(found[1], name), rtol=1e-9, atol=1e-12)
    assert found[0].counts.sum(axis=1).tolist() == [n] * 3


def test_posterior_of_two_far_clusters():
    """Labels stay with their clusters; weights are near the shares, within 4 posterior deviations."""
    X = draw(600, np.array([0.7, 0.3]), np.array([[0.0, 0.0], [9.0, 9.0]]), np.tile(np.eye(2), (2, 1, 1)))
    model = DirichletMixture(2, random_state=0, space="serial").fit(X)
    posterior = model.sample_posterior(X, 200, n_burn=20, seed=1)
    counts = np.bincount(model.predict(X), minlength=2)
    assert (posterior.counts == counts).all()
    near = np.array([X[model.predict(X) == j].mean(axis=0) for j in range(2)])
    deviation = posterior.means.std(axis=0)
    assert (np.abs(posterior.means.mean(axis=0) - near) < 4.0 * deviation).all()
    assert (np.abs(posterior.weights.mean(axis=0) - counts / 600) < 4.0 * posterior.weights.std(axis=0)).all()


def test_match_undoes_a_permutation():
    order = np.array([2, 0, 1])
    shared = np.zeros((3, 3), int)
    shared[order, np.arange(3)] = 10  # the draw's label order[b] is the reference's b
    np.testing.assert_array_equal(gibbs.match(shared + 1), order)


@pytest.mark.parametrize("options", [{"prior": None}, {"covariance": "diag"}])
def test_what_it_cannot_sample(options):
    X = draw(30, np.array([1.0]), np.zeros((1, 2)), np.eye(2)[None])
    model = DirichletMixture(1, space="serial", max_iter=2, **options).fit(X)
    with pytest.raises(pk.InputError, match="needs a prior and covariance='full'"):
        model.sample_posterior(X)


def test_wrong_numbers():
    X = draw(30, np.array([1.0]), np.zeros((1, 2)), np.eye(2)[None])
    model = DirichletMixture(1, space="serial", max_iter=2)
    with pytest.raises(pk.InputError, match="not fitted"):
        model.sample_posterior(X)
    model.fit(X)
    with pytest.raises(pk.InputError, match="n_draws is 0"):
        model.sample_posterior(X, 0)
    with pytest.raises(pk.InputError, match="seed is -1"):
        model.sample_posterior(X, seed=-1)


def test_log_likelihood_is_that_of_the_draw_itself(space):
    n = 30 if space == "checked" else 300
    X = draw(n, np.array([0.6, 0.4]), np.array([[0.0, 0.0], [5.0, 5.0]]), np.tile(np.eye(2), (2, 1, 1)))
    model = DirichletMixture(3, random_state=0, max_iter=5, tol=1e9, space="serial").fit(X)
    model.space = space
    posterior = model.sample_posterior(X, 3, n_burn=1, n_thin=2, seed=9)
    for weights, means, covariances, value in zip(posterior.weights, posterior.means, posterior.covariances, posterior.log_likelihood):
        terms = reference.log_joint(X, np.log(weights), means, covariances)
        assert value == pytest.approx(reference.log_sum_exp(terms).sum(), rel=1e-10)


def test_draws_are_kept_and_extended(tmp_path, monkeypatch):
    X = np.random.default_rng(1).normal(size=(300, 2)) + np.repeat([[0.0, 0.0], [6.0, 1.0], [0.0, 7.0]], 100, axis=0)
    model = DirichletMixture(4, max_iter=5, random_state=0, space="serial").fit(X)
    options = {"n_burn": 3, "n_thin": 2, "seed": 7}
    long = model.sample_posterior(X, 12, **options)
    monkeypatch.setattr("models.store.EVERY_S", 0.0)
    monkeypatch.setattr("models.store._SHARE", 0.0)
    sweeps, sweep = [], Points.sweep
    monkeypatch.setattr(Points, "sweep", lambda self, *args: (sweeps.append(1), sweep(self, *args))[1])

    def assert_same(n_draws, n_sweeps):
        sweeps.clear()
        found = model.sample_posterior(X, n_draws, **options, checkpoint=tmp_path / "draws")
        for name, column in vars(found).items():
            np.testing.assert_array_equal(column, getattr(long, name)[:n_draws])
        assert len(sweeps) == n_sweeps

    assert_same(4, 11)
    assert_same(4, 0)
    assert_same(12, 17)  # 16 sweeps more, and the first, for the labels
    assert_same(12, 0)
    assert_same(4, 0)
    (tmp_path / "draws" / "sweeps-000000000006.npz").write_bytes(b"PK")
    with pytest.warns(RuntimeWarning, match="sweeps-000000000006.npz' is damaged"):
        assert_same(12, 2)
    with pytest.raises(pk.InputError, match="belongs to another run: n_thin is 2 there, 3 here"):
        model.sample_posterior(X, 4, **options | {"n_thin": 3}, checkpoint=tmp_path / "draws")
