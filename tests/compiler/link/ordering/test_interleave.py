"""Interleaved layers: the order of their tiles, what it leaves unchanged, and what forbids it."""

from dataclasses import replace

import numpy as np
import pytest

from daedal.compiler.codegen.segment import Instance, RowAccess, Segment
from daedal.compiler.link.ordering import interleave
from daedal.compiler.link.ordering.interleave import SHORTEST_TILE, stretches
from daedal.compiler.link.placement.memory_plan import Alias
from daedal.compiler.ops.accelerator.conv.cost import ConvTile
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import Unit
from daedal.isa.variant import load_variant
from daedal.isa.verifier import verify
from tests.support.accelerator import memory_of, micro_variant, run_blocked
from tests.support.accelerator_operators import conv_case, pool_case
from tests.support.blocked_network import BlockedNetwork
from tests.support.interleaving import check_interleavings
from tests.support.tile_segments import layer_of_tiles, loading

TINY = load_variant("tiny")


def _order(segments: list[Segment], aliases: dict[str, Alias] | None = None) -> str:
    """The layer of every tile, in the order of their STOREs."""
    parts = stretches(segments, (), TINY, aliases)
    return "".join(
        str(layer) for part in parts for layer, item in part.items if item.unit is Unit.STORE
    )


def test_a_tile_follows_those_that_it_reads_and_one_more():
    first = layer_of_tiles("first", "x", "t", loading(*range(6)), products=True)
    second = layer_of_tiles("second", "t", "y", loading(*range(6)), products=False)
    assert _order([first, second]) == "001010101011"


def test_tiles_of_the_second_layer_are_spread_over_those_of_the_first():
    """Both of its first tiles can run after two of eight."""
    first = layer_of_tiles("first", "x", "t", loading(*range(8)), products=True)
    second = layer_of_tiles("second", "t", "y", loading(0, 0), products=False)
    assert _order([first, second]) == "0000100010"


def test_independent_tiles_come_in_the_order_in_which_they_can():
    first = layer_of_tiles("first", "x", "t", loading(*range(4)), products=True)
    second = layer_of_tiles("second", "t", "y", loading(0, 3, 1), products=False)
    parts = stretches([first, second], (), TINY)
    (part,) = parts
    stored = [
        item.template.values.get("offset_beats", 0)
        for layer, item in part.items
        if layer == 1 and item.unit is Unit.STORE
    ]
    assert stored == [0, 2, 1]


def test_tiles_in_the_same_rows_keep_their_order():
    first = layer_of_tiles("first", "x", "t", loading(*range(4)), products=True)
    second = layer_of_tiles("second", "t", "y", loading(0, 3, 1), products=False, shared=True)
    # The second tile needs the last one of the first layer, and the third waits for it.
    assert _order([first, second]) == "0010011"


def test_rows_that_an_earlier_layer_left_tie_no_tiles():
    """All tiles of the second layer read the rows of a residual stream, which none of them wrote.
    They can have any order then, as without these rows."""
    first = layer_of_tiles("first", "x", "t", loading(*range(4)), products=True)
    second = layer_of_tiles("second", "t", "y", loading(0, 3, 1), products=False)
    read = RowAccess(Instance("stream", Memory.ACC, 4), "src_base", ((0, 4),), reads=True)
    items = tuple(
        item._replace(rows=(*item.rows, read)) if item.unit is Unit.ALU else item
        for item in second.instructions
    )
    (part,) = stretches([first, replace(second, instructions=items)], (), TINY)
    stored = [
        item.template.values.get("offset_beats", 0)
        for layer, item in part.items
        if layer == 1 and item.unit is Unit.STORE
    ]
    assert stored == [0, 2, 1]


@pytest.mark.parametrize(
    ("case", "first", "second"),
    [
        ("both multiply", {"products": True}, {"products": True}),
        ("neither multiplies", {"products": False}, {"products": False}),
    ],
)
def test_only_layers_of_different_units_are_interleaved(case, first, second):
    segments = [
        layer_of_tiles("first", "x", "t", loading(*range(4)), **first),
        layer_of_tiles("second", "t", "y", loading(*range(4)), **second),
    ]
    assert len(stretches(segments, (), TINY)) == 2, case


def test_layers_that_do_not_fit_the_accumulators_together_take_turns():
    half = scratchpad(TINY, Memory.ACC).depth_rows // 2
    for rows, count in ((half - 4, 1), (half - 3, 2)):
        first = layer_of_tiles("first", "x", "t", loading(*range(4)), products=True, rows=rows)
        second = layer_of_tiles("second", "t", "y", loading(*range(4)), products=False)
        assert len(stretches([first, second], (), TINY)) == count


@pytest.mark.parametrize("largest", ["first", "second"])
def test_the_largest_tile_of_a_layer_must_fit(largest):
    """The last one is larger than the others."""
    half = scratchpad(TINY, Memory.ACC).depth_rows // 2
    for rows, count in ((half - 4, 1), (half - 3, 2)):
        layers = []
        for name, source, result in (("first", "x", "t"), ("second", "t", "y")):
            head, tail = (
                layer_of_tiles(name, source, result, tiles, products=name == "first", rows=size)
                for tiles, size in (
                    (loading(*range(3)), 4),
                    ([(3, 3)], rows if name == largest else 4),
                )
            )
            layers.append(replace(head, instructions=head.instructions + tail.instructions))
        assert len(stretches(layers, (), TINY)) == count


def test_tiles_with_few_products_hide_nothing():
    for steps, count in ((SHORTEST_TILE, 1), (SHORTEST_TILE - 1, 2)):
        first = layer_of_tiles("first", "x", "t", loading(*range(4)), products=True, steps=steps)
        second = layer_of_tiles("second", "t", "y", loading(*range(4)), products=False)
        assert len(stretches([first, second], (), TINY)) == count


def test_a_layer_that_reads_something_else_stays_apart():
    first = layer_of_tiles("first", "x", "t", loading(*range(4)), products=True)
    second = layer_of_tiles("second", "other", "y", loading(*range(4)), products=False)
    assert len(stretches([first, second], (), TINY)) == 2


def test_a_layer_that_needs_all_of_the_first_stays_apart():
    first = layer_of_tiles("first", "x", "t", loading(*range(4)), products=True)
    second = layer_of_tiles("second", "t", "y", loading(3, 3), products=False)
    assert len(stretches([first, second], (), TINY)) == 2


def test_tensors_in_one_group_conflict_where_their_bytes_overlap():
    """`t` is the upper half of a group whose lower half the second layer reads by another name."""
    first = layer_of_tiles("first", "x", "t", loading(*range(6)), products=True)
    second = layer_of_tiles("second", "all", "y", [(32 + k, k) for k in range(6)], products=False)
    word = TINY.bus_bytes
    aliases = {"all": Alias("all", 0), "t": Alias("all", 32 * word)}
    assert _order([first, second], aliases) == "001010101011"


def test_a_store_follows_the_loads_that_read_the_old_bytes():
    """The second layer's results lie where the first one's operands were."""
    first = layer_of_tiles("first", "x", "t", [(5 - k, k) for k in range(6)], products=True)
    second = layer_of_tiles("second", "t", "y", loading(*range(6)), products=False)
    aliases = {"x": Alias("x", 0), "y": Alias("x", 0)}
    # Word 0 of `x` is read by the last tile.
    assert len(stretches([first, second], (), TINY, aliases)) == 2


def _conv_and_pool(seed: int, **changes: int) -> BlockedNetwork:
    variant = micro_variant(**changes)
    rng = np.random.default_rng(seed)
    # Tiles that leave room in the accumulators' half.
    tile = ConvTile(2, 6, out_blocks=1, in_blocks=1, group=0, keep_inputs=False)
    kernel = {"kernel": (3, 3), "pads": (1, 1, 1, 1), "tile": tile}
    return BlockedNetwork(
        (conv_case(variant, rng, (1, 2, 32, 6), 2, **kernel), {"x": "x", "y": "t"}),
        (pool_case(variant, rng, (1, 2, 32, 6), (3, 3), (2, 2)), {"x": "t", "y": "y"}),
    )


def test_interleaved_layers_compute_the_same_under_any_interleaving(seed, monkeypatch):
    monkeypatch.setattr(interleave, "SHORTEST_TILE", 1)
    network = _conv_and_pool(seed, acc_bytes=8192)
    linked = network.link()
    tags = [item.tag for item in linked.program.instructions if item.mark]
    assert len(tags) > 8, "the layers are not interleaved"
    verify(linked.program)
    expected = memory_of(network.reference(), network.variant)
    result = run_blocked(linked.program, {"x": network.x})["y"]
    np.testing.assert_array_equal(result, expected)
    rng = np.random.default_rng(seed)
    (spec,) = linked.program.inputs
    data = bytes(spec.offset_bytes) + memory_of(network.x, network.variant).tobytes()
    left = check_interleavings(linked.program, rng, 8, {spec.base: data})
    assert expected.tobytes() in left
