"""The timing device: counts what a launch costs, in milliseconds, and computes no data."""

from collections.abc import Sequence

from daedal.common.errors import DeviceError
from daedal.isa.memory_model import PRESETS, MemoryModel
from daedal.isa.profile import Profile
from daedal.isa.program import Program
from daedal.isa.protocols import Device
from daedal.isa.variant import Variant
from daedal.sim.functional.device import FunctionalDevice
from daedal.sim.host_memory import HostMemory
from daedal.sim.timing.count import DEVICE, count_cycles

__all__ = ["TimingDevice", "timing_with_values"]


class TimingDevice(HostMemory):
    """The cycle model behind the `Device` protocol.

    Its profile is the RTL's: cycles, classes of every unit, bus words, and marks. Of a machine
    without counters it has classes and marks, too. Programs must pass `isa.verifier.verify`.
    Micro-ops are read from memory as it is at launch time.

    Parameters
    ----------
    variant
        The machine.
    timing
        Memory model behind the bus; must not have random delays.
    values
        A device of the same variant that computes results: reads come from it, and every launch
        runs on both. Without one, reading is an error.
    """

    def __init__(
        self,
        variant: Variant,
        *,
        timing: MemoryModel = PRESETS["ddr"],
        values: Device | None = None,
    ) -> None:
        super().__init__(variant)
        self._timing = timing
        self._values = values

    @property
    def name(self) -> str:
        """``timing``."""
        return DEVICE

    def alloc(self, size_bytes: int) -> int:
        """Address of a new region."""
        address = super().alloc(size_bytes)
        if self._values is not None:
            beside = self._values.alloc(size_bytes)
            assert beside == address, "both devices place regions alike"
        return address

    def write(self, address: int, data: bytes) -> None:
        """Copy into memory."""
        super().write(address, data)
        if self._values is not None:
            self._values.write(address, data)

    def read(self, address: int, size_bytes: int) -> bytes:
        """Copy out of the memory of the `values` device. Raises DeviceError where there is none."""
        if self._values is None:
            raise DeviceError(
                "results must be read from a device that computes them; the timing device only "
                "counts: pair it with a functional one (values=FunctionalDevice(variant))"
            )
        return self._values.read(address, size_bytes)

    def launch(self, program: Program, bases: Sequence[int]) -> Profile:
        """Count the cycles to the interrupt. Raises DeviceError as `count_cycles` does."""
        program.check_launch(self._variant, "the timing device", bases)
        with self._last.then(program) as running:
            profile = count_cycles(running, bases, self._memory, self._timing).profile
        if self._values is not None:
            self._values.launch(program, bases)
        return profile


def timing_with_values(variant: Variant, *, timing: MemoryModel = PRESETS["ddr"]) -> TimingDevice:
    """A timing device paired with a functional one: results and their cycles."""
    return TimingDevice(variant, timing=timing, values=FunctionalDevice(variant))
