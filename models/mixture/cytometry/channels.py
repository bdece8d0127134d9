"""Classify channels of a cytometer by their names."""

import re

_SCATTER = re.compile(
    r"(?:[BGRVY]|UV|YG|IR)?[ _-]?(?:FSC|SSC|FS|SS)\d*(?![A-Z0-9])|"
    r".*(?:FORWARD|SIDE)[ _-]*SCATTER|.*LIGHT[ _-]*LOSS|SC-\d{3}(?!\d)|.*\((?:FSC|SSC)\)"
)
_CLOCK = re.compile(r"TIME(?![A-Z])|TIMESTAMP|HDR-?T|CLOCK")
_OTHER = re.compile(
    r"EVENT|CELL[ _-]?LENGTH|WIDTH|CENTER|OFFSET|RESIDUAL|BEAD|FILE|SAMPLE[ _-]?ID|BARCODE|BC\d+$|"
    r"POPULATION|COMPONENT|PROBABILITY|CLUSTER"
)  # also the columns that `labels` adds to a file
_UNUSUAL = re.compile(
    r"(?:SORT|TLSW|TMSW|INDEX|EVENT ?ID|CELL ?ID)(?![A-Z0-9])|(?:.*[^A-Z])?BITS(?![A-Z])|DROP[ _-]*PHASE|"
    r"U-?MAP(?![A-Z])|(?:OPT-?)?T-?SNE(?![A-Z])"
)  # channels of sorters and programs; a marker may have such a name
_MASS = re.compile(r".*\d{2,3}DI$|.*\(?[A-Z][A-Z]?\d{2,3}\)?D[ID]?$|[A-Z][A-Z]\d{2,3}_|\d{2,3}[A-Z][A-Z]_")
_HEIGHT = re.compile(r"(.*)([-_. ])([HW])$", re.IGNORECASE)


def is_scatter(name):
    """Return True for forward or side scatter, whose scale is linear: FSC-A, SSC-H, FS INT, VSSC-A, ..."""
    return _SCATTER.match(name.strip().upper()) is not None


def is_clock(name):
    """Return True for time, which no detector measures."""
    return _CLOCK.match(name.strip().upper()) is not None


def is_colour(name):
    """Return True for a fluorescence or mass channel: neither scatter nor time, nor a value that an
    instrument or a program counted, computed or labelled."""
    own = name.strip().upper()
    return not (is_scatter(name) or is_clock(name) or _OTHER.match(own) or _UNUSUAL.match(own))


def unusual_of(names):
    """Return channels that are probably not colours, but with enough doubt to require a warning."""
    return [name for name in names if _UNUSUAL.match(name.strip().upper())]


def is_detector(name):
    """Return True for a channel that can saturate: a colour or scatter."""
    return is_colour(name) or is_scatter(name)


def is_mass(names):
    """Return True if most of the colours are metals, as a mass cytometer names them: (Yb172)Di, Yb172Di,
    172Yb_CD4."""
    colours = [name.upper() for name in names if is_colour(name)]
    return 2 * sum(_MASS.match(name) is not None for name in colours) > len(colours)


def colours_of(names):
    """Return the positions of the colours; if the area of a detector was measured, its height and width are
    left out."""
    present = {name.strip().upper() for name in names}
    found = []
    for place, name in enumerate(names):
        other = _HEIGHT.match(name.strip())
        if is_colour(name) and not (other and f"{other[1]}{other[2]}A".upper() in present):
            found.append(place)
    return found


def names_of(channels, markers, places):
    """Return names of channels for tables and figures: the marker, or the channel if it has no marker, or
    both if several channels have this marker."""
    own = [markers[place].strip() or channels[place].strip() for place in places]
    return tuple(
        f"{name} {channels[place]}" if own.count(name) > 1 else name for name, place in zip(own, places)
    )
