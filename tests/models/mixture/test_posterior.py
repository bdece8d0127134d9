"""Test blocked Gibbs: the conditional draws, simulation-based calibration, the same draws on every space,
labels."""

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import portable as pk
from portable.errors import InputError, ShapeError
from portable.models.mixture import conjugate, covariance, gibbs, DirichletMixture, Posterior, Prior
from portable.models.mixture.blocks import Components, Points
from portable.models.mixture.split_merge import SplitMerge

from . import reference
from .problems import draw


# A false alarm of each statistical test: one in a thousand over all of its comparisons; seeds are fixed.
LEVEL = 1e-3


def test_inverse_wishart_factors_have_the_moments_of_scipy():
    scale, dof, n = np.array([[2.0, 0.5], [0.5, 1.0]]), 9.0, 40_000
    factors = conjugate.inverse_wishart_factors(np.full(n, dof), np.tile(scale, (n, 1, 1)), default_rng(1))
    assert (factors[:, 1, 0] == 0.0).all()
    drawn = np.linalg.inv(factors @ factors.transpose(0, 2, 1))
    law = stats.invwishart(dof, scale)
    errors = np.sqrt(law.var() / n)
    assert (np.abs(drawn.mean(axis=0) - law.mean()) < 4.5 * errors).all()  # three numbers: false alarm 2e-5
    assert stats.kstest(drawn[:, 0, 0], stats.invgamma((dof - 1.0) / 2.0, scale=1.0).cdf).pvalue > LEVEL


def test_assignments_follow_the_responsibilities(space):
    """Draw labels of one point many times: chi-squared over 3 cells."""
    n = 200 if space == "checked" else 4000
    components = Components(np.log([0.5, 0.3, 0.2]), np.array([[0.0], [1.0], [-1.0]]), np.ones((3, 1, 1)))
    points = Points(np.full((n, 1), 0.3), 3, space, np.zeros(1), diagonal=False)
    assignments = gibbs.Assignments(points, seed=5)
    _, (counts, _, _) = assignments.draw(components, 0)
    weights = np.array([0.5, 0.3, 0.2]) * np.exp(-0.5 * (0.3 - np.array([0.0, 1.0, -1.0])) ** 2)
    assert counts.sum() == n
    assert stats.chisquare(counts, n * weights / weights.sum()).pvalue > LEVEL
    assert_array_equal(np.bincount(assignments.labels.to_numpy(), minlength=3), counts)
    assert_array_equal(assignments.shared(assignments.labels), np.diag(counts))


def inverse_gamma_variances(prior, shape, p, random):
    """Return the inverse Wishart's density restricted to diagonal matrices: powers -(nu + p + 1) / 2 of
    variances."""
    return 0.5 * np.diagonal(prior.scale) / random.gamma(0.5 * (prior.dof + p + 1.0) - 1.0, size=shape)


def simulate(kind, prior, n, k, p, random):
    """Draw parameters from the prior and points from them: weights, means, covariances in the kind's shape,
    alpha, X."""
    alpha = random.gamma(prior.shape) / prior.rate
    sticks = random.beta(1.0, alpha, k - 1)
    weights = np.append(sticks, 1.0) * np.append(1.0, np.cumprod(1.0 - sticks))
    if kind == "diag":
        covariances = inverse_gamma_variances(prior, (k, p), p, random)
        full = covariances[:, :, None] * np.eye(p)
    elif kind == "spherical":
        covariances = (
            0.5 * np.trace(prior.scale) / random.gamma(0.5 * p * (prior.dof + p + 1.0) - 1.0, size=k)
        )
        full = covariances[:, None, None] * np.eye(p)
    else:
        m = 1 if kind == "tied" else k
        law = stats.invwishart(prior.dof, prior.scale)
        full = law.rvs(m, random_state=random).reshape(m, p, p)
        covariances, full = (full[0], np.repeat(full, k, axis=0)) if kind == "tied" else (full, full)
    noise = np.einsum("jab,jb->ja", np.linalg.cholesky(full), random.standard_normal((k, p)))
    means = prior.mean + np.sqrt(prior.mean_scale) * noise
    return (
        weights,
        means,
        covariances,
        full,
        alpha,
        draw(n, weights / weights.sum(), means, full, seed=random),
    )


def quantities(weights, means, full, alpha):
    """Return numbers that do not depend on labels: alpha, the largest weight, the mixture's mean and its
    spread.
    """
    mean = np.einsum("sj,sja->sa", weights, means)
    inner = np.einsum("sj,sjaa->s", weights, full)
    outer = np.einsum("sj,sja->s", weights, (means - mean[:, None]) ** 2)
    return np.stack([alpha, weights.max(axis=1), mean[:, 0], inner + outer])


def in_full(kind, covariances, k, p):
    """Return draws of covariances as matrices, shape (n_draws, k, p, p)."""
    each = [covariance.for_each(kind, own, k, p) for own in covariances]
    return np.array([own[:, :, None] * np.eye(p) if covariance.is_diagonal(kind) else own for own in each])


# data sets, sweeps for each draw, proposals for each sweep: proposals take as long as ten sweeps
CALIBRATED = [
    ("full", 50, 6, 0),
    ("full", 25, 3, 1),
    ("tied", 25, 4, 0),
    ("diag", 25, 4, 0),
    ("spherical", 25, 4, 0),
]


@pytest.mark.parametrize("kind, trials, thin, n_moves", CALIBRATED)
def test_simulation_based_calibration(kind, trials, thin, n_moves):
    """Ranks of true values among draws are uniform (Talts et al. 2018): 4 numbers, 19 draws of each data
    set."""
    n, k, p, n_draws = 25, 3, 2, 19
    prior = Prior(
        mean=np.zeros(p),
        mean_scale=5.0,
        dof=5.0,
        scale=np.array([[1.0, 0.3], [0.3, 2.0]]),
        shape=3.0,
        rate=2.0,
    )
    random = default_rng(11)
    ranks = []
    for trial in range(trials):
        weights, means, covariances, full, alpha, X = simulate(kind, prior, n, k, p, random)
        points = Points(X, k, "serial", np.zeros(p), covariance.is_diagonal(kind))
        factors = covariance.for_each(kind, covariance.factors_of(kind, covariances), k, p)
        first = Components(np.log(weights), means, factors)
        drawn = gibbs.Chain(points, kind, prior, first, 0, thin, trial, n_moves).sample(n_draws)
        assert drawn.covariances.shape == (n_draws, *covariance.shape(kind, k, p))
        true = quantities(weights[None], means[None], full[None], np.array([alpha]))
        found = quantities(drawn.weights, drawn.means, in_full(kind, drawn.covariances, k, p), drawn.alpha)
        ranks.append((found < true).sum(axis=1))
    for column in np.transpose(ranks):
        counts = np.bincount(column // 4, minlength=5)
        assert stats.chisquare(counts).pvalue > LEVEL / 4, counts


@pytest.mark.parametrize("kind", ["full", "diag"])
def test_marginal_of_one_point_is_a_t_distribution(kind):
    """For diagonal covariances, whose variances are inverse gamma, each coordinate has a separate t
    distribution.
    """
    p, prior = (
        2,
        Prior(
            mean=np.array([0.5, -1.0]),
            mean_scale=3.0,
            dof=4.5,
            scale=np.array([[1.0, 0.3], [0.3, 2.0]]),
            shape=3.0,
            rate=2.0,
        ),
    )
    X = np.array([[0.1, 0.2], [2.0, -3.0], [0.5, -1.0]])
    if kind == "full":
        dof = prior.dof - p + 1.0
        wanted = stats.multivariate_t.logpdf(X, prior.mean, prior.scale * (1.0 + prior.mean_scale) / dof, dof)
    else:
        dof = prior.dof + p - 1.0
        wanted = stats.t.logpdf(
            X, dof, prior.mean, np.sqrt(np.diag(prior.scale) * (1.0 + prior.mean_scale) / dof)
        ).sum(axis=1)
    scatter = np.zeros((1, 2) if kind == "diag" else (1, 2, 2))
    got = [conjugate.log_marginal(kind, prior, np.ones(1), point[None], scatter) for point in X]
    assert_allclose(np.diff(got), np.diff(wanted), rtol=1e-10)


@pytest.mark.parametrize("kind", covariance.KINDS)
def test_proposals_leave_the_posterior_of_assignments_as_it_is(kind):
    """With four points, three components and given weights, one proposal maps exact draws of the 81
    assignments to exact draws.

    Chi-squared over the assignments with more than 1 %; one false alarm in a thousand for all kinds.
    """
    X = np.array([[0.0, 0.0], [0.4, -0.3], [2.0, 1.5], [2.2, 0.6]])
    n, k, p, n_trials = 4, 3, 2, 300
    weights = np.array([0.5, 0.3, 0.2])
    prior = Prior(mean=np.ones(p), mean_scale=5.0, dof=5.0, scale=0.3 * np.eye(p), shape=3.0, rate=2.0)
    states = np.stack(np.meshgrid(*[np.arange(k)] * n, indexing="ij"), axis=-1).reshape(-1, n)

    def moments(z):
        counts = np.bincount(z, minlength=k).astype(float)
        means = np.array([X[z == j].mean(axis=0) if counts[j] else prior.mean for j in range(k)])
        away = X - means[z]
        each = away * away if covariance.is_diagonal(kind) else away[:, :, None] * away[:, None, :]
        return counts, means, np.array([each[z == j].sum(axis=0) for j in range(k)])

    log_density = np.array(
        [conjugate.log_marginal(kind, prior, *moments(z)) + np.log(weights[z]).sum() for z in states]
    )
    exact = np.exp(log_density - log_density.max())
    exact /= exact.sum()
    random = default_rng(5)
    points = Points(X, k, "serial", np.zeros(p), covariance.is_diagonal(kind))
    labels = gibbs.Assignments(points, 1).labels
    moves, n_accepted = SplitMerge(points, kind, prior, labels, 3), 0
    components = Components(np.log(weights), np.zeros((k, p)), np.ones((k, p)))
    seen = np.zeros(len(states))
    for number, at in enumerate(random.choice(len(states), n_trials, p=exact)):
        pk.deep_copy(labels, states[at])
        after, accepted = moves.propose(components, moments(states[at]), number, random)
        n_accepted += accepted
        z = labels.to_numpy()
        for own, wanted in zip(after, moments(z)):
            assert_allclose(own[after[0] > 0.0], wanted[after[0] > 0.0], rtol=1e-9, atol=1e-9)
        seen[np.ravel_multi_index(z, (k,) * n)] += 1.0
    assert 0.05 < n_accepted / n_trials < 0.95
    often = exact > 0.01
    counts = np.append(seen[often], seen[~often].sum())
    wanted = n_trials * np.append(exact[often], exact[~often].sum())
    assert stats.chisquare(counts, wanted).pvalue > LEVEL / 4, (counts, wanted)


def test_a_chain_leaves_a_bad_start():
    """One component is on two clusters, and two are on one: with single assignments this lasts hundreds of
    sweeps.
    """
    centres = np.array([[0.0, 0.0], [12.0, 0.0], [60.0, 0.0]])
    X = draw(600, np.full(3, 1.0 / 3.0), centres, np.tile(np.eye(2), (3, 1, 1)))
    first = {
        "means_init": [[6.0, 0.0], [59.5, 0.0], [60.5, 0.0], [20.0, 0.0]],
        "weights_init": [0.6, 0.2, 0.2 - 1e-9, 1e-9],
        "covariances_init": np.tile(np.diag([36.0, 1.0]), (4, 1, 1)),
    }
    model = DirichletMixture(4, prior=Prior(scale=np.eye(2)), moves=False, **first).fit(X)
    largest = [
        model.sample_posterior(X, 10, n_warmup=60, seed=1, n_moves=n).counts.max(axis=1) for n in (0, 2)
    ]
    assert (largest[0] > 350).all() and (largest[1] < 300).all()


def two_clusters(n):
    return draw(n, np.array([0.6, 0.4]), np.array([[0.0, 0.0], [5.0, 5.0]]), np.tile(np.eye(2), (2, 1, 1)))


def test_predictive_density_is_the_mean_of_the_densities(space):
    n = 30 if space == "checked" else 200
    X = two_clusters(n)
    for kind in covariance.KINDS[: 2 if space == "checked" else 4]:
        model = DirichletMixture(
            2, prior=Prior(scale=np.eye(2)), covariance=kind, random_state=0, max_iter=5, tol=-1.0
        ).fit(X)
        posterior = model.sample_posterior(X, 4, n_warmup=2, seed=9)
        full = in_full(kind, posterior.covariances, 2, 2)
        each = [
            reference.log_sum_exp(reference.log_joint(X, np.log(w), m, c))
            for w, m, c in zip(posterior.weights, posterior.means, full)
        ]
        assert_allclose(posterior.log_density(X, space=space), np.log(np.exp(each).mean(axis=0)), rtol=1e-10)
    with pytest.raises(ShapeError, match="X has 3 features, but the draws have 2"):
        posterior.log_density(np.zeros((4, 3)), space=space)


def test_arviz_reads_the_draws():
    posterior = Posterior(
        np.ones((5, 2)),
        np.zeros((5, 2, 3)),
        np.ones((5, 2, 3)),
        np.ones(5),
        np.arange(5.0),
        np.ones((5, 2)),
        "diag",
    )
    tree = posterior.to_arviz()
    assert tree["posterior"]["means"].shape == (1, 5, 2, 3) and tree["posterior"]["covariances"].dims[2:] == (
        "component",
        "feature",
    )
    assert tree["sample_stats"]["lp"].values[0].tolist() == posterior.log_likelihood.tolist()


def test_same_draws_on_every_space(space):
    n = 40
    X = two_clusters(n)
    found = []
    for where in (space, "serial"):
        model = DirichletMixture(3, random_state=0, max_iter=5, tol=-1.0).fit(X)
        model.space = where
        found.append(model.sample_posterior(X, 3, n_warmup=2, n_thin=2, seed=9))
    for name in "weights means covariances alpha counts".split():
        assert_allclose(getattr(found[0], name), getattr(found[1], name), rtol=1e-9, atol=1e-12)
    assert found[0].counts.sum(axis=1).tolist() == [n] * 3


def test_posterior_of_two_far_clusters():
    """Labels do not switch; weights are near the shares, within 4 posterior deviations."""
    X = draw(600, np.array([0.7, 0.3]), np.array([[0.0, 0.0], [9.0, 9.0]]), np.tile(np.eye(2), (2, 1, 1)))
    model = DirichletMixture(2, random_state=0).fit(X)
    posterior = model.sample_posterior(X, 200, n_warmup=20, seed=1)
    counts = np.bincount(model.predict(X), minlength=2)
    assert (posterior.counts == counts).all()
    near = np.array([X[model.predict(X) == j].mean(axis=0) for j in range(2)])
    deviation = posterior.means.std(axis=0)
    assert (np.abs(posterior.means.mean(axis=0) - near) < 4.0 * deviation).all()
    assert (np.abs(posterior.weights.mean(axis=0) - counts / 600) < 4.0 * posterior.weights.std(axis=0)).all()


def test_match_undoes_a_permutation():
    order = np.array([2, 0, 1])
    shared = np.zeros((3, 3), int)
    shared[order, np.arange(3)] = 10  # label order[b] of the draw is b of the reference
    assert_array_equal(gibbs.match(shared + 1), order)


def test_without_a_prior_there_is_no_posterior():
    X = draw(30, np.array([1.0]), np.zeros((1, 2)), np.eye(2)[None])
    model = DirichletMixture(1, max_iter=2, tol=-1.0, prior=None).fit(X)
    with pytest.raises(InputError, match="needs a prior"):
        model.sample_posterior(X)


def test_wrong_numbers():
    X = draw(30, np.array([1.0]), np.zeros((1, 2)), np.eye(2)[None])
    model = DirichletMixture(1, max_iter=2, tol=-1.0)
    with pytest.raises(InputError, match="not fitted"):
        model.sample_posterior(X)
    model.fit(X)
    with pytest.raises(InputError, match="n_draws is 0"):
        model.sample_posterior(X, 0)
    with pytest.raises(InputError, match="n_moves is -1"):
        model.sample_posterior(X, n_moves=-1)
    with pytest.raises(InputError, match="seed is -1"):
        model.sample_posterior(X, seed=-1)


def test_log_likelihood_is_that_of_the_draw_itself(space):
    n = 30 if space == "checked" else 300
    X = two_clusters(n)
    model = DirichletMixture(3, random_state=0, max_iter=5, tol=1e9).fit(X)
    model.space = space
    posterior = model.sample_posterior(X, 3, n_warmup=1, n_thin=2, seed=9)
    for weights, means, covariances, value in zip(
        posterior.weights, posterior.means, posterior.covariances, posterior.log_likelihood
    ):
        terms = reference.log_joint(X, np.log(weights), means, covariances)
        assert value == pytest.approx(reference.log_sum_exp(terms).sum(), rel=1e-10)


def test_draws_are_kept_and_extended(tmp_path, monkeypatch):
    X = default_rng(1).normal(size=(300, 2)) + np.repeat([[0.0, 0.0], [6.0, 1.0], [0.0, 7.0]], 100, axis=0)
    model = DirichletMixture(4, max_iter=5, tol=-1.0, random_state=0).fit(X)
    options = {"n_warmup": 3, "n_thin": 2, "seed": 7, "n_moves": 0}
    long = model.sample_posterior(X, 12, **options)
    monkeypatch.setattr("portable.models.shared.store.EVERY_S", 0.0)
    monkeypatch.setattr("portable.models.shared.store._SHARE", 0.0)
    sweeps, gather = [], Points.gather
    monkeypatch.setattr(Points, "gather", lambda self, *args: (sweeps.append(1), gather(self, *args))[1])

    def assert_same(n_draws, n_sweeps):
        sweeps.clear()
        found = model.sample_posterior(X, n_draws, **options, checkpoint=tmp_path / "draws")
        for name, column in vars(found).items():
            if name == "notes" and n_draws < 12:  # notes depend on the number of draws
                continue
            wanted = getattr(long, name)
            assert_array_equal(column, wanted[:n_draws] if isinstance(wanted, np.ndarray) else wanted)
        assert len(sweeps) == n_sweeps

    assert_same(4, 11)
    assert_same(4, 0)
    assert_same(12, 16)
    assert_same(12, 0)
    assert_same(4, 0)
    (tmp_path / "draws" / "sweeps-000000000006.npz").write_bytes(b"PK")
    with pytest.warns(RuntimeWarning, match="sweeps-000000000006.npz' is damaged"):
        assert_same(12, 1)
    with pytest.raises(InputError, match="belongs to another run: n_thin is 2 there, 3 here"):
        model.sample_posterior(X, 4, **options | {"n_thin": 3}, checkpoint=tmp_path / "draws")
    moved = [
        model.sample_posterior(X, n, **options | {"n_moves": 1}, checkpoint=folder)
        for n, folder in ((6, None), (2, tmp_path / "moved"), (6, tmp_path / "moved"))
    ]
    for name, column in vars(moved[0]).items():
        assert_array_equal(column, getattr(moved[2], name))


@pytest.mark.parametrize("kind", "full tied diag spherical".split())
def test_a_file_holds_the_draws(tmp_path, kind):
    X = default_rng(1).normal(size=(60, 2)) + np.repeat([[0.0], [9.0]], 30, axis=0)
    model = DirichletMixture(3, covariance=kind, random_state=0).fit(X)
    posterior = model.sample_posterior(X, 4, n_warmup=2, seed=3)
    posterior.save(tmp_path / "draws.nc")
    again = Posterior.load(tmp_path / "draws.nc")
    for name, value in vars(posterior).items():
        assert_array_equal(getattr(again, name), value)
    assert_array_equal(again.log_density(X), posterior.log_density(X))


def test_files_of_other_things_are_refused(tmp_path):
    with pytest.raises(InputError, match="there is no such file"):
        Posterior.load(tmp_path / "nothing.nc")
    (tmp_path / "text.nc").write_text("text")
    with pytest.raises(InputError, match="holds no posterior of portable.models.mixture"):
        Posterior.load(tmp_path / "text.nc")
