"""What random programs are to exercise on a variant, as a listed table."""

from collections.abc import Iterator
from itertools import combinations

from daedal.isa.alu_operations import AluOp
from daedal.isa.scratchpad import scratchpads
from daedal.isa.table import BASES, LOOPS, MICRO_OPS, GemmMode, LoadMemory, OutMemory, Unit
from daedal.isa.transfer import PADDABLE
from daedal.isa.variant import Variant

__all__ = [
    "ALU_THEN_GEMM",
    "ANOTHER_TABLE",
    "DISTANCES",
    "DURING_LOAD",
    "GEMM_THEN_ALU",
    "LOADED_AGAIN",
    "SHIFTS",
    "SIDES",
    "UNITS",
    "advancing",
    "goals",
]

DISTANCES = range(9)
"""Steps between two that touch the same row."""

UNITS = (Unit.LOAD, Unit.GEMM, Unit.ALU, Unit.STORE)
_RESULT_USERS = (Unit.GEMM, Unit.ALU, Unit.STORE)
SIDES = ("top", "bottom", "left", "right")
_AMOUNTS = ("negative", "zero", "inside", "beyond")
LOADED_AGAIN = "in a table that was loaded after an earlier LOOKUP in it"
ANOTHER_TABLE = "in another table than the one before"
DURING_LOAD = "while another table is loaded"
ALU_THEN_GEMM = "GEMM multiplies rows of OUT that the ALU's last instruction wrote"
GEMM_THEN_ALU = "ALU writes rows of OUT that GEMM's last instruction multiplied"
SHIFTS = frozenset({"left", "right", "right_even"})
_SLIDING = (
    *(f"from row {k} of 4" for k in range(4)),
    *(f"up to the {which} vector of a weight row" for which in ("first possible", "inner", "last")),
    "up to the last row",
    *(f"inp moves by {step}" for step in ("1", "2", "3 and more")),
    *(f"wgt moves by {step}" for step in ("1", "a weight row")),
)


def goals(variant: Variant) -> list[str]:
    """Everything that programs on `variant` are to contain, by name."""
    return [
        *_instruction_goals(variant),
        *(f"tokens: {a.name} to {b.name}" for a in UNITS for b in UNITS if a is not b),
        *(f"tokens: {count} taken at once" for count in (1, 2, 3)),
        *_hazard_goals(),
        *_bank_goals(variant),
        *_result_goals(variant),
        *(f"mark: {unit.name}" for unit in UNITS),
        *_range_goals(variant),
    ]


def _instruction_goals(variant: Variant) -> Iterator[str]:
    for memory in LoadMemory.of(variant):
        yield f"LOAD: {memory.name}"
    for memory in PADDABLE:
        yield from (f"LOAD: {memory.name} pad {side}" for side in SIDES)
        yield f"LOAD: {memory.name} only pads"
        yield f"LOAD: {memory.name} pad value negative"
    for base in (0, 1, 3):
        yield f"LOAD: from {BASES[base]}"
    for field in ("blocks", "rows", "cols"):
        yield from (f"{unit.name}: {field} is 0" for unit in (Unit.LOAD, Unit.STORE))
    for mode in GemmMode.of(variant):
        yield from (f"GEMM: {mode.name} {text}" for text in ("accumulates", "overwrites"))
        if mode.taps > 1:
            yield from (f"GEMM: {mode.name} {text}" for text in _SLIDING)
    for op in AluOp.of(variant):
        for target in OutMemory:
            for form in ("register", "immediate") if op.formula is not None else ("register",):
                for end in ("truncates", "saturates"):
                    yield f"ALU: {op.name} {form} {target.name} {end}"
        if op.parts & SHIFTS:
            yield from (f"ALU: {op.name} amount {kind}" for kind in _AMOUNTS)
        if op.requantizes and variant.units.wide_requantize:
            yield from (f"ALU: {op.name} wide {target.name}" for target in OutMemory)
    for table in range(variant.memory.tables):
        yield f"ALU: LOOKUP in table {table}"
        yield f"ALU: LOOKUP in table {table} of which every entry was loaded"
    if variant.memory.tables > 1:
        yield from (f"ALU: LOOKUP {text}" for text in (ANOTHER_TABLE, DURING_LOAD))
    if variant.memory.tables:
        yield f"ALU: LOOKUP {LOADED_AGAIN}"
    for memory in OutMemory:
        yield from (f"STORE: {memory.name} to {BASES[base]}" for base in (2, 3))
    for unit in MICRO_OPS:
        yield f"{unit.name}: no micro-op"
        yield f"{unit.name}: micro-ops end before they begin"
        for level in range(LOOPS):
            yield f"{unit.name}: extent{level} is 0"
            for name in advancing(unit):
                yield f"{unit.name}: {name} advances in loop {level}"


def _hazard_goals() -> Iterator[str]:
    for distance in DISTANCES:
        for text in ("accumulates", "overwrites"):
            yield f"hazard: GEMM acc {text} with {distance} between"
        for kind in ("ordinary", "requantize"):
            yield f"hazard: ALU src after dst, {kind}, {distance} between"
        yield f"hazard: ALU dst read after dst, {distance} between"
        yield f"hazard: ALU dst written again, {distance} between"
    yield "hazard: ALU src is dst"
    yield "hazard: GEMM acc across instructions"
    yield "hazard: ALU src after dst across instructions"


def _bank_goals(variant: Variant) -> Iterator[str]:
    for bank in range(variant.memory.acc_banks):
        yield from (f"bank: {unit.name} in {bank}" for unit in UNITS)
    yield "bank: ALU operands in one"
    yield "bank: ALU operands in two"
    yield from (f"bank: {a.name} beside {b.name}" for a, b in combinations(UNITS, 2))


def _result_goals(variant: Variant) -> Iterator[str]:
    """OUT has three users if GEMM multiplies rows of it."""
    if variant.units.gemm_reads_out:
        yield from (f"hazard: {text}" for text in (ALU_THEN_GEMM, GEMM_THEN_ALU))
        yield from (f"out: {a.name} beside {b.name}" for a, b in combinations(_RESULT_USERS, 2))
        yield "range: GEMM multiplies the last row of out"


def _range_goals(variant: Variant) -> Iterator[str]:
    for memory in scratchpads(variant):
        yield from (f"range: {end} row of {memory.value}" for end in ("first", "last"))
    for unit in (Unit.LOAD, Unit.STORE):
        yield f"range: {unit.name} of one row"
        yield f"range: {unit.name} of several bursts"
        yield f"range: {unit.name} across a page"
        yield f"range: {unit.name} of several planes"
    yield "range: LOAD reads words twice"


def advancing(unit: Unit) -> list[str]:
    """Indices of a micro-op that move in loops."""
    return [item.name for item in MICRO_OPS[unit] if item.name != "first"]
