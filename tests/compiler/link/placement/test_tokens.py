"""Token insertion on hand-made streams: what waits for what, and what does not need to."""

from daedal.compiler.link.placement.placed import BeatRange, PlacedInstruction, PlacedRows
from daedal.compiler.link.placement.placed_program import PlacedProgram
from daedal.compiler.link.placement.tokens import insert_tokens
from daedal.isa.instruction import Instruction, unit_mask
from daedal.isa.scratchpad import Memory
from daedal.isa.table import Opcode, Unit
from daedal.isa.variant import load_variant

TINY = load_variant("tiny")
REGIONS = (0, 0, 0, 4096)


def _rows(memory: Memory, begin: int, end: int, how: str) -> PlacedRows:
    return PlacedRows(memory, 0, ((begin, end),), "r" in how, "w" in how)


def _load(begin: int, end: int, offset: int | None = None) -> PlacedInstruction:
    beats = None if offset is None else BeatRange(3, offset, 1, 1, end - begin, 0, 0)
    rows = (_rows(Memory.INP, begin, end, "w"),)
    return PlacedInstruction(Instruction.of(Opcode.LOAD), 0, rows, beats=beats)


def _gemm(inp: tuple[int, int], acc: tuple[int, int] = (0, 1)) -> PlacedInstruction:
    rows = (_rows(Memory.INP, *inp, "r"), _rows(Memory.ACC, *acc, "rw"))
    return PlacedInstruction(Instruction.of(Opcode.GEMM), 0, rows)


def _alu(acc: tuple[int, int], out: tuple[int, int]) -> PlacedInstruction:
    rows = (_rows(Memory.ACC, *acc, "r"), _rows(Memory.OUT, *out, "w"))
    return PlacedInstruction(Instruction.of(Opcode.ALU), 0, rows)


def _store(out: tuple[int, int], offset: int) -> PlacedInstruction:
    beats = BeatRange(3, offset, 1, 1, out[1] - out[0], 0, 0)
    rows = (_rows(Memory.OUT, *out, "r"),)
    return PlacedInstruction(Instruction.of(Opcode.STORE), 0, rows, beats=beats)


def _waits(*items: PlacedInstruction, variant=TINY) -> list[tuple[int, ...]]:
    return list(insert_tokens(PlacedProgram.of(variant, REGIONS, items)).waits)


def test_read_after_write_and_write_after_read():
    assert _waits(_load(0, 4), _gemm((0, 4)), _load(2, 3)) == [(), (0,), (1,)]


def test_disjoint_rows_do_not_wait():
    assert _waits(_load(0, 4), _gemm((0, 4)), _load(4, 8), _gemm((4, 8))) == [(), (0,), (), (2,)]


def test_a_wait_that_the_queue_implies_is_left_out():
    """The second GEMM needs load 0 too, but its unit has waited for load 1 already."""
    assert _waits(_load(0, 4), _load(4, 8), _gemm((4, 8)), _gemm((0, 4))) == [(), (), (1,), ()]


def test_a_wait_that_another_unit_implies_is_left_out():
    """The ALU waits for GEMM, which waited for the LOAD of the accumulators."""
    load = PlacedInstruction(Instruction.of(Opcode.LOAD), 0, (_rows(Memory.ACC, 0, 1, "w"),))
    assert _waits(load, _gemm((0, 1), (0, 1)), _alu((0, 1), (0, 1))) == [(), (0,), (1,)]


def test_memory_orders_layers():
    stream = [_alu((0, 1), (0, 4)), _store((0, 4), 16), _load(0, 4, 20), _load(0, 4, 19)]
    assert _waits(*stream) == [(), (0,), (), (1,)]
    # A workspace place that is used again: the store waits for the load that reads it.
    assert _waits(_load(0, 4, 16), _store((0, 4), 18)) == [(), (0,)]


def test_strided_ranges_that_interleave_are_independent():
    store = _store((0, 4), 0)
    store = PlacedInstruction(
        store.instruction, 0, store.rows, beats=BeatRange(3, 0, 2, 2, 1, 2, 8)
    )
    load = PlacedInstruction(
        Instruction.of(Opcode.LOAD),
        0,
        (_rows(Memory.INP, 0, 4, "w"),),
        beats=BeatRange(3, 1, 2, 2, 1, 2, 8),
    )
    assert _waits(store, load) == [(), ()]


def test_masks_pair_each_pop_with_one_push():
    items = [_load(0, 4), _gemm((0, 4)), _alu((0, 1), (0, 1)), _gemm((0, 4))]
    masks = insert_tokens(PlacedProgram.of(TINY, REGIONS, items)).masks()
    gemm, alu = unit_mask([Unit.GEMM]), unit_mask([Unit.ALU])
    load = unit_mask([Unit.LOAD])
    assert masks == [(0, gemm), (load, alu), (gemm, gemm), (alu, 0)]


def test_counters_never_hold_more_than_they_can():
    """Nine loads before the first product: with three tokens at most, later ones are waited for."""
    narrow = TINY.replace("narrow", token_bits=2)
    items = [_load(k, k + 1) for k in range(9)] + [_gemm((k, k + 1)) for k in range(9)]
    waits = _waits(*items, variant=narrow)
    assert sum(len(w) for w in waits) <= 4
    assert _waits(*items)[9:] == [(k,) for k in range(9)]


def test_a_ring_that_outruns_its_counter_waits():
    """The loader may be 4 tiles ahead by rows, but only 3 by tokens."""
    narrow = TINY.replace("narrow", token_bits=2)
    items = []
    for k in range(16):
        items += [_load(k, k + 1), _gemm((k, k + 1), (k, k + 1))]
    waits = _waits(*items, variant=narrow)
    back = [w for item, w in zip(items, waits, strict=True) if item.unit is Unit.LOAD and w]
    assert back, "some load waits for an earlier product"
    assert not any(
        w for item, w in zip(items, _waits(*items), strict=True) if item.unit is Unit.LOAD
    )
