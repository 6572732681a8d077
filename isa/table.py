"""The one table of instructions and micro-ops: every field, its width and its meaning.

Encoder, decoder, assembler, the layouts in `hw`, the simulators and docs/isa.md are derived from
`INSTRUCTIONS` and `MICRO_OPS`. A field's width may depend on the variant; `instruction_layout`
gives the concrete bit positions. Bit 0 is the least significant bit of the first byte.
"""

import enum
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from daedal.common.errors import VariantError
from daedal.isa.alu_operations import AluOp
from daedal.isa.scratchpad import Memory, scratchpad, scratchpads
from daedal.isa.variant import Variant

__all__ = [
    "BASES",
    "EXTENTS",
    "HEADER",
    "IMMEDIATE_BITS",
    "INSTRUCTIONS",
    "LOOPS",
    "MICRO_OPS",
    "AluOp",
    "BitField",
    "Field",
    "GemmMode",
    "InstructionFormat",
    "LoadMemory",
    "Opcode",
    "OutMemory",
    "Unit",
    "check_instructions",
    "instruction_bits",
    "instruction_bytes",
    "instruction_layout",
    "micro_op_layout",
]

LOOPS = 3
"""Hardware loops around a micro-op sequence; loop 0 is the outermost."""

EXTENTS = tuple(f"extent{level}" for level in range(LOOPS))
"""The fields with their iterations."""

BASES = ("constants", "inputs", "outputs", "workspace")
"""Meaning of the base address registers, by number."""


class Unit(enum.IntEnum):
    """Units with their own queue (0..3), and FETCH for status and counters."""

    LOAD = 0
    GEMM = 1
    ALU = 2
    STORE = 3
    FETCH = 4


class Opcode(enum.IntEnum):
    """Instruction codes; 0 is illegal, so that zeroed memory never executes."""

    LOAD = 1
    GEMM = 2
    ALU = 3
    STORE = 4
    FINISH = 5


class LoadMemory(enum.IntEnum):
    """Destination of a LOAD; ACC_NARROW reads elements of input width and sign-extends them.

    WGT_NARROW reads weights of 4 bits, the first of a byte from its low half, and sign-extends them
    to 8 bits. Only variants with tables have TAB, and only those with ``units.narrow_weights`` have
    WGT_NARROW.
    """

    INP = 0
    WGT = 1
    ACC = 2
    ACC_NARROW = 3
    PAR = 4
    UOP_GEMM = 5
    UOP_ALU = 6
    TAB = 7
    WGT_NARROW = 8

    @property
    def memory(self) -> Memory:
        """The scratchpad that is written."""
        return Memory[self.name.removesuffix("_NARROW")]

    @staticmethod
    @lru_cache(maxsize=256)
    def of(variant: Variant) -> "tuple[LoadMemory, ...]":
        """The destinations that `variant` has."""
        pads = scratchpads(variant)
        narrow = variant.units.narrow_weights
        return tuple(
            target
            for target in LoadMemory
            if target.memory in pads and (narrow or target is not LoadMemory.WGT_NARROW)
        )


class OutMemory(enum.IntEnum):
    """Source of a STORE and destination of an ALU operation."""

    OUT = 0
    ACC = 1

    @property
    def memory(self) -> Memory:
        """The corresponding scratchpad."""
        return Memory[self.name]


class GemmMode(enum.IntEnum):
    """What one micro-op of GEMM multiplies.

    DENSE: ``ACC[acc][b][o] += sum_i INP[inp][b][i] * WGT[wgt][o][i]``.
    DEPTHWISE: ``ACC[acc][b][c] += INP[inp][b][c] * WGT[wgt // block_out][wgt % block_out][c]``.
    DEPTHWISE3: the same for rows ``inp + t`` and vectors ``wgt % block_out + t``, summed over
    t = 0, 1, 2; the last row must exist, and the last vector be in the same weight row.
    DENSE_OUT: as DENSE, with row ``inp`` of OUT, so that results are multiplied where they are.
    A variant has the modes that take at most ``array.depthwise_taps`` taps, and DENSE_OUT with
    ``units.gemm_reads_out``.
    """

    DENSE = 0
    DEPTHWISE = 1
    DEPTHWISE3 = 2
    DENSE_OUT = 3

    @property
    def taps(self) -> int:
        """Rows of INP, and channel vectors of one weight row, in a product; 0 where it is dense."""
        return (0, 1, 3, 0)[self]

    @property
    def operand(self) -> Memory:
        """The scratchpad whose rows are multiplied by weights."""
        return Memory.OUT if self is GemmMode.DENSE_OUT else Memory.INP

    @staticmethod
    def of(variant: Variant) -> tuple["GemmMode", ...]:
        """The modes that `variant` has."""
        return tuple(
            mode
            for mode in GemmMode
            if mode.taps <= variant.array.depthwise_taps and mode.operand in _operands(variant)
        )


@dataclass(frozen=True)
class Field:
    """One field: `width` as a function of the variant, and its meaning.

    `offered` gives the subset of `choices` that a variant has; without it, it has all of them.
    `present` says whether a variant has the field at all; without it, every variant does.
    """

    name: str
    width: Callable[[Variant], int]
    doc: str
    signed: bool = False
    choices: type[enum.IntEnum] | None = None
    offered: Callable[[Variant], tuple[enum.IntEnum, ...]] | None = None
    present: Callable[[Variant], bool] | None = None


@dataclass(frozen=True)
class InstructionFormat:
    """One task instruction: the unit that executes it, and its fields after the common header."""

    opcode: Opcode
    unit: Unit
    fields: tuple[Field, ...]
    doc: str


@dataclass(frozen=True)
class BitField:
    """A field with its position: bits ``[offset, offset + width)`` of an instruction or micro-op.

    `choices` are the field's choices that the variant has; None if any number is allowed.
    """

    field: Field
    offset: int
    width: int
    choices: tuple[enum.IntEnum, ...] | None

    @property
    def name(self) -> str:
        """The field's name."""
        return self.field.name


def _fixed(bits: int) -> Callable[[Variant], int]:
    return lambda variant: bits


def _index(*memories: Memory) -> Callable[[Variant], int]:
    def width(variant: Variant) -> int:
        pads = scratchpads(variant)
        return max(pads[memory].index_bits for memory in memories if memory in pads)

    return width


def _operands(variant: Variant) -> tuple[Memory, ...]:
    """Scratchpads with rows that GEMM multiplies by weights."""
    return (Memory.INP, Memory.OUT) if variant.units.gemm_reads_out else (Memory.INP,)


def _operand_index(variant: Variant) -> int:
    return max(scratchpad(variant, memory).index_bits for memory in _operands(variant))


def _weight_index(variant: Variant) -> int:
    """Rows, or vectors inside rows where depthwise mode addresses them."""
    vectors = variant.array.block_out if variant.array.depthwise_taps else 1
    return scratchpad(variant, Memory.WGT).index_bits + (vectors - 1).bit_length()


def _table_bits(variant: Variant) -> int:
    return max(0, variant.memory.tables - 1).bit_length()


def _uop_index(memory: Memory) -> Callable[[Variant], int]:
    def width(variant: Variant) -> int:
        pad = scratchpad(variant, memory)
        return (pad.depth_rows * pad.elements - 1).bit_length()

    return width


def _target_bits(variant: Variant) -> int:
    return max(LoadMemory.of(variant)).bit_length()


def _plus_one(width: Callable[[Variant], int]) -> Callable[[Variant], int]:
    return lambda variant: width(variant) + 1


_LOADABLE = _index(*{m.memory for m in LoadMemory})
_STORABLE = _index(*{m.memory for m in OutMemory})
_OUTPUT_BITS: Callable[[Variant], int] = lambda variant: variant.array.output_bits  # noqa: E731
IMMEDIATE_BITS = 18

HEADER = (
    Field("opcode", _fixed(4), "which instruction", choices=Opcode),
    Field("pop", _fixed(4), "one bit per unit: take a token from it before the start"),
    Field("push", _fixed(4), "one bit per unit: give a token to it when done"),
    Field("mark", _fixed(1), "write a record of the unit's counters when done"),
    Field("tag", _fixed(16), "number stored in the mark's record"),
)


def _transfer(index: Callable[[Variant], int]) -> tuple[Field, ...]:
    count = _plus_one(index)
    return (
        Field("base", _fixed(2), "base address register: " + ", ".join(BASES)),
        Field("row", index, "first scratchpad row; the others follow without gaps"),
        Field("offset_beats", _fixed(32), "address relative to the base, in bus words"),
        Field("blocks", count, "planes; 0 moves nothing"),
        Field("rows", count, "rows of memory in a plane"),
        Field("cols", count, "scratchpad rows in a row of memory, stored without gaps"),
        Field("row_stride_beats", _fixed(24), "bus words from one row of memory to the next"),
        Field("block_stride_beats", _fixed(24), "bus words from one plane to the next"),
    )


def _loops(
    extent: Callable[[Variant], int],
    indices: tuple[tuple[str, Callable[[Variant], int], str], ...],
) -> tuple[Field, ...]:
    fields = [
        Field(f"{name}_base", width, f"added to the {what} of every micro-op")
        for name, width, what in indices
    ]
    for level in range(LOOPS):
        fields.append(Field(EXTENTS[level], extent, f"iterations of loop {level}"))
        fields += [
            Field(
                f"{name}_factor{level}", width, f"{what}: increment per iteration of loop {level}"
            )
            for name, width, what in indices
        ]
    return tuple(fields)


def _sequence(memory: Memory) -> tuple[Field, ...]:
    width = _uop_index(memory)
    return (
        Field("uop_begin", width, "first micro-op of the sequence"),
        Field(
            "uop_end", _plus_one(width), "one past the last micro-op; an empty range does nothing"
        ),
    )


INSTRUCTIONS: dict[Opcode, InstructionFormat] = {
    form.opcode: form
    for form in (
        InstructionFormat(
            Opcode.LOAD,
            Unit.LOAD,
            (
                Field(
                    "memory",
                    _target_bits,
                    "destination",
                    choices=LoadMemory,
                    offered=LoadMemory.of,
                ),
                *_transfer(_LOADABLE),
                Field("pad_top", _fixed(6), "lines of pad above each plane"),
                Field("pad_bottom", _fixed(6), "lines of pad below each plane"),
                Field("pad_left", _fixed(6), "scratchpad rows of pad before each row"),
                Field("pad_right", _fixed(6), "scratchpad rows of pad after each row"),
                Field("pad_value", _fixed(16), "value of every pad element", signed=True),
            ),
            "Load blocks x rows x cols scratchpad rows from memory, and fill the rows around each "
            "plane with a constant (pads, only into INP and ACC).",
        ),
        InstructionFormat(
            Opcode.GEMM,
            Unit.GEMM,
            (
                Field(
                    "mode", _fixed(2), "what one product is", choices=GemmMode, offered=GemmMode.of
                ),
                Field(
                    "overwrite",
                    _fixed(1),
                    "products of micro-ops marked `first` overwrite their accumulator row while "
                    "every loop with acc_factor 0 is in its first iteration",
                ),
                *_sequence(Memory.UOP_GEMM),
                *_loops(
                    _plus_one(_index(Memory.ACC)),
                    (
                        ("acc", _index(Memory.ACC), "accumulator row"),
                        ("inp", _operand_index, "input row"),
                        ("wgt", _weight_index, "weight row (depthwise: vector)"),
                    ),
                ),
            ),
            "Multiply: for each loop iteration and micro-op, add one product to one accumulator "
            "row.",
        ),
        InstructionFormat(
            Opcode.ALU,
            Unit.ALU,
            (
                Field(
                    "operation",
                    _fixed(5),
                    "what is computed",
                    choices=AluOp,
                    offered=AluOp.of,
                ),
                Field("use_immediate", _fixed(1), "y is the immediate instead of a second row"),
                Field(
                    "immediate",
                    _fixed(IMMEDIATE_BITS),
                    "second operand; REQUANTIZE: the zero point added after the shift",
                    signed=True,
                ),
                Field("destination", _fixed(1), "where results go", choices=OutMemory),
                Field(
                    "saturate",
                    _fixed(1),
                    "1: clamp results to the range of output elements; 0: truncate them",
                ),
                Field("low", _OUTPUT_BITS, "REQUANTIZE: lower bound of the result", signed=True),
                Field("high", _OUTPUT_BITS, "REQUANTIZE: upper bound of the result", signed=True),
                *_sequence(Memory.UOP_ALU),
                *_loops(
                    _plus_one(_index(Memory.ACC)),
                    (
                        ("dst", _index(Memory.ACC, Memory.OUT), "destination row"),
                        ("src", _index(Memory.ACC), "source row"),
                        ("par", _index(Memory.PAR), "parameter row"),
                    ),
                ),
                Field(
                    "table",
                    _table_bits,
                    "LOOKUP: which table",
                    present=lambda variant: variant.memory.tables > 0,
                ),
                Field(
                    "wide",
                    _fixed(1),
                    "REQUANTIZE: a result of 16 bits, from `low` * 256 to `high` * 256 + 255; "
                    "LOOKUP takes its low 8 bits",
                    present=lambda variant: variant.units.wide_requantize,
                ),
            ),
            "Vector operation on accumulator rows: for each loop iteration and micro-op, one row.",
        ),
        InstructionFormat(
            Opcode.STORE,
            Unit.STORE,
            (
                Field("memory", _fixed(1), "source", choices=OutMemory),
                *_transfer(_STORABLE),
            ),
            "Store blocks x rows x cols scratchpad rows to memory; done when the bus has "
            "acknowledged every write.",
        ),
        InstructionFormat(
            Opcode.FINISH,
            Unit.FETCH,
            (),
            "End of the program: wait for every unit and every write, then raise the interrupt.",
        ),
    )
}

MICRO_OPS: dict[Unit, tuple[Field, ...]] = {
    Unit.GEMM: (
        Field("acc", _index(Memory.ACC), "accumulator row"),
        Field("inp", _operand_index, "input row"),
        Field("wgt", _weight_index, "weight row (depthwise: vector)"),
        Field("first", _fixed(1), "first product of its accumulator row, see overwrite"),
    ),
    Unit.ALU: (
        Field("dst", _index(Memory.ACC, Memory.OUT), "destination row"),
        Field("src", _index(Memory.ACC), "source row"),
        Field("par", _index(Memory.PAR), "parameter row"),
    ),
}


def _place(fields: tuple[Field, ...], variant: Variant) -> dict[str, BitField]:
    placed: dict[str, BitField] = {}
    offset = 0
    for item in fields:
        if item.present is not None and not item.present(variant):
            continue
        width = item.width(variant)
        choices = None if item.choices is None else tuple(item.choices)
        if item.offered is not None:
            choices = item.offered(variant)
        placed[item.name] = BitField(item, offset, width, choices)
        offset += width
    return placed


@lru_cache(maxsize=256)
def instruction_layout(variant: Variant, opcode: Opcode) -> dict[str, BitField]:
    """Fields of one instruction with their positions, header first."""
    return _place(HEADER + INSTRUCTIONS[opcode].fields, variant)


@lru_cache(maxsize=256)
def micro_op_layout(variant: Variant, unit: Unit) -> dict[str, BitField]:
    """Fields of a micro-op of GEMM or ALU with their positions in its 64-bit word."""
    return _place(MICRO_OPS[unit], variant)


def _used_bits(layout: dict[str, BitField]) -> int:
    return max(item.offset + item.width for item in layout.values())


@lru_cache(maxsize=256)
def instruction_bits(variant: Variant) -> int:
    """Width of every instruction: 128, 256 or 512, at least one beat."""
    longest = max(_used_bits(instruction_layout(variant, opcode)) for opcode in Opcode)
    return max(128, 1 << (longest - 1).bit_length(), variant.bus.data_bits)


def instruction_bytes(variant: Variant) -> int:
    """Bytes of one instruction in memory."""
    return instruction_bits(variant) // 8


def check_instructions(variant: Variant) -> None:
    """Raise VariantError if the fields do not fit into an instruction or a micro-op."""
    for opcode in Opcode:
        used = _used_bits(instruction_layout(variant, opcode))
        if used > 512:
            raise VariantError(
                f"an instruction must fit 512 bits, not {used} ({opcode.name} of variant "
                f"{variant.name!r}); make the largest scratchpads smaller"
            )
    for unit in MICRO_OPS:
        used = _used_bits(micro_op_layout(variant, unit))
        if used > 64:
            raise VariantError(
                f"a micro-op must fit 64 bits, not {used} ({unit.name} of variant "
                f"{variant.name!r}); make the largest scratchpads smaller"
            )
