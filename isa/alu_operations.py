"""The operations of the tensor ALU: the only place that knows them.

One entry of `AluOp` gives an operation's name, code, meaning and formula. The encoder, assembler,
simulators, gateware, random programs and docs/isa.md are derived from it, so adding an operation
means adding one entry. Operands x and y are accumulator elements, see `isa.lane`.
"""

import enum
from collections.abc import Callable
from functools import cached_property
from typing import Any

from daedal.isa.lane import Lane, Recorder
from daedal.isa.variant import Variant

__all__ = ["AluOp"]

Formula = Callable[[Lane[Any]], Any]

_ONE_OF_EACH = (
    ("adder", ({"total"}, {"difference", "less"})),
    ("shifter", ({"left"}, {"right"}, {"right_even"})),
)


class AluOp(enum.IntEnum):
    """Operations of the tensor ALU; x and y are accumulator elements, or y the immediate.

    Register form: ``ACC[dst] = op(ACC[dst], ACC[src])``; immediate form:
    ``dst = op(ACC[src], immediate)``. MOV takes y alone; REQUANTIZE takes ``ACC[src]`` and the
    parameters ``PAR[par]``, rounds half to even and has no immediate form. LOOKUP does the same and
    replaces the result by an entry of a table: entry e of table t is ``TAB[t * 256 + e]``, and e is
    the result's low 8 bits as an unsigned number. ACC takes the entry's 16 bits, signed, OUT its
    low bits; only variants with tables have it. MUL keeps the low 18 bits of each operand.
    SUM_LANES and MAX_LANES take y alone, combine its elements of one batch row over all lanes, and
    give every lane the result; only variants with lane reductions have them.
    Shift amounts are the low 7 bits of y, signed; a negative amount shifts the other way.
    """

    meaning: str
    formula: Formula | None
    over_lanes: bool
    """Whether the formula combines two lanes of y, then two results, until one is left."""

    # With the defaults, type checkers accept ``AluOp(code)`` as a member lookup.
    def __new__(
        cls,
        code: int,
        meaning: str = "",
        formula: Formula | None = None,
        over_lanes: bool = False,
    ) -> "AluOp":
        """Make the member of value `code`."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        member.formula = formula
        member.over_lanes = over_lanes
        return member

    ADD = 0, "x + y", lambda lane: lane.total()
    SUB = 1, "x - y", lambda lane: lane.difference()
    MUL = 2, "x * y, 18 by 18 bits", lambda lane: lane.product()
    MIN = 3, "the smaller of x and y", lambda lane: lane.choose(lane.less(), lane.x, lane.y)
    MAX = 4, "the larger of x and y", lambda lane: lane.choose(lane.less(), lane.y, lane.x)
    SHL = 5, "x shifted left by y", lambda lane: lane.left()
    SHR = 6, "x shifted right by y, rounded down", lambda lane: lane.right()
    SHR_EVEN = 7, "x shifted right by y, rounded half to even", lambda lane: lane.right_even()
    MOV = 8, "y", lambda lane: lane.y
    REQUANTIZE = 9, "clamp(round((x + bias) * multiplier / 2^shift) + immediate, low, high)", None
    LOOKUP = 10, "the entry of `table` at the result of REQUANTIZE", None
    SUM_LANES = 11, "the sum of all lanes of y", lambda lane: lane.total(), True
    MAX_LANES = (
        *(12, "the largest of all lanes of y"),
        *(lambda lane: lane.choose(lane.less(), lane.y, lane.x), True),
    )

    @staticmethod
    def of(variant: Variant) -> "tuple[AluOp, ...]":
        """The operations that `variant` has."""
        absent = set() if variant.memory.tables else {AluOp.LOOKUP}
        if not variant.units.lane_reductions:
            absent |= {op for op in AluOp if op.over_lanes}
        return tuple(op for op in AluOp if op not in absent)

    @cached_property
    def parts(self) -> frozenset[str]:
        """Parts of a lane that the formula uses: names of members of `isa.lane.Lane`."""
        recorder = Recorder()
        if self.formula is not None:
            self.formula(recorder)
        return frozenset(recorder.used)

    @property
    def requantizes(self) -> bool:
        """Whether it is REQUANTIZE or begins with it: it has parameters and no formula."""
        return self.formula is None

    @property
    def takes_x(self) -> bool:
        """Whether it has two operands x and y: the register form then reads ACC[dst]."""
        return not self.over_lanes and bool(self.parts - {"y", "choose"})

    def check(self) -> None:
        """Raise ValueError for a formula that uses a part of the lane more often than it exists."""
        for part, settings in _ONE_OF_EACH:
            if sum(bool(self.parts & names) for names in settings) > 1:
                used = " and ".join(sorted(self.parts & frozenset().union(*settings)))
                raise ValueError(
                    f"an ALU operation may use the {part} once, and {self.name} needs it for "
                    f"{used}; make it two operations"
                )


for _op in AluOp:
    _op.check()
