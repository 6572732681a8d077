"""Control register accesses of a run: the writes before it, and the reads after it.

Input: a program and its addresses. Output: register writes; afterwards, from the values of
`REPORT_REGISTERS` and the ring of mark records, a `RunReport`. Simulators and boards share this.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from daedal.common.errors import DeviceError
from daedal.isa.profile import MarkRecord, Profile, UnitCounters
from daedal.isa.program import Program
from daedal.isa.registers import (
    CLASSES,
    COUNTER_BITS,
    DRAIN_LIMIT_CYCLES,
    ID_VALUE,
    MARK_BYTES,
    MARK_WORDS,
    REGISTERS,
    CycleClass,
    ErrorCode,
    register,
)
from daedal.isa.table import BASES, Unit
from daedal.isa.variant import Variant

__all__ = [
    "REPORT_REGISTERS",
    "START",
    "WATCHDOG_CYCLES",
    "RunPlacement",
    "RunReport",
    "check_identity",
    "num_marked",
    "read_report",
    "setup_writes",
]

WATCHDOG_CYCLES = 1 << 17
"""Default watchdog timeout: cycles without progress that end a run; far above any memory latency.
"""

START = (register("control").offset, 1)
"""The write that starts the machine: register address and value."""

REPORT_REGISTERS = tuple(item.name for item in REGISTERS if item.name not in ("control", "abort"))
"""Registers that report a finished run; reading them has no side effects."""


@dataclass(frozen=True)
class RunPlacement:
    """Byte addresses of a run: instructions, regions by base register, and the ring of marks."""

    program_address: int
    bases: Sequence[int]
    marks_address: int = 0
    num_marks: int = 0


@dataclass(frozen=True)
class RunReport:
    """The machine's report of a finished run.

    `error` is NONE after a successful run; otherwise `unit` and `instruction` locate the error.
    """

    profile: Profile
    error: ErrorCode
    unit: Unit
    instruction: int

    def check(self) -> None:
        """Raise DeviceError unless the run succeeded."""
        if self.error is not ErrorCode.NONE:
            raise DeviceError(
                f"the machine must finish without an error; it reported {self.error.name} of "
                f"{self.unit.name} at instruction {self.instruction}"
            )


def num_marked(program: Program) -> int:
    """Number of marked instructions: the records that the ring must hold."""
    return sum(item.mark for item in program.instructions)


def setup_writes(
    program: Program,
    placement: RunPlacement,
    watchdog_cycles: int = WATCHDOG_CYCLES,
    drain_limit_cycles: int = DRAIN_LIMIT_CYCLES,
) -> tuple[tuple[int, int], ...]:
    """``(register address, value)`` in order, before `START`; they also enable the interrupt."""

    def pair(name: str, value: int) -> list[tuple[int, int]]:
        return [
            (register(f"{name}_lo").offset, value & 0xFFFFFFFF),
            (register(f"{name}_hi").offset, value >> 32),
        ]

    def single(name: str, value: int) -> list[tuple[int, int]]:
        return [(register(name).offset, value)]

    return (
        *pair("program", placement.program_address),
        *single("program_length", len(program.instructions)),
        *single("watchdog", watchdog_cycles),
        *single("drain_limit", drain_limit_cycles),
        *(
            w
            for number in range(len(BASES))
            for w in pair(f"base{number}", placement.bases[number])
        ),
        *(
            w
            for number, words in enumerate(program.region_words)
            for w in pair(f"size{number}", words * program.variant.bus_bytes)
        ),
        *pair("marks", placement.marks_address),
        *single("marks_capacity", placement.num_marks),
        *single("gie", 1),
        *single("ier", 1),
    )


def check_identity(values: Mapping[str, int], variant: Variant) -> None:
    """Raise DeviceError unless `id` and `fingerprint` are those of a machine of `variant`."""
    fingerprint = f"{_wide(values, 'fingerprint'):016x}"
    if values["id"] != ID_VALUE or fingerprint != variant.fingerprint:
        raise DeviceError(
            f"the machine must be of fingerprint {variant.fingerprint}; it answers {fingerprint} "
            f"with ID {values['id']:#010x}"
        )


def read_report(
    values: Mapping[str, int], ring: bytes, *, device: str, wall_seconds: float
) -> RunReport:
    """Interpret the registers (by name) and the ring of mark records.

    Counters of units that have wrapped (`COUNTER_BITS`) are left out, and marks with them.

    Raises DeviceError for values that no machine with this register map returns.
    """
    written = min(values["marks_written"], len(ring) // MARK_BYTES)
    marks = [_mark(ring[at : at + MARK_BYTES]) for at in range(0, written * MARK_BYTES, MARK_BYTES)]
    cycles = _wide(values, "cycles")
    wrapped = cycles >> COUNTER_BITS > 0
    profile = Profile(
        device=device,
        cycles=cycles,
        beats_read=_wide(values, "beats_read"),
        beats_written=_wide(values, "beats_written"),
        units={} if wrapped else {unit: _unit_counters(values, unit) for unit in Unit},
        marks=() if wrapped else tuple(sorted(marks, key=lambda mark: (mark.cycle, mark.unit))),
        wall_seconds=wall_seconds,
    )
    error = values["error"]
    try:
        code, unit = ErrorCode(error & 0xFF), Unit(error >> 8)
    except ValueError as wrong:
        raise DeviceError(
            f"the machine's error register must name an error and a unit; it reads {error:#010x}: "
            "check the connection"
        ) from wrong
    return RunReport(profile, code, unit, values["error_instruction"])


def _wide(values: Mapping[str, int], name: str) -> int:
    return values[f"{name}_lo"] | values[f"{name}_hi"] << 32


def _unit_counters(values: Mapping[str, int], unit: Unit) -> UnitCounters:
    name = unit.name.lower()
    classes = {kind: values[f"{name}_{kind.name.lower()}"] for kind in CLASSES}
    return UnitCounters(classes, values[f"{name}_work"])


def _mark(record: bytes) -> MarkRecord:
    words = struct.unpack(f"<{MARK_WORDS}I", record)
    first = 4
    classes = {CycleClass(kind): words[first + kind] for kind in CLASSES}
    return MarkRecord(
        tag=words[0] & 0xFFFF,
        unit=Unit(words[0] >> 16 & 7),
        instruction=words[1],
        cycle=words[2] | words[3] << 32,
        counters=UnitCounters(classes, words[first + len(CLASSES)]),
    )
