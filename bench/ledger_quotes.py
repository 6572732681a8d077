"""Checks and rewrites the figures that documents quote from the ledger of cycles.

A quote is a number with a comment behind it, which a reader of the page does not see::

    ResNet-18 takes 6,827,876<!-- resnet18.vta.cycles --> cycles

The comment may end in ``, M`` for millions with two decimals. Input: the ledger. Output: documents.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.figures import Figures
from daedal.isa.files import write_atomically

__all__ = ["documents", "rewrite_quotes", "unknown", "with_quotes"]

ROOT = Path(__file__).resolve().parents[1]

_QUOTE = re.compile(r"[\d,.]*\d<!-- (\w+\.\w+)\.(\w+)(, M)? -->")


def documents() -> Iterator[Path]:
    """Those that may quote the ledger; decision records keep the figures of their time."""
    yield ROOT / "README.md"
    yield from sorted((ROOT / "docs").glob("*.md"))


def with_quotes(text: str, table: Mapping[str, Figures]) -> str:
    """The text with the ledger's figures. Quotes of entries that it lacks stay (`unknown`)."""

    def quoted(match: re.Match[str]) -> str:
        key, figure, millions = match.groups()
        if key not in table:
            return match[0]
        value: int = getattr(table[key], figure)
        number = f"{value / 1e6:.2f}" if millions else f"{value:,}"
        return f"{number}<!-- {key}.{figure}{millions or ''} -->"

    return _QUOTE.sub(quoted, text)


def unknown(text: str, table: Mapping[str, Figures]) -> list[str]:
    """The entries that the text quotes and the ledger lacks."""
    return [match[1] for match in _QUOTE.finditer(text) if match[1] not in table]


def rewrite_quotes(table: Mapping[str, Figures]) -> None:
    """Every document's, in place."""
    for path in documents():
        text = path.read_text(encoding="utf-8")
        new = with_quotes(text, table)
        if new != text:
            write_atomically(path, new)
