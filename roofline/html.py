"""The report as one HTML page: no script, no network, every name escaped. What it looks like stands in
templates/."""

import datetime
import functools
import math
import textwrap

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from roofline.attainable import LOW
from roofline.roofplot import FLOPS, NARROW, OTHERS, SMALL, WIDE, Plot
from roofline.rows import kernels_of, parts_of, program, rows_of, sweeps
from roofline.units import scaled, times
from roofline.verdicts import FAR, NEAR, groups, median_share, resource

KERNELS = 3  # of a call that are told in full, the costliest first
MANY = 40  # rows, beyond which a page tells less of each, to stay below half a megabyte
LEAST = 0.03  # of a call, below which its kernels share a line


@functools.cache
def _templates():
    made = Environment(
        loader=PackageLoader("roofline"),
        autoescape=select_autoescape(("html", "svg")),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    made.filters |= {
        "date": _date,
        "listing": _listing,
        "log": math.log10,
        "named": lambda kernels: [(f"kernel {k['label']}", "bar", k["seconds"]) for k in kernels],
        "percent": "{:.0%}".format,
        "px": lambda value: f"{value:.1f}".removesuffix(".0"),
        "resource": resource,
        "scaled": scaled,
        "times": times,
        "wants": _wants,
        "whole": "{:,}".format,
    }
    return made


def rendered(template, **what):
    """A template with what it shows, as text."""
    return _templates().get_template(template).render(**what)


def page(document):
    """The page of a report's document (see `roofline.reporting.document`), as text."""
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


def _date(text):
    """A date as people write it: "21 November 2026, 16:07 UTC"."""
    moment = datetime.datetime.fromisoformat(text)
    return f"{moment.day} {moment:%B %Y, %H:%M} UTC"


def _figures(part):
    """(view, wide plot, narrow plot, roofs of small plots) of each view that has something to show."""
    for view, axes in part.axes.items():
        label = f"Roofline of {part.place}; the list below tells the same in words"
        wide, narrow = (Plot(axes.sized(size), part.dots(view), label) for size in (WIDE, NARROW))
        yield part, view, wide, narrow, Plot(axes.sized(SMALL), [], part.small(view))


def _wants(roof):
    """(what, seconds) of what each resource wants, and of the time outside of kernels, the largest first."""
    total, outside = roof["seconds"]["value"], roof["outside_seconds"]["value"]
    wants = [(resource(name), s) for name, s in roof["wants_seconds"].items() if s > 0.001 * total]
    wants += [("measured, outside of kernels", outside)] if outside > 0.01 * total else []
    return sorted(wants, key=lambda want: -want[1])


def _card(row, n_rows):
    """(row, plot of its kernels or None, its kernels with their numbers, how many of them are told in
    full)."""
    few, views = KERNELS if n_rows <= MANY else 1, (FLOPS, OTHERS)
    view = next((view for view in views if row.kernels(view) and view in row.part.axes), None)
    if few == 1 or view is None:
        return row, None, row.numbered, few
    label, axes = f"Kernels of {row.result['method']} against the roof", row.part.axes[view].sized(SMALL)
    return row, Plot(axes, row.kernels(view), label, row.part.small(view), links=False), row.numbered, few


def _listing(kernel, most):
    """((whether it is in another function, file, number), share, operations in all, place, operations, text)
    of a kernel's lines: of a long text the costliest, in their order."""
    own, lines = kernel["place"].rpartition(":")[0], []
    for place in kernel["source"] | kernel["lines"]:
        file, _, number = place.rpartition(":")
        if number.isdigit():
            done, share = kernel["lines"].get(place, {}), kernel.get("shares", {}).get(place, 0.0)
            lines.append(((file != own, file, int(number)), share, sum(done.values()), place, done))
    costliest = sorted(
        sorted(lines, key=lambda line: line[1:3], reverse=True)[:most], key=lambda line: line[0]
    )
    texts = textwrap.dedent("\n".join(kernel["source"].get(place, "") for *_, place, _ in costliest)).split(
        "\n"
    )
    return [(*line, text) for line, text in zip(costliest, texts, strict=True)]
