"""One EM iteration by scikit-learn's GaussianMixture, with as many BLAS threads as ours."""

import os

import numpy as np
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

from portable.roofline.contract import Contender


def contenders(x, means, *, threads=None):
    """From unit covariances and equal weights.

    Parameters
    ----------
    x : ndarray, shape (n_points, p)
    means : ndarray, shape (k, p)
    threads : int, optional
        All cores if not given.

    Returns
    -------
    list of Contender
    """
    k, p = means.shape
    mixture = GaussianMixture(k, covariance_type="full", init_params="random_from_data", random_state=0)
    found = {}

    def set_start():
        mixture.weights_ = np.full(k, 1.0 / k, x.dtype)
        mixture.means_ = means.astype(x.dtype)
        mixture.covariances_ = np.tile(np.eye(p, dtype=x.dtype), (k, 1, 1))
        mixture.precisions_cholesky_ = mixture.covariances_.copy()

    def iteration():
        """What GaussianMixture.fit repeats."""
        set_start()
        with threadpool_limits(min(threads or os.cpu_count(), os.cpu_count())):
            found["mean"], log_responsibilities = mixture._e_step(x)
            mixture._m_step(x, log_responsibilities)

    return [Contender("scikit-learn", iteration, result=lambda: float(found["mean"]) * len(x))]
