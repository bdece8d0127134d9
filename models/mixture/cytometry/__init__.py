"""Cytometry: samples in, populations of their cells out.

A sample (`Sample`, `read`) goes through a `Panel`: compensation with the spillover matrix, a scale for each
channel, points. `fit` describes the points of all samples by one mixture, merges its components into
`Populations`, and names them by the markers they carry; these `predict` the `Labels` of any sample of the
panel.
"""

from .controls import spillover_of, write_spillover
from .fcs import write
from .files import read, read_spillover
from .fitting import fit
from .labels import Labels, Tally, shares
from .merging import Join, merge
from .panel import Panel, Scale
from .plates import tally
from .populations import Populations
from .quality import clean
from .samples import Sample
from .simulation import simulate

__all__ = [
    "Join",
    "Labels",
    "Panel",
    "Populations",
    "Sample",
    "Scale",
    "Tally",
    "clean",
    "fit",
    "merge",
    "read",
    "read_spillover",
    "shares",
    "simulate",
    "spillover_of",
    "tally",
    "write",
    "write_spillover",
]
