"""Moves of quantized tensors, between QuantizeLinear and DequantizeLinear: the integers move."""

from collections.abc import Callable

import numpy as np
import pytest

from bench.qdq_model import QdqModel
from daedal.checking.integer_reference import run_onnxruntime
from daedal.compiler.graph import run
from tests.compiler.graph.qdq_models import lower

Move = Callable[[QdqModel, str, str], str]


def _numbers(maker: QdqModel, *values: int) -> str:
    return maker.constant(np.array(values, np.int64))


def _constant(maker: QdqModel, dtype: str) -> str:
    return maker.constant(np.arange(24, dtype=dtype).reshape(1, 2, 3, 4))


MOVES: dict[str, Move] = {
    "concat of one tensor twice": lambda maker, q, _dtype: maker.op("Concat", q, q, axis=1),
    "concat with a constant": lambda maker, q, dtype: maker.op(
        "Concat", _constant(maker, dtype), q, axis=-2
    ),
    "concat along the batch": lambda maker, q, _dtype: maker.op("Concat", q, q, q, axis=0),
    "pad with 0": lambda maker, q, _dtype: maker.op(
        "Pad", q, _numbers(maker, 0, 0, 1, 0, 0, 0, 0, 2)
    ),
    "pad with a value": lambda maker, q, dtype: maker.op(
        "Pad", q, _numbers(maker, 0, 1, 0, 0, 0, 0, 1, 0), maker.constant(np.array(77, dtype))
    ),
    "slice": lambda maker, q, _dtype: maker.op(
        "Slice", q, _numbers(maker, 1), _numbers(maker, 3), _numbers(maker, 3)
    ),
    "transpose": lambda maker, q, _dtype: maker.op("Transpose", q, perm=[0, 3, 1, 2]),
    "reshape": lambda maker, q, _dtype: maker.op("Reshape", q, _numbers(maker, 4, -1)),
}


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("integer_output", [False, True])
@pytest.mark.parametrize("move", MOVES)
def test_moves_of_quantized_tensors(
    move: str, integer_output: bool, dtype: str, rng: np.random.Generator
) -> None:
    maker = QdqModel()
    q = maker.quantize(maker.input("x", (1, 2, 3, 4)), 0.05, 100, dtype)
    moved = MOVES[move](maker, q, dtype)
    real = maker.dequantize(moved, 0.05, 100, dtype)
    model = maker.model(moved, dtype=dtype) if integer_output else maker.model(real)
    x = rng.normal(size=(1, 2, 3, 4)).astype(np.float32) * 4
    (expected,) = run_onnxruntime(model, {"x": x})
    (found,) = run(lower(model), {"x": x}).values()
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
