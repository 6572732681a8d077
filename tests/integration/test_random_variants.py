"""Random legal variants compute random small networks: every layer as the integer reference.

Each run draws new ones. A seed that fails: ``check(SEED)``.
"""

import secrets

import numpy as np
import onnx
import pytest

import daedal
from bench.qdq_model import QdqModel
from daedal.checking.layer_check import check_layers
from daedal.codesign.search.variant_space import DEFAULT_PARAMETERS
from daedal.common.errors import VariantError
from daedal.isa.variant import Variant, load_variant
from daedal.sim.functional.device import FunctionalDevice

PARAMETERS = {
    **DEFAULT_PARAMETERS,
    "block_in": (2, 4, 8, 16, 32),
    "block_out": (2, 4, 8, 16, 32),
    "accumulator_bits": (32, 48),
    "multiplier_bits": (17, 20, 24),
    "data_bits": (64, 128, 256),
    "tables": (0, 1, 4),
    "lane_reductions": (False, True),
    "wide_requantize": (False, True),
    "gemm_reads_out": (False, True),
    "narrow_weights": (False, True),
}
LAYERS = ("conv", "conv", "depthwise", "pool", "relu", "add")


def draw_variant(rng: np.random.Generator) -> Variant:
    """Any combination of values that the rules allow."""
    base = load_variant("ecp5")
    while True:
        values = {name: items[rng.integers(len(items))] for name, items in PARAMETERS.items()}
        try:
            return base.replace("drawn", **values)
        except VariantError:
            continue


def draw_network(rng: np.random.Generator) -> tuple[onnx.ModelProto, tuple[int, ...]]:
    """One or two layers of 1 to 40 channels, and the shape of the input."""
    maker = QdqModel()
    channels, height, width = (int(rng.integers(*limits)) for limits in ((1, 41), (2, 6), (2, 6)))
    shape = (int(rng.integers(1, 4)), channels, height, width)

    def quantized(x: str, **named: str) -> str:
        return maker.requantized(x, 0.1, int(rng.integers(-9, 9)), **named)

    def convolution(x: str, outs: int, ins: int, kernel: int, groups: int) -> str:
        values = rng.integers(-127, 128, (outs, ins, kernel, kernel)).astype(np.int8)
        pads = [kernel // 2] * 4
        return maker.op("Conv", x, maker.weights(values, 0.01), pads=pads, group=groups)

    x = quantized(maker.input("x", shape))
    for layer in rng.choice(LAYERS, rng.integers(1, 3)):
        if layer == "conv":
            ins, channels = channels, int(rng.integers(1, 41))
            y = convolution(x, channels, ins, int(rng.choice([1, 3])), 1)
        elif layer == "depthwise":
            y = convolution(x, channels, 1, 3, channels)
        elif layer == "pool":
            y = maker.op("MaxPool", x, kernel_shape=[2, 2], pads=[0, 0, 1, 1])
        else:
            y = maker.op("Relu", x) if layer == "relu" else maker.op("Add", x, x)
        x = quantized(y)
    return maker.model(x), shape


def check(seed: int) -> None:
    rng = np.random.default_rng(seed)
    variant, (network, shape) = draw_variant(rng), draw_network(rng)
    model = network.SerializeToString()
    artifact = daedal.compile(model, variant)
    inputs = {"x": rng.uniform(-9, 9, shape).astype(np.float32)}
    device = FunctionalDevice(variant, kernels=False)
    found = check_layers(artifact, model, inputs, device=device)
    assert found.passed, f"seed {seed}: {found.first_difference}\n{variant.to_toml()}"


@pytest.mark.parametrize("draw", range(4))
def test_a_drawn_variant_computes_a_drawn_network(draw: int) -> None:
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    check(seed)
