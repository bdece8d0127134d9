"""Series that share some properties with a given one, but not its relation to others."""

from __future__ import annotations

import numpy as np

from portable.errors import InputError

SURROGATES = ("random", "phase")


def surrogates(series, n, method, random):
    """n series of the same length.

    "random" permutes the values. "phase" gives the Fourier components random phases and then takes the values of the
    original in the order of what came out, so that spectrum (nearly) and distribution stay (Theiler et al., Physica D 58
    (1992), 77: amplitude adjusted). Missing values stay where they are under "random", and are refused under "phase".

    Parameters
    ----------
    series : ndarray, shape (n_times,)
    n : int
    method : {"random", "phase"}
    random : numpy.random.Generator

    Returns
    -------
    list of ndarray, shape (n_times,)
    """
    known = np.isfinite(series)
    if method == "phase" and n and not known.all():
        t = int(np.argmin(known))
        raise InputError(f"target[{t}] is NaN; phase surrogates want a complete series, or surrogate='random'")
    return [_shuffled(series, known, random) if method == "random" else _rephased(series, random) for _ in range(n)]


def _shuffled(series, known, random):
    out = series.copy()
    out[known] = random.permutation(series[known])
    return out


def _rephased(series, random):
    n = len(series)
    ranks = np.argsort(np.argsort(series, kind="stable"), kind="stable")
    normal = np.sort(random.standard_normal(n))[ranks]  # normal values in the order of the series
    spectrum = np.fft.rfft(normal)
    turn = np.exp(2j * np.pi * random.random(len(spectrum)))
    turn[0] = 1.0
    if n % 2 == 0:
        turn[-1] = random.choice([-1.0, 1.0])
    rotated = np.fft.irfft(spectrum * turn, n)
    return np.sort(series)[np.argsort(np.argsort(rotated, kind="stable"), kind="stable")]
