"""A device that runs every launch on both sides and keeps where they part."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from daedal.isa.memory_model import PRESETS, MemoryModel
from daedal.isa.profile import Profile
from daedal.isa.program import Program
from daedal.isa.protocols import PAGE_BYTES
from daedal.isa.variant import Variant
from daedal.sim.rtl.device import default_cache_dir
from daedal.sim.rtl.launch import WATCHDOG_CYCLES, Launch
from daedal.sim.trace.trace import Trace, trace_launch

__all__ = ["TraceDevice"]


class TraceDevice:
    """The functional simulator with the RTL at its side; results are the functional ones.

    Once a launch has shown a difference, further ones do nothing.

    Parameters
    ----------
    variant
        The machine.
    timing
        Memory model behind the RTL's bus.
    simulator, cache_dir, verilog
        As in `sim.rtl.observer.observe_launch`; the default folder is the RTL device's.
    watchdog_cycles
        Cycles without progress that end a run of the RTL.
    report
        Called with one sentence before each long step.
    """

    def __init__(
        self,
        variant: Variant,
        *,
        timing: MemoryModel = PRESETS["ddr"],
        simulator: str = "verilator",
        cache_dir: Path | None = None,
        verilog: str | None = None,
        watchdog_cycles: int = WATCHDOG_CYCLES,
        report: Callable[[str], None] | None = None,
    ) -> None:
        self._variant = variant
        self._timing = timing
        self._simulator = simulator
        self._cache_dir = cache_dir if cache_dir is not None else default_cache_dir()
        self._verilog = verilog
        self._watchdog_cycles = watchdog_cycles
        self._report = report
        self._memory = bytearray()
        self.traces: list[Trace] = []

    @property
    def name(self) -> str:
        """``trace``."""
        return "trace"

    @property
    def variant(self) -> Variant:
        """The machine's variant."""
        return self._variant

    def alloc(self, size_bytes: int) -> int:
        """Address of a new region."""
        address = len(self._memory)
        self._memory.extend(bytes(-(-max(size_bytes, 1) // PAGE_BYTES) * PAGE_BYTES))
        return address

    def write(self, address: int, data: bytes) -> None:
        """Copy into memory."""
        assert address + len(data) <= len(self._memory), "writes must stay within allocated regions"
        self._memory[address : address + len(data)] = data

    def read(self, address: int, size_bytes: int) -> bytes:
        """Copy out of memory."""
        return bytes(self._memory[address : address + size_bytes])

    def launch(self, program: Program, bases: Sequence[int]) -> Profile:
        """Run on both sides; `traces` has what came of it. Raises as `trace_launch`."""
        program.check_variant(self._variant, "the trace")
        if any(trace.difference is not None for trace in self.traces):
            return Profile(device=self.name)
        launch = Launch(
            program,
            tuple(bases),
            bytes(self._memory),
            timing=self._timing,
            watchdog_cycles=self._watchdog_cycles,
        )
        with tempfile.TemporaryDirectory(prefix="daedal-") as folder:
            trace = trace_launch(
                launch,
                cache_dir=self._cache_dir,
                work_dir=Path(folder),
                simulator=self._simulator,
                verilog=self._verilog,
                report=self._report,
            )
        self.traces.append(trace)
        self._memory[:] = trace.memory
        return Profile(device=self.name, cycles=trace.cycles)
