"""`Difference`: the first thing that a machine did otherwise than its program says."""

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
    """`reader` read rows of `memory` (None: words of external memory) that `writer` had not written
    when it started: `rows` are some of them, `num_rows` is how many.

    `started_cycle` is of the reader, `written_cycle` of the writer's last write (None: never done).
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
    """Where a machine parts from the functional simulator, in program order.

    Attributes
    ----------
    instruction, unit
        Who wrote, or should have.
    cycle
        When, from the start on; None where nothing happened.
    memory
        Scratchpad; None: external memory, or nothing was written.
    row
        Its row, or the byte address.
    elements
        Numbers of the elements of the row that `expected` and `found` list, or of bytes of the bus
        word.
    place_expected
        (PLACE) row, or byte address, that should have been written.
    races
        What the instruction read too early.
    overtaken_by
        Instructions that had to wait for this one and started before it was done.
    sentence
        All this in words, without the instruction's own number.
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
