"""ALU with real accumulators against `isa.semantics`: operations, hazards, rates, errors."""

import numpy as np
import pytest

from daedal.hw.interfaces import Activity
from daedal.isa.instruction import Instruction
from daedal.isa.latencies import ACC_READ_CYCLES
from daedal.isa.microcode import encode_uops
from daedal.isa.registers import ErrorCode
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.semantics import State, execute
from daedal.isa.table import AluOp, LoadMemory, Opcode, OutMemory, Unit, instruction_layout
from daedal.isa.variant import Variant, load_variant
from tests.hw.compute_bench import (
    ComputeSide,
    fill_words,
    issue_word,
    packed_row,
    random_state,
    simulate,
)
from tests.hw.shared_designs import shared_design

TINY = load_variant("tiny")
VARIANTS = {
    "tiny": TINY,
    "full_rate": TINY.replace(alu_lanes=8, requantize_lanes=8, acc_banks=2, multiplier_bits=24),
    "wide_bus": TINY.replace(
        batch=2, block_in=8, data_bits=128, acc_banks=8, accumulator_bits=48, alu_lanes=4,
        requantize_lanes=16, inp_bytes=8192, acc_bytes=16384,
    ),
    "tables": TINY.replace(alu_lanes=2, requantize_lanes=4, tables=4),
    # A batch row is a group, part of a group, or several groups.
    "reductions": TINY.replace(
        batch=2, alu_lanes=8, requantize_lanes=4, acc_bytes=16384, lane_reductions=True,
        wide_requantize=True,
    ),
    "two_rows": TINY.replace(
        batch=2, alu_lanes=16, requantize_lanes=16, acc_bytes=16384, lane_reductions=True,
        wide_requantize=True, tables=2,
    ),
    "parts_of_rows": TINY.replace(
        batch=2, alu_lanes=2, requantize_lanes=2, acc_bytes=16384, lane_reductions=True,
    ),
    "one_table": TINY.replace(
        batch=2, data_bits=128, accumulator_bits=48, requantize_lanes=8, tables=1, acc_bytes=16384
    ),
}  # fmt: skip
OUT_ROWS = range(12)
PAR_ROWS = range(3)


def banked_rows(variant: Variant) -> list[int]:
    """A few accumulator rows at the edges of every bank."""
    depth = scratchpad(variant, Memory.ACC).depth_rows
    return [*range(10), *range(depth // 2, depth // 2 + 8), depth - 2, depth - 1]


class Bench:
    """Fill, issue instructions with gaps, take retirements and errors, read rows back."""

    def __init__(self, variant: Variant, state: State, gaps: float = 0.0, traffic: float = 0.0):
        self.variant = variant
        self.rng = np.random.default_rng(5)
        self.gaps = gaps
        self.traffic = traffic
        self.top, self.simulator = shared_design(ComputeSide, variant=variant, opcode=Opcode.ALU)
        self.acc_rows = banked_rows(variant)
        self.words = [
            *fill_words(state, LoadMemory.UOP_ALU, range(scratchpad_rows(variant, state))),
            *fill_words(state, LoadMemory.PAR, PAR_ROWS),
            *fill_words(state, LoadMemory.ACC, self.acc_rows),
            *fill_words(state, LoadMemory.TAB, range(len(state.tab))),
        ]
        self.filled = self.stopped = False
        self.retired: list[int] = []
        self.errors: list[tuple[int, int]] = []
        self.activity: list[Activity] = []
        self.vectors = 0
        self.acc: dict[int, int] = {}
        self.out: dict[int, int] = {}

    def run(self, program: list[int]) -> None:
        dut, rng = self.top, self.rng

        async def fill(ctx) -> None:
            for word in self.words:
                ctx.set(dut.fill.p, word)
                ctx.set(dut.fill.valid, 1)
                await ctx.tick().until(dut.fill.ready)
            ctx.set(dut.fill.valid, 0)
            self.filled = True

        async def issue(ctx) -> None:
            while not self.filled:
                await ctx.tick()
            for word in program:
                while rng.random() < self.gaps:
                    await ctx.tick()
                ctx.set(dut.issue.p.as_value(), word)
                ctx.set(dut.issue.valid, 1)
                await ctx.tick().until(dut.issue.ready)
                ctx.set(dut.issue.valid, 0)

        async def watch(ctx) -> None:
            while len(self.retired) < len(program):
                self.activity.append(ctx.get(dut.activity))
                self.vectors += ctx.get(dut.work)
                if ctx.get(dut.retire.valid):
                    self.retired.append(ctx.get(dut.retire.payload.index))
                if ctx.get(dut.error.valid):
                    self.errors.append((ctx.get(dut.error.code), ctx.get(dut.error.index)))
                if len(self.retired) < len(program):
                    await ctx.tick()
            self.stopped = True
            # From the very cycle of the retirement on the rows are there.
            for row in reversed(OUT_ROWS):
                ctx.set(dut.out_read.row, row)
                ctx.set(dut.out_read.enable, 1)
                await ctx.tick()
                ctx.set(dut.out_read.enable, 0)
                await ctx.tick().repeat(ACC_READ_CYCLES - 1)
                self.out[row] = ctx.get(dut.out_read.data)
            for row in self.acc_rows:
                ctx.set(dut.store_read.p, row)
                ctx.set(dut.store_read.valid, 1)
                await ctx.tick().until(dut.store_read.ready)
                ctx.set(dut.store_read.valid, 0)
                value = await ctx.tick().sample(dut.store_data.data).until(dut.store_data.valid)
                self.acc[row] = value[-1]

        async def disturb(ctx) -> None:
            """GEMM takes read and write ports of random banks, as long as it is not held."""
            spare = self.acc_rows[-1]
            while not self.stopped:
                busy = self.filled and rng.random() < self.traffic
                row = int(rng.choice(self.acc_rows))
                held = ctx.get(dut.gemm_hold) != 0
                ctx.set(dut.gemm_read.row, row)
                ctx.set(dut.gemm_read.enable, busy and not held)
                # The spare row belongs to GEMM alone: zeros, as the model has them.
                ctx.set(dut.gemm_write.row, spare)
                ctx.set(dut.gemm_write.enable, busy and not held)
                await ctx.tick()
            ctx.set(dut.gemm_read.enable, 0)
            ctx.set(dut.gemm_write.enable, 0)

        simulate(self.simulator, fill, issue, watch, disturb)


def scratchpad_rows(variant: Variant, state: State) -> int:
    """Rows of the micro-op memory that are in use."""
    per_row = scratchpad(variant, Memory.UOP_ALU).elements
    return int(np.flatnonzero(state.uops[Unit.ALU]).max()) // per_row + 1


def alu_uops(variant: Variant, dst: list[int], src: list[int], par: list[int]):
    return encode_uops(variant, Unit.ALU, {"dst": dst, "src": src, "par": par})


def _of_options(variant: Variant, operation: AluOp, rng: np.random.Generator) -> dict[str, int]:
    """The fields of LOOKUP and REQUANTIZE, of which other operations make nothing."""
    tables = variant.memory.tables if operation is AluOp.LOOKUP else 0
    wide = operation.requantizes and variant.units.wide_requantize
    return {
        **({"table": int(rng.integers(tables))} if tables else {}),
        **({"wide": int(rng.integers(2))} if wide else {}),
    }


def random_program(
    variant: Variant, state: State, rng: np.random.Generator, *, short: bool = False
) -> list[Instruction]:
    """Every operation in every form over hazards at every distance from 0 to 12.

    A short one has one form of each operation, and the hazards for one operation.
    """
    rows = banked_rows(variant)[:-1]
    acc_dst, acc_src = [], []
    for distance in range(13):
        # The row written first is read `distance` later, with others between.
        others = rng.choice(rows, distance + 1).tolist()
        acc_dst += [others[0], *others[1:]]
        acc_src += [int(rng.choice(rows)), *rng.choice(rows, distance).tolist()]
        acc_dst.append(int(rng.choice(rows)))
        acc_src.append(others[0])
    count = len(acc_dst)
    par = rng.integers(0, len(PAR_ROWS), count).tolist()
    out_dst = rng.integers(0, len(OUT_ROWS) - 2, count).tolist()
    table = state.uops[Unit.ALU]
    table[:count] = alu_uops(variant, acc_dst, acc_src, par)
    table[count : 2 * count] = alu_uops(variant, out_dst, acc_src, par)
    program = []
    for operation in AluOp.of(variant):
        forms = [
            (destination, immediate)
            for destination in OutMemory
            for immediate in (0, 1)
            if not (operation.requantizes and immediate)
        ]
        for destination, immediate in [forms[operation % len(forms)]] if short else forms:
            shifts = operation in (AluOp.SHL, AluOp.SHR, AluOp.SHR_EVEN)
            span = 40 if shifts else 1 << 17
            low, high = sorted(rng.integers(-128, 128, 2).tolist())
            begin = int(rng.integers(0, count - 6))
            offset = 0 if destination is OutMemory.ACC else count
            extents = (1, 1, 1) if rng.random() < 0.8 else rng.integers(0, 3, 3).tolist()
            program.append(
                Instruction.of(
                    Opcode.ALU, operation=operation, destination=destination,
                    use_immediate=immediate, immediate=int(rng.integers(-span, span)),
                    saturate=int(rng.integers(2)), low=low, high=high,
                    uop_begin=offset + begin, uop_end=offset + begin + 6,
                    tag=len(program), push=2, **_of_options(variant, operation, rng),
                    **{f"extent{k}": int(n) for k, n in enumerate(extents)},
                )
            )  # fmt: skip
    # The whole list of hazards for an operation with one row and for two with both; sums, which
    # forget nothing, come last.
    requantizing = [operation for operation in AluOp.of(variant) if operation.requantizes]
    reducing = [operation for operation in AluOp.of(variant) if operation.over_lanes]
    hazardous = [*requantizing, *reducing, AluOp.SUB, AluOp.ADD]
    for operation in hazardous[-1:] if short else hazardous:
        program.append(
            Instruction.of(
                Opcode.ALU, operation=operation, destination=OutMemory.ACC, uop_end=count,
                extent0=1, extent1=1, extent2=1, low=-100, high=110, immediate=-5,
            )
        )  # fmt: skip
    return program


@pytest.mark.parametrize(
    ("name", "gaps", "traffic"),
    [
        ("full_rate", 0.0, 0.0),
        ("tiny", 0.3, 0.8),
        ("wide_bus", 0.3, 0.8),
        ("tables", 0.0, 0.8),
        ("one_table", 0.3, 0.0),
        ("reductions", 0.0, 0.8),
        ("two_rows", 0.3, 0.0),
        ("parts_of_rows", 0.0, 0.8),
        pytest.param("full_rate", 0.3, 0.8, marks=pytest.mark.slow),
        *(pytest.param(name, 0.0, 0.0, marks=pytest.mark.slow) for name in ("tiny", "wide_bus")),
    ],
)
def test_every_operation(name: str, gaps: float, traffic: float) -> None:
    """All operations and destinations, hazards at every distance, with and without contention."""
    compare_with_semantics(name, gaps, traffic)


@pytest.mark.heavy(8)
def test_a_form_of_every_operation() -> None:
    compare_with_semantics("tiny", 0.3, 0.8, short=True)


def compare_with_semantics(name: str, gaps: float, traffic: float, *, short: bool = False) -> None:
    """Random instructions leave what `execute` leaves."""
    variant = VARIANTS[name]
    rng = np.random.default_rng(11)
    state = random_state(variant, rng)
    state.acc[banked_rows(variant)[-1]] = 0
    program = random_program(variant, state, rng, short=short)
    bench = Bench(variant, state, gaps, traffic)
    # Nothing but the ALU writes OUT, and it starts with zeros.
    state.out[:] = 0
    for instruction in program:
        execute(state, instruction, np.zeros(0, dtype=np.uint8), [0] * 4, [0] * 4)
    bench.run([issue_word(variant, item, k) for k, item in enumerate(program)])
    assert bench.errors == []
    assert bench.retired == list(range(len(program)))
    for row in bench.acc_rows:
        assert bench.acc[row] == packed_row(state, Memory.ACC, row), f"accumulator row {row}"
    for row in OUT_ROWS:
        assert bench.out[row] == packed_row(state, Memory.OUT, row), f"output row {row}"


@pytest.mark.parametrize(
    ("fields", "dst", "src", "cycles_per_vector"),
    [
        ({"operation": AluOp.MAX, "use_immediate": 1}, [0, 1, 2, 3], [4, 5, 6, 7], 1),
        ({"operation": AluOp.ADD}, [0, 2, 4, 6], [1, 3, 5, 7], 1),
        ({"operation": AluOp.ADD}, [0, 2, 4, 6], [128, 130, 132, 134], 1),
        ({"operation": AluOp.ADD}, [0, 1, 2, 3], [4, 5, 6, 7], 2),
        ({"operation": AluOp.REQUANTIZE, "destination": OutMemory.OUT}, [0, 1], [1, 0], 2),
        (
            {"operation": AluOp.LOOKUP, "destination": OutMemory.OUT, "table": 1},
            *([0, 1], [1, 0], 2),
        ),
        ({"operation": AluOp.SUM_LANES}, [0, 1, 2, 3], [4, 5, 6, 7], 1),
        ({"operation": AluOp.MAX_LANES, "alu_lanes": 4}, [0, 1, 2, 3], [4, 5, 6, 7], 2),
        (
            {"operation": AluOp.REQUANTIZE, "destination": OutMemory.ACC, "wide": 1},
            *([0, 1], [4, 5], 2),
        ),
    ],
)
def test_rates(fields: dict, dst: list[int], src: list[int], cycles_per_vector: int) -> None:
    """One vector per cycle, two where both rows lie in one bank; REQUANTIZE at its lanes' rate."""
    operation = fields["operation"]
    lanes = fields.get("alu_lanes", 8)
    variant = TINY.replace(
        alu_lanes=lanes, requantize_lanes=4, tables=2 if operation is AluOp.LOOKUP else 0,
        lane_reductions=operation.over_lanes, wide_requantize="wide" in fields,
    )  # fmt: skip
    fields = {name: value for name, value in fields.items() if name != "alu_lanes"}
    state = random_state(variant, np.random.default_rng(3))
    state.uops[Unit.ALU][: len(dst)] = alu_uops(variant, dst, src, [1] * len(dst))
    bench = Bench(variant, state)
    instruction = Instruction.of(
        Opcode.ALU, uop_end=len(dst), extent0=1, extent1=1, extent2=1,
        **{"destination": OutMemory.ACC, **fields},
    )  # fmt: skip
    program = [instruction] * (6 if operation.requantizes else 1)
    bench.run([issue_word(variant, item, k) for k, item in enumerate(program)])
    vectors = len(dst) * len(program)
    assert bench.vectors == vectors
    busy = [k for k, kind in enumerate(bench.activity) if kind is Activity.BUSY]
    spread = busy[-1] - busy[0] + 1
    groups = 8 // (4 if operation.requantizes else lanes)
    assert len(busy) == vectors * groups
    assert spread == cycles_per_vector * vectors - (cycles_per_vector - groups)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"dst_base": 255, "dst_factor2": 1, "extent2": 2}, ErrorCode.ROW_RANGE),
        ({"src_base": 200, "src_factor2": 100, "extent2": 2}, ErrorCode.ROW_RANGE),
        ({"par_base": 15, "par_factor1": 1, "extent1": 2}, ErrorCode.ROW_RANGE),
        ({"uop_begin": 256 - 4, "uop_end": 257}, ErrorCode.ROW_RANGE),
        ({"operation": 17}, ErrorCode.ILLEGAL_INSTRUCTION),
        # Only machines with tables have it.
        ({"operation": AluOp.LOOKUP}, ErrorCode.ILLEGAL_INSTRUCTION),
        ({"operation": AluOp.SUM_LANES}, ErrorCode.ILLEGAL_INSTRUCTION),
    ],
)
def test_errors_name_the_instruction(fields: dict[str, int], code: ErrorCode) -> None:
    """A row outside its scratchpad or an unknown operation is reported with its instruction."""
    state = random_state(TINY, np.random.default_rng(2))
    state.uops[Unit.ALU][0] = alu_uops(TINY, [1], [1], [1])[0]
    good = Instruction.of(
        Opcode.ALU, uop_end=1, extent0=1, extent1=1, extent2=1, destination=OutMemory.ACC
    )
    legal = {key: value for key, value in fields.items() if key != "operation"}
    words = [
        issue_word(TINY, item, k) for k, item in enumerate((good, good.replace(**legal), good))
    ]
    # The encoder refuses an unknown operation.
    offset = instruction_layout(TINY, Opcode.ALU)["operation"].offset
    words[1] |= fields.get("operation", 0) << offset
    bench = Bench(TINY, state)
    bench.run(words)
    assert set(bench.errors) == {(int(code), 1)}
    assert bench.retired == [0, 1, 2]
