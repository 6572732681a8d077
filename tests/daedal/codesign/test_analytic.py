"""Estimates of networks: the spaces of other variants, and the compiler's own cycles."""

import math
from pathlib import Path

import numpy as np
import pytest

from daedal.codesign.analytic import AnalyticCycles
from daedal.codesign.counting import count_network
from daedal.codesign.roofline import RooflineCycles
from daedal.codesign.variant_space import DEFAULT_PARAMETERS, VariantSpace
from daedal.compiler.frontend.importer import load_onnx
from daedal.compiler.graph.ops.registry import get_op
from daedal.compiler.ops.accelerator.lowering import space_of
from daedal.compiler.pipeline import accelerator_graphs
from daedal.isa.errors import UserError
from daedal.isa.memory_model import PRESETS
from daedal.isa.variant import Variant, load_variant

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits_qdq.onnx"
SAME_ARRAY = {
    name: values
    for name, values in DEFAULT_PARAMETERS.items()
    if name
    not in ("batch", "block_in", "block_out", "depthwise_taps", "multiplier_style", "data_bits")
}


def test_moved_spaces_are_those_of_the_template() -> None:
    base = load_variant("vta")
    space = VariantSpace(base, SAME_ARRAY)
    rng = np.random.default_rng(0)
    (graph,) = accelerator_graphs(load_onnx(DIGITS.read_bytes()), base)
    nodes = [node for node in graph.nodes if not get_op(node.op).is_view]
    moved_count = 0
    for _ in range(6):
        variant = space.variant(space.draw(rng))
        assert variant is not None
        for node in nodes:
            on_base = space_of(graph, node, base)
            moved = None if on_base is None else on_base.on(variant)
            if moved is None:
                continue
            moved_count += 1
            try:
                wanted = space_of(graph, node, variant)
            except UserError:
                wanted = None
            table = moved.all()
            if wanted is None:
                assert len(next(iter(table.values()))) <= 1
                continue
            others = wanted.all()
            for knob, column in table.items():
                assert (column == others[knob]).all(), (variant, node.name, knob)
            assert (moved.cycles(table) == wanted.cycles(others)).all()
            memory = PRESETS["ddr"]
            assert (moved.bound(table, memory) == wanted.bound(others, memory)).all()
    assert moved_count > 6


@pytest.mark.parametrize("name", ["tiny", "ecp5", "vta"])
def test_estimates_are_near_what_is_counted(name: str) -> None:
    model, variant = DIGITS.read_bytes(), load_variant(name)
    counted = count_network(model, variant, "ddr")
    assert AnalyticCycles(model)(variant) == pytest.approx(counted, rel=0.35)  # layers are tiny
    assert RooflineCycles(model, load_variant("vta"))(variant) < 1.1 * counted


def test_what_does_not_fit_is_infinite() -> None:
    estimate = AnalyticCycles(DIGITS.read_bytes())
    small: Variant = load_variant("tiny").replace(acc_bytes=256, out_bytes=64, acc_banks=2)
    assert math.isinf(estimate(small)) or estimate(small) > estimate(load_variant("tiny"))
    unequal = load_variant("ecp5").replace(batch=2)
    assert math.isinf(estimate(unequal))  # an array with a batch needs equal blocks
