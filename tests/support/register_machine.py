"""A machine that is nothing but registers and memory, with the functional simulator behind them.

It is written from docs/hardware.md, for tests of the drivers: side effects of reads and writes,
settings that a run protects, marks, errors, aborts, and ends that nobody hears of.
"""

import struct
from collections.abc import Sequence

from daedal.isa.instruction import decode_all
from daedal.isa.program import Program
from daedal.isa.registers import CLASSES, ID_VALUE, REGISTERS, ErrorCode, register
from daedal.isa.table import BASES, Unit, instruction_bytes
from daedal.isa.variant import Variant
from daedal.sim.functional.device import FunctionalDevice

__all__ = ["RegisterMachine"]

_NAMES = {item.offset: item.name for item in REGISTERS}


class RegisterMachine:
    """A `runtime.devices.port.Port` with the machine inside; what a test may set is public.

    Attributes
    ----------
    looks_per_run
        Reads of `control` that see a run going on.
    hangs, ignores_abort
        A run does not end by itself, or not even by an abort.
    waited_cycles
        Cycles that a run takes besides those of its instructions.
    error
        What runs end with: code, unit, instruction.
    log
        Every access: ("read" or "write", register) or ("wait", seconds).
    """

    def __init__(self, variant: Variant, *, base: int = 0x1000_0000, size: int = 1 << 20) -> None:
        self.variant = variant
        self.base, self.size = base, size
        self.looks_per_run = 3
        self.waited_cycles = 0
        self.hangs = self.ignores_abort = False
        self.error: tuple[ErrorCode, Unit, int] | None = None
        self.log: list[tuple[str, str | float]] = []
        self.values = {item.name: 0 for item in REGISTERS}
        self.values["id"] = ID_VALUE
        self.set_wide("fingerprint", int(variant.fingerprint, 16))
        self._functional = FunctionalDevice(variant, memory_bytes=size)
        self._running = self._done = False
        self._looks = 0

    def set_wide(self, name: str, value: int) -> None:
        """Set a pair of registers."""
        self.values[f"{name}_lo"], self.values[f"{name}_hi"] = value & 0xFFFFFFFF, value >> 32

    def wide(self, name: str) -> int:
        """Value of a pair of registers."""
        return self.values[f"{name}_lo"] | self.values[f"{name}_hi"] << 32

    @property
    def interrupt(self) -> bool:
        """The level at the pin."""
        return bool(self.values["isr"] & self.values["ier"] & self.values["gie"] & 1)

    def read_registers(self, offsets: Sequence[int]) -> list[int]:
        return [self._read(_NAMES[offset]) for offset in offsets]

    def write_registers(self, writes: Sequence[tuple[int, int]]) -> None:
        for offset, value in writes:
            assert 0 <= value < 1 << 32
            self._write(_NAMES[offset], value)

    def read_memory(self, address: int, size_bytes: int) -> bytes:
        assert not self._running, "buffers belong to the machine while it runs"
        assert self.base <= address <= address + size_bytes <= self.base + self.size
        return self._functional.read(address - self.base, size_bytes)

    def write_memory(self, address: int, data: bytes) -> None:
        assert not self._running, "buffers belong to the machine while it runs"
        assert self.base <= address <= address + len(data) <= self.base + self.size
        self._functional.write(address - self.base, data)

    def update_memory(self, address: int, data: bytes) -> None:
        self.write_memory(address, data)

    def wait_interrupt(self, seconds: float) -> None:
        self.log.append(("wait", seconds))

    def close(self) -> None:
        self.log.append(("close", ""))

    def reset(self) -> None:
        """What a new bitstream does: registers and scratchpads are as at the start."""
        for item in REGISTERS:
            if item.writable:
                self.values[item.name] = 0
        memory = self._functional.read(0, self.size)
        self._functional = FunctionalDevice(self.variant, memory_bytes=self.size)
        self._functional.write(0, memory)

    def _read(self, name: str) -> int:
        self.log.append(("read", name))
        if name != "control":
            return self.values[name]
        self._looks += 1
        if self._running and not self.hangs and self._looks > self.looks_per_run:
            self._end()
        status = self._running | self._done << 1 | (not self._running) << 2 | self._done << 3
        self._done = False
        return status

    def _write(self, name: str, value: int) -> None:
        self.log.append(("write", name))
        assert register(name).writable
        if name == "control":
            if value & 1 and not self._running:
                self._start()
        elif name == "abort":
            if value & 1 and self._running and not self.ignores_abort:
                self.error = (ErrorCode.ABORTED, Unit.FETCH, 0)
                self._end()
        elif name == "isr":
            self.values["isr"] ^= value & 1
        elif name in ("gie", "ier") or not self._running:
            self.values[name] = value

    def _start(self) -> None:
        self._running, self._done, self._looks = True, False, 0
        self.values["marks_written"] = 0

    def _end(self) -> None:
        self._running, self._done = False, True
        self.values["isr"] |= self.values["ier"] & 1
        code, unit, index = self.error or (ErrorCode.NONE, Unit.LOAD, 0)
        if self.error is None:
            self._run()
        self.error = None
        self.values["error"] = int(code) | int(unit) << 8
        self.values["error_instruction"] = index

    def _run(self) -> None:
        """Run what lies in memory, and count: every unit has worked once for each instruction."""
        size = self.values["program_length"] * instruction_bytes(self.variant)
        code = self._functional.read(self.wide("program") - self.base, size)
        instructions = tuple(decode_all(self.variant, code))
        bases = [self.wide(f"base{number}") - self.base for number in range(len(BASES))]
        sizes = tuple(self.wide(f"size{number}") for number in range(len(BASES)))
        self._functional.launch(Program(self.variant, instructions, region_bytes=sizes), bases)
        self.set_wide("cycles", 10 * len(instructions) + self.waited_cycles)
        self.set_wide("beats_read", 1 << 33)
        for unit in Unit:
            self.values[f"{unit.name.lower()}_busy"] = 10 * len(instructions)
            self.values[f"{unit.name.lower()}_work"] = len(instructions)
        for index, instruction in enumerate(instructions):
            written = self.values["marks_written"]
            if instruction.mark and written < self.values["marks_capacity"]:
                counts = range(len(CLASSES) + 1)
                first = instruction.tag | int(instruction.unit) << 16
                record = struct.pack("<12I16x", first, index, 10 * index, 0, *counts)
                at = self.wide("marks") - self.base + len(record) * written
                self._functional.write(at, record)
                self.values["marks_written"] = written + 1
