"""Dependency tokens: the fewest waits that order every hazard.

Program order is a legal serial run. Each instruction waits for the latest conflicting instruction
of every other unit, unless something it waits for already implies that (vector clocks). Units run
their queues in order, so the waits of a unit on another strictly advance: an instruction pops at
most one token per unit, pushes at most one, and tokens match first-in first-out by construction.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from daedal.compiler.link.hazards import NO_INSTRUCTION, NUM_QUEUES, Hazards
from daedal.compiler.link.placed import PlacedInstruction
from daedal.isa.errors import ScheduleError
from daedal.isa.instruction import unit_mask
from daedal.isa.table import Unit
from daedal.isa.variant import Variant

__all__ = ["Waits", "insert_tokens"]

_QUEUES = (Unit.LOAD, Unit.GEMM, Unit.ALU, Unit.STORE)

Clock = tuple[int, ...]
"""Per unit, the last instruction known to be done."""


@dataclass(frozen=True)
class Waits:
    """Result of the analysis.

    Parameters
    ----------
    waits : per instruction, the instructions it waits for, one per unit at most.
    done : per instruction, what is known to be done once it is.
    num_hazards : pairs that conflict directly: the tokens that one per edge would take.
    """

    waits: tuple[tuple[int, ...], ...]
    done: tuple[Clock, ...]
    num_hazards: int

    @property
    def num_tokens(self) -> int:
        """Tokens passed in one run."""
        return sum(len(waits) for waits in self.waits)

    def masks(self, items: Sequence[PlacedInstruction]) -> list[tuple[int, int]]:
        """The pop and push masks of every instruction."""
        pushes: list[list[Unit]] = [[] for _ in items]
        pops: list[list[Unit]] = [[] for _ in items]
        for number, sources in enumerate(self.waits):
            for source in sources:
                assert items[number].unit not in pushes[source], "a second push to one unit"
                pushes[source].append(items[number].unit)
                pops[number].append(items[source].unit)
        return [(unit_mask(p), unit_mask(q)) for p, q in zip(pops, pushes, strict=True)]


def insert_tokens(
    variant: Variant,
    region_bytes: tuple[int, int, int, int],
    items: Sequence[PlacedInstruction],
) -> Waits:
    """Find the waits of a program whose order is `items`.

    More waits are added where more tokens than a counter holds could be outstanding.

    Raises
    ------
    ScheduleError
        The counters are too narrow for this program.
    """
    hazards = Hazards(variant, region_bytes)
    conflicts = []
    for number, item in enumerate(items):
        conflicts.append(hazards.conflicts(item))
        hazards.record(item, number)
    limit = (1 << variant.units.token_bits) - 1
    extra: dict[int, set[int]] = {}
    while True:
        result = _reduce(items, conflicts, extra)
        missing = _overflows(items, result, limit)
        if not missing:
            return result
        before = sum(len(waits) for waits in extra.values())
        for number, source in missing:
            extra.setdefault(number, set()).add(source)
        if sum(len(waits) for waits in extra.values()) == before:
            raise ScheduleError(
                f"at most {limit} tokens may be outstanding between two units, and this program "
                "needs more; use a variant with larger units.token_bits"
            )


def _reduce(
    items: Sequence[PlacedInstruction],
    conflicts: Sequence[Sequence[int]],
    extra: Mapping[int, set[int]],
) -> Waits:
    """Drop every wait that others imply; the latest instruction first, as it implies the most."""
    known: list[list[int]] = [[NO_INSTRUCTION] * NUM_QUEUES for _ in range(NUM_QUEUES)]
    waits: list[tuple[int, ...]] = []
    done: list[Clock] = []
    num_hazards = 0
    for number, item in enumerate(items):
        clock = known[item.unit]
        wanted = {source for source in conflicts[number] if source != NO_INSTRUCTION}
        num_hazards += len(wanted)
        kept = []
        for source in sorted(wanted | extra.get(number, set()), reverse=True):
            if source > clock[items[source].unit]:
                kept.append(source)
                for unit, implied in enumerate(done[source]):
                    clock[unit] = max(clock[unit], implied)
        clock[item.unit] = number
        waits.append(tuple(kept))
        done.append(tuple(clock))
    return Waits(tuple(waits), tuple(done), num_hazards)


def _overflows(
    items: Sequence[PlacedInstruction], result: Waits, limit: int
) -> list[tuple[int, int]]:
    """Waits (instruction, on) that keep each counter within `limit` however the units interleave.

    The k-th push of a pair may find `limit` tokens waiting unless the pop `limit` places before it
    is known to have happened by then.
    """
    pairs: dict[tuple[Unit, Unit], list[tuple[int, int]]] = {}
    for number, sources in enumerate(result.waits):
        for source in sources:
            pairs.setdefault((items[source].unit, items[number].unit), []).append((source, number))
    missing = []
    for (_, consumer), tokens in pairs.items():
        for position in range(limit, len(tokens)):
            push, pop = tokens[position][0], tokens[position - limit][1]
            if result.done[push][consumer] >= pop:
                continue
            # Program order decides which of the two has to wait; waiting for the later push
            # instead makes the tokens between superfluous.
            missing.append((push, pop) if pop < push else (pop, push))
    return missing
