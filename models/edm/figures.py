"""Figures of results; they want matplotlib: pip install '.[plot]'. Each returns its axes."""

from __future__ import annotations


import numpy as np


from ..shared.extras import need


def _axes(axes, what):
    """Axes of skill against something, which is a whole number unless it is theta, with a line at none."""
    axes = _pyplot().subplots()[1] if axes is None else axes
    axes.xaxis.get_major_locator().set_params(integer="theta" not in what)
    axes.axhline(0.0, color="grey", linewidth=0.5)
    axes.set(xlabel=what, ylabel=r"skill $\rho$")
    return axes


def _pyplot():
    return need("matplotlib.pyplot", "plot", "figures")


def draw_dimensions(found, axes=None):
    """Skill against the embedding dimension, the best marked; `found` from `embedding_dimension`."""
    axes = _axes(axes, "embedding dimension E")
    axes.plot(found.E, found.rho, ".-")
    if found.best:
        axes.axvline(found.best, color="grey", linestyle=":")
    return axes


def draw_theta(found, axes=None):
    """Skill against theta; `found` from `smap`."""
    axes = _axes(axes, r"nonlinearity $\theta$")
    axes.plot(found.theta, found.rho, ".-")
    return axes


def draw_convergence(found, axes=None, level=0.95):
    """Skill against library size with the band of the samples, and that of surrogates; `found` from `ccm` of
    one target.
    """
    axes = _axes(axes, "library size")
    low, high = found.interval(level)
    axes.fill_between(found.library_sizes, low, high, alpha=0.25)
    axes.plot(found.library_sizes, found.mean, ".-", label="target")
    if found.surrogate_rho.shape[1]:
        low, high = np.nanquantile(found.surrogate_rho, [(1 - level) / 2, (1 + level) / 2], axis=1)
        axes.fill_between(found.library_sizes, low, high, color="grey", alpha=0.25, label="surrogates")
        axes.legend()
    return axes


def draw_lags(found, axes=None):
    """Skill against the lag with its interval, the peak marked; `found` from `lagged_map` of one target."""
    axes = _axes(axes, "lag Tp, steps")
    axes.fill_between(found.Tp, *found.interval, alpha=0.25)
    axes.plot(found.Tp, found.rho, ".-")
    axes.axvline(found.peak, color="grey", linestyle=":")
    return axes


def cluster_order(rho):
    """An order of series in which those that map alike lie together (average linkage of correlated rows and
    columns)."""
    tree = need("scipy.cluster.hierarchy", "stats", "clustering")
    both = np.nan_to_num(np.concatenate([rho, rho.T], axis=1))
    return tree.leaves_list(tree.linkage(both, "average")) if len(rho) > 2 else np.arange(len(rho))


def draw_cross_map(rho, axes=None, names=None, cluster=True):
    """The matrix of a cross map, rows libraries and columns targets, clustered if square."""
    rho = np.asarray(rho)
    axes = _pyplot().subplots()[1] if axes is None else axes
    order = cluster_order(rho) if cluster and rho.shape[0] == rho.shape[1] else None
    shown = rho if order is None else rho[np.ix_(order, order)]
    image = axes.imshow(shown, vmin=-1, vmax=1, cmap="RdBu_r", interpolation="nearest")
    axes.figure.colorbar(image, ax=axes, label=r"skill $\rho$")
    axes.set(xlabel="target", ylabel="library")
    if names is not None and order is not None:
        labels = [names[k] for k in order]
        axes.set_xticks(range(len(labels)), labels, rotation=90)
        axes.set_yticks(range(len(labels)), labels)
    return axes
