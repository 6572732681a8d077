"""Weights that all have 4 bits take half the bytes in memory, and give the same results."""

import numpy as np
import pytest

import daedal
from bench.qdq_model import QdqModel
from daedal.artifact.artifact import Artifact, Launch
from daedal.checking.layer_check import check_layers
from daedal.compiler.frontend.importer import load_onnx
from daedal.compiler.graph.narrow_weights import may_have_narrow_weights
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import LoadMemory, Opcode
from daedal.isa.variant import Variant, load_variant
from daedal.sim.functional.device import FunctionalDevice

TINY = load_variant("tiny")
VARIANTS = {
    "tiny": TINY,
    "one_tap": TINY.replace("one_tap", depthwise_taps=1),
    "broad": TINY.replace("broad", block_in=8, block_out=16, depthwise_taps=0, wgt_bytes=16384),
    "attention": load_variant("attention"),
}
LAYERS = {
    # Name: outputs, inputs of a group, kernel, groups.
    "dense": (20, 24, 3, 1),
    "product": (40, 24, 1, 1),
    "grouped": (32, 12, 3, 2),
    "depthwise": (24, 1, 3, 24),
}


def network(layer: str, rng: np.random.Generator, low: int, high: int) -> tuple[bytes, int]:
    """One convolution with weights from `low` to `high`, both of which occur; its channels."""
    outs, ins, kernel, groups = LAYERS[layer]
    maker = QdqModel()
    values = rng.integers(low, high + 1, (outs, ins, kernel, kernel)).astype(np.int8)
    values.reshape(-1)[:2] = low, high
    x = maker.requantized(maker.input("x", (1, ins * groups, 6, 7)), 0.1, 3)
    weights = maker.weights(values, 0.01)
    y = maker.op("Conv", x, weights, pads=[kernel // 2] * 4, group=groups)
    return maker.model(maker.requantized(y, 0.1, -4)).SerializeToString(), ins * groups


def loads(artifact: Artifact, memory: LoadMemory) -> int:
    """Rows that LOADs of a kind move."""
    return sum(
        item.blocks * item.rows * item.cols
        for part in artifact.parts
        if isinstance(part, Launch)
        for item in part.program.instructions
        if item.opcode is Opcode.LOAD and item.memory == memory
    )


def narrowed(variant: Variant) -> Variant:
    return variant.replace(f"{variant.name}_narrow", narrow_weights=True)


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_layers_compute_the_integer_reference(
    variant: Variant, layer: str, rng: np.random.Generator
) -> None:
    model, channels = network(layer, rng, -8, 7)
    wide, artifact = (daedal.compile(model, v) for v in (variant, narrowed(variant)))
    rows = loads(wide, LoadMemory.WGT)
    assert loads(artifact, LoadMemory.WGT) == 0 and loads(artifact, LoadMemory.WGT_NARROW) > 0
    assert rows > 0
    # The constants lack half of each row of weights.
    sizes = [
        sum(len(part.program.constants) for part in item.parts if isinstance(part, Launch))
        for item in (wide, artifact)
    ]
    assert sizes[0] - sizes[1] >= scratchpad(variant, Memory.WGT).row_bytes // 2
    inputs = {"x": rng.uniform(-9, 9, (1, channels, 6, 7)).astype(np.float32)}
    device = FunctionalDevice(narrowed(variant))
    found = check_layers(artifact, model, inputs, device=device)
    assert found.passed, found.first_difference


def test_an_imported_model_tells_whether_it_has_such_weights(rng: np.random.Generator) -> None:
    for layer in LAYERS:
        assert may_have_narrow_weights(load_onnx(network(layer, rng, -8, 7)[0]))


@pytest.mark.parametrize(("low", "high"), [(-9, 7), (-8, 8)])
def test_weights_that_do_not_fit_keep_8_bits(low: int, high: int, rng: np.random.Generator) -> None:
    model, _ = network("product", rng, low, high)
    assert not may_have_narrow_weights(load_onnx(model))
    artifact = daedal.compile(model, narrowed(TINY))
    assert loads(artifact, LoadMemory.WGT) > 0 and loads(artifact, LoadMemory.WGT_NARROW) == 0


def test_layers_of_one_shape_with_weights_of_both_widths(rng: np.random.Generator) -> None:
    """Their code differs, although their operators do not."""
    maker = QdqModel()
    x = maker.requantized(maker.input("x", (1, 24, 4, 4)), 0.1, 3)
    for bound in (7, 100, 7):
        values = rng.integers(-bound, bound + 1, (24, 24, 1, 1)).astype(np.int8)
        values.reshape(-1)[0] = bound
        y = maker.op("Conv", x, maker.weights(values, 0.01))
        x = maker.requantized(y, 0.1, 3)
    model = maker.model(x).SerializeToString()
    artifact = daedal.compile(model, narrowed(TINY))
    assert loads(artifact, LoadMemory.WGT_NARROW) == 2 * loads(artifact, LoadMemory.WGT) > 0
    inputs = {"x": rng.uniform(-9, 9, (1, 24, 4, 4)).astype(np.float32)}
    found = check_layers(artifact, model, inputs, device=FunctionalDevice(narrowed(TINY)))
    assert found.passed, found.first_difference
