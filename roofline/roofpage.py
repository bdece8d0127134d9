"""The part of the report's page that tells each row: the overview, and a card with all that was counted."""

from html import escape

from roofline.roofplot import FLOPS, OTHERS, drawing
from roofline.units import scaled, times
from roofline.verdicts import resource

LINES = 4  # of a kernel's text that are shown, the costliest first
KERNELS = 3  # of a call that are told in full, the costliest first
# rows, beyond which a page tells one kernel of each, half as many lines and no plot, to stay below half a
# megabyte
MANY = 40
LEAST = 0.03  # of a call, below which its kernels share a line


def table(caption, names, rows, *, numbers=(), rare=()):
    """A table in a box of its own, which scrolls where the screen is narrow.

    Parameters
    ----------
    caption : str
    names : sequence of str
    rows : sequence of sequences of str; text is escaped here, an `Html` stays as it is
    numbers, rare : columns that are numbers, and those that narrow screens leave out
    """

    def kind(k):
        words = ["number"] * (k in numbers) + ["rare"] * (k in rare)
        return f' class="{" ".join(words)}"' if words else ""

    head = "".join(f'<th scope="col"{kind(k)}>{escape(name)}</th>' for k, name in enumerate(names))
    body = "".join(
        "<tr>" + "".join(f"<td{kind(k)}>{_cell(cell)}</td>" for k, cell in enumerate(row)) + "</tr>"
        for row in rows
    )
    return (
        '<div class="scroll" tabindex="0" role="group"'
        f' aria-label="{escape(caption)}"><table><caption>{escape(caption)}'
        f"</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


class Html(str):
    """Text that is markup already."""


def _cell(cell):
    return cell if isinstance(cell, Html) else escape(str(cell))


def overview(rows):
    """Every row in one table, with its share of attainable and the reason where that is low."""
    if not rows:
        return ""
    several = len({row.place for row in rows}) > 1
    names = (
        "No.",
        "Method",
        *["Space"] * several,
        "Time",
        "Could take",
        "Share of roof",
        "Bound by",
        "Why not more",
    )
    caption = (
        "Time: median and quartiles, measured. Could take: the least time at the measured ceilings, modelled"
        " from counts. Share of roof: could take over time."
    )
    k = 2 + several  # where the times stand
    lines = [_line(row, several) for row in rows]
    return "<h2>At a glance</h2>" + table(
        caption, names, lines, numbers=(0, k, k + 1), rare=(k + 1, k + 3, k + 4)
    )


def _line(row, several):
    r, roof = row.result, row.roof
    seconds = r["seconds"]
    weight = f"<br><span class=soft>{row.weight:.0%} of the time</span>" if row.weight is not None else ""
    name = Html(
        f'<div class="name">{escape(r["method"])}<br><span'
        f' class="soft">{escape(row.about)}</span>{weight}</div>'
    )
    spread = f"{scaled(seconds['lower'], 's')} to {scaled(seconds['upper'], 's')}"
    took = Html(
        f'{escape(scaled(seconds["median"], "s"))}<br><span class="soft rare">{escape(spread)}</span>'
    )
    place = [row.place] * several
    if not roof:
        return (
            row.number,
            name,
            *place,
            took,
            "",
            "",
            "",
            "no ceilings here" if seconds["median"] else "too short for the clock",
        )
    number = Html(f'<a href="#row{row.number}">{row.number}</a>')
    why = roof["reason"]["text"] if roof["reason"] else ""
    could = scaled(roof["attainable_seconds"]["value"], "s")
    return (
        number,
        name,
        *place,
        took,
        could,
        _share(roof["share_of_attainable"]),
        resource(roof["bound_by"]),
        why,
    )


def _share(share):
    return Html(f'<span class="share"><i style="width:{100 * min(share, 1):.0f}%"></i></span> {share:.0%}')


def every_kernel(rows):
    """Each kernel in one table, where it took most time; nothing where every row has one kernel, and so is
    it."""
    found = {}
    for row in rows:
        for kernel in row.roof["kernels"] if row.roof else ():
            found.setdefault((kernel["label"], kernel["place"], row.place), []).append((row, kernel))
    if not found or all(len(row.roof["kernels"]) == 1 for row in rows if row.roof):
        return ""
    several = len({row.place for row in rows}) > 1
    lines = [_kernel_line(places, several) for _, places in sorted(found.items(), key=lambda item: item[0])]
    k = 1 + several
    names = (
        "Kernel",
        *["Space"] * several,
        "In no.",
        "Time",
        "Share of its roof",
        "Bound by",
        "Why not more",
    )
    caption = (
        "Where it takes most time, and in which other rows it runs. Share of its roof: what its launches"
        " could take over their time."
    )
    return "<h2>Every kernel</h2>" + table(caption, names, lines, numbers=(k, k + 1), rare=(k, k + 3, k + 4))


def _kernel_line(places, several):
    row, kernel = max(places, key=lambda place: place[1]["seconds"])
    others = [str(n) for n in sorted({other.number for other, _ in places}) if n != row.number]
    more = f'<br><span class="soft">also {", ".join(others)}</span>' if others else ""
    share = _share(kernel["attainable_seconds"] / kernel["seconds"]) if kernel["seconds"] else ""
    number, name = Html(f'<a href="#row{row.number}">{row.number}</a>{more}'), Html(
        f'<div class="name">{escape(kernel["label"])}</div>'
    )
    return (name, *[row.place] * several, number, scaled(kernel["seconds"], "s"), share, resource(kernel["bound_by"]),
            kernel.get("reason") or "")  # fmt: skip


def without_flops(rows):
    """Rows without floating-point work: their bytes a second against the level that holds them."""
    found = []
    for row in rows:
        roof = row.roof
        if roof and not roof["flops"] and roof["compulsory_bytes"]:
            rate = roof["compulsory_bytes"] / roof["seconds"]["value"]
            most = row.part.ceilings.bandwidth(roof["level"])
            found.append((row.number, row.result["method"], row.place, scaled(rate, "B/s"), f"{roof['level']} {scaled(most, 'B/s')}",
                          _share(rate / most), scaled(roof["integer"] / roof["seconds"]["value"], "op/s")))  # fmt: skip
    if not found:
        return ""
    names = (
        "No.",
        "Method",
        "Space",
        "Compulsory bytes a second",
        "Of at most",
        "Share",
        "Integer operations a second",
    )
    return "<h2>Kernels without floating-point operations</h2>" + table(
        "Rates measured, bytes and operations counted", names, found, numbers=(0, 3, 4, 6), rare=(2,)
    )


def cards(rows):
    """A card for each row: the verdict to read, the figures to unfold."""
    told = "".join(_card(row, KERNELS if len(rows) <= MANY else 1) for row in rows if row.roof)
    if not told:
        return ""
    return (
        "<h2>One by one</h2><p>Each line unfolds to the time that every resource wants, the kernels behind"
        f" it and what they do.</p>\n{told}"
    )


def _card(row, n_kernels):
    roof = row.roof
    place = f' <span class="tag">{escape(row.place)}</span>'
    why = f"<p>{escape(roof['reason']['text'])}</p>" if roof["reason"] else ""
    help_ = "".join(f"<li>{escape(sentence)}</li>" for sentence in roof["advice"])
    notes = "".join(f"<li>{escape(note)}</li>" for note in roof["notes"])
    kernels = roof["kernels"]
    parts = [
        (
            f'<h3 id="row{row.number}">{escape(row.result["method"])}, {escape(row.about)},'
            f" {escape(row.place)}</h3>"
        ),
        why,
        _returned(row.result),
        f"<p>What might help:</p><ul>{help_}</ul>" if help_ else "",
        _bars(roof),
        _plot(row) if n_kernels > 1 else "",
        (
            _kernels(roof)
            if len(kernels) > 1 or roof["outside_seconds"]["value"] > 0.05 * roof["seconds"]["value"]
            else ""
        ),
        *(
            _kernel(kernel, LINES if n_kernels > 1 else LINES // 2)
            for kernel in kernels[:n_kernels]
            if kernel["share_of_time"] > 0.02 or kernel is kernels[0]
        ),
        f"<p>Notes:</p><ul>{notes}</ul>" if notes else "",
    ]
    return (
        f"<details><summary><b>{row.number}.</b>"
        f" {escape(roof['verdict'])}{place}</summary>{''.join(parts)}</details>\n"
    )


def _returned(result):
    """What the method returned: methods on one input should agree."""
    words = [] if result["value"] is None else [f"It returned {result['value']:.12g}"]
    words += [f"{scaled(result['pairs_per_second'])} pairs a second"] if result["pairs_per_second"] else []
    return f'<p class="soft">{escape("; ".join(words))}.</p>' if words else ""


def _bars(roof):
    """The time that each resource wants, ranked, beside the measured one."""
    wants = [
        (resource(name), s)
        for name, s in roof["wants_seconds"].items()
        if s > 0.001 * roof["seconds"]["value"]
    ]
    if (outside := roof["outside_seconds"]["value"]) > 0.01 * roof["seconds"]["value"]:
        wants.append(("measured, outside of kernels", outside))
    rows = [("measured", roof["seconds"]["value"]), *sorted(wants, key=lambda want: -want[1])]
    longest = max(seconds for _, seconds in rows)
    parts = []
    for k, (name, seconds) in enumerate(rows):
        y = 34 * k
        parts.append(
            f'<text x="0" y="{y + 14}">{escape(scaled(seconds, "s"))} {escape(name)}</text>'
            f'<rect class="bar" x="0" y="{y + 19}" width="{100 * seconds / longest:.2f}%" height="8"/>'
        )
    spoken = "; ".join(f"{scaled(seconds, 's')} {name}" for name, seconds in rows)
    return (
        f'<figure><svg class="bars" height="{34 * len(rows)}" role="img"'
        f' aria-label="{escape(spoken)}">{"".join(parts)}</svg><figcaption>Time measured, and wanted by each'
        " resource if it were the only one (modelled)</figcaption></figure>"
    )


def _plot(row):
    """The kernels of the call, each with a mark for each memory level that is known, on the roofs of the
    part."""
    for view in (FLOPS, OTHERS):
        dots = row.kernels(view)
        if dots and view in row.part.axes:
            small, axes = row.part.small(view)
            label = f"Kernels of {row.result['method']} against the roof"
            caption = "Kernels of this call; area is the share of its time." if len(dots) > 1 else ""
            picture = drawing(axes, dots, roofs=small, label=label, links=False)
            told = f"<figcaption>{caption}</figcaption>" if caption else ""
            return f'<figure class="small">{picture}{told}</figure>'
    return ""


def _kernels(roof):
    """All kernels of the call with their share of it, and Amdahl's law."""
    rows = []
    small = [kernel for kernel in roof["kernels"] if kernel["share_of_time"] < LEAST]
    for k, kernel in enumerate((kernel for kernel in roof["kernels"] if kernel not in small), 1):
        rows.append((f"{k}. {kernel['label']}", f"{kernel['launches']:,}", scaled(kernel["seconds"], "s"),
                     f"{kernel['share_of_time']:.0%}", scaled(kernel["attainable_seconds"], "s"), resource(kernel["bound_by"]),
                     times(kernel["gain_of_the_call"])))  # fmt: skip
    if small:
        launches, seconds = (sum(kernel[name] for kernel in small) for name in ("launches", "seconds"))
        share = sum(kernel["share_of_time"] for kernel in small)
        rows.append((f"{len(small)} more", f"{launches:,}", scaled(seconds, "s"), f"{share:.0%}", "", "", ""))
    total, outside = roof["seconds"]["value"], roof["outside_seconds"]["value"]
    rows.append((
        "outside of kernels",
        "",
        scaled(outside, "s"),
        f"{outside / total:.0%}",
        "",
        "",
        times(total / max(total - outside, 1e-12)),
    ))
    names = ("Kernel", "Launches", "Time", "Share", "Could take", "Bound by", "Call then faster")
    caption = (
        "Times measured; the last column is how many times as fast the call were, with this one at its roof"
    )
    return table(caption, names, rows, numbers=(1, 2, 3, 4, 6))


def _kernel(kernel, n_lines):
    """What one launch of a kernel does, and its costliest lines."""
    moved, requested = kernel["bytes"]["compulsory"], kernel["bytes"]["loaded"] + kernel["bytes"]["stored"]
    lines = kernel["bytes"].get("lines", moved)  # older reports have none
    rows = [(f"flops, {dtype}", f"{n:,}") for dtype, n in kernel["flops"].items()]
    rows += [(name, f"{n:,}") for name, n in kernel["special"].items()]
    rows += [(f"atomic {name}", f"{n:,}") for name, n in kernel["atomics"].items()]
    rows += [("integer operations", f"{kernel['integer']:,}"), ("comparisons", f"{kernel['comparisons']:,}")]
    rows += [
        ("bytes, compulsory", scaled(moved, "B")),
        (
            "bytes, in lines touched",
            scaled(lines, "B") + (f", {lines / moved:.3g} times the compulsory" if moved else ""),
        ),
        (
            "bytes, requested",
            scaled(requested, "B") + (f", {requested / moved:.3g} times the compulsory" if moved else ""),
        ),
        ("bytes, transferred", "not measured: that needs hardware counters"),
    ]
    if kernel["bytes"]["scratch"]:
        rows.append(("bytes, scratch", scaled(kernel["bytes"]["scratch"], "B")))
    body = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in rows)
    title = f"Counted in one launch of {kernel['label']}, {kernel['policy']}"
    told = "".join(f"<li>{escape(sentence)}</li>" for sentence in kernel["explanation"])
    return f"<h3>{escape(title)}</h3><dl>{body}</dl><ul>{told}</ul>{_lines(kernel, n_lines)}"


def _lines(kernel, n_lines):
    """The lines with most operations."""
    ranked = sorted(kernel["lines"].items(), key=lambda item: -sum(item[1].values()))[:n_lines]
    if not ranked:
        return ""
    items = []
    for place, done in ranked:
        source = kernel["source"].get(place)
        code = f"<br><code>{escape(source)}</code>" if source else ""
        ops = ", ".join(f"{n:,} {what}" for what, n in sorted(done.items(), key=lambda item: -item[1])[:6])
        items.append(
            f"<li>{escape('/'.join(place.split('/')[-2:]))}{code}<br><span"
            f" class=soft>{escape(ops)}</span></li>"
        )
    return f"<p>Costliest lines:</p><ul>{''.join(items)}</ul>"
