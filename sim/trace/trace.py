"""Compares a launch on the observed RTL with the functional simulator.

Input: a `Launch`. Output: a `Trace`: the first difference in program order, if any, and how much
was compared. The functional side advances one instruction at a time, so memory use is bounded by
one instruction's writes; those of the RTL are on disk.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from daedal.common.errors import DeviceError, ProgramError
from daedal.hw.observe import WritePort, write_ports
from daedal.isa.instruction import Instruction
from daedal.isa.table import Unit
from daedal.sim.rtl.job import RawResult, RunProgress
from daedal.sim.rtl.launch import Launch
from daedal.sim.rtl.observer import Observation, observe_launch
from daedal.sim.trace.compare import Found, compare_beats, compare_writes
from daedal.sim.trace.difference import Difference, Kind, Race
from daedal.sim.trace.expected import Expected, FunctionalRun, Source
from daedal.sim.trace.order import token_sources
from daedal.sim.trace.timeline import NEVER, Timeline

__all__ = ["Trace", "trace_launch", "trace_observation"]

_ROWS_SHOWN = 8
_LAST_CYCLE = (1 << 32) - 1


@dataclass(frozen=True)
class Trace:
    """What the comparison of one launch found.

    Attributes
    ----------
    difference
        The first in program order, or None.
    num_instructions, num_writes, num_beats
        Found equal before it: instructions, columns of scratchpad rows, words of memory.
    cycles
        Of the machine, from the start write to the interrupt.
    bases
        Base addresses of the program's regions.
    memory
        External memory after the functional run, or at the first difference.
    """

    difference: Difference | None
    num_instructions: int
    num_writes: int
    num_beats: int
    cycles: int
    bases: tuple[int, ...]
    memory: bytes


def trace_launch(
    launch: Launch,
    *,
    cache_dir: Path,
    work_dir: Path,
    simulator: str = "verilator",
    assertions: bool = False,
    verilog: str | None = None,
    report: Callable[[str], None] | None = None,
    progress: Callable[[RunProgress], None] | None = None,
) -> Trace:
    """Run `launch` on both sides and compare; parameters and errors as `observe_launch`."""
    token_sources(launch.program.instructions)  # a program that cannot run is not simulated
    result, observation = observe_launch(
        launch,
        cache_dir=cache_dir,
        work_dir=work_dir,
        simulator=simulator,
        assertions=assertions,
        verilog=verilog,
        report=report,
        progress=progress,
    )
    return trace_observation(launch, result, observation)


def trace_observation(launch: Launch, result: RawResult, observation: Observation) -> Trace:
    """Compare what a machine did with what `launch` requires.

    Raises DeviceError where the functional simulator cannot execute the program.
    """
    return _Comparison(launch, result, observation).run()


class _Comparison:
    def __init__(self, launch: Launch, result: RawResult, observation: Observation) -> None:
        self.launch, self.result, self.observation = launch, result, observation
        self.variant = launch.program.variant
        self.timeline = Timeline(launch, result, observation)
        self.ports = write_ports(self.variant)
        # Cycles are strided within the records; every instruction searches them, so copy them.
        self.cycles = {
            name: np.ascontiguousarray(records["cycle"])
            for name, records in observation.writes.items()
        }
        self.beats_taken = 0
        self.num_writes = 0
        self.num_beats = 0

    def run(self) -> Trace:
        memory = np.frombuffer(self.launch.memory, dtype=np.uint8).copy()
        functional = FunctionalRun(
            self.variant, memory, self.launch.bases, self.launch.program.region_words
        )
        misstep = self.timeline.first_misstep()
        for number, instruction in enumerate(self.timeline.instructions):
            sources = functional.sources(instruction)
            try:
                writes, stored = functional.step(instruction)
            except ProgramError as error:
                unit = instruction.unit.name
                raise DeviceError(f"instruction {number} ({unit}): {error}") from error
            difference = self._compare(number, instruction, writes, stored)
            if misstep is not None and misstep.instruction == number:
                # After an order error, writes are attributed to the wrong instruction: ignore them.
                difference = misstep if misstep.kind is Kind.ORDER else difference or misstep
            if difference is not None:
                races = self._races(number, sources)
                return self._trace(replace(difference, races=races), number, memory)
            functional.note_writes(number, instruction)
            self.num_writes += sum(len(item.places) for item in writes.values())
            self.num_beats = self.beats_taken
        return self._trace(self._leftover(), len(self.timeline.instructions), memory)

    def _trace(
        self, difference: Difference | None, number: int, memory: npt.NDArray[np.uint8]
    ) -> Trace:
        if difference is not None:
            early = self.timeline.overtaken(difference.instruction)
            overtaken_by = tuple(item.instruction for item in early)
            difference = replace(difference, overtaken_by=overtaken_by)
        return Trace(
            difference=difference,
            num_instructions=number,
            num_writes=self.num_writes,
            num_beats=self.num_beats,
            cycles=self.result.cycles,
            bases=tuple(self.launch.bases),
            memory=memory.tobytes(),
        )

    def _compare(
        self,
        number: int,
        instruction: Instruction,
        writes: dict[str, Expected],
        stored: Expected | None,
    ) -> Difference | None:
        """The earliest difference of an instruction at any of its unit's ports."""
        found = []
        for port in self.ports:
            if port.unit is instruction.unit:
                made = self._found(port, number)
                expected = writes.get(port.name, _nothing(made))
                found.append(compare_writes(self.variant, port, number, made, expected))
        if stored is not None:
            found.append(self._compare_beats(number, stored))
        real = [item for item in found if item is not None]
        return min(real, key=lambda item: NEVER if item.cycle is None else item.cycle, default=None)

    def _found(self, port: WritePort, number: int) -> Found:
        begin, end = (min(cycle, _LAST_CYCLE) for cycle in self.timeline.window(number))
        cycles = self.cycles[port.name]
        # Use the dtype of the cycles; otherwise searchsorted would convert all of them.
        first, last = np.searchsorted(cycles, np.array([begin, end], dtype=cycles.dtype))
        records = self.observation.writes[port.name][first:last]
        return Found(
            cycles=cycles[first:last].astype(np.int64),
            places=records["row"].astype(np.int64) * port.columns + records["column"],
            data=np.asarray(records["data"]),
            complete=number in self.timeline.done,
        )

    def _compare_beats(self, number: int, stored: Expected) -> Difference | None:
        """Compare a STORE's words, attributed by their count: a STORE is done only after the bus
        has acknowledged, so its cycles do not delimit them."""
        begin = self.beats_taken
        beats = self.observation.beats[begin : begin + len(stored.places)]
        self.beats_taken += len(beats)
        complete = number in self.timeline.done
        found = Found(beats["cycle"], beats["address"], beats["data"], complete)
        return compare_beats(number, found, beats["strobe"], stored)

    def _leftover(self) -> Difference | None:
        """Writes of the machine beyond those of the program."""
        for port in self.ports:
            mine = self.timeline.numbers[port.unit]
            end = self.timeline.done.get(mine[-1], NEVER) if mine else 0
            late = np.flatnonzero(self.cycles[port.name] >= end)
            if len(late):
                record = self.observation.writes[port.name][late[0]]
                row, cycle = int(record["row"]) // port.slices, int(record["cycle"])
                what = f"row {row} of {port.memory.value}"
                return self._extra(port.unit, what, row, cycle)
        beats = self.observation.beats[self.beats_taken :]
        if len(beats):
            address, cycle = int(beats["address"][0]), int(beats["cycle"][0])
            return self._extra(Unit.STORE, f"memory at {address:#x}", address, cycle)
        return None

    def _extra(self, unit: Unit, what: str, row: int, cycle: int) -> Difference:
        mine = self.timeline.numbers[unit]
        number = mine[-1] if mine else len(self.timeline.instructions) - 1
        return Difference(
            kind=Kind.EXTRA,
            instruction=number,
            unit=unit,
            cycle=cycle,
            row=row,
            sentence=f"is the last that {unit.name} could run, but {unit.name} writes {what} once "
            f"more in cycle {cycle}",
        )

    def _races(self, number: int, sources: Sequence[Source]) -> tuple[Race, ...]:
        """Data the instruction reads that was not written yet when it started."""
        instructions, done = self.timeline.instructions, self.timeline.done
        started = self.timeline.started.get(number)
        races = []
        for source in sources:
            if started is None or instructions[source.writer].unit is instructions[number].unit:
                continue
            if done.get(source.writer, NEVER) >= started:
                races.append(
                    Race(
                        reader=number,
                        writer=source.writer,
                        memory=source.memory,
                        rows=tuple(source.rows[:_ROWS_SHOWN].tolist()),
                        num_rows=len(source.rows),
                        started_cycle=started,
                        written_cycle=done.get(source.writer),
                    )
                )
        return tuple(races)


def _nothing(found: Found) -> Expected:
    return Expected(found.places[:0], found.data[:0], True)
