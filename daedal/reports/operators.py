"""The table of operators that `daedal ops` prints, and docs/operators.md.

``python -m daedal.reports.operators`` writes the page.
"""

from pathlib import Path

from rich.table import Table

from daedal.compiler.frontend.supported import SupportedOperator, supported_operators
from daedal.isa.files import write_atomically
from daedal.reports.tables import plain_table

__all__ = ["operators_page", "operators_table"]

_HEADS = ("operator", "opsets", "where", "limits")

_INTRODUCTION = """\
# Operators

<!-- Written by `python -m daedal.reports.operators`; do not edit. -->

`daedal ops` prints this table. *Where* is where a node runs that stands between quantized tensors,
as DequantizeLinear and QuantizeLinear make them, and keeps to the limits: on the accelerator, on
the host, or nowhere, because it is folded into others. A node beyond the limits, and any operator
of ONNX that is not in the table, runs on the host too; `daedal compile` says which, and why.

Operators on quantized tensors (QOperator format, `com.microsoft` being onnxruntime's) are taken as
the ones that they stand for. Such operators of ONNX as MaxPool, Reshape or Transpose may be given
8-bit integers themselves.

| operator | opsets | where | limits |
|---|---|---|---|
"""


def operators_table() -> Table:
    """The operators, one a line."""
    table = plain_table("Operators", _HEADS, len(_HEADS))
    table.columns[-1].no_wrap = False
    for item in supported_operators():
        table.add_row(item.name, _opsets(item), item.where, item.limits)
    return table


def operators_page() -> str:
    """The text of docs/operators.md."""
    rows = (
        f"| {item.name} | {_opsets(item)} | {item.where} | {item.limits} |\n"
        for item in supported_operators()
    )
    return _INTRODUCTION + "".join(rows)


def _opsets(item: SupportedOperator) -> str:
    if item.last_opset is None:
        return f"{item.first_opset} and up"
    return f"{item.first_opset} to {item.last_opset}"


def main() -> None:
    """Write docs/operators.md of this source tree."""
    page = Path(__file__).resolve().parents[2] / "docs" / "operators.md"
    write_atomically(page, operators_page())


if __name__ == "__main__":
    main()
