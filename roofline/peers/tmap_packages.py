"""Packages that do comparable work: EM for hidden Markov models of other densities, or of one long run."""

import contextlib
import io
import logging
import warnings

import numpy as np

from portable.roofline.contract import Contender


def hmmlearn(values, lengths, n_branches, n_iterations):
    """Normal densities in place of Erlang ones, and no exits; the same runs and the same recursions."""
    from hmmlearn.hmm import GaussianHMM

    logging.getLogger("hmmlearn").setLevel(logging.ERROR)

    def call():
        GaussianHMM(n_branches, n_iter=n_iterations, tol=-np.inf, random_state=1).fit(
            values[:, None], lengths
        )

    return Contender("hmmlearn GaussianHMM", call)


def line_solver(values, lengths, orders, n_iterations):
    """Erlang branches, one run: the runs joined end to end. Its loop runs to one below `iter_max`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from line_solver.lib.kpctoolbox.erchmm import erchmm_emfit

    def call():
        with contextlib.redirect_stdout(io.StringIO()), np.errstate(all="ignore"):
            erchmm_emfit(values, orders, iter_max=n_iterations + 1, iter_tol=0.0, verbose=False)

    return Contender("line-solver erchmm_emfit, one run", call)
