"""Derivatives of JAX, compiled."""

import math

import jax
import jax.numpy as jnp
import numpy as np

from portable.roofline.contract import Contender
from portable.roofline.digest import digest

jax.config.update("jax_enable_x64", True)


def energy(x):
    d = x[:, None] - x[None]
    return jnp.sum(1.0 / jnp.sqrt(0.01 + jnp.sum(d * d, axis=-1)))


def stencil(u):
    here = u[1:-1, 1:-1]
    around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
    return here * here + 0.1 * (around - 4.0 * here)


def contenders(name, *arrays, threads=None):
    """Return the derivatives of one of the three; `threads` are as many as JAX takes."""
    arrays = [jnp.asarray(v) for v in arrays]
    if name == "energy":
        made = jax.jit(lambda x: (jax.grad(energy)(x),))
    elif name == "stencil":
        made = jax.jit(lambda u, by_new: jax.vjp(stencil, u)[1](by_new[1:-1, 1:-1]))
    else:
        made = jax.jit(lambda a, x, by_y: jax.vjp(jnp.matmul, a, x)[1](by_y))

    def call():
        return jax.block_until_ready(made(*arrays))

    def result():
        return math.fsum(digest(np.asarray(v)) for v in call())

    return [Contender(f"JAX {jax.__version__}, {jax.devices()[0].platform}", call, result=result)]
