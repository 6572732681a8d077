"""`plain_table`: the form that all tables of results have."""

from collections.abc import Sequence

from rich import box
from rich.table import Table

__all__ = ["padding_note", "plain_table"]


def padding_note(macs: int, padding_macs: int) -> str:
    """What a table of layers says of products with padding; nothing where there are none."""
    if not padding_macs:
        return ""
    return f"without {padding_macs:,} of {macs:,} MACs, which are with padding"


def plain_table(title: str, heads: Sequence[str], num_left: int) -> Table:
    """A table without lines between columns; the first `num_left` hold text, the rest numbers."""
    table = Table(
        title=title,
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE,
        padding=(0, 1, 0, 0),
    )
    for number, head in enumerate(heads):
        table.add_column(head, justify="left" if number < num_left else "right", no_wrap=True)
    return table
