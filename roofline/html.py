"""The report as one HTML page: no script, no network, every name escaped. What it looks like stands in templates/."""

import datetime
import functools
import math

from jinja2 import Environment, PackageLoader, StrictUndefined

from roofline.attainable import LOW
from roofline.roofplot import FLOPS, NARROW, OTHERS, SMALL, WIDE, Plot
from roofline.rows import kernels_of, parts_of, program, rows_of, sweeps
from roofline.units import scaled, times
from roofline.verdicts import NEAR, groups, resource

KERNELS = 3  # of a call that are told in full, the costliest first
MANY = 40  # rows, beyond which a page tells less of each, to stay below half a megabyte
LEAST = 0.03  # of a call, below which its kernels share a line
DASHES = ("none", "7 4", "2 3", "9 3 2 3")


@functools.cache
def _templates():
    made = Environment(
        loader=PackageLoader("roofline"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    made.filters |= {
        "date": _date,
        "listing": _listing,
        "percent": "{:.0%}".format,
        "px": lambda value: f"{value:.1f}".removesuffix(".0"),
        "resource": resource,
        "scaled": scaled,
        "times": times,
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
        lead=_lead(rows, program(parts)),
        parts=parts,
        rows=rows,
        several=len({row.place for row in rows}) > 1,
        failures=list(_failures(parts)),
        groups=groups(rows),
        figures=[figure for part in parts for figure in _figures(part)],
        kernels=kernels_of(rows),
        without_flops=list(_without_flops(rows)),
        cards=[_card(row, len(rows)) for row in rows if row.roof],
        sweeps=[_sweep(*found) for found in sweeps(rows).items()],
        checks=_checks(parts, rows),
        least=LEAST,
        low=LOW,
    )


def _date(text):
    """A date as people write it: "21 November 2026, 16:07 UTC"."""
    moment = datetime.datetime.fromisoformat(text)
    return f"{moment.day} {moment:%B %Y, %H:%M} UTC"


def _lead(rows, times_of_program):
    """The whole in four sentences."""
    held = [row for row in rows if row.roof]
    if not rows:
        return []
    of_program = rows[0].weight is not None
    kind = "kernels" if of_program else "methods"
    if not held:
        return [f"{len(rows):,} {kind} were timed; a space without ceilings has no roof to hold them against."]
    near = [row for row in held if row.share >= NEAR]
    low = [row for row in held if row.share < LOW]
    whole, inside = times_of_program or (0.0, 0.0)
    text = [
        f"For {len(held):,} {kind} the time that they took stands beside the shortest time in which this machine could do"
        " the same calculations and fetch the same data: their roof."
        + (f" Kernels ran for {scaled(inside, 's')} of the program's {scaled(whole, 's')}." if whole else ""),
        f"{len(near):,} of them {'is' if len(near) == 1 else 'are'} near it; these get faster only by calculating less or"
        " by using less data, in float32 for example.",
        f"{len(low):,} take more than {1 / LOW:.2g} times as long; what their time goes into stands under 'Why not more'."
        if low
        else "None is far from it.",
    ]
    most = max(held, key=lambda row: row.to_gain)
    if most.share < NEAR:
        gain = 1 / (1 - most.weight * (1 - most.share)) if of_program else 1 / most.share
        what = f"all kernels together would be {times(gain)} times as fast" if of_program else (
            f"it would be {times(gain)} times as fast"
        )
        part = f", {most.weight:.0%} of the time in kernels" if of_program else ""
        text.append(f"Begin with no. {most.number}, {most.result['method']}{part}: at its roof, {what}.")
    return text


def _figures(part):
    """(wide plot, narrow plot, roofs of small plots, caption) of each view that has something to show."""
    for view, axes in part.axes.items():
        label = f"Roofline of {part.place}; the list below tells the same in words"
        wide, narrow = (Plot(axes.sized(size), part.dots(view), label) for size in (WIDE, NARROW))
        yield wide, narrow, Plot(axes.sized(SMALL), [], part.small(view)), _caption(part, view)


def _caption(part, view):
    what = (
        "floating-point operations"
        if view is FLOPS
        else "operations of kernels without floating-point work: of integers, atomics, loads and stores"
    )
    near = {"shared": "L1 and shared memory"}.get(part.near_level, part.near_level)
    return (
        f"{part.place}. Up: {what}, a second. Across: operations per byte. Slopes are memory levels and flat lines"
        " peaks, all measured. A filled mark stands at its compulsory bytes (each array once, counted), the hollow"
        f" one joined to it at the bytes asked of {near}. The dotted stroke ends at its own roof, special functions"
        " included."
        + (" A mark's area is its share of the time." if any(row.weight is not None for row in part.rows) else "")
    )


def _without_flops(rows):
    """(row, compulsory bytes a second, those of the level that holds them) of rows without floating-point work."""
    for row in rows:
        if row.roof and not row.roof["flops"] and row.roof["compulsory_bytes"]:
            rate = row.roof["compulsory_bytes"] / row.roof["seconds"]["value"]
            yield row, rate, row.part.ceilings.bandwidth(row.roof["level"])


def _card(row, n_rows):
    """(row, plot of its kernels or None, its kernels with their numbers, how many of them are told in full)."""
    few, views = KERNELS if n_rows <= MANY else 1, (FLOPS, OTHERS)
    view = next((view for view in views if row.kernels(view) and view in row.part.axes), None)
    if few == 1 or view is None:
        return row, None, row.numbered, few
    label, axes = f"Kernels of {row.result['method']} against the roof", row.part.axes[view].sized(SMALL)
    return row, Plot(axes, row.kernels(view), label, row.part.small(view), links=False), row.numbered, few


def _listing(kernel, most):
    """(number, share in words, text, operations in words) of a kernel's lines: of a long text the costliest, in their order."""
    shares, done, source = kernel.get("shares", {}), kernel["lines"], kernel["source"]
    places = [place for place in {**source, **done} if place.rpartition(":")[2].isdigit()]
    if len(places) > most:
        cost = {place: (shares.get(place, 0.0), sum(done.get(place, {}).values())) for place in places}
        places = sorted(places, key=cost.get, reverse=True)[:most]
    told, file = [], kernel["place"].rpartition(":")[0]
    for place in sorted(places, key=lambda p: (p.rpartition(":")[0] != file, p.rpartition(":")[0], int(p.rpartition(":")[2]))):
        name, _, number = place.rpartition(":")
        ranked = sorted(done.get(place, {}).items(), key=lambda item: -item[1])[:6]
        share = f"{shares[place]:.0%}" if place in shares else ""
        words = ", ".join(f"{n:,} {what}" for what, n in ranked)
        told.append((number if name == file else f"{name.rpartition('/')[2]}:{number}", share, source.get(place, ""), words))
    return told


def _failures(parts):
    for part in parts:
        yield from (f"{failure['method']}: {failure['message']}" for failure in part.content["failures"])
        yield from part.content["notes"]
        if part.content["interrupted"]:
            yield "The run was interrupted; what had been measured is here."


def _checks(parts, rows):
    """What the report checked of itself: the machine's, and those of results that did not pass."""
    of_rows = [(row, check) for row in rows if row.roof for check in row.roof["checks"]]
    failed = [(f"{row.number}. {row.result['method']}", check) for row, check in of_rows if not check["passed"]]
    told = [(part.place, check) for part in parts for check in part.content["checks"]] + failed
    return {"n": len(of_rows), "failed": len(failed), "told": told} if told or of_rows else None


def _sweep(method, lines):
    """A method's share of the roof over size: where its lines lie."""
    sizes = [size for line in lines.values() for size, _ in line]
    low, high = math.log10(min(sizes)), math.log10(max(sizes))

    def x(size):
        return 40 + 284 * (math.log10(size) - low) / max(high - low, 1e-9)

    def y(share):
        return 12 + 178 * (1 - min(share, 1.2) / 1.2)

    told = "; ".join(
        f"{place}: "
        + ", ".join(
            f"{size:,} {row.result['unit']} {scaled(row.result['seconds']['median'], 's')}, {row.share:.0%}"
            for size, row in line
        )
        for place, line in lines.items()
    )
    return {
        "method": method,
        "told": told,
        "across": [(share, y(share)) for share in (0.0, 0.25, 0.5, 0.75, 1.0)],
        "up": [(10**power, x(10**power)) for power in range(math.ceil(low), math.floor(high) + 1)],
        "lines": [
            (place, DASHES[k % len(DASHES)], [(x(size), y(row.share)) for size, row in line])
            for k, (place, line) in enumerate(lines.items())
        ],
    }
