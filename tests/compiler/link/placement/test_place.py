"""Rows of consecutive layers: they overlap where both fit, and otherwise begin at the first row."""

import itertools
from collections.abc import Sequence

import pytest

from daedal.common.errors import ScheduleError
from daedal.compiler.codegen.segment import Instance, RowAccess, Segment, SegmentInstruction
from daedal.compiler.link.ordering.interleave import Stretch
from daedal.compiler.link.placement.place import Placement
from daedal.isa.instruction import Instruction
from daedal.isa.scratchpad import Memory, scratchpads
from daedal.isa.table import LoadMemory, Opcode
from daedal.isa.variant import load_variant

TINY = load_variant("tiny")
DEPTH = scratchpads(TINY)[Memory.INP].depth_rows


def _load(*tiles: Instance) -> SegmentInstruction:
    """Uses all of `tiles`, so that they are live at once."""
    template = Instruction.of(Opcode.LOAD, memory=LoadMemory.INP, rows=1, cols=1, blocks=1)
    accesses = [RowAccess(tile, "row", ((0, tile.rows),), writes=True) for tile in tiles]
    return SegmentInstruction(template, tuple(accesses))


def _layer(*rows: int) -> list[SegmentInstruction]:
    """Each tile is loaded while the one before is in use."""
    tiles = [Instance("x", Memory.INP, count) for count in rows]
    pairs = itertools.pairwise(tiles)
    return [_load(tiles[0]), *(_load(*pair) for pair in pairs)]


def _placed(*layers: Sequence[SegmentInstruction]) -> tuple[list[list[int]], int]:
    """The first row of each tile, by layers, and the most rows in use at once."""
    stretches = [
        Stretch((number,), tuple((number, item) for item in layer))
        for number, layer in enumerate(layers)
    ]
    placement = Placement(TINY)
    segments = [Segment(f"layer{number}", layer) for number, layer in enumerate(layers)]
    found = placement.run(stretches, segments)
    rows = [[item.rows[-1].first for item in found if item.layer == n] for n in range(len(layers))]
    return rows, placement.allocators[Memory.INP].high_water_rows


def test_a_layer_goes_on_where_the_last_one_ended() -> None:
    half = DEPTH // 2
    assert _placed(_layer(half), _layer(half))[0] == [[0], [half]]


def test_tiles_that_fit_alone_fit_after_any_layer() -> None:
    """Going on would leave the second tile no rows in one piece."""
    half, few = DEPTH // 2, DEPTH // 5
    alone, most = _placed(_layer(half, half, half))
    assert alone == [[0, half, 0]] and most == DEPTH
    assert _placed(_layer(few), _layer(half, half, half)) == ([[0], *alone], most)


def test_what_lasts_leaves_the_others_one_piece() -> None:
    """Where `lasting` goes behind a tile of its layer, a larger tile of the next layer has no rows
    in one piece."""
    few = DEPTH // 8
    lasting = Instance("kept", Memory.INP, few)
    tile, large = Instance("x", Memory.INP, few), Instance("y", Memory.INP, DEPTH - 2 * few + 1)
    layers = [_load(tile), _load(tile, lasting)], [_load(large, lasting)]
    stretches = [
        Stretch((number,), tuple((number, item) for item in layer), frozenset([lasting]))
        for number, layer in enumerate(layers)
    ]
    segments = [Segment(f"layer{number}", layer) for number, layer in enumerate(layers)]
    with pytest.raises(ScheduleError, match=r"^the tiles of a layer must fit scratchpad 'inp'"):
        Placement(TINY).run(stretches, segments)
    found = Placement(TINY, compact=True).run(stretches, segments)
    assert [item.rows[-1].first for item in found] == [0, DEPTH - few, DEPTH - few]
    assert found[-1].rows[0].first == 0


def test_tiles_that_do_not_fit_alone_are_refused() -> None:
    with pytest.raises(ScheduleError, match=r"^the tiles of a layer must fit scratchpad 'inp'"):
        _placed(_layer(1), _layer(DEPTH // 2, DEPTH // 2 + 1))


@pytest.mark.parametrize(("products", "operations", "places"), [(8, 4, 3), (4, 8, 2), (0, 8, 3)])
def test_tiles_take_turns_where_the_alu_bounds_a_layer(
    products: int, operations: int, places: int
) -> None:
    """GEMM computes three tiles, and the ALU works on each of them."""
    layer = []
    for _ in range(3):
        tile = Instance("a", Memory.ACC, 4)
        access = RowAccess(tile, "acc_base", ((0, 4),), writes=True)
        loops = {"extent0": 1, "extent1": 1, "extent2": products}
        gemm = Instruction.of(Opcode.GEMM, **loops)
        uops = ((0, 0, 0, 1),)
        layer += [SegmentInstruction(gemm, (access,), uops=uops)] if products else []
        alu = Instruction.of(Opcode.ALU, destination=1, **loops | {"extent2": operations})
        access = RowAccess(tile, "dst_base", ((0, 4),), writes=True)
        layer.append(SegmentInstruction(alu, (access,), uops=((0, 0, 0),)))
    placement = Placement(TINY)
    stretch = Stretch((0,), tuple((0, item) for item in layer))
    found = placement.run([stretch], [Segment("layer", layer)])
    rows = {item.rows[0].first for item in found if item.rows[0].memory is Memory.ACC}
    assert len(rows) == places
