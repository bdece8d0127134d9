"""Estimate spillover matrices from single stains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...shared import Array, InputError, Names, PathLike, check_choice, check_kind, warn, write_csv
from ..estimator import DirichletMixture
from .channels import colours_of
from .samples import Sample, check_samples, check_spillover, check_used

_COFACTOR = 150.0  # of the arcsinh scale on which stained and unstained cells are separated
_LEAST_CELLS, _LEAST_SHARE = 50, 0.01  # stained cells, and unstained ones, at least: their number and share
_APART = 3.0  # least distance between stained and unstained cells in standard deviations
_ENDS = 0.01, 0.99  # quantiles whose difference measures how much cells differ in a detector


def spillover_of(
    controls: Sequence[Sample] | Mapping[str, Sample], unstained: Sample | None = None
) -> tuple[Names, Array]:
    """Estimate a spillover matrix from single stains, by medians of stained and unstained cells.

    Parameters
    ----------
    controls : sequence of Sample, or dict of them by their detector
        Cells or beads with one dye each. If the detector is not given, it is the one in which a control's
        cells differ most.
    unstained : Sample, optional
        Cells without any dye. If not given, each control contains unstained cells in addition to the stained
        ones.

    Returns
    -------
    channels : tuple of str
        Detectors that have a control, in the order of the first control's channels.
    matrix : ndarray, shape (n, n)
        The share of each dye's light (rows) that each detector measures (columns), in the form of `Panel.of`.

    Raises
    ------
    InputError
        The controls are of different panels, two are for one detector, or the stained cells of one cannot be
        distinguished from unstained ones.

    Warns
    -----
    UserWarning
        A detector has no control.

    References
    ----------
    C. B. Bagwell, E. G. Adams: Fluorescence spectral overlap compensation for any number of flow cytometry
    parameters. Annals of the New York Academy of Sciences 677 (1993), 167.
    """
    samples = list(controls.values() if isinstance(controls, Mapping) else controls)
    detectors = list(controls) if isinstance(controls, Mapping) else [None] * len(samples)
    check_samples(samples, "controls")
    if unstained is not None:
        check_kind(unstained, "unstained", Sample, "be cytometry.Sample")
    first = samples[0]
    colours = [first.channels[place] for place in colours_of(first.channels)]
    if not colours:
        raise InputError(f"controls: none of the channels {list(first.channels)} of {first.name} is a colour")
    for sample in filter(None, (*samples, unstained)):
        _check_same(sample, first, colours)
    negative = unstained and _light(unstained, colours)
    rows: dict[str, Array] = {}
    for sample, channel in zip(samples, detectors):
        channel, row = _row(sample, channel, colours, negative)
        if channel in rows:
            raise InputError(
                f"controls: {sample.name} is brightest in {channel}, as another control is; name the "
                "detectors by a dict"
            )
        rows[channel] = row
    without = [channel for channel in colours if channel not in rows]
    if without:
        warn(f"no control for {', '.join(without)}; these are left as they are", UserWarning)
    own = tuple(channel for channel in colours if channel in rows)
    at = list(map(colours.index, own))
    return check_spillover("controls", own, np.array([rows[channel][at] for channel in own]))


def write_spillover(path: PathLike, channels: Sequence[str], matrix: Array) -> None:
    """Write a spillover matrix to a file for `read_spillover` or `--compensation`."""
    write_csv(path, "path", {"": np.array(channels)} | dict(zip(channels, np.asarray(matrix).T)))


def _check_same(sample, first, colours):
    own = [sample.channels[place] for place in colours_of(sample.channels)]
    odd = sorted({*own} ^ {*colours})
    if odd:
        raise InputError(
            f"controls: {sample.name} has the colours {', '.join(own) or 'none'}, {first.name} "
            f"{', '.join(colours)}: only one has {odd[0]}. Expected single stains of one panel"
        )


def _light(sample, colours):
    """Return the intensities, on the linear scale, of the cells that are not saturated."""
    places = list(map(sample.channels.index, colours))
    light = np.asarray(sample.X, np.float64)[:, places]
    good = (light < sample.limits[places]).all(axis=1)
    check_used(sample, good, colours)
    return (light / sample.gains[places])[good]


def _row(sample, channel, colours, negative):
    """Return the detector of a control, and the difference between its stained and unstained cells in each
    detector, as a multiple of the difference in its own."""
    light, name = _light(sample, colours), sample.name
    if channel is None:
        channel = colours[np.ptp(np.quantile(light, _ENDS, axis=0), axis=0).argmax()]
    channel = sample.channels[sample.place(channel)]
    place = colours.index(check_choice(channel, f"the detector of {name}", colours))
    stained = _stained(np.arcsinh(light[:, place : place + 1] / _COFACTOR))
    if stained is None and negative is None:
        raise InputError(
            f"controls: the stained cells of {name} look like unstained ones in {channel}; give "
            "unstained=, or name the detectors by a dict"
        )
    bright = np.median(light if stained is None else light[stained], axis=0)
    gain = bright - np.median(light[~stained] if negative is None else negative, axis=0)
    if not gain[place] > 0.0:
        raise InputError(f"controls: {name} is no brighter in {channel} than unstained cells")
    return channel, gain / gain[place]


def _stained(scaled):
    """Return a mask of the stained cells, from a mixture of two components, or None if the cells are all
    alike."""
    least = max(_LEAST_CELLS, _LEAST_SHARE * len(scaled))
    if len(scaled) < 2 * least or not np.ptp(scaled):
        return None
    model = DirichletMixture(2, tol=1e-4, random_state=0, space="serial").fit(scaled)
    high = model.predict(scaled) == model.means_[:, 0].argmax()
    if min(high.sum(), (~high).sum()) < least:
        return None
    width = max(scaled[high].std(), scaled[~high].std())
    return high if scaled[high].mean() - scaled[~high].mean() > _APART * width else None
