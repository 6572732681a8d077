"""Instruction streams that drive one unit, or all of them, to its limit.

Each stream is a program of one variant, and its measurement: a window between two marks of one
unit, the unit's work in it (its work counter), and the best possible work.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from daedal.isa.instruction import Instruction, unit_mask
from daedal.isa.microcode import encode_uops
from daedal.isa.program import Program
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import AluOp, GemmMode, LoadMemory, Opcode, OutMemory, Unit
from daedal.isa.variant import Variant

__all__ = ["UnitStream", "unit_streams"]

FIRST, LAST = 1, 2
"""Tags of the marks around the measured window."""
REPEAT = 64
REGION_BYTES = 1 << 18
"""Size of the region that LOADs read and, unless said otherwise, of the one that STOREs write."""


@dataclass(frozen=True)
class UnitStream:
    """A program and its bar: at least `bar` of `ideal_cycles` over the measured cycles.

    `window` is the unit whose marks FIRST and LAST delimit the measurement, or None for the whole
    run from start to interrupt.
    """

    name: str
    program: Program
    window: Unit | None
    ideal_cycles: int
    bar: float


class _Builder:
    """Collects instructions; the set-up loads come first and every unit waits for them once."""

    def __init__(self, variant: Variant) -> None:
        self.variant = variant
        self.words: dict[Unit, list[np.ndarray]] = {Unit.GEMM: [], Unit.ALU: []}
        self.counts = {Unit.GEMM: 0, Unit.ALU: 0}
        self.body: list[Instruction] = []

    def uops(self, unit: Unit, **fields: Sequence[int]) -> dict[str, int]:
        """Add a micro-op sequence; its range as instruction fields."""
        words = encode_uops(self.variant, unit, fields)
        begin = self.counts[unit]
        self.words[unit].append(words)
        self.counts[unit] += len(words)
        return {"uop_begin": begin, "uop_end": self.counts[unit]}

    def add(self, opcode: Opcode, **fields: int) -> None:
        self.body.append(Instruction.of(opcode, **fields))

    def repeat(self, opcode: Opcode, count: int, **fields: int) -> None:
        """`count` equal instructions, the first and the last marked."""
        for number in range(count):
            mark = {"mark": 1, "tag": FIRST if number == 0 else LAST}
            self.add(opcode, **fields, **(mark if number in (0, count - 1) else {}))

    def program(self, output_bytes: int = REGION_BYTES) -> Program:
        """Constants hold the micro-ops; LOAD's last set-up instruction releases GEMM and ALU.

        STOREs write the first `output_bytes` of their region.
        """
        bus = self.variant.bus_bytes
        tables = {unit: np.concatenate([*parts, _ZERO_UOP]) for unit, parts in self.words.items()}
        constants = b""
        setup = []
        for unit, memory in ((Unit.GEMM, LoadMemory.UOP_GEMM), (Unit.ALU, LoadMemory.UOP_ALU)):
            per_row = max(1, bus // 8)
            rows = -(-len(tables[unit]) // per_row)
            data = tables[unit].tobytes().ljust(rows * per_row * 8, b"\0")
            setup.append(
                Instruction.of(
                    Opcode.LOAD,
                    memory=int(memory),
                    offset_beats=len(constants) // bus,
                    blocks=1,
                    rows=1,
                    cols=rows,
                )
            )
            constants += data
        body = list(self.body)
        released = []
        for unit in (Unit.GEMM, Unit.ALU):
            first = next((i for i, item in enumerate(body) if item.unit is unit), None)
            # A first instruction that waits for a LOAD anyway waits for the set-up before it.
            if first is not None and not body[first].pop >> Unit.LOAD & 1:
                released.append(unit)
                body[first] = body[first].replace(pop=body[first].pop | 1 << Unit.LOAD)
        setup[-1] = setup[-1].replace(push=unit_mask(released))
        return Program(
            self.variant,
            (*setup, *body, Instruction.of(Opcode.FINISH)),
            constants,
            (len(constants), REGION_BYTES, output_bytes, 0),
        )


_ZERO_UOP = np.zeros(1, dtype=np.uint64)


def _acc_sequences(rows: int) -> dict[str, list[int]]:
    rng = np.random.default_rng(1)
    return {
        "one row again and again": [0] * 16,
        "distances 1 to 8": [0, 0, 1, 0, 2, 1, 0, 3, 3, 2, 0, 1, 2, 3, 0, 1],
        "random rows": rng.integers(0, rows // 2, 16).tolist(),
        "rows in order": list(range(16)),
    }


def gemm_streams(variant: Variant) -> list[UnitStream]:
    """64 instructions that wait for nothing, for several orders of accumulator rows."""
    streams = []
    rows = scratchpad(variant, Memory.ACC).depth_rows
    for mode in GemmMode.of(variant):
        for name, sequence in _acc_sequences(rows).items():
            build = _Builder(variant)
            numbers = list(range(len(sequence)))
            # Several taps take vectors of one weight row: every start in it that there is.
            starts = variant.array.block_out - mode.taps + 1
            vectors = [k % starts for k in numbers] if mode.taps > 1 else numbers
            step = variant.array.block_out if mode.taps > 1 else 1
            fields = build.uops(Unit.GEMM, acc=sequence, inp=numbers, wgt=vectors, first=[1] * 16)
            loops = {"extent0": 1, "extent1": 2, "extent2": 4, "inp_factor2": 1}
            build.repeat(
                Opcode.GEMM,
                REPEAT,
                mode=int(mode),
                overwrite=int(mode is not GemmMode.DENSE),
                wgt_factor1=step,
                **fields,
                **loops,
            )
            ideal = (REPEAT - 1) * len(sequence) * 8
            streams.append(
                UnitStream(
                    f"GEMM {mode.name.lower()}: {name}", build.program(), Unit.GEMM, ideal, 0.99
                )
            )
    return streams


def alu_streams(variant: Variant) -> list[UnitStream]:
    """Every operation: immediates, operands in two banks, operands in one bank."""
    rows = scratchpad(variant, Memory.ACC).depth_rows
    vector = variant.array.batch * variant.array.block_out
    lanes, requantize_lanes = variant.units.alu_lanes, variant.units.requantize_lanes
    streams = []

    def add(name: str, cycles: int, dst: int, **fields: int) -> None:
        build = _Builder(variant)
        sequence = build.uops(Unit.ALU, dst=[0], src=[0], par=[0])
        loops = {"extent0": 1, "extent1": 1, "extent2": 32, "src_factor2": 2, "dst_factor2": 2}
        build.repeat(Opcode.ALU, REPEAT, dst_base=dst, **sequence, **loops, **fields)
        ideal = (REPEAT - 1) * 32 * cycles
        streams.append(UnitStream(f"ALU {name}", build.program(), Unit.ALU, ideal, 0.99))

    one = vector // lanes
    far, near = rows // 2 + 1, rows // 4
    for operation in (op for op in AluOp.of(variant) if not op.requantizes):
        name, code = operation.name, int(operation)
        add(f"{name} immediate", one, far, operation=code, use_immediate=1, immediate=3,
            destination=int(OutMemory.ACC))  # fmt: skip
        if operation.over_lanes:
            add(name, one, far, operation=code, destination=int(OutMemory.ACC))
        if not operation.takes_x:
            continue
        add(f"{name} two banks", one, far, operation=code, destination=int(OutMemory.ACC))
        add(f"{name} one bank", max(one, 2), near, operation=code,
            destination=int(OutMemory.ACC))  # fmt: skip
    for operation in (op for op in AluOp.of(variant) if op.requantizes):
        for target in OutMemory:
            add(f"{operation.name} to {target.name}", vector // requantize_lanes,
                far if target else 0, operation=int(operation), destination=int(target),
                low=-8, high=7)  # fmt: skip
    return streams


def load_streams(variant: Variant) -> list[UnitStream]:
    """Tiles with rows of 64 B and of 256 B, with and without pads; small loads in a row.

    Tiles that a variant cannot hold are left out.
    """
    streams = []
    bus = variant.bus_bytes

    def add(name: str, bar: float, memory: LoadMemory, row_bytes: int, **fields: int) -> None:
        build = _Builder(variant)
        pad = scratchpad(variant, memory.memory)
        cols = row_bytes // pad.row_bytes
        height, width = fields["rows"] + 2 * fields.get("pad_top", 0), cols
        width += 2 * fields.get("pad_left", 0)
        fields["pad_bottom"] = fields.get("pad_top", 0)
        fields["pad_right"] = fields.get("pad_left", 0)
        if height * width > pad.depth_rows:
            return
        stride = row_bytes // bus + 4
        count = 24
        build.repeat(
            Opcode.LOAD, count, memory=int(memory), base=1, blocks=1, cols=cols,
            row_stride_beats=stride, **fields,
        )  # fmt: skip
        ideal = (count - 1) * fields["rows"] * (row_bytes // bus)
        streams.append(UnitStream(f"LOAD {name}", build.program(), Unit.LOAD, ideal, bar))

    wide = max(256, scratchpad(variant, Memory.INP).row_bytes)
    add("rows of 256 B", 0.95, LoadMemory.INP, wide, rows=14)
    add("rows of 256 B, padded", 0.95, LoadMemory.INP, wide, rows=14, pad_left=1, pad_top=1)
    add("rows of 64 B", 0.80, LoadMemory.INP, 64, rows=16)
    add("rows of 64 B, padded", 0.80, LoadMemory.INP, 64, rows=16, pad_left=1, pad_top=1)
    add("weights", 0.95, LoadMemory.WGT, 9 * scratchpad(variant, Memory.WGT).row_bytes, rows=2)
    add("one row of 64 B each", 0.80, LoadMemory.INP, 64, rows=1)
    return streams


def store_streams(variant: Variant) -> list[UnitStream]:
    """Tiles of 256 B rows, from OUT and from the accumulators."""
    streams = []
    for memory in OutMemory:
        build = _Builder(variant)
        pad = scratchpad(variant, memory.memory)
        cols = max(1, 256 // pad.row_bytes)
        rows = min(12, pad.depth_rows // cols)
        row_beats = cols * pad.row_bytes // variant.bus_bytes
        build.repeat(
            Opcode.STORE, 24, memory=int(memory), base=2, blocks=1, rows=rows, cols=cols,
            row_stride_beats=row_beats + 4,
        )  # fmt: skip
        ideal = 23 * rows * row_beats
        streams.append(
            UnitStream(
                f"STORE {memory.name}, rows of 256 B", build.program(), Unit.STORE, ideal, 0.95
            )
        )
    return streams


def balanced_streams(variant: Variant) -> list[UnitStream]:
    """Two tiles in turn: load, multiply, requantize, store, with one resource the busiest."""
    return [_balanced(variant, "GEMM", reduction=32), _balanced(variant, "bus", reduction=6)]


def _balanced(variant: Variant, busiest: str, reduction: int) -> UnitStream:
    """`reduction` products per accumulator row; tiles of 512 rows or fewer, double-buffered."""
    build = _Builder(variant)
    bus = variant.bus_bytes
    inp, out = scratchpad(variant, Memory.INP), scratchpad(variant, Memory.OUT)
    acc_half = scratchpad(variant, Memory.ACC).depth_rows // 2
    tiles, rows = 96, min(512, inp.depth_rows // 4, out.depth_rows // 2, acc_half)
    products = build.uops(
        Unit.GEMM,
        acc=[0] * reduction,
        inp=[0] * reduction,
        wgt=[k % 32 for k in range(reduction)],
        first=[1] + [0] * (reduction - 1),
    )
    vectors = build.uops(Unit.ALU, dst=[0], src=[0], par=[0])
    loaded = 2 * rows if busiest == "bus" else rows
    for tile in range(tiles):
        half = tile % 2
        again = tile >= 2
        build.add(
            Opcode.LOAD, memory=int(LoadMemory.INP), base=1, row=half * loaded, blocks=1, rows=1,
            cols=loaded, pop=again << Unit.GEMM, push=1 << Unit.GEMM,
        )  # fmt: skip
        build.add(
            Opcode.GEMM, overwrite=1, **products, acc_base=half * acc_half, inp_base=half * loaded,
            extent0=1, extent1=1, extent2=rows, acc_factor2=1, inp_factor2=1,
            pop=1 << Unit.LOAD | again << Unit.ALU,
            push=1 << Unit.ALU | (tile + 2 < tiles) << Unit.LOAD,
        )  # fmt: skip
        build.add(
            Opcode.ALU, operation=int(AluOp.REQUANTIZE), low=-8, high=7, **vectors,
            src_base=half * acc_half, dst_base=half * rows, extent0=1, extent1=1, extent2=rows,
            src_factor2=1, dst_factor2=1, pop=1 << Unit.GEMM | again << Unit.STORE,
            push=1 << Unit.STORE | (tile + 2 < tiles) << Unit.GEMM,
        )  # fmt: skip
        build.add(
            Opcode.STORE, base=2, row=half * rows, blocks=1, rows=1, cols=rows,
            offset_beats=tile * rows * out.row_bytes // bus,
            pop=1 << Unit.ALU, push=(tile + 2 < tiles) << Unit.ALU,
        )  # fmt: skip
    program = build.program(tiles * rows * out.row_bytes)
    # The first tile's words and the program's first instruction come before anything can overlap.
    beats = tiles * (loaded * inp.row_bytes + rows * out.row_bytes) // bus
    beats += len(program.encode()) // bus + len(program.constants) // bus
    vector = variant.array.batch * variant.array.block_out
    alu = tiles * rows * vector // variant.units.requantize_lanes
    ideal = max(tiles * rows * reduction, beats, alu)
    return UnitStream(f"double-buffered, {busiest} the busiest", program, None, ideal, 1 / 1.03)


def unit_streams(variant: Variant) -> list[UnitStream]:
    """All streams of a variant."""
    makers: tuple[Callable[[Variant], list[UnitStream]], ...] = (
        gemm_streams,
        alu_streams,
        load_streams,
        store_streams,
        balanced_streams,
    )
    return [stream for make in makers for stream in make(variant)]
