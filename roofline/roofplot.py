"""The roofline plot as SVG: measured roofs, a mark for each row, and how high it could stand.

A page holds it twice, wide and narrow, so that letters keep their size on a phone. Plots of one part share
their axes and roofs, which stand in the page once.
"""

import math
from dataclasses import dataclass
from html import escape

from roofline.units import scaled

WIDE, NARROW, SMALL = (880, 460), (336, 400), (336, 250)  # width and height in pixels
LEFT, RIGHT, TOP, BOTTOM = 46, 6, 10, 40
STYLE = (  # of a file; a page has its own, which follows the reader's choice of light and dark
    "text{font:13px"
    " sans-serif;fill:#1c2024}.soft{fill:#4f5760;font-size:12px}.grid{stroke:#dde1e6}.roof{stroke:#5a626b;"
    "stroke-width:1.6}.reach{stroke:#0b5cad;stroke-dasharray:3 3}.mark path{fill:#0b5cad;stroke:#fff}.near"
    " path{fill:#fff;"
    "stroke:#0b5cad;stroke-width:1.5}.join{stroke:#0b5cad}.label{font-weight:600}.back{fill:#fff}"
)
SHAPES = (  # of about unit area: disc, square, diamond, triangles up and down, cross
    "M0,-.56A.56,.56 0 1 1 0,.56A.56,.56 0 1 1 0,-.56Z",
    "M-.5,-.5H.5V.5H-.5Z",
    "M0,-.7L.7,0L0,.7L-.7,0Z",
    "M0,-.75L.75,.5H-.75Z",
    "M-.75,-.5H.75L0,.75Z",
    "M-.22,-.65H.22V-.22H.65V.22H.22V.65H-.22V.22H-.65V-.22H-.22Z",
)
LEAST, MOST = 9.0, 24.0  # pixels across a mark of none and of all of the time


@dataclass(frozen=True)
class View:
    """What a plot counts, and the peaks that bound it."""

    unit: str
    across: str
    peaks: tuple

    def roofs(self, ceilings):
        """{name: rate} of the peaks that were measured."""
        return {name: ceilings.rate(name) for name in self.peaks if ceilings.rate(name)}


FLOPS = View("flop/s", "flops per byte", ("fma float64", "fma float32", "no fma float64"))
OTHERS = View("op/s", "operations per byte", ("integer int64", "atomic apart int64"))


@dataclass(frozen=True)
class Dot:
    """A mark: operations, bytes, seconds, and seconds at the roof; `share` of the run's time; `near` are the
    bytes asked of the nearest memory level, `level` the one that holds the compulsory bytes."""

    number: int
    name: str
    operations: float
    bytes: float
    seconds: float
    attainable: float
    level: str
    near: float = 0.0
    near_level: str = ""
    share: float = 0.3
    link: str = ""
    bound_by: str = ""

    @property
    def rate(self):
        """Operations per second."""
        return self.operations / self.seconds

    @property
    def intensities(self):
        """Operations per byte: (compulsory, asked of the nearest level), the second one may lack."""
        near = self.operations / self.near if self.near and self.near_level != self.level else None
        return self.operations / self.bytes, near

    def spoken(self, unit):
        """The mark in a sentence."""
        far, near = self.intensities
        also = f", {near:.3g} by the bytes asked of {self.near_level}" if near else ""
        return (
            f"{self.number}, {self.name}: {scaled(self.rate, unit)} at {far:.3g} per compulsory byte, which"
            f" {self.level} holds{also}; {self.attainable / self.seconds:.0%} of attainable, bound by"
            f" {self.bound_by}"
        )


class Axes:
    """Both logarithmic scales, whole powers of ten, that hold all marks of a part and its roofs."""

    def __init__(self, dots, ceilings, view):
        self.view, self.ceilings, self.peaks = view, ceilings, view.roofs(ceilings)
        self.levels = {name: ceilings.bandwidth(name) for name in names_of_levels(ceilings)}
        self.top = max(self.peaks.values())
        ridges = [self.top / bandwidth for bandwidth in self.levels.values()]
        across = [i for d in dots for i in d.intensities if i] + ridges
        up = [rate for d in dots for rate in (d.rate, d.operations / d.attainable)] + list(
            self.peaks.values()
        )
        (self.x0, self.x1), (self.y0, self.y1) = _decades(across), _decades(up)
        self.size = WIDE

    def sized(self, size):
        """These axes for a drawing of another size."""
        other = object.__new__(Axes)
        other.__dict__.update(self.__dict__, size=size)
        return other

    def x(self, value):
        """Pixels from the left."""
        part = (math.log10(value) - self.x0) / (self.x1 - self.x0)
        return LEFT + (self.size[0] - LEFT - RIGHT) * part

    def y(self, value):
        """Pixels from above."""
        part = (self.y1 - math.log10(value)) / (self.y1 - self.y0)
        return TOP + (self.size[1] - TOP - BOTTOM) * part


def names_of_levels(ceilings):
    """Memory levels that have a bandwidth, the nearest first: scratch stands for the first cache of a GPU."""
    names = [name for name, _ in ceilings.levels]
    return (["shared"] if "bandwidth shared" in ceilings.items else []) + names


def _decades(values):
    low, high = math.floor(math.log10(min(values)) - 0.1), math.ceil(math.log10(max(values)) + 0.05)
    return low, max(high, low + 1)


def drawing(axes, dots, *, roofs=None, label="", links=True):
    """An SVG element of the size of `axes`.

    Parameters
    ----------
    axes : Axes
    dots : list of Dot
    roofs : str, optional
        The id of roofs that stand elsewhere in the page, of the same axes and size.
    label : str
        What the whole shows, for a screen reader.
    links : bool
        Marks are links to their row's details; otherwise they only take the focus.
    """
    width, height = axes.size
    back = f'<use href="#{roofs}"/>' if roofs else background(axes)
    places, parts = [], []
    for dot in sorted(dots, key=lambda d: -d.share):  # small ones on top
        parts.append(_mark(axes, dot, places, links))
    return (
        f'<svg viewBox="0 0 {width} {height}" role="group"'
        f' aria-label="{escape(label)}">{back}{"".join(parts)}</svg>'
    )


def background(axes):
    """Grid, roofs and their labels."""
    return "".join([*_grid(axes), *_slopes(axes), *_peaks(axes)])


def _grid(axes):
    width, height = axes.size
    step = max(1, math.ceil((axes.x1 - axes.x0) / (8 if width > 500 else 4)))
    for power in range(axes.x0, axes.x1 + 1):
        x = axes.x(10.0**power)
        yield f'<path class="grid" d="M{x:.1f},{TOP}V{height - BOTTOM}"/>'
        if (power - axes.x0) % step == 0:
            anchor = "end" if power == axes.x1 else "middle"
            yield (
                f'<text class="soft" x="{x:.1f}" y="{height - BOTTOM + 16}"'
                f' text-anchor="{anchor}">{10.0**power:g}</text>'
            )
    for power in range(axes.y0, axes.y1 + 1):
        y = axes.y(10.0**power)
        yield f'<path class="grid" d="M{LEFT},{y:.1f}H{width - RIGHT}"/>'
        yield (
            f'<text class="soft" x="{LEFT - 5}" y="{y + 4:.1f}"'
            f' text-anchor="end">{escape(scaled(10.0**power))}</text>'
        )
    middle = (LEFT + width - RIGHT) / 2
    yield (
        f'<text class="soft" x="{middle:.0f}" y="{height - 6}" text-anchor="middle">{axes.view.across}</text>'
    )


def _slopes(axes):
    """The roofs of the memory levels, from the plot's edge to the highest peak, each with its label along
    it."""
    width, height = axes.size
    rise = (height - TOP - BOTTOM) / (axes.y1 - axes.y0)
    angle = math.degrees(math.atan2(rise, (width - LEFT - RIGHT) / (axes.x1 - axes.x0)))
    heights = []
    for level, bandwidth in axes.levels.items():
        start, end = _span(axes, bandwidth)
        yield (
            f'<path class="roof" d="M{axes.x(start):.1f},{axes.y(start * bandwidth):.1f}'
            f'L{axes.x(end):.1f},{axes.y(end * bandwidth):.1f}"/>'
        )
        heights.append((axes.y(bandwidth), _named(axes, level, bandwidth, "B/s"), bandwidth))
    for text, bandwidth in _labels(heights, 14 / math.cos(math.radians(angle))):
        start, _ = _span(axes, bandwidth)
        x, y = axes.x(start), axes.y(start * bandwidth)
        turn = f"rotate({-angle:.1f} {x:.1f} {y:.1f})"
        yield f'<text class="soft" x="{x + 14:.1f}" y="{y - 4:.1f}" transform="{turn}">{escape(text)}</text>'


def _named(axes, name, rate, unit):
    """A roof's label; small plots leave its value to the large one."""
    return name if axes.size == SMALL else f"{name} {scaled(rate, unit)}"


def _span(axes, bandwidth):
    """Where a slope begins and ends, across."""
    start = max(10.0**axes.x0, 10.0**axes.y0 / bandwidth)
    return start, max(start, min(10.0**axes.x1, axes.top / bandwidth))


def _labels(heights, apart):
    """(text, rate) of lines at these heights: those so near to each other that labels would meet share the
    upper one's."""
    found = []
    for y, text, rate in sorted(heights):
        if found and y - found[-1][0] < apart:
            found[-1][1].append(text)
        else:
            found.append((y, [text], rate))
    return [(", ".join(texts), rate) for _, texts, rate in found]


def _peaks(axes):
    """The flat roofs, from where a memory level reaches them to the right edge."""
    right, fastest, heights = axes.size[0] - RIGHT, max(axes.levels.values()), []
    for name, rate in axes.peaks.items():
        y = axes.y(rate)
        yield f'<path class="roof" d="M{max(LEFT, axes.x(rate / fastest)):.1f},{y:.1f}H{right}"/>'
        heights.append((y, _named(axes, name, rate, axes.view.unit), rate))
    for text, rate in _labels(heights, 15):
        yield (
            f'<text class="soft" x="{right}" y="{axes.y(rate) - 4:.1f}"'
            f' text-anchor="end">{escape(text)}</text>'
        )


def _mark(axes, dot, places, links):
    """A mark, which the keyboard reaches and a screen reader speaks, with its number where there is room."""
    spoken = escape(dot.spoken(axes.view.unit))
    far, near = dot.intensities
    x, y, roof = axes.x(far), axes.y(dot.rate), axes.y(dot.operations / dot.attainable)
    side = math.sqrt(LEAST**2 + (MOST**2 - LEAST**2) * min(1.0, max(0.0, dot.share)))
    shape = SHAPES[(dot.number - 1) % len(SHAPES)]
    parts = [f"<title>{spoken}</title>", f'<path class="reach" d="M{x:.1f},{y:.1f}V{roof:.1f}"/>']
    if near:
        parts.append(f'<path class="join" d="M{x:.1f},{y:.1f}H{axes.x(near):.1f}"/>')
        parts.append(f'<g class="near">{_shape(shape, axes.x(near), y, 0.7 * side)}</g>')
    parts.append(_shape(shape, x, y, side))
    at = _free(axes, places, x, y, side, len(str(dot.number)))
    parts.append(
        f'<text class="label" x="{at[0]:.1f}" y="{at[1] + 4.5:.1f}" text-anchor="middle">{dot.number}</text>'
    )
    if links:
        return f'<a class="mark" href="#{dot.link}" aria-label="{spoken}">{"".join(parts)}</a>'
    return f'<g class="mark" tabindex="0" role="img" aria-label="{spoken}">{"".join(parts)}</g>'


def _shape(path, x, y, side):
    return (
        f'<path transform="translate({x:.1f} {y:.1f}) scale({side:.1f})" vector-effect="non-scaling-stroke"'
        f' d="{path}"/>'
    )


def _free(axes, places, x, y, side, digits):
    """Where a number fits beside its mark: the first place around it where no other mark or number is."""
    away, half = side / 2 + 5 + 3 * digits, (4 * digits + 1, 6)
    best, least = None, math.inf
    for ring in (1.0, 1.8, 2.8):
        for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1), (0.8, 0.8), (-0.8, 0.8), (0.8, -0.8), (-0.8, -0.8)):
            cx, cy = x + ring * away * dx, y + ring * (side / 2 + 8) * dy
            if not (LEFT + 4 < cx < axes.size[0] - RIGHT - 4 and TOP < cy < axes.size[1] - BOTTOM):
                continue
            hits = sum(abs(cx - px) < half[0] + w and abs(cy - py) < half[1] + h for px, py, w, h in places)
            if hits < least:
                best, least = (cx, cy), hits
        if least == 0:
            break
    best = best or (x, y - side)
    places += [(x, y, side / 2, side / 2), (*best, *half)]
    return best


def together(parts):
    """The plots of all parts below each other as one SVG file, for papers, with the names of their rows; ""
    where nothing can be plotted."""
    drawings, down, width = [], 0, WIDE[0]
    for part in parts:
        for view, axes in part.axes.items():
            dots = part.dots(view)
            inner = drawing(axes.sized(WIDE), dots, links=False, label=f"Roofline of {part.place}")
            sized = inner.replace("<svg ", f'<svg y="{down + 24}" width="{width}" height="{WIDE[1]}" ', 1)
            drawings.append(
                f'<text class="label" x="{LEFT}" y="{down + 18}">{escape(part.place)}</text>{sized}'
            )
            down += WIDE[1] + 24
            for dot in sorted(dots, key=lambda d: d.number):
                down += 17
                drawings.append(f'<text x="{LEFT}" y="{down}">{dot.number}. {escape(dot.name)}</text>')
            down += 20
    if not drawings:
        return ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{down}"><style>{STYLE}</style>'
        f'<rect class="back" width="{width}" height="{down}"/>{"".join(drawings)}</svg>\n'
    )
