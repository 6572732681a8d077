"""The instruction encoding of upstream VTA: 128 bits, default configuration.

Bits that no field uses are not zero in real streams (the runtime pushes an uninitialised struct),
so decoding ignores them.

Source: apache/tvm-vta, include/vta/hw_spec.h, with BATCH 1, BLOCK 16 and the default buffer sizes.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from daedal.common.errors import ProgramError
from daedal.isa.numerics import IntArray

__all__ = [
    "INSTRUCTION_BYTES",
    "UOP_FIELDS",
    "VtaAluOp",
    "VtaInstruction",
    "VtaMemory",
    "VtaOpcode",
    "VtaQueue",
    "decode_stream",
    "decode_uop",
    "encode_stream",
    "encode_uop",
]

INSTRUCTION_BYTES = 16


class VtaOpcode(enum.IntEnum):
    """Instruction codes."""

    LOAD = 0
    STORE = 1
    GEMM = 2
    FINISH = 3
    ALU = 4


class VtaMemory(enum.IntEnum):
    """Scratchpads; ACC_8BIT loads 8-bit elements into the accumulators."""

    UOP = 0
    WGT = 1
    INP = 2
    ACC = 3
    OUT = 4
    ACC_8BIT = 5

    @property
    def element_bytes(self) -> int:
        """Bytes of one element, the unit of addresses, in memory."""
        return _ELEMENT_BYTES[self]

    @property
    def depth(self) -> int:
        """Elements that the scratchpad holds; OUT and ACC_8BIT name the accumulators' rows."""
        return _DEPTHS[self]


_ELEMENT_BYTES = {
    VtaMemory.UOP: 4,
    VtaMemory.WGT: 256,
    VtaMemory.INP: 16,
    VtaMemory.ACC: 64,
    VtaMemory.OUT: 16,
    VtaMemory.ACC_8BIT: 16,
}

_DEPTHS = {
    VtaMemory.UOP: 8192,
    VtaMemory.WGT: 1024,
    VtaMemory.INP: 2048,
    VtaMemory.ACC: 2048,
    VtaMemory.OUT: 2048,
    VtaMemory.ACC_8BIT: 2048,
}


class VtaAluOp(enum.IntEnum):
    """ALU operations on 32-bit integers; SHR by a negative amount shifts left."""

    MIN = 0
    MAX = 1
    ADD = 2
    SHR = 3
    MUL = 4


class VtaQueue(enum.Enum):
    """The three units, each with one in-order queue, in the order of their token chain."""

    LOAD = 0
    COMPUTE = 1
    STORE = 2


_Fields = dict[str, tuple[int, int]]
"""Offset and width of each field by name; bit 0 is the lowest of the first byte."""

_HEADER: _Fields = {
    "opcode": (0, 3),
    "pop_prev": (3, 1),
    "pop_next": (4, 1),
    "push_prev": (5, 1),
    "push_next": (6, 1),
}

_MOVE: _Fields = {
    **_HEADER,
    "memory": (7, 3),
    "sram_base": (10, 16),
    "dram_base": (26, 32),
    "y_size": (64, 16),
    "x_size": (80, 16),
    "x_stride": (96, 16),
    "y_pad_0": (112, 4),
    "y_pad_1": (116, 4),
    "x_pad_0": (120, 4),
    "x_pad_1": (124, 4),
}

_LOOPS: _Fields = {
    **_HEADER,
    "reset": (7, 1),
    "uop_begin": (8, 13),
    "uop_end": (21, 14),
    "iter_out": (35, 14),
    "iter_in": (49, 14),
    "dst_out": (64, 11),
    "dst_in": (75, 11),
    "src_out": (86, 11),
    "src_in": (97, 11),
}

_FIELDS: dict[VtaOpcode, _Fields] = {
    VtaOpcode.LOAD: _MOVE,
    VtaOpcode.STORE: _MOVE,
    VtaOpcode.GEMM: {**_LOOPS, "wgt_out": (108, 10), "wgt_in": (118, 10)},
    VtaOpcode.ALU: {
        **_LOOPS,
        "operation": (108, 3),
        "use_immediate": (111, 1),
        "immediate": (112, 16),
    },
    VtaOpcode.FINISH: _HEADER,
}

_SIGNED = {"immediate"}

UOP_FIELDS: _Fields = {"dst": (0, 11), "src": (11, 11), "wgt": (22, 10)}
"""A micro-op, 32 bits: accumulator, input (or second accumulator) and weight row."""


@dataclass(frozen=True)
class VtaInstruction:
    """One instruction; fields read as attributes, those not given are 0."""

    opcode: VtaOpcode
    values: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, opcode: VtaOpcode, **values: int) -> "VtaInstruction":
        """Build from keyword arguments."""
        return cls(opcode, {name: int(value) for name, value in values.items() if value})

    def __getattr__(self, name: str) -> int:
        if name not in _FIELDS[self.opcode]:
            raise AttributeError(f"{self.opcode.name} of VTA has no field {name!r}")
        return self.values.get(name, 0)

    @property
    def queue(self) -> VtaQueue:
        """The unit that executes it; accumulators and micro-ops are loaded by the compute unit."""
        if self.opcode is VtaOpcode.STORE:
            return VtaQueue.STORE
        if self.opcode is VtaOpcode.LOAD and self.memory in (VtaMemory.INP, VtaMemory.WGT):
            return VtaQueue.LOAD
        return VtaQueue.COMPUTE


def _extract(word: int, offset: int, width: int, signed: bool) -> int:
    value = word >> offset & ((1 << width) - 1)
    return value - (1 << width) if signed and value >> (width - 1) else value


def decode_stream(data: bytes) -> list[VtaInstruction]:
    """Decode a stream. Raises ProgramError, naming the instruction, for codes VTA does not have."""
    if len(data) % INSTRUCTION_BYTES:
        raise ProgramError(
            f"a VTA instruction stream must be a multiple of {INSTRUCTION_BYTES} bytes, "
            f"not {len(data)}"
        )
    result = []
    for index in range(len(data) // INSTRUCTION_BYTES):
        word = int.from_bytes(
            data[index * INSTRUCTION_BYTES : (index + 1) * INSTRUCTION_BYTES], "little"
        )
        result.append(_decode(word, index))
    return result


def _decode(word: int, index: int) -> VtaInstruction:
    code = word & 7
    if code not in VtaOpcode._value2member_map_:
        raise ProgramError(f"VTA instruction {index}: an opcode must be 0 to 4, not {code}")
    opcode = VtaOpcode(code)
    values = {
        name: _extract(word, offset, width, name in _SIGNED)
        for name, (offset, width) in _FIELDS[opcode].items()
        if name != "opcode"
    }
    choices: type[enum.IntEnum] | None = None
    if "memory" in values:
        name, choices = "memory", VtaMemory
    elif "operation" in values:
        name, choices = "operation", VtaAluOp
    if choices is not None and values[name] not in choices._value2member_map_:
        raise ProgramError(
            f"VTA instruction {index}: {opcode.name}.{name} must be 0 to {len(choices) - 1}, "
            f"not {values[name]}"
        )
    return VtaInstruction.of(opcode, **values)


def encode_stream(instructions: list[VtaInstruction]) -> bytes:
    """Encode a stream; unused bits are 0. Raises ProgramError for values that do not fit."""
    parts = []
    for index, instruction in enumerate(instructions):
        fields = _FIELDS[instruction.opcode]
        word = int(instruction.opcode)
        for name, value in instruction.values.items():
            if name not in fields or name == "opcode":
                raise ProgramError(
                    f"VTA instruction {index}: {instruction.opcode.name} has no field {name!r}"
                )
            offset, width = fields[name]
            raw = value & ((1 << width) - 1)
            if _extract(raw, 0, width, name in _SIGNED) != value:
                raise ProgramError(
                    f"VTA instruction {index}: {instruction.opcode.name}.{name} must fit "
                    f"{width} bits, not be {value}"
                )
            word |= raw << offset
        parts.append(word.to_bytes(INSTRUCTION_BYTES, "little"))
    return b"".join(parts)


def decode_uop(words: np.ndarray[tuple[int], np.dtype[np.uint32]]) -> dict[str, IntArray]:
    """Columns of micro-op fields of 32-bit words."""
    wide = words.astype(np.int64)
    return {
        name: wide >> offset & ((1 << width) - 1) for name, (offset, width) in UOP_FIELDS.items()
    }


def encode_uop(dst: int, src: int = 0, wgt: int = 0) -> bytes:
    """One micro-op. Raises ProgramError for values that do not fit."""
    word = 0
    for name, value in (("dst", dst), ("src", src), ("wgt", wgt)):
        offset, width = UOP_FIELDS[name]
        if not 0 <= value < 1 << width:
            raise ProgramError(
                f"field {name} of a VTA micro-op must be 0 to {(1 << width) - 1}, not {value}"
            )
        word |= value << offset
    return word.to_bytes(4, "little")
