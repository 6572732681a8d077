"""`fitted_tables`: a table that is too wide for a terminal becomes several, one below the other.

Numbers are never cut. Columns without a heading, which hold bars, are left out first; then texts
are cut, up to a point; then the columns go into several tables that all begin with the first one.
"""

from collections.abc import Iterator, Sequence
from copy import copy

from rich.console import Console
from rich.measure import Measurement
from rich.table import Column, Table

__all__ = ["fitted_tables", "natural_width"]

_WIDEST = 1000
_NAME = 32
_TEXT = 24
"""A text of the first column, or of another one, is not cut to fewer characters."""
_BETWEEN = 2
"""Spaces between two columns."""


def natural_width(console: Console, table: Table) -> int:
    """The width, in characters, at which no text is cut, and only texts that may be are wrapped."""
    return _sum(
        [
            _content(console, column) if column.no_wrap else _least(console, table, column)
            for column in table.columns
        ]
    )


def fitted_tables(console: Console, table: Table) -> list[Table]:
    """The table, if the console has room for it; else the tables that show it."""
    if _sum([_content(console, column) for column in table.columns]) <= console.width:
        return [table]
    parts = [_part(console, table, columns) for columns in _groups(console, table)]
    for part in parts[1:]:
        part.title = None
    for part in parts[:-1]:
        part.caption = None
    return parts


def _groups(console: Console, table: Table) -> Iterator[Sequence[Column]]:
    """The columns of each table, as many as there is room for."""
    first, *others = table.columns
    group = [first]
    for column in others:
        if not column.header:
            continue
        widths = [_least(console, table, item) for item in (*group, column)]
        if len(group) > 1 and _sum(widths) > console.width:
            yield group
            group = [first]
        group.append(column)
    yield group


def _part(console: Console, table: Table, columns: Sequence[Column]) -> Table:
    """A table of these columns."""
    widths = [_least(console, table, column) for column in columns]
    spare = console.width - _sum(widths)
    part = copy(table)
    part.columns, part.rows = [], []
    for column, least in zip(columns, widths, strict=True):
        more = max(0, min(spare, _content(console, column) - least))
        spare -= more
        part.add_column(
            column.header, justify=column.justify, no_wrap=column.no_wrap, width=least + more
        )
    cells = [list(column.cells) for column in columns]
    for row, *values in zip(table.rows, *cells, strict=True):
        part.add_row(*values, style=row.style, end_section=row.end_section)
    return part


def _least(console: Console, table: Table, column: Column) -> int:
    """The width that a column must have: all of its content if that is numbers."""
    content = _content(console, column)
    if column.justify == "right":
        return content
    return min(content, _NAME if column is table.columns[0] else _TEXT)


def _content(console: Console, column: Column) -> int:
    options = console.options.update(max_width=_WIDEST)
    texts = (column.header, *column.cells)
    return max(Measurement.get(console, options, text).maximum for text in texts)


def _sum(widths: Sequence[int]) -> int:
    return sum(width + _BETWEEN for width in widths) + 1
