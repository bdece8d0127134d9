"""The plots of a report without the page, as one SVG file or PDF, for papers."""

import io

from portable.errors import InputError
from portable.roofline.html import rendered
from portable.roofline.roofplot import WIDE, Plot
from portable.roofline.rows import parts_of


def check():
    """Raise if svglib is missing, before any time is spent."""
    try:
        import svglib  # noqa: F401
    except ImportError as error:
        install = 'pip install ".[plot]"'
        raise InputError(f"--pdf: svglib makes PDF files and is not installed: {install}") from error


def plots(document):
    """Return (title, Axes, dots) of each part's rooflines."""
    return [
        (part.place, axes, part.dots(view)) for part in parts_of(document) for view, axes in part.axes.items()
    ]


def drawing(shown):
    """Return one SVG file of plots below each other, with the names of their rows; "" without plots.

    Parameters
    ----------
    shown : list of (title, Axes, dots), see `plots`
    """
    drawings, down = [], 0
    for title, axes, dots in shown:
        names = [f"{dot.number}. {dot.name}" for dot in sorted(dots, key=lambda dot: float(dot.number))]
        drawings.append(
            (down, title, Plot(axes.sized(WIDE), dots, f"Roofline of {title}", links=False), names)
        )
        down += WIDE[1] + 44 + 17 * len(names)
    return rendered("papers.svg", drawings=drawings, height=down) if shown else ""


def write_pdf(svg, path):
    """Write the SVG text of `drawing` as a PDF."""
    from reportlab.graphics import renderPDF
    from svglib.svglib import svg2rlg

    renderPDF.drawToFile(svg2rlg(io.StringIO(svg)), str(path))
