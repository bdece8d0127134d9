"""Draw figures of a fitted mixture."""

import math

import numpy as np


from ..shared import new_figure
from . import covariance

_LEAST_WEIGHT = 0.005  # components of smaller weight appear only in the sum
_PLACES, _BINS, _COLUMNS = 400, 120, 4
_WITHIN = (0.0005, 0.9995)  # quantiles between which a marginal is drawn


def marginals_of(model, X, names):
    """Draw each coordinate's histogram with the mixture's density and those of its larger components.

    Parameters
    ----------
    model : DirichletMixture, fitted
    X : ndarray, shape (n_samples, n_features)
    names : list of str

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InputError
        Matplotlib is not installed.
    """
    figure, axes_of = grid(len(names), _COLUMNS, 3.2, 2.4)
    for c, axes in enumerate(axes_of):
        ends = zip(_WITHIN, ("lower", "higher"))  # quantiles are points, so that also few points are drawn
        low, high = (np.quantile(X[:, c], share, method=method) for share, method in ends)
        axes.hist(X[:, c], bins=_BINS, range=(low, high), density=True, color="0.85")
        places = np.linspace(low, high, _PLACES)
        parts = component_densities(model, c, places)
        axes.plot(places, parts[model.weights_ >= _LEAST_WEIGHT].T, linewidth=0.7)
        axes.plot(places, parts.sum(axis=0), color="black", linewidth=1.2)
        axes.set_xlabel(names[c])
        axes.set_yticks([])
    return figure


def grid(n, most, width, height, below=0.0):
    """Return a figure of n plots, at most `most` in a row, with `below` inches below them, and the plots'
    axes."""
    columns = min(most, n)
    rows = math.ceil(n / columns)
    figure = new_figure(width * columns, height * rows + below)
    axes_of = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in axes_of[n:]:
        axes.set_axis_off()
    return figure, axes_of[:n]


def component_densities(model, column, places):
    """Return pi_j times the normal density of one coordinate, shape (k, n_places)."""
    k, p = model.means_.shape
    deviations = np.sqrt(covariance.variances(model.covariance, model.covariances_, k, p)[:, column])[:, None]
    z = (places - model.means_[:, column, None]) / deviations
    return model.weights_[:, None] * np.exp(-0.5 * z * z) / (deviations * math.sqrt(2.0 * math.pi))
