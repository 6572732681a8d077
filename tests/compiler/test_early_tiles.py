"""Tiles of convolutions that begin before the norm in front has ended."""

from unittest import mock

import pytest

import daedal
from daedal.compiler import layer_code
from daedal.compiler.codegen.segment import Segment
from daedal.compiler.early_tiles import early_tile
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.ops.accelerator.lowering import any_space_of
from daedal.compiler.space import Config
from daedal.isa.variant import Variant
from tests.compiler.link.test_begin_early import normed_products


def found(tokens: int, depth: int, width: int, count: int = 1) -> tuple[Config | None, Config]:
    """The tile of the last one of `count` projections behind a norm, and its usual one."""
    tiles: list[tuple[Config | None, Config]] = []

    def spy(graph: Graph, node: Node, before: list[Segment], variant: Variant) -> Config | None:
        config = early_tile(graph, node, before, variant)
        tiles.append((config, any_space_of(graph, node, variant).default))
        return config

    model = normed_products(tokens, depth, width, count).SerializeToString()
    with mock.patch.object(layer_code, "early_tile", spy):
        daedal.compile(model, "attention", host=None, cache=False)
    return tiles[-1]


def test_a_projection_goes_through_the_tokens_in_several_tiles() -> None:
    early, usual = found(128, 384, 1536)
    assert early is not None
    assert (usual["height"], usual["width"]) == (128, 1)
    assert early["height"] < 128 and early["turns"] == 0


def test_so_does_the_next_projection() -> None:
    first, _ = found(128, 384, 1536)
    second, _ = found(128, 384, 1536, count=2)
    assert second == first


@pytest.mark.parametrize(("tokens", "depth", "width"), [(8, 64, 64), (1, 128, 512)])
def test_a_projection_of_few_tokens_has_its_usual_tile(tokens: int, depth: int, width: int) -> None:
    early, _ = found(tokens, depth, width)
    assert early is None
