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

`daedal ops` prints this table. *Where* says where a node runs if it is quantized (its operands
come from DequantizeLinear, its result goes to QuantizeLinear) and meets the limits: on the
accelerator, on the host, or nowhere (*folded*), because it needs no work at run time. All other
nodes run on the host: those beyond the limits, and operators that are not in the table; only Loop,
which may never end, is refused. `daedal compile` says which nodes, and why.

Operators on quantized tensors (QOperator format; `com.microsoft` is onnxruntime's domain) are
treated as the float operators that they stand for, between DequantizeLinear and QuantizeLinear.
MaxPool, Reshape, Transpose and other operators that ONNX defines on 8-bit integers may also take
these directly.

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
