"""The report as one HTML page: no script, no network, every name escaped. Its layout is in templates/."""

from portable.roofline.attainable import LOW
from portable.roofline.roofplot import FLOPS, NARROW, OTHERS, SMALL, WIDE, Plot
from portable.roofline.templates import rendered
from portable.roofline.rows import kernels_of, parts_of, program, rows_of, sweeps
from portable.roofline.verdicts import FAR, NEAR, groups, median_share

KERNELS = 3  # of a call that are shown in full, the costliest first
MANY = 40  # rows above which a page shows less of each, to stay below half a megabyte
LEAST = 0.03  # share of a call below which its kernels share a line


def page(document):
    """Return the page of a report's document (see `portable.roofline.documents.document`) as HTML."""
    parts = parts_of(document)
    rows = rows_of(parts)
    return rendered(
        "page.html",
        title="What these kernels could be",
        held=[row for row in rows if row.roof],
        program=program(parts),
        near=NEAR,
        median=median_share(rows),
        least_share=FAR,
        parts=parts,
        rows=rows,
        several=len({row.place for row in rows}) > 1,
        groups=groups(rows),
        figures=[figure for part in parts for figure in _figures(part)],
        kernels=kernels_of(rows),
        cards=[_card(row, len(rows)) for row in rows if row.roof],
        sweeps=sweeps(rows),
        least=LEAST,
        low=LOW,
    )


def _figures(part):
    """Return (view, wide plot, narrow plot, roofs of small plots) of each view that is not empty."""
    for view, axes in part.axes.items():
        label = f"Roofline of {part.place}; the list below tells the same in words"
        wide, narrow = (Plot(axes.sized(size), part.dots(view), label) for size in (WIDE, NARROW))
        yield part, view, wide, narrow, Plot(part.inner[view].sized(SMALL), [], part.small(view))


def _card(row, n_rows):
    """Return (row, plot of its kernels or None, its kernels with their numbers, the number of kernels shown
    in full)."""
    few, views = KERNELS if n_rows <= MANY else 1, (FLOPS, OTHERS)
    view = next((view for view in views if row.kernels(view) and view in row.part.axes), None)
    if few == 1 or view is None:
        return row, None, row.numbered, few
    label, axes = f"Kernels of {row.result['method']} against the roof", row.part.inner[view].sized(SMALL)
    return row, Plot(axes, row.kernels(view), label, row.part.small(view), links=False), row.numbered, few
