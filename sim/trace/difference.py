"""`Difference`: the first point where a machine deviated from its program."""

import enum
from dataclasses import dataclass

from daedal.isa.scratchpad import Memory
from daedal.isa.table import Unit

__all__ = ["Difference", "Kind", "Race"]


class Kind(enum.Enum):
    """What was different.

    VALUE: another value; PLACE: another row or address than the next in order; MISSING: a write
    that never came; EXTRA: one too many; PARTIAL: a word stored without all its bytes; EARLY: an
    instruction started before one whose token it takes was done; STUCK: it never started, although
    all tokens that it takes were given; ORDER: another instruction was done than the next of its
    unit; STATUS: the machine reported an error, or nothing at all.
    """

    VALUE = "value"
    PLACE = "place"
    MISSING = "missing"
    EXTRA = "extra"
    PARTIAL = "partial"
    EARLY = "early"
    STUCK = "stuck"
    ORDER = "order"
    STATUS = "status"


@dataclass(frozen=True)
class Race:
    """`reader` read rows of `memory` (None: words of external memory) before `writer` wrote them.

    `rows` are some of these rows, `num_rows` is their number. `started_cycle` is the reader's
    start, `written_cycle` the writer's last write (None: it never finished).
    """

    reader: int
    writer: int
    memory: Memory | None
    rows: tuple[int, ...]
    num_rows: int
    started_cycle: int
    written_cycle: int | None


@dataclass(frozen=True)
class Difference:
    """First difference between a machine and the functional simulator, in program order.

    Attributes
    ----------
    instruction, unit
        The instruction that wrote, or should have, and its unit.
    cycle
        When, counted from the start; None if nothing happened.
    memory
        Scratchpad; None: external memory, or nothing was written.
    row
        Its row, or the byte address.
    elements
        Indices of the row's elements that `expected` and `found` list, or of the bus word's bytes.
    place_expected
        (PLACE) row, or byte address, that should have been written.
    races
        Data that the instruction read too early.
    overtaken_by
        Instructions that had to wait for this one and started before it was done.
    sentence
        All this as a sentence, without the instruction's number.
    """

    kind: Kind
    instruction: int
    unit: Unit
    sentence: str
    cycle: int | None = None
    memory: Memory | None = None
    row: int | None = None
    elements: tuple[int, ...] = ()
    expected: tuple[int, ...] = ()
    found: tuple[int, ...] = ()
    place_expected: int | None = None
    races: tuple[Race, ...] = ()
    overtaken_by: tuple[int, ...] = ()
