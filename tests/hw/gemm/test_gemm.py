"""GEMM with real accumulators against `isa.semantics`: hazards, holds, errors, throughput."""

import numpy as np
import pytest

from daedal.hw.interfaces import Activity
from daedal.isa.instruction import Instruction
from daedal.isa.microcode import encode_uops
from daedal.isa.registers import ErrorCode
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.semantics import State, execute
from daedal.isa.table import GemmMode, LoadMemory, Opcode, Unit, instruction_layout
from daedal.isa.variant import Variant, load_variant
from tests.hw.compute_bench import (
    ComputeSide,
    acc_bank,
    alu_turn,
    fill_words,
    issue_word,
    packed_row,
    random_state,
    simulate,
)
from tests.hw.shared_designs import shared_design

TINY = load_variant("tiny")
# Micro-ops for the hazards of four modes.
BASE = TINY.replace(gemm_uop_bytes=4096)
_RESULTS = BASE.replace(batch=2, multiplier_style="packed", acc_bytes=16384, gemm_reads_out=True)
# 256 rows of INP, and fewer or more of OUT: row numbers have 8 or 9 bits.
RESULTS = {
    "few_results": _RESULTS.replace(out_bytes=2048),
    "many_results": _RESULTS.replace(out_bytes=8192),
}
VARIANTS = {
    "tiny": BASE,
    "packed": BASE.replace(multiplier_style="packed"),
    "lut": BASE.replace(multiplier_style="lut"),
    "broad": BASE.replace(block_out=16, depthwise_taps=0, acc_banks=2, data_bits=64),
    "broad_packed": BASE.replace(
        block_out=16, depthwise_taps=0, acc_banks=2, multiplier_style="packed"
    ),
    "wide_bus": BASE.replace(
        block_in=16, block_out=16, data_bits=128, acc_banks=8, wgt_bytes=4096,
        accumulator_bits=48, acc_bytes=4096,
    ),
    "one_tap": BASE.replace(depthwise_taps=1),
    "pairs_packed": BASE.replace(
        batch=2, multiplier_style="packed", acc_bytes=16384, out_bytes=4096
    ),
    "dsp16": BASE.replace(
        input_bits=16, weight_bits=16, output_bits=16, accumulator_bits=48, acc_bytes=16384
    ),
    "lut4": BASE.replace(input_bits=4, weight_bits=4, output_bits=4, block_in=16, block_out=16,
        multiplier_style="lut"),
    **RESULTS,
    "smallest": BASE.replace(block_in=4, block_out=4, batch=2, inp_bytes=32, requantize_lanes=2),
}  # fmt: skip
ROWS = 6


def banked_rows(variant: Variant) -> list[int]:
    """A few accumulator rows at the edges of every bank, no more than 24."""
    depth = scratchpad(variant, Memory.ACC).depth_rows
    return [*range(10), depth // 2 - 1, *range(depth // 2, depth // 2 + 8), depth - 2, depth - 1]


class Bench:
    """Fill, issue instructions with gaps, take retirements and errors, read rows back."""

    def __init__(self, variant: Variant, state: State, seed: int, gaps: float, traffic: float):
        self.variant = variant
        self.state = state
        self.rng = np.random.default_rng(seed)
        self.gaps = gaps
        self.traffic = traffic
        self.top, self.simulator = shared_design(ComputeSide, variant=variant, opcode=Opcode.GEMM)
        self.filled = self.stopped = False
        self.retired: list[tuple[int, int, int]] = []
        self.errors: list[tuple[int, int]] = []
        self.activity: list[Activity] = []
        self.rows: dict[int, list[int]] = {}

    def words(self, acc_rows: list[int]) -> list[dict[str, int]]:
        state = self.state
        per_row = scratchpad(self.variant, Memory.UOP_GEMM).elements
        used = int(np.flatnonzero(state.uops[Unit.GEMM]).max()) // per_row + 1
        return [
            *fill_words(state, LoadMemory.UOP_GEMM, range(used)),
            *fill_words(state, LoadMemory.INP, range(min(ROWS, len(state.inp)))),
            *fill_words(state, LoadMemory.WGT, range(ROWS)),
            *fill_words(state, LoadMemory.ACC, acc_rows),
        ]

    def results(self) -> dict[int, int]:
        """Rows of OUT by number, if GEMM multiplies them."""
        if not self.top.writes_out:
            return {}
        rows = range(min(ROWS, len(self.state.out)))
        return {row: packed_row(self.state, Memory.OUT, row) for row in rows}

    def run(self, program: list[int], acc_rows: list[int]) -> None:
        words, results = self.words(acc_rows), self.results()
        dut, rng = self.top, self.rng

        async def fill(ctx) -> None:
            for row, value in results.items():
                ctx.set(dut.out_write.row, row)
                ctx.set(dut.out_write.data, value)
                ctx.set(dut.out_write.mask, ~0)
                ctx.set(dut.out_write.enable, 1)
                await ctx.tick()
                ctx.set(dut.out_write.enable, 0)
            for word in words:
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
                assert ctx.get(dut.work) == (self.activity[-1] is Activity.BUSY)
                if ctx.get(dut.retire.valid):
                    payload = ctx.get(dut.retire.payload)
                    self.retired.append((payload.index, payload.push, payload.tag))
                if ctx.get(dut.error.valid):
                    self.errors.append((ctx.get(dut.error.code), ctx.get(dut.error.index)))
                if len(self.retired) < len(program):
                    await ctx.tick()
            self.stopped = True
            # From the very cycle of the retirement on the rows are there.
            for row in acc_rows:
                ctx.set(dut.store_read.p, row)
                ctx.set(dut.store_read.valid, 1)
                await ctx.tick().until(dut.store_read.ready)
                ctx.set(dut.store_read.valid, 0)
                value = await ctx.tick().sample(dut.store_data.data).until(dut.store_data.valid)
                self.rows[row] = value[-1]

        async def disturb(ctx) -> None:
            """Reads of any row and rewrites of the last row make the accumulators hold GEMM."""
            last = scratchpad(self.variant, Memory.ACC).depth_rows - 1
            while not self.filled:
                await ctx.tick()
            while not self.stopped:
                await ctx.tick()
                if rng.random() < self.traffic:
                    row = int(rng.choice(acc_rows))
                    ctx.set(dut.alu_read.payload, row)
                    await alu_turn(ctx, dut, "alu_read", acc_bank(self.variant, row))
                if rng.random() < self.traffic:
                    ctx.set(dut.alu_write.payload, {"row": last, "mask": 0, "data": 0})
                    await alu_turn(ctx, dut, "alu_write", acc_bank(self.variant, last))

        simulate(self.simulator, fill, issue, watch, disturb)

    def check(self, acc_rows: list[int]) -> None:
        for row in acc_rows:
            expected = packed_row(self.state, Memory.ACC, row)
            assert self.rows[row] == expected, f"accumulator row {row}"


def gemm_uops(variant: Variant, rng: np.random.Generator, acc: list[int], mode: GemmMode):
    wgt = rng.integers(0, ROWS, len(acc))
    further = max(0, mode.taps - 1)
    if mode.taps:
        vectors = variant.array.block_out
        wgt = wgt * vectors + rng.integers(0, vectors - further, len(acc))
    rows = min(ROWS, scratchpad(variant, mode.operand).depth_rows)
    return encode_uops(
        variant,
        Unit.GEMM,
        {
            "acc": acc,
            "inp": rng.integers(0, rows - further, len(acc)),
            "wgt": wgt,
            "first": rng.random(len(acc)) < 0.2,
        },
    )


def hazard_rows(acc_rows: list[int], rng: np.random.Generator, farthest: int) -> list[int]:
    """Rows in which every distance from 1 to `farthest` between equal ones occurs."""
    result = []
    for distance in range(1, farthest + 1):
        period = rng.choice(acc_rows, distance, replace=False).tolist()
        result += (period * 3)[: distance + 2]
    return result


QUICK = {"tiny": [pytest.mark.heavy(3)], "broad_packed": [pytest.mark.heavy(3)]}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=QUICK.get(n, pytest.mark.slow)) for n in VARIANTS]
)
@pytest.mark.parametrize(
    ("gaps", "traffic", "farthest"),
    [
        (0.5, 0.7, 6),
        *(pytest.param(*rates, 12, marks=pytest.mark.slow) for rates in ((0.0, 0.0), (0.5, 0.7))),
    ],
)
def test_any_order_of_rows(name: str, gaps: float, traffic: float, farthest: int) -> None:
    """Hazards at every distance, overwrites, three loops, all modes, with and without holds."""
    variant = VARIANTS[name]
    rng = np.random.default_rng(7)
    state = random_state(variant, rng)
    acc_rows = banked_rows(variant)
    program, begin = [], 0
    for number, mode in enumerate(GemmMode.of(variant)):
        words = gemm_uops(variant, rng, hazard_rows(acc_rows, rng, farthest), mode)
        state.uops[Unit.GEMM][begin : begin + len(words)] = words
        end = begin + len(words)
        for overwrite in (0, 1) if farthest > 6 else (number % 2,):
            program.append(
                Instruction.of(
                    Opcode.GEMM, mode=mode, overwrite=overwrite, uop_begin=begin, uop_end=end,
                    extent0=1, extent1=1, extent2=1, tag=len(program), push=1,
                )
            )  # fmt: skip
        begin = end
    words = gemm_uops(variant, rng, [0, 1, 0], GemmMode.DENSE)
    state.uops[Unit.GEMM][begin : begin + 3] = words
    dense = [mode for mode in GemmMode.of(variant) if not mode.taps]
    for number in range(6):
        extents = rng.integers(0, 4, 3)
        program.append(
            Instruction.of(
                Opcode.GEMM, mode=dense[number % len(dense)],
                overwrite=int(rng.integers(2)), uop_begin=begin,
                uop_end=begin + int(rng.integers(4)),
                **{f"extent{k}": int(n) for k, n in enumerate(extents)},
                acc_base=int(rng.integers(2)),
                acc_factor0=int(rng.integers(2)), acc_factor1=int(rng.integers(3)),
                acc_factor2=int(rng.integers(2)), inp_factor1=0, tag=len(program), push=4,
            )
        )  # fmt: skip
    bench = Bench(variant, state, 3, gaps, traffic)
    # The model runs on what the hardware was filled with.
    words_before = bench.words(acc_rows)
    bench.words = lambda rows: words_before
    for instruction in program:
        execute(state, instruction, np.zeros(0, dtype=np.uint8), [0] * 4, [0] * 4)
    bench.run([issue_word(variant, item, k) for k, item in enumerate(program)], acc_rows)
    bench.check(acc_rows)
    assert [index for index, _, _ in bench.retired] == list(range(len(program)))
    assert [tag for _, _, tag in bench.retired] == list(range(len(program)))
    assert bench.errors == []


def test_no_bubble() -> None:
    """One product per cycle within and across instructions, one row back to back."""
    rng = np.random.default_rng(1)
    state = random_state(TINY, rng)
    state.uops[Unit.GEMM][:1] = gemm_uops(TINY, rng, [3], GemmMode.DENSE)
    program = [
        Instruction.of(
            Opcode.GEMM, uop_end=1, extent0=1, extent1=1, extent2=(5 if k % 2 else 1), tag=k
        )
        for k in range(20)
    ]
    bench = Bench(TINY, state, 1, 0.0, 0.0)
    words = bench.words([3])
    bench.words = lambda rows: words
    for instruction in program:
        execute(state, instruction, np.zeros(0, dtype=np.uint8), [0] * 4, [0] * 4)
    bench.run([issue_word(TINY, item, k) for k, item in enumerate(program)], [3])
    bench.check([3])
    busy = [k for k, kind in enumerate(bench.activity) if kind is Activity.BUSY]
    assert len(busy) == 60
    assert busy[-1] - busy[0] == 59


def errors_of(variant: Variant, mode: int, *cases: dict[str, int]) -> set[tuple[int, int]]:
    """What is reported for the products between two legal ones: (code, index of the instruction).

    Each of `cases` has the fields of a product in `mode`.
    """
    state = random_state(variant, np.random.default_rng(2))
    row_zero = {"acc": [0], "inp": [0], "wgt": [0], "first": [1]}
    state.uops[Unit.GEMM][:1] = encode_uops(variant, Unit.GEMM, row_zero)
    good = Instruction.of(Opcode.GEMM, uop_end=1, extent0=1, extent1=1, extent2=1)
    program = (good, *(good.replace(**fields) for fields in cases), good)
    words = [issue_word(variant, item, k) for k, item in enumerate(program)]
    # The encoder refuses an unknown mode.
    mode_bits = mode << instruction_layout(variant, Opcode.GEMM)["mode"].offset
    words[1:-1] = [word | mode_bits for word in words[1:-1]]
    bench = Bench(variant, state, 1, 0.0, 0.0)
    bench.run(words, [5])
    return set(bench.errors)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"acc_base": 250, "acc_factor2": 2, "extent2": 4}, ErrorCode.ROW_RANGE),
        ({"acc_base": 250, "acc_factor2": 200, "extent2": 3}, ErrorCode.ROW_RANGE),
        ({"inp_base": 511, "inp_factor2": 1, "extent2": 2}, ErrorCode.ROW_RANGE),
        ({"wgt_base": 128}, ErrorCode.ROW_RANGE),
        ({"uop_begin": 250, "uop_end": 257}, ErrorCode.ROW_RANGE),
        ({"mode": 3}, ErrorCode.ILLEGAL_INSTRUCTION),
        # Three taps: rows and vectors behind the one that is named are there, too.
        ({"mode": 2, "inp_base": 510}, ErrorCode.ROW_RANGE),
        ({"mode": 2, "inp_base": 511}, ErrorCode.ROW_RANGE),
        ({"mode": 2, "wgt_base": 6}, ErrorCode.ROW_RANGE),
        ({"mode": 2, "wgt_base": 127 * 8 + 7}, ErrorCode.ROW_RANGE),
        ({"mode": 2, "inp_base": 509, "inp_factor2": 1, "extent2": 2}, ErrorCode.ROW_RANGE),
        ({"mode": 2, "wgt_base": 5, "wgt_factor0": 1, "extent0": 2}, ErrorCode.ROW_RANGE),
    ],
)
def test_errors_name_the_instruction(fields: dict[str, int], code: ErrorCode) -> None:
    """A row outside its scratchpad or an unknown mode is reported with the instruction's index."""
    legal = {key: value for key, value in fields.items() if key != "mode"}
    assert errors_of(TINY, fields.get("mode", 0), legal) == {(int(code), 1)}


@pytest.mark.parametrize(
    "fields",
    [
        {"inp_base": 509, "wgt_base": 127 * 8 + 5},
        {"inp_base": 511, "extent1": 0},
        {"wgt_base": 7, "uop_end": 0},
    ],
)
def test_the_last_three_rows_and_nothing_at_all_are_legal(fields: dict[str, int]) -> None:
    """Three taps at the ends of their memories, and beyond them where there is nothing to do."""
    assert errors_of(TINY, int(GemmMode.DEPTHWISE3), fields) == set()


def test_three_taps_are_unknown_to_a_machine_of_one() -> None:
    one = TINY.replace(depthwise_taps=1)
    code = int(ErrorCode.ILLEGAL_INSTRUCTION)
    assert errors_of(one, int(GemmMode.DEPTHWISE3), {}) == {(code, 1)}
    assert errors_of(one, int(GemmMode.DEPTHWISE), {}) == set()


@pytest.mark.parametrize("mode", GemmMode)
@pytest.mark.parametrize("name", RESULTS)
def test_rows_end_where_their_scratchpad_does(name: str, mode: GemmMode) -> None:
    """INP and OUT have different depths, and one field has the row numbers of both."""
    variant = RESULTS[name]
    depth = scratchpad(variant, mode.operand).depth_rows
    last = depth - max(1, mode.taps)
    bits = instruction_layout(variant, Opcode.GEMM)["inp_base"].width
    beyond = [
        row for row in (*range(last + 1, depth + 1), (1 << bits) - 1) if last < row < 1 << bits
    ]
    cases = [
        {"inp_base": last},
        {"inp_base": last, "inp_factor2": 1, "extent2": 2},
        *({"inp_base": row} for row in beyond),
    ]
    expected = {(int(ErrorCode.ROW_RANGE), index) for index in range(2, len(cases) + 1)}
    assert errors_of(variant, int(mode), *cases) == expected


def test_results_are_unknown_to_a_machine_that_stores_them_only() -> None:
    code = int(ErrorCode.ILLEGAL_INSTRUCTION)
    for taps in (0, 1, 3):
        variant = TINY.replace(depthwise_taps=taps)
        assert errors_of(variant, int(GemmMode.DENSE_OUT), {}) == {(code, 1)}
