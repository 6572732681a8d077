"""Code for AArch64, in an emulator of the processor: the results of the code for this one."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import pytest

from bench.qdq_model import QdqModel
from daedal.compiler.cpu.build import build_host_code
from daedal.runtime.host_code import HostProgram
from tests.support.aarch64 import LEVELS, run_on_aarch64

EXAMPLES = Path(__file__).parents[3] / "examples"


def results(
    model: onnx.ModelProto, level: str, shape: tuple[int, ...], rng: np.random.Generator
) -> tuple[npt.NDArray[np.generic], npt.NDArray[np.generic]]:
    """The first output for random values, on AArch64 and here."""
    values = {model.graph.input[0].name: rng.normal(size=shape).astype(np.float32)}
    other, own = build_host_code(model, levels=(level,)), build_host_code(model)
    assert not other.interpreted
    found, expected = run_on_aarch64(other, values), HostProgram(own).run(values)
    return next(iter(found.values())), next(iter(expected.values()))


@pytest.mark.heavy(2)
@pytest.mark.parametrize("name", ["digits/digits", "attention/attention"])
def test_float_networks(name: str, rng: np.random.Generator) -> None:
    """Convolutions, pools, products, softmax, norms, and their functions."""
    model = onnx.load(EXAMPLES / f"{name}.onnx")
    shape = tuple(item.dim_value or 1 for item in model.graph.input[0].type.tensor_type.shape.dim)
    found, expected = results(model, LEVELS[0], shape, rng)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("level", LEVELS)
def test_quantized_networks(level: str, rng: np.random.Generator) -> None:
    model = onnx.load(EXAMPLES / "digits/digits_qdq.onnx")
    found, expected = results(model, level, (1, 1, 8, 8), rng)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("group", [1, 19])
@pytest.mark.parametrize("stride", [1, 2])
def test_quantized_convolutions_of_odd_shapes(
    group: int, stride: int, level: str, rng: np.random.Generator
) -> None:
    maker = QdqModel(opset=21)
    x = maker.requantized(maker.input("x", (1, 19, 11, 7)), 0.05, 3)
    values = rng.integers(-128, 128, (19 * 2, 19 // group, 3, 3)).astype(np.int8)
    node = maker.op(
        "Conv", x, maker.weights(values, 0.01), group=group, strides=[stride] * 2, pads=[1] * 4
    )
    maker.quantize(node, 0.07, 5, output="y")
    found, expected = results(maker.model("y", dtype="int8"), level, (1, 19, 11, 7), rng)
    np.testing.assert_array_equal(found, expected)
