"""Tiles of convolutions whose results norms read part by part."""

from unittest import mock

from daedal.compiler.layers import layer_code
from daedal.compiler.ops.space import Config
from tests.support.norm_blocks import tile_of_sum


def found(tokens: int, depth: int, inner: int) -> Config | None:
    """The tile of the residual sum in a block, without pairs of tiles."""
    with mock.patch.object(layer_code, "paired_tile", lambda *_: None):
        return tile_of_sum("divided_tile", (tokens, depth, inner))


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
