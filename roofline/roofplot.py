"""The roofline plot: the places of measured roofs, marks and labels; templates/plot.svg draws them.

A page contains a plot twice, wide and narrow, so that letters keep their size on a phone. Plots of one part
share their axes and roofs, which are in the page once. The same drawing is used as a file for papers, and a
PDF.
"""

import copy
import itertools
import math
from dataclasses import dataclass, field

from portable.roofline.units import scaled

WIDE, NARROW, SMALL = (880, 460), (336, 400), (336, 250)  # width and height in pixels
LEFT, RIGHT, TOP, BOTTOM = 46, 6, 10, 40
SHAPES = (  # of about unit area: disc, square, diamond, triangles up and down, cross
    "M0,-.56A.56,.56 0 1 1 0,.56A.56,.56 0 1 1 0,-.56Z",
    "M-.5,-.5H.5V.5H-.5Z",
    "M0,-.7L.7,0L0,.7L-.7,0Z",
    "M0,-.75L.75,.5H-.75Z",
    "M-.75,-.5H.75L0,.75Z",
    "M-.22,-.65H.22V-.22H.65V.22H.22V.65H-.22V.22H-.65V-.22H-.22Z",
)
LEAST, MOST = 9.0, 24.0  # pixels across a mark with none and with all of the time
LETTER, ABOVE, BELOW = 7.6, 12, 4  # pixels: a wide letter, and a line's height above and below its base
# places of a mark's label around the mark
AROUND = (1, 0), (-1, 0), (0, -1), (0, 1), (1, -1), (1, 1), (-1, -1), (-1, 1)


@dataclass(frozen=True)
class View:
    """Select the counts of a plot, and the peaks that bound them."""

    unit: str
    across: str
    peaks: tuple

    def roofs(self, ceilings):
        """Return {name: rate} of the measured peaks."""
        return {name: ceilings.rate(name) for name in self.peaks if ceilings.rate(name)}


FLOPS = View("flop/s", "flops per byte", ("fma float64", "fma float32", "no fma float64"))
OTHERS = View("op/s", "operations per byte", ("integer int64", "atomic apart int64", "atomic apart float64"))


@dataclass(frozen=True)
class Dot:
    """Store a mark: operations, bytes, seconds, and seconds at the roof; `share` of the run's time; `levels`
    are the bytes taken from each memory level, the nearest first, `level` the one that holds the compulsory
    bytes; `tag` is a short name, and `before` the same work in an earlier report."""

    number: str
    name: str
    operations: float
    bytes: float
    seconds: float
    attainable: float
    level: str
    levels: dict = field(default_factory=dict)
    share: float = 0.3
    link: str = ""
    bound_by: str = ""
    tag: str = ""
    before: "Dot | None" = None

    @property
    def rate(self):
        """Operations per second."""
        return self.operations / self.seconds

    @property
    def intensity(self):
        """Operations per compulsory byte."""
        return self.operations / self.bytes

    @property
    def intensities(self):
        """{level: operations per byte taken from it}."""
        return {name: self.operations / moved for name, moved in self.levels.items() if moved}

    @property
    def shape(self):
        """The outline of the mark, which differs between consecutive numbers."""
        return SHAPES[(int(self.number.rpartition(".")[2]) - 1) % len(SHAPES)]

    @property
    def side(self):
        """Width of the mark in pixels."""
        return math.sqrt(LEAST**2 + (MOST**2 - LEAST**2) * min(1.0, max(0.0, self.share)))


class Room:
    """Store the free space of a drawing; boxes are (left, top, right, bottom)."""

    def __init__(self, size):
        self.within = LEFT + 1, 0, size[0] - 1, size[1] - BOTTOM
        self.taken = []

    def take(self, candidates):
        """Return the first candidate (item, boxes) whose boxes are all free, and mark these as taken; None if
        there is none."""
        for what, boxes in candidates:
            if all(map(self._free, boxes)):
                self.taken += boxes
                return what
        return None

    def _free(self, box):
        left, top, right, bottom = box
        low, high, most, deep = self.within
        return (
            low <= left
            and right <= most
            and high <= top
            and bottom <= deep
            and not any(left < r and right > x and top < b and bottom > t for x, t, r, b in self.taken)
        )


class Axes:
    """Store both logarithmic scales, over whole powers of ten, that contain all marks of a part and its
    roofs.

    Parameters
    ----------
    dots : list of Dot
    ceilings : dict of name to Ceilings
        One of a part, without a name; several if reports are compared in one plot, the latest last.
    view : View
    """

    def __init__(self, dots, ceilings, view):
        self.view, self.size = view, WIDE
        self.roofs = {name: (_levels(c), view.roofs(c)) for name, c in ceilings.items()}
        ridges = [
            max(peaks.values()) / rate for levels, peaks in self.roofs.values() for rate in levels.values()
        ]
        both = [one for dot in dots for one in (dot, dot.before) if one]
        across = [i for d in both for i in (d.intensity, *d.intensities.values())] + ridges
        up = [rate for d in both for rate in (d.rate, d.operations / d.attainable)]
        up += [rate for _, peaks in self.roofs.values() for rate in peaks.values()]
        (self.x0, self.x1), (self.y0, self.y1) = _decades(across), _decades(up)

    def sized(self, size):
        """Return these axes for a drawing of another size."""
        other = copy.copy(self)
        other.size = size
        return other

    def x(self, value):
        """Return pixels from the left."""
        part = (math.log10(value) - self.x0) / (self.x1 - self.x0)
        return LEFT + (self.size[0] - LEFT - RIGHT) * part

    def y(self, value):
        """Return pixels from the top."""
        part = (self.y1 - math.log10(value)) / (self.y1 - self.y0)
        return TOP + (self.size[1] - TOP - BOTTOM) * part

    @property
    def columns(self):
        """Return (pixels, power of ten, whether it is printed) of each column."""
        step = max(1, math.ceil((self.x1 - self.x0) / (8 if self.size[0] > 500 else 4)))
        return [(self.x(10.0**k), 10.0**k, (k - self.x0) % step == 0) for k in range(self.x0, self.x1 + 1)]

    @property
    def lines(self):
        """Return (pixels, power of ten) of each line."""
        return [(self.y(10.0**k), 10.0**k) for k in range(self.y0, self.y1 + 1)]

    @property
    def angle(self):
        """The angle of the sloped roofs, in degrees."""
        width, height = self.size
        rise = (height - TOP - BOTTOM) / (self.y1 - self.y0)
        return math.degrees(math.atan2(rise, (width - LEFT - RIGHT) / (self.x1 - self.x0)))

    def ends(self):
        """Yield each roof: (its text, whether it is of the latest report, x and y of its beginning, x and y
        of its end)."""
        for (name, (levels, peaks)), left in zip(
            self.roofs.items(), range(len(self.roofs) - 1, -1, -1), strict=True
        ):
            about = f"{name}: " if name else ""
            for level, rate in levels.items():
                start = max(10.0**self.x0, 10.0**self.y0 / rate)
                end = max(start, min(10.0**self.x1, max(peaks.values()) / rate))
                text = about + self._named(level, rate, "B/s")
                yield text, not left, self.x(start), self.y(start * rate), self.x(end), self.y(end * rate)
            for peak, rate in peaks.items():
                begin, y = max(LEFT, self.x(rate / max(levels.values()))), self.y(rate)
                yield (
                    about + self._named(peak, rate, self.view.unit),
                    not left,
                    begin,
                    y,
                    self.size[0] - RIGHT,
                    y,
                )

    def _named(self, name, rate, unit):
        """Return a roof's label; in small plots without the value, which the large plot has."""
        return name if self.size == SMALL else f"{name} {scaled(rate, unit)}"

    def labels(self, room):
        """Yield (text, x, y, degrees) of the roofs, each next to its own roof if there is room, preferably
        where no other roof crosses it."""
        turn, ends = math.radians(self.angle), list(self.ends())
        lines = [_points(*end[2:]) for end in ends]
        for k, (text, _, x0, y0, x1, y1) in enumerate(ends):
            others = [point for line in lines[:k] + lines[k + 1 :] for point in line]
            long = LETTER * len(text)
            if y0 == y1:
                places = (
                    ((text, right - long, y0 + up, 0.0), [_box(right - long, y0 + up, long)])
                    for up, right in itertools.product((-4, 14), range(int(x1) - 2, int(x0 + long), -12))
                )
            else:
                ways = range(10, max(11, int(math.hypot(x1 - x0, y1 - y0) - long)), 12)
                places = (
                    self._slope_label(text, x0, y0, way, turn, up)
                    for up, way in itertools.product((4, -13), ways)
                )
            yield room.take(sorted(places, key=lambda place: _crossings(place[1], others)))

    def _slope_label(self, text, x0, y0, way, turn, up):
        """Return a label along a slope, `up` pixels above it, that begins `way` pixels from the slope's lower
        end."""
        x, y = (
            x0 + way * math.cos(turn) - up * math.sin(turn),
            y0 - way * math.sin(turn) - up * math.cos(turn),
        )
        steps = range(4, int(LETTER * len(text)), 8)
        boxes = [_box(x + s * math.cos(turn) - 5, y - s * math.sin(turn), 10) for s in steps]
        return (text, x, y, -self.angle), boxes


def _levels(ceilings):
    """Return {name: bandwidth} of the memory levels, the nearest first."""
    return {name: ceilings.bandwidth(name) for name, _ in ceilings.near}


def _decades(values):
    low, high = math.floor(math.log10(min(values)) - 0.1), math.ceil(math.log10(max(values)) + 0.05)
    return low, max(high, low + 1)


def _points(x0, y0, x1, y1, n=100):
    """Return evenly spaced points of a line."""
    return [(x0 + k / n * (x1 - x0), y0 + k / n * (y1 - y0)) for k in range(n + 1)]


def _crossings(boxes, points):
    return sum(left < x < right and top < y < bottom for left, top, right, bottom in boxes for x, y in points)


def _box(x, y, width):
    """Return the box of a text that begins at x, with its base line at y."""
    return x, y - ABOVE, x + width, y + BELOW


class Plot:
    """Place the marks and labels of `dots` on `axes`.

    Parameters
    ----------
    axes : Axes
    dots : list of Dot
    label : str
        A description of the whole plot, for a screen reader.
    roofs : str, optional
        The id of roofs elsewhere in the page, with the same axes and size.
    links : bool
        Whether marks are links to their row's details; otherwise they can only be focused.
    """

    def __init__(self, axes, dots, label="", roofs="", links=True):
        self.axes, self.label, self.roofs, self.links, room = axes, label, roofs, links, Room(axes.size)
        self.labels = [found for found in axes.labels(room) if found]
        placed = []
        for dot in sorted(dots, key=lambda d: -d.share):  # small marks are drawn on top
            x, y, old = axes.x(dot.intensity), axes.y(dot.rate), dot.before
            levels = [axes.x(at) for at in dot.intensities.values()]
            around = [(x, dot.side / 2)] + [(at, 0.35 * dot.side) for at in levels]
            room.taken += [(at - half, y - half, at + half, y + half) for at, half in around]
            room.taken.append((min([x, *levels]), y - 2, max([x, *levels]), y + 2))
            was = old and (axes.x(old.intensity), axes.y(old.rate))
            placed.append((dot, x, y, axes.y(dot.operations / dot.attainable), levels, was))
        # Of each dot: its place, its roof, the bytes taken from each level, the earlier mark, and its label.
        self.marks = [(dot, x, y, *more, room.take(self._texts(dot, x, y))) for dot, x, y, *more in placed]

    def _texts(self, dot, x, y):
        """Yield ((text, x of its middle, y of its base, distance), boxes): possible places of the label, the
        best first."""
        names = [f"{dot.number} {dot.tag}"] if dot.tag and self.axes.size == WIDE else []
        for text, away in [*((name, 0) for name in names), *((dot.number, 13 * k) for k in range(7))]:
            half = LETTER * len(text) / 2
            for dx, dy in AROUND:
                cx = x + dx * (half + 3 + (dot.side / 2 if not dy else -half / 2) + away)
                cy = y + 4 + dy * (dot.side / 2 + 10 + away)
                yield (text, cx, cy, away), [_box(cx - half, cy, 2 * half)]
