"""What wrong tokens do to a program, by running it, and whether a race that is named is there.

Knows nothing of how `isa.verifier` works: harm is what an interleaving of the units shows.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations

import numpy as np

from daedal.common.errors import VerificationError
from daedal.isa.program import Program
from daedal.isa.table import Unit
from tests.support.interleaving import (
    UNITS,
    Interleaver,
    Interleaving,
    Policy,
    Replay,
    delaying,
    in_program_order,
    preferring,
    wandering,
    withholding,
)
from tests.support.token_mutants import TokenMutant
from tests.support.touched_places import Place, touched_places

__all__ = ["Bench", "Tally", "try_mutants"]

MOST_DELAYED = 16
MOST_RANDOM = 12

RACE = re.compile(
    r"must be ordered by tokens; instruction (?P<later>\d+) \((?P<later_unit>\w+)\) "
    r"(?P<verb>reads|writes) (?P<what>row|micro-op|bus word) (?P<place>\d+) of "
    r"(?:scratchpad '(?P<pad>\w+)'|(?P<region>\w+) \(bytes (?P<byte>\d+) to \d+\)) "
    r"while instruction (?P<earlier>\d+) \((?P<earlier_unit>\w+)\) may still use it$"
)


class Bench:
    """One valid program, to try mutants of it on.

    Parameters
    ----------
    contents : bytes that inputs, outputs and workspace hold at first, by number.
    """

    def __init__(
        self, program: Program, contents: Mapping[int, bytes], rng: np.random.Generator
    ) -> None:
        self.program = program
        self._rng = rng
        self._replay = Replay(program, contents, rng)
        run = Interleaver(program).run(in_program_order())
        assert not run.stuck and not run.left, "the program itself is wrong"
        self._expected = self._replay(run.order)
        self._limit = (1 << program.variant.units.token_bits) - 1
        self._touched = list(touched_places(program))
        self._conflicts = _conflicts(program, self._touched)

    def harm(self, mutant: TokenMutant) -> str | None:
        """What some interleaving does wrong, or None where none of those tried does."""
        units = Interleaver(mutant.program)
        if units.run(in_program_order()).stuck:
            free = units.run(preferring(UNITS))
            return "deadlock" if free.stuck else "deadlock in program order"
        for policy in self._policies(mutant):
            found = self._wrong(units.run(policy))
            if found is not None:
                return found
        return None

    def _wrong(self, run: Interleaving) -> str | None:
        if run.stuck:
            return "deadlock"
        if run.left:
            return "tokens left"
        if run.most_tokens > self._limit:
            return "counter overflow"
        return None if self._replay(run.order) == self._expected else "bytes"

    def _policies(self, mutant: TokenMutant) -> Iterator[Policy]:
        """Adversaries first: instructions near the flags delayed, units first and last."""
        at = [flag.number for flag in mutant.flags]
        numbers = range(len(self.program.instructions) - 1)
        near = sorted(numbers, key=lambda number: min(abs(number - k) for k in at))
        for number in near[:MOST_DELAYED]:
            yield delaying(number, self._rng.permutation(UNITS).tolist())
        for units in permutations(UNITS):
            yield preferring(units)
        for _ in range(MOST_RANDOM):
            yield wandering(self._rng)

    def false_race(self, mutant: TokenMutant, message: str) -> str | None:
        """Why `message` names no race of the mutant; None where it does.

        The two instructions must use the place as it says, one of them writing, and the units must
        be able to start the later one while the earlier one has not begun.
        """
        match = RACE.search(message)
        if match is None:
            return "names no race"
        earlier, later = int(match["earlier"]), int(match["later"])
        items = self.program.instructions
        units = items[earlier].unit.name, items[later].unit.name
        if units != (match["earlier_unit"], match["later_unit"]) or units[0] == units[1]:
            return "names wrong units"
        if match["region"] and int(match["byte"]) != (
            int(match["place"]) * self.program.variant.bus_bytes
        ):
            return "names a wrong byte"
        place = (match["pad"] or match["region"], int(match["place"]))
        early_reads, early_writes = self._touched[earlier]
        reads, writes = self._touched[later]
        if place not in (writes if match["verb"] == "writes" else reads):
            return "the later instruction does not use the place so"
        if place not in early_writes and not (place in early_reads and place in writes):
            return "the earlier instruction does not use the place"
        before = Interleaver(mutant.program).run(withholding(earlier)).order
        return None if later in before else "the instructions are ordered"

    def race(self, mutant: TokenMutant) -> tuple[int, int] | None:
        """Any two instructions that share a place, one of them writing, and are not ordered.

        A token can only make units wait, so what may run without an instruction does run while it
        is withheld: this finds every race, in a time that grows with the square of the program.
        """
        units = Interleaver(mutant.program)
        for earlier, conflicting in enumerate(self._conflicts):
            for later in units.run(withholding(earlier)).order:
                if later > earlier and conflicting >> later & 1:
                    return earlier, later
        return None


def _conflicts(program: Program, touched: Sequence[tuple[set[Place], set[Place]]]) -> list[int]:
    """Per instruction, those of other units that share a place with it, one writing: as masks."""
    readers: dict[Place, int] = defaultdict(int)
    writers: dict[Place, int] = defaultdict(int)
    of_unit: dict[Unit, int] = defaultdict(int)
    for number, (reads, writes) in enumerate(touched):
        of_unit[program.instructions[number].unit] |= 1 << number
        for place in reads:
            readers[place] |= 1 << number
        for place in writes:
            writers[place] |= 1 << number
    result = []
    for instruction, (reads, writes) in zip(program.instructions, touched, strict=True):
        found = 0
        for place in reads:
            found |= writers[place]
        for place in writes:
            found |= readers[place] | writers[place]
        result.append(found & ~of_unit[instruction.unit])
    return result


@dataclass
class Tally:
    """What a verifier said to mutants, beside what they do.

    Attributes
    ----------
    harms : how often each harm was seen.
    caught, accepted, named : harmful ones that it refuses; harmless ones that it accepts, and
        those that it refuses with a race that is there.
    wrong : sentences about all others: each is a fault of the verifier.
    """

    harms: Counter[str] = field(default_factory=Counter)
    caught: int = 0
    accepted: int = 0
    named: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def harmful(self) -> int:
        """Mutants that an interleaving showed to be wrong."""
        return self.harms.total()

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {harm}" for harm, count in sorted(self.harms.items()))
        harmless = self.accepted + self.named
        return (
            f"{self.harmful} harmful ({kinds}), {self.caught} of them caught; {harmless} not shown "
            f"to be, {self.accepted} of them accepted, {self.named} refused with a real race"
        )


def try_mutants(
    bench: Bench, mutants: Iterable[TokenMutant], check: Callable[[Program], object]
) -> Tally:
    """Ask `check`, a verifier, and the bench about each; what is accepted is searched for races."""
    tally = Tally()
    for mutant in mutants:
        harm = bench.harm(mutant)
        if harm is not None:
            tally.harms[harm] += 1
        try:
            check(mutant.program)
        except VerificationError as error:
            wrong = None if harm else bench.false_race(mutant, str(error))
            if wrong is not None:
                tally.wrong.append(f"{mutant}: {wrong}: {error}")
            elif harm is not None:
                tally.caught += 1
            else:
                tally.named += 1
            continue
        race = None if harm else bench.race(mutant)
        if harm is not None or race is not None:
            tally.wrong.append(f"{mutant}: accepted, but {harm or f'race of {race}'}")
        else:
            tally.accepted += 1
    return tally
