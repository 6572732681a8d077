"""A device that runs every launch on both simulators and keeps their first difference."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from daedal.common.errors import UserError
from daedal.isa.memory_model import PRESETS, MemoryModel
from daedal.isa.profile import Profile
from daedal.isa.program import Program
from daedal.isa.run_registers import WATCHDOG_CYCLES
from daedal.isa.variant import Variant
from daedal.sim.host_memory import HostMemory
from daedal.sim.rtl.device import default_cache_dir
from daedal.sim.rtl.launch import Launch
from daedal.sim.trace.trace import Trace, trace_launch

__all__ = ["TraceDevice"]


class TraceDevice(HostMemory):
    """The functional simulator and the RTL together; results are the functional simulator's.

    Once a launch has shown a difference, later launches do nothing.

    Parameters
    ----------
    variant
        The machine.
    timing
        Memory model behind the RTL's bus.
    simulator, cache_dir, assertions, verilog
        As in `sim.rtl.observer.observe_launch`; the default folder is the RTL device's.
    watchdog_cycles
        Watchdog timeout of the RTL: cycles without progress after which its run ends.
    report
        Called with one sentence before each long step.

    Raises
    ------
    UserError
        The memory is an SDRAM.
    """

    def __init__(
        self,
        variant: Variant,
        *,
        timing: MemoryModel = PRESETS["ddr"],
        simulator: str = "verilator",
        cache_dir: Path | None = None,
        assertions: bool = False,
        verilog: str | None = None,
        watchdog_cycles: int = WATCHDOG_CYCLES,
        report: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(variant)
        if timing.sdram is not None:
            raise UserError(
                f"a trace must have another memory than an SDRAM, not {timing.name!r}: its "
                "simulators have none; choose ddr"
            )
        self._timing = timing
        self._simulator = simulator
        self._cache_dir = cache_dir if cache_dir is not None else default_cache_dir()
        self._assertions = assertions
        self._verilog = verilog
        self._watchdog_cycles = watchdog_cycles
        self._report = report
        self.traces: list[Trace] = []

    @property
    def name(self) -> str:
        """``trace``."""
        return "trace"

    def launch(self, program: Program, bases: Sequence[int]) -> Profile:
        """Run on both sides; appends the result to `traces`. Raises as `trace_launch`."""
        program.check_launch(self._variant, "the trace", bases)
        if any(trace.difference is not None for trace in self.traces):
            return Profile(device=self.name)
        launch = Launch(
            program,
            tuple(bases),
            self._memory.tobytes(),
            timing=self._timing,
            watchdog_cycles=self._watchdog_cycles,
        )
        with tempfile.TemporaryDirectory(prefix="daedal-") as folder:
            trace = trace_launch(
                launch,
                cache_dir=self._cache_dir,
                work_dir=Path(folder),
                simulator=self._simulator,
                assertions=self._assertions,
                verilog=self._verilog,
                report=self._report,
            )
        self.traces.append(trace)
        self.write(0, trace.memory)
        return Profile(device=self.name, cycles=trace.cycles)
