"""The ALU's write-back: results wait for their bank, are written in order, and retire.

Input: groups of lanes from the ALU's pipeline. Output: elements of accumulator or output rows.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.family import Platform
from daedal.hw.interfaces import accumulator_ports, out_write_signature
from daedal.hw.layouts import retire_layout
from daedal.hw.memory.accumulators import bank_of
from daedal.hw.parts.small_fifo import SmallFifo
from daedal.hw.primitives.replicated import Replicated
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.variant import Variant

__all__ = ["ResultWriter", "result_meta_layout"]


def result_meta_layout(variant: Variant) -> data.StructLayout:
    """What the write of a group needs in addition to its results."""
    smallest = min(variant.units.alu_lanes, variant.units.requantize_lanes)
    vector = scratchpad(variant, Memory.ACC).elements
    rows = max(scratchpad(variant, name).index_bits for name in (Memory.ACC, Memory.OUT))
    return data.StructLayout(
        {
            "to_acc": 1,
            "to_out": 1,
            "requantize": 1,
            "row": rows,
            "group": (vector // smallest - 1).bit_length(),
            "last": 1,
            "retire": retire_layout(),
        }
    )


class ResultWriter(wiring.Component):
    """A queue of up to `depth` results, and one more at the ports; write one per cycle.

    A result for the accumulators stalls at the port until its bank is open. `write_closed` comes
    one cycle early, so the stall is a register.

    Parameters
    ----------
    variant
        The machine.
    lane_bits
        Width of a group's results.
    depth
        Capacity of the queue. The producer counts the free places: there is no back-pressure.

    Members
    -------
    valid, meta, lanes : the results of a group.
    alu_write, write_closed : the accumulators' ports of the same names. waits : their
        `alu_waits[2]`.
    out_write : elements of output rows.
    left : ``Out(1)``
        A group is written, or needs no write.
    retire : ``Out(...)``
        Register: the last group of an instruction left in the previous cycle.
    """

    def __init__(self, *, variant: Variant, lane_bits: int, depth: int) -> None:
        self._variant = variant
        self._depth = depth
        ports = accumulator_ports(variant)
        super().__init__(
            {
                "valid": In(1),
                "meta": In(result_meta_layout(variant)),
                "lanes": In(lane_bits),
                "alu_write": ports["alu_write"].flip(),
                "write_closed": ports["write_closed"].flip(),
                "waits": Out(1),
                "out_write": Out(out_write_signature(variant)),
                "left": Out(1),
                "retire": Out(wiring.Signature({"valid": Out(1), "payload": Out(retire_layout())})),
            }
        )

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        layout = data.StructLayout(
            {"meta": result_meta_layout(self._variant), "lanes": len(self.lanes)}
        )
        m.submodules.memory = memory = SmallFifo(width=layout.size, depth=self._depth, trusts=True)
        result, following = Signal(layout, reset_less=True), Signal(layout)
        some = Signal()
        m.d.comb += [
            memory.w_en.eq(self.valid),
            memory.w_data.eq(Cat(self.meta, self.lanes)),
            following.eq(memory.r_data),
        ]
        stands_next = Signal()
        standing = Replicated(m, platform, stands_next, name="stands", reset_less=False)
        stands, waits = standing.copy_for("queue"), standing.copy_for("ports")
        m.d.comb += [
            stands_next.eq(
                Mux(
                    stands,
                    self._shut_out(result.meta),
                    memory.r_rdy & self._shut_out(following.meta),
                )
            ),
            memory.r_en.eq(~stands),
        ]
        with m.If(~stands):
            m.d.sync += some.eq(memory.r_rdy)
        with m.If(~standing.copy_for("result")):
            m.d.sync += result.eq(following)

        meta = result.meta
        m.d.comb += [
            self.alu_write.valid.eq(some & meta.to_acc & ~waits),
            self.waits.eq(waits),
            self.out_write.enable.eq(some & meta.to_out),
            self.left.eq(some & ~waits),
        ]
        self._show(m, result)
        m.d.sync += [
            self.retire.valid.eq(self.left & meta.last),
            self.retire.payload.eq(meta.retire),
        ]
        return m

    def _shut_out(self, meta: Any) -> Value:
        """Whether a result's bank is closed in the next cycle."""
        bits = scratchpad(self._variant, Memory.ACC).index_bits
        bank = bank_of(self._variant, meta.row[:bits])
        return meta.to_acc & self.write_closed.bit_select(bank, 1)

    def _show(self, m: Module, result: Any) -> None:
        """Align a group of lanes to its place in the row, at both ports."""
        variant = self._variant
        units, bits = variant.units, variant.array.accumulator_bits
        vector = scratchpad(variant, Memory.ACC).elements
        meta, lanes = result.meta, result.lanes
        count = len(lanes) // bits
        mask = Signal(vector)
        for element in range(vector):
            wide = meta.group == element // units.requantize_lanes
            plain = meta.group == element // units.alu_lanes
            m.d.comb += mask[element].eq(Mux(meta.requantize, wide, plain))
        outputs = Cat(lanes.word_select(k, bits)[: variant.array.output_bits] for k in range(count))
        for port, words in (
            (self.alu_write.payload, lanes),
            (self.out_write, outputs),
        ):
            m.d.comb += [
                port.row.eq(meta.row),
                port.mask.eq(mask),
                port.data.eq(words.replicate(vector // count)),
            ]
