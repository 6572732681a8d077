"""What a debugger sees of the machine: every write into a scratchpad, every start and every end.

Input: a variant. Output: the record that `Machine(observe=True)` shows on its pin `observe`, and
the list of its write ports. Nothing in the machine depends on it, and without it nothing is built.
"""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Value
from amaranth.lib import data

from daedal.hw.accumulators import acc_grain, bank_of
from daedal.hw.layouts import INDEX_BITS
from daedal.hw.scratchpad import out_group, read_shape
from daedal.hw.tokens import QUEUED_UNITS
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import LoadMemory, Unit
from daedal.isa.variant import Variant

__all__ = ["WritePort", "connect_observation", "observation_layout", "write_ports"]


@dataclass(frozen=True)
class WritePort:
    """Where a unit writes a scratchpad: some columns of a row in a cycle.

    A row has `columns` columns of `column_bits` bits, and `slices` rows of the port are one row of
    the scratchpad.
    """

    memory: Memory
    unit: Unit
    depth: int
    columns: int
    column_bits: int
    slices: int = 1

    @property
    def name(self) -> str:
        """Unique among the ports of a variant."""
        return f"{self.memory.value}_{self.unit.name.lower()}"

    @property
    def layout(self) -> data.StructLayout:
        """A row number for each column; columns whose bit of `enable` is set are written."""
        return data.StructLayout(
            {
                "enable": self.columns,
                "row": data.ArrayLayout((self.depth - 1).bit_length(), self.columns),
                "data": self.columns * self.column_bits,
            }
        )


def write_ports(variant: Variant) -> tuple[WritePort, ...]:
    """All write ports. Those of INP, WGT, PAR, OUT and ACC are the RAMs' own."""
    bus_bits = variant.bus.data_bits
    ports = []
    for memory in (Memory.INP, Memory.WGT, Memory.PAR):
        pad = scratchpad(variant, memory)
        _, width = read_shape(variant, memory)
        slices = pad.row_bits // width
        columns = width // bus_bits
        ports.append(
            WritePort(memory, Unit.LOAD, pad.depth_rows * slices, columns, bus_bits, slices)
        )
    for memory in (Memory.UOP_GEMM, Memory.UOP_ALU):
        pad = scratchpad(variant, memory)
        ports.append(WritePort(memory, Unit.LOAD, pad.depth_rows, 1, pad.row_bits))
    for memory, units, grain in (
        (Memory.ACC, (Unit.LOAD, Unit.GEMM, Unit.ALU), acc_grain(variant)),
        (Memory.OUT, (Unit.ALU,), out_group(variant)),
    ):
        pad = scratchpad(variant, memory)
        columns, bits = pad.elements // grain, grain * pad.element_bits
        ports += [WritePort(memory, unit, pad.depth_rows, columns, bits) for unit in units]
    return tuple(ports)


def observation_layout(variant: Variant) -> data.StructLayout:
    """The record of one cycle.

    A member for every write port by its name; `issue{u}` and `retire{u}`: whether unit u starts an
    instruction, and whether one is done (its last write was in an earlier cycle), and its index.
    """
    event = data.StructLayout({"valid": 1, "index": INDEX_BITS})
    members: dict[str, Any] = {port.name: port.layout for port in write_ports(variant)}
    for unit in QUEUED_UNITS:
        members |= {f"issue{unit:d}": event, f"retire{unit:d}": event}
    return data.StructLayout(members)


def connect_observation(m: Module, variant: Variant, blocks: Any, observe: data.View) -> None:
    """Drive `observe` from the blocks of a machine, which are attributes of `blocks`."""
    for unit in QUEUED_UNITS:
        issue, retire = blocks.gates[unit].issue, blocks.units[unit].retire
        m.d.comb += [
            observe[f"issue{unit:d}"].valid.eq(issue.valid & issue.ready),
            observe[f"issue{unit:d}"].index.eq(issue.p.index),
            observe[f"retire{unit:d}"].valid.eq(retire.valid),
            observe[f"retire{unit:d}"].index.eq(retire.payload.index),
        ]
    for port in write_ports(variant):
        seen = observe[port.name]
        if port.memory is Memory.ACC:
            _observe_accumulators(m, variant, blocks, port, seen)
        elif port.memory in (Memory.UOP_GEMM, Memory.UOP_ALU):
            fill = blocks.load.fill
            code = LoadMemory[port.memory.name]
            m.d.comb += [
                seen.enable.eq(fill.valid & fill.ready & (fill.p.memory == code)),
                seen.row[0].eq(fill.p.row),
                seen.data.eq(fill.p.data),
            ]
        else:
            write = {
                Memory.INP: blocks.inp,
                Memory.WGT: blocks.wgt,
                Memory.PAR: blocks.par,
                Memory.OUT: blocks.out,
            }[port.memory].rows.write
            m.d.comb += [
                seen.enable.eq(write.enable),
                seen.row.eq(write.row),
                seen.data.eq(write.data),
            ]


def _observe_accumulators(
    m: Module, variant: Variant, blocks: Any, port: WritePort, seen: data.View
) -> None:
    """What the bank of a unit's accepted write does in that cycle."""
    accumulators = blocks.accumulators
    if port.unit is Unit.GEMM:
        writes: Value = accumulators.gemm_write.enable
        row: Value = accumulators.gemm_write.row
    elif port.unit is Unit.ALU:
        writes = accumulators.alu_write.valid & accumulators.alu_write.ready
        row = accumulators.alu_write.p.row
    else:
        fill = accumulators.fill
        for_acc = (fill.p.memory == LoadMemory.ACC) | (fill.p.memory == LoadMemory.ACC_NARROW)
        writes = fill.valid & fill.ready & for_acc
        row = fill.p.row
    bank = bank_of(variant, row)
    low_bits = len(bank) - 1
    with m.Switch(bank):
        for number, ram in enumerate(accumulators.banks):
            with m.Case(number):
                write = ram.write
                place = Const(number, len(bank))
                m.d.comb += [
                    seen.enable.eq(Mux(writes, write.enable, 0)),
                    seen.data.eq(write.data),
                    *(
                        seen.row[column].eq(
                            Cat(place[:low_bits], write.row[column], place[low_bits])
                        )
                        for column in range(port.columns)
                    ),
                ]
