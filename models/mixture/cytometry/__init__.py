"""Cytometry: samples in, populations of their cells out.

A sample (`Sample`, `read`) goes through a `Panel`: compensation with the spillover matrix, a scale for each
channel, points. `fit` describes the points of all samples by one mixture, merges its components into
`Populations`, and names them by the markers they carry; these `predict` the `Labels` of any sample of the
panel.
"""

from .fcs import write
from .files import read, read_spillover
from .fitting import fit
from .labels import Labels
from .merging import Join, merge
from .panel import Panel, Scale
from .populations import Populations
from .samples import Sample
from .simulation import simulate
from .tables import shares

__all__ = [
    "Join",
    "Labels",
    "Panel",
    "Populations",
    "Sample",
    "Scale",
    "fit",
    "merge",
    "read",
    "read_spillover",
    "shares",
    "simulate",
    "write",
]
