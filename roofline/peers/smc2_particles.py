"""SMC^2 by particles 0.4 (Chopin), waste-free: a population a process."""

import concurrent.futures
import functools
import math
import multiprocessing

import numpy as np

from portable.roofline.contract import Contender

from .filters_particles import Volatility, distributions, particles

from particles import smc_samplers


class Anywhere(Volatility):
    """The same, which proposals outside of the prior can make too: their filters are not run."""

    def PX0(self):  # noqa: N802  (their names)
        return distributions.Normal(scale=self.sigma / math.sqrt(max(1.0 - self.phi**2, 1e-9)))


def one(y, n_draws, length, n_particles, seed):
    """The log-evidence of one population."""
    np.random.seed(seed)  # noqa: NPY002  (particles draws from it)
    prior = distributions.StructDist(
        {"phi": distributions.Uniform(0.8, 0.999), "sigma": distributions.LogNormal(math.log(0.3), 0.3)}
    )
    target = smc_samplers.SMC2(
        ssm_cls=Anywhere,
        prior=prior,
        data=y,
        init_Nx=n_particles,
        len_chain=length,
        smc_options={"resampling": "systematic", "ESSrmin": 0.5},
    )
    sampling = particles.SMC(fk=target, N=n_draws // length, ESSrmin=0.5)
    sampling.run()
    return sampling.logLt


def contenders(y, n_draws, length, n_particles, n_chains, threads):
    """Parameters
    ----------
    y : ndarray, shape (n_steps,)
    n_draws, length, n_particles, n_chains : int
        Parameters of a population, states of a chain, particles of a filter, populations.
    threads : int
        What ours may use: as many processes.

    Returns
    -------
    list of Contender
    """
    pool = concurrent.futures.ProcessPoolExecutor(threads, mp_context=multiprocessing.get_context("spawn"))
    list(pool.map(functools.partial(one, y[:3], 4, 2, 8), range(2 * threads)))  # starts them, and compiles
    seeds = iter(range(1, 2**31))

    def call():
        run = functools.partial(one, y, n_draws, length, n_particles)
        return list(pool.map(run, [next(seeds) for _ in range(n_chains)]))

    return [Contender(f"particles, {threads} processes", call, result=lambda: float(np.mean(call())))]
