"""The state of chains on disk, with the means to see that it is theirs and unchanged."""

from __future__ import annotations

import hashlib
import os
import time
import zipfile
from pathlib import Path

import numpy as np

from portable.errors import DTypeError, InputError

_EVERY_S = 5.0


class Checkpoint:
    """A file of the state of chains; its settings must be those of the run that goes on from it.

    Raises
    ------
    InputError
        The folder does not exist.
    """

    def __init__(self, path, likelihood, n_chains, n_rows, thin, seed, starts, free, priors):
        if not isinstance(path, (str, os.PathLike)):
            raise DTypeError(f"checkpoint must be the name of a file, got {path!r} of type {type(path).__name__}")
        self.path = Path(path)
        if not self.path.parent.is_dir():
            raise InputError(f"checkpoint: the folder '{self.path.parent}' does not exist")
        sums = likelihood.sums
        settings = (n_chains, n_rows, thin, seed, starts, free, sorted((k, p.coefficients, p.low, p.high) for k, p in priors.items()),
                    likelihood.tolerance, likelihood.background_self, likelihood.horizon_h, str(sums.dtype))
        digest = hashlib.sha256(repr(settings).encode())
        for array in (sums.locations, sums.times):
            digest.update(np.ascontiguousarray(array).tobytes())
        if likelihood.background:
            digest.update(likelihood.background.density.tobytes() + repr(likelihood.background.mass).encode())
        self._settings = digest.hexdigest()
        self._written = time.monotonic()

    def keep(self, chains, scale, now):
        """Write the state if the last writing is some seconds ago, or now."""
        if not now and time.monotonic() - self._written < _EVERY_S:
            return
        arrays = chains.snapshot() | {"scale": np.array([scale])}
        beside = self.path.with_name(self.path.name + ".writing")
        with open(beside, "wb") as file:
            np.savez(file, settings=np.array(self._settings), seal=np.array(_seal(arrays)), **arrays)
        os.replace(beside, self.path)  # whole or not at all
        self._written = time.monotonic()

    def load(self):
        """The arrays of the file, or None if there is no such file.

        Raises
        ------
        InputError
            It cannot be read, was changed, or belongs to other events, settings or seed.
        """
        if not self.path.exists():
            return None
        try:
            with open(self.path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            settings, seal = str(arrays.pop("settings")), str(arrays.pop("seal"))
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise InputError(f"checkpoint: '{self.path}' cannot be read ({error}); remove it to begin anew") from error
        if seal != _seal(arrays):
            raise InputError(f"checkpoint: '{self.path}' was changed after it was written; remove it to begin anew")
        if settings != self._settings:
            raise InputError(f"checkpoint: '{self.path}' belongs to other events, settings or another seed; name another file, "
                             "or remove it to begin anew")
        return arrays


def _seal(arrays):
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    return digest.hexdigest()
