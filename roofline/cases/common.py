"""Sizes by space, our side of a duel, and the duel with the available peers, for all cases."""

import functools

import numpy as np

import portable as pk
from portable.roofline import peers
from portable.roofline.contract import Contender, Duel
from portable.roofline.digest import digest


def size(space, quick, checked, few, device, host):
    """Return one of four sizes: for the interpreter, for a trial, for a GPU, or for a CPU."""
    return checked if space == "checked" else few if quick else device if space.startswith("cuda") else host


def launch_over(space, n, kernel, *args, **policy):
    """Return a call that launches a kernel over n indices."""
    return functools.partial(pk.parallel_for, pk.RangePolicy(0, n, space=space, **policy), kernel, *args)


def written(call, view, before=None):
    """Return a function for a duel's result: the digest of a view that the call writes, filled with `before`
    first."""

    def result():
        if before is not None:
            pk.deep_copy(view, before)
        call()
        return digest(view.to_numpy())

    return result


def complex_plane(edge):
    """Return the real and imaginary parts of edge x edge points around the Mandelbrot set."""
    return (c.ravel() for c in np.meshgrid(np.linspace(-2.0, 0.6, edge), np.linspace(-1.2, 1.2, edge)))


def ours(space, call, result=None, label=""):
    """Return our side of a duel, a call whose work is complete after a fence."""
    return Contender(f"portable, {space}{label}", call, functools.partial(pk.fence, space), result)


def duel(title, space, call, method="", *inputs, result=None, label="", tools=None, options=None, **about):
    """Return a Duel of a call and the peers that can compete on a space.

    Parameters
    ----------
    title, space : str
    call, result, label
        As in `ours`.
    method : str, optional
        As in `portable.roofline.peers.gather`, with `inputs`, `tools` and the dict `options`; without it
        there are no peers.
    **about
        As in `portable.roofline.contract.Duel`.
    """
    rivals, absent = (
        peers.gather(method, space, *inputs, tools=tools, **options or {}) if method else ([], [])
    )
    return Duel(title, ours(space, call, result, label), rivals, absent, **about)


class Tally:
    """Collect the results of each contender in several sets; ours is the first contender.

    Parameters
    ----------
    hits : str
        The name of the hits that are counted over all sets.
    """

    def __init__(self, hits):
        self._hits, self._found = hits, {}

    def keep(self, number, name, index, words, hits, of=1):
        """Store a contender's adjusted Rand index in a set, its result in words, and its hits; return the
        index."""
        self._found.setdefault(name, {})[number] = index, words, hits, of
        return index

    def lines_told(self, number):
        """Return a line on one set, and one on all sets for which every contender has a result."""
        own = [
            f"{name}: {sets[number][1]}, index {sets[number][0]:.4f}"
            for name, sets in self._found.items()
            if number in sets
        ]
        every = sorted(set.intersection(*map(set, self._found.values())))
        if not every:
            return "; ".join(own)
        line, both = [], []
        for name, sets in self._found.items():
            indices, _, hits, of = zip(*(sets[q] for q in every))
            line.append(
                f"{name}: median index {np.median(indices):.4f}, {self._hits} {sum(hits)} of {sum(of)}"
            )
            both.append(indices)
        if both[1:]:
            short = max(max(theirs) - ours for ours, *theirs in zip(*both))
            line.append(f"ours at most {max(short, 0.0):.4f} below the better peer")
        return f"{'; '.join(own)}\nso far, {len(every)} sets: {'; '.join(line)}"
