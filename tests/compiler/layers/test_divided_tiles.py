"""Tiles of convolutions whose results norms read part by part."""

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
    real = LayerCode._divided_tile

    def spy(self: LayerCode, graph: Graph, node: Node, kind: object) -> Config | None:
        config = real(self, graph, node, kind)
        if node.op == "q_conv2d_add":
            tiles.append(config)
            raise _FoundError
        return config

    model = block(tokens, depth, inner).SerializeToString()
    with (
        mock.patch.object(LayerCode, "_paired_tile", lambda *_: None),
        mock.patch.object(LayerCode, "_divided_tile", spy),
        pytest.raises(_FoundError),
    ):
        daedal.compile(model, "attention", host=None, cache=False)
    return tiles[0]


def test_a_sum_of_many_products_goes_through_the_tokens_in_parts() -> None:
    tile = found(128, 384, 1536)
    assert tile is not None
    assert tile["height"] == 64 and tile["turns"] == 0


def test_larger_tiles_add_the_residual_stream_in_parts() -> None:
    tile = found(128, 384, 1536)
    assert tile is not None
    # 64 tokens of 12 blocks take 768 of 1,024 rows: the stream has the other 256, three times.
    assert tile["out_blocks"] == 12


def test_a_sum_that_needs_all_of_the_bus_does_not() -> None:
    assert found(128, 384, 384) is None


def test_a_result_that_stays_in_the_accumulators_does_not() -> None:
    assert found(64, 128, 1024) is None
