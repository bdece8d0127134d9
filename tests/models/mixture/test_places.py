"""Test points that come from the host or are already in a space, and results in a chosen memory: their bits,
the copies, and the number of times that the host waits."""

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose

import portable as pk
from portable.models.shared import arrays
from portable.models import mixture
from portable.models.mixture import blocks, rows, search_kernels, spread, starts, steps
from portable.core import registry

from .far import FAR, Heard

N, P, K = 2500, 3, 4
CALLS = "score_samples", "predict", "predict_proba"


@pytest.fixture
def far(monkeypatch):
    """Return the name of a space with a separate memory."""
    monkeypatch.setitem(registry._loaders, "far", lambda: FAR)
    return "far"


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Use small blocks: 2,500 points are eight blocks and more."""
    monkeypatch.setattr(blocks, "_LEAST", 256)
    monkeypatch.setattr(blocks, "_BLOCKS_ONCE", 8)


def clouds(dtype=np.float64, n=N):
    random = default_rng(1)
    return (random.normal(size=(n, P)) + 5.0 * random.integers(0, 3, (n, 1))).astype(dtype)


def fitted(space, dtype=np.float64, **options):
    known = {"prior": None, "max_iter": 3, "tol": -1.0, "random_state": 0}
    return mixture.DirichletMixture(K, space=space, **(known | options)).fit(clouds(dtype))


def in_numpy(model, X):
    """Return log-densities, labels and probabilities of each point."""
    away = X[:, None].astype(float) - model.means_
    y = np.einsum("jab,nja->njb", model.precisions_cholesky_, away)
    scale = np.log(np.diagonal(model.precisions_cholesky_, axis1=1, axis2=2)).sum(axis=1)
    terms = np.log(model.weights_) + scale - 0.5 * (P * np.log(2.0 * np.pi) + (y * y).sum(axis=2))
    lse = np.logaddexp.reduce(terms, axis=1)
    return lse, terms.argmax(axis=1), np.exp(terms - lse[:, None])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_results_are_in_the_order_of_the_points(space, dtype):
    if space == "checked":
        pytest.skip("too many operations for plain Python")
    model, X = fitted(space, dtype), clouds(dtype)
    tolerance = 1e-9 if dtype is np.float64 else 1e-3
    for name, wanted in zip(CALLS, in_numpy(model, X)):
        found = getattr(model, name)(X)
        assert isinstance(found, np.ndarray) and found.dtype == (np.int64 if name == "predict" else dtype)
        assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("stretch", [None, 12_000])
def test_another_memory_gives_the_same_bits_in_few_copies(far, monkeypatch, name, stretch):
    """There is one copy to the space, or one for each stretch, and as many back; the host does not wait
    between blocks.
    """
    model, X = fitted("serial"), clouds()
    wanted = getattr(model, name)(X)
    if stretch:
        monkeypatch.setattr(rows, "_WHOLE", 0)
        monkeypatch.setattr(rows, "_TOGETHER", stretch)
    model.space, heard = far, Heard()
    with pk.listening(heard, copies=True):
        found = getattr(model, name)(X)
    assert found.tobytes() == wanted.tobytes()
    there, back = heard.copies("host", far), heard.copies(far, "host")
    assert sum(there) == X.nbytes and sum(back) == wanted.nbytes
    if stretch is None:
        assert len(there) == len(back) == 1 and heard.waits == []
    else:
        assert 3 <= len(there) <= 8 and max(there) <= stretch
        assert len(heard.waits) <= wanted.nbytes // stretch


@pytest.mark.parametrize("name", CALLS)
def test_the_next_points_are_copied_meanwhile(far, monkeypatch, name):
    """A thread copies them while launches on the previous points run; the bits are the same."""
    model, X = fitted("serial"), clouds()
    wanted = getattr(model, name)(X)
    monkeypatch.setattr(rows, "_AHEAD", X.nbytes // 4)
    monkeypatch.setattr(arrays, "_LARGE", 0)
    model.space, heard = far, Heard()
    with pk.listening(heard, copies=True):
        found = getattr(model, name)(X)
    assert found.tobytes() == wanted.tobytes()
    there = heard.copies("host", far)
    assert sum(there) == X.nbytes and 3 <= len(there) <= 8
    with pytest.raises(pk.ShapeError, match="expected the same"):  # an error in the thread is raised here
        with arrays.Copying(pk.empty(3, space=far), np.zeros(4)):
            pass


def test_blocks_of_a_call_are_few_and_leave_no_trace(monkeypatch):
    model, X, launched = fitted("serial"), clouds(), []

    def hear(phase, what, launch):
        launched.extend([launch.label] * (phase == "begin"))

    wanted = [getattr(model, name)(X).tobytes() for name in CALLS]
    monkeypatch.setattr(blocks, "_BLOCKS_ONCE", 2)
    with pk.listening(hear):
        assert [getattr(model, name)(X).tobytes() for name in CALLS] == wanted
    assert launched.count("mixture.log_joint") == 2 * len(CALLS)


@pytest.mark.parametrize("name", CALLS)
def test_views_are_not_copied_and_give_views(far, name):
    model, X = fitted("serial"), clouds()
    wanted = getattr(model, name)(X)
    assert isinstance(getattr(model, name)(pk.asview(X)), pk.View)  # on the host, too
    model.space, heard = far, Heard()
    there = pk.copy_of(X, far)
    with pk.listening(heard, copies=True):
        found = getattr(model, name)(there)
    assert isinstance(found, pk.View) and found.memory == far
    assert heard.copies("host", far) == heard.copies(far, "host") == heard.waits == []
    assert found.to_numpy().tobytes() == wanted.tobytes()
    strided = pk.copy_of(np.repeat(X, 2, axis=0), far)[::2]
    assert getattr(model, name)(strided).to_numpy().tobytes() == wanted.tobytes()
    model.space = "serial"  # which has no effect on them
    assert getattr(model, name)(there).to_numpy().tobytes() == wanted.tobytes()


def test_views_elsewhere_travel_in_stretches(far, monkeypatch):
    model, X, heard = fitted("serial"), clouds(), Heard()
    wanted = model.predict(X)
    monkeypatch.setattr(rows, "_WHOLE", 0)
    monkeypatch.setattr(rows, "_TOGETHER", 12_000)
    model.space = far
    with pk.listening(heard, copies=True):
        assert model.predict(pk.asview(X)).to_numpy().tobytes() == wanted.tobytes()
    assert max(heard.copies("host", far)) <= 12_000 and sum(heard.copies("host", far)) == X.nbytes


def test_views_of_other_numbers(far):
    model = fitted(far)
    whole = np.rint(clouds()).astype(np.int32)
    labels = model.predict(pk.copy_of(whole, far))
    assert labels.to_numpy().tolist() == model.predict(whole).tolist()
    for X, error, words in (
        (pk.zeros((9, P), "bool", far), pk.DTypeError, "X must hold real numbers, got dtype bool"),
        (pk.zeros((9,), space=far), pk.ShapeError, "expected one row per point"),
        (pk.zeros((9, P + 1), space=far), pk.ShapeError, "expecting 3 features"),
    ):
        with pytest.raises(error, match=words):
            model.predict(X)


@pytest.mark.parametrize("call", [*CALLS, "score", "bic", "partial_fit", "sample_posterior"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_points_that_are_not_finite_are_named(far, call, bad):
    """This holds on the host and in a space, though the host does not read all points."""
    model, X = fitted("serial", prior=mixture.Prior()), clouds()
    X[N - 300, 1] = bad
    for space in ("serial", far):
        model.space = space
        for given in (X, pk.copy_of(X, far)):
            with pytest.raises(pk.FiniteError, match=rf"X\[{N - 300}, 1\] is {bad}"):
                getattr(model, call)(given)


def test_densities_of_views(far):
    model, X = fitted("serial"), clouds()
    given = model.means_, model.precisions_cholesky_, model.weights_
    wanted = mixture.log_density(X, *given)
    found = mixture.log_density(pk.copy_of(X, far), *given, space=far)
    assert found.to_numpy().tobytes() == wanted.tobytes()
    with pytest.raises(pk.FiniteError, match=r"X\[7, 2\] is nan"):
        X[7, 2] = np.nan
        mixture.log_density(X, *given, space=far)


def same(one, other):
    for name in "weights_ means_ covariances_ objective_history_".split():
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes(), name


@pytest.mark.parametrize("prior", [None, mixture.Prior()], ids=["likelihood", "prior"])
def test_a_fit_copies_its_points_once(far, prior):
    """A second copy has the points among which the start is chosen, here all of them; none is copied back."""
    wanted, X, heard = fitted("serial", prior=prior, moves=False), clouds(), Heard()
    with pk.listening(heard, copies=True):
        found = fitted(far, prior=prior, moves=False)
    same(found, wanted)
    assert heard.copies("host", far, X.nbytes // 8) == [X.nbytes] * 2
    assert heard.copies(far, "host", X.nbytes // 8) == []


def test_an_iteration_brings_a_few_numbers_a_component_to_the_host(far):
    heard = []
    for iterations in (2, 5):
        heard.append(Heard())
        with pk.listening(heard[-1], copies=True):
            fitted(far, max_iter=iterations, moves=False)
    ways = ("far", "host"), ("host", "far"), ("", "far")
    short, long = ([one.copies(*way, 0) for way in ways] for one in heard)
    assert [sum(b) - sum(a) for a, b in zip(short, long)] == [3 * (8 + 32 * K), 3 * 8 * K, 0]


def test_a_sweep_that_comes_again_is_one_launch(far):
    heard = Heard()
    with pk.listening(heard):
        fitted(far, max_iter=5, moves=False)
    sweep = "mixture.log_joint + mixture.normalise + mixture.moments + mixture.add_slices"
    n_blocks = heard.kernels.count("mixture.moments")  # of the first one
    assert (
        n_blocks > 4 and [label.count(sweep) for label in heard.kernels if sweep in label] == [n_blocks] * 5
    )


@pytest.mark.parametrize("prior", [None, mixture.Prior(scale=np.eye(P))])
def test_an_iteration_of_a_long_run_is_one_graph(far, monkeypatch, prior):
    """The bits equal those of single launches, and those in another memory; the host sends a likelihood and a
    few numbers for each component, once."""
    found, heard = [], []
    for space, many in (("serial", 99), ("serial", 9), (far, 9)):
        monkeypatch.setattr(steps, "_MANY", many)
        heard.append(Heard())
        with pk.listening(heard[-1], copies=True):
            found.append(fitted(space, max_iter=9, prior=prior, moves=False))
    step = "mixture.maximise + mixture.prepare + mixture.log_joint"
    assert [sum(label.startswith(step) for label in one.kernels) for one in heard] == [0, 9, 9]
    for name in "weights_ means_ covariances_ objective_history_".split():
        first, *others = (getattr(model, name).tobytes() for model in found)
        assert others == [first] * 2, name


def test_a_run_whose_components_move_far_off_leaves_its_graph(space, monkeypatch):
    """Then sums are computed about other references, as without a graph."""
    if space == "checked":
        pytest.skip("too many operations for plain Python")
    monkeypatch.setattr(blocks, "CANCELS", {np.float64: 20.0})
    monkeypatch.setattr(steps, "CANCELS", {np.float64: 20.0})
    found = []
    for many in (99, 9):
        monkeypatch.setattr(steps, "_MANY", many)
        heard = Heard()
        with pk.listening(heard, copies=True):
            found.append(fitted(space, max_iter=12, moves=False))
    assert any(label.startswith("mixture.maximise + ") for label in heard.kernels)
    assert "mixture.maximise" in heard.kernels
    assert found[0].means_.tobytes() == found[1].means_.tobytes()
    assert found[0].objective_history_.tobytes() == found[1].objective_history_.tobytes()


def test_a_start_does_not_wait_between_draws(far):
    heard, given = Heard(), starts.Few(rows.Rows(clouds(), far, 8192), None, 9, default_rng(1))
    with pk.listening(heard, copies=True):
        given.means(9, np.ones(P), "k-means++", default_rng(2))
    assert heard.waits == [] and heard.kernels.count("mixture.draw + mixture.draw") == 5


@pytest.mark.parametrize("stretch", [None, 12_000])
def test_a_fit_to_views_has_the_same_bits(far, monkeypatch, stretch):
    monkeypatch.setattr(starts, "_FEW", 1000)  # starts are chosen among some of the points
    monkeypatch.setattr(starts, "_FEW_A_NUMBER", 0)
    wanted, X = fitted("serial", prior=mixture.Prior()), clouds()
    if stretch:
        monkeypatch.setattr(rows, "_WHOLE", 0)
        monkeypatch.setattr(rows, "_TOGETHER", stretch)
    model = mixture.DirichletMixture(K, prior=mixture.Prior(), max_iter=3, tol=-1.0, random_state=0)
    for space in ("serial", far):
        for given in (X, pk.copy_of(X, space)):
            model.space, heard = space, Heard()
            with pk.listening(heard, copies=True):
                same(model.fit(given), wanted)
            if given is not X:
                assert max(heard.copies("host", far), default=0) < X.nbytes // 2
                labels = model.predict(given)
                assert isinstance(labels, pk.View) and labels.space == space


def test_draws_and_steps_of_views(far):
    X, known = clouds(), {"n_draws": 4, "n_warmup": 2, "seed": 1, "n_moves": 2}
    draws, steps = [], []
    for space, given in (("serial", X), (far, X), (far, pk.copy_of(X, far))):
        model = fitted("serial", prior=mixture.Prior())
        model.space = space
        draws.append(model.sample_posterior(given, **known))
        steps.append(model.partial_fit(given))
    for one, other in zip(draws[1:], steps[1:]):
        assert one.means.tobytes() == draws[0].means.tobytes()
        assert one.log_likelihood.tobytes() == draws[0].log_likelihood.tobytes()
        assert other.means_.tobytes() == steps[0].means_.tobytes()


def spread_in_numpy(X, weights):
    """Return mean and variance of each column, combined from blocks by NumPy's sums."""
    first, count, mean, squares = X[0].astype(float), 0, 0.0, 0.0
    for start in range(0, len(X), 8192):
        part = X[start : start + 8192] - first
        share = np.ones((len(part), 1)) if weights is None else weights[start : start + 8192, None]
        own = share.sum()
        own_mean = (part * share).sum(axis=0) / own
        away = own_mean - mean
        squares += ((part - own_mean) ** 2 * share).sum(axis=0) + away**2 * (count * own / (count + own))
        mean, count = mean + away * (own / (count + own)), count + own
    return first + mean, squares / count


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n, p", [(3, 1), (16, 2), (8193, 3), (20_000, 1), (30_011, 14)])
def test_means_and_variances_of_columns(space, far, monkeypatch, n, p, weighted):
    if space == "checked" and n > 16:
        pytest.skip("too many operations for plain Python")
    random = default_rng(n)
    X = random.normal(size=(n, p)) * random.random(p) + 7.0
    weights = random.random(n) if weighted else None
    found = []
    for name in (space, far):
        found.append(spread.spread_of(rows.Rows(X, name, search_kernels.BLOCK), weights))
        for given in (pk.copy_of(X, name), pk.copy_of(np.repeat(X, 2, axis=1), name)[:, ::2]):
            found.append(spread.spread_of(rows.Rows(given, name, search_kernels.BLOCK), weights))
        with monkeypatch.context() as patched:
            patched.setattr(rows, "_WHOLE", 0)
            patched.setattr(rows, "_TOGETHER", 0)
            found.append(spread.spread_of(rows.Rows(X, name, search_kernels.BLOCK), weights))
    for got in found:
        for one, wanted, first in zip(got, spread_in_numpy(X, weights), found[0]):
            assert_allclose(one, wanted, rtol=1e-12)
            assert one.tobytes() == first.tobytes()
