"""Figures of model against data: gaps, lengths of runs, correlations. They need matplotlib (`pip install
".[plot]"`)."""

import numpy as np

from ..shared import InputError, new_figure
from ..shared.pairs import correlation

_POINTS = 200
_MOST_LAGS = 8


def overview(model, runs):
    """Draw three panels of data against model: survival of gaps, distribution of run lengths, lag
    correlations.

    Parameters
    ----------
    model : TransientMAP
    runs : Runs

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure = new_figure(12.0, 3.6)
    gaps, lengths, correlations = figure.subplots(1, 3)
    plot_gaps(gaps, model, runs)
    plot_lengths(lengths, model, runs)
    plot_correlations(correlations, model, runs)
    return figure


def plot_gaps(axes, model, runs):
    """Draw the share of gaps that are longer than x; open gaps are left out of the data."""
    x = np.sort(runs.values[runs.complete])
    places = np.unique(len(x) - np.geomspace(1, len(x), _POINTS).astype(int))  # even on the logarithmic axis
    axes.step(x[places], 1.0 - (places + 1) / len(x), where="post", label="data")
    grid = np.linspace(0.0, np.quantile(x, 0.999), _POINTS)
    axes.plot(grid, model.gap_survival(grid), "--", label="model")
    axes.set(xlabel="gap", ylabel="share that is longer", yscale="log", xlim=(0.0, grid[-1] or 1.0))
    axes.set_ylim(bottom=max(5e-4, 0.5 / len(x)))
    axes.legend()


def plot_lengths(axes, model, runs):
    """Draw shares of runs of 1, 2, ... gaps; censored runs are left out of the data."""
    lengths = runs.lengths[~runs.censored]
    if not len(lengths):
        raise InputError("runs are all censored: no run has a known number of gaps")
    most = max(int(np.quantile(lengths, 0.99)), 2)
    n = np.arange(1, most + 1)
    axes.bar(
        n,
        np.bincount(np.minimum(lengths, most + 1), minlength=most + 2)[1 : most + 1] / len(lengths),
        label="data",
    )
    axes.plot(n, model.arrivals_distribution(most), "k.--", label="model")
    axes.set(xlabel="gaps of a run", ylabel="share of runs")
    axes.legend()


def plot_correlations(axes, model, runs):
    """Draw correlations of gaps that lie 1, 2, ... apart in a run."""
    lags = np.arange(1, min(_MOST_LAGS, max(int(runs.lengths.max()) - 1, 1)) + 1)
    axes.plot(lags, [empirical_correlation(runs, lag) for lag in lags], "o", label="data")
    axes.plot(lags, [_model_correlation(model, lag) for lag in lags], "x--", label="model")
    axes.axhline(0.0, color="0.7", lw=0.8)
    axes.set(xlabel="lag", ylabel="correlation of gaps")
    axes.legend()


def empirical_correlation(runs, lag):
    """Compute the correlation of x_k and x_(k+lag) over all pairs of complete gaps within runs; NaN if there
    are too few."""
    run = np.repeat(np.arange(runs.n_runs), runs.lengths)
    early = (
        np.flatnonzero((run[:-lag] == run[lag:]) & runs.complete[lag:])
        if lag < runs.n_gaps
        else np.empty(0, int)
    )
    return correlation(runs.values[early], runs.values[early + lag])


def _model_correlation(model, lag):
    try:
        return model.lag_correlation(int(lag))
    except InputError:  # no run is that long
        return np.nan
