"""The ``uio`` device: a machine in the FPGA of a Zynq, driven from Linux on its processor.

Registers and interrupt are accessed through UIO, memory through u-dma-buf; no kernel driver of our
own is needed. docs/zynq.md describes the setup of a board.
"""

from collections.abc import Sequence
from pathlib import Path

from daedal.isa.variant import Variant
from daedal.runtime.devices.dma_buffer import DmaBuffer
from daedal.runtime.devices.register_device import RegisterDevice
from daedal.runtime.devices.uio_registers import UioRegisters

__all__ = ["UioDevice", "UioPort"]


class UioPort:
    """A `Port` of UIO registers and a DMA buffer."""

    def __init__(self, registers: UioRegisters, memory: DmaBuffer) -> None:
        self._registers = registers
        self._memory = memory

    def read_registers(self, offsets: Sequence[int]) -> list[int]:
        """The values of 32-bit registers."""
        return self._registers.read(offsets)

    def write_registers(self, writes: Sequence[tuple[int, int]]) -> None:
        """Write ``(offset, 32-bit value)`` in order."""
        self._registers.write(writes)

    def read_memory(self, address: int, size_bytes: int) -> bytes:
        """Copy out of the buffer."""
        return self._memory.read(address, size_bytes)

    def write_memory(self, address: int, data: bytes) -> None:
        """Copy into the buffer."""
        self._memory.write(address, data)

    def update_memory(self, address: int, data: bytes) -> None:
        """Copy into the buffer."""
        self._memory.write(address, data)

    def wait_interrupt(self, seconds: float) -> None:
        """Wait for the interrupt, or for the timeout `seconds`."""
        self._registers.wait(seconds)

    def close(self) -> None:
        """Leave registers and buffer to others."""
        self._registers.close()
        self._memory.close()


class UioDevice(RegisterDevice):
    """The machine behind a UIO device and a u-dma-buf buffer.

    Parameters
    ----------
    variant
        The machine's variant.
    registers
        UIO device of the control registers.
    interrupt
        UIO device of the interrupt, if it is a separate one.
    memory
        u-dma-buf device that all regions are placed in.
    timeout_seconds
        Longest run.
    sysfs
        Mount point of sysfs.

    Raises
    ------
    UserError
        A path is not such a device.
    DeviceError
        There is no machine, or it is of another variant.
    """

    def __init__(
        self,
        variant: Variant,
        *,
        registers: str = "/dev/uio0",
        interrupt: str | None = None,
        memory: str = "/dev/udmabuf0",
        timeout_seconds: float = 60.0,
        sysfs: str = "/sys",
    ) -> None:
        root = Path(sysfs)
        buffer = DmaBuffer(Path(memory), root)
        words = UioRegisters(Path(registers), Path(interrupt or registers), root)
        super().__init__(
            UioPort(words, buffer),
            variant,
            name="uio",
            memory_base=buffer.address,
            memory_bytes=buffer.size_bytes,
            timeout_seconds=timeout_seconds,
        )
