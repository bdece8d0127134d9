"""Name populations by the markers that their cells carry."""

import numpy as np

# least distance between populations with and without a marker, in deviations within populations
_TOLD_APART = 2.0


def thresholds(medians, deviations):
    """Return thresholds between populations with a marker and those without it, shape (n_channels,); NaN
    if there is none.

    Populations are divided in two by the cut with the smallest sum of squares within the two parts, without
    regard to their sizes; the threshold is the midpoint of the gap.

    Parameters
    ----------
    medians, deviations : ndarrays, shape (n_populations, n_channels)
        Of the transformed intensities of each population's cells.
    """
    n, found = len(medians), np.full(medians.shape[1], np.nan)
    if n < 2:
        return found
    for channel, column in enumerate(np.sort(medians, axis=0).T):
        squares = [column[:cut].var() * cut + column[cut:].var() * (n - cut) for cut in range(1, n)]
        cut = 1 + int(np.argmin(squares))
        low, high = column[:cut].mean(), column[cut:].mean()
        if high - low > _TOLD_APART * np.median(deviations[:, channel]):
            found[channel] = 0.5 * (column[cut - 1] + column[cut])
    return found


def signatures(medians, deviations, names):
    """Return names and signatures of populations.

    Parameters
    ----------
    medians, deviations : ndarrays, shape (n_populations, n_channels)
    names : tuple of str, length n_channels

    Returns
    -------
    short : list of str
        The markers that a population carries, "CD3+ CD4+"; populations with the same name are numbered.
    whole : list of str
        All markers that divide the populations, with + or -.
    """
    limits = thresholds(medians, deviations)
    telling = np.flatnonzero(np.isfinite(limits))
    signs = np.where(medians > limits, "+", "-")
    whole = [[f"{names[c]}{own[c]}" for c in telling] for own in signs]
    short = [" ".join(name for name in own if name.endswith("+")) or "all low" for own in whole]
    numbered = [
        f"{name} ({short[:place].count(name) + 1})" if short.count(name) > 1 else name
        for place, name in enumerate(short)
    ]
    return numbered, list(map(" ".join, whole))
