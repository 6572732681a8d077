"""What the area of each part of a machine is proportional to, as sizes for `NonnegativeFit`.

The sizes are those of the part's registers, selectors, adders and memories, as `hw/` builds them:
bits, lanes, products, words. How many cells each of them takes is learned. Block RAM and
multipliers follow from the variant exactly, for nearly all parts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from daedal.hw.synth.families import Family
from daedal.hw.synth.scratchpad_rams import block_count, ram_count, ram_form
from daedal.isa.scratchpad import (
    TABLE_ENTRY_BITS,
    Memory,
    Scratchpad,
    parameter_bits,
    scratchpads,
)
from daedal.isa.table import instruction_bits
from daedal.isa.variant import MultiplierStyle, Variant

__all__ = [
    "TABLE_PART",
    "Geometry",
    "alu_option_amounts",
    "built_parts",
    "fits_tables",
    "is_tables",
    "known_amounts",
    "lanes_of",
    "narrow_weight_amounts",
    "operand_option_amounts",
    "option_amounts",
    "sizes_of",
    "table_amounts",
]

Sizes = list[float]

_SCRATCHPADS = {"wgt": "wgt", "inp": "inp", "par": "par", "out": "out", "accumulators": "acc"}
"""Parts that are RAMs and little else, with the names of their scratchpads."""

_TABLE_ROWS, _TABLE_BITS = 16, 4
"""One cell of an ECP5's distributed memory."""
_TABLES_PER_BLOCK = 32
"""Cells that a block must replace (`hw.primitives.block_ram`); otherwise RAMs are made of cells."""
_BLOCK_WIDTHS = ((512, 36), (1_024, 18), (2_048, 9), (4_096, 4), (8_192, 2))
"""Rows of a block, and the width that it then has; 1 with more rows."""
_SLICE_BITS = 128
"""Bits of an accumulator row that share their control registers (`hw.memory.accumulator_bank`)."""


@dataclass(frozen=True)
class _Ram:
    """RAMs of one form. `cells`: of distributed memory. `extra`: words that selectors add to them.

    Both are zero for block RAM.
    """

    depth: int
    width: int
    count: int
    in_tables: bool

    @property
    def bits(self) -> int:
        """Bits of a row of all RAMs together."""
        return self.count * self.width

    @property
    def cells(self) -> int:
        if not self.in_tables:
            return 0
        return self.count * _table_cells(self.depth, self.width)

    @property
    def extra_bits(self) -> int:
        """Bits of the selectors between distributed memories."""
        return self.bits * (-(-self.depth // _TABLE_ROWS) - 1) if self.in_tables else 0

    @property
    def registered_bits(self) -> int:
        """Bits that need a flip-flop: block RAM has registers of its own."""
        return self.bits if self.in_tables else 0

    @property
    def row_bits(self) -> int:
        """Width of a row's number."""
        return (self.depth - 1).bit_length()


class Geometry:
    """Sizes of a variant that several parts share, each computed once."""

    def __init__(self, variant: Variant) -> None:
        self.variant = variant
        array = variant.array
        self.vector = array.batch * array.block_out
        self.row = self.vector * array.accumulator_bits
        self.products = variant.macs_per_cycle
        self.weights = array.block_in * array.block_out
        self.beat = variant.bus.data_bits
        self._pads: Mapping[Memory, Scratchpad] = scratchpads(variant)
        self.instruction = instruction_bits(variant)

    def ram(self, name: str) -> _Ram:
        """The RAMs of a scratchpad."""
        depth, width = ram_form(self.variant, name)
        tables = fits_tables(depth, width)
        return _Ram(depth, width, ram_count(self.variant, name), tables)

    def index(self, *memories: Memory) -> int:
        """Bits of the row numbers of some scratchpads."""
        return sum(self._pads[memory].index_bits for memory in memories)

    def micro_op(self, memory: Memory) -> int:
        """Bits of a micro-op's number."""
        pad = self._pads[memory]
        return (pad.depth_rows * pad.elements - 1).bit_length()

    @cached_property
    def fifo(self) -> int:
        """Cells of a queue of instructions."""
        rows = -(-self.variant.units.queue_depth // _TABLE_ROWS)
        return rows * self.instruction // _TABLE_BITS


def _accumulators(g: Geometry) -> tuple[Sizes, Sizes]:
    ram, banks = g.ram("acc"), g.variant.memory.acc_banks
    slices = max(1, g.row // _SLICE_BITS)
    columns = ram.count
    # A port's answer is the OR of the banks' rows: look-up tables with four inputs for each bit.
    choices = {2: 1, 4: 3, 8: 5}[banks]
    lut: Sizes = [1, g.row * banks, 4 * g.row * choices, ram.cells, ram.extra_bits, columns, banks]
    ff: Sizes = [1, g.row * banks, g.row, 2 * ram.registered_bits,
          banks * slices * (2 * ram.row_bits + 4), columns, banks * ram.row_bits]  # fmt: skip
    return lut, ff


def _gemm(g: Geometry) -> tuple[Sizes, Sizes]:
    array = g.variant.array
    operand = g.index(Memory.INP)
    if g.variant.units.gemm_reads_out:
        operand = max(operand, g.index(Memory.OUT))
    indices = g.index(Memory.ACC, Memory.WGT) + operand + g.micro_op(Memory.UOP_GEMM)
    packed, dsp, lut = (
        array.style is style
        for style in (MultiplierStyle.PACKED, MultiplierStyle.DSP, MultiplierStyle.LUT)
    )
    one, three = array.depthwise_taps >= 1, array.depthwise_taps == 3
    bits = array.input_bits * array.weight_bits / 64
    shared = [
        *(1, indices, g.row),
        *(one * g.weights, three * g.weights, three * g.vector, three * packed * g.vector),
        *(packed * g.products, packed * g.vector, packed * array.batch * array.block_in),
        dsp * (g.products - g.vector),
        lut * bits * g.products,
    ]
    return shared, [*shared, g.weights, packed * g.weights, lut * g.weights]


def _alu(g: Geometry) -> tuple[Sizes, Sizes]:
    units, bits = g.variant.units, g.variant.array.accumulator_bits
    lanes, requantized = units.alu_lanes, units.requantize_lanes
    widest = max(lanes, requantized)
    entry = parameter_bits(g.variant)
    channels = min(requantized, g.variant.array.block_out)
    entries = max(channels, g.beat // entry)
    indices = 2 * g.index(Memory.ACC) + g.index(Memory.PAR) + g.micro_op(Memory.UOP_ALU)
    shared = [1, indices, lanes, requantized, widest]
    selected = 2 * (g.vector - lanes) * bits, (g.vector - requantized) * bits
    return (
        [*shared, *selected, g.vector, (entries - channels) * entry],
        [*shared, 2 * g.row, entries * entry, channels * entry],
    )


def _store(g: Geometry) -> tuple[Sizes, Sizes]:
    bursts = g.variant.bus.write_bursts
    return [1, g.row, max(0, g.row - g.beat), g.beat, bursts], [1, g.row, g.beat, bursts]


def _load(g: Geometry) -> tuple[Sizes, Sizes]:
    bursts = g.variant.bus.read_bursts
    rows = g.index(Memory.ACC, Memory.INP, Memory.WGT)
    sizes: Sizes = [1, g.beat, g.instruction, rows, bursts]
    return sizes, sizes


def _scratchpad(name: str) -> Callable[[Geometry], tuple[Sizes, Sizes]]:
    def sizes(g: Geometry) -> tuple[Sizes, Sizes]:
        ram = g.ram(name)
        return (
            [1, ram.cells, ram.extra_bits, ram.count],
            [1, g.beat, 2 * ram.registered_bits, ram.count * ram.row_bits],
        )

    return sizes


def _inputs(g: Geometry) -> tuple[Sizes, Sizes]:
    ram = g.ram("inp")
    slides = g.variant.array.depthwise_taps > 1
    # Three rows of four banks are selected.
    words = ram.count // 4 if slides else ram.count
    written = words * g.beat
    return (
        [1, ram.cells, ram.extra_bits, words, written, slides * 3 * written],
        [1, g.beat, written, 2 * ram.registered_bits, words * ram.row_bits],
    )


def _outputs(g: Geometry) -> tuple[Sizes, Sizes]:
    ram = g.ram("out")
    # A second copy of the RAMs shares the registers of their writes.
    copies = 2 if g.variant.units.gemm_reads_out else 1
    count, written = ram.count // copies, ram.bits // copies
    return (
        [1, ram.cells, ram.extra_bits, count],
        [1, written, 2 * ram.registered_bits, count, ram.row_bits],
    )


def _master(g: Geometry) -> tuple[Sizes, Sizes]:
    bus = g.variant.bus
    sizes: Sizes = [1, g.beat, bus.read_bursts, bus.write_bursts]
    return sizes, sizes


def _queue(g: Geometry) -> tuple[Sizes, Sizes]:
    sizes: Sizes = [1, g.fifo, g.instruction, g.variant.units.queue_depth]
    return sizes, sizes


def _tokens(g: Geometry) -> tuple[Sizes, Sizes]:
    sizes: Sizes = [1, g.variant.units.token_bits]
    return sizes, sizes


def _counters(g: Geometry) -> tuple[Sizes, Sizes]:
    sizes: Sizes = [1, g.variant.units.counters]
    return sizes, sizes


def _marks(g: Geometry) -> tuple[Sizes, Sizes]:
    sizes: Sizes = [1, g.beat]
    return sizes, sizes


def _same(_g: Geometry) -> tuple[Sizes, Sizes]:
    return [1], [1]


_SIZES: Mapping[str, Callable[[Geometry], tuple[Sizes, Sizes]]] = {
    "control": _same,
    "supervisor": _same,
    "counters": _counters,
    "read_master": _master,
    "write_master": _master,
    "fetch": _queue,
    "tokens": _tokens,
    "load_gate": _queue,
    "gemm_gate": _queue,
    "alu_gate": _queue,
    "store_gate": _queue,
    "gemm": _gemm,
    "alu": _alu,
    "accumulators": _accumulators,
    "wgt": _scratchpad("wgt"),
    "inp": _inputs,
    "par": _scratchpad("par"),
    "out": _outputs,
    "load": _load,
    "store": _store,
    "mark_recorder": _marks,
}

TABLE_PART = "tab"
"""The part with the tables of LOOKUP, which has sizes of its own (`table_amounts`)."""

_TREE_CONTROL = 24
"""Registers of a tree's operation and of its flag to saturate."""

_WIDE_LANE_CELLS = 12
"""LUTs, and FFs, of 8 more bits in a lane of REQUANTIZE: on ECP5 98 and 92 for 8 lanes."""

_SELECTION = 3
"""Registers of GEMM's choice between a row of INP and one of OUT."""

_NAMES: Sequence[str] = tuple(name for name in _SIZES if name != "mark_recorder")


def built_parts(variant: Variant) -> list[str]:
    """Names of the variant's parts, those of `hw.machine.machine_parts`."""
    recorder = ["mark_recorder"] if variant.units.counters else []
    return [*_NAMES, *recorder, *([TABLE_PART] if variant.memory.tables else [])]


def table_amounts(variant: Variant, family: Family) -> dict[str, float]:
    """Resources of the tables, counted instead of learned: registers, selectors and RAMs.

    Yosys finds 387 LUTs and 411 FFs for the four tables of `attention` on ECP5, where this says 384
    and 412; 369 and 916 on an xc7z020, where it says 384 and 924.
    """
    depth, width = ram_form(variant, TABLE_PART)
    lanes, entries = ram_count(variant, TABLE_PART), width // TABLE_ENTRY_BITS
    writes = 2 * (width + (depth - 1).bit_length() + 1)
    # A result, twice delayed, and its value; on ECP5 the RAM's output register is its own.
    lane = 2 * variant.result_bits + TABLE_ENTRY_BITS + 1
    output = 0 if family is Family.ECP5 else width
    blocks = lanes * block_count(depth, width)
    return {
        "lut": float(lanes * TABLE_ENTRY_BITS * (entries - 1)),
        "ff": float(writes + lanes * (lane + output)),
        "dsp": 0.0,
        # Blocks of 18 Kbit on ECP5, of 36 Kbit on the others.
        "block_ram": float(blocks if family is Family.ECP5 else -(-blocks // 2)),
    }


def alu_option_amounts(variant: Variant, family: Family) -> dict[str, float]:
    """Resources of lane reductions and wide results in part ``alu``, counted instead of learned.

    A node of a tree has an adder, a selector and four registers; a row's result is saturated.
    Yosys finds 2,033 LUTs and 2,022 FFs for the tree of 16 lanes on ECP5, where this says 2,016 and
    2,021; 1,017 and 2,003 on an xc7z020, where it says 1,024 and 2,021. A selector of results
    behind the tree is counted in addition, and the tree's own row where it is wider than a group.
    """
    units, array = variant.units, variant.array
    bits, lut, ff = array.accumulator_bits, 0, 0
    if units.lane_reductions:
        row = max(units.alu_lanes, array.block_out)
        trees = row // array.block_out
        nodes = trees * (array.block_out - 1)
        select, saturate = (4, 3) if family is Family.ECP5 else (2, 2)
        lut += bits * (select * nodes + saturate * trees + units.alu_lanes)
        ff += nodes * (4 * bits + 3) + bits * trees + _TREE_CONTROL
        if row > units.alu_lanes:
            lut, ff = lut + row * bits, ff + row * bits
    if units.wide_requantize:
        lut += _WIDE_LANE_CELLS * units.requantize_lanes
        ff += _WIDE_LANE_CELLS * units.requantize_lanes
    return {"lut": float(lut), "ff": float(ff)}


def operand_option_amounts(variant: Variant, family: Family) -> dict[str, dict[str, float]]:
    """Resources of GEMM's operands from OUT, by part, counted instead of learned.

    A row has a selector, whose choice is delayed three times; the second copy of OUT has output
    registers of its own, which on ECP5 are the RAM's. Its blocks are those of `ram_count`. Yosys
    finds 71 more LUTs in `gemm` of `tiny` and 133 in that of `vta` on ECP5, where this says 64 and
    128; 58 and 117 on an xc7z020.
    """
    if not variant.units.gemm_reads_out:
        return {}
    row_bits = scratchpads(variant)[Memory.OUT].row_bits
    output = 0 if family is Family.ECP5 else row_bits
    return {
        "gemm": {"lut": float(row_bits), "ff": float(_SELECTION)},
        "out": {"lut": 0.0, "ff": float(output)},
    }


def narrow_weight_amounts(variant: Variant, family: Family) -> dict[str, dict[str, float]]:
    """Resources of weights of 4 bits, by part, counted instead of learned.

    In front of the RAMs, two bus words each have a selector, and the enables of columns depend on
    one more bit. Yosys finds 142 more LUTs in `wgt` of `tiny` and 362 in that of `vta` on ECP5,
    where this says 144 and 384, and 126 in that of `tiny` on an xc7z020, where this says 136.
    """
    if not variant.units.narrow_weights:
        return {}
    bus = variant.bus.data_bits
    columns = scratchpads(variant)[Memory.WGT].row_beats(variant)
    # A column's number, whether there is a fill, and whether it is narrow.
    decided_by = (columns - 1).bit_length() + 2
    per_column = 1 << max(0, decided_by - (6 if family is Family.XC7 else 4))
    return {
        "wgt": {"lut": float(2 * bus + columns * per_column), "ff": float(bus + 1)},
        "load": dict(_NARROW_LOAD),
    }


_NARROW_LOAD = {"lut": 67.0, "ff": 9.0}
"""Of a code of destinations with one more bit, and of one more destination; of `tiny` on ECP5."""


def option_amounts(variant: Variant, family: Family) -> dict[str, dict[str, float]]:
    """Resources that options add to parts, counted instead of learned."""
    return {
        "alu": alu_option_amounts(variant, family),
        **operand_option_amounts(variant, family),
        **narrow_weight_amounts(variant, family),
    }


def sizes_of(part: str, geometry: Geometry) -> tuple[Sizes, Sizes]:
    """What the LUTs of a part are sums of, and what its FFs are."""
    return _SIZES[part](geometry)


def is_tables(part: str, variant: Variant) -> bool:
    """Whether a part's scratchpad is made of look-up tables on ECP5."""
    return part in _SCRATCHPADS and fits_tables(*ram_form(variant, _SCRATCHPADS[part]))


def known_amounts(part: str, variant: Variant) -> dict[str, float]:
    """What follows from the variant exactly on ECP5: blocks of scratchpads, multipliers of the
    array. On other families they are about proportional to it."""
    array = variant.array
    name = _SCRATCHPADS.get(part)
    if name is not None:
        blocks = ram_count(variant, name) * block_count(*ram_form(variant, name))
        return {"block_ram": 0.0 if is_tables(part, variant) else float(blocks), "dsp": 0.0}
    if part == "gemm":
        in_tables = array.style is MultiplierStyle.LUT
        return {
            "dsp": 0.0 if in_tables else variant.macs_per_cycle / array.outputs_per_activation,
            "block_ram": float(block_count(*ram_form(variant, "gemm_uop"))),
        }
    if part == "alu":
        return {"block_ram": float(block_count(*ram_form(variant, "alu_uop")))}
    return {}


def lanes_of(variant: Variant) -> Sizes:
    """What the multipliers of the ALU are proportional to."""
    return [1.0, float(variant.units.alu_lanes), float(variant.units.requantize_lanes)]


def _table_cells(depth: int, width: int) -> int:
    """Cells of distributed memory for one RAM."""
    return -(-depth // _TABLE_ROWS) * -(-width // _TABLE_BITS)


def fits_tables(depth: int, width: int) -> bool:
    """Whether a RAM is made of look-up tables, because they are fewer than blocks would replace."""
    block = next((bits for rows, bits in _BLOCK_WIDTHS if depth <= rows), 1)
    return _table_cells(depth, width) < _TABLES_PER_BLOCK * -(-width // block)
