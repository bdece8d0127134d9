"""`python -m portable.roofline.cases.kernels_page`: the table of docs/performance.md, from the records."""

from portable.roofline import files
from portable.roofline.cases import kernels
from portable.roofline.scoreboard import records
from portable.roofline.units import times

PAGE, MARK = records.HERE / "docs" / "performance.md", "## Measured ratios\n"


def page(text, known):
    """Return the page with an updated table.

    Parameters
    ----------
    text : str
        The present page.
    known : dict
        The result of `kernels.on_record`.
    """
    ratios = [kernels.of_machine(rows) for rows in known.values()]
    lines = [text.partition(MARK)[0] + MARK]
    for kind, rows in known.items():
        one, busy = rows[-1], max(row.get("busy_cores") or 0 for row in rows)
        lines.append(
            f"* {kind}: `{one['space']}` at {one['commit']}, {one['date']}, others on {busy:g} cores"
        )
    lines += ["", f"| kernel | float | {' | '.join([*known, 'overall'])} |", "|---" * (3 + len(known)) + "|"]
    for key, mean in kernels.portability(ratios).items():
        cells = [times(found[key]) if key in found else "" for found in ratios]
        lines.append(f"| {' | '.join([*key, *cells, times(mean)])} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    files.write(PAGE, page(PAGE.read_text(encoding="utf-8"), kernels.on_record(records.FOLDER)))
