"""The machine's debug port: every scratchpad write, every start and end of an instruction.

Input: a variant. Output: the record that `Machine(observe=True)` shows on its pin `observe`, and
the list of its write ports. Nothing in the machine depends on it, and without it nothing is built.
"""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Value
from amaranth.lib import data

from daedal.hw.contracts import require_at_elaboration
from daedal.hw.issue.tokens import QUEUED_UNITS
from daedal.hw.layouts import INDEX_BITS
from daedal.hw.memory.accumulators import bank_of
from daedal.hw.memory.fill_row import acc_grain
from daedal.hw.memory.scratchpad import WRITE_CYCLES, out_group, read_shape
from daedal.hw.pipeline import delay, register
from daedal.isa.latencies import BANK_CYCLES
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import LoadMemory, Unit
from daedal.isa.variant import Variant

__all__ = ["WritePort", "connect_observation", "observation_layout", "write_ports"]


@dataclass(frozen=True)
class WritePort:
    """A port through which a unit writes a scratchpad: some columns of a row per cycle.

    A row has `columns` columns of `column_bits` bits; `slices` rows of the port make one row of the
    scratchpad.
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
    def row_bits(self) -> int:
        """Width of a row number."""
        return (self.depth - 1).bit_length()

    @property
    def layout(self) -> data.StructLayout:
        """A row number for each column; columns whose bit of `enable` is set are written."""
        return data.StructLayout(
            {
                "enable": self.columns,
                "row": data.ArrayLayout(self.row_bits, self.columns),
                "data": self.columns * self.column_bits,
            }
        )


def write_ports(variant: Variant) -> tuple[WritePort, ...]:
    """All write ports. Those of INP, WGT, PAR, TAB, OUT and ACC are the RAMs' write ports.

    TAB has a RAM for each lane, which are all written alike.
    """
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
    if variant.memory.tables:
        pad = scratchpad(variant, Memory.TAB)
        beats = pad.row_beats(variant)
        ports.append(WritePort(Memory.TAB, Unit.LOAD, pad.depth_rows * beats, 1, bus_bits, beats))
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

    One member per write port, by its name; `issue[u]` and `retire[u]`: whether unit u starts an
    instruction, or completes one (its last write was in an earlier cycle), and its index. All are
    delayed by `BANK_CYCLES`, when the writes of that cycle are at the RAMs.
    """
    event = data.StructLayout({"valid": 1, "index": INDEX_BITS})
    events = data.ArrayLayout(event, len(QUEUED_UNITS))
    ports: dict[str, Any] = {port.name: port.layout for port in write_ports(variant)}
    return data.StructLayout({**ports, "issue": events, "retire": events})


def connect_observation(m: Module, variant: Variant, blocks: Any, observe: data.View) -> None:
    """Drive `observe` from the blocks of a machine; `blocks` has them as attributes."""
    require_at_elaboration(
        WRITE_CYCLES == BANK_CYCLES,
        "writes of one cycle must be seen in one cycle: WRITE_CYCLES must be BANK_CYCLES",
    )

    def late(value: Value, name: str) -> Value:
        return delay(m, value, BANK_CYCLES, name=f"observe_{name}", reset_less=False)

    for unit in QUEUED_UNITS:
        issue, retire = blocks.gates[unit].issue, blocks.units[unit].retire
        starts = late(Cat(issue.valid & issue.ready, issue.p.index), f"issue{unit:d}")
        ends = late(Cat(retire.valid, retire.payload.index), f"retire{unit:d}")
        m.d.comb += [
            observe.issue[unit].as_value().eq(starts),
            observe.retire[unit].as_value().eq(ends),
        ]
    for port in write_ports(variant):
        seen = observe[port.name]
        if port.memory is Memory.ACC:
            _observe_accumulators(m, variant, blocks, port, seen)
        elif port.memory in (Memory.UOP_GEMM, Memory.UOP_ALU):
            fill = blocks.load.fill
            taken = fill.valid & fill.ready & (fill.p.memory == LoadMemory[port.memory.name])
            write = Cat(taken, fill.p.row[: port.row_bits], fill.p.data)
            m.d.comb += seen.as_value().eq(late(write, port.name))
        else:
            part = getattr(blocks, port.memory.value)
            rows = part.lanes[0] if port.memory is Memory.TAB else part.rows
            write = rows.write
            m.d.comb += [
                seen.enable.eq(write.enable),
                seen.row.eq(write.row),
                seen.data.eq(write.data),
            ]


def _observe_accumulators(
    m: Module, variant: Variant, blocks: Any, port: WritePort, seen: data.View
) -> None:
    """Drive `seen` with a unit's accepted write when it is at the RAM of its bank."""
    accumulators = blocks.accumulators
    if port.unit is Unit.GEMM:
        writes: Value = register(m, accumulators.gemm_write.enable, name="gemm_writes")
        row: Value = register(m, accumulators.gemm_write.row, name="gemm_writes_row")
    elif port.unit is Unit.ALU:
        writes = accumulators.alu_write.valid
        row = accumulators.alu_write.payload.row
    else:
        fill = accumulators.fill
        writes = fill.valid & fill.ready & fill.p.into_acc
        row = fill.p.row[: port.row_bits]
    writes = delay(m, writes, BANK_CYCLES, name=f"{port.name}_writes", reset_less=False)
    row = delay(m, row, BANK_CYCLES, name=f"{port.name}_row")
    m.d.comb += [seen.row[column].eq(row) for column in range(port.columns)]
    with m.Switch(bank_of(variant, row)):
        for number, bank in enumerate(accumulators.banks):
            parts = [part.write for part in bank.slices]
            with m.Case(number):
                m.d.comb += [
                    seen.enable.eq(Mux(writes, Cat(part.enable for part in parts), 0)),
                    seen.data.eq(Cat(part.data for part in parts)),
                ]
