"""ALU skeleton: final ports; the datapath follows."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.interfaces import (
    accumulator_ports,
    fill_signature,
    out_write_signature,
    scratchpad_read_signature,
    unit_signature,
)
from daedal.hw.scratchpad import read_shape
from daedal.isa.scratchpad import Memory
from daedal.isa.table import Opcode
from daedal.isa.variant import Variant

__all__ = ["Alu"]

_PORTS = ("alu_read", "alu_data", "alu_read2", "alu_data2", "alu_write")


class Alu(wiring.Component):
    def __init__(self, *, variant: Variant) -> None:
        self._variant = variant
        ports = accumulator_ports(variant)
        super().__init__(
            {
                **unit_signature(variant, Opcode.ALU),
                "fill": In(fill_signature(variant)),
                "par_read": Out(scratchpad_read_signature(*read_shape(variant, Memory.PAR))),
                **{name: ports[name].flip() for name in _PORTS},
                "out_write": Out(out_write_signature(variant)),
            }
        )

    def elaborate(self, platform) -> Module:
        return Module()
