"""Tables for the terminal in one style."""

from rich.measure import Measurement
from rich.table import Table


def grid(title, columns, rows, caption=None):
    """Return a rich Table.

    Parameters
    ----------
    title, caption : str
    columns : str
        Their names separated by bars; columns that end with "<" hold text, the others numbers; columns that
        begin with "?" are left out if the terminal is too narrow, see `fitted`.
    rows : iterable of sequences of str; None ends a section
    """
    table = Table(title=title, title_justify="left", caption=caption, caption_justify="left")
    for name in columns.split("|"):
        justify = "left" if name.endswith("<") else "right"
        table.add_column(name.strip(" <?"), justify=justify, overflow="fold")
        table.columns[-1].spare = name.startswith("?")
    for row in rows:
        table.add_section() if row is None else table.add_row(*row)
    return table


def as_dict(*tables):
    """Return {title: {column: cells}} of tables, for JSON."""
    return {table.title: {c.header: list(c.cells) for c in table.columns} for table in tables}


def fitted(table, console):
    """Return the table without the "?" columns, from the last on, for which a console has no room."""
    spare = [column for column in table.columns if getattr(column, "spare", False)]
    endless = console.options.update(max_width=10_000)
    while spare and Measurement.get(console, endless, table).maximum > console.width:
        table.columns.remove(spare.pop())
    return table
