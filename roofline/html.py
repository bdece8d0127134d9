"""The report as one HTML page: no script, no network, every name escaped."""

import datetime
import math
from html import escape

from roofline import roofpage
from roofline.attainable import LOW
from roofline.checks import caveats
from roofline.roofplot import FLOPS, NARROW, SMALL, WIDE, background, drawing
from roofline.rows import parts_of, program, rows_of, sweeps
from roofline.units import scaled, times
from roofline.verdicts import NEAR

_STYLE = """
:root {
  color-scheme: light dark;
  --page: #ffffff; --card: #f5f7f9; --text: #1c2024; --soft: #4f5760; --line: #d5dae0; --bar: #0b5cad; --rest:
  #dfe5ec; --warn: #a12622; --good: #1a6b3c;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14171a; --card: #1d2126; --text: #e8eaed; --soft: #b0b8c1; --line: #3a4148; --bar: #7cc0ff;
    --rest: #333b44; --warn: #ff9a94; --good: #7fd6a2;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 1rem; max-width: 66rem; background: var(--page); color: var(--text);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere;
}
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0.5rem 0; }
h2 { font-size: 1.25rem; margin: 2.2rem 0 0.4rem; }
h3 { font-size: 1rem; margin: 1rem 0 0.3rem; }
p { margin: 0.4rem 0; max-width: 46rem; }
figure { margin: 0.8rem 0; }
ul { padding-left: 1.2rem; margin: 0.4rem 0; }
a { color: var(--bar); }
.lead { font-size: 1.1rem; }
.soft, figcaption, caption, .tag { color: var(--soft); }
caption, figcaption { text-align: left; font-size: 0.9rem; max-width: min(46rem, 100vw - 4rem); }
.failed { color: var(--warn); }
.passed { color: var(--good); }
.tag { font-size: 0.8rem; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); gap: 1rem; }
svg { display: block; width: 100%; height: auto; }
svg.bars { max-width: 46rem; }
.small { max-width: 26rem; }
.narrow { display: none; }
text { fill: var(--text); font: 13px system-ui, sans-serif; }
.soft { fill: var(--soft); font-size: 12px; }
.bar { fill: var(--bar); }
.grid { stroke: var(--line); fill: none; }
.roof { stroke: var(--soft); stroke-width: 1.6; fill: none; }
.reach { stroke: var(--bar); stroke-dasharray: 3 3; }
.join { stroke: var(--bar); }
.mark path { fill: var(--bar); stroke: var(--page); }
svg .mark .reach, svg .mark .join { stroke: var(--bar); }
.near path { fill: var(--page); stroke: var(--bar); stroke-width: 1.5; }
.label { font-weight: 600; paint-order: stroke; stroke: var(--page); stroke-width: 3px; }
.mark:focus { outline: 2px solid var(--text); outline-offset: 2px; }
.mark:hover path { fill: var(--text); }
.lines path { fill: none; stroke: var(--bar); stroke-width: 2; }
details { background: var(--card); border-radius: 6px; padding: 0.5rem 0.8rem; margin: 0.4rem 0; }
summary { cursor: pointer; }
summary b { font-variant-numeric: tabular-nums; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; margin: 0.6rem 0; font-size: 0.93rem; }
th, td { text-align: left; vertical-align: top; padding: 0.3rem 0.8rem 0.3rem 0; overflow-wrap: normal; }
th { font-weight: 600; color: var(--soft); }
tr { border-bottom: 1px solid var(--line); }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.name { min-width: 9rem; overflow-wrap: anywhere; }
.share { display: inline-block; width: 4rem; height: 0.6rem; background: var(--rest); border-radius: 2px;
overflow: hidden; } .share i { display: block; height: 100%; background: var(--bar); }
code { font: 0.9em ui-monospace, monospace; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.2rem 1rem; margin: 0.4rem 0; }
dt { color: var(--soft); }
dd { margin: 0; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); gap: 0 2rem; }
@media screen and (max-width: 44rem) {
  .wide { display: none; }
  .narrow { display: block; }
  .rare { display: none; }
  th, td { padding-right: 0.5rem; }
  .share { width: 2.2rem; }
  .bars text { font-size: 12px; }
}
@media print {
  :root { color-scheme: light; --page: #fff; --card: #fff; --text: #000; --soft: #444; --line: #bbb; --bar:
  #0b5cad; --rest: #ddd; } body { padding: 0; max-width: none; font-size: 9.5pt; }
  details { border: 1px solid var(--line); padding: 0.2rem 0.6rem; }
  details::details-content { content-visibility: visible; height: auto; }
  .scroll { overflow: visible; }
  h2, h3, summary { break-after: avoid; }
  figure, tr { break-inside: avoid; }
  a { color: inherit; text-decoration: none; }
}
"""


def page(document):
    """The page of a report's document (see `roofline.reporting.document`), as text."""
    parts = parts_of(document)
    rows = rows_of(parts)
    title = "What these kernels could be"
    body = [
        f"<h1>{title}</h1>",
        *(_where(part) for part in parts),
        *(_caveats(part) for part in parts),
        _short(rows, program(parts)),
        _failures(parts),
        roofpage.overview(rows),
        _plots(parts),
        roofpage.every_kernel(rows),
        roofpage.without_flops(rows),
        roofpage.cards(rows),
        _sweeps(rows),
        _checks(parts),
        *(_ceilings(part) for part in parts if part.ceilings),
        _machines(parts),
        _reading(),
    ]
    return "\n".join([
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        # The page says by itself that it fetches nothing and runs nothing.
        (
            '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; style-src'
            " 'unsafe-inline'\">"
        ),
        f"<title>{title}</title>",
        f"<style>{_STYLE}</style>",
        "</head>",
        "<body>",
        "<main>",
        *(part for part in body if part),
        "</main>",
        "</body>",
        "</html>",
        "",
    ])


def _where(part):
    return (
        f'<p class="soft">Measured {escape(_date(part.machine["date"]))} on {escape(part.space)}:'
        f" {escape(part.hardware)}.</p>"
    )


def _caveats(part):
    """What stands before any figure, because it is about all of them."""
    found = caveats(part.machine, part.ceilings)
    return f'<p class="lead failed">{escape(" ".join(found))}</p>' if found else ""


def _date(text):
    """A date as people write it: "21 November 2026, 16:07 UTC"."""
    moment = datetime.datetime.fromisoformat(text)
    return f"{moment.day} {moment:%B %Y, %H:%M} UTC"


def _short(rows, times_of_program):
    """The whole in a few sentences."""
    held = [row for row in rows if row.roof]
    if not rows:
        return ""
    kind = "kernels" if rows[0].weight is not None else "methods"
    if not held:
        return (
            f'<p class="lead">{len(rows):,} {kind} were timed; a space without ceilings has no roof to hold'
            " them against.</p>"
        )
    at = [row for row in held if row.roof["share_of_attainable"] >= NEAR]
    low = [row for row in held if row.roof["share_of_attainable"] < LOW]
    text = [
        f"{len(held):,} {kind} were timed and held against what this machine was measured to do.",
        (
            f"{_many(len(at), 'is at its roof', 'are at their roof')}: only less work, or fewer bytes, would"
            f" make more of {'it' if len(at) == 1 else 'them'}."
            if at
            else ""
        ),
        (
            f"{_many(len(low), 'stays', 'stay')} below {LOW:.0%} of it, each for a reason that is told."
            if low
            else ""
        ),
    ]
    if times_of_program:
        whole, inside = times_of_program
        text.append(
            f"Kernels ran for {scaled(inside, 's')} of the {scaled(whole, 's')} that the program took; the"
            " rest is Python, compilation, copies and waiting."
        )
    most = max(held, key=_to_gain)
    if most.weight is not None and most.roof["share_of_attainable"] < NEAR:
        gain = 1 / (1 - most.weight * (1 - most.roof["share_of_attainable"]))
        text.append(
            f"Most is to be had from {most.result['method']}: {most.weight:.0%} of the time in kernels; at"
            f" its roof, all of them together would be {times(gain)} times as fast."
        )
    return f'<p class="lead">{escape(" ".join(filter(None, text)))}</p>'


def _many(n, one, more):
    return f"{n:,} {one if n == 1 else more}"


def _to_gain(row):
    """What would be saved at the roof: of the program's time, else of the row's own."""
    return (row.weight if row.weight is not None else 1.0) * (1.0 - min(1.0, row.roof["share_of_attainable"]))


def _plots(parts):
    """Each part's rooflines: one of flops, one of integer operations where kernels have nothing else."""
    figures = []
    for part in parts:
        for view, axes in part.axes.items():
            dots = part.dots(view)
            label = f"Roofline of {part.place}; the list below tells the same in words"
            wide, narrow = (drawing(axes.sized(size), dots, label=label) for size in (WIDE, NARROW))
            small = part.small(view)
            shared = (
                f'<svg viewBox="0 0 {SMALL[0]} 0" height="0" aria-hidden="true"><defs><g'
                f' id="{small[0]}">{background(small[1])}</g></defs></svg>'
            )
            figures.append(
                f'<figure><div class="wide">{wide}</div><div class="narrow">{narrow}</div>{shared}'
                f"<figcaption>{escape(_caption(part, view))}</figcaption></figure>"
            )
    return f'<h2>Against the roof</h2>\n<div>{"".join(figures)}</div>' if figures else ""


def _caption(part, view):
    what = (
        "floating-point operations"
        if view is FLOPS
        else "operations of kernels without floating-point work: of integers, atomics, loads and stores"
    )
    near = {"shared": "L1 and shared memory"}.get(part.near_level, part.near_level)
    return (
        f"{part.place}. Up: {what}, a second. Across: operations per byte. Slopes are memory levels and flat"
        " lines peaks, all measured. A filled mark stands at its compulsory bytes (each array once,"
        f" counted), the hollow one joined to it at the bytes asked of {near}. The dotted stroke ends at its"
        " own roof, special functions included."
        + (
            " A mark's area is its share of the time."
            if any(row.weight is not None for row in part.rows)
            else ""
        )
    )


def _sweeps(rows):
    """Share of the roof over size, one line a space."""
    found = sweeps(rows)
    if not found:
        return ""
    figures = "".join(_sweep(method, lines) for method, lines in found.items())
    return f'<h2>Over sizes</h2><div class="plots">{figures}</div>'


def _sweep(method, lines):
    width, height, left, top, bottom = 336, 220, 40, 12, 30
    sizes = [size for line in lines.values() for size, _ in line]
    low, high = math.log10(min(sizes)), math.log10(max(sizes))

    def x(size):
        return left + (width - left - 12) * (math.log10(size) - low) / max(high - low, 1e-9)

    def y(share):
        return top + (height - top - bottom) * (1 - min(share, 1.2) / 1.2)

    parts = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        kind = "roof" if share == 1 else "grid"
        parts.append(f'<path class="{kind}" d="M{left},{y(share):.1f}H{width - 12}"/>')
        parts.append(
            f'<text class="soft" x="{left - 5}" y="{y(share) + 4:.1f}" text-anchor="end">{share:.0%}</text>'
        )
    for power in range(math.ceil(low), math.floor(high) + 1):
        parts.append(
            f'<text class="soft" x="{x(10**power):.1f}" y="{height - 10}"'
            f' text-anchor="middle">{scaled(10**power)}</text>'
        )
    for k, (place, line) in enumerate(lines.items()):
        path = "L".join(f"{x(size):.1f},{y(row.roof['share_of_attainable']):.1f}" for size, row in line)
        parts.append(
            f'<path class="line" d="M{path}" stroke-dasharray="{("none", "7 4", "2 3", "9 3 2 3")[k % 4]}"/>'
        )
        size, row = line[-1]
        parts.append(
            f'<text x="{x(size):.1f}" y="{y(row.roof["share_of_attainable"]) - 7:.1f}"'
            f' text-anchor="end">{escape(place)}</text>'
        )
    told = "; ".join(
        f"{place}: " + ", ".join(f"{size:,} {row.result['unit']} {scaled(row.result['seconds']['median'], 's')}, "
                                 f"{row.roof['share_of_attainable']:.0%}" for size, row in line)
        for place, line in lines.items()
    )  # fmt: skip
    return (
        f'<figure class="lines"><svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(method)}:'
        f' share of the roof over size">{"".join(parts)}</svg><figcaption>{escape(method)}, share of its own'
        f" roof over size. {escape(told)}</figcaption></figure>"
    )


def _failures(parts):
    items = []
    for part in parts:
        items += [f"<li>{escape(f['method'])}: {escape(f['message'])}</li>" for f in part.content["failures"]]
        items += [f"<li>{escape(note)}</li>" for note in part.content["notes"]]
        if part.content["interrupted"]:
            items.append("<li>The run was interrupted; what had been measured is here.</li>")
    return (
        f'<section class="failed"><h2>Not measured</h2><ul>{"".join(items)}</ul></section>' if items else ""
    )


def _checks(parts):
    """What the report checked of itself: the machine's, and those of results that did not pass."""
    items = []
    for part in parts:
        items += [_check(part.place, check) for check in part.content["checks"]]
    n_checks = n_failed = 0
    for row in rows_of(parts):
        for check in (row.roof or {"checks": []})["checks"]:
            n_checks, n_failed = n_checks + 1, n_failed + (not check["passed"])
            if not check["passed"]:
                items.append(_check(f"{row.number}. {row.result['method']}", check))
    if not items and not n_checks:
        return ""
    summary = f"{n_checks:,} checks of the results, {n_failed:,} of them not passed"
    return f"<h2>Self-checks</h2><p>{summary}{':' if items else '.'}</p><ul>{''.join(items)}</ul>"


def _check(about, check):
    word, kind = ("passed", "passed") if check["passed"] else ("not passed", "failed")
    return (
        f'<li>{escape(about)}, {escape(check["check"])}: {escape(check["text"])} (<span'
        f' class="{kind}">{word}</span>)</li>'
    )


def _ceilings(part):
    c = part.ceilings
    rows = []
    for item in c.items.values():
        unit = item.unit if item.unit == "s" else f"{item.unit}/s"
        quartiles = f"{scaled(item.rate.lower, unit)} to {scaled(item.rate.upper, unit)}"
        rows.append(
            (item.name, scaled(item.best, unit), scaled(item.rate.median, unit), quartiles, item.method)
        )
    caption = (
        f"Measured {c.date}{c.clock_in_words()}; the roof is the best repeat, for a machine can do what it"
        " was seen to do."
    )
    table = roofpage.table(
        caption, ("Ceiling", "Roof", "Median", "Quartiles", "Method"), rows, numbers=(1, 2, 3)
    )
    return f"<h2>Ceilings of {escape(part.place)}</h2>\n{table}"


def _machines(parts):
    return f'<h2>Machine</h2><div class="cards">{"".join(_machine(part.machine) for part in parts)}</div>'


def _machine(machine):
    rows = {
        "Date": machine["date"],
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
        f"<dt>{escape(name)}</dt><dd>{escape(str(value))}</dd>"
        for name, value in rows.items()
        if value is not None
    )
    return f"<dl>{items}</dl>"


def _reading():
    return (
        "<h2>How to read this</h2><p>A kernel needs arithmetic and bytes, and a machine gives so much of each"
        " a second. The roof is the time that the scarcest of them would take, at rates that were measured"
        " here. A share of 100 % cannot be improved without doing less; a share of 25 % means that the same"
        " work could take a quarter of the time, if nothing but that resource cost"
        " time.</p><dl><dt>measured</dt><dd>by a clock, median and quartiles of repeated calls, each"
        " complete, from arrays in the space's memory to the number a user"
        " gets</dd><dt>counted</dt><dd>operations of the kernel's text, or instructions that ran, by builds"
        " of the kernel that count: + − × ÷ are one flop each, a fused multiply-add two; comparisons, minima"
        " and conversions are none; an exp or a sqrt is one special function, with a ceiling of its"
        " own</dd><dt>modelled</dt><dd>counts divided by measured ceilings</dd><dt>declared</dt><dd>what the"
        " kernel's author said that it costs, held against the counts</dd><dt>compulsory bytes</dt><dd>what"
        " must be read and written of each array, once</dd><dt>requested bytes</dt><dd>all loads and stores"
        " of the text; requested over compulsory is the reuse</dd><dt>transferred bytes</dt><dd>what the"
        " memory moved; transferred over compulsory is the overfetch. Only hardware counters tell: python -m"
        " roofline counters</dd></dl>"
    )
