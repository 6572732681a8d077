"""Estimates of networks: those of the layers alone, and the compiler's own cycles."""

import math
from pathlib import Path

import numpy as np
import pytest

from daedal.codesign.cycles.analytic import AnalyticCycles
from daedal.codesign.cycles.counting import count_network
from daedal.codesign.cycles.roofline import RooflineCycles
from daedal.codesign.search.variant_space import DEFAULT_PARAMETERS, VariantSpace
from daedal.common.errors import UserError
from daedal.compiler.frontend.importer import load_onnx
from daedal.compiler.graph.ops.registry import get_op
from daedal.compiler.ops.accelerator.conv.layers import ORDERS
from daedal.compiler.ops.accelerator.lowering import any_space_of
from daedal.compiler.ops.accelerator.tiles.tile_space import chosen
from daedal.compiler.pipeline import accelerator_graphs
from daedal.isa.memory_model import PRESETS
from daedal.isa.variant import Variant, load_variant

DIGITS = Path(__file__).parents[4] / "examples" / "digits" / "digits_qdq.onnx"
SAME_ARRAY = {
    name: values
    for name, values in DEFAULT_PARAMETERS.items()
    if name
    not in (*("batch", "block_in", "block_out", "depthwise_taps", "multiplier_style", "data_bits"),)
}


def slowly(variant: Variant, *, usual: bool) -> float:
    """Layer by layer, each with a space of its own, as one of a network (ADR 38)."""
    try:
        graphs = accelerator_graphs(load_onnx(DIGITS.read_bytes()), variant)
        total = 0.0
        for graph in graphs:
            for node in graph.nodes:
                if not get_op(node.op).is_view:
                    space = any_space_of(graph, node, variant)
                    table = space.table([space.default]) if usual else space.all()
                    # Orders of a tile's work are left to measurements.
                    for name, values in ORDERS.items():
                        if name in table:
                            table = chosen(table, table[name] == values[0])
                    if not len(next(iter(table.values()))):
                        return math.inf
                    total += float(space.cycles_with(table, PRESETS["ddr"]).min())
    except UserError:
        return math.inf
    return total


def test_estimates_are_those_of_each_layer_alone() -> None:
    """In an order in which variants share arrays, and known estimates."""
    estimate = AnalyticCycles(DIGITS.read_bytes())
    finite = 0
    for name in ("vta", "ecp5_half"):
        base = load_variant(name)
        space = VariantSpace(base, SAME_ARRAY)
        rng = np.random.default_rng(4)
        drawn = [space.draw(rng) for _ in range(2)]
        near = [other for point in drawn for other in space.neighbours(point)[::7]]
        for point in [*drawn, *near, *drawn]:
            variant = space.variant(point)
            assert variant is not None
            for usual in (False, True):
                wanted = slowly(variant, usual=usual)
                finite += math.isfinite(wanted)
                assert estimate.alone(variant, usual=usual) == wanted, (variant, usual)
                assert math.isfinite(estimate(variant, usual=usual)) == math.isfinite(wanted)
    assert finite > 20


def test_the_default_schedules_are_not_faster() -> None:
    """Layer by layer: on one timeline, others than the fastest alone may be faster together."""
    estimate = AnalyticCycles(DIGITS.read_bytes())
    for name in ("vta", "ecp5", "ecp5_half", "tiny"):
        variant = load_variant(name)
        assert estimate.alone(variant, usual=True) >= estimate.alone(variant)


@pytest.mark.parametrize("name", ["tiny", "ecp5", "ecp5_half", "vta"])
def test_estimates_are_near_what_is_counted(name: str) -> None:
    model, variant = DIGITS.read_bytes(), load_variant(name)
    counted = count_network(model, variant, "ddr")
    assert AnalyticCycles(model)(variant) == pytest.approx(counted, rel=0.1)  # layers are tiny
    assert RooflineCycles(model, load_variant("vta"))(variant) < 1.1 * counted


def test_what_does_not_fit_is_infinite() -> None:
    estimate = AnalyticCycles(DIGITS.read_bytes())
    small: Variant = load_variant("tiny").replace(acc_bytes=256, out_bytes=64, acc_banks=2)
    assert math.isinf(estimate(small)) or estimate(small) > estimate(load_variant("tiny"))
    without_pools = load_variant("ecp5_half").replace(acc_bytes=128)
    assert math.isinf(estimate(without_pools))  # no window fits the accumulators


def test_options_that_a_network_does_not_use_share_its_graph() -> None:
    estimate = AnalyticCycles(DIGITS.read_bytes())
    base = load_variant("ecp5")
    for options in ({}, {"tables": 4}, {"tables": 4, "wide_requantize": True}):
        estimate(base.replace(None, **options))
    assert len(estimate._arrays) == 1
