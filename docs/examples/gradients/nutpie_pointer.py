"""Give nutpie a C function pointer: no Python runs while it samples the model of nutpie_model.py.

The density of one observation is a `@pk.function`; its derivatives, `pk.derivative`, are called in numba's
code, of which `numba.cfunc` makes the function that nutpie calls. `pip install nutpie numba`, then
`python nutpie_pointer.py`. The signature is that of nutpie 0.16, as it makes it for models of PyMC.
"""

import numba
import numpy as np
from numba.types import CPointer, double, int64, uint64, voidptr
from nutpie_model import K, N, data

import portable as pk

pk.numba.register()


@pk.function
def log_density(b, x, i, count):
    """Return the share of observation i; normal priors of scale 1 are shared out evenly."""
    log_rate, squares = 0.0, 0.0
    for k in range(pk.static(K)):
        log_rate += b[k] * x[i, k]
        squares += b[k] * b[k]
    return count * log_rate - pk.exp(log_rate) - 0.5 * squares / x.shape[0]


value_and_slopes = pk.derivative(log_density, "b", value=True)


def pointer(x, counts):
    """Return the C function of nutpie: the log-density and its derivatives at a place."""

    @numba.cfunc(int64(uint64, CPointer(double), CPointer(double), CPointer(double), voidptr))
    def function(n, place, slopes, value, user_data):
        b = numba.carray(place, K)
        numbers = numba.np.unsafe.ndarray.to_fixed_tuple(b, K)
        value[0] = 0.0
        for k in range(K):
            slopes[k] = 0.0
        for i in range(N):
            found = value_and_slopes(numbers, x, i, counts[i])
            value[0] += found[0]
            for k in range(K):
                slopes[k] += found[1 + k]
        return 0

    return function


@numba.cfunc(int64(uint64, uint64, CPointer(double), CPointer(double), voidptr))
def expanded(n, n_expanded, place, out, user_data):
    for k in range(K):
        out[k] = place[k]
    return 0


def sample(x, counts, seed, draws=400, chains=2):
    """Return draws of the coefficients, shape (chains, draws, K)."""
    import nutpie
    from nutpie.compile_pymc import CompiledPyMCModel

    model = CompiledPyMCModel(
        dims={},
        _coords={},
        _shapes={"b": (K,)},
        compiled_logp_func=pointer(x, counts),
        compiled_expand_func=expanded,
        initial_point_func=lambda seed: np.zeros(K),
        shared_data={},
        user_data=np.zeros(1),
        n_expanded=K,
        shape_info=(["b"], [slice(0, K)], [(K,)]),
        logp_func=None,
        expand_func=None,
        _n_dim=K,
    )
    found = nutpie.sample(model, draws=draws, tune=300, chains=chains, cores=1, seed=seed, progress_bar=False)
    return np.asarray(found.posterior["b"])


def main():
    b, x, counts = data(1)
    draws = sample(x, counts, 2).reshape(-1, K)
    off = (draws.mean(axis=0) - b) / draws.std(axis=0)
    print("truth less mean, in standard deviations:", np.round(off, 2))
    assert np.sum(off**2) < 32.9  # of a chi-squared number with 12 degrees of freedom, once in a thousand


if __name__ == "__main__":
    main()
