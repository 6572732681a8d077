"""Figures of compiled programs: the one way from launches to cycles and bytes.

Input: programs. Output: `Figures`, counted on the cycle model with memory preset `ddr`. They are
exact, the same on every machine, and do not depend on the data.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from daedal.isa.profile import Profile
from daedal.isa.program import Program
from daedal.runtime.driver import LoadedProgram
from daedal.sim.timing.device import TimingDevice

__all__ = ["Figures", "bytes_moved", "figures_of"]


@dataclass(frozen=True)
class Figures:
    """Of all launches of one run.

    Parameters
    ----------
    bytes_moved : over the bus, in whole words, with instructions, micro-ops and constants.
    """

    cycles: int
    launches: int
    instructions: int
    bytes_moved: int


def figures_of(programs: Iterable[Program]) -> Figures:
    """Figures of a run of these launches, each on a device of its own, the host's time left out."""
    launches = list(programs)
    profiles = [_launched(program) for program in launches]
    return Figures(
        cycles=sum(profile.cycles or 0 for profile in profiles),
        launches=len(launches),
        instructions=sum(len(program.instructions) for program in launches),
        bytes_moved=sum(
            bytes_moved(profile, program)
            for profile, program in zip(profiles, launches, strict=True)
        ),
    )


def bytes_moved(profile: Profile, program: Program) -> int:
    """Over the bus, in whole words."""
    return (profile.beats_read + profile.beats_written) * program.variant.bus_bytes


def _launched(program: Program) -> Profile:
    device = TimingDevice(program.variant)
    loaded = LoadedProgram.place(program, device)
    return device.launch(program, loaded.bases)
