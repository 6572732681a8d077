"""When the machine started and finished each instruction, and errors in that order.

Input: a launch, its raw result and its observation. Output: cycles by instruction, and the first
`Difference` that is visible without comparing values: an instruction that started too early, never,
or out of order, or an error that the machine reported.
"""

from collections.abc import Mapping

from daedal.common.errors import DeviceError
from daedal.hw.issue.tokens import QUEUED_UNITS
from daedal.isa.instruction import Instruction
from daedal.isa.table import Opcode, Unit
from daedal.sim.rtl.job import RawResult
from daedal.sim.rtl.launch import Launch, launch_outcome
from daedal.sim.rtl.observer import Events, Observation
from daedal.sim.trace.difference import Difference, Kind
from daedal.sim.trace.order import Early, early_starts, token_sources

__all__ = ["NEVER", "Timeline"]

NEVER = 1 << 62
"""A cycle later than the end of any run."""


class Timeline:
    """When a machine started and finished the instructions of a launch.

    Attributes
    ----------
    instructions
        Up to the first FINISH.
    numbers
        Instructions of each unit, in order.
    started, done
        Cycle by instruction; for each unit only up to the first one out of order.

    Raises
    ------
    DeviceError
        The program ends without FINISH, or pops a token that is never pushed.
    """

    def __init__(self, launch: Launch, result: RawResult, observation: Observation) -> None:
        self._observation = observation
        self.instructions = _until_finish(launch.program.instructions)
        self._sources = token_sources(self.instructions)
        self.numbers = {
            unit: [n for n, item in enumerate(self.instructions) if item.unit is unit]
            for unit in QUEUED_UNITS
        }
        self._before = {
            number: before
            for mine in self.numbers.values()
            for before, number in zip([None, *mine], mine, strict=False)
        }
        self.started = self._in_order(observation.issues)
        self.done = self._in_order(observation.retires)
        self.early = early_starts(self._sources, self.started, self.done)
        self._failed_at = len(self.instructions) - 1
        self.failure = self._find_failure(launch, result)

    def window(self, number: int) -> tuple[int, int]:
        """Cycles [begin, end) in which its unit's writes belong to this instruction.

        A unit executes in order, and an instruction is done after its last write.
        """
        before = self._before[number]
        begin = 0 if before is None else self.done.get(before, NEVER)
        return begin, self.done.get(number, NEVER)

    def overtaken(self, number: int) -> list[Early]:
        """Instructions that had to wait for this one and did not."""
        return [item for item in self.early if item.source == number]

    def first_misstep(self) -> Difference | None:
        """The first instruction that started too early, never, or out of order; or the failure."""
        found = [self._early(), self._out_of_order(), self._stuck()]
        real = [item for item in found if item is not None]
        return min(real, key=lambda item: item.instruction) if real else self._status()

    def _in_order(self, events: Mapping[Unit, Events]) -> dict[int, int]:
        found = {}
        for unit in QUEUED_UNITS:
            seen = zip(events[unit].indexes.tolist(), events[unit].cycles.tolist(), strict=True)
            for number, (index, cycle) in zip(self.numbers[unit], seen, strict=False):
                if number != index:
                    break
                found[number] = cycle
        return found

    def _find_failure(self, launch: Launch, result: RawResult) -> str | None:
        """Describe how the run failed; None if it did not."""
        try:
            outcome = launch_outcome(launch, result, "rtl")
            self._failed_at = min(self._failed_at, outcome.instruction)
            outcome.check()
        except DeviceError as error:
            return str(error)
        return None

    def _early(self) -> Difference | None:
        for item in self.early:
            unit = self.instructions[item.instruction].unit
            other = self.instructions[item.source].unit
            when = "never done" if item.done_cycle is None else f"done in cycle {item.done_cycle}"
            return Difference(
                kind=Kind.EARLY,
                instruction=item.instruction,
                unit=unit,
                cycle=item.started_cycle,
                sentence=f"starts in cycle {item.started_cycle}, but has to wait for the token "
                f"of instruction {item.source} ({other.name}), which was {when}",
            )
        return None

    def _out_of_order(self) -> Difference | None:
        first = None
        for unit in QUEUED_UNITS:
            events = self._observation.retires[unit]
            for place, index in enumerate(events.indexes.tolist()):
                mine = self.numbers[unit]
                wanted = mine[place] if place < len(mine) else None
                if index == wanted:
                    continue
                number = mine[-1] if wanted is None and mine else wanted or 0
                if first is None or number < first.instruction:
                    first = Difference(
                        kind=Kind.ORDER,
                        instruction=number,
                        unit=unit,
                        cycle=int(events.cycles[place]),
                        sentence=f"should be the next that {unit.name} ends, but the machine ends "
                        f"instruction {index} in cycle {int(events.cycles[place])}",
                    )
                break
        return first

    def _stuck(self) -> Difference | None:
        """The first instruction that never starts although all its tokens were given."""
        if self.failure is None:
            return None
        heads = []
        for unit in QUEUED_UNITS:
            waiting = [n for n in self.numbers[unit] if n not in self.started]
            heads += waiting[:1]
        for number in sorted(heads):
            givers = self._sources[number]
            if givers and all(giver in self.done for giver in givers):
                names = ", ".join(
                    f"{giver} ({self.instructions[giver].unit.name}, done in cycle "
                    f"{self.done[giver]})"
                    for giver in givers
                )
                return Difference(
                    kind=Kind.STUCK,
                    instruction=number,
                    unit=self.instructions[number].unit,
                    sentence="never starts, although every token that it takes was given, by "
                    f"instruction {names}; {self.failure}",
                )
        return None

    def _status(self) -> Difference | None:
        if self.failure is None:
            return None
        return Difference(
            kind=Kind.STATUS,
            instruction=self._failed_at,
            unit=self.instructions[self._failed_at].unit,
            sentence=f"is where the run fails: {self.failure}",
        )


def _until_finish(instructions: tuple[Instruction, ...]) -> tuple[Instruction, ...]:
    for number, instruction in enumerate(instructions):
        if instruction.opcode is Opcode.FINISH:
            return instructions[: number + 1]
    raise DeviceError("a program must end with FINISH; this one does not")
