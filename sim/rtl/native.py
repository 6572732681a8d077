"""Runs jobs on the native simulator: the emitted Verilog as a C++ library, in this process.

Input: `Built` (simulator ``native``) and a list of `Job`. Output: a `RawResult` per job, with the
cycles, registers and bytes that the same jobs give under cocotb. `hdl/native.cpp` is the clock; the
commands go through the harness's registers, as in `bench.py`. Memory is filled and read in place
and takes no cycles; a no-op command replaces each memory command, so that the memory model's random
generator advances alike.
"""

import ctypes
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from daedal.common.errors import DeviceError
from daedal.sim.rtl.build import Built
from daedal.sim.rtl.commands import (
    OP_BREAK,
    OP_FILL,
    OP_READ,
    OP_START,
    OP_WAIT,
    OP_WRITE,
    STATUS_RUNNING,
    STATUS_TIMEOUT,
    complaint,
)
from daedal.sim.rtl.contracts import broken_contract
from daedal.sim.rtl.image import whole_words
from daedal.sim.rtl.intervention import RESET_CYCLES, OpenBursts
from daedal.sim.rtl.job import AXI_RULES, Job, RawResult, RunProgress

__all__ = ["NativeSimulation", "open_simulation", "run_native"]

SLICE_CYCLES = 1 << 14
"""Cycles between checks of signals and time limits: a tenth of a second at most."""

Watch = Callable[[], None]


class NativeSimulation:
    """One accelerator with its memory inside the harness; `open_simulation` creates and closes it.

    Everything starts at zero. Several may exist in one process, each in its own thread if needed:
    cycles run without holding the interpreter lock.
    """

    def __init__(self, library: Path, size_bytes: int) -> None:
        self._library = _load(library)
        self._handle = self._library.daedal_open()
        found = self._library.daedal_memory_bytes(self._handle)
        assert found == size_bytes, f"the library has {found} bytes of memory, not {size_bytes}"
        self._size_bytes = size_bytes
        self._memory: int = self._library.daedal_memory(self._handle)

    def close(self) -> None:
        """Free all resources; the simulation cannot be used afterwards."""
        self._library.daedal_close(self._handle)
        self._handle = None

    def set(self, name: str, value: int) -> None:
        """Set a register of the harness that the host writes."""
        assert self._library.daedal_set(self._handle, name.encode(), value), name

    def get(self, name: str) -> int:
        """Read a register of the harness that the harness writes."""
        value = ctypes.c_uint64()
        assert self._library.daedal_get(self._handle, name.encode(), value), name
        return value.value

    def write(self, address: int, data: bytes) -> None:
        """Copy into memory."""
        assert 0 <= address <= address + len(data) <= self._size_bytes
        ctypes.memmove(self._memory + address, data, len(data))

    def read(self, address: int, size_bytes: int) -> bytes:
        """Copy out of memory."""
        assert 0 <= address <= address + size_bytes <= self._size_bytes
        return ctypes.string_at(self._memory + address, size_bytes)

    def clear(self) -> None:
        """Zero all memory."""
        ctypes.memset(self._memory, 0, self._size_bytes)

    def command(self, op: int, watch: Watch = lambda: None, **operands: int) -> int:
        """Execute one command, return its status; `watch` is called between slices of cycles.

        Raises
        ------
        DeviceError
            The control bus refused it or stayed silent, or the simulation failed.
        """
        for name, value in operands.items():
            self.set(name, value)
        self.set("op", op)
        self._library.daedal_go(self._handle)
        while (state := self._library.daedal_advance(self._handle, SLICE_CYCLES)) == 0:
            watch()
        if state < 0:
            message = self._library.daedal_failure(self._handle).decode(errors="replace")
            raise DeviceError(
                broken_contract(message) or f"the simulation failed; it said: {message}"
            )
        status = self.get("status")
        wrong = complaint(op, operands.get("op_address", 0), status)
        if wrong is not None:
            raise DeviceError(f"the simulation failed; {wrong}")
        return status


@contextmanager
def open_simulation(built: Built) -> Iterator[NativeSimulation]:
    """Create a simulation of `built`, and close it at the end of the block."""
    simulation = NativeSimulation(built.program, built.words * built.data_bits // 8)
    try:
        yield simulation
    finally:
        simulation.close()


def run_native(
    built: Built,
    jobs: Sequence[Job],
    *,
    progress: Callable[[RunProgress], None] | None = None,
    pause_cycles: int = 1 << 18,
    limit_seconds: float | None = None,
) -> list[RawResult]:
    """Run already checked jobs in order in one simulation; parameters and errors as `run_jobs`."""
    began = time.monotonic()
    report = progress or (lambda _progress: None)

    def watch() -> None:
        if limit_seconds is not None and time.monotonic() - began > limit_seconds:
            raise DeviceError(
                f"the simulation took longer than {limit_seconds:g} seconds and was ended"
            )

    results: list[RawResult] = []
    with open_simulation(built) as simulation:
        for job in jobs:

            def paused(cycles: int) -> None:
                report(RunProgress(len(results), len(jobs), cycles))

            results.append(_run(simulation, job, built.data_bits // 8, pause_cycles, watch, paused))
            report(RunProgress(len(results), len(jobs), results[-1].cycles))
            watch()
    return results


def _run(
    simulation: NativeSimulation,
    job: Job,
    word_bytes: int,
    pause_cycles: int,
    watch: Watch,
    paused: Callable[[int], None],
) -> RawResult:
    for name, number in job.settings().items():
        simulation.set(name, number)
    if job.reset_before:
        _reset(simulation, RESET_CYCLES, job.reset_memory)
    if job.clear_memory:
        simulation.clear()
        _pass_one_command(simulation)
    for address, data in whole_words(job.image, word_bytes):
        simulation.write(address, data)
        _pass_one_command(simulation)
    for address, value in job.writes:
        simulation.command(OP_WRITE, op_address=address, op_data=value)

    result = _run_program(simulation, job, pause_cycles, watch, paused)
    registers = []
    for address in job.reads:
        simulation.command(OP_READ, op_address=address)
        registers.append(simulation.get("result"))
    memory = []
    for address, size in job.dumps:
        memory.append(simulation.read(address, size))
        _pass_one_command(simulation)
    return replace(result, registers=tuple(registers), memory=tuple(memory))


def _run_program(
    simulation: NativeSimulation,
    job: Job,
    pause_cycles: int,
    watch: Watch,
    paused: Callable[[int], None],
) -> RawResult:
    """Start the program and wait for its end; the result lacks registers and memory."""
    began = time.perf_counter()
    simulation.command(OP_START, op_address=job.start[0], op_data=job.start[1])
    waiting = list(job.interventions)
    seen: list[OpenBursts] = []
    violation = 0
    was_reset = False
    pause = pause_cycles
    while not was_reset:
        until = min([pause, *(item.at_cycle for item in waiting[:1])])
        status = simulation.command(OP_WAIT, watch, op_limit=job.cycle_limit, op_pause=until)
        cycles = simulation.get("run_cycles")
        violation = violation or simulation.get("violation")  # a reset clears it
        if status != STATUS_RUNNING:
            seen.append(_open_bursts(simulation))
            break
        if waiting and cycles >= waiting[0].at_cycle:
            seen.append(_open_bursts(simulation))
            item = waiting.pop(0)
            if item.write is not None:
                simulation.command(OP_WRITE, op_address=item.write[0], op_data=item.write[1])
            else:
                _reset(simulation, item.reset_cycles, item.reset_memory)
                was_reset = True
        if cycles >= pause:
            paused(cycles)
            pause += pause_cycles
    timed_out = status == STATUS_TIMEOUT
    return RawResult(
        cycles=job.cycle_limit if timed_out else cycles,
        timed_out=timed_out,
        registers=(),
        memory=(),
        axi_violation=AXI_RULES[violation] if violation else None,
        seconds=time.perf_counter() - began,
        open_bursts=tuple(seen),
        was_reset=was_reset,
    )


def _reset(simulation: NativeSimulation, cycles: int, memory: bool) -> None:
    """Reset the machine; without `memory`, the memory model continues its open bursts."""
    simulation.command(OP_BREAK, op_count=cycles, op_data=int(not memory))


def _open_bursts(simulation: NativeSimulation) -> OpenBursts:
    """Bursts that the memory had open when the last WAIT ended."""
    return OpenBursts(
        simulation.get("open_reads"),
        simulation.get("open_unwritten"),
        simulation.get("open_unanswered"),
    )


def _pass_one_command(simulation: NativeSimulation) -> None:
    """Spend the cycles of one command: they advance the memory model's random generator."""
    simulation.command(OP_FILL, op_address=0, op_count=0)


def _load(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    handle, word, text = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_char_p
    for name, result, arguments in (
        ("open", handle, ()),
        ("close", None, (handle,)),
        ("set", ctypes.c_int, (handle, text, word)),
        ("get", ctypes.c_int, (handle, text, ctypes.POINTER(word))),
        ("go", None, (handle,)),
        ("advance", ctypes.c_int, (handle, word)),
        ("failure", text, (handle,)),
        ("memory", handle, (handle,)),
        ("memory_bytes", word, (handle,)),
    ):
        function = getattr(library, f"daedal_{name}")
        function.restype = result
        function.argtypes = arguments
    return library
