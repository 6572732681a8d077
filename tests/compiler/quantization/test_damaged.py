"""Damaged models: a model that onnx's checker lets pass is quantized, or refused by a sentence."""

import math
from collections.abc import Callable

import numpy as np
import onnx
import pytest

from bench.float_network import FloatNetwork
from daedal.common.errors import ModelError
from daedal.compiler.quantization import quantize_model
from tests.compiler.quantization.test_quantizer import SHAPE, branches, foreign, plain, upsampling

NUM_MODELS = 160

OPERATORS = (
    *("Add", "BatchNormalization", "Cast", "Clip", "Concat", "Conv", "ConvTranspose", "Div"),
    *("Dropout", "Flatten", "Gemm", "Identity", "MatMul", "MaxPool", "Mul", "Pad", "ReduceMean"),
    *("Relu", "Reshape", "Resize", "Shape", "Slice", "Softmax", "Squeeze", "Sub", "Sum"),
)
NUMBERS = (-1, 0, 1, 2, 7, 1 << 31)
REALS = (0.0, -1.0, math.nan, math.inf)
TYPES = (onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.FLOAT16)


class Damage:
    """Changes a model at random places."""

    def __init__(self, model: onnx.ModelProto, rng: np.random.Generator) -> None:
        self._graph = model.graph
        self._rng = rng
        self._names = [*(tensor.name for tensor in model.graph.initializer), "x", ""]
        self._names += [name for node in model.graph.node for name in node.output]

    def apply(self) -> None:
        node = self._graph.node[self._below(len(self._graph.node))]
        kinds: list[Callable[[onnx.NodeProto], None]] = [
            self._operator,
            self._operand,
            self._operands,
            self._attribute,
            self._constant,
            self._result,
        ]
        kinds[self._below(len(kinds))](node)

    def _below(self, count: int) -> int:
        return int(self._rng.integers(count))

    def _operator(self, node: onnx.NodeProto) -> None:
        node.op_type = OPERATORS[self._below(len(OPERATORS))]

    def _operand(self, node: onnx.NodeProto) -> None:
        if not node.input:
            return
        node.input[self._below(len(node.input))] = self._names[self._below(len(self._names))]

    def _operands(self, node: onnx.NodeProto) -> None:
        if self._below(2) or not node.input:
            node.input.append(self._names[self._below(len(self._names))])
        else:
            del node.input[-1]

    def _attribute(self, node: onnx.NodeProto) -> None:
        for item in node.attribute:
            if item.ints:
                item.ints[self._below(len(item.ints))] = NUMBERS[self._below(len(NUMBERS))]
            item.i = NUMBERS[self._below(len(NUMBERS))]
            item.f = REALS[self._below(len(REALS))]

    def _constant(self, node: onnx.NodeProto) -> None:
        tensor = self._graph.initializer[self._below(len(self._graph.initializer))]
        if self._below(2) or not tensor.dims:
            tensor.data_type = TYPES[self._below(len(TYPES))]
        else:
            tensor.dims[self._below(len(tensor.dims))] = NUMBERS[self._below(len(NUMBERS))]

    def _result(self, node: onnx.NodeProto) -> None:
        if self._below(2):
            self._graph.output[0].name = self._names[self._below(len(self._names))]
        else:
            node.output[0] = self._names[self._below(len(self._names))]


@pytest.mark.filterwarnings("ignore::daedal.common.errors.ModelWarning")
@pytest.mark.parametrize("build", [plain, branches, foreign, upsampling])
def test_damaged_models_are_quantized_or_refused(
    rng: np.random.Generator, build: Callable[[FloatNetwork], onnx.ModelProto]
) -> None:
    samples = rng.normal(0, 1, (1, *SHAPE[1:])).astype(np.float32)
    whole = build(FloatNetwork(rng))
    refused = 0
    for _ in range(NUM_MODELS // 4):
        model = onnx.ModelProto()
        model.CopyFrom(whole)
        damage = Damage(model, rng)
        for _ in range(int(rng.integers(1, 3))):
            damage.apply()
        try:
            quantize_model(model.SerializeToString(), samples)
        except ModelError as error:
            assert len(str(error).splitlines()) == 1
            refused += 1
    assert 0 < refused < NUM_MODELS // 4
