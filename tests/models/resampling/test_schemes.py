"""Compare ancestors with plain Python, and test that they are the same on every space for weights of equal
value.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_array_equal
from portable.models import resampling
from portable.models.resampling import schemes, weight_kernels

import portable as pk

from . import reference
from .cases import NAMES, SCHEMES, digest, many, many_logs, vectors

SEED, STEP = 2**50 + 11, 3
# SHA-256 (first 16 digits) of the ancestors of all of `many()`, one after another as little-endian int64, and
# of all of `many_logs()`. Made with reference.py, not with the kernels: `python -m
# tests.models.resampling.golden`.
GOLDEN = {
    "systematic": ("96ee7835ca7b34e9", "8bb646a77d4d17fd"),
    "stratified": ("c0bbea1e8d127b7f", "53b6885e57060628"),
    "multinomial": ("80dd2504badf0bd3", "e6df7fe0b96aa263"),
    "residual": ("80e18b6dfb574949", "558e9974163e2715"),
    "ssp": ("c44aeff7b2704bec", "8207b3533cb3f569"),
    "metropolis": ("3e15f3a2ca2d91a3", "6fd75ff6bb4396b9"),
    "megopolis": ("e697dadde71d11ed", "80dd512c463941f7"),
    "rejection": ("ba1ef8a65953a067", "b70064503afdd514"),
    "killing": ("c9b1ef98b4b76b24", "9ab234091df75e40"),
}


@pytest.fixture(params=[schemes.SHORT, 0], ids=["in one launch", "by tiles"])
def short(request, monkeypatch):
    """Run also with the kernels for long rows: short rows give the same results with these."""
    monkeypatch.setattr(schemes, "SHORT", request.param)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("scheme, options", SCHEMES, ids=NAMES)
def test_ancestors_are_those_of_plain_python(space, scheme, options):
    for name, w in vectors().items():
        if space == "checked" and name not in ("random 17", "zeros", "one heavy"):
            continue  # plain Python is too slow for many vectors
        for n_ancestors in (
            [len(w)] if scheme is resampling.killing else [len(w)] if space == "checked" else [len(w), 1, 170]
        ):
            got = scheme(w, seed=SEED, step=STEP, n_ancestors=n_ancestors, space=space, **options)
            wanted = getattr(reference, scheme.__name__)(w.tolist(), n_ancestors, SEED, STEP << 32, **options)
            assert got.dtype == np.int64
            assert_array_equal(got, wanted, err_msg=f"{name}, {n_ancestors} draws")


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("scheme, options", SCHEMES, ids=NAMES)
def test_golden_hashes(space, scheme, options):
    if space == "checked":
        pytest.skip("plain Python is for few vectors")
    weights = [scheme(w, seed=v, step=STEP, space=space, **options) for v, w in enumerate(many())]
    logs = [
        scheme(log_weights=w, seed=v, step=STEP, space=space, **options) for v, w in enumerate(many_logs())
    ]
    assert (digest(weights), digest(logs)) == GOLDEN[scheme.__name__]


@pytest.mark.parametrize("scheme, options", SCHEMES, ids=NAMES)
def test_only_the_values_of_weights_count(space, scheme, options):
    """Use float32 and float64, arrays, views, lists and powers of two: the same ancestors."""
    w = vectors()["float32"]
    wanted = scheme(w, seed=1, space=space, **options)
    view = scheme(pk.copy_of(w, space), seed=1, space=space, **options)
    assert isinstance(view, pk.View)
    for got in [
        view.to_numpy(),
        scheme(w.astype(np.float64), seed=1, space=space, **options),
        scheme(w.tolist(), seed=1, space=space, **options),
        scheme(w * np.float32(2**-90), seed=1, space=space, **options),
    ]:
        assert_array_equal(got, wanted)


@pytest.mark.parametrize("scheme, options", SCHEMES, ids=NAMES)
def test_log_weights(space, scheme, options):
    """For weights 2^-k the logarithms are no whole numbers, yet the ancestors are those of the
    exponentials."""
    log_w = np.log(2.0) * -np.arange(12.0)[::-1] - 3000.0
    log_w[2] = -np.inf
    got = scheme(log_weights=log_w, seed=9, space=space, **options)
    assert_array_equal(got, scheme(np.exp(log_w - log_w.max()), seed=9, space=space, **options))


@pytest.mark.parametrize("scheme, options", SCHEMES, ids=NAMES)
def test_seed_and_step_each_change_the_draw(scheme, options):
    w = vectors()["random 64"]
    first, step, seed = (
        scheme(w, seed=s, step=t, space="serial", **options) for s, t in ((0, 0), (0, 1), (1, 0))
    )
    assert (first != step).any() and (first != seed).any() and (step != seed).any()


@pytest.mark.parametrize("scheme, options", SCHEMES, ids=NAMES)
def test_large_vectors_have_the_same_ancestors_for_any_number_of_threads(scheme, options):
    w = default_rng(2).random(50_000, dtype=np.float32) ** 4
    one = scheme(w, seed=4, space="serial", **options)
    for n_threads in (1, 2, 3):
        assert_array_equal(scheme(w, seed=4, space=pk.Threads(n_threads), **options), one)


@pytest.mark.parametrize("n_ancestors", [2**18, 2**20 + 1])
def test_systematic_offspring_are_exact(space, n_ancestors):
    """Some cumulative offspring of 2^18 weights are so near to a whole number that only products of whole
    numbers decide on which side they are. Here the products have as many bits as that requires."""
    n = 2**8 if space == "checked" else 2**18
    w = default_rng(5).random(n)
    got = resampling.systematic(w, seed=SEED, step=STEP, n_ancestors=n_ancestors, space=space)
    bits = min(weight_kernels.MOST_BITS, 62 - (max(n, n_ancestors) - 1).bit_length())
    scaled = np.rint(np.ldexp(w, bits - np.frexp(w.max())[1])).astype(np.uint64)
    position = np.cumsum(scaled).astype(object)
    total = position[-1]
    start = int(pk.random.randint(SEED, 0, STEP << 32, total))
    before = (position * n_ancestors - start + total - 1) // total
    assert_array_equal(got, np.repeat(np.arange(n), np.diff(before.astype(np.int64), prepend=0)))


def test_calls_of_two_threads_do_not_share_scratch():
    """Calls of different sizes in one thread do not share it either."""
    weights = [default_rng(n).random(n) for n in (900, 901, 5000)]

    def draws(order):
        return {k: resampling.multinomial(weights[k], seed=k, space="serial").tolist() for k in order}

    alone = draws([0, 1, 2])
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(draws, [[0, 1, 2, 0], [2, 1, 0, 1], [1, 0, 2, 2], [0, 2, 1, 0]] * 5):
            assert found == alone


@pytest.mark.parametrize("name", NAMES[:5])
def test_weights_of_any_form_have_the_ancestors_of_their_values(space, name):
    """Use whole numbers, strided arrays and other byte orders, lists; one form after the other."""
    (scheme, options), w = SCHEMES[NAMES.index(name)], default_rng(3).integers(0, 100, 40)
    wanted = scheme(w.astype(np.float64), seed=5, space=space, **options)
    strided = np.repeat(w.astype(np.float32), 3)[::3]
    forms = (w, w.astype(np.int8), strided, w.astype(">f8"), w.astype(np.float16), w.tolist())
    for given in forms[NAMES.index(name) % 3 :: 3]:  # schemes take turns: one kernel reads weights for all
        assert_array_equal(scheme(given, seed=5, space=space, **options), wanted)
    rows = scheme(np.stack([w, w]), seed=5, space=space, **options)
    assert_array_equal(rows[0], wanted)


@pytest.mark.usefixtures("short")
def test_seeds_and_steps_may_be_as_large_as_they_are_told(space):
    w = default_rng(3).random(30).tolist()
    for seed, step in ((2**64 - 1, 2**31 - 1), (2**63, 0), (0, 2**31 - 1)):
        wanted = reference.stratified(w, 30, seed, step << 32)
        assert_array_equal(resampling.stratified(w, seed=seed, step=step, space=space), wanted)


@pytest.mark.parametrize("output", ["ancestors", "offspring", "cumulative"])
def test_results_are_the_callers(space, output):
    """A later call does not overwrite them, although calls share scratch."""
    first, again = (default_rng(n).random(20) for n in (0, 1))
    found = resampling.systematic(first, seed=1, output=output, space=space)
    kept = found.copy()
    other = resampling.systematic(again, seed=2, output=output, space=space)
    assert_array_equal(found, kept)
    assert (other != kept).any() and found.flags.owndata and found.flags.writeable


@pytest.mark.parametrize("scheme, options", SCHEMES[:5], ids=NAMES[:5])
@pytest.mark.parametrize("n, n_ancestors", [(2048, 2048), (2048, 1), (1, 2048), (2047, 700), (129, 2048)])
def test_rows_that_one_launch_takes_have_the_ancestors_of_tiles(monkeypatch, scheme, options, n, n_ancestors):
    """Test the longest such row, too, and residual resampling without remaining draws."""
    w = default_rng(n).random((3, n)) ** 8
    w[1], w[2, 0] = 1.0, n
    log_w = np.log(w).astype(np.float32)
    asked = {"seed": 2**64 - 5, "n_ancestors": n_ancestors, "space": "threads:2"}
    found = scheme(w, **asked), scheme(log_weights=log_w, **asked)
    monkeypatch.setattr(schemes, "SHORT", 0)
    assert_array_equal(found[0], scheme(w, **asked))
    assert_array_equal(found[1], scheme(log_weights=log_w, **asked))


@pytest.mark.parametrize("heavy", [3_000, 30_000])
def test_heavy_particles_are_written_by_many(space, heavy):
    """Particles with hundreds, thousands and most of the draws are compared with NumPy's expansion of the
    offspring."""
    if space == "checked":
        pytest.skip("plain Python is for small sizes")
    w = np.ones(40_000)
    w[[7, 8, 20_000]] = 300.0, heavy, 2_500_000.0
    a = resampling.systematic(w, seed=3, space=space)
    assert_array_equal(
        a, resampling.systematic(w, seed=3, space=pk.Threads(3) if space == "serial" else "serial")
    )
    assert (np.diff(a) >= 0).all()
    e = len(w) * w / w.sum()
    assert (np.abs(np.bincount(a, minlength=len(w)) - e) < 1).all()


@pytest.mark.parametrize("scheme, options", SCHEMES, ids=NAMES)
def test_rows_are_filters_of_their_own(space, scheme, options):
    """The first row has the draws of a separate call; equal rows draw different numbers; outputs agree with
    one another."""
    w = np.tile(vectors()["random 17" if space == "checked" else "random 64"], (2, 1))
    a = scheme(w, seed=6, space=space, **options)
    assert_array_equal(a[0], scheme(w[0], seed=6, space=space, **options))
    assert (a[0] != a[1]).any()
    o = scheme(w, seed=6, output="offspring", space=space, **options)
    assert_array_equal(o, [np.bincount(row, minlength=w.shape[1]) for row in a])
    cumulative = scheme(w, seed=6, output="cumulative", space=space, **options)
    assert_array_equal(cumulative, np.cumsum(o, axis=1))
    permuted = scheme(w, seed=6, permuted=True, space=space, **options)
    assert_array_equal(permuted, [reference.permute(row.tolist()) for row in a])
