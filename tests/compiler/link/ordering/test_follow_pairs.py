"""Norms behind pairs of tiles whose results stay in the accumulators: order, results, cycles."""

from typing import Any
from unittest import mock

import numpy as np
import onnx
import pytest

import daedal
from bench.figures import figures_of
from daedal.artifact.artifact import Artifact
from daedal.checking.layer_check import check_layers
from daedal.compiler.cost.paired_tiles import in_pairs
from daedal.compiler.layers import layer_code
from daedal.compiler.layers.paired_tiles import paired_tile
from daedal.compiler.link.ordering import interleave
from daedal.compiler.link.ordering.follow_pairs import Pairs, follow_pairs, layer_of_pairs
from daedal.isa.scratchpad import Memory
from daedal.isa.table import Unit
from daedal.isa.variant import load_variant
from tests.support.interleaving import check_interleavings
from tests.support.norm_blocks import SMALL, block, feeds
from tests.support.rtl_cycles import check_rtl
from tests.support.tile_segments import layer_of_tiles, loading

ATTENTION = load_variant("attention")
SIZES = [(128, 192, 192), (256, 96, 96)]
"""Tokens, channels, and channels between the projections, with half of the accumulators."""


def compiled(model: onnx.ModelProto, *, pairs: bool = True) -> tuple[Artifact, list[Pairs]]:
    """The artifact, and what runs in pairs."""
    found: list[Pairs] = []

    def follow(*operands: Any) -> Pairs | None:
        result = follow_pairs(*operands)
        found.extend([] if result is None else [result])
        return result

    def tile(*operands: Any) -> Any:
        return paired_tile(*operands) if pairs else None

    with (
        mock.patch.object(interleave, "follow_pairs", follow),
        mock.patch.object(layer_code, "paired_tile", tile),
    ):
        artifact = daedal.compile(model.SerializeToString(), SMALL, host=None, cache=False)
    return artifact, found


def test_pairs_leave_a_quarter_of_their_half_to_others() -> None:
    depth = 1024
    found = in_pairs(np.array([128, 129, 192, 193]), depth)
    assert found.tolist() == [False, True, True, False]


def test_tiles_of_another_size_are_none_of_pairs() -> None:
    layer = layer_of_tiles("first", "x", "t", loading(0, 1, 2, 3), products=True)
    assert layer_of_pairs(layer.instructions, ATTENTION) is None


@pytest.mark.slow
def test_the_order_of_a_pair() -> None:
    _, found = compiled(block(128, 192, 192))
    items = found[0].items
    kept: set[object] = set()
    for layer, item in items:
        memories = {access.instance.memory for access in item.rows}
        if item.unit is Unit.LOAD and layer == 0 and Memory.WGT in memories:
            # All weights fit, so that none is loaded twice.
            key = item.tensor, tuple(sorted(item.template.values.items()))
            assert key not in kept
            kept.add(key)
        # The sum does not leave the chip to be loaded again.
        assert not (item.unit is Unit.LOAD and layer > 0 and Memory.ACC in memories)
    tiles = [
        next(x.instance for x in item.rows if x.instance.memory is Memory.ACC)
        for layer, item in items
        if item.unit is Unit.GEMM
    ]
    halves = [found[0].halves[tile] for tile in tiles]
    steps = len(tiles) // len(set(tiles))
    # Two tiles in turns, then the next two in the other half.
    for pair in range(0, len(set(tiles)), 2):
        own = tiles[pair * steps : (pair + 2) * steps]
        assert own[::2] == [own[0]] * steps and own[1::2] == [own[1]] * steps
        assert set(halves[pair * steps : (pair + 2) * steps]) == {pair // 2 % 2}


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_the_same_results_in_fewer_cycles(size: tuple[int, int, int]) -> None:
    model = block(*size)
    artifact, found = compiled(model)
    assert found
    checked = check_layers(artifact, model.SerializeToString(), feeds(*size[:2]))
    assert checked.passed, checked.first_difference
    usual, none = compiled(model, pairs=False)
    assert not none
    cycles = [figures_of(x.program for x in one.launches).cycles for one in (artifact, usual)]
    assert cycles[0] < cycles[1]


@pytest.mark.slow
@pytest.mark.rtl
@pytest.mark.parametrize("size", SIZES)
def test_the_rtl_gives_the_same_in_the_same_cycles(size: tuple[int, int, int]) -> None:
    artifact, found = compiled(block(*size))
    assert found
    x = feeds(*size[:2])
    check_rtl(artifact, x)


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_the_same_under_any_interleaving(size: tuple[int, int, int]) -> None:
    artifact, found = compiled(block(*size))
    assert found
    check_interleavings(artifact.launches[0].program, np.random.default_rng(3), 2)


@pytest.mark.slow
def test_what_does_not_fit_runs_as_before() -> None:
    _, found = compiled(block(64, 256, 256))
    assert not found
