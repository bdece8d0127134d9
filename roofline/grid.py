"""Tables of the terminal: one look for all."""

from rich.table import Table


def grid(title, columns, rows, caption=None):
    """A rich Table.

    Parameters
    ----------
    title, caption : str
    columns : str
        Their names between bars; those that end with "<" hold text, the others numbers.
    rows : iterable of sequences of str; None ends a section
    """
    table = Table(title=title, title_justify="left", caption=caption, caption_justify="left")
    for name in columns.split("|"):
        table.add_column(name.strip(" <"), justify="left" if name.endswith("<") else "right", overflow="fold")
    for row in rows:
        table.add_section() if row is None else table.add_row(*row)
    return table
