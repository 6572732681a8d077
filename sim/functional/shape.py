"""Sizes of a variant as constants of the functional simulator's kernels."""

from typing import Any

from daedal.isa.alu_operations import AluOp
from daedal.isa.scratchpad import (
    NARROW_WEIGHT_BITS,
    SHIFT_BITS,
    TABLE_ENTRIES,
    TABLE_ENTRY_BITS,
    TABLE_ROWS,
    Memory,
    scratchpads,
)
from daedal.isa.table import GemmMode, Unit, micro_op_layout
from daedal.isa.variant import Variant

__all__ = ["Shape", "shape_of"]

_MOST_LANES = 16
"""Largest number of elements per vector operation of the kernels: two vectors of 64-bit elements.
"""


class Shape:
    """Parameters of a machine for the kernels; `shape_of` returns a subclass with the values.

    Row sizes are in elements; ``inp_pairs`` and ``wgt_pairs`` are those of the copies of INP and
    WGT that hold pairs of 16-bit elements, the operands of one multiply instruction. Where GEMM
    reads OUT, its rows follow those of INP: `operand_depth` is the number of both. `operations`,
    `takes_x`, `over_lanes` and `requantizes` have a bit per `AluOp`: whether it exists, and its
    properties.
    """

    batch: int
    block_in: int
    block_out: int
    lanes: int
    pairs: int
    inp_bits: int
    wgt_bits: int
    narrow_wgt_bits: int
    acc_bits: int
    out_bits: int
    multiplier_bits: int
    shift_bits: int
    par_memory_bits: int
    acc_memory_bits: int
    inp_row: int
    wgt_row: int
    acc_row: int
    inp_pairs: int
    wgt_pairs: int
    inp_depth: int
    operand_depth: int
    wgt_depth: int
    acc_depth: int
    out_depth: int
    par_depth: int
    gemm_uop_depth: int
    alu_uop_depth: int
    uops_per_row: int
    bus_bytes: int
    tab_row: int
    tab_bits: int
    tab_depth: int
    table_entries: int
    operations: int
    takes_x: int
    over_lanes: int
    requantizes: int
    acc_shift: int
    acc_mask: int
    inp_shift: int
    inp_mask: int
    wgt_shift: int
    wgt_mask: int
    first_shift: int
    dst_shift: int
    dst_mask: int
    src_shift: int
    src_mask: int
    par_shift: int
    par_mask: int


def _micro_op_fields(variant: Variant) -> dict[str, int]:
    fields = {}
    for unit in (Unit.GEMM, Unit.ALU):
        for name, item in micro_op_layout(variant, unit).items():
            fields[f"{name}_shift"] = item.offset
            fields[f"{name}_mask"] = (1 << item.width) - 1
    del fields["first_mask"]
    return fields


def shape_of(variant: Variant) -> type[Shape]:
    """The constants of `variant`."""
    array, pads = variant.array, scratchpads(variant)
    pairs = -(-array.block_in // 2)
    values: dict[str, Any] = {
        "batch": array.batch,
        "block_in": array.block_in,
        "block_out": array.block_out,
        "lanes": min(array.block_out, _MOST_LANES),
        "pairs": pairs,
        "inp_bits": array.input_bits,
        "wgt_bits": array.weight_bits,
        "narrow_wgt_bits": NARROW_WEIGHT_BITS if variant.units.narrow_weights else 0,
        "acc_bits": array.accumulator_bits,
        "out_bits": array.output_bits,
        "multiplier_bits": variant.units.multiplier_bits,
        "shift_bits": SHIFT_BITS,
        "par_memory_bits": pads[Memory.PAR].memory_bits,
        "acc_memory_bits": pads[Memory.ACC].memory_bits,
        "inp_row": pads[Memory.INP].elements,
        "wgt_row": pads[Memory.WGT].elements,
        "acc_row": pads[Memory.ACC].elements,
        "inp_pairs": array.batch * 2 * pairs,
        "wgt_pairs": array.block_out * 2 * pairs,
        "inp_depth": pads[Memory.INP].depth_rows,
        "operand_depth": sum(
            pads[memory].depth_rows for memory in {mode.operand for mode in GemmMode.of(variant)}
        ),
        "wgt_depth": pads[Memory.WGT].depth_rows,
        "acc_depth": pads[Memory.ACC].depth_rows,
        "out_depth": pads[Memory.OUT].depth_rows,
        "par_depth": pads[Memory.PAR].depth_rows,
        "gemm_uop_depth": pads[Memory.UOP_GEMM].depth_rows,
        "alu_uop_depth": pads[Memory.UOP_ALU].depth_rows,
        "uops_per_row": pads[Memory.UOP_GEMM].elements,
        "bus_bytes": variant.bus_bytes,
        "tab_row": TABLE_ENTRIES // TABLE_ROWS,
        "tab_bits": TABLE_ENTRY_BITS,
        "tab_depth": variant.memory.tables * TABLE_ROWS,
        "table_entries": TABLE_ENTRIES,
        "operations": sum(1 << operation for operation in AluOp.of(variant)),
        "takes_x": sum(1 << operation for operation in AluOp if operation.takes_x),
        "over_lanes": sum(1 << operation for operation in AluOp if operation.over_lanes),
        "requantizes": sum(1 << operation for operation in AluOp if operation.requantizes),
        **_micro_op_fields(variant),
    }
    assert set(values) == set(Shape.__annotations__), "every constant has a value"
    return type("Shape", (Shape,), values)
