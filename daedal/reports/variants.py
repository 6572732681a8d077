"""The table of machines that `daedal variants` prints."""

from collections.abc import Sequence

from rich.table import Table

from daedal.isa.scratchpad import scratchpads
from daedal.isa.variant import Variant
from daedal.reports.tables import plain_table

__all__ = ["variants_table"]

_HEADS = (
    "variant",
    "array",
    "bits",
    "MACs/cycle",
    "taps",
    "ALU lanes",
    "requantize",
    "bus bits",
    "buffers KiB",
    "tables",
)


def variants_table(variants: Sequence[Variant]) -> Table:
    """Machines, one a line.

    The array is batch x inputs x outputs; bits are those of activations and weights; taps are those
    of a depthwise product in one cycle, 0 where it has none; buffers are all scratchpads.
    """
    table = plain_table("Variants", _HEADS, 3)
    for variant in variants:
        array, units = variant.array, variant.units
        buffers = sum(pad.depth_rows * pad.row_bits for pad in scratchpads(variant).values())
        table.add_row(
            variant.name,
            f"{array.batch} x {array.block_in} x {array.block_out}",
            f"{array.input_bits} x {array.weight_bits}",
            f"{variant.macs_per_cycle:,}",
            str(array.depthwise_taps),
            str(units.alu_lanes),
            str(units.requantize_lanes),
            str(variant.bus.data_bits),
            f"{buffers / 8192:,.0f}",
            str(variant.memory.tables),
        )
    return table
