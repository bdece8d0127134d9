"""Convert an instrument's values to points to which a mixture can be fitted, in the same way for every
sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

import numpy as np

from ...shared import (
    Array,
    DTypeError,
    Frozen,
    InputError,
    Names,
    check_choice,
    check_kind,
    check_number,
    check_positive,
    need,
    warn,
)
from .channels import colours_of, is_detector, is_scatter, names_of, unusual_of
from .samples import SPILLOVER, Sample, check_samples, check_spillover, check_used, parse_spillover

Transform: TypeAlias = Literal["arcsinh", "logicle", "none"]
COMPENSATIONS = ("file", "none")
_FLUORESCENT, _METAL = 150.0, 5.0  # usual cofactors of an instrument of 18 bits and of a mass cytometer
_BITS_18 = 2.0**18
_TOP, _DECADES, _WIDTH = 262144.0, 4.5, 0.5  # T, M and W of a logicle scale without an estimate
_NEGATIVE = 0.05  # quantile of the negative values from which W follows (Parks, Roederer and Moore 2006)
_LEAST_NEGATIVE = 20  # negative values from which W is estimated
_MOST_LEFT_OUT = 0.2  # share of saturated cells in a channel above which its limit is taken to be wrong
_NO_MATRIX = (), np.eye(0)  # channels that are compensated, and their matrix
_SAY_WHICH = "set compensation= to one matrix for all, or 'none'"


class Scale(Frozen):
    """The transformation of a channel.

    Parameters
    ----------
    kind : {"arcsinh", "logicle", "none"}
    numbers : tuple of float
        The cofactor of arcsinh(x / cofactor); T, W and M of a logicle scale (Moore and Parks 2012, A = 0);
        empty for "none".
    """

    kind: str
    numbers: tuple[float, ...] = ()

    def apply(self, x: Array) -> Array:
        """Return the transformed values of intensities x, float64."""
        if self.kind == "arcsinh":
            return np.arcsinh(x / self.numbers[0])
        return self._logicle("logicle", x)

    def invert(self, y: Array) -> Array:
        """Return the intensities of transformed values y, the inverse of `apply`."""
        if self.kind == "arcsinh":
            return self.numbers[0] * np.sinh(y)
        return self._logicle("logicle_inverse", y)

    def _logicle(self, name, x):
        if self.kind == "none":
            return np.asarray(x, np.float64)
        t, w, m = self.numbers
        return getattr(_logicle_scales(), name)(np.array(x, np.float64), None, t, m, w, 0)


class Panel(Frozen, eq=False):
    """The channels of samples that are used, and their transformations to points.

    Parameters
    ----------
    channels, names : tuples of str
        Detectors, and their names in results: the marker, or the channel if it has none.
    scales : tuple of Scale
    centres, spreads : ndarrays, shape (n_channels,)
        Mean and standard deviation, on these scales, of the cells from which the panel was made: points are
        less the mean, divided by the deviation.
    compensation : {"file", "none"} or (sequence of str, ndarray)
        Spillover matrix that is used: each sample's own, none, or this one.
    saturation : float, optional
        The largest value of detectors, if the samples' own limits are not used.
    """

    channels: Names
    names: Names
    scales: tuple[Scale, ...]
    centres: Array
    spreads: Array
    compensation: str | tuple[Names, Array] = "file"
    saturation: float | None = None

    @classmethod
    def of(
        cls,
        samples: Sequence[Sample],
        *,
        channels: Sequence[str] | None = None,
        transform: Transform = "arcsinh",
        cofactor: float | None = None,
        compensation: str | tuple = "file",
        saturation: float | None = None,
    ) -> Panel:
        """Return a panel for samples that were stained and measured alike.

        Parameters
        ----------
        samples : sequence of Sample
        channels : sequence of str, optional
            Names of channels or markers. If not given all colours of the first sample: neither scatter nor
            time, and of a detector with area, height and width only the area.
        transform : {"arcsinh", "logicle", "none"}
            Transform of colours; scatter stays linear.
        cofactor : float, optional
            That of arcsinh(x / cofactor). If not given 5 for mass cytometers, and for others 150 with a range
            of 18 bits, and in proportion to it with more.
        compensation : {"file", "none"} or (sequence of str, array-like of shape (n, n))
            By the spillover matrix of each file, by none, or by one matrix and the names of its channels.
        saturation : float, optional
            Cells that reach it are left out. If not given, the limits in the files.

        Returns
        -------
        Panel

        Raises
        ------
        InputError
            Samples have different channels; a channel is missing or constant; more than a fifth of the cells
            reach a limit; a file's matrix cannot be used.

        Warns
        -----
        UserWarning
            Channels such as SORT, Index or UMAP_1 are left out.
        """
        check_samples(samples)
        check_choice(transform, "transform", Transform)
        if cofactor is not None:
            check_positive(cofactor, "cofactor")
        if saturation is not None:
            check_number(saturation, "saturation")
        first, compensation = samples[0], _compensation(compensation, samples)
        places = _places(first, channels)
        chosen = tuple(first.channels[place] for place in places)
        names = names_of(first.channels, first.markers, places)
        bare = cls(chosen, names, (), np.zeros(0), np.zeros(0), compensation, saturation)
        pooled = np.concatenate([bare._used_cells(sample) for sample in samples])
        of_each = zip(places, pooled.T)
        bare = replace(bare, scales=tuple(_scale(first, *own, transform, cofactor) for own in of_each))
        centres, spreads = _standard(bare._scaled(pooled), names)
        return replace(bare, centres=centres, spreads=spreads)

    def _scaled(self, X, how="apply"):
        """Transform columns to their scales in place, or back."""
        for number, scale in enumerate(self.scales):
            X[..., number] = getattr(scale, how)(X[..., number])
        return X

    def _used_cells(self, sample):
        """Return the intensities of the cells that are used; raise InputError if there are too few."""
        X, good = self.values(sample)
        self._check_limits(sample)
        check_used(sample, good, self.channels)
        return X[good]

    def values(self, sample: Sample) -> tuple[Array, Array]:
        """Return compensated intensities on the instrument's scale.

        Returns
        -------
        X : ndarray, shape (n_cells, n_channels), float64
        good : ndarray of bool, shape (n_cells,)
            True for cells that are not saturated in any detector of the sample, including scatter, and have
            only finite numbers.

        Raises
        ------
        InputError
            The sample lacks a channel, or one of the spillover matrix.
        """
        check_kind(sample, "sample", Sample, "be cytometry.Sample")
        missing = [channel for channel in self.channels if channel not in sample.channels]
        if missing:
            raise InputError(f"{sample.name} lacks {', '.join(missing)}; it has {', '.join(sample.channels)}")
        names, matrix = self._spillover(sample)
        used = list(dict.fromkeys([*names, *self.channels]))  # channels of the matrix come first
        places = list(map(sample.channels.index, used))
        linear = sample.X[:, places].astype(np.float64) / sample.gains[places]
        good = np.isfinite(linear).all(axis=1) & ~self._saturated(sample).any(axis=1)
        if sample.left_out is not None:
            good &= np.asarray(sample.left_out) == 0
        with np.errstate(invalid="ignore"):
            linear[:, : len(names)] = np.linalg.solve(matrix.T, linear[:, : len(names)].T).T
        return linear[:, list(map(used.index, self.channels))], good

    def points(self, sample: Sample) -> tuple[Array, Array]:
        """Return cells as points for a mixture; points with `good` False must not be used.

        Returns
        -------
        points : ndarray, shape (n_cells, n_channels)
        good : ndarray of bool, shape (n_cells,)
        """
        X, good = self.values(sample)
        X[~good] = 0.0
        self._scaled(X)
        X -= self.centres
        X /= self.spreads
        return X, good

    def intensities(self, points: Array) -> Array:
        """Return the intensities of points, shape (..., n_channels), on the instrument's scale."""
        return self._scaled(np.array(points, np.float64) * self.spreads + self.centres, "invert")

    def _saturated(self, sample):
        limits = sample.limits
        if self.saturation is not None:
            limits = np.where([*map(is_detector, sample.channels)], self.saturation, np.inf)
        exact = sample.X.dtype if sample.X.dtype.kind == "f" else np.float64  # limits are rounded like X
        with np.errstate(invalid="ignore"):
            return sample.X >= limits.astype(exact)

    def _check_limits(self, sample):
        shares = self._saturated(sample).mean(axis=0) if sample.n_cells else np.zeros(1)
        if shares.max() > _MOST_LEFT_OUT:
            worst = int(shares.argmax())
            limit = sample.limits[worst] if self.saturation is None else self.saturation
            raise InputError(
                f"{sample.name}: {shares[worst]:.0%} of the cells reach {limit:g} in"
                f" {sample.channels[worst]}, and would be left out as saturated; give"
                " saturation="
            )

    def _spillover(self, sample):
        """Return channels and matrix; both are empty if nothing is to be compensated."""
        if self.compensation == "none":
            return _NO_MATRIX
        names, matrix = _own_matrix(sample) if self.compensation == "file" else self.compensation
        missing = [name for name in names if name not in sample.channels]
        if missing:
            raise InputError(
                f"{sample.name} lacks {', '.join(missing)} of the spillover matrix; {_SAY_WHICH}"
            )
        if self.compensation == "file" and not names:
            raise InputError(
                f"{sample.name} has no spillover matrix, but the panel is one of compensated samples; give "
                "the sample its matrix"
            )
        return names, matrix


def _logicle_scales():
    return need("flowutils.transforms", "cytometry", "logicle scales")


def _places(sample, channels):
    """Return the positions of the given channels, or of all colours."""
    if channels is not None:
        return list(dict.fromkeys(map(sample.place, channels)))
    places = colours_of(sample.channels)
    unusual = unusual_of(sample.channels)
    if unusual:
        said = f"{sample.name}: {', '.join(unusual)} are no colours and left out; channels= includes them"
        warn(said, UserWarning)
    if not places:
        raise InputError(
            f"{sample.name}: channels are {list(sample.channels)}: none of them is a colour; expected some "
            "by channels="
        )
    return places


def _standard(points, names):
    """Return mean and standard deviation of each column; raise InputError if a column is constant."""
    centres, spreads = points.mean(axis=0), points.std(axis=0)
    least = 1e-12 * max(1.0, np.abs(points).max())
    still = [name for name, spread in zip(names, spreads) if not spread > least]
    if still:
        raise InputError(f"all cells have the same {', '.join(still)}; leave such channels out")
    return centres, spreads


def _own_matrix(sample):
    """Return a sample's own matrix; an empty one if the sample was compensated by a program that renamed the
    channels and kept the matrix. Raise InputError if it cannot be used."""
    if sample.spillover is None:
        for text in filter(str.strip, (sample.keywords.get(key, "") for key in SPILLOVER)):
            try:
                parse_spillover(text, sample.channels)
            except InputError as error:
                raise InputError(f"{sample.name}: {error}; {_SAY_WHICH}") from error
    if sample.spillover is None or not {*sample.spillover[0]} & {*sample.channels}:
        return _NO_MATRIX
    return sample.spillover


def _compensation(compensation, samples):
    """Return the checked argument; "none" if the samples have no matrix."""
    if isinstance(compensation, str):
        if check_choice(compensation, "compensation", COMPENSATIONS) == "none":
            return compensation
        having, lacking = [], []
        for sample in samples:
            (having if _own_matrix(sample)[0] else lacking).append(sample.name)
        if having and lacking:
            raise InputError(f"{lacking[0]} has no spillover matrix, {having[0]} has one; {_SAY_WHICH}")
        return compensation if having else "none"
    try:
        channels, matrix = compensation
    except (TypeError, ValueError) as error:
        raise DTypeError(
            f"compensation is {compensation!r}; expected 'file', 'none' or channels with a matrix"
        ) from error
    return check_spillover("compensation", channels, matrix)


def _scale(sample, place, values, transform, cofactor):
    """Return the scale of a channel, from the pooled cells' intensities."""
    top = (sample.limits[place] + 1.0) / sample.gains[place]
    if transform == "none" or is_scatter(sample.channels[place]):
        return Scale("none")
    if transform == "arcsinh":
        most = values.max() if np.isinf(top) else top
        usual = _METAL if np.isinf(top) and most < _BITS_18 else _FLUORESCENT * max(most / _BITS_18, 1.0)
        return Scale("arcsinh", (float(usual if cofactor is None else cofactor),))
    _logicle_scales()  # raises an error now if they are missing
    top = float(top if np.isfinite(top) else max(values.max(), _TOP))
    below, width = values[values < 0.0], _WIDTH
    if len(below) >= _LEAST_NEGATIVE:
        width = 0.5 * (_DECADES - np.log10(top / -np.quantile(below, _NEGATIVE)))
    return Scale("logicle", (top, float(np.clip(width, 0.0, 0.45 * _DECADES)), _DECADES))
