"""`MemoryModel`: parameters of the memory behind the accelerator, the same in every simulator.

Input: a preset's name (and a seed). Output: a frozen `MemoryModel` that `sim/rtl/hdl/dram.v`
(clocked) and the timing simulator (event by event) both obey.

The rules. A handshake happens *in cycle t* when valid and ready are both high at the clock edge
that ends cycle t.

1. A read burst whose AR handshake is in cycle t offers its first beat (RVALID) in cycle t +
   `read_latency_cycles` at the earliest. Latency is pipelined: every burst counts from its own AR.
2. A write burst takes data from the cycle after its AW handshake on. Its B is offered
   `write_latency_cycles` after the cycle of its last W beat, at the earliest; B are pipelined too.
3. Each direction serves one burst at a time, in the order of the address handshakes, whatever the
   IDs, one beat per cycle. So with a master that never waits, read burst n starts in cycle
   max(AR_n + latency, end of burst n-1 + 1). B come in that order as well.
4. A read burst is in flight from the cycle after its AR to the cycle of its last R beat, a write
   burst from the cycle after its AW to the cycle of its B, both inclusive. ARREADY (AWREADY) is
   high in every cycle in which fewer than `max_read_bursts` (`max_write_bursts`) are in flight.
5. With `shared_bus`, R and W together move at most one beat per cycle. A direction in the middle
   of a burst goes first; if neither or both are, the one with the turn goes first. The turn passes
   to the other direction when a burst ends (reads start with it). A beat that the first cannot use
   (no data due, WVALID low, RREADY low) is open to the other. An R beat once offered stays on
   offer, as AXI demands, and moves when RREADY comes.
6. In each cycle, channel c neither accepts nor offers anything new with odds `stall_per_256[c]` of
   256; every burst's latency grows by a random 0 to `extra_latency_cycles`. Both are drawn from
   one 64-bit xorshift generator (13, 7, 17), started at `generator_state` by reset and stepped
   every cycle: channel c looks at byte c; the extra read latency at byte 5 (in the AR's cycle),
   the extra write latency at byte 6 (in the last W beat's cycle).
7. A read beat returns the memory as it was when the beat was first offered.
8. A beat takes `beat_cycles` cycles: in the `beat_cycles` - 1 cycles after an R (W) beat has moved,
   no R beat is newly offered (no W beat accepted); with `shared_bus` neither.

A memory with `sdram` is a chip behind its controller instead, whose rules are numbered in
`hw/boards/sdram/controller.py`. It is simulated by that controller's Verilog and
`sim/rtl/hdl/sdram_chip.v`. Its other numbers say what it does at best.
"""

from dataclasses import dataclass, replace

from daedal.common.errors import UserError
from daedal.isa.sdram_chip import CHIPS
from daedal.isa.sdram_memory import BURSTS, SLOT_CYCLES, SdramMemory
from daedal.isa.sdram_slots import SlotTimes

__all__ = ["CHANNELS", "PRESETS", "MemoryModel", "MemoryModelError", "memory_model"]

CHANNELS = ("ar", "r", "aw", "w", "b")
"""AXI channels in the order of `MemoryModel.stall_per_256`."""

MAX_BURSTS = 64
"""Largest number of bursts of each kind that `dram.v` can track."""

MAX_LATENCY_CYCLES = 65535

MAX_BEAT_CYCLES = 255

_MASK64 = (1 << 64) - 1


class MemoryModelError(UserError):
    """A memory model that cannot be simulated, or an unknown preset."""


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise MemoryModelError(message)


@dataclass(frozen=True)
class MemoryModel:
    """Timing of the memory; the module docstring holds the rules.

    Attributes
    ----------
    name
        Preset the model came from; it names measurements and tuning records.
    read_latency_cycles, write_latency_cycles
        AR to first R beat, last W beat to B; at least 1, the minimum of a registered memory.
    max_read_bursts, max_write_bursts
        Bursts in flight.
    shared_bus
        Reads and writes share one beat per cycle.
    stall_per_256
        Odds of a stall per cycle and channel, in the order of `CHANNELS`.
    extra_latency_cycles
        Largest random addition to a burst's latency; 2**n - 1.
    seed
        Seeds the generator; matters only where something is random.
    beat_cycles
        Cycles that a beat takes: 1 is the full bandwidth of the bus, 2 half of it.
    sdram
        The SDRAM that the memory is, if it is one.

    Raises
    ------
    MemoryModelError
        A number is outside what the clocked model can hold.
    """

    name: str
    read_latency_cycles: int
    write_latency_cycles: int
    max_read_bursts: int
    max_write_bursts: int
    shared_bus: bool
    stall_per_256: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0)
    extra_latency_cycles: int = 0
    seed: int = 0
    beat_cycles: int = 1
    sdram: SdramMemory | None = None

    @classmethod
    def of_sdram(cls, name: str, sdram: SdramMemory) -> "MemoryModel":
        """An SDRAM. Its latencies are those until a word has moved on the pins, and from there."""
        return cls(
            name,
            sdram.least_read_cycles,
            1,
            BURSTS,
            BURSTS,
            shared_bus=True,
            beat_cycles=SLOT_CYCLES,
            sdram=sdram,
        )

    def __post_init__(self) -> None:
        for name in ("read_latency_cycles", "write_latency_cycles"):
            value = getattr(self, name)
            _require(
                1 <= value <= MAX_LATENCY_CYCLES,
                f"{name} must be 1 to {MAX_LATENCY_CYCLES}, not {value} "
                f"(memory model {self.name!r})",
            )
        for name in ("max_read_bursts", "max_write_bursts"):
            value = getattr(self, name)
            _require(
                1 <= value <= MAX_BURSTS,
                f"{name} must be 1 to {MAX_BURSTS}, not {value} (memory model {self.name!r})",
            )
        _require(
            len(self.stall_per_256) == len(CHANNELS)
            and all(0 <= odds <= 255 for odds in self.stall_per_256),
            f"stall_per_256 must be five numbers of 0 to 255, one per channel {CHANNELS}, not "
            f"{self.stall_per_256} (memory model {self.name!r})",
        )
        extra = self.extra_latency_cycles
        _require(
            0 <= extra <= 255 and extra & (extra + 1) == 0,
            f"extra_latency_cycles must be 2**n - 1 up to 255, not {extra} "
            f"(memory model {self.name!r})",
        )
        _require(
            1 <= self.beat_cycles <= MAX_BEAT_CYCLES,
            f"beat_cycles must be 1 to {MAX_BEAT_CYCLES}, not {self.beat_cycles} "
            f"(memory model {self.name!r})",
        )
        _require(
            0 <= self.seed <= _MASK64,
            f"seed must be 0 to 2**64 - 1, not {self.seed} (memory model {self.name!r})",
        )

    @property
    def built_sdram(self) -> SdramMemory | None:
        """The SDRAM that a simulator of the RTL is built with; its phase is set for each run."""
        return None if self.sdram is None else replace(self.sdram, phase_cycles=0)

    @property
    def is_random(self) -> bool:
        """Whether the seed changes anything."""
        return any(self.stall_per_256) or self.extra_latency_cycles > 0

    @property
    def generator_state(self) -> int:
        """State of the xorshift generator after reset: the seed, mixed; never 0.

        Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014
        (the SplitMix64 finalizer); xorshift needs a state with many ones to start well.
        """
        z = (self.seed + 0x9E3779B97F4A7C15) & _MASK64
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK64
        return (z ^ (z >> 31)) or 1


def _board_sdram(part: str) -> SdramMemory:
    """A chip at the fastest clock of its grade, behind pads with a register each way."""
    chip = CHIPS[part]
    return SdramMemory(SlotTimes.of(chip, 1e9 / chip.clock_ns), capture_clocks=3)


PRESETS: dict[str, MemoryModel] = {
    model.name: model
    for model in (
        MemoryModel("ideal", 1, 1, MAX_BURSTS, MAX_BURSTS, shared_bus=False),
        MemoryModel("ddr", 64, 32, 16, 16, shared_bus=True),
        MemoryModel("slow", 128, 64, 16, 16, shared_bus=True, beat_cycles=2),
        MemoryModel(
            "jitter",
            8,
            4,
            16,
            16,
            shared_bus=True,
            stall_per_256=(64, 64, 64, 64, 64),
            extra_latency_cycles=31,
        ),
        MemoryModel.of_sdram("ulx3s", _board_sdram("IS42S16160G-7")),
    )
}
"""Memory models by name; `ddr` is the default everywhere, `slow` has half its bandwidth and twice
its latency. `ulx3s` is the SDRAM of that board."""


def memory_model(name: str, seed: int = 0) -> MemoryModel:
    """Return the preset `name` with `seed`.

    Raises
    ------
    MemoryModelError
        There is no such preset.
    """
    if name not in PRESETS:
        raise MemoryModelError(
            f"memory must be one of {', '.join(PRESETS)}, not {name!r}; name one of them"
        )
    return replace(PRESETS[name], seed=seed)
