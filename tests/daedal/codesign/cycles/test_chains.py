"""What chains save in the estimates of networks: against the compiler's own cycles."""

from dataclasses import replace
from functools import cache

import numpy as np
import onnx
import pytest

from bench.qdq_model import QdqModel
from daedal.codesign.cycles.analytic import AnalyticCycles
from daedal.codesign.cycles.counting import Network, count_network, count_networks
from daedal.codesign.cycles.estimated_work import EstimatedWork
from daedal.isa.memory_model import PRESETS
from daedal.isa.variant import load_variant

SIZE, CHANNELS = 28, 64


@cache
def network(wide: int = CHANNELS) -> bytes:
    """A pointwise convolution, a depthwise one and another pointwise one."""
    rng = np.random.default_rng(wide)
    model = QdqModel(opset=21)
    x = model.requantized(model.input("x", (1, 32, SIZE, SIZE)), 0.05, 0)
    for number, (inner, outer, kernel, group) in enumerate(
        ((32, wide, 1, 1), (wide, wide, 3, wide), (wide, 32, 1, 1))
    ):
        values = rng.integers(-127, 128, (outer, inner // group, kernel, kernel)).astype(np.int8)
        scales = np.full(outer, 1e-3)
        bias = model.bias(rng.integers(-500, 500, outer), 0.05 * scales)
        pads = [kernel // 2] * 4
        y = model.op("Conv", x, model.weights(values, scales), bias, pads=pads, group=group)
        x = model.requantized(y, 0.05, 0, output=f"y{number}")
    return onnx.ModelProto.SerializeToString(model.model(x))


@pytest.mark.heavy(2)
@pytest.mark.parametrize("memory", ["ddr", "slow"])
def test_estimates_know_chains(memory: str) -> None:
    """With the machine that chains the layers, and with the same without its option."""
    vta, preset = load_variant("vta"), PRESETS[memory]
    apart = replace(vta, units=replace(vta.units, gemm_reads_out=False))
    estimate = AnalyticCycles(network(), memory=preset)
    for variant in (vta, apart):
        counted = count_network(network(), variant, preset)
        assert estimate(variant) == pytest.approx(counted, rel=0.08)
    assert estimate(vta) < 0.9 * estimate(apart)


def test_channels_for_which_no_tile_fits_are_not_chained() -> None:
    """OUT would have to hold two parts of 32 pixels of all of them."""
    vta = load_variant("vta")
    apart = replace(vta, units=replace(vta.units, gemm_reads_out=False))
    estimate = AnalyticCycles(network(640))
    assert estimate(vta) == estimate(apart)


@pytest.mark.heavy(2)
def test_results_of_chains_are_neither_stored_nor_loaded() -> None:
    vta = load_variant("vta")
    apart = replace(vta, units=replace(vta.units, gemm_reads_out=False))
    estimate = EstimatedWork(network())
    chained, alone = estimate(vta), estimate(apart)
    counts = count_networks({"net": Network(network())}, vta, "ddr")
    assert chained is not None and alone is not None and counts is not None
    words = CHANNELS * SIZE * SIZE / vta.bus_bytes
    assert alone.written - chained.written == alone.read - chained.read == words
    assert chained.written == counts.work["net"].written
