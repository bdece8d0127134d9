"""A fitted mixture in a file of arrays and text: nothing in it is run when it is read.

A .npz without pickles; its entry `header` is JSON: the format's name and version, the arguments, and what is
neither array nor argument.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from portable.errors import InputError

from ..shared.files import read_npz, replacing
from .moves import Move
from .prior import Prior

FORMAT, VERSION = "models.mixture", 1
_ARRAYS = ("weights_", "means_", "covariances_", "precisions_cholesky_", "objective_history_", "_centre")
_NUMBERS = ("n_iter_", "n_features_in_", "n_active_", "lower_bound_", "converged_")
_NOT_SAVED = ("random_state", "space")
_STARTS = ("means_init", "covariances_init", "weights_init")
_PRIOR_ARRAYS = ("mean", "scale")


def save(model, path, more=None):
    """Write a model; see `DirichletMixture.save`. `more` are arrays that go beside it, by names with
    "cytometry" in front."""
    if not Path(path).absolute().parent.is_dir():
        raise InputError(f"path is {path}: there is no folder {Path(path).absolute().parent}")
    arguments = {
        name: value
        for name, value in model.get_params().items()
        if name not in (*_NOT_SAVED, *_STARTS, "prior")
    }
    arrays = {name: np.asarray(getattr(model, name)) for name in _ARRAYS}
    arrays.update(
        {
            name: np.asarray(getattr(model, name), float)
            for name in _STARTS
            if getattr(model, name) is not None
        }
    )
    (n, xbar, scatter), total, number = model._online
    arrays.update(online_n=n, online_xbar=xbar, online_scatter=scatter)
    header = {
        "format": FORMAT,
        "version": VERSION,
        "arguments": {name: _plain(value) for name, value in arguments.items()},
        "numbers": {name: _plain(getattr(model, name)) for name in _NUMBERS},
        "online": [float(total), int(number)],
        "moves": [[m.entry, m.kind, list(m.components), m.gain] for m in model.moves_],
        "prior": _prior_out(model.prior, "prior", arrays),
        "prior_": _prior_out(model.prior_, "prior_", arrays),
        "feature_names": list(model.feature_names_in_) if hasattr(model, "feature_names_in_") else None,
    }
    with replacing(path, "path") as beside, beside.open("wb") as file:
        np.savez(file, header=np.array(json.dumps(header)), **arrays, **(more or {}))


def load_with(cls, path):
    """A model, and the arrays that are beside it."""
    if not Path(path).is_file():
        raise InputError(f"path is {path}, which is not a file")
    try:
        arrays = read_npz(path)
        header = json.loads(str(arrays.pop("header")))
        if header["format"] != FORMAT:
            raise KeyError("format")
        version = int(header["version"])
    except (KeyError, ValueError, TypeError, RecursionError) as error:
        raise InputError(
            f"{path} is not a mixture that DirichletMixture.save wrote: {type(error).__name__}: {error}"
        ) from error
    if version > VERSION:
        raise InputError(f"{path} has version {version} of the format; this release reads up to {VERSION}")
    try:
        return _model(cls, header, arrays), {
            name: arrays[name] for name in arrays if name.startswith("cytometry")
        }
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is damaged: {type(error).__name__}: {error}") from error


def _model(cls, header, arrays):
    prior = _prior_in(header["prior"], "prior", arrays)
    model = cls(
        **header["arguments"], prior=prior, **{name: arrays[name] for name in _STARTS if name in arrays}
    )
    for name in _ARRAYS:
        setattr(model, name, arrays[name])
    for name in _NUMBERS:
        setattr(model, name, header["numbers"][name])
    k, p = model.means_.shape
    if model.weights_.shape != (k,) or model._centre.shape != (p,) or p != model.n_features_in_:
        raise ValueError(f"weights of shape {model.weights_.shape}, means of shape {model.means_.shape}")
    total, number = header["online"]
    model._online = (arrays["online_n"], arrays["online_xbar"], arrays["online_scatter"]), total, number
    model.moves_ = [
        Move(entry, kind, tuple(components), gain) for entry, kind, components, gain in header["moves"]
    ]
    model.starts_, model.prior_ = (), _prior_in(header["prior_"], "prior_", arrays)
    if header["feature_names"] is not None:
        model.feature_names_in_ = np.asarray(header["feature_names"], dtype=object)
    return model


def _plain(value):
    """A number as JSON has it."""
    return value.item() if isinstance(value, np.generic) else value


def _prior_out(prior, name, arrays):
    """Text or numbers for the header; arrays go among the arrays."""
    if prior is None or isinstance(prior, str):
        return prior
    for part in _PRIOR_ARRAYS:
        if getattr(prior, part) is not None:
            arrays[f"{name}.{part}"] = np.asarray(getattr(prior, part), float)
    return {part: _plain(getattr(prior, part)) for part in ("mean_scale", "dof", "shape", "rate")}


def _prior_in(numbers, name, arrays):
    if numbers is None or isinstance(numbers, str):
        return numbers
    return Prior(**numbers, **{part: arrays.get(f"{name}.{part}") for part in _PRIOR_ARRAYS})
