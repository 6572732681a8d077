"""The control register map (AXI4-Lite, 32-bit words), cycle classes, error codes, mark records.

`hw.control.control` builds it, `sim` and `runtime` drive it; `regs.h` and docs/hardware.md are
generated from it. The first four registers follow the AP_CTRL layout of Vitis HLS kernels (UG1399,
"S_AXILITE Control Register Map").
"""

import enum
from dataclasses import dataclass

from daedal.isa.table import BASES, Unit

__all__ = [
    "CLASSES",
    "CONTROL_ADDRESS_BITS",
    "COUNTER_BITS",
    "DRAIN_LIMIT_CYCLES",
    "ID_VALUE",
    "MARK_BYTES",
    "MARK_WORDS",
    "REGISTERS",
    "CycleClass",
    "ErrorCode",
    "Register",
    "counter_offset",
    "register",
]

CONTROL_ADDRESS_BITS = 12
COUNTER_BITS = 32
"""Width of the units' counters, which wrap: those of a run of more cycles say nothing."""

ID_VALUE = 0x44414532
"""The characters DAE2: this register map and instruction table."""

DRAIN_LIMIT_CYCLES = 4096
"""Default timeout for open bursts after an error; the host can change it."""


class CycleClass(enum.IntEnum):
    """What a unit does in a cycle; each cycle of each unit falls in exactly one class.

    WAIT_x: the next instruction lacks a token from unit x (FETCH: the queue of unit x is full).
    STALL: waiting for the bus, for memory or for a scratchpad port.
    """

    IDLE = 0
    BUSY = 1
    WAIT_LOAD = 2
    WAIT_GEMM = 3
    WAIT_ALU = 4
    WAIT_STORE = 5
    STALL = 6


CLASSES = tuple(CycleClass)


class ErrorCode(enum.IntEnum):
    """Why a run ended in an error."""

    NONE = 0
    ILLEGAL_INSTRUCTION = 1
    ROW_RANGE = 2
    READ_SLVERR = 3
    READ_DECERR = 4
    WRITE_SLVERR = 5
    WRITE_DECERR = 6
    TOKEN_OVERFLOW = 7
    TOKENS_LEFT = 8
    DEADLOCK = 9
    WATCHDOG = 10
    NO_FINISH = 11
    ABORTED = 12
    MEMORY_RANGE = 13


@dataclass(frozen=True)
class Register:
    """One 32-bit register: byte offset, whether software may write it, and what it holds."""

    name: str
    offset: int
    writable: bool
    doc: str


def _pair(
    name: str, offset: int, writable: bool, doc: str, low: str = ""
) -> tuple[Register, Register]:
    return (
        Register(f"{name}_lo", offset, writable, f"{doc}, bits 31..0{low}"),
        Register(f"{name}_hi", offset + 4, writable, f"{doc}, bits 63..32"),
    )


_KEEPS = "; reading it keeps bits 63..32 for their next read"

_COUNTERS = 0x100
_UNIT_STRIDE = 0x20


def counter_offset(unit: Unit, counter: CycleClass | None) -> int:
    """Byte offset of a unit's cycle counter for a class, or (None) of its work counter."""
    word = len(CLASSES) if counter is None else int(counter)
    return _COUNTERS + _UNIT_STRIDE * int(unit) + 4 * word


_WORK = {
    Unit.LOAD: "bus words loaded",
    Unit.GEMM: "products",
    Unit.ALU: "vectors",
    Unit.STORE: "bus words stored",
    Unit.FETCH: "instructions dispatched",
}


def _counters() -> tuple[Register, ...]:
    result = []
    for unit in Unit:
        name = unit.name.lower()
        result += [
            Register(
                f"{name}_{kind.name.lower()}",
                counter_offset(unit, kind),
                False,
                f"cycles of {unit.name} in class {kind.name}",
            )
            for kind in CLASSES
        ]
        result.append(Register(f"{name}_work", counter_offset(unit, None), False, f"{_WORK[unit]}"))
    return tuple(result)


REGISTERS: tuple[Register, ...] = (
    Register(
        "control",
        0x000,
        True,
        "bit 0 start (write 1; reads 1 while running), bit 1 done (cleared by reading), bit 2 "
        "idle, bit 3 ready (as done), bit 7 must be 0",
    ),
    Register("gie", 0x004, True, "bit 0: global interrupt enable"),
    Register("ier", 0x008, True, "bit 0: interrupt when done"),
    Register(
        "isr",
        0x00C,
        True,
        "bit 0: done is pending; set when a run ends while bit 0 of ier is 1; write 1 to toggle",
    ),
    *_pair("program", 0x010, True, "byte address of the first instruction"),
    Register("program_length", 0x018, True, "instructions of the program"),
    Register(
        "watchdog",
        0x01C,
        True,
        "end with error WATCHDOG after this many cycles without progress; 0: off",
    ),
    *(
        part
        for number, name in enumerate(BASES)
        for part in _pair(f"base{number}", 0x020 + 8 * number, True, f"base address of {name}")
    ),
    *_pair("marks", 0x040, True, "byte address of the ring of mark records"),
    Register("marks_capacity", 0x048, True, "records that the ring holds; 0: marks are off"),
    Register("marks_written", 0x04C, False, "records written since the start"),
    Register("abort", 0x050, True, "write 1: end the run with error ABORTED"),
    Register(
        "drain_limit",
        0x054,
        True,
        "report the end of a run after this many cycles even if bursts are still open; 0 counts as "
        f"1; after reset {DRAIN_LIMIT_CYCLES}",
    ),
    Register("id", 0x060, False, f"{ID_VALUE:#x} ({ID_VALUE.to_bytes(4).decode()})"),
    *_pair("fingerprint", 0x064, False, "fingerprint of the variant"),
    Register("error", 0x070, False, "bits 7..0 error code (0: none), bits 10..8 unit"),
    Register("error_instruction", 0x074, False, "index of the instruction that the error names"),
    *_pair("cycles", 0x080, False, "cycles from start to the end of the run", _KEEPS),
    *_pair("beats_read", 0x088, False, "bus words read", _KEEPS),
    *_pair("beats_written", 0x090, False, "bus words written", _KEEPS),
    *(
        part
        for number, name in enumerate(BASES)
        for part in _pair(
            f"size{number}",
            0x0A0 + 8 * number,
            True,
            f"bytes of {name} that LOAD and STORE may reach; after reset 0",
        )
    ),
    *_counters(),
)

_BY_NAME = {item.name: item for item in REGISTERS}


def register(name: str) -> Register:
    """Look up a register by name."""
    return _BY_NAME[name]


MARK_FIELDS: tuple[str, ...] = (
    "tag_and_unit",
    "instruction",
    "cycle_lo",
    "cycle_hi",
    *(kind.name.lower() for kind in CLASSES),
    "work",
)
"""32-bit words of a mark record in order; tag in bits 15..0 of the first, unit in bits 18..16. The
counters are the unit's own, cumulative since the start."""

MARK_WORDS = 16
MARK_BYTES = 4 * MARK_WORDS
