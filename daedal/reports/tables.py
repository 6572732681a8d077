"""`plain_table`: the form that all tables of results have."""

from collections.abc import Sequence

from rich import box
from rich.table import Table

from daedal.runtime.profiler.svg import clip_text

__all__ = ["padding_note", "plain_table", "shown_names"]

_NAME_LENGTH = 40
_COPIES = "copies of tensors"


def shown_names(names: Sequence[str]) -> str:
    """Names of tensors that a kernel computes, two at most."""
    shown = ", ".join(clip_text(name, _NAME_LENGTH) for name in names[:2])
    return f"{shown} and {len(names) - 2} more" if len(names) > 2 else shown or _COPIES


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
