"""Figures of results, by matplotlib: pip install '.[plot]'. Each function returns its axes."""

import numpy as np


from ..shared import need


def _axes(axes, what, title):
    """Return axes for skill against `what`, with integer ticks unless that is theta, and a line at skill
    0."""
    axes = _pyplot().subplots()[1] if axes is None else axes
    axes.xaxis.get_major_locator().set_params(integer="theta" not in what)
    axes.axhline(0.0, color="grey", linewidth=0.5)
    axes.set(xlabel=what, ylabel=r"skill $\rho$", title=title)
    return axes


def _pyplot():
    return need("matplotlib.pyplot", "plot", "figures")


def draw_dimensions(found, axes=None):
    """Draw skill against the embedding dimension, the best marked; `found` is from `embedding_dimension`."""
    axes = _axes(axes, "embedding dimension E", f"simplex projection, best E = {found.best}")
    axes.plot(found.E, found.rho, ".-")
    if found.best:
        axes.axvline(found.best, color="grey", linestyle=":")
    return axes


def draw_theta(found, axes=None):
    """Draw skill against theta; `found` is from `smap`."""
    axes = _axes(axes, r"nonlinearity $\theta$", "S-map")
    axes.plot(found.theta, found.rho, ".-")
    return axes


def draw_convergence(found, axes=None, level=0.95):
    """Draw skill against library size with the band of the samples, and that of surrogates; `found` is from
    `ccm` with one target.
    """
    axes = _axes(axes, "library size", "convergent cross mapping")
    low, high = found.interval(level)
    axes.fill_between(found.library_sizes, low, high, alpha=0.25, label=f"{level:.0%} of libraries")
    axes.plot(found.library_sizes, found.mean, ".-", label="mean")
    if found.surrogate_rho.shape[1]:
        low, high = np.nanquantile(found.surrogate_rho, [(1 - level) / 2, (1 + level) / 2], axis=1)
        axes.fill_between(found.library_sizes, low, high, color="grey", alpha=0.25, label="surrogates")
    axes.legend()
    return axes


def draw_lags(found, axes=None):
    """Draw skill against the lag with its interval, the peak marked; `found` is from `lagged_map` with one
    target."""
    axes = _axes(axes, "lag Tp, steps", f"cross mapping by lag, peak at Tp = {found.peak}")
    axes.fill_between(found.Tp, *found.interval, alpha=0.25)
    axes.plot(found.Tp, found.rho, ".-")
    axes.axvline(found.peak, color="grey", linestyle=":")
    return axes


def cluster_order(rho):
    """Return an order of series in which series with similar skills are adjacent (average linkage by the
    correlation of rows and columns)."""
    tree = need("scipy.cluster.hierarchy", "stats", "clustering")
    both = np.nan_to_num(np.concatenate([rho, rho.T], axis=1))
    return tree.leaves_list(tree.linkage(both, "average")) if len(rho) > 2 else np.arange(len(rho))


def draw_cross_map(rho, axes=None, names=None, cluster=True, libraries=None):
    """Draw the matrix of a cross map, with libraries as rows and targets as columns, clustered if square.

    names, libraries : names of the columns, and of the rows if they differ
    """
    rho = np.asarray(rho)
    axes = _pyplot().subplots()[1] if axes is None else axes
    square = rho.shape[0] == rho.shape[1]
    rows, columns = (cluster_order(rho),) * 2 if cluster and square else map(np.arange, rho.shape)
    image = axes.imshow(rho[np.ix_(rows, columns)], vmin=-1, vmax=1, cmap="RdBu_r", interpolation="nearest")
    axes.figure.colorbar(image, ax=axes, label=r"skill $\rho$")
    axes.set(xlabel="target", ylabel="library", title="cross map")
    libraries = names if square and libraries is None else libraries
    for axis, order, labels in ((axes.xaxis, columns, names), (axes.yaxis, rows, libraries)):
        if labels is not None:
            axis.set_ticks(range(len(order)), [labels[k] for k in order])
    axes.xaxis.set_tick_params(rotation=90)
    return axes
