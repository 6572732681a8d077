"""Tiles of convolutions that begin before the norm in front has ended."""

from collections import Counter
from collections.abc import Sequence
from unittest import mock

import pytest

import daedal
from daedal.compiler.codegen.segment import Segment
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.fused import CONVOLUTIONS
from daedal.compiler.layers.early_tiles import early_tile
from daedal.compiler.layers.layer_code import LayerCode
from daedal.compiler.ops.accelerator.lowering import any_space_of
from daedal.compiler.ops.space import Config
from daedal.isa.variant import load_variant
from tests.compiler.link.ordering.test_begin_early import normed_products


def found(
    tokens: int, depth: int, width: int, count: int = 1
) -> list[tuple[Config | None, Config]]:
    """The tiles of `count` projections behind a norm, and their usual ones."""
    tiles: list[tuple[Config | None, Config]] = []
    real = LayerCode._early_tile

    def spy(
        self: LayerCode, graph: Graph, node: Node, kind: object, before: Sequence[Segment]
    ) -> Config | None:
        config = real(self, graph, node, kind, before)
        if node.op in CONVOLUTIONS:
            usual = any_space_of(graph, node, load_variant("attention")).default
            tiles.append((config, usual))
        return config

    model = normed_products(tokens, depth, width, count).SerializeToString()
    with mock.patch.object(LayerCode, "_early_tile", spy):
        daedal.compile(model, "attention", host=None, cache=False)
    assert len(tiles) == count
    return tiles


def test_a_projection_goes_through_the_tokens_in_several_tiles() -> None:
    ((early, usual),) = found(128, 384, 1536)
    assert early is not None
    assert (usual["height"], usual["width"]) == (128, 1)
    assert early["height"] < 128 and early["turns"] == 0


def test_so_does_the_next_projection() -> None:
    first, second = found(128, 384, 1536, count=2)
    assert first[0] is not None
    assert second == first


@pytest.mark.parametrize(("tokens", "depth", "width"), [(8, 64, 64), (1, 128, 512)])
def test_a_projection_of_few_tokens_has_its_usual_tile(tokens: int, depth: int, width: int) -> None:
    ((early, _),) = found(tokens, depth, width)
    assert early is None


def test_products_in_front_leave_gemm_no_time() -> None:
    """Behind work of the ALU, a projection is divided; behind as much of GEMM, as of a convolution
    and the pool that follows its tiles, nothing overlaps."""
    tiles: list[Config | None] = []

    def spy(_code: LayerCode, graph: Graph, node: Node, *_: object) -> None:
        for front in (Counter(ALU=20_000), Counter(GEMM=20_000)):
            tiles.append(early_tile(graph, node, front, load_variant("attention")))

    model = normed_products(64, 128, 512, 1).SerializeToString()
    with mock.patch.object(LayerCode, "_early_tile", spy):
        daedal.compile(model, "attention", host=None, cache=False)
    divided, whole = tiles[-2:]
    assert divided is not None
    assert whole is None
