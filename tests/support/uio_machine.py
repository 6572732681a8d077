"""A machine behind files that look like those of Linux: UIO, u-dma-buf, and their parts of /sys.

A `RegisterMachine` watches a mapped file of registers in a thread. A terminal stands for the
interrupt: it has a path, and reads from it wait. The file of the buffer is what the processor sees;
the machine's own memory is another, and bytes pass between them only where the driver is told so.
"""

import mmap
import os
import select
import threading
import tty
from pathlib import Path

import numpy as np

from daedal.isa.registers import REGISTERS, register
from daedal.isa.variant import Variant
from tests.support.register_machine import RegisterMachine

__all__ = ["UioMachine"]

_BYTES = 4096
_RUNNING, _IDLE, _ENDED = 0x1, 0x4, 0xE
_PENDING = 3
"""The interrupt's register until the driver's write: reads cannot be told from a file."""


class UioMachine:
    """Make the files in `folder` and start the machine; use as a context.

    Attributes
    ----------
    machine
        What is behind the registers.
    loses_interrupts
        Nobody hears of the end of a run.
    commands
        What the driver of the buffer was told: attribute and text.
    """

    def __init__(self, variant: Variant, folder: Path, *, base: int = 0x1800_0000) -> None:
        self.folder = folder
        self.machine = RegisterMachine(variant, base=base)
        self.loses_interrupts = False
        self.commands: list[tuple[str, str]] = []
        self.interrupts = 0
        self._enabled = False
        self._master, slave = os.openpty()
        tty.setraw(slave)
        self._slave = slave
        self._write_files()
        self._words = np.frombuffer(self._map("uio0", _BYTES), dtype=np.uint32)
        self._view = np.frombuffer(self._map("udmabuf0", self.machine.size), dtype=np.uint8)
        self._view[:] = 0xA5  # what the caches hold is not what the memory holds
        self._publish(_IDLE)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    @property
    def options(self) -> dict[str, str]:
        """Paths for `UioDevice`."""
        return {
            "registers": str(self.folder / "uio0"),
            "interrupt": os.ttyname(self._slave),
            "memory": str(self.folder / "udmabuf0"),
            "sysfs": str(self.folder / "sys"),
        }

    def __enter__(self) -> "UioMachine":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        os.close(self._master)
        os.close(self._slave)

    def take_attribute(self, path: Path, text: str) -> None:
        """Stand in for `sysfs.write_attribute`: pass bytes between caches and memory."""
        self.commands.append((path.name, text))
        assert path.parent == self.folder / "sys/class/u-dma-buf/udmabuf0"
        assert len(text) == 18
        first, low = int(text[2:10], 16), int(text[10:], 16)
        size, direction, told = low & ~0xF, low >> 2 & 3, low & 1
        assert told and first % 64 == size % 64 == 0
        assert direction in ((0, 2) if path.name == "sync_for_cpu" else (0, 1))
        span = slice(first, first + size)
        if path.name == "sync_for_cpu":
            data = self.machine.read_memory(self.machine.base + first, size)
            self._view[span] = np.frombuffer(data, dtype=np.uint8)
        else:
            assert path.name == "sync_for_device"
            self.machine.write_memory(self.machine.base + first, self._view[span].tobytes())

    def publish(self) -> None:
        """Show what a test has changed in `machine`."""
        self._publish(_IDLE)

    def _write_files(self) -> None:
        sys = self.folder / "sys" / "class"
        numbers = {
            "uio/uio0/maps/map0/size": "0x00001000\n",
            "u-dma-buf/udmabuf0/phys_addr": f"0x{self.machine.base:08x}\n",
            "u-dma-buf/udmabuf0/size": f"{self.machine.size}\n",
        }
        for name, text in numbers.items():
            path = sys / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (self.folder / "uio0").write_bytes(bytes(_BYTES))
        (self.folder / "udmabuf0").write_bytes(bytes(self.machine.size))

    def _map(self, name: str, size: int) -> mmap.mmap:
        with (self.folder / name).open("r+b") as file:
            return mmap.mmap(file.fileno(), size)

    def _publish(self, status: int) -> None:
        for item in REGISTERS:
            if item.name != "control" and not item.writable:
                self._words[item.offset // 4] = self.machine.values[item.name]
        pending = status == _ENDED and self.machine.values["isr"]
        self._words[register("isr").offset // 4] = _PENDING if pending else 0
        self._words[0] = status

    def _watch(self) -> None:
        started = False
        while not self._stop.wait(0.0005):
            if not started and self._words[0] == 1:
                started = True
                self._start()
            if started:
                started = not self._look()
            if self._words[register("isr").offset // 4] == 1:
                self._words[register("isr").offset // 4] = 0  # acknowledged
            while select.select([self._master], [], [], 0)[0]:
                self._enabled = os.read(self._master, 4) == np.int32(1).tobytes()
            names = ("isr", "ier", "gie")
            level = all(self._words[register(name).offset // 4] & 1 for name in names)
            if self._enabled and level and not self.loses_interrupts:
                self._enabled = False
                self.interrupts += 1
                os.write(self._master, np.int32(self.interrupts).tobytes())

    def _start(self) -> None:
        settings = [item for item in REGISTERS if item.writable]
        self.machine.write_registers(
            [
                (item.offset, int(self._words[item.offset // 4]))
                for item in settings
                if item.name not in ("control", "isr", "abort")
            ]
        )
        self.machine.write_registers([(0, 1)])

    def _look(self) -> bool:
        """Let the machine go on while the driver waits for it; whether it has ended."""
        abort = register("abort").offset
        if self._words[abort // 4]:
            self._words[abort // 4] = 0
            self.machine.write_registers([(abort, 1)])
            self._enabled = True
        if not self._enabled:
            return False
        ended = not self.machine.read_registers([0])[0] & 1
        if ended:
            self._publish(_ENDED)
        return ended
