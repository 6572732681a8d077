"""Norms that run part by part during the products of their operand: order, conditions, results."""

from typing import Any
from unittest import mock

import numpy as np
import onnx
import pytest

import daedal
from bench.figures import figures_of
from daedal.artifact.artifact import Artifact
from daedal.checking.layer_check import check_layers
from daedal.compiler.link.ordering import interleave
from daedal.compiler.link.ordering.begin_behind import begin_behind, halves_behind
from daedal.compiler.link.ordering.interleave import SHORTEST_TILE
from daedal.compiler.link.ordering.tiles import Words
from daedal.isa.table import Unit
from daedal.isa.variant import load_variant
from tests.support.interleaving import check_interleavings
from tests.support.norm_blocks import SMALL, block, feeds
from tests.support.rtl_cycles import check_rtl
from tests.support.tile_segments import layer_of_tiles, loading

TINY = load_variant("tiny")
BLOCKS = [(256, 128, 512), (128, 192, 3072)]
"""Tokens, channels, and channels between the projections. The second one adds its residual stream
in three parts."""


def order(needs: list[int], steps: int = SHORTEST_TILE) -> str | None:
    """The layers of the STOREs of four tiles with products and of a layer behind them, each tile
    of which reads a result of the former."""
    first = layer_of_tiles("first", "x", "t", loading(0, 1, 2, 3), products=True)
    second = layer_of_tiles("second", "t", "y", loading(*needs), products=False, steps=steps)
    behind = [(1, item) for item in second.instructions]
    mixed = begin_behind(first.instructions, behind, (), Words(TINY, {}), TINY)
    if mixed is None:
        return None
    for which, layer in enumerate((first, second)):
        assert [item for number, item in mixed if number == which] == [*layer.instructions]
    return "".join(str(which) for which, item in mixed if item.unit is Unit.STORE)


def test_each_part_runs_during_the_products_of_the_next_tiles() -> None:
    assert order([0, 0, 1, 3]) == "01100101"


def test_a_layer_that_needs_the_last_tile_comes_behind() -> None:
    assert order([3, 3, 3, 3]) is None


def test_work_that_hides_nothing_stays_behind() -> None:
    assert order([0, 0, 1, 3], steps=1) is None


def test_tiles_take_turns_with_the_halves_and_what_is_behind_avoids_them() -> None:
    first = layer_of_tiles("first", "x", "t", loading(0, 1, 2, 3), products=True)
    second = layer_of_tiles("second", "t", "y", loading(0, 0, 1, 3), products=False)
    behind = [(1, item) for item in second.instructions]
    mixed = begin_behind(first.instructions, behind, (), Words(TINY, {}), TINY)
    assert mixed is not None
    halves = halves_behind(mixed)
    working = [
        (number, halves[item.rows[0].instance])
        for number, item in mixed
        if item.unit in (Unit.GEMM, Unit.ALU)
    ]
    assert [half for number, half in working if number == 0] == [0, 1, 0, 1]
    now = 0
    for number, half in working:
        assert number == 0 or half == 1 - now
        now = now if number else half


def compiled(model: onnx.ModelProto, *, begins: bool = True) -> tuple[Artifact, int]:
    """The artifact, and how many norms run part by part."""
    count = 0

    def begin(*operands: Any) -> Any:
        nonlocal count
        mixed = begin_behind(*operands) if begins else None
        count += mixed is not None
        return mixed

    with mock.patch.object(interleave, "begin_behind", begin):
        artifact = daedal.compile(model.SerializeToString(), SMALL, host=None, cache=False)
    return artifact, count


@pytest.mark.slow
@pytest.mark.parametrize("size", BLOCKS)
def test_fewer_cycles(size: tuple[int, int, int]) -> None:
    model = block(*size)
    cycles = []
    for begins in (True, False):
        artifact, count = compiled(model, begins=begins)
        assert (count > 0) == begins
        cycles.append(figures_of(launch.program for launch in artifact.launches).cycles)
    assert cycles[0] < cycles[1]


@pytest.mark.slow
@pytest.mark.parametrize("size", BLOCKS)
def test_the_same_results(size: tuple[int, int, int]) -> None:
    model = block(*size)
    artifact, count = compiled(model)
    assert count > 0
    found = check_layers(artifact, model.SerializeToString(), feeds(*size[:2]))
    assert found.passed, found.first_difference


@pytest.mark.slow
@pytest.mark.rtl
@pytest.mark.parametrize("size", BLOCKS)
def test_the_rtl_gives_the_same_in_the_same_cycles(size: tuple[int, int, int]) -> None:
    artifact, count = compiled(block(*size))
    assert count > 0
    x = feeds(*size[:2])
    check_rtl(artifact, x)


@pytest.mark.slow
@pytest.mark.parametrize("size", BLOCKS)
def test_the_same_under_any_interleaving(size: tuple[int, int, int]) -> None:
    artifact, _ = compiled(block(*size))
    (launch,) = artifact.launches
    check_interleavings(launch.program, np.random.default_rng(3), 2)
