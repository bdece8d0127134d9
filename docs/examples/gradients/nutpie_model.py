"""Sample a model of one's own by nutpie: Poisson regression with twelve coefficients.

The log-density is a kernel; `gradient="b"` gives its derivatives by the array of coefficients, in reverse
mode. `pip install nutpie`, then `python nutpie_model.py`.
"""

import numpy as np

import portable as pk

N, K = 600, 12


@pk.kernel
def log_density(i, b, x, counts):
    """The share of observation i; normal priors of scale 1 are shared out evenly."""
    log_rate, squares = 0.0, 0.0
    for k in range(b.shape[0]):
        log_rate += b[k] * x[i, k]
        squares += b[k] * b[k]
    return counts[i] * log_rate - pk.exp(log_rate) - 0.5 * squares / x.shape[0]


def data(seed):
    """Return (coefficients, x, counts) of a simulated data set."""
    rng = np.random.default_rng(seed)
    b, x = rng.normal(size=K) * 0.5, rng.normal(size=(N, K)) * 0.5
    return b, x, rng.poisson(np.exp(x @ b)).astype(float)


def value_and_gradient(b, x, counts):
    """Return the log-density and its derivatives, shape (K,)."""
    return pk.parallel_reduce(
        pk.RangePolicy(0, len(counts), space="threads"), log_density, b, x, counts, gradient="b"
    )


def sample(x, counts, seed):
    """Return 400 draws of the coefficients by each of two chains, shape (2, 400, K)."""
    import nutpie

    model = nutpie.compiled_pyfunc.from_pyfunc(
        K,
        lambda: lambda b: value_and_gradient(b, x, counts),
        lambda *seeds: lambda b: {"b": b},
        [np.dtype(np.float64)],
        [(K,)],
        ["b"],
    )
    found = nutpie.sample(model, draws=400, tune=300, chains=2, cores=1, seed=seed, progress_bar=False)
    return np.asarray(found.posterior["b"])


def main():
    b, x, counts = data(1)
    draws = sample(x, counts, 2).reshape(-1, K)
    off = (draws.mean(axis=0) - b) / draws.std(axis=0)
    print("truth less mean, in standard deviations:", np.round(off, 2))
    assert np.sum(off**2) < 32.9  # of a chi-squared number with 12 degrees of freedom, once in a thousand


if __name__ == "__main__":
    main()
