"""Guesses of a kernel's time: they decide how many threads run a program."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from daedal.artifact.host_code import CodeCall
from daedal.compiler.cpu.build import build_host_code
from tests.compiler.ops.graph.test_integer_operators import of_rows, quantized_model

SHAPE = (1024, 1024)


def microseconds(
    op_type: str,
    shape: tuple[int, ...] = SHAPE,
    constant: np.ndarray | None = None,
    level: str = "x86-64-v3",
) -> float:
    """What the kernels of an operator are expected to take."""
    names = ["x"] if constant is None else ["x", "c"]
    graph = helper.make_graph(
        [helper.make_node(op_type, names, ["y"])],
        "work",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [] if constant is None else [numpy_helper.from_array(constant, "c")],
    )
    opset = helper.make_opsetid("", 21)
    model = onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=[opset], ir_version=10), data_prop=True
    )
    return work(model, level)


def work(model: onnx.ModelProto, level: str) -> float:
    code = build_host_code(model, levels=[level])
    return sum(step.work for step in code.steps if isinstance(step, CodeCall)) / 1000


@pytest.mark.parametrize(
    ("op_type", "measured"),
    [
        ("Relu", 146), ("Sigmoid", 381), ("Tanh", 312), ("Gelu", 516), ("Softmax", 560),
        ("Transpose", 585),
    ],
)  # fmt: skip
def test_guesses_are_near_what_was_measured(op_type: str, measured: float) -> None:
    """Microseconds of a thread of a Zen 3, for a million floats: within a factor of two."""
    assert measured / 2 < microseconds(op_type) < measured * 2


def test_the_library_is_slow() -> None:
    assert microseconds("Sin") > 10 * microseconds("Relu")


def test_sums_take_their_terms_and_their_operands() -> None:
    """A large product takes its multiplications, one of a single row the bytes of its weights."""
    weights = np.zeros((512, 512), np.float32)
    many, one = (microseconds("MatMul", (rows, 512), weights) for rows in (512, 1))
    assert many > 512**3 / 30e3 > 50 * one
    assert one > weights.nbytes / 100e3


def test_twice_the_elements_take_twice_as_long() -> None:
    small, large = microseconds("Softmax"), microseconds("Softmax", (2048, 1024))
    assert large == pytest.approx(2 * small, rel=0.01)


def test_wider_registers_take_less_time() -> None:
    """So programs that AVX-512 runs in a fraction of the time stay on one thread."""
    weights = np.zeros((512, 512), np.float32)
    narrow, wide = (
        microseconds("MatMul", (512, 512), weights, level) for level in ("x86-64-v3", "x86-64-v4")
    )
    assert wide < 0.6 * narrow


def test_four_products_at_once_take_less_time() -> None:
    model = quantized_model((1, 512, 512), of_rows(512, 512))
    assert work(model, "x86-64-v4-vnni") < 0.6 * work(model, "x86-64-v4")
    assert work(model, "x86-64-v4-amx") < 0.5 * work(model, "x86-64-v4-vnni")
