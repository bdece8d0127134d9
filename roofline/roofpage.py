"""The part of the report's page that holds every method against its roof."""

from html import escape

from roofline.report import ROOF_COLUMNS, roof_cells
from roofline.roofplot import plot
from roofline.units import scaled, spread
from roofline.verdicts import advice, resource, verdict

LINES = 5  # of a kernel's text that are shown, the costliest first


def numbered(report):
    """(number, Result) of the results that have a roof, as the page counts them."""
    return list(enumerate((r for r in report.results if r.roof), 1))


def section(report):
    """Verdicts, plot, table and details of the results that have a roof; "" where none has."""
    rows = numbered(report)
    if not rows:
        return ""
    verdicts = "".join(f"<li>{escape(verdict(r))}{_advice(r)}</li>" for _, r in rows)
    details = "".join(_details(number, r) for number, r in rows)
    return (
        f"<h2>Against the roof</h2>\n{plot(rows, report.ceilings)}\n<ol>{verdicts}</ol>\n{_overview(rows)}\n"
        f"<h2>What each method does</h2>\n<p>Counted in the text of the kernels, not estimated.</p>\n{details}\n"
        f"{_ceilings(report.ceilings)}"
    )


def _advice(result):
    return "".join(f'<p class="soft">{escape(sentence)}</p>' for sentence in advice(result))


def table(caption, names, rows):
    """A table that narrow screens lay out as blocks; its roles are written out, for some browsers lose them then."""
    head = "".join(f'<th role="columnheader" scope="col">{escape(name)}</th>' for name in names)
    body = "".join(
        '<tr role="row">'
        + "".join(
            f'<td role="cell" data-label="{escape(n)}">{escape(str(cell))}</td>'
            for n, cell in zip(names, row, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    return (
        f'<table role="table"><caption>{escape(caption)}</caption>'
        f'<thead role="rowgroup"><tr role="row">{head}</tr></thead>'
        f'<tbody role="rowgroup">{body}</tbody></table>'
    )


def _overview(rows):
    cells = [(number, r.method, *roof_cells(r)) for number, r in rows]
    caption = "Median: measured. Flops, special functions, compulsory bytes: counted. Attainable: modelled."
    return table(caption, ("No.", "Method", *ROOF_COLUMNS), cells)


def _details(number, result):
    """The launches of one method, folded away."""
    launches = {}
    for label, counts, bound, seconds in result.roof.launches:
        launches.setdefault((label, counts.policy), []).append((counts, bound, seconds))
    parts = [_launch(label, same, result.roof.seconds) for (label, _), same in launches.items()]
    notes = "".join(f"<li>{escape(note)}</li>" for note in result.roof.notes)
    return (
        f"<details><summary>{number}. {escape(result.method)}</summary>{_bars(result.roof)}{''.join(parts)}"
        f"{f'<ul>{notes}</ul>' if notes else ''}</details>"
    )


def _bars(roof):
    """The time that each resource wants, beside the measured one."""
    rows = [
        ("measured", roof.seconds),
        *((resource(name), seconds) for name, seconds in roof.wants.items() if seconds > 0),
    ]
    longest = max(seconds for _, seconds in rows)
    spoken = "Time wanted by each resource; the table above has the largest"
    parts = [f'<svg height="{34 * len(rows)}" role="img" aria-label="{spoken}">']
    for k, (name, seconds) in enumerate(rows):
        y = 34 * k
        parts.append(
            f'<text x="0" y="{y + 14}">{escape(name)}: {escape(scaled(seconds, "s"))}</text>'
            f'<rect class="bar" x="0" y="{y + 19}" width="{100 * seconds / longest:.2f}%" height="8"/>'
        )
    return f"<figure>{''.join(parts)}</svg></figure>"


def _launch(label, same, total):
    """Launches of one kernel over one size: what one of them does."""
    counts, bound, _ = same[0]
    share = sum(seconds for *_, seconds in same) / total
    operations = [(f"flops, {dtype}", f"{n:,}") for dtype, n in counts.flops_by_dtype.items()]
    operations += [(f"{name}, {dtype}", f"{n:,}") for (name, dtype), n in counts.special.items()]
    operations += [(f"atomic {name}, {dtype}", f"{n:,}") for (name, dtype), n in counts.atomics.items()]
    operations += [
        ("integer operations", f"{counts.integer:,}"),
        ("comparisons", f"{counts.comparisons:,}"),
        ("bytes, compulsory", scaled(counts.compulsory, "B")),
        ("bytes, requested by loads and stores", scaled(counts.loaded + counts.stored, "B")),
        ("bytes, transferred", "not measured: that needs hardware counters"),
        ("requested / compulsory", _ratio(counts)),
        ("bound by", resource(bound.by)),
    ]
    operations += [("executed", sentence) for sentence in counts.explanation()]
    title = (
        f"{label}: {len(same):,} launch{'es' if len(same) > 1 else ''} over {counts.policy}, {share:.0%} of the time"
    )
    return table(title, ("Of one launch", "Count"), operations) + _lines(counts)


def _ratio(counts):
    return f"{(counts.loaded + counts.stored) / counts.compulsory:.3g}" if counts.compulsory else ""


def _lines(counts):
    """The lines with most operations."""
    ranked = sorted(counts.by_line().items(), key=lambda item: -sum(item[1].values()))[:LINES]
    rows = [(place, ", ".join(f"{n:,} {what}" for what, n in done.items())) for place, done in ranked]
    return table("Costliest lines", ("Line", "Operations"), rows)


def _ceilings(ceilings):
    rows = []
    for c in ceilings.items.values():
        unit = c.unit if c.unit == "s" else f"{c.unit}/s"
        rows.append((c.name, scaled(c.best, unit), scaled(c.rate.median, unit), spread(c.rate, unit), c.method))
    caption = f"Measured {ceilings.date}{ceilings.clock_in_words()}"
    return f"<h2>Ceilings</h2>\n{table(caption, ('Ceiling', 'Roof', 'Median', 'Quartiles', 'Method'), rows)}"
