"""Tiles of convolutions whose results a norm finds in the accumulators."""

from unittest import mock

import pytest

import daedal
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.layers.layer_code import LayerCode
from daedal.compiler.ops.space import Config
from tests.compiler.link.ordering.test_begin_behind import block


class _FoundError(Exception):
    """Ends a compilation."""


def found(tokens: int, depth: int, inner: int) -> Config | None:
    """The tile of the residual sum in a block."""
    tiles: list[Config | None] = []
    real = LayerCode._paired_tile

    def spy(self: LayerCode, graph: Graph, node: Node, kind: object) -> Config | None:
        config = real(self, graph, node, kind)
        if node.op == "q_conv2d_add":
            tiles.append(config)
            raise _FoundError
        return config

    model = block(tokens, depth, inner).SerializeToString()
    with mock.patch.object(LayerCode, "_paired_tile", spy), pytest.raises(_FoundError):
        daedal.compile(model, "attention", host=None, cache=False)
    return tiles[0]


def test_tiles_have_all_channels_of_some_tokens() -> None:
    tile = found(128, 384, 384)
    assert tile is not None
    assert (tile["out_blocks"], tile["height"], tile["turns"]) == (24, 16, 0)


def test_a_sum_of_many_products_has_too_many_weights() -> None:
    assert found(128, 384, 1536) is None


def test_a_result_that_stays_in_the_accumulators_needs_none() -> None:
    assert found(64, 128, 128) is None


def test_a_pair_must_fit_a_half_of_the_accumulators() -> None:
    assert found(128, 1024, 1024) is None
