"""LOADs move ahead of instructions that they do not depend on."""

from daedal.compiler.link.ordering.early_loads import early_loads
from daedal.compiler.link.placement.placed import BeatRange, PlacedInstruction, PlacedRows
from daedal.isa.instruction import Instruction
from daedal.isa.scratchpad import Memory
from daedal.isa.table import Opcode

FAR = 4
"""All the instructions of these programs; half of it is their shortest run."""


def _load(row: int, words: tuple[int, int] | None = None, base: int = 3) -> PlacedInstruction:
    rows = (PlacedRows(Memory.INP, row, ((0, 4),), reads=False, writes=True),)
    beats = None if words is None else BeatRange(base, words[0], 1, 1, words[1], 0, 0)
    return PlacedInstruction(Instruction.of(Opcode.LOAD, row=row), 0, rows, "x", beats)


def _gemm(row: int) -> PlacedInstruction:
    rows = (PlacedRows(Memory.INP, row, ((0, 4),), reads=True, writes=False),)
    return PlacedInstruction(Instruction.of(Opcode.GEMM, inp_base=row), 0, rows)


def _store(words: tuple[int, int], base: int = 3) -> PlacedInstruction:
    rows = (PlacedRows(Memory.OUT, 0, ((0, 4),), reads=True, writes=False),)
    beats = BeatRange(base, words[0], 1, 1, words[1], 0, 0)
    return PlacedInstruction(Instruction.of(Opcode.STORE), 0, rows, "y", beats)


def test_a_load_moves_up_to_the_distance() -> None:
    products, load = [_gemm(0) for _ in range(6)], _load(8)
    assert early_loads([*products, load], 4) == [*products[:2], load, *products[2:]]
    assert early_loads([*products, load], 6) == [load, *products]
    assert early_loads([*products, load], 0) == [*products, load]


def test_it_stays_behind_readers_of_its_rows() -> None:
    items = [_gemm(0), _gemm(6), _gemm(20), _load(8)]
    assert early_loads(items, FAR) == [items[0], items[1], items[3], items[2]]


def test_it_stays_behind_stores_to_its_source() -> None:
    items = [_store((40, 8)), _gemm(0), _load(8, (44, 8))]
    assert early_loads(items, FAR) == [items[0], items[2], items[1]]
    elsewhere = [_store((40, 8)), _gemm(0), _load(8, (48, 8))]
    assert early_loads(elsewhere, FAR) == [elsewhere[2], *elsewhere[:2]]
    other_region = [_store((40, 8)), _gemm(0), _load(8, (44, 8), base=1)]
    assert early_loads(other_region, FAR) == [other_region[2], *other_region[:2]]


def test_loads_pass_only_what_follows_the_load_before() -> None:
    items = [*map(_gemm, (0, 0)), _load(8), *map(_gemm, (0, 0)), _load(16), _load(24)]
    assert early_loads(items, FAR) == [items[k] for k in (2, 0, 1, 5, 3, 4, 6)]


def test_behind_few_instructions_it_stays() -> None:
    items = [_load(8), _gemm(0), _load(16)]
    assert early_loads(items, FAR) == items
