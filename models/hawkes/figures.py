"""Figures of an analysis by matplotlib: the places and times of triggered events, the posterior, and the
goodness of fit."""

import math

import numpy as np

from ..shared import ShapeError, as_numbers, axes_or_new, check_kind, new_figure
from .checks import check_params
from .residuals import intensity_grid, Residuals, ThinnedResiduals
from .posterior import Posterior


def _events(array, name, n_dims, probabilities):
    """Return a property of the events, and their probabilities, as arrays of equal length."""
    array, probabilities = as_numbers(array, name, n_dims), as_numbers(probabilities, "probabilities", 1)
    if len(array) != len(probabilities) or not len(array):
        raise ShapeError(
            f"probabilities has {len(probabilities)} entries, {name} {len(array)}; expected one per event"
        )
    return array, probabilities


def probability_map(locations, probabilities, *, axes=None):
    """Draw a map of triggered events: the distinct places, coloured by the mean probability of their
    events (the paper's Figure 3, left).

    Parameters
    ----------
    locations : ndarray, shape (n_events, n_dims), kilometres
        The first two dimensions are drawn; one dimension is drawn against the probability.
    probabilities : ndarray, shape (n_events,)
    axes : matplotlib Axes, optional
        The axes to draw on; if not given, those of a new figure, which is `axes.figure` of the result.

    Returns
    -------
    matplotlib Axes
    """
    locations, probabilities = _events(locations, "locations", 2, probabilities)
    axes = axes_or_new(axes, 6.4, 5.6)
    if locations.shape[1] == 1:
        axes.plot(locations[:, 0], probabilities, ".", markersize=math.sqrt(_area(len(locations))))
        axes.set(xlabel="x (km)", ylabel="probability of having been triggered")
        return axes
    # rounded coordinates are shared by many events
    places, which = np.unique(locations[:, :2], axis=0, return_inverse=True)
    mean = np.bincount(which.ravel(), probabilities) / np.bincount(which.ravel())
    shown = axes.scatter(
        *places.T, c=mean, s=_area(len(places)), cmap="viridis", vmin=0, vmax=1, linewidths=0, rasterized=True
    )
    axes.figure.colorbar(shown, ax=axes, label="probability of having been triggered")
    axes.set(xlabel="x (km)", ylabel="y (km)", aspect="equal")
    return axes


def _area(n):
    """Return the area of a dot, in square points: large enough to be visible if there are few events, and
    small enough not to overlap if there are many."""
    return min(max(8000.0 / n, 3.0), 36.0)


def posterior_densities(posterior, names=None):
    """Draw histograms of the draws of each parameter, with mean and 95% interval (the paper's Figure 2).

    Parameters
    ----------
    posterior : Posterior
    names : sequence of str, optional
        Parameters or reciprocals such as '1/omega'; all sampled parameters if not given.

    Returns
    -------
    matplotlib Figure
    """
    check_kind(posterior, "posterior", Posterior, "be hawkes.Posterior")
    names = list(names or posterior.free)
    figure = new_figure(3.0 * len(names), 2.8)
    for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names):
        draws = posterior[name].ravel()
        low, high = np.quantile(draws, [0.025, 0.975])
        axes.hist(draws, bins=60, density=True, color="0.75")
        axes.axvline(draws.mean(), color="C0")
        axes.axvspan(low, high, color="C0", alpha=0.15, linewidth=0)
        unit = posterior.kind.unit(name)
        axes.locator_params(axis="x", nbins=4)
        axes.set(
            xlabel=name if unit == "1" else f"{name} ({unit})",
            yticks=[],
            title=f"{draws.mean():.4g} ({low:.4g}, {high:.4g})",
        )
        axes.title.set_fontsize("small")
    return figure


def probabilities_in_time(times, probabilities, *, n_bins=200, axes=None):
    """Draw counts of events over time, and the expected numbers of triggered events among them.

    Parameters
    ----------
    times : ndarray, shape (n_events,), hours
    probabilities : ndarray, shape (n_events,)
    n_bins : int
    axes : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
    """
    times, probabilities = _events(times, "times", 1, probabilities)
    axes = axes_or_new(axes, 8.0, 3.2)
    edges = np.linspace(times[0], times[-1], n_bins + 1)
    counts, triggered = np.histogram(times, edges)[0], np.histogram(times, edges, weights=probabilities)[0]
    axes.stairs(counts, edges / 24.0, fill=True, color="0.8", label="all events")
    axes.stairs(triggered, edges / 24.0, fill=True, color="C0", label="expected to be triggered by others")
    axes.set(xlabel="time (days)", ylabel=f"events in {(edges[1] - edges[0]) / 24.0:.3g} days")
    axes.legend()
    return axes


def residual_plot(found, *, axes=None):
    """Draw quantiles of exp(-gap) against those of the uniform distribution, with the 95%
    Kolmogorov-Smirnov band.

    Parameters
    ----------
    found : Residuals
    axes : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
    """
    check_kind(found, "found", Residuals, "come from residuals")
    axes = axes_or_new(axes, 4.6, 4.4)
    n = len(found.gaps)
    theory = (np.arange(n) + 0.5) / n
    band = 1.358 / np.sqrt(n)  # the 95% point of Kolmogorov's distribution
    axes.fill_between(theory, theory - band, theory + band, color="0.85", linewidth=0)
    axes.plot(theory, theory, color="0.4", linewidth=0.8)
    axes.plot(theory, np.sort(np.exp(-found.gaps)), color="C0")
    axes.set(
        xlabel="uniform",
        ylabel="exp(-expected events between events)",
        xlim=(0, 1),
        ylim=(0, 1),
        aspect="equal",
        title=f"KS {found.statistic:.3g}, p = {found.p_value:.2g}",
    )
    return axes


def thinned_plot(found, *, axes=None):
    """Draw super-thinned residuals in space: retained events and added points."""
    check_kind(found, "found", ThinnedResiduals, "come from thinned_residuals")
    axes = axes_or_new(axes, 5.6, 5.2)
    for which, label in ((found.is_event, "events kept"), (~found.is_event, "drawn")):
        axes.plot(*found.locations[which, :2].T, ".", markersize=3.0, label=label)
    axes.set(
        xlabel="x (km)", ylabel="y (km)", aspect="equal", title=f"even in space: p = {found.p_value:.2g}"
    )
    axes.legend()
    return axes


def decay_plot(params, *, axes=None):
    """Draw the density of delays of offspring, on logarithmic axes.

    Parameters
    ----------
    params : Parameters
    axes : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
    """
    check_params(params)
    axes, trigger, q = axes_or_new(axes, 4.6, 4.0), params.triggering, params.kernel_values
    whole = float(trigger.integral(min(trigger.most_h, 1e12), 0.0, q))
    grid = np.geomspace(1e-6, 1e6, 400)
    shares = np.array([float(trigger.integral(v, 0.0, q)) for v in grid]) / whole
    kept = (shares > 1e-6) & (shares < 1.0 - 1e-6)
    density = np.diff(shares) / np.diff(grid)
    middle = np.sqrt(grid[1:] * grid[:-1])
    shown = (kept[1:] | kept[:-1]) & (density > 0.0)
    axes.loglog(middle[shown], density[shown], color="C0")
    axes.set(xlabel="delay (h)", ylabel="density of offspring (1/h)")
    return axes


def intensity_map(likelihood, params, time_h=None, *, n_points=60, axes=None):
    """Draw a map of the intensity at one time, with the earlier events.

    Parameters
    ----------
    likelihood : Likelihood
        Of events in two dimensions.
    params : Parameters
    time_h : float, optional
        On the axis of the events' times; the end of the record if not given.
    n_points : int
        Of the grid, along each dimension.
    axes : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
    """
    if likelihood.n_dims != 2:
        raise ShapeError(f"likelihood has events in {likelihood.n_dims} dimensions; expected 2 for a map")
    axes = axes_or_new(axes, 6.4, 5.6)
    places = likelihood.sums.locations + likelihood.centre
    when = likelihood.origin_h + likelihood.horizon_h if time_h is None else time_h
    grid = [np.linspace(low, high, n_points) for low, high in zip(places.min(axis=0), places.max(axis=0))]
    shown = axes.pcolormesh(
        *grid,
        intensity_grid(likelihood, params, grid, [when])[0].T,
        cmap="viridis",
        shading="nearest",
        rasterized=True,
    )
    axes.figure.colorbar(shown, ax=axes, label="events per km$^2$ and hour")
    before = likelihood.sums.times + likelihood.origin_h <= when
    axes.plot(*places[before].T, ".", color="white", markersize=1.0, alpha=0.4)
    axes.set(xlabel="x (km)", ylabel="y (km)", aspect="equal", title=f"{when:.6g} h")
    return axes
