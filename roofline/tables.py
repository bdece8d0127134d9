"""The tables of a report's document for the terminal, and its rows as CSV."""

import csv
import io

from portable.roofline.grid import grid
from portable.roofline.rows import parts_of, program, rows_of
from portable.roofline.units import scaled
from portable.roofline.verdicts import groups

CAPTION = (
    "flops, calls of special functions and compulsory bytes are counted in the source; attainable: the least"
    " time at the ceilings; share: attainable over measured, ? if a self-check failed"
)

FIELDS = "case", "method", "source", "size", "unit", "space"
QUARTILES = "median", "lower", "upper"
OF_ROOF = "share_of_attainable", "bound_by", "flops", "special", "compulsory_bytes"
OUTSIDE = "Python and NumPy outside of kernels"


def tables(document):
    """Return tables of the measurements, with every row's share of attainable; then the reasons of low
    shares.

    Returns
    -------
    list of rich Table
    """
    parts = parts_of(document)
    rows = rows_of(parts)
    own = program(parts)
    found = [_measured(rows, own)]
    low = [row for row in rows if row.roof and row.roof["reason"]]
    if own:
        found[0].caption = (
            f"kernels ran for {scaled(own.launched, 's')} of the program's {scaled(own.seconds, 's')};"
            f" {found[0].caption or ''}"
        )
    return found + ([_reasons(low)] if low else [])


def csv_of(document):
    """Return the rows of a document as CSV: times in seconds, counts of a call."""
    text = io.StringIO()
    told = csv.writer(text, lineterminator="\n")
    told.writerow([*FIELDS, *QUARTILES, *OF_ROOF, "attainable", "cause"])
    for row in rows_of(parts_of(document)):
        r, roof = row.result, row.roof or {}
        seconds = [r["seconds"][name] for name in QUARTILES]
        held = [*(roof.get(name) for name in OF_ROOF), roof.get("attainable_seconds", {}).get("value")]
        cause = row.causes[0][0] if roof and row.causes else ""
        told.writerow([*(r[name] for name in FIELDS), *seconds, *held, cause])
    return text.getvalue()


def _measured(rows, whole):
    held = any(row.roof for row in rows)
    spaces = ", ".join(dict.fromkeys(row.place for row in rows))
    own = "?flops|?special|?bytes|attainable|share|bound by<" if held else "value"
    cells = []
    for row in rows:
        r, seconds, roof = row.result, row.result["seconds"], row.roof
        quartiles = f"{scaled(seconds['lower'], 's')} to {scaled(seconds['upper'], 's')}"
        told = [str(row.number), r["method"], row.about, row.place, scaled(seconds["median"], "s"), quartiles]
        if roof:
            told += [scaled(roof["flops"]), scaled(roof["special"]), scaled(roof["compulsory_bytes"], "B")]
            told += [scaled(roof["attainable_seconds"]["value"], "s"), f"{row.share:.0%}{'?' * row.doubtful}"]
            told.append(roof["bound_by"])
        elif not held:
            told.append("" if r["value"] is None else f"{r['value']:.12g}")
        cells.append(told)
    if whole:
        share = f"{whole.outside / whole.seconds:.0%} of all"
        outside = "", OUTSIDE, whole.words, "", scaled(whole.outside, "s"), share
        cells.insert(0 if whole.leads(rows) else len(cells), outside)
    title = f"Measured on {spaces}" if rows else "Measured"
    columns = f"no.|method<|input<|?space<|median|?quartiles|{own}"
    return grid(title, columns, cells, CAPTION if held else None)


def _reasons(rows):
    cells = []
    for group in groups(rows):
        for k, (numbers, sentence) in enumerate(group["told"]):
            cells.append(("" if k else group["title"], numbers.removeprefix("No. "), sentence))
        cells += [("", "", group["help"]), None]
    return grid("Against the roof: why not more", "cause<|no.|what is seen, and what helps<", cells)
