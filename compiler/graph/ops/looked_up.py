"""Integer operators that end in the machine's LOOKUP: REQUANTIZE, and a table of its results.

There is one for each operator that ends in REQUANTIZE and can be followed by an activation. It has
that operator's operands and attributes, and one operand more, directly before `params`: the table
(256,) int8 of the results of -128, ..., 127. The bounds are those of the index.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from daedal.compiler.graph.layout import PLAIN
from daedal.compiler.graph.ops.integer_convolution import Q_CONV2D
from daedal.compiler.graph.ops.integer_elementwise import Q_ADD, Q_MUL, Q_REQUANTIZE
from daedal.compiler.graph.ops.registry import Array, Arrays, Attrs, OpDef, Types, get_op, register
from daedal.compiler.graph.table_layout import TableLayout
from daedal.compiler.graph.types import TensorType
from daedal.compiler.targets.names import ACCELERATOR
from daedal.isa.scratchpad import TABLE_ENTRIES

__all__ = [
    "LOOKED_UP",
    "Q_ADD_LOOKUP",
    "Q_CONV2D_LOOKUP",
    "Q_MUL_LOOKUP",
    "Q_REQUANTIZE_LOOKUP",
    "TABLE",
    "look_up",
    "table_of",
]

TABLE = "table"
"""Name of the operand."""

_DTYPE = "int8"


def look_up(values: Array, table: Array, kind: TensorType) -> Array:
    """The entries of `table`, which has the type `kind`, for int8 `values`."""
    entries = kind.layout.unpack(table)
    return np.asarray(entries[values.astype(np.int64) + TABLE_ENTRIES // 2])


def _with_table(base: OpDef) -> OpDef:
    """The operator that looks the result of `base` up."""
    place = len(base.operands) - 1

    def infer(operands: Types, attrs: Attrs) -> TensorType:
        table = operands[place]
        layout = PLAIN if table.is_plain else TableLayout()
        wanted = TensorType((TABLE_ENTRIES,), _DTYPE, layout)
        assert table == wanted, f"table is {table}, not {wanted}"
        return base.infer([*operands[:place], *operands[place + 1 :]], attrs)

    def evaluate(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
        """``table[base + 128]``."""
        others = [*arrays[:place], *arrays[place + 1 :]]
        result = base.evaluate(others, [*types[:place], *types[place + 1 :]], attrs)
        return look_up(result, arrays[place], types[place])

    return OpDef(
        f"{base.name}_lookup",
        (*base.operands[:place], TABLE, *base.operands[place:]),
        base.attrs,
        infer,
        evaluate,
        targets=(ACCELERATOR,),
    )


Q_ADD_LOOKUP = register(_with_table(Q_ADD))
Q_CONV2D_LOOKUP = register(_with_table(Q_CONV2D))
Q_MUL_LOOKUP = register(_with_table(Q_MUL))
Q_REQUANTIZE_LOOKUP = register(_with_table(Q_REQUANTIZE))

LOOKED_UP: Mapping[str, OpDef] = {
    Q_ADD.name: Q_ADD_LOOKUP,
    Q_CONV2D.name: Q_CONV2D_LOOKUP,
    Q_MUL.name: Q_MUL_LOOKUP,
    Q_REQUANTIZE.name: Q_REQUANTIZE_LOOKUP,
}
"""By the name of the operator whose result is looked up."""


_LAST = (TABLE, "params")


def table_of(op: str, inputs: Sequence[str]) -> str | None:
    """The table that an operator's result is an entry of, or None for other operators."""
    return inputs[-2] if get_op(op).operands[-2:] == _LAST else None
