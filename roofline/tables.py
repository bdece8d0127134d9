"""The terminal's tables of a report's document."""

from rich.table import Table

from roofline.rows import parts_of, program, rows_of
from roofline.units import scaled
from roofline.verdicts import groups

CAPTION = (
    "flops, calls of special functions and compulsory bytes are counted in the text; attainable: the least"
    " time at the measured ceilings (python -m roofline ceilings); share: attainable over measured, with a question"
    " mark where it is not to be trusted, for a self-check did not pass"
)


def tables(document):
    """What was measured, with every row's share of attainable; then why those that are low are low.

    Returns
    -------
    list of rich Table
    """
    parts = parts_of(document)
    rows = rows_of(parts)
    found = [_measured(rows)]
    low = [row for row in rows if row.roof and row.roof["reason"]]
    if times := program(parts):
        found[0].caption = (
            f"kernels ran for {scaled(times[1], 's')} of the program's {scaled(times[0], 's')};"
            f" {found[0].caption or ''}"
        )
    return found + ([_reasons(low)] if low else [])


def _table(title, columns, caption=None):
    table = Table(title=title, title_justify="left", caption=caption, caption_justify="left")
    for name in columns:
        table.add_column(name.strip("<"), justify="left" if name.endswith("<") else "right", overflow="fold")
    return table


def _measured(rows):
    held = any(row.roof for row in rows)
    spaces = ", ".join(dict.fromkeys(row.place for row in rows))
    columns = ["no.", "method<", "input<", "space<", "median", "quartiles"]
    columns += ["flops", "special", "bytes", "attainable", "share", "bound by<"] if held else ["value"]
    table = _table(f"Measured on {spaces}" if rows else "Measured", columns, CAPTION if held else None)
    for row in rows:
        r, seconds, roof = row.result, row.result["seconds"], row.roof
        quartiles = f"{scaled(seconds['lower'], 's')} to {scaled(seconds['upper'], 's')}"
        cells = [str(row.number), r["method"], row.about, row.place, scaled(seconds["median"], "s"), quartiles]
        if roof:
            cells += [scaled(roof["flops"]), scaled(roof["special"]), scaled(roof["compulsory_bytes"], "B")]
            cells += [scaled(roof["attainable_seconds"]["value"], "s"), f"{row.share:.0%}{'?' * row.doubtful}"]
            cells.append(roof["bound_by"])
        elif not held:
            cells.append("" if r["value"] is None else f"{r['value']:.12g}")
        table.add_row(*cells)
    return table


def _reasons(rows):
    table = _table("Against the roof: why not more", ["cause<", "no.", "what is seen, and what helps<"])
    for group in groups(rows):
        for k, (numbers, sentence) in enumerate(group["told"]):
            table.add_row("" if k else group["title"], numbers.removeprefix("No. "), sentence)
        table.add_row("", "", group["help"], style="italic", end_section=True)
    return table
