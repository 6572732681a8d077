"""`Job` and `RawResult`: one launch on the RTL, described in bytes and control registers.

Registers and addresses are plain numbers here; the `rtl` device knows their meaning.
"""

from dataclasses import dataclass, field

from daedal.common.errors import ProgramError
from daedal.isa.memory_model import CHANNELS, PRESETS, MemoryModel
from daedal.sim.rtl.intervention import Intervention, OpenBursts

__all__ = ["AXI_RULES", "Faults", "Job", "RawResult", "RunProgress"]

AXI_RULES = {
    1: "AR changed or fell before ARREADY",
    2: "AW changed or fell before AWREADY",
    3: "W changed or fell before WREADY",
    4: "a read burst is not INCR of the full bus width",
    5: "a write burst is not INCR of the full bus width",
    6: "a read burst is longer than 32 beats",
    7: "a write burst is longer than 32 beats",
    8: "a read burst crosses 4 KiB",
    9: "a write burst crosses 4 KiB",
    10: "a read address is not aligned to the bus",
    11: "a write address is not aligned to the bus",
    12: "WLAST is not on the burst's last beat",
}
"""Meanings of the codes of `hdl/axi_rules.v`."""

RESPONSES = {None: 0, "SLVERR": 2, "DECERR": 3}


@dataclass(frozen=True)
class Faults:
    """Errors that the memory injects.

    Attributes
    ----------
    first_byte, last_byte
        Address range (inclusive, whole bus words) that answers `read_response` and
        `write_response`: None, ``"SLVERR"`` or ``"DECERR"``. Failing writes change nothing.
    stop_channels
        Channels (`CHANNELS`) that fall silent for good once `stop_after_beats` R and W beats
        have moved since reset.
    """

    first_byte: int = 0
    last_byte: int = 0
    read_response: str | None = None
    write_response: str | None = None
    stop_channels: tuple[str, ...] = ()
    stop_after_beats: int = 0

    def __post_init__(self) -> None:
        for response in (self.read_response, self.write_response):
            if response not in RESPONSES:
                raise ProgramError(
                    f"a fault's response must be None, 'SLVERR' or 'DECERR', not {response!r}"
                )
        for channel in self.stop_channels:
            if channel not in CHANNELS:
                raise ProgramError(f"stop_channels must be among {CHANNELS}, not {channel!r}")


@dataclass(frozen=True)
class Job:
    """One launch.

    Attributes
    ----------
    image
        ``(byte address, bytes)`` pieces of memory; later pieces win where they overlap.
    start
        ``(register address, value)``: the write that starts the machine and the cycle count.
    writes
        Control writes before it, in order.
    reads
        Register addresses to read after the interrupt or the timeout, in order.
    dumps
        ``(byte address, size_bytes)`` of memory to bring back.
    cycle_limit
        Cycles after the start write at which the launch times out.
    clear_memory
        Zero all memory first; otherwise it stays as the previous job of the same run left it
        (undefined for the first).
    reset_before
        Reset machine and memory model first. Required wherever `memory` or `faults` differ from
        those of the job before, since their state must be initialized again.
    reset_memory
        With `reset_before`: the memory model is reset as well. Otherwise it continues its open
        bursts.
    wave
        ``(begin, end)`` cycles after the start write to record, half open.
    interventions
        Host actions while the program runs, in the order of their cycles; a reset must be the last.
    """

    start: tuple[int, int]
    image: tuple[tuple[int, bytes], ...] = ()
    writes: tuple[tuple[int, int], ...] = ()
    reads: tuple[int, ...] = ()
    dumps: tuple[tuple[int, int], ...] = ()
    memory: MemoryModel = PRESETS["ddr"]
    faults: Faults = field(default_factory=Faults)
    cycle_limit: int = 100_000_000
    clear_memory: bool = True
    reset_before: bool = True
    reset_memory: bool = True
    wave: tuple[int, int] | None = None
    interventions: tuple[Intervention, ...] = ()

    def check(self, size_bytes: int) -> None:
        """Raise ProgramError where image or dumps leave a memory of `size_bytes`."""
        pieces = [(address, len(data), "image") for address, data in self.image]
        pieces += [(address, size, "dump") for address, size in self.dumps]
        for address, size, what in pieces:
            if address < 0 or size < 0 or address + size > size_bytes:
                raise ProgramError(
                    f"the simulated memory has {size_bytes} bytes, but the {what} at {address:#x} "
                    f"has {size}; build the simulator with more memory"
                )
        if self.memory.sdram is not None and self.faults != Faults():
            raise ProgramError(f"faults need another memory than an SDRAM, {self.memory.name!r}")
        if self.cycle_limit < 1:
            raise ProgramError(f"cycle_limit must be at least 1, not {self.cycle_limit}")
        if self.wave is not None and not 0 <= self.wave[0] < self.wave[1]:
            raise ProgramError(f"a wave window must be begin < end from 0 on, not {self.wave}")
        cycles = [item.at_cycle for item in self.interventions]
        if cycles != sorted(cycles):
            raise ProgramError(f"interventions come in the order of their cycles, not {cycles}")
        if any(item.write is None for item in self.interventions[:-1]):
            raise ProgramError("a reset ends the run: it must be the last intervention")

    def settings(self) -> dict[str, int]:
        """Values of the harness's registers that describe memory model, faults and waveform."""
        model, faults = self.memory, self.faults
        return {
            "cfg_read_latency": model.read_latency_cycles,
            "cfg_write_latency": model.write_latency_cycles,
            "cfg_max_reads": model.max_read_bursts,
            "cfg_max_writes": model.max_write_bursts,
            "cfg_shared": int(model.shared_bus),
            "cfg_beat_cycles": model.beat_cycles,
            "cfg_stall": sum(odds << 9 * place for place, odds in enumerate(model.stall_per_256)),
            "cfg_extra_latency": model.extra_latency_cycles,
            "cfg_seed": model.generator_state,
            "cfg_phase": model.sdram.phase_cycles if model.sdram else 0,
            "fault_first": faults.first_byte,
            "fault_last": faults.last_byte,
            "fault_read_resp": RESPONSES[faults.read_response],
            "fault_write_resp": RESPONSES[faults.write_response],
            "fault_stop_channels": sum(1 << CHANNELS.index(name) for name in faults.stop_channels),
            "fault_stop_beats": faults.stop_after_beats,
            "wave_begin": self.wave[0] if self.wave else 0,
            "wave_end": self.wave[1] if self.wave else 0,
        }


@dataclass(frozen=True)
class RunProgress:
    """Progress of a run: jobs finished, jobs in all, cycles of the current job."""

    num_done: int
    num_jobs: int
    cycles: int


@dataclass(frozen=True)
class RawResult:
    """What one launch left behind.

    Attributes
    ----------
    cycles
        Clock cycles from the edge that accepted the start write to the edge that saw the interrupt
        rise; the limit where `timed_out`; the cycle of the reset where `was_reset`.
    registers
        Values in the order of `Job.reads`.
    memory
        Bytes in the order of `Job.dumps`.
    axi_violation
        First protocol rule the machine broke (see `AXI_RULES`), or None.
    seconds
        Wall clock between start write and interrupt: simulation only.
    open_bursts
        At each intervention that took place, and at the end of the run.
    was_reset
        A reset ended the run; registers are those after it.
    """

    cycles: int
    timed_out: bool
    registers: tuple[int, ...]
    memory: tuple[bytes, ...]
    axi_violation: str | None
    seconds: float
    open_bursts: tuple[OpenBursts, ...] = ()
    was_reset: bool = False

    @property
    def cycles_per_second(self) -> float:
        """Simulated cycles per second of wall clock."""
        return self.cycles / self.seconds if self.seconds > 0 else 0.0
