"""A bench for the compute side: units, accumulators and scratchpads, filled from a `State`.

The model is `isa.semantics`: the same instructions run on the same `State`, then rows are compared.
"""

from collections.abc import Callable, Iterable

import numpy as np
from amaranth.hdl import Elaboratable, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from amaranth.sim import Simulator

from daedal.hw.alu.alu import Alu
from daedal.hw.gemm.gemm import Gemm
from daedal.hw.interfaces import (
    accumulator_ports,
    fill_signature,
    out_write_signature,
    scratchpad_read_signature,
)
from daedal.hw.interfaces import unit_signature as unit_ports
from daedal.hw.memory.accumulators import Accumulators
from daedal.hw.memory.scratchpad import OutScratchpad, Scratchpad, read_shape
from daedal.hw.memory.table_memory import TableMemory
from daedal.isa.elements import to_memory
from daedal.isa.instruction import Instruction, encode
from daedal.isa.numerics import integer_range
from daedal.isa.scratchpad import TABLE_ENTRY_BITS, Memory, scratchpad
from daedal.isa.semantics import State
from daedal.isa.table import LoadMemory, Opcode, Unit, instruction_bits
from daedal.isa.variant import Variant

__all__ = [
    "ComputeSide",
    "acc_bank",
    "alu_turn",
    "fill_words",
    "issue_word",
    "packed_row",
    "random_state",
    "simulate",
]

_ALU_PORTS = ("alu_read", "alu_read2", "alu_write")
_ALU_FLAGS = ("alu_wants", "alu_waits", "read_closed", "write_closed")
_OTHERS = {
    Opcode.GEMM: (*_ALU_PORTS, "alu_data", *_ALU_FLAGS, "store_read", "store_data"),
    Opcode.ALU: ("gemm_read", "gemm_write", "gemm_hold", "store_read", "store_data"),
}


class ComputeSide(wiring.Component):
    """GEMM or the ALU with all memories; the accumulator ports of the others are the bench's.

    With GEMM of a variant that multiplies rows of OUT, the bench also writes them (`out_write`).
    """

    def __init__(self, *, variant: Variant, opcode: Opcode) -> None:
        self.variant = variant
        self.opcode = opcode
        self.writes_out = opcode is Opcode.GEMM and variant.units.gemm_reads_out
        ports = accumulator_ports(variant)
        super().__init__(
            {
                **unit_ports(variant, opcode),
                "fill": In(fill_signature(variant)),
                "out_read": In(scratchpad_read_signature(*read_shape(variant, Memory.OUT))),
                **({"out_write": In(out_write_signature(variant))} if self.writes_out else {}),
                **{name: ports[name] for name in _OTHERS[opcode]},
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        variant = self.variant
        m.submodules.accumulators = accumulators = Accumulators(variant=variant)
        fills = [accumulators.fill]
        if self.opcode is Opcode.GEMM:
            m.submodules.unit = unit = Gemm(variant=variant)
            m.d.comb += unit.gemm_hold.eq(accumulators.gemm_hold)
            own = ("gemm_read", "gemm_write")
            reads = {Memory.INP: unit.inp_read, Memory.WGT: unit.wgt_read}
            if self.writes_out:
                m.submodules.out = out = OutScratchpad(variant=variant)
                wiring.connect(m, wiring.flipped(self.out_write), out.write)
                wiring.connect(m, unit.out_read, out.operand)
                wiring.connect(m, wiring.flipped(self.out_read), out.read)
        else:
            m.submodules.unit = unit = Alu(variant=variant)
            own = (*_ALU_PORTS, "alu_data", "alu_data2")
            for name in _ALU_FLAGS:
                _connect_flag(m, getattr(unit, name), getattr(accumulators, name), name)
            reads = {Memory.PAR: unit.par_read}
            if variant.memory.tables:
                m.submodules.tab = tab = TableMemory(variant=variant)
                wiring.connect(m, unit.lookup, tab.lookup)
                fills.append(tab.fill)
            m.submodules.out = out = OutScratchpad(variant=variant)
            wiring.connect(m, unit.out_write, out.write)
            wiring.connect(m, wiring.flipped(self.out_read), out.read)
        fills.append(unit.fill)
        for memory, port in reads.items():
            pad = Scratchpad(variant=variant, memory=memory)
            m.submodules[memory.value] = pad
            wiring.connect(m, port, pad.read)
            fills.append(pad.fill)
        for port in fills:
            m.d.comb += [port.p.eq(self.fill.p), port.valid.eq(self.fill.valid)]
        m.d.comb += self.fill.ready.eq(accumulators.fill.ready)
        for name in own:
            wiring.connect(m, getattr(unit, name), getattr(accumulators, name))
        for name in _OTHERS[self.opcode]:
            if name == "gemm_hold":
                m.d.comb += self.gemm_hold.eq(accumulators.gemm_hold)
            elif name in _ALU_FLAGS:
                _connect_flag(m, getattr(self, name), getattr(accumulators, name), name)
            else:
                wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(accumulators, name))
        for name in unit_ports(variant, self.opcode):
            if name in ("work", "activity"):
                m.d.comb += getattr(self, name).eq(getattr(unit, name))
            else:
                wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(unit, name))
        return m


def _connect_flag(m: Module, alu: Signal, accumulators: Signal, name: str) -> None:
    """Wire one of the ALU's flags by its direction."""
    closed = name.endswith("closed")
    m.d.comb += alu.eq(accumulators) if closed else accumulators.eq(alu)


def acc_bank(variant: Variant, row: int) -> int:
    """Bank of an accumulator row: {top row bit, low row bits}, as the design fixes it."""
    low = variant.memory.acc_banks.bit_length() - 2
    top = scratchpad(variant, Memory.ACC).index_bits - 1
    return (row >> top) << low | row & ((1 << low) - 1)


async def alu_turn(ctx, dut, port: str, bank: int) -> None:
    """Do what stands at one of the ALU's ports, for `bank`, in the first cycle that it may."""
    number = _ALU_PORTS.index(port)
    closed = dut.write_closed if port == "alu_write" else dut.read_closed
    wants = dut.alu_wants[number : number + 1]
    ctx.set(wants, ~0)
    while True:
        _, _, shut = await ctx.tick().sample(closed)
        if not shut >> bank & 1:
            break
        ctx.set(dut.alu_waits[number], 1)
    ctx.set(dut.alu_waits[number], 0)
    ctx.set(getattr(dut, port).valid, 1)
    await ctx.tick()
    ctx.set(getattr(dut, port).valid, 0)
    ctx.set(wants, 0)


def random_state(variant: Variant, rng: np.random.Generator) -> State:
    """All scratchpads but the micro-ops full of random values, extremes among them."""
    state = State(variant)

    def values(shape: tuple[int, ...], bits: int) -> np.ndarray:
        low, high = integer_range(bits)
        drawn = rng.integers(low, high, shape, endpoint=True)
        drawn >>= rng.integers(0, bits, shape)
        extreme = rng.choice([low, high, 0, -1], shape)
        return np.where(rng.random(shape) < 0.1, extreme, drawn)

    array = variant.array
    state.inp[:] = values(state.inp.shape, array.input_bits)
    state.wgt[:] = values(state.wgt.shape, array.weight_bits)
    state.acc[:] = values(state.acc.shape, array.accumulator_bits)
    state.out[:] = values(state.out.shape, array.output_bits)
    shape = state.par.bias.shape
    state.par.bias[:] = values(shape, array.accumulator_bits)
    state.par.multiplier[:] = rng.integers(0, 1 << variant.units.multiplier_bits, shape)
    state.par.shift[:] = rng.integers(0, 64, shape)
    state.tab[:] = values(state.tab.shape, TABLE_ENTRY_BITS)
    return state


def _row_bytes(state: State, target: LoadMemory, row: int) -> bytes:
    variant = state.variant
    if target in (LoadMemory.UOP_GEMM, LoadMemory.UOP_ALU):
        unit = Unit.GEMM if target is LoadMemory.UOP_GEMM else Unit.ALU
        per_row = scratchpad(variant, target.memory).elements
        return state.uops[unit][row * per_row : (row + 1) * per_row].tobytes()
    pad = scratchpad(variant, target.memory)
    if target is LoadMemory.PAR:
        acc_bits, m_bits = variant.array.accumulator_bits, variant.units.multiplier_bits
        result = b""
        for bias, multiplier, shift in zip(
            state.par.bias[row], state.par.multiplier[row], state.par.shift[row], strict=True
        ):
            entry = int(bias) & ((1 << acc_bits) - 1)
            entry |= int(multiplier) << acc_bits | int(shift) << (acc_bits + m_bits)
            result += entry.to_bytes(pad.memory_bits // 8, "little")
        return result
    array = getattr(state, target.memory.value)
    bits = variant.array.input_bits if target is LoadMemory.ACC_NARROW else pad.memory_bits
    return to_memory(array[row].reshape(1, -1), bits).tobytes()


def fill_words(state: State, target: LoadMemory, rows: Iterable[int]) -> list[dict[str, int]]:
    """Fill payloads that bring `rows` of a scratchpad to what `state` holds."""
    size = state.variant.bus_bytes
    words = []
    for row in rows:
        raw = _row_bytes(state, target, row)
        for beat in range(len(raw) // size):
            value = int.from_bytes(raw[beat * size : (beat + 1) * size], "little")
            word = {"memory": int(target), "row": row, "beat": beat, "pad": 0, "data": value}
            words.append(word | {"into_acc": int(target.memory is Memory.ACC)})
    return words


def packed_row(state: State, memory: Memory, row: int) -> int:
    """A row of ACC or OUT as the hardware holds it."""
    bits = scratchpad(state.variant, memory).element_bits
    packed = 0
    for number, value in enumerate(getattr(state, memory.value)[row].reshape(-1).tolist()):
        packed |= (value & ((1 << bits) - 1)) << (number * bits)
    return packed


def issue_word(variant: Variant, instruction: Instruction, index: int) -> int:
    """The payload of an issue stream as one integer."""
    word = int.from_bytes(encode(variant, instruction), "little")
    return word | index << instruction_bits(variant)


def simulate(top: Elaboratable | Simulator, *processes: Callable, cycles: int = 20_000) -> None:
    """Run coroutines until the ones that are no background are done; fail after `cycles`.

    `top` is a design, or a simulator of one with a clock (`shared_designs`).
    """
    if isinstance(top, Simulator):
        simulator = top
    else:
        simulator = Simulator(top)
        simulator.add_clock(1e-6)
    left = len(processes)

    def wrap(process: Callable) -> Callable:
        async def run(ctx) -> None:
            nonlocal left
            await process(ctx)
            left -= 1

        return run

    for process in processes:
        simulator.add_testbench(wrap(process), background=True)

    async def watch(ctx) -> None:
        for _ in range(cycles):
            if left == 0:
                return
            await ctx.tick()
        raise AssertionError(f"{left} processes still run after {cycles} cycles")

    simulator.add_testbench(watch)
    simulator.run()
