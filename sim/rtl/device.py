"""The RTL device: the emitted Verilog of a variant behind the `Device` protocol.

Every launch is a separate simulation: scratchpads start at zero, memory holds what the host wrote
and earlier launches left.
"""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from daedal.common.errors import DeviceError
from daedal.common.reporting import log
from daedal.isa.memory_model import PRESETS, MemoryModel
from daedal.isa.profile import Profile
from daedal.isa.program import Program
from daedal.isa.sdram_memory import SdramMemory
from daedal.isa.variant import Variant
from daedal.native.caches.place import cache_folder
from daedal.sim.host_memory import HostMemory
from daedal.sim.rtl.build import Built, SdramText, build_simulator
from daedal.sim.rtl.job import RunProgress
from daedal.sim.rtl.launch import Launch, Outcome, launch_job, launch_outcome
from daedal.sim.rtl.run import run_jobs
from daedal.sim.rtl.sdram import sdram_macros
from daedal.sim.rtl.toolchain import require_tools
from daedal.sim.rtl.verilog import kept_sdram_verilog, kept_verilog

__all__ = ["RtlDevice", "default_cache_dir"]

_LEAST_BYTES = {"native": 1 << 26, "verilator": 1 << 26, "icarus": 1 << 21}
"""Minimum size of the simulated memory, so that one build serves almost every program."""


def default_cache_dir() -> Path:
    """Folder that keeps built simulators: that of the user, or a temporary one."""
    return cache_folder("rtl")


class RtlDevice(HostMemory):
    """A cycle-accurate machine.

    Parameters
    ----------
    variant
        The machine; its Verilog is emitted and built at the first launch (or by `build`).
    timing
        Memory model behind the bus.
    simulator
        One of `daedal.sim.rtl.build.SIMULATORS`; all count the same cycles. Where not given:
        ``native``, the fastest, or ``verilator`` when a waveform is asked for.
    cache_dir
        Keeps built simulators; `default_cache_dir` where not given.
    work_dir
        Scratch of runs under cocotb, and where a waveform stays; a temporary folder where not
        given.
    report
        Called with one sentence before each long step; where not given, sentences go to the log
        ``daedal`` at level INFO.
    progress
        Called while programs run.
    wave
        ``(begin, end)`` cycles of each launch to record in ``work_dir/wave.vcd``.
    assertions
        The machine checks its own contracts (`hw.contracts`), and a launch in which one is broken
        is a DeviceError; slower. Not with `verilog`.
    verilog
        Another text of the same machine, such as its synthesized netlist; by default what
        `hw` emits for the variant.
    controller
        The same for the controller of an SDRAM.
    """

    def __init__(
        self,
        variant: Variant,
        *,
        timing: MemoryModel = PRESETS["ddr"],
        simulator: str | None = None,
        cache_dir: Path | None = None,
        work_dir: Path | None = None,
        report: Callable[[str], None] | None = None,
        progress: Callable[[RunProgress], None] | None = None,
        wave: tuple[int, int] | None = None,
        assertions: bool = False,
        verilog: str | None = None,
        controller: Callable[[SdramMemory], str] | None = None,
    ) -> None:
        super().__init__(variant)
        self._timing = timing
        self._simulator = simulator or ("native" if wave is None else "verilator")
        self._cache_dir = cache_dir if cache_dir is not None else default_cache_dir()
        self._work_dir = work_dir
        self._report = report or log
        self._progress = progress
        self._wave = wave
        self._assertions = assertions
        self._verilog = verilog
        self._controller = controller or self._emitted_controller
        self._built: dict[SdramMemory | None, Built] = {}

    @property
    def name(self) -> str:
        """``rtl``."""
        return "rtl"

    def launch(self, program: Program, bases: Sequence[int]) -> Profile:
        """Run to the interrupt. Raises DeviceError when the machine reports an error."""
        program.check_launch(self._variant, "the RTL simulation", bases)
        memory = self._memory.tobytes()
        with self._last.then(program) as running:
            # A simulation begins with empty scratchpads: what the last launch left is loaded again.
            before = [program.setup_alone] if running is not program else []
            outcomes = self.launch_each(
                [
                    Launch(item, tuple(bases), memory, timing=self._timing, wave=wave)
                    for item, wave in (*((item, None) for item in before), (running, self._wave))
                ]
            )
            for outcome in outcomes:
                outcome.check()
        self.write(0, outcomes[-1].memory)
        return outcomes[-1].profile

    def launch_each(self, launches: Sequence[Launch]) -> list[Outcome]:
        """Run launches, each with its own memory, one after the other in one simulation.

        The machine is reset between them; what it reports is returned, not raised.
        """
        size_bytes = max((launch.size_bytes for launch in launches), default=0)
        sdrams = {launch.timing.built_sdram for launch in launches}
        if len(sdrams) > 1:
            raise DeviceError("launches of one simulation must have one kind of memory behind them")
        built = self._build(size_bytes, *sdrams)
        jobs = [launch_job(launch) for launch in launches]
        if self._work_dir is not None:
            results = run_jobs(built, jobs, work_dir=self._work_dir, progress=self._progress)
        else:
            with tempfile.TemporaryDirectory(prefix="daedal-") as folder:
                results = run_jobs(built, jobs, work_dir=Path(folder), progress=self._progress)
        return [
            launch_outcome(launch, result, self.name)
            for launch, result in zip(launches, results, strict=True)
        ]

    def build(self, size_bytes: int = 0) -> Built:
        """Build a simulator with at least that much memory, or return it from the cache."""
        return self._build(size_bytes, self._timing.built_sdram)

    def _build(self, size_bytes: int, sdram: SdramMemory | None = None) -> Built:
        bus = self._variant.bus
        if sdram is not None:
            sdram.check(self._variant, size_bytes)
            needed = sdram.chip.size_bytes
        else:
            needed = max(size_bytes, _LEAST_BYTES.get(self._simulator, 0))
        words = 1 << (-(-needed // self._variant.bus_bytes) - 1).bit_length()
        built = self._built.get(sdram)
        if built is None or built.words < words:
            require_tools(self._simulator)
            if self._verilog is None:
                self._verilog = kept_verilog(
                    self._variant, self._cache_dir, self._report, assertions=self._assertions
                )
            built = build_simulator(
                self._verilog,
                data_bits=bus.data_bits,
                addr_bits=bus.address_bits,
                words=words,
                cache_dir=self._cache_dir,
                simulator=self._simulator,
                waves=self._wave is not None,
                sdram=None
                if sdram is None
                else SdramText(sdram, self._controller(sdram), sdram_macros(sdram)),
                progress=self._report,
            )
            self._built[sdram] = built
        return built

    def _emitted_controller(self, sdram: SdramMemory) -> str:
        return kept_sdram_verilog(
            self._variant, sdram, self._cache_dir, self._report, assertions=self._assertions
        )
