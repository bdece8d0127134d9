"""Populations in a file: that of their mixture, with some arrays beside it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from portable.errors import InputError
from ...shared.annotations import PathLike

from .. import saving
from ..estimator import DirichletMixture
from .merging import Join
from .panel import Panel, Scale

VERSION = 1
_ARRAYS = ("centres", "spreads", "members", "medians", "cells")


def save(populations: Any, path: PathLike) -> None:
    """Write populations; see `Populations.save`."""
    panel = populations.panel
    given = not isinstance(panel.compensation, str)
    header = {
        "version": VERSION,
        "channels": panel.channels,
        "names": panel.names,
        "scales": [[scale.kind, *scale.numbers] for scale in panel.scales],
        "saturation": panel.saturation,
        "compensation": panel.compensation[0] if given else panel.compensation,
        "populations": populations.names,
        "signatures": populations.signatures,
        "joins": [[join.components, join.uncertainty, join.n_groups] for join in populations.joins],
    }
    arrays = {name: getattr(panel if hasattr(panel, name) else populations, name) for name in _ARRAYS}
    if given:
        arrays["spillover"] = panel.compensation[1]
    more = {f"cytometry.{name}": value for name, value in arrays.items()}
    saving.save(populations.model, path, more | {"cytometry": np.array(json.dumps(header))})


def load(path: PathLike, space: str | None, make: Any) -> Any:
    """As `Populations.load`; `make` is Populations, which saves by this module."""
    model, more = saving.load_with(DirichletMixture, path)
    model.space = space
    try:
        header = json.loads(str(more["cytometry"]))
        version = int(header["version"])
        if version <= VERSION:
            return make(*_populations(model, header, more))
    except (KeyError, ValueError, TypeError) as error:
        raise InputError(
            f"{path} holds a mixture, but no populations that cytometry wrote: "
            f"{type(error).__name__}: {error}"
        ) from error
    raise InputError(f"{path} has version {version} of the format; this release reads up to {VERSION}")


def _populations(model, header, more):
    arrays = {name: more[f"cytometry.{name}"] for name in _ARRAYS}
    panel = _panel(header, arrays, more)
    k, p = model.means_.shape
    names, members = tuple(header["populations"]), arrays["members"]
    fits = members.shape == (k,) and set(members.tolist()) == set(range(len(names)))
    if not fits or arrays["medians"].shape != (len(names), p) or len(panel.channels) != p:
        raise ValueError(f"{k} components, {len(names)} populations, {p} channels")
    joins = [Join(tuple(map(tuple, both)), left, n) for both, left, n in header["joins"]]
    signatures = tuple(header["signatures"])
    return panel, model, members, names, signatures, arrays["medians"], arrays["cells"], tuple(joins)


def _panel(header, arrays, more):
    channels, names = tuple(header["channels"]), tuple(header["names"])
    scales = tuple(Scale(kind, tuple(numbers)) for kind, *numbers in header["scales"])
    centres, spreads = arrays["centres"], arrays["spreads"]
    if not len(channels) == len(names) == len(scales) == len(centres) == len(spreads):
        raise ValueError(f"{len(channels)} channels, {len(names)} names, {len(scales)} scales")
    compensation = header["compensation"]
    if not isinstance(compensation, str):
        compensation = tuple(compensation), more["cytometry.spillover"]
    return Panel(channels, names, scales, centres, spreads, compensation, header["saturation"])
