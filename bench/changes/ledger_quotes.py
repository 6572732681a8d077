"""Checks and rewrites the figures that documents quote from the ledger of cycles.

A quote is a number with a comment behind it, which a reader of the page does not see. The comment
has a figure of the ledger, or what is computed from several with ``+ - * /``, and a format if the
number is not whole::

    ResNet-18 takes 6,827,876<!-- resnet18.vta.cycles --> cycles on `vta`, half
    of the 2.1<!-- resnet18.ecp5_half.cycles / resnet18.vta.cycles, .1f --> times

Input: the ledger. Output: documents.
"""

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from bench.figures import Figures
from daedal.common.files import write_atomically

__all__ = ["documents", "rewrite_quotes", "unknown", "unquoted", "with_quotes"]

ROOT = Path(__file__).resolve().parents[2]
REMARKABLE = 10_000
"""Cycles from which a number in a document is hardly anything else."""

_QUOTE = re.compile(r"[\d,.]*\d<!-- (?P<term>[^,>]+\.\w+[^,>]*?)(?:, (?P<format>\.\df))? -->")
_FIGURE = re.compile(r"(?<![\w.])([A-Za-z]\w*\.\w+)\.(\w+)")
_NUMBER = re.compile(r"(?<![\d,.])\d{1,3}(?:,\d{3})+(?![\d,]*<!--)")
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_GENERATED = re.compile(r"^<!-- generated.*?^<!-- end of", re.MULTILINE | re.DOTALL)

_Number = int | float
_OPERATORS: Mapping[type[ast.operator], Callable[[_Number, _Number], _Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def documents() -> Iterator[Path]:
    """Those that may quote the ledger; decision records keep the figures of their time."""
    yield ROOT / "README.md"
    yield from sorted((ROOT / "docs").glob("*.md"))


def with_quotes(text: str, table: Mapping[str, Figures]) -> str:
    """The text with the ledger's figures. Quotes of what it lacks stay (`unknown`)."""

    def quoted(match: re.Match[str]) -> str:
        if unknown(match[0], table):
            return match[0]
        value = _value(ast.parse(match["term"], mode="eval").body, table)
        _, comment, rest = match[0].partition("<!--")
        return f"{value:{match['format'] or ',.0f'}}{comment}{rest}"

    return _QUOTE.sub(quoted, text)


def _value(node: ast.expr, table: Mapping[str, Figures]) -> _Number:
    """Of ``100 * digits.vta.cycles / C1.vta.cycles``."""
    if isinstance(node, ast.BinOp):
        return _OPERATORS[type(node.op)](_value(node.left, table), _value(node.right, table))
    if isinstance(node, ast.Constant):
        assert isinstance(node.value, int | float)
        return node.value
    key, _, figure = ast.unparse(node).rpartition(".")
    value: int = getattr(table[key], figure)
    return value


def unknown(text: str, table: Mapping[str, Figures]) -> list[str]:
    """What the text quotes and the ledger lacks: an entry, or one of its figures."""
    return [
        f"{key}.{figure}"
        for match in _QUOTE.finditer(text)
        for key, figure in _FIGURE.findall(match["term"])
        if getattr(table.get(key), figure, None) is None
    ]


def unquoted(text: str, table: Mapping[str, Figures]) -> list[str]:
    """Cycles of entries that the text has outside of quotes, examples and generated tables."""
    cycles = {f"{entry.cycles:,}" for entry in table.values() if entry.cycles >= REMARKABLE}
    prose = _GENERATED.sub("", _FENCED.sub("", text))
    return [number for number in _NUMBER.findall(prose) if number in cycles]


def rewrite_quotes(table: Mapping[str, Figures]) -> None:
    """Every document's, in place."""
    for path in documents():
        text = path.read_text(encoding="utf-8")
        new = with_quotes(text, table)
        if new != text:
            write_atomically(path, new)
