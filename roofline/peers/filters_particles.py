"""Bootstrap filters by particles 0.4 (Chopin): a filter a chain, spread over as many processes as ours has
threads."""

import concurrent.futures
import functools
import math
import multiprocessing
import warnings

import numpy as np

from portable.roofline.contract import Contender

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import particles
        from particles import distributions, state_space_models
except ImportError as error:
    raise ImportError(
        f"{error}; `pip install --no-deps particles==0.4` brings it, which asks for NumPy "
        "below 2, though its "
        "filters run with NumPy 2"
    ) from error


class Volatility(state_space_models.StateSpaceModel):
    """The case's model."""

    def PX0(self):  # noqa: N802  (their names)
        return distributions.Normal(scale=self.sigma / math.sqrt(1.0 - self.phi**2))

    def PX(self, t, xp):  # noqa: N802
        return distributions.Normal(loc=self.phi * xp, scale=self.sigma)

    def PY(self, t, xp, x):  # noqa: N802
        return distributions.Normal(scale=np.exp(0.5 * x))


def one(y, phi, sigma, n_particles, seed):
    """The log-likelihood of one filter."""
    np.random.seed(seed)  # noqa: NPY002  (particles draws from it)
    filtering = particles.SMC(
        fk=state_space_models.Bootstrap(ssm=Volatility(phi=phi, sigma=sigma), data=y),
        N=n_particles,
        resampling="systematic",
        ESSrmin=0.5,
    )
    filtering.run()
    return filtering.logLt


def contenders(y, phi, sigma, n_particles, n_chains, n_calls, threads):
    """Parameters
    ----------
    y : ndarray, shape (n_steps,)
    phi, sigma : float
    n_particles, n_chains : int
    n_calls : int
        Filters of each chain in a call.
    threads : int
        What ours may use: as many processes.

    Returns
    -------
    list of Contender
    """
    pool = concurrent.futures.ProcessPoolExecutor(threads, mp_context=multiprocessing.get_context("spawn"))
    run = functools.partial(one, y, phi, sigma, n_particles)
    list(pool.map(run, range(2 * threads)))  # starts the processes, and compiles
    seeds = iter(range(1, 2**31))

    def call(n):
        return list(pool.map(run, [next(seeds) for _ in range(n)], chunksize=max(1, n // (4 * threads))))

    return [
        Contender(
            f"particles, {threads} processes",
            lambda: call(n_calls * n_chains),
            result=lambda: float(np.mean(call(n_chains))),
        )
    ]
