"""Runs random programs on a board, and compares memory with the functional simulator's.

Input: a connected board. Output: a `ProgramsReport`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from daedal.common.errors import DeviceError
from daedal.isa.known_scratchpads import known_scratchpads
from daedal.isa.protocols import Device
from daedal.isa.random_programs import RandomProgram, random_program
from daedal.runtime.devices.register_device import RegisterDevice
from daedal.runtime.driver import LoadedProgram
from daedal.sim.functional.device import FunctionalDevice

__all__ = ["ProgramsReport", "run_random_programs"]

_REGIONS = range(1, 4)
"""All but the constants, which no program writes."""


@dataclass(frozen=True)
class ProgramsReport:
    """Random programs that ran on the board, and the seeds of those that left wrong bytes.

    `failure` is what the device said instead of ending a program.
    """

    num_run: int
    wrong: tuple[int, ...]
    failure: str = ""

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.wrong or self.failure)


def run_random_programs(
    board: RegisterDevice,
    seeds: Sequence[int],
    *,
    progress: Callable[[str], None] = lambda _step: None,
) -> ProgramsReport:
    """Run a program of each seed. Memory and scratchpads lose their contents."""
    variant = board.variant
    simulator = FunctionalDevice(variant)
    wrong: list[int] = []
    # Nobody knows what the scratchpads hold: the first program loads what the others may read.
    start = known_scratchpads(variant, seeds[0] if seeds else 0)
    for number, case in enumerate((start, *(random_program(variant, seed) for seed in seeds))):
        progress(f"running random programs: {number} of {len(seeds)} done")
        expected = _memory_after(simulator, case)
        try:
            found = _memory_after(_afresh(board), case)
        except DeviceError as error:
            return ProgramsReport(number, tuple(wrong), f"seed {case.seed}: {error}")
        if found != expected:
            wrong.append(case.seed)
    return ProgramsReport(len(seeds), tuple(wrong))


def _afresh(board: RegisterDevice) -> RegisterDevice:
    """The same board, with nothing allocated."""
    memory = board.memory
    return RegisterDevice(
        board.port,
        board.variant,
        name=board.name,
        memory_base=memory.start,
        memory_bytes=len(memory),
    )


def _memory_after(device: Device, case: RandomProgram) -> list[bytes]:
    """Inputs, outputs and workspace after a run."""
    loaded = LoadedProgram.place(case.program, device)
    for region, data in case.contents.items():
        loaded.write_region(region, data)
    device.launch(case.program, loaded.bases)
    return [loaded.read_region(region) for region in _REGIONS]
