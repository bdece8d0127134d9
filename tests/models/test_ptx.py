"""Every kernel of every model lowers to PTX without a GPU, for the argument types that the model uses."""
import inspect

import numpy as np
import pytest

import portable as pk
from models import hawkes
from models.hawkes import kernels as hawkes_kernels
from portable.backends.cuda.space import lower_to_ptx
from portable.kernel import Kernel


def run_hawkes():
    rng = np.random.default_rng(1)
    params = hawkes.Parameters(mu0=1.0, tau_x=1.0, tau_t=1.0, theta=0.3, omega=1.0, h=0.1)
    for n_dims in (1, 2, 3):
        for precision in ("float64", "mixed"):
            for method in ("all_pairs", "windowed"):
                hawkes.log_likelihood(rng.random((9, n_dims)), np.sort(rng.random(9)) * 100, params, method=method,
                                      precision=precision, tolerance=1e-3, space="serial")


def lowered(module):
    """(kernel, what it was compiled for on the CPU) for every kernel of a module."""
    for _, kernel in inspect.getmembers(module, lambda member: isinstance(member, Kernel)):
        types = [key[1:] for key in kernel.compiled if key[0] == "cpu"]
        assert types, f"{kernel.name} never ran: the model above does not use it"
        for policy_kind, specs, reducers in types:
            yield kernel, policy_kind, specs, reducers


@pytest.mark.parametrize("capability", [(7, 0), (8, 0), (9, 0)], ids=str)
def test_hawkes(capability):
    run_hawkes()
    for kernel, policy_kind, specs, reducers in lowered(hawkes_kernels):
        ptx = lower_to_ptx(kernel, policy_kind, specs, reducers, team_size=32, capability=capability)
        assert ".visible .entry entry" in ptx and ".local" not in ptx, kernel.name
