"""Run by tests/isa/test_alu_operations.py in a source tree to which operation REDUCE was added.

Argument: a folder for simulator builds, or ``-`` where no simulator is to be built. Prints a line
per level at which the operation was found to work.
"""

import sys
from pathlib import Path

import numpy as np
from amaranth.sim import Simulator

from bench.correctness.rtl_launches import expected_memories, placed
from daedal.hw.alu.alu_lanes import AluLanes
from daedal.isa.assembly import assemble, disassemble
from daedal.isa.docs import isa_page
from daedal.isa.instruction import Instruction, decode, encode
from daedal.isa.memory_model import memory_model
from daedal.isa.numerics import integer_range, wrap
from daedal.isa.random_programs import random_program
from daedal.isa.semantics import State, execute
from daedal.isa.table import AluOp, Opcode, OutMemory
from daedal.isa.variant import load_variant
from daedal.sim.rtl.device import RtlDevice

TINY = load_variant("tiny")
LINE = "ALU operation=REDUCE destination=ACC uop_end=1 extent0=1 extent1=1 extent2=1"


def operands(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Values of every magnitude, extremes among them."""
    low, high = integer_range(32)
    values = rng.integers(low, high, shape, endpoint=True) >> rng.integers(0, 32, shape)
    return np.where(rng.random(shape) < 0.2, rng.choice([low, high, 0, -1], shape), values)


def reduced(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """What REDUCE is to be."""
    return wrap(np.where(x < y, x, x - y), 32)


def check_isa() -> None:
    """Documentation, assembler, encoding and the functional simulator."""
    assert f"| REDUCE | {int(AluOp['REDUCE'])} | x minus y, or x if x is smaller |" in isa_page(
        TINY
    )
    print("documentation")
    (instruction,) = assemble(LINE)
    assert "operation=REDUCE" in disassemble([instruction])
    assert decode(TINY, encode(TINY, instruction)) == instruction
    print("assembler")
    state = State(TINY)
    state.acc[:2] = operands(np.random.default_rng(1), state.acc[:2].shape)
    (x, y) = state.acc[:2].copy()
    # Micro-op 0 is all zeros, so the bases alone name the rows.
    nothing = np.zeros(0, np.uint8)
    execute(state, instruction.replace(dst_base=0, src_base=1), nothing, [0] * 4, [0] * 4)
    np.testing.assert_array_equal(state.acc[0], reduced(x, y))
    print("functional")


def check_lanes() -> None:
    """The gateware of the lanes, a group per cycle."""
    rng = np.random.default_rng(2)
    lanes = AluLanes(variant=TINY)
    count = TINY.units.alu_lanes
    x, y = operands(rng, (200, count)), operands(rng, (200, count))
    results = []

    def packed(row: np.ndarray) -> int:
        return sum((int(value) & 0xFFFFFFFF) << 32 * k for k, value in enumerate(row))

    async def drive(ctx) -> None:
        # The operation comes a cycle before its operands.
        ctx.set(lanes.operation, AluOp["REDUCE"])
        await ctx.tick()
        for cycle in range(200 + lanes.latency()):
            if cycle >= lanes.latency():
                word = ctx.get(lanes.result)
                results.append([word >> 32 * k & 0xFFFFFFFF for k in range(count)])
            ctx.set(lanes.x, packed(x[min(cycle, 199)]))
            ctx.set(lanes.y, packed(y[min(cycle, 199)]))
            await ctx.tick()

    simulator = Simulator(lanes)
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.run()
    np.testing.assert_array_equal(wrap(np.array(results), 32), reduced(x, y))
    print("gateware")


def check_rtl(cache_dir: Path) -> None:
    """Random programs in which the operation occurs, on the emitted Verilog."""

    def uses(instruction: Instruction) -> bool:
        return (
            instruction.opcode is Opcode.ALU and instruction.operation == AluOp["REDUCE"]
        ) and instruction.destination == OutMemory.ACC

    cases = [random_program(TINY, seed, length=40) for seed in range(30)]
    cases = [c for c in cases if any(uses(item) for item in c.program.instructions)][:2]
    assert len(cases) == 2
    launches = [placed(case, memory_model("jitter", case.seed)) for case in cases]
    device = RtlDevice(TINY, simulator="icarus", cache_dir=cache_dir, assertions=True)
    outcomes = device.launch_each(launches)
    for outcome, expected in zip(outcomes, expected_memories(launches), strict=True):
        outcome.check()
        assert outcome.memory == expected
    print("rtl")


if __name__ == "__main__":
    check_isa()
    check_lanes()
    if sys.argv[1] != "-":
        check_rtl(Path(sys.argv[1]))
