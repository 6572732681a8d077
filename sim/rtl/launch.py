"""Converts one launch into a `Job`, and the job's result into memory and a `Profile`.

Input: a program, the addresses of its regions, and external memory. Output: control writes for the
harness; after the run the memory, the counters and the marks, or a `DeviceError` with what the
machine reported.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from daedal.common.errors import DeviceError
from daedal.isa.memory_model import PRESETS, MemoryModel
from daedal.isa.program import Program
from daedal.isa.protocols import next_page
from daedal.isa.registers import DRAIN_LIMIT_CYCLES, MARK_BYTES, register
from daedal.isa.run_registers import (
    REPORT_REGISTERS,
    START,
    WATCHDOG_CYCLES,
    RunPlacement,
    RunReport,
    check_identity,
    num_marked,
    read_report,
    setup_writes,
)
from daedal.isa.table import instruction_bytes
from daedal.sim.rtl.intervention import RESET_CYCLES, Intervention
from daedal.sim.rtl.job import Faults, Job, RawResult

__all__ = ["Launch", "Outcome", "launch_job", "launch_outcome"]


@dataclass(frozen=True)
class Launch:
    """A program with everything needed to run it.

    Attributes
    ----------
    memory
        Contents of external memory from byte 0, regions included; instructions and marks are
        placed after it.
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
    drain_limit_cycles: int = DRAIN_LIMIT_CYCLES
    cycle_limit: int = 2_000_000_000
    wave: tuple[int, int] | None = None
    abort_at: int | None = None
    reset_at: int | None = None
    reset_cycles: int = RESET_CYCLES

    @property
    def program_address(self) -> int:
        """Byte address of the instructions."""
        return next_page(len(self.memory))

    @property
    def marks_address(self) -> int:
        """Byte address of the ring of mark records."""
        size = len(self.program.instructions) * instruction_bytes(self.program.variant)
        return next_page(self.program_address + size)

    @property
    def num_marks(self) -> int:
        """Number of marked instructions; the ring holds one record of each."""
        return num_marked(self.program) if self.with_marks else 0

    @property
    def size_bytes(self) -> int:
        """Memory that the launch needs."""
        return self.marks_address + self.num_marks * MARK_BYTES


@dataclass(frozen=True)
class Outcome(RunReport):
    """Result of a launch: the machine's report, and memory of the extent of `Launch.memory`.

    After a reset, the machine has no record of the run.
    """

    memory: bytes
    was_reset: bool = False

    def check(self) -> None:
        """Raise DeviceError unless the run succeeded."""
        if self.was_reset:
            raise DeviceError("the machine must run to its end; it was reset in the middle")
        super().check()


def launch_job(launch: Launch) -> Job:
    """Describe `launch` to the harness."""
    code = launch.program.encode()
    placement = RunPlacement(
        launch.program_address, launch.bases, launch.marks_address, launch.num_marks
    )
    dumps = [(0, len(launch.memory))]
    if launch.num_marks:
        dumps.append((launch.marks_address, launch.num_marks * MARK_BYTES))
    return Job(
        start=START,
        image=((0, launch.memory), (launch.program_address, code)),
        writes=setup_writes(
            launch.program, placement, launch.watchdog_cycles, launch.drain_limit_cycles
        ),
        reads=tuple(register(name).offset for name in REPORT_REGISTERS),
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
    """Interpret `result`.

    Raises DeviceError where the simulation itself went wrong: no interrupt in time, a broken AXI
    rule, or a machine of another variant than the program's.
    """
    if result.timed_out:
        raise DeviceError(f"the interrupt must come within {launch.cycle_limit} cycles; it did not")
    if result.axi_violation is not None:
        raise DeviceError(f"the machine must keep to AXI4; it broke a rule: {result.axi_violation}")
    values = dict(zip(REPORT_REGISTERS, result.registers, strict=True))
    check_identity(values, launch.program.variant)
    ring = result.memory[1] if launch.num_marks else b""
    report = read_report(values, ring, device=device, wall_seconds=result.seconds)
    return Outcome(
        report.profile,
        report.error,
        report.unit,
        report.instruction,
        memory=result.memory[0],
        was_reset=result.was_reset,
    )
