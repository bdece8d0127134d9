"""Whole fits by scikit-learn's two estimators, best of some starts, with as many BLAS threads as ours."""

import os
import warnings

from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture
from threadpoolctl import threadpool_limits

from portable.roofline.contract import Contender

ITERATIONS = 300


def contenders(problem, most, judge, *, starts, threads=None):
    """GaussianMixture, told the true number of components, and BayesianGaussianMixture, offered as many as
    ours.

    Parameters
    ----------
    problem : portable.roofline.cases.mixture_fit.Problem
    most : int
        Components offered.
    judge : callable of labels and a name
        Keeps what the fit found and returns its adjusted Rand index.
    starts : int
    threads : int, optional
        All cores if not given.

    Returns
    -------
    list of Contender
    """
    options = {"n_init": starts, "max_iter": ITERATIONS, "random_state": 0}
    models = {
        "GaussianMixture, told the number": GaussianMixture(problem.k, **options),
        "BayesianGaussianMixture": BayesianGaussianMixture(n_components=most, **options),
    }

    def contender(name, model):
        found = {}

        def fit():
            with threadpool_limits(min(threads or os.cpu_count(), os.cpu_count())), warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                found["labels"] = model.fit_predict(problem.X)

        return Contender(name, fit, result=lambda: judge(found["labels"], name))

    return [contender(name, model) for name, model in models.items()]
