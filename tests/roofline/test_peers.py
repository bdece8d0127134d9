"""Compare the peers with references: times of wrong results would be meaningless."""

import numpy as np
import pytest
from numpy.random import default_rng

from portable.models.hawkes import Parameters
from portable import unavailable_because
from portable.roofline import peers

from ..models.hawkes import reference

PARAMS = Parameters(mu0=0.7, tau_x=1.6, tau_t=300.0, theta=0.4, omega=0.5, h=0.6)


def events(n=60):
    random = default_rng(3)
    times = np.sort(np.round(random.uniform(0, 100, n), 0))  # with ties
    return random.uniform(0, 5, (n, 2)), times - times[0]


@pytest.mark.parametrize(
    ("space", "count"),
    [
        ("serial", {"float64": 4, "mixed": 2}),
        ("threads", {"float64": 4, "mixed": 2}),
        ("cuda", {"float64": 2, "mixed": 2}),
    ],
)
@pytest.mark.filterwarnings("default")  # a peer's warnings are no errors
@pytest.mark.parametrize("precision", ["float64", "mixed"])
def test_hawkes_peers_agree_with_the_formula(space, count, precision):
    pytest.importorskip("cupy" if space == "cuda" else "numba")
    if reason := unavailable_because(space):
        pytest.skip(reason)
    locations, times = events()
    found, absent = peers.gather("hawkes", space, locations, times, PARAMS, mixed=precision == "mixed")
    assert not absent and len(found) == count[precision]
    # Float32 pairs have errors of about 1e-7 each; float64 sums only differ by their order.
    tolerance = 1e-6 if precision == "mixed" else 1e-13
    for peer in found:
        assert peer.result() == pytest.approx(
            reference.log_likelihood(locations, times, PARAMS), rel=tolerance
        ), peer.label


def test_mixture_peer_agrees_with_linear_algebra():
    from portable.roofline.cases.mixture import K, P, density

    random = default_rng(4)
    x, rec = random.normal(size=(P, 9)), 0.2 * random.normal(size=(K, P + P * (P + 1) // 2 + 1))
    expected = np.zeros(9)
    for numbers in rec:
        lower = np.zeros((P, P))
        lower[np.tril_indices(P)] = numbers[P:-1]
        y = lower @ (x - numbers[:P, None])
        expected += np.exp(numbers[-1] - 0.5 * (y * y).sum(0))
    found, absent = peers.gather("mixture", "threads", density, x, rec)
    assert not absent and len(found) == 2
    for peer in found:
        peer.call()
        assert peer.result() == pytest.approx(np.log(expected).sum(), rel=1e-13)


def test_mixture_em_peers_agree():
    from portable.roofline.cases import mixture_em

    for duel in mixture_em.duels("serial", 200, quick=True):
        assert duel.peers and not duel.absent
        duel.ours.call()
        for peer in duel.peers:
            peer.call()
            assert peer.result() == pytest.approx(duel.ours.result(), rel=duel.tolerance), peer.label


def test_a_peer_nobody_wrote_is_absent():
    assert peers.gather("mixture", "cuda") == (
        [],
        [("mixture_cupy", "not written"), ("mixture_numba_cuda", "not written")],
    )
    assert peers.gather("mixture", "checked")[0] == []


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_step_of_a_filter_stands_beside_a_copy(dtype):
    """The comparison requires a GPU; this tests on the CPU that it can be set up and run."""
    from portable.roofline.cases import resampling

    duel = resampling._filter_step("serial", 5000, dtype)
    duel.ours.call()
    duel.peers[0].call()
    assert duel.bytes == 5000 * (8 + 4 * np.dtype(dtype).itemsize)
