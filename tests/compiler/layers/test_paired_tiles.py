"""Tiles of convolutions whose results a norm finds in the accumulators."""

from tests.support.norm_blocks import tile_of_sum


def test_tiles_have_all_channels_of_some_tokens() -> None:
    tile = tile_of_sum("paired_tile", (128, 384, 384))
    assert tile is not None
    assert (tile["out_blocks"], tile["height"], tile["turns"]) == (24, 16, 0)


def test_a_sum_of_many_products_has_too_many_weights() -> None:
    assert tile_of_sum("paired_tile", (128, 384, 1536)) is None


def test_a_result_that_stays_in_the_accumulators_needs_none() -> None:
    assert tile_of_sum("paired_tile", (64, 128, 128)) is None


def test_a_pair_must_fit_a_half_of_the_accumulators() -> None:
    assert tile_of_sum("paired_tile", (128, 1024, 1024)) is None
