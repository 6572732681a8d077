"""Generated parts of Markdown pages: tables, and a section between two markers.

Input: cells, or a page. Output: Markdown text.
"""

from collections.abc import Iterable, Sequence

__all__ = ["markdown_table", "with_section"]


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table with one line per row."""
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(str(cell) for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def with_section(page: str, begin: str, section: str, end: str, what: str) -> str:
    """A page with the lines from the marker `begin` to the marker `end` replaced.

    `section` contains both markers, `what` names it for the message. Raises ValueError where the
    page does not have exactly one of each, in order.
    """
    before, found_begin, rest = page.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found_begin or not found_end or begin in rest or end in after:
        raise ValueError(f"the page must have one place for the generated {what}")
    return before + section + after
