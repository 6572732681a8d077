"""Float models that onnxruntime quantizes for the tests, as people do."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest

from bench.qdq_model import QdqModel

__all__ = ["mixed_network", "quantize_with_onnxruntime", "random_feeds"]

Array = npt.NDArray[Any]
Feeds = dict[str, Array]

INPUT_SHAPE = (1, 3, 17, 15)


def random_feeds(rng: np.random.Generator, count: int) -> list[Feeds]:
    """Inputs of `mixed_network`."""
    return [{"x": rng.normal(size=INPUT_SHAPE).astype(np.float32)} for _ in range(count)]


def mixed_network(rng: np.random.Generator, opset: int = 13, head: bool = True) -> onnx.ModelProto:
    """A small network with most of what networks for images have; `head`: and its classifier."""
    maker = QdqModel(opset)

    def conv(x: str, outputs: int, inputs: int, kernel: int, **attrs: Any) -> str:
        shape = (outputs, inputs, kernel, kernel)
        weights = rng.normal(size=shape) * np.sqrt(2 / (inputs * kernel**2))
        bias = rng.normal(size=outputs) * 0.1
        operands = [maker.constant(value.astype(np.float32)) for value in (weights, bias)]
        return maker.op("Conv", x, *operands, **attrs)

    same = {"pads": [1, 1, 1, 1]}
    x = maker.op("Relu", conv(maker.input("x", INPUT_SHAPE), 12, 3, 3, strides=[2, 2], **same))
    x = maker.op("MaxPool", x, kernel_shape=[3, 3], **same)
    bounds = [maker.constant(np.float32(value)) for value in (0, 6)]
    y = maker.op("Clip", conv(x, 12, 1, 3, group=12, **same), *bounds)
    x = maker.op("Relu", maker.op("Add", conv(y, 12, 12, 1), x))
    pooled = maker.op("MaxPool", x, kernel_shape=[3, 3], **same)
    x = maker.op("LeakyRelu", maker.op("Concat", x, pooled, axis=1), alpha=0.1)
    x = maker.op("Mul", x, maker.op("GlobalAveragePool", x))
    x = maker.op("GlobalAveragePool", x)
    x = maker.op("Reshape", x, maker.constant(np.array([1, -1])))
    weights = [rng.normal(size=shape).astype(np.float32) * 0.3 for shape in ((20, 24), (20, 10))]
    first, second = (maker.constant(value) for value in weights)
    bias = maker.constant(rng.normal(size=20).astype(np.float32))
    x = maker.op("MatMul", maker.op("Relu", maker.op("Gemm", x, first, bias, transB=1)), second)
    return maker.model(maker.op("Softmax", x) if head else x)


def quantize_with_onnxruntime(
    model: onnx.ModelProto, folder: Path, feeds: Sequence[Feeds], form: str, **options: Any
) -> onnx.ModelProto:
    """`model` quantized on `feeds`; `form` is "QDQ" or "QOperator".

    Equal feeds give equal scales in both forms.
    """
    tools = pytest.importorskip(
        "onnxruntime.quantization", reason="needs the quantizer of onnxruntime"
    )

    class Samples(tools.CalibrationDataReader):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            self._feeds = iter(feeds)

        def get_next(self) -> Feeds | None:
            return next(self._feeds, None)

    onnx.save(model, folder / "float.onnx")
    tools.quantize_static(
        folder / "float.onnx",
        folder / f"{form}.onnx",
        Samples(),
        quant_format=tools.QuantFormat[form],
        **{
            name: tools.QuantType[value] if isinstance(value, str) else value
            for name, value in options.items()
        },
    )
    return onnx.load(folder / f"{form}.onnx")
