"""The roofline plot as inline SVG: measured roofs, a numbered mark for each method, and how high it could stand.

Drawn in percentages across and in pixels down, so that letters keep their size on a narrow screen.
"""

import math
from html import escape

from roofline.units import scaled

HEIGHT, AXIS, TOP, WIDTH = 340, 40, 14, 900
_STYLE = (  # of a file; a page has its own, which follows the reader's choice of light and dark
    "text{font:14px sans-serif}.soft{fill:#5a626b;font-size:12px}.grid{stroke:#d5dae0}"
    ".roof{stroke:#5a626b;stroke-width:2}.reach{stroke:#0b5cad;stroke-dasharray:3 3}.mark path{fill:#0b5cad}.label{font-weight:600}"
)
SHAPES = ("M-7,-7H7V7H-7Z", "M0,-9L9,0L0,9L-9,0Z", "M0,-9L9,7H-9Z", "M-9,-7H9L0,9Z")  # square, diamond, triangles
PEAKS = ("fma float64", "fma float32", "no fma float64")


class _Axes:
    """Both logarithmic scales, whole powers of ten."""

    def __init__(self, intensities, rates):
        self.x0, self.x1 = _decades(intensities)
        self.y0, self.y1 = _decades(rates)

    def x(self, value):
        return 100 * (math.log10(value) - self.x0) / (self.x1 - self.x0)

    def y(self, value):
        return TOP + (HEIGHT - TOP) * (self.y1 - math.log10(value)) / (self.y1 - self.y0)


def _decades(values):
    low, high = math.floor(math.log10(min(values)) - 0.2), math.ceil(math.log10(max(values)) + 0.1)
    return low, max(high, low + 1)


def plot(results, ceilings):
    """The figure of the results that have flops and bytes; "" where none has.

    Parameters
    ----------
    results : list of (number, Result)
        Numbers are shown in the plot, and stand before the method's verdict below it.
    ceilings : Ceilings
    """
    dots = [(number, r) for number, r in results if r.roof and r.roof.intensity]
    if not dots:
        return ""
    levels = [name for name, _ in ceilings.levels]
    peaks = {name: ceilings.rate(name) for name in PEAKS if ceilings.rate(name)}
    top = max(peaks.values())
    ridges = [top / ceilings.bandwidth(level) for level in levels]
    rates = [rate for _, r in dots for rate in _rates(r)]
    axes = _Axes([r.roof.intensity for _, r in dots] + ridges, [*rates, *peaks.values()])
    label = (
        "Operations per second over operations per byte, both logarithmic; the verdicts below tell the same in words"
    )
    parts = [f'<svg class="roofs" height="{HEIGHT + AXIS}" role="group" aria-label="{label}">', *_grid(axes)]
    parts += [_slope(axes, level, ceilings.bandwidth(level), top, k) for k, level in enumerate(levels)]
    parts += [_flat(axes, name, rate, min(ridges)) for name, rate in peaks.items()]
    parts += [_mark(axes, number, r) for number, r in dots]
    parts.append("</svg>")
    caption = (
        "Across: floating-point operations per compulsory byte. Up: operations per second. Slopes are memory levels, "
        "flat lines peaks, all measured. A numbered mark is a method; the stroke above it ends where its own roof is, "
        "special functions included."
    )
    return f"<figure>{''.join(parts)}<figcaption>{caption}</figcaption></figure>"


def standalone(results, ceilings):
    """The plot as an SVG file of its own, for papers; "" where there is none. Parameters as in `plot`."""
    figure = plot(results, ceilings)
    if not figure:
        return ""
    drawing = figure[figure.index("<svg") : figure.rindex("</svg>") + len("</svg>")]
    names = "".join(
        f'<text class="soft" x="2" y="{HEIGHT + AXIS + 18 * k}">{number}. {escape(r.method)}</text>'
        for k, (number, r) in enumerate(results, 1)
    )
    height = HEIGHT + AXIS + 18 * (len(results) + 1)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}"><style>{_STYLE}</style>'
    return f"{head}{drawing}{names}</svg>\n"


def _rates(result):
    """Measured and attainable flops per second."""
    flops = result.roof.total("flops")
    return flops / result.roof.seconds, flops / result.roof.attainable


def _grid(axes):
    for power in range(axes.x0, axes.x1 + 1):
        at = axes.x(10.0**power)
        anchor = "start" if power == axes.x0 else "end" if power == axes.x1 else "middle"
        yield f'<line class="grid" x1="{at:.2f}%" x2="{at:.2f}%" y1="{TOP}" y2="{HEIGHT}"/>'
        if (power - axes.x0) % max(1, (axes.x1 - axes.x0) // 4) == 0:
            yield f'<text class="soft" x="{at:.2f}%" y="{HEIGHT + 16}" text-anchor="{anchor}">{10.0**power:g}</text>'
    for power in range(axes.y0, axes.y1 + 1):
        y = axes.y(10.0**power)
        yield f'<line class="grid" x1="0" x2="100%" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text class="soft" x="2" y="{y - 3:.1f}">{escape(scaled(10.0**power, "flop/s"))}</text>'
    yield f'<text class="soft" x="50%" y="{HEIGHT + 34}" text-anchor="middle">flops per byte</text>'


def _slope(axes, level, bandwidth, top, k):
    """The roof of a memory level, from the plot's edge up to the highest peak."""
    start = max(10.0**axes.x0, 10.0**axes.y0 / bandwidth)
    end = min(10.0**axes.x1, top / bandwidth)
    label = f"{level} {scaled(bandwidth, 'B/s')}"
    at = start * (end / start) ** (0.35 + 0.12 * k)  # labels of neighbours do not lie on each other
    return (
        f'<line class="roof" x1="{axes.x(start):.2f}%" y1="{axes.y(start * bandwidth):.1f}" x2="{axes.x(end):.2f}%" '
        f'y2="{axes.y(end * bandwidth):.1f}"/>'
        f'<text class="soft" x="{axes.x(at):.2f}%" y="{axes.y(at * bandwidth) - 5:.1f}">{escape(label)}</text>'
    )


def _flat(axes, name, rate, ridge):
    """The roof of a peak, to the plot's right edge."""
    y, label = axes.y(rate), f"{name} {scaled(rate, 'flop/s')}"
    return (
        f'<line class="roof" x1="{max(0.0, axes.x(ridge)):.2f}%" x2="100%" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text class="soft" x="100%" y="{y - 4:.1f}" text-anchor="end">{escape(label)}</text>'
    )


def _mark(axes, number, result):
    """A method's mark, which the keyboard reaches and a screen reader speaks."""
    measured, attainable = _rates(result)
    x, y, roof = axes.x(result.roof.intensity), axes.y(measured), axes.y(attainable)
    spoken = (
        f"{number}, {result.method}: {scaled(measured, 'flop/s')} at {result.roof.intensity:.3g} flops per byte, "
        f"{result.roof.share:.0%} of attainable, bound by {result.roof.by}"
    )
    return (
        f'<g class="mark" tabindex="0" role="img" aria-label="{escape(spoken)}"><title>{escape(spoken)}</title>'
        f'<line class="reach" x1="{x:.2f}%" x2="{x:.2f}%" y1="{y:.1f}" y2="{roof:.1f}"/>'
        f'<svg x="{x:.2f}%" y="{y:.1f}" overflow="visible"><path d="{SHAPES[number % len(SHAPES)]}"/></svg>'
        f'<text class="label" x="{x:.2f}%" y="{y + 22:.1f}" text-anchor="middle">{number}</text></g>'
    )
