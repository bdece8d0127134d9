"""The roofline plot as a PDF, for papers, by matplotlib."""

from portable.errors import InputError
from roofline.rows import parts_of
from roofline.units import scaled

MARKERS = "osD^vPX<>p"


def check():
    """Refuse where matplotlib is missing, before any time is spent."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise InputError(
            '--pdf: matplotlib draws PDF files and is not installed: pip install "portable-kernels[plot]"'
        ) from error


def figure(document):
    """The rooflines of a report's parts side by side, as a matplotlib Figure; None where nothing can be
    plotted.

    Parameters
    ----------
    document : dict, see `roofline.reporting.document`
    """
    from matplotlib.figure import Figure

    shown = [(part, view, axes) for part in parts_of(document) for view, axes in part.axes.items()]
    if not shown:
        return None
    made = Figure(figsize=(6.4 * len(shown), 5.2), layout="constrained")
    for place, (part, view, axes) in zip(made.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        _draw(place, part, view, axes)
    return made


def _draw(place, part, view, axes):
    low, high = 10.0**axes.x0, 10.0**axes.x1
    for level, bandwidth in axes.levels.items():
        end = min(high, axes.top / bandwidth)
        place.plot([low, end], [low * bandwidth, end * bandwidth], color="0.4", lw=1)
        place.annotate(f"{level} {scaled(bandwidth, 'B/s')}", (low, low * bandwidth), (6, 3), textcoords="offset points", fontsize=7,
                       rotation=45, rotation_mode="anchor", transform_rotates_text=True)  # fmt: skip
    fastest = max(axes.levels.values())
    for name, rate in axes.peaks.items():
        place.plot([max(low, rate / fastest), high], [rate, rate], color="0.4", lw=1)
        place.annotate(
            f"{name} {scaled(rate, view.unit)}",
            (high, rate),
            (-3, 3),
            textcoords="offset points",
            fontsize=7,
            ha="right",
        )
    for dot in part.dots(view):
        (far, near), marker = dot.intensities, MARKERS[(dot.number - 1) % len(MARKERS)]
        if near:
            place.plot([far, near], [dot.rate, dot.rate], color="C0", lw=0.7)
            place.plot(near, dot.rate, marker, mfc="white", color="C0", ms=5)
        place.plot([far, far], [dot.rate, dot.operations / dot.attainable], ":", color="C0", lw=0.8)
        place.plot(
            far, dot.rate, marker, color="C0", ms=5 + 8 * dot.share**0.5, label=f"{dot.number}. {dot.name}"
        )
        place.annotate(str(dot.number), (far, dot.rate), (6, -9), textcoords="offset points", fontsize=8)
    place.set(
        xscale="log",
        yscale="log",
        xlim=(low, high),
        ylim=(10.0**axes.y0, 10.0**axes.y1),
        xlabel=view.across,
        ylabel=view.unit,
    )
    place.set_title(part.place, fontsize=9)
    place.legend(fontsize=6, loc="upper left", bbox_to_anchor=(0, -0.12), ncols=2, frameon=False)


def write(document, path):
    """Write the PDF; whether there was something to plot."""
    made = figure(document)
    if made is not None:
        made.savefig(path, format="pdf")
    return made is not None
