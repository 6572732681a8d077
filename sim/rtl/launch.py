"""One launch as a `Job`, and a `Job`'s result as memory and a `Profile`.

Input: a program, where its regions lie and the memory around it. Output: control writes for the
harness; afterwards the memory, the counters and the marks, or a `DeviceError` that says what the
machine reported.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from daedal.isa.errors import DeviceError
from daedal.isa.memory_model import PRESETS, MemoryModel
from daedal.isa.profile import MarkRecord, Profile, UnitCounters
from daedal.isa.program import Program
from daedal.isa.protocols import PAGE_BYTES
from daedal.isa.registers import (
    CLASSES,
    ID_VALUE,
    MARK_BYTES,
    MARK_WORDS,
    REGISTERS,
    CycleClass,
    ErrorCode,
    register,
)
from daedal.isa.table import BASES, Unit, instruction_bits
from daedal.sim.rtl.intervention import RESET_CYCLES, Intervention
from daedal.sim.rtl.job import Faults, Job, RawResult

__all__ = ["WATCHDOG_CYCLES", "Launch", "Outcome", "launch_job", "launch_outcome"]

WATCHDOG_CYCLES = 1 << 17
"""Cycles without progress that end a run; far beyond any latency of a memory model."""

_READS = tuple(item.name for item in REGISTERS if item.name not in ("control", "abort"))


@dataclass(frozen=True)
class Launch:
    """A program and everything around it.

    Attributes
    ----------
    memory
        Contents of external memory from byte 0 on, regions included; instructions and marks are
        placed behind it.
    bases
        Byte addresses of the regions, by base register.
    with_marks
        Record the marked instructions.
    abort_at
        Cycle after the start in which the host writes 1 to `abort`.
    reset_at, reset_cycles
        Cycle after the start in which machine and memory model are reset, and for how long.
    """

    program: Program
    bases: Sequence[int]
    memory: bytes
    timing: MemoryModel = PRESETS["ddr"]
    faults: Faults = field(default_factory=Faults)
    with_marks: bool = True
    watchdog_cycles: int = WATCHDOG_CYCLES
    cycle_limit: int = 2_000_000_000
    wave: tuple[int, int] | None = None
    abort_at: int | None = None
    reset_at: int | None = None
    reset_cycles: int = RESET_CYCLES

    @property
    def program_address(self) -> int:
        """Where the instructions are put."""
        return -(-len(self.memory) // PAGE_BYTES) * PAGE_BYTES

    @property
    def marks_address(self) -> int:
        """Where the ring of mark records is put."""
        bits = instruction_bits(self.program.variant)
        end = self.program_address + len(self.program.instructions) * bits // 8
        return -(-end // PAGE_BYTES) * PAGE_BYTES

    @property
    def num_marks(self) -> int:
        """Marked instructions: the ring holds a record of each."""
        return sum(item.mark for item in self.program.instructions) if self.with_marks else 0

    @property
    def size_bytes(self) -> int:
        """Memory that the launch needs."""
        return self.marks_address + self.num_marks * MARK_BYTES


@dataclass(frozen=True)
class Outcome:
    """What a launch left: memory as `Launch.memory` was, and what was reported.

    `error` is NONE after a good run; `unit` and `instruction` are what an error names. After a
    reset the machine knows nothing of the run.
    """

    memory: bytes
    profile: Profile
    error: ErrorCode
    unit: Unit
    instruction: int
    was_reset: bool = False

    def check(self) -> None:
        """Raise DeviceError unless the run was good."""
        if self.was_reset:
            raise DeviceError("the machine must run to its end; it was reset in the middle")
        if self.error is not ErrorCode.NONE:
            raise DeviceError(
                f"the machine must finish without an error; it reported {self.error.name} of "
                f"{self.unit.name} at instruction {self.instruction}"
            )


def launch_job(launch: Launch) -> Job:
    """Describe `launch` to the harness."""
    code = launch.program.encode()

    def pair(name: str, value: int) -> list[tuple[int, int]]:
        return [
            (register(f"{name}_lo").offset, value & 0xFFFFFFFF),
            (register(f"{name}_hi").offset, value >> 32),
        ]

    def single(name: str, value: int) -> list[tuple[int, int]]:
        return [(register(name).offset, value)]

    writes = [
        *pair("program", launch.program_address),
        *single("program_length", len(launch.program.instructions)),
        *single("watchdog", launch.watchdog_cycles),
        *(w for number in range(len(BASES)) for w in pair(f"base{number}", launch.bases[number])),
        *pair("marks", launch.marks_address),
        *single("marks_capacity", launch.num_marks),
        *single("gie", 1),
        *single("ier", 1),
    ]
    dumps = [(0, len(launch.memory))]
    if launch.num_marks:
        dumps.append((launch.marks_address, launch.num_marks * MARK_BYTES))
    return Job(
        start=(register("control").offset, 1),
        image=((0, launch.memory), (launch.program_address, code)),
        writes=tuple(writes),
        reads=tuple(register(name).offset for name in _READS),
        dumps=tuple(dumps),
        memory=launch.timing,
        faults=launch.faults,
        cycle_limit=launch.cycle_limit,
        clear_memory=False,
        wave=launch.wave,
        interventions=_interventions(launch),
    )


def _interventions(launch: Launch) -> tuple[Intervention, ...]:
    found = []
    if launch.abort_at is not None:
        found.append(Intervention(launch.abort_at, write=(register("abort").offset, 1)))
    if launch.reset_at is not None:
        found.append(Intervention(launch.reset_at, reset_cycles=launch.reset_cycles))
    return tuple(sorted(found, key=lambda item: item.at_cycle))


def launch_outcome(launch: Launch, result: RawResult, device: str) -> Outcome:
    """Make sense of `result`.

    Raises DeviceError where the simulation itself went wrong: no interrupt in time, a broken AXI
    rule, or a machine of another variant than the program's.
    """
    if result.timed_out:
        raise DeviceError(f"the interrupt must come within {launch.cycle_limit} cycles; it did not")
    if result.axi_violation is not None:
        raise DeviceError(f"the machine must keep to AXI4; it broke a rule: {result.axi_violation}")
    values = dict(zip(_READS, result.registers, strict=True))
    fingerprint = f"{_wide(values, 'fingerprint'):016x}"
    expected = launch.program.variant.fingerprint
    if values["id"] != ID_VALUE or fingerprint != expected:
        raise DeviceError(
            f"the machine must be of fingerprint {expected}; it answers {fingerprint} with ID "
            f"{values['id']:#010x}"
        )
    written = min(values["marks_written"], launch.num_marks)
    ring = result.memory[1] if launch.num_marks else b""
    marks = [_mark(ring[at : at + MARK_BYTES]) for at in range(0, written * MARK_BYTES, MARK_BYTES)]
    profile = Profile(
        device=device,
        cycles=_wide(values, "cycles"),
        beats_read=_wide(values, "beats_read"),
        beats_written=_wide(values, "beats_written"),
        units={unit: _unit_counters(values, unit) for unit in Unit},
        marks=tuple(sorted(marks, key=lambda mark: (mark.cycle, mark.unit))),
        wall_seconds=result.seconds,
    )
    error = values["error"]
    return Outcome(
        memory=result.memory[0],
        profile=profile,
        error=ErrorCode(error & 0xFF),
        unit=Unit(error >> 8 & 7),
        instruction=values["error_instruction"],
        was_reset=result.was_reset,
    )


def _wide(values: dict[str, int], name: str) -> int:
    return values[f"{name}_lo"] | values[f"{name}_hi"] << 32


def _unit_counters(values: dict[str, int], unit: Unit) -> UnitCounters:
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
