"""Recognise files of each family by the names in them, for a warning where another family reads them."""

import os
import re

from portable.errors import InputError

from .annotations import PathLike
from .extras import need
from .files import header, read_json, read_npz, reading

# a family, and names that its files have: endings, columns of tables, arrays, keys of JSON
_SIGNS = """mixture .fcs
mixture .lmd
edm .npy
edm .h5
edm .hdf5
hawkes t_hours
hawkes child parent
hawkes draw n_events
hawkes source target influence
hawkes mu0 theta
hawkes params units
tmap run gap
tmap values lengths
tmap alpha orders
edm library target rho
edm observed predicted
resampling schema cells
mixture X channels
mixture component population
mixture population signature
mixture sample cells
hawkes models.hawkes
tmap models.tmap
edm models.edm
resampling models.resampling
mixture models.mixture"""


def family_of(path: PathLike) -> tuple[str, str] | None:
    """Return the family that a file looks like, and names by which it does; None for other files.

    Parameters
    ----------
    path : path
        .csv, .csv.gz, .parquet, .npz, .json, or an ending that one family alone reads.

    Returns
    -------
    (str, str) or None
        Such as ("hawkes", "t_hours").
    """
    try:
        names = _names(path) if os.path.isfile(path) else set()
    except (InputError, ImportError):
        return None  # the command says why the file cannot be read
    if names.issuperset("txy") and len(names - {"type"}) == 4:
        return "hawkes", "t, x, y"
    for family, *sign in map(str.split, _SIGNS.splitlines()):
        if names.issuperset(sign):
            return family, ", ".join(sign)
    return None


def _names(path):
    """Return the names in a file: its ending, and columns, arrays, keys, or the family of a saved result."""
    ending, found = os.path.splitext(path)[1].lower(), []
    if ending in (".csv", ".gz"):
        found = header(path)
    elif ending == ".json":
        found = read_json(path)
    elif ending == ".parquet":
        with reading(path):
            found = need("pyarrow.parquet", "files", "Parquet files").read_schema(path).names
    elif ending == ".npz":
        arrays = read_npz(path, lambda names: found.extend(names) or {"header"}.intersection(names))
        saved = re.search(r'"(?:class": "|format": "models.)(\w+)', str(arrays.get("header")))
        found.append(saved and f"models.{saved[1]}")
    return {ending, *(found if isinstance(found, (list, dict)) else ())}
