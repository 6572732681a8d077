"""Figures of compiled programs: the one way from launches to cycles and bytes.

Input: programs. Output: `Figures`, counted on the cycle model, with memory preset `ddr` unless said
otherwise. They are exact, the same on every machine, and do not depend on the data.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from daedal.codesign.cycles.work import Work
from daedal.isa.memory_model import PRESETS, MemoryModel
from daedal.isa.profile import Profile
from daedal.isa.program import Program
from daedal.runtime.driver import LoadedProgram
from daedal.sim.timing.device import TimingDevice

__all__ = ["Figures", "bytes_moved", "figures_of", "figures_on_board", "launched", "with_units"]

DDR = PRESETS["ddr"]


@dataclass(frozen=True)
class Figures:
    """Of all launches of one run.

    Parameters
    ----------
    bytes_moved : over the bus, in whole words, with instructions, micro-ops and constants.
    starved : cycles in which units wait for instructions, all units together, where it is asked for
        (`bench.networks.starvation`).
    memory_bytes : of whole networks: what the memory plan takes for tensors that neither enter nor
        leave a launch.
    macs, computed_macs, exposed : of transformers: the model's multiply-accumulates in the
        launches, those that are computed, and cycles of norms and attention without products
        (`bench.networks.transformer_cycles`).
    products, vectors : on boards: cycles in which GEMM starts a product, and in which the ALU is
        busy.
    """

    cycles: int
    launches: int
    instructions: int
    bytes_moved: int
    starved: int | None = None
    memory_bytes: int | None = None
    macs: int | None = None
    computed_macs: int | None = None
    exposed: int | None = None
    products: int | None = None
    vectors: int | None = None


def figures_of(programs: Iterable[Program], timing: MemoryModel = DDR) -> Figures:
    """Figures of a run of these launches, each on a device of its own, the host's time left out."""
    launches = list(programs)
    return _summed(launches, [launched(program, timing) for program in launches])


def figures_on_board(programs: Iterable[Program], timing: MemoryModel) -> Figures:
    """The same, with what GEMM and the ALU do."""
    launches = list(programs)
    profiles = [launched(program, timing) for program in launches]
    return with_units(_summed(launches, profiles), profiles)


def _summed(launches: Sequence[Program], profiles: Sequence[Profile]) -> Figures:
    return Figures(
        cycles=sum(profile.cycles or 0 for profile in profiles),
        launches=len(launches),
        instructions=sum(len(program.instructions) for program in launches),
        bytes_moved=sum(
            bytes_moved(profile, program)
            for profile, program in zip(profiles, launches, strict=True)
        ),
    )


def with_units(figures: Figures, profiles: Iterable[Profile]) -> Figures:
    """The figures of a board: with what GEMM and the ALU do in all launches."""
    work = [Work.of(profile) for profile in profiles]
    return replace(
        figures,
        products=int(sum(item.products for item in work)),
        vectors=int(sum(item.vectors for item in work)),
    )


def bytes_moved(profile: Profile, program: Program) -> int:
    """Over the bus, in whole words."""
    return (profile.beats_read + profile.beats_written) * program.variant.bus_bytes


def launched(program: Program, timing: MemoryModel = DDR) -> Profile:
    """A run on a cycle model of its own."""
    device = TimingDevice(program.variant, timing=timing)
    loaded = LoadedProgram.place(program, device)
    return device.launch(program, loaded.bases)
