"""Arguments that define the candidates and the points of a search, checked in one place."""

from typing import Any, NamedTuple

from ..shared import check_count
from .checks import check_embedding, check_horizon, check_valid
from .segments import check_length, windows_in


class Window(NamedTuple):
    """Arguments of `simplex` that define candidates and points, as they are given or as `checked`."""

    tau: Any
    Tp: Any
    k: Any
    exclusion_radius: Any
    lib: Any
    pred: Any
    valid: Any
    segments: Any

    def checked(self, E, name, n_times, cut, points=None):
        """Return E as an integer, and the Window with checked arguments: integers, lists of windows cut at
        the ends of segments, and the Segments; raise unless they fit series of n_times and each other.

        name : of the library, in messages
        cut : Segments of the library, or None
        points : number of times and Segments of the queried series; None if it is the library
        """
        E, tau = check_embedding(E, self.tau, n_times, name)
        n_asked, asked_cut = points or (n_times, cut)
        check_embedding(E, tau, n_asked, "points")
        Tp = check_horizon(self.Tp, n_times, E, tau)
        radius = check_count(self.exclusion_radius, "exclusion_radius", 0)
        k, valid = None if self.k is None else check_count(self.k, "k"), check_valid(self.valid, n_times)
        lib = windows_in(self.lib, "lib", n_times, cut)
        pred = windows_in(self.pred, "pred", n_asked, asked_cut)
        check_length(cut, lib, E, tau)
        check_length(asked_cut, pred, E, tau)
        return E, Window(tau, Tp, k, radius, lib, pred, valid, cut)
