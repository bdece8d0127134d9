"""A bootstrap filter in plain JAX: scan over steps, vmap over chains, compiled; on the GPU if JAX has one."""

import jax
import jax.numpy as jnp
import numpy as np

from portable.roofline.contract import Contender


def step(carry, y):
    """One step of one filter: systematic resampling, propagation, weights; log-likelihood so far."""
    key, x, log_w, total, phi, sigma = carry
    key, first, second = jax.random.split(key, 3)
    n = x.shape[0]
    w = jnp.exp(log_w - jax.scipy.special.logsumexp(log_w))
    ancestors = jnp.searchsorted(jnp.cumsum(w), (jnp.arange(n) + jax.random.uniform(first)) / n)
    x = phi * x[jnp.clip(ancestors, 0, n - 1)] + sigma * jax.random.normal(second, (n,), x.dtype)
    log_w = -0.5 * (y * y * jnp.exp(-x) + x) - 0.9189385332046727
    return (key, x, log_w, total + jax.scipy.special.logsumexp(log_w) - jnp.log(n), phi, sigma), None


def log_likelihood(key, phi, sigma, y, n_particles):
    """Of one filter."""
    key, first = jax.random.split(key)
    x = sigma / jnp.sqrt(1.0 - phi * phi) * jax.random.normal(first, (n_particles,), y.dtype)
    log_w = -0.5 * (y[0] * y[0] * jnp.exp(-x) + x) - 0.9189385332046727
    begin = key, x, log_w, jax.scipy.special.logsumexp(log_w) - jnp.log(n_particles), phi, sigma
    return jax.lax.scan(step, begin, y[1:])[0][3]


def contenders(y, phi, sigma, n_particles, n_chains, n_calls, threads=None):
    """See `filters_particles.contenders`; the platform is in the label, for JAX without CUDA runs on the
    host."""
    y = jnp.asarray(y, jnp.float32)
    phis, sigmas = jnp.full(n_chains, phi, jnp.float32), jnp.full(n_chains, sigma, jnp.float32)
    batch = jax.jit(jax.vmap(log_likelihood, (0, 0, 0, None, None)), static_argnums=4)
    keys = iter(range(2**31))

    def filters():
        return batch(jax.random.split(jax.random.key(next(keys)), n_chains), phis, sigmas, y, n_particles)

    def call():
        for _ in range(n_calls):
            found = np.asarray(filters())  # PMMH decides on the host between two steps
        return found

    return [
        Contender(
            f"JAX {jax.__version__}, scan and vmap, {jax.devices()[0].platform}",
            call,
            result=lambda: float(np.asarray(filters()).mean()),
        )
    ]
