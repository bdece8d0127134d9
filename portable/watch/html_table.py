"""Tables of facts for notebooks."""


def html_table(caption, rows, head=()):
    """Return a table of rows of values, below a head if there are any, as HTML."""
    import html  # imported here: it takes a millisecond

    def row(values, tag="td"):
        return f"<tr>{''.join(f'<{tag}>{html.escape(str(v))}</{tag}>' for v in values)}</tr>"

    lines = [row(head, "th")][: bool(head and rows)] + [*map(row, rows)]
    return f"<table><caption>{html.escape(caption)}</caption>{''.join(lines)}</table>"
