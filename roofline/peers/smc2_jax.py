"""SMC^2 in plain JAX, waste-free: filters of all populations side by side, compiled; on the GPU if JAX has
one.

Populations are renewed together, where their mean effective sample size is below half, as ours are.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

from portable.roofline.contract import Contender

from .filters_jax import step

LOW, WIDTH, CENTRE, SPREAD = 0.8, 0.199, math.log(0.3), 0.3  # of the priors


def values(z):
    """phi and sigma, and the logarithm of the prior's density at coordinates z without bounds."""
    log_prior = jax.nn.log_sigmoid(z[..., 0]) + jax.nn.log_sigmoid(-z[..., 0])
    log_prior -= 0.5 * ((z[..., 1] - CENTRE) / SPREAD) ** 2
    return LOW + WIDTH * jax.nn.sigmoid(z[..., 0]), jnp.exp(z[..., 1]), log_prior


def begin(key, phi, sigma, y, n):
    """A filter's carry after the first observation."""
    key, first = jax.random.split(key)
    x = sigma / jnp.sqrt(1.0 - phi * phi) * jax.random.normal(first, (n,), y.dtype)
    log_w = -0.5 * (y * y * jnp.exp(-x) + x) - 0.9189385332046727
    return key, x, log_w, jax.scipy.special.logsumexp(log_w) - jnp.log(n), phi, sigma


@functools.partial(jax.jit, static_argnums=4)
def filters(keys, phi, sigma, y, n):
    """Filters of all rows after the first observation."""
    return jax.vmap(begin, (0, 0, 0, None, None))(keys, phi, sigma, y, n)


advance = jax.jit(lambda carry, y: jax.vmap(step, (0, None))(carry, y)[0])


def drawn(key, w, n):
    """Systematic ancestors of a population."""
    return jnp.searchsorted(jnp.cumsum(w), (jnp.arange(n) + jax.random.uniform(key)) / n).clip(0, len(w) - 1)


@functools.partial(jax.jit, static_argnums=(5, 6))
def renew(key, z, carry, w, y, length, n, t, scale):
    """Parameters and filters by chains of PMMH, shapes (populations, parameters, ...), given observations up
    to t; and the share of proposals that were accepted."""
    n_chains, n_draws = w.shape
    n_begun = n_draws // length
    keys = jax.random.split(key, n_chains + 1)
    chosen = jax.vmap(drawn, (0, 0, None))(keys[1:], w, n_begun) + n_draws * jnp.arange(n_chains)[:, None]
    flat = z.reshape(-1, 2)
    weights = w.ravel() / n_chains
    away = flat - weights @ flat
    factor = scale * jnp.linalg.cholesky((weights[:, None] * away).T @ away + 1e-9 * jnp.eye(2))
    at = flat[chosen.ravel()], jax.tree.map(lambda a: a[chosen.ravel()], carry)

    def move(state, key):
        here, own = state
        first, second, third = jax.random.split(key, 3)
        moved = here + jax.random.normal(first, here.shape) @ factor.T
        phi, sigma, log_prior = values(moved)
        found = filters(jax.random.split(second, len(here)), phi, sigma, y[0], n)
        found = jax.lax.fori_loop(1, t + 1, lambda s, c: jax.vmap(step, (0, None))(c, y[s])[0], found)
        ratio = found[3] + log_prior - own[3] - values(here)[2]
        accepted = jnp.log(jax.random.uniform(third, ratio.shape)) < ratio

        def chosen(a, b):
            return jnp.where(accepted.reshape(-1, *[1] * (a.ndim - 1)), a, b)

        keys = jax.random.wrap_key_data(chosen(*(jax.random.key_data(one[0]) for one in (found, own))))
        own = keys, *(chosen(a, b) for a, b in zip(found[1:], own[1:]))
        state = chosen(moved, here), own
        return state, (state, accepted.mean())

    _, ((z, carry), accepted) = jax.lax.scan(move, at, jax.random.split(keys[0], length - 1))
    both = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), at, (z, carry))

    def by_population(a):
        a = a.reshape(length, n_chains, n_begun, *a.shape[2:])
        return jnp.swapaxes(a, 0, 1).reshape(n_chains * n_draws, *a.shape[3:])

    z, carry = jax.tree.map(by_population, both)
    return z.reshape(n_chains, n_draws, 2), carry, accepted.mean()


@functools.partial(jax.jit, static_argnums=2)
def weighed(log_w, added, shape):
    """Log-weights with what an observation adds, weights that sum to 1 in each population, what it adds to
    their log-evidences, and the mean effective sample size."""
    before = jax.scipy.special.logsumexp(log_w, axis=1)
    log_w += added.reshape(shape)
    after = jax.scipy.special.logsumexp(log_w, axis=1)
    w = jnp.exp(log_w - after[:, None])
    return log_w, w, after - before, (1.0 / (w**2).sum(axis=1)).mean()


def evidence(seed, y, n_draws, length, n, n_chains):
    """The logarithm of the mean evidence of the populations."""
    key, first, second, third = jax.random.split(jax.random.key(seed), 4)
    shape, scale = (n_chains, n_draws), 2.38 / math.sqrt(2.0)
    z = jnp.stack(
        [jax.random.logistic(first, shape), CENTRE + SPREAD * jax.random.normal(second, shape)], axis=-1
    )
    log_w, log_z = jnp.zeros(shape), jnp.zeros(n_chains)
    for t in range(len(y)):
        if t == 0:
            phi, sigma, _ = values(z.reshape(-1, 2))
            carry, before = filters(jax.random.split(third, phi.size), phi, sigma, y[0], n), 0.0
        else:
            before = carry[3]
            carry = advance(carry, y[t])
        log_w, w, added, size = weighed(log_w, carry[3] - before, shape)
        log_z += added
        if t + 1 == len(y) or float(size) < 0.5 * n_draws:
            key, own = jax.random.split(key)
            z, carry, rate = renew(own, z, carry, w, y, length, n, t, scale)
            scale *= math.exp(2.0 * (float(rate) - 0.234))
            log_w = jnp.zeros(shape)
    return float(jax.scipy.special.logsumexp(log_z) - math.log(n_chains))


def contenders(y, n_draws, length, n_particles, n_chains, threads=None):
    """See `smc2_particles.contenders`; the platform is in the label, for JAX without CUDA runs on the
    host."""
    y, seeds = jnp.asarray(np.asarray(y).ravel(), jnp.float32), iter(range(1, 2**31))

    def call():
        return evidence(next(seeds), y, n_draws, length, n_particles, n_chains)

    label = f"JAX {jax.__version__}, vmap and scan, {jax.devices()[0].platform}"
    return [Contender(label, call, result=call)]
