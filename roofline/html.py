"""The report as one HTML page: no script, no network, every name escaped.

The chart is drawn in percentages instead of a scaled drawing, so that its letters keep their size on a narrow screen.
"""

import math
from html import escape

from roofline import roofpage
from roofline.report import verdict
from roofline.units import scaled, spread

_STYLE = """
:root {
  color-scheme: light dark;
  --page: #ffffff; --text: #1c2024; --soft: #5a626b; --line: #d5dae0; --bar: #0b5cad; --warn: #a12622;
}
@media (prefers-color-scheme: dark) {
  :root { --page: #14171a; --text: #e8eaed; --soft: #a9b2bb; --line: #3a4148; --bar: #7cc0ff; --warn: #ff9a94; }
}
body {
  margin: 0 auto; padding: 1rem; max-width: 60rem; background: var(--page); color: var(--text);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere;
}
h1 { font-size: 1.6rem; margin: 0.5rem 0; }
h2 { font-size: 1.2rem; margin: 2rem 0 0.5rem; }
figure { margin: 0; }
.soft, figcaption, caption { color: var(--soft); }
caption, figcaption { text-align: left; font-size: 0.9rem; }
.failed { color: var(--warn); }
svg { display: block; width: 100%; }
svg text { fill: var(--text); font: 14px system-ui, sans-serif; }
svg .soft { fill: var(--soft); font-size: 12px; }
svg .bar { fill: var(--bar); }
svg .grid { stroke: var(--line); }
svg .whisker { stroke: var(--text); stroke-width: 2; }
svg .roof { stroke: var(--soft); stroke-width: 2; }
svg .reach { stroke: var(--bar); stroke-dasharray: 3 3; }
svg .mark path { fill: var(--bar); }
svg .mark:focus { outline: 2px solid var(--text); }
svg .label { font-weight: 600; }
details { border-top: 1px solid var(--line); padding: 0.5rem 0; }
summary { cursor: pointer; }
table { border-collapse: collapse; width: 100%; margin-top: 1rem; }
th, td { text-align: left; padding: 0.3rem 0.6rem 0.3rem 0; }
tr { border-bottom: 1px solid var(--line); }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.2rem 1rem; }
dt { color: var(--soft); }
dd { margin: 0; }
@media (max-width: 44rem) {
  thead { position: absolute; clip-path: inset(50%); height: 1px; overflow: hidden; }
  table, caption, tbody, tr { display: block; }
  tr { padding: 0.5rem 0; }
  td { display: flex; gap: 0.5rem; padding: 0.1rem 0; }
  td.number { text-align: left; }
  td::before { content: attr(data-label); color: var(--soft); flex: 0 0 7.5rem; }
  dl { grid-template-columns: 1fr; }
  dd { margin-bottom: 0.4rem; }
}
"""
_COLUMNS = ("Method", "Space", "Median", "Quartiles", "Pairs/s", "Value")
_NUMBERS = {"Median", "Quartiles", "Pairs/s", "Value"}
_ROW_PX = 58  # label, figure and bar of one run
_AXIS_PX = 22


def page(report):
    """The page of a `roofline.report.Report`, as text."""
    body = [
        f"<h1>Measured speed on {escape(report.space)}</h1>",
        f'<p class="soft">{escape(report.machine["date"])}, {escape(_hardware(report.machine))}</p>',
        *(_group(name, results, _decades(report.results)) for name, results in report.groups().items()),
        roofpage.section(report),
        _failures(report),
        _machine(report.machine),
        _reading(),
    ]
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            # The page says by itself that it fetches nothing and runs nothing.
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
            f"<title>Measured speed on {escape(report.space)}</title>",
            f"<style>{_STYLE}</style>",
            "</head>",
            "<body>",
            "<main>",
            *(part for part in body if part),
            "</main>",
            "</body>",
            "</html>",
            "",
        ]
    )


def _hardware(machine):
    return machine["device"] or f"{machine['cpu']}, {machine['cores']} cores"


def _decades(results):
    """The axis that all charts share: powers of ten around the rates, or None where there are none."""
    rates = [rate for result in results if result.pairs_per_second is not None for rate in result.rate_quartiles]
    if not rates:
        return None
    low = math.floor(math.log10(min(rates)) - 0.3)  # the slowest bar keeps some length
    return low, max(math.ceil(math.log10(max(rates))), low + 1)


def _group(name, results, decades):
    """Verdict, chart and table of one input."""
    return (
        f"<h2>{escape(name)}</h2>\n<p>{escape(verdict(results))}</p>\n"
        f"{_chart([r for r in results if r.pairs_per_second is not None], decades)}\n{_table(results)}"
    )


def _chart(rated, decades):
    """Bars of pair rates on a logarithmic axis, with the quartiles as whiskers."""
    if not rated:
        return ""
    low, high = decades
    height = len(rated) * _ROW_PX

    def x(rate):
        return 100 * (math.log10(rate) - low) / (high - low)

    label = "Pairs per second of each method; the table below has the numbers"
    parts = [f'<svg height="{height + _AXIS_PX}" role="img" aria-label="{label}">']
    step = max(1, (high - low) // 4)  # at most about five figures fit a phone
    for power in range(low, high + 1):
        at = 100 * (power - low) / (high - low)
        parts.append(f'<line class="grid" x1="{at:.2f}%" x2="{at:.2f}%" y1="0" y2="{height}"/>')
        if (power - low) % step == 0:
            anchor = "start" if power == low else "end" if power == high else "middle"
            place = f'x="{at:.2f}%" y="{height + 16}" text-anchor="{anchor}"'
            parts.append(f'<text class="soft" {place}>{escape(scaled(10.0**power))}</text>')
    for row, result in enumerate(rated):
        y = row * _ROW_PX
        lower, upper = result.rate_quartiles
        figure = f"{scaled(result.pairs_per_second)} pairs/s"
        parts += [
            f"<g><title>{escape(f'{result.method}: {figure}')}</title>",
            f'<text x="0" y="{y + 16}">{escape(_short(result.method))}</text>',
            f'<text class="soft" x="0" y="{y + 32}">{escape(figure)}</text>',
            f'<rect class="bar" x="0" y="{y + 38}" width="{x(result.pairs_per_second):.2f}%" height="12"/>',
            f'<line class="whisker" x1="{x(lower):.2f}%" x2="{x(upper):.2f}%" y1="{y + 44}" y2="{y + 44}"/>',
            "</g>",
        ]
    parts.append("</svg>")
    caption = (
        "Pairs per second, on a logarithmic axis: each vertical line is ten times the one to its left. The stroke on a "
        "bar joins the quartiles."
    )
    return f"<figure>{''.join(parts)}<figcaption>{caption}</figcaption></figure>"


def _short(text, limit=44):
    """Text that fits the chart of a narrow screen; the full text is in the title beside it."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _table(results):
    head = "".join(f'<th role="columnheader" scope="col"{_number(name)}>{name}</th>' for name in _COLUMNS)
    rows = []
    for result in results:
        cells = (
            result.method,
            result.space,
            scaled(result.seconds.median, "s"),
            spread(result.seconds, "s"),
            "" if result.pairs_per_second is None else scaled(result.pairs_per_second),
            "" if result.value is None else f"{result.value:.12g}",
        )
        rows.append(
            '<tr role="row">'
            + "".join(
                f'<td role="cell" data-label="{name}"{_number(name)}>{escape(cell)}</td>'
                for name, cell in zip(_COLUMNS, cells, strict=True)
            )
            + "</tr>"
        )
    # A table laid out as blocks loses its roles in some browsers, so they are written out.
    return (
        '<table role="table"><caption>Seconds of one call, measured</caption>'
        f'<thead role="rowgroup"><tr role="row">{head}</tr></thead>'
        f'<tbody role="rowgroup">{"".join(rows)}</tbody></table>'
    )


def _number(name):
    return ' class="number"' if name in _NUMBERS else ""


def _failures(report):
    items = [f"<li>{escape(failure.method)}: {escape(failure.message)}</li>" for failure in report.failures]
    if report.interrupted:
        items.append("<li>The run was interrupted; what had been measured is above.</li>")
    return f'<section class="failed"><h2>Not measured</h2><ul>{"".join(items)}</ul></section>' if items else ""


def _machine(machine):
    rows = {
        "Processor": machine["cpu"],
        "Cores": machine["cores"],
        "Cores busy with other work": machine["busy_cores"],
        "Device": machine["device"],
        "Space": machine["space"],
        "System": machine["system"],
        "Python": machine["python"],
        **machine["versions"],
    }
    items = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(str(value))}</dd>" for name, value in rows.items() if value is not None
    )
    return f"<h2>Machine</h2><dl>{items}</dl>"


def _reading():
    return (
        "<h2>How to read this</h2><p>Every time is the median of repeated calls, with the first and third quartile; "
        "each call is complete, from arrays in the space's memory to the number a user gets. Pairs are those of the "
        "full double sum over all events, n × n, whether or not a method visits each, so that rates of one input "
        "compare directly. Value is what the method returned: methods on one input should agree.</p>"
    )
