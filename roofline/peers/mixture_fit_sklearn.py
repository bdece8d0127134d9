"""Whole fits by scikit-learn's two estimators, best of some starts, with as many BLAS threads as ours."""

import functools

from sklearn.mixture import BayesianGaussianMixture, GaussianMixture

from .cytometry_sklearn import ITERATIONS, judged


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

    return [
        judged(name, functools.partial(model.fit_predict, problem.X), judge, threads)
        for name, model in models.items()
    ]
