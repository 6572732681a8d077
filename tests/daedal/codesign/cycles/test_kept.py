"""What tensors save that stay on chip, and joined maps, which take no instruction."""

from functools import cache

import numpy as np
import onnx
import pytest

from bench.qdq_model import QdqModel
from daedal.codesign.cycles.analytic import AnalyticCycles
from daedal.codesign.cycles.counting import count_network
from daedal.codesign.cycles.kept import program_order
from daedal.compiler.frontend.importer import load_onnx
from daedal.compiler.pipeline import accelerator_graphs
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


@cache
def windows(zero_point: int) -> bytes:
    """Layers with windows of 3 x 3, whose results would fit OUT."""
    model = QdqModel(opset=21)
    x = model.requantized(model.input("x", (1, 16, 8, 8)), 0.05, zero_point)
    rng = np.random.default_rng(3)
    for number in range(LAYERS):
        weights = model.weights(rng.integers(-127, 128, (16, 16, 3, 3)).astype(np.int8), 1e-3)
        y = model.op("Conv", x, weights, pads=[1, 1, 1, 1])
        x = model.requantized(y, 0.05, zero_point, output=f"y{number}")
    return onnx.ModelProto.SerializeToString(model.model(x))


@pytest.mark.heavy(2)
@pytest.mark.parametrize("zero_point", [0, -128])
def test_windows_read_results_on_chip_if_padding_is_zero(zero_point: int) -> None:
    """Products with zeros are left out; rows of OUT cannot stand for those of other padding."""
    vta, model = load_variant("vta"), windows(zero_point)
    apart = vta.replace(None, gemm_reads_out=False)
    estimate = AnalyticCycles(model)
    counted = {variant: count_network(model, variant, "ddr") for variant in (vta, apart)}
    for variant, cycles in counted.items():
        assert estimate(variant) == pytest.approx(cycles, rel=0.15), variant.units.gemm_reads_out
    assert (estimate(vta) < 0.9 * estimate(apart)) == (zero_point == 0)
    assert (counted[vta] < 0.9 * counted[apart]) == (zero_point == 0)


def test_results_that_only_products_read_may_stay() -> None:
    (graph,) = accelerator_graphs(load_onnx(small_layers()), load_variant("vta"))
    layers = program_order(graph)
    assert [[item.producer for item in layer.operands] for layer in layers] == [
        [number - 1 if number else None] for number in range(LAYERS)
    ]
    assert [layer.result is not None for layer in layers] == [True] * (LAYERS - 1) + [False]
    assert not any(layer.moves for layer in layers)
    assert all(item.by_parts for layer in layers for item in layer.operands)
