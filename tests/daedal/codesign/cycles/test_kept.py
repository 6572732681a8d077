"""What tensors save that stay on chip, and joined maps, which take no instruction."""

from functools import cache

import numpy as np
import onnx
import pytest

from bench.qdq_model import QdqModel
from daedal.codesign.cycles.analytic import AnalyticCycles
from daedal.codesign.cycles.busy import BusyUnits
from daedal.codesign.cycles.counting import count_network
from daedal.codesign.cycles.kept import OVERLAP, KeptLayer, saved_cycles
from daedal.isa.memory_model import PRESETS
from daedal.isa.variant import load_variant

LAYERS = 6


def convolution(model: QdqModel, x: str, inner: int, outer: int, kernel: int, name: str) -> str:
    rng = np.random.default_rng(outer)
    values = rng.integers(-127, 128, (outer, inner, kernel, kernel)).astype(np.int8)
    y = model.op("Conv", x, model.weights(values, 1e-3), pads=[kernel // 2] * 4)
    return model.requantized(y, 0.05, 0, output=name)


@cache
def small_layers() -> bytes:
    """Layers whose results are a quarter of OUT, and with more words than products."""
    model = QdqModel(opset=21)
    x = model.requantized(model.input("x", (1, 64, 8, 8)), 0.05, 0)
    for number in range(LAYERS):
        x = convolution(model, x, 64, 64, 1, f"y{number}")
    return onnx.ModelProto.SerializeToString(model.model(x))


@cache
def joined_maps() -> bytes:
    """Two convolutions side by side whose results are joined, twice."""
    model = QdqModel(opset=21)
    x = model.requantized(model.input("x", (1, 32, 28, 28)), 0.05, 0)
    for number in range(2):
        parts = [convolution(model, x, 32, 16, kernel, f"y{number}.{kernel}") for kernel in (1, 3)]
        x = model.requantized(model.op("Concat", *parts, axis=1), 0.05, 0, output=f"z{number}")
    return onnx.ModelProto.SerializeToString(model.model(convolution(model, x, 32, 32, 1, "last")))


@pytest.mark.heavy(2)
def test_small_results_are_not_moved() -> None:
    vta = load_variant("vta")
    apart = vta.replace(None, gemm_reads_out=False)
    estimate = AnalyticCycles(small_layers())
    for variant in (vta, apart):
        counted = count_network(small_layers(), variant, "ddr")
        assert estimate(variant) == pytest.approx(counted, rel=0.2), variant.units.gemm_reads_out
    assert estimate(vta) < 0.8 * estimate(apart)


@pytest.mark.heavy(2)
def test_joined_maps_are_not_moved() -> None:
    variant = load_variant("vta")
    counted = count_network(joined_maps(), variant, "ddr")
    assert AnalyticCycles(joined_maps())(variant) == pytest.approx(counted, rel=0.1)


def test_gaps_are_hidden_where_words_are_fast() -> None:
    layers = [
        KeptLayer(1, 100.0, 20.0, BusyUnits(60.0, 10.0, 5.0)),
        KeptLayer(2, 100.0, 20.0, BusyUnits(10.0, 40.0, 5.0)),
    ]
    # 60 and 2 x 40 cycles of the busiest units; together the ALU works longest, 90.
    fast = saved_cycles(layers, PRESETS["ddr"])
    assert fast == pytest.approx(40 + 2 * 60 + OVERLAP * (140 - 90))
    slow = saved_cycles(layers, PRESETS["ulx3s"])
    assert slow == pytest.approx(20 + 2 * 40, abs=4)
    tiny = KeptLayer(1, 100.0, 70.0, BusyUnits(10.0, 5.0, 5.0))
    assert saved_cycles([tiny], PRESETS["ddr"]) == pytest.approx(20 + 10)  # it hides 10 alone
    assert saved_cycles([], PRESETS["ddr"]) == 0
