"""The kernel that evaluates a log-likelihood at rows of parameters."""

import portable as pk


@pk.kernel
def log_likelihoods(r, log_likelihood, n_params, params, data, found):
    """The function's value at row r of params, which it reads once; its data by what it does."""
    own = pk.local(n_params, params.dtype)
    for p in range(n_params):
        own[p] = params[r, p]
    found[r] = log_likelihood(own, data)
