"""Cytometry: find populations of cells in samples.

A sample (`Sample`, `read`) is turned into points by a `Panel`: compensation with the spillover matrix, then a
transformation of each channel. `fit` describes the points of all samples by one mixture, merges its
components into `Populations`, and names these by the markers that their cells carry. `Populations.predict`
returns the `Labels` of any sample of the panel.
"""

from .controls import spillover_of, write_spillover
from .fcs import write
from .files import read, read_spillover
from .fitting import fit
from .labels import Labels, Tally, shares
from .merging import Join, merge
from .panel import Panel, Scale
from .populations import Populations, tally
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
