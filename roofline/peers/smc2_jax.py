"""Waste-free SMC^2 in plain JAX: filters by vmap, compiled; weights and decisions in NumPy; on the GPU if JAX
has one. Filters are copied with their parameters."""

import jax
import jax.numpy as jnp
import numpy as np

from portable.roofline.contract import Contender

from .filters_jax import step


def begin(key, phi, sigma, y, n_particles):
    """A filter after its first observation, as `filters_jax.step` has it."""
    key, first = jax.random.split(key)
    x = sigma / jnp.sqrt(1.0 - phi * phi) * jax.random.normal(first, (n_particles,), y.dtype)
    log_w = -0.5 * (y[0] * y[0] * jnp.exp(-x) + x) - 0.9189385332046727
    return key, x, log_w, jax.scipy.special.logsumexp(log_w) - jnp.log(n_particles), phi, sigma


def run(key, phi, sigma, y, n_particles, end):
    """The same after `end` observations."""
    first = begin(key, phi, sigma, y, n_particles)
    return jax.lax.fori_loop(1, end, lambda t, filters: step(filters, y[t])[0], first)


@jax.jit
def chosen(moved, others, accepted):
    """Filters of proposals that were accepted, and others."""
    return jax.tree.map(
        lambda a, b: jnp.where(accepted.reshape(-1, *[1] * (a.ndim - 1)), a, b), moved, others
    )


@jax.jit
def joined(states):
    """Filters of all states of chains, one chain after another."""
    return jax.tree.map(lambda *parts: jnp.stack(parts, axis=1).reshape(-1, *parts[0].shape[1:]), *states)


taken = jax.jit(lambda filters, rows: jax.tree.map(lambda a: a[rows], filters))
go_on = jax.jit(jax.vmap(lambda filters, y: step(filters, y)[0], (0, None)))
start = jax.jit(jax.vmap(begin, (0, 0, 0, None, None)), static_argnums=4)
anew = jax.jit(jax.vmap(run, (0, 0, 0, None, None, None)), static_argnums=4)


def values(z):
    """phi and sigma of coordinates without bounds, as float32."""
    share = 1.0 / (1.0 + np.exp(-z[:, 0]))
    return np.float32(0.8 + 0.199 * share), np.float32(np.exp(z[:, 1]))


def log_prior(z):
    """Of coordinates: phi uniform from 0.8 to 0.999, sigma log-normal, 0.3 and 0.3, up to a constant."""
    return (
        -np.abs(z[:, 0])
        - 2.0 * np.log1p(np.exp(-np.abs(z[:, 0])))
        - 0.5 * ((z[:, 1] - np.log(0.3)) / 0.3) ** 2
    )


class Population:
    """Parameters and their filters."""

    def __init__(self, y, n_draws, length, n_particles, seed):
        self.y, self.n, self.length, self.n_particles = (
            jnp.asarray(y, jnp.float32),
            n_draws,
            length,
            n_particles,
        )
        self.random, self.key = np.random.default_rng(seed), jax.random.key(seed)

    def keys(self, n):
        self.key, own = jax.random.split(self.key)
        return jax.random.split(own, n)

    def log_evidence(self):
        """Of all observations."""
        n, found, log_w, before = self.n, 0.0, np.zeros(self.n), np.zeros(self.n)
        share = self.random.random(n)
        z = np.stack([np.log(share / (1.0 - share)), self.random.normal(np.log(0.3), 0.3, n)], axis=1)
        filters = start(self.keys(n), *values(z), self.y, self.n_particles)
        for t in range(len(self.y)):
            filters = go_on(filters, self.y[t]) if t else filters
            total = np.asarray(filters[3], np.float64)
            mass = np.log(np.exp(log_w - log_w.max()).sum()) + log_w.max()
            log_w = log_w + total - before
            w = np.exp(log_w - log_w.max())
            found += np.log(w.sum()) + log_w.max() - mass
            before, w = total, w / w.sum()
            if t + 1 == len(self.y) or 1.0 / (w * w).sum() < 0.5 * n:
                z, filters = self.renewed(z, filters, w, t + 1)
                log_w, before = np.zeros(n), np.asarray(filters[3], np.float64)
        return found

    def renewed(self, z, filters, w, end):
        """Waste-free chains of PMMH given the first observations."""
        m, root = self.n // self.length, np.linalg.cholesky(np.cov(z.T, aweights=w) + 1e-12 * np.eye(2))
        rows = np.searchsorted(np.cumsum(w), (np.arange(m) + self.random.random()) / m).clip(0, self.n - 1)
        z, filters = z[rows], taken(filters, rows)
        states = [(z, filters)]
        for _ in range(self.length - 1):
            near = z + 2.38 / np.sqrt(2.0) * self.random.normal(size=z.shape) @ root.T
            moved = anew(self.keys(m), *values(near), self.y, self.n_particles, end)
            ratio = np.asarray(moved[3]) - np.asarray(filters[3]) + log_prior(near) - log_prior(z)
            accepted = np.log(self.random.random(m)) < ratio
            z, filters = np.where(accepted[:, None], near, z), chosen(moved, filters, accepted)
            states.append((z, filters))
        z = np.stack([one for one, _ in states], axis=1).reshape(self.n, 2)
        filters = joined([one for _, one in states])
        return z, (self.keys(self.n), *filters[1:])


def contenders(y, n_draws, length, n_particles, n_chains, threads=None):
    """See `smc2_particles.contenders`; populations one after another."""
    seeds = iter(range(2**31))

    def call():
        runs = [Population(y, n_draws, length, n_particles, next(seeds)) for _ in range(n_chains)]
        return [one.log_evidence() for one in runs]

    label = f"JAX {jax.__version__}, vmap, {jax.devices()[0].platform}"
    return [Contender(label, call, result=lambda: float(np.mean(call())))]
