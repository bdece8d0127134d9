"""Put a kernel into JAX: a function with derivatives, for jax.grad, jit and samplers such as BlackJAX.

JAX calls the kernel by a callback, and in place of its derivatives by JAX takes those of `gradient="b"`.
`pip install jax blackjax`, then `python jax_model.py`.
"""

import jax
import jax.numpy as jnp
import numpy as np
from nutpie_model import K, data, value_and_gradient

jax.config.update("jax_enable_x64", True)


def in_jax(x, counts):
    """Return the log-density as a function of JAX arrays."""
    shapes = jax.ShapeDtypeStruct((), jnp.float64), jax.ShapeDtypeStruct((K,), jnp.float64)

    def host(b):
        return value_and_gradient(np.asarray(b), x, counts)

    def both(b):
        return jax.pure_callback(host, shapes, b, vmap_method="sequential")

    @jax.custom_vjp
    def log_density(b):
        return both(b)[0]

    log_density.defvjp(both, lambda gradient, factor: (factor * gradient,))
    return log_density


def sample(log_density, seed, draws=400):
    """Return draws of the coefficients by BlackJAX's NUTS, shape (draws, K)."""
    import blackjax

    warm, run = jax.random.split(jax.random.key(seed))
    adapted, _ = blackjax.window_adaptation(blackjax.nuts, log_density).run(warm, jnp.zeros(K), 300)
    step = blackjax.nuts(log_density, **adapted.parameters).step

    def one(state, key):
        state, _ = step(key, state)
        return state, state.position

    return jax.lax.scan(one, adapted.state, jax.random.split(run, draws))[1]


def main():
    b, x, counts = data(1)
    log_density = in_jax(x, counts)
    slopes = jax.jit(jax.grad(log_density))(jnp.asarray(b))
    np.testing.assert_allclose(slopes, value_and_gradient(b, x, counts)[1], rtol=1e-15)
    draws = np.asarray(sample(log_density, 2))
    off = (draws.mean(axis=0) - b) / draws.std(axis=0)
    print("truth less mean, in standard deviations:", np.round(off, 2))
    assert np.sum(off**2) < 32.9  # of a chi-squared number with 12 degrees of freedom, once in a thousand


if __name__ == "__main__":
    main()
