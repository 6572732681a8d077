"""The table of operators that `daedal ops` prints, and docs/operators.md.

``python -m daedal.reports.operators`` writes the page.
"""

from collections.abc import Iterable
from pathlib import Path

import onnx
from rich.table import Table

from daedal.common.files import write_atomically
from daedal.compiler.frontend.reader import MIN_OPSET
from daedal.compiler.supported import SupportedOperator, supported_operators
from daedal.reports.tables import plain_table

__all__ = ["operators_page", "operators_table"]

_HEADS = ("operator", "opsets", "quantized", "processor", "limits")

_INTRODUCTION = """\
# Operators

<!-- Written by `python -m daedal.reports.operators`; do not edit. -->

`daedal ops` prints this table. Models may use opset {first} and up; the operators are those of
ONNX's opsets up to {last}.

This page is for those who want to know whether their model runs, and where.

*Quantized* says where a node runs if a variant is the target, the node is quantized (its operands
come from DequantizeLinear, its result goes to QuantizeLinear) and meets the limits: on the
accelerator, on the host, or nowhere (*folded*), because it needs no work at run time. All other
nodes run on the host: those that are not quantized, and those beyond the limits.

Variants with tables (`memory.tables`) compute functions of one quantized tensor as well: any group
of elementwise operators between DequantizeLinear and QuantizeLinear that depends on that tensor
and on single numbers only, such as `x * Sigmoid(x)`. A function alone costs as much as a change of
scale; after a convolution, an addition or a product it costs nothing.

*Processor* says how a node on the host runs, and every node if `cpu` is the target. It is
*compiled* to machine code; or *expanded* into the operators by which ONNX defines it, which are
compiled; or *folded*, because it is a constant; or *interpreted* by ONNX's reference evaluator; or
*not run*, if the evaluator lacks it. A node whose operands are all constants is evaluated when the
model is compiled, and an If whose condition is known then is replaced by its branch. A node is
also interpreted if a type or a shape is not known before it runs, or if its tensor expression does
not cover its attributes or types. Only models for `cpu` or `gpu` may have a Loop: all Loops of a
run may have a million iterations together; beyond that, the run ends with an error.

`daedal compile` says which nodes run where, which are interpreted, and why.

Operators on quantized tensors (QOperator format; `com.microsoft` is onnxruntime's domain) are
treated as the float operators that they stand for, between DequantizeLinear and QuantizeLinear.
MaxPool, Reshape, Transpose and other operators that ONNX defines on 8-bit integers may also take
these directly.

| operator | opsets | quantized | processor | limits |
|---|---|---|---|---|
"""


def operators_table(operators: Iterable[SupportedOperator]) -> Table:
    """The operators, one a line."""
    table = plain_table("Operators", _HEADS, len(_HEADS))
    table.columns[-1].no_wrap = False
    for item in operators:
        table.add_row(item.name, _opsets(item), item.where, item.processor, item.limits)
    return table


def operators_page() -> str:
    """The text of docs/operators.md."""
    rows = (
        f"| {item.name} | {_opsets(item)} | {item.where} | {item.processor} | {item.limits} |\n"
        for item in supported_operators()
    )
    introduction = _INTRODUCTION.format(first=MIN_OPSET, last=onnx.defs.onnx_opset_version())
    return introduction + "".join(rows)


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
