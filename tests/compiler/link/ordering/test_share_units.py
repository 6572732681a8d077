"""Two layers with products at the same time: when, and in which order of their tiles."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from daedal.compiler.codegen.segment import Instance, RowAccess, Segment
from daedal.compiler.link.ordering.interleave import SHORTEST_TILE, stretches
from daedal.compiler.link.ordering.share_units import LATEST, TILE_CYCLES, UNITS, cycles_together
from daedal.compiler.link.placement.memory_plan import Alias
from daedal.isa.instruction import Instruction
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import Unit
from daedal.isa.variant import load_variant
from tests.support.tile_segments import layer_of_tiles, loading

TINY = load_variant("tiny")
COUNT = 8
PRODUCTS = 2000
"""Of a tile that keeps the multipliers busy."""
WORDS = 1000
"""Of a tile that keeps the bus busy."""


def _order(*segments: Segment) -> str:
    """The layer of every tile, in the order of their STOREs; a space between stretches."""
    return " ".join(
        "".join(str(layer) for layer, item in part.items if item.unit is Unit.STORE)
        for part in stretches(segments, (), TINY)
    )


def _first(count: int = COUNT) -> Segment:
    """A layer that keeps the multipliers busy."""
    return layer_of_tiles("first", "x", "t", loading(*range(count)), products=True, steps=PRODUCTS)


def _second(loads: Sequence[int], words: int = WORDS, inp_rows: int = 0) -> Segment:
    """A layer whose tiles load `words` words, all of one address, and take `inp_rows` of INP."""
    layer = layer_of_tiles("second", "t", "y", loading(*loads), products=True, steps=8)
    items = []
    for item in layer.instructions:
        if item.unit is Unit.LOAD:
            values = {**item.template.values, "rows": words}
            item = item._replace(template=Instruction(item.template.opcode, values))
        if item.unit is Unit.LOAD and inp_rows:
            rows = RowAccess(Instance("inp", Memory.INP, inp_rows), "row", ((0, 1),), writes=True)
            item = item._replace(rows=(*item.rows, rows))
        items.append(item)
    return replace(layer, instructions=tuple(items))


def test_tiles_that_load_run_during_products():
    assert _order(_first(), _second(range(COUNT))) == "0010101010101011"


def test_tiles_alternate_between_the_halves_of_the_accumulators():
    """In the order of their products, whatever their layers are."""
    (part,) = stretches([_first(), _second(range(COUNT))], (), TINY)
    halves = [
        part.halves[access.instance]
        for _, item in part.items
        if item.unit is Unit.GEMM
        for access in item.rows
        if access.instance.memory is Memory.ACC
    ]
    assert halves == [0, 1] * COUNT


def test_short_tiles_of_the_first_layer_hide_nothing():
    for steps, count in ((SHORTEST_TILE, 1), (SHORTEST_TILE - 1, 2)):
        first = layer_of_tiles(
            "first", "x", "t", loading(*range(COUNT)), products=True, steps=steps
        )
        second = _second(range(COUNT), SHORTEST_TILE)
        assert len(stretches([first, second], (), TINY)) == count


def test_one_after_the_other_where_the_same_unit_is_busy():
    other = layer_of_tiles(
        "second", "t", "y", loading(*range(COUNT)), products=True, steps=PRODUCTS
    )
    assert _order(_first(), other) == "0" * COUNT + " " + "1" * COUNT


def test_what_a_tile_costs_must_be_gained():
    """Of tiles with fewer words than that, only the last one does not overlap."""
    assert " " not in _order(_first(), _second(range(COUNT), 2 * TILE_CYCLES))
    assert " " in _order(_first(), _second(range(COUNT), TILE_CYCLES))


def test_most_of_the_first_layer_must_be_left():
    count = 16
    latest = int(LATEST * count) - 2
    assert " " not in _order(_first(count), _second([latest] * 4))
    assert " " in _order(_first(count), _second([latest + 1] * 4))


@pytest.mark.parametrize(("excess", "stretches_found"), [(0, 1), (1, 2)])
def test_two_tiles_of_each_layer_must_fit(excess, stretches_found):
    rows = scratchpad(TINY, Memory.INP).depth_rows // 2 + excess
    order = _order(_first(), _second(range(COUNT), inp_rows=rows))
    assert len(order.split()) == stretches_found


def test_the_second_layer_must_read_the_result():
    """Here it only overwrites what the first layer loads."""
    first = _first()
    items = tuple(
        item._replace(tensor="other") if item.tensor == "t" else item
        for item in _second(range(COUNT)).instructions
    )
    second = Segment("second", items, {"other": 512, "y": 512})
    aliases = {"x": Alias("x", 0), "y": Alias("x", 0)}
    assert len(stretches([first, second], (), TINY, aliases)) == 2


def test_the_busiest_unit_counts_while_both_run():
    bus, gemm, alu = UNITS
    first, second = {bus: 40.0, gemm: 100.0, alu: 10.0}, {bus: 80.0, gemm: 20.0, alu: 10.0}
    assert cycles_together(first, second, 0.0, 0.0) == 120
    assert cycles_together(first, second, 1.0, 1.0) == 180
    assert cycles_together(first, second, 0.5, 0.25) == 50 + 80 + 20
    heads = np.array([0.0, 1.0])
    np.testing.assert_array_equal(cycles_together(first, second, heads, heads), [120, 180])
