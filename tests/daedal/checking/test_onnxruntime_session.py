"""onnxruntime is asked in one place, for sums of reals only: those of integers depend on the
processor."""

import ast
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, parser

from daedal.checking.integer_reference import run_onnxruntime
from daedal.checking.onnxruntime_session import INTEGER_PRODUCTS, integer_products, open_session
from daedal.common.errors import ModelError
from daedal.compiler.frontend.qoperators import EXPANSIONS

ROOT = Path(__file__).resolve().parents[3]
SOURCES = (
    "artifact",
    "bench",
    "common",
    "compiler",
    "daedal",
    "examples",
    "isa",
    "runtime",
    "sim",
    "tests",
)
SESSION = "daedal/checking/onnxruntime_session.py"

IN_A_FUNCTION = """
    <ir_version: 8, opset_import: ["": 17, "own": 1]>
    network (uint8[2, 8] x, uint8[8, 4] w) => (int32[2, 4] y) { y = own.Product (x, w) }
    <opset_import: ["": 17], domain: "own">
    Product (x, w) => (y) { y = MatMulInteger (x, w) }
"""
IN_A_BRANCH = """
    <ir_version: 8, opset_import: ["": 17]>
    network (bool c, uint8[1, 1, 4, 4] x, uint8[1, 1, 2, 2] w) => (int32[1, 1, 3, 3] y) {
        y = If (c) <
            then_branch = yes () => (int32[1, 1, 3, 3] a) { a = ConvInteger (x, w) },
            else_branch = no () => (int32[1, 1, 3, 3] b) { b = ConvInteger (x, w) }
        >
    }
"""


def product(op_type: str, domain: str = "") -> onnx.ModelProto:
    """A model of one such node; onnxruntime need not get so far as to take it."""
    node = helper.make_node(op_type, ["x", "w"], ["y"], "n", domain=domain)
    shapes = {"x": [2, 8], "w": [8, 4], "y": [2, 4]}
    x, w, y = (
        helper.make_tensor_value_info(name, TensorProto.UINT8, shape)
        for name, shape in shapes.items()
    )
    return helper.make_model(helper.make_graph([node], "one", [x, w], [y]))


@pytest.mark.parametrize("op_type", sorted(INTEGER_PRODUCTS))
def test_sums_of_integer_products_are_refused(op_type: str) -> None:
    with pytest.raises(ModelError) as error:
        run_onnxruntime(product(op_type, "com.microsoft"), {})
    assert str(error.value) == (
        "a model must compute with reals to be run in onnxruntime, not with "
        f"{op_type} (node 'n'), whose sums depend on the processor; read it with "
        "compiler.frontend.reader.read_model, or run it in onnx.reference"
    )


@pytest.mark.parametrize("text", [IN_A_FUNCTION, IN_A_BRANCH])
def test_they_are_found_wherever_they_are(text: str) -> None:
    model = parser.parse_model(text)
    assert {node.op_type for node in integer_products(model)} <= INTEGER_PRODUCTS
    with pytest.raises(ModelError, match="must compute with reals"):
        open_session(model)


def test_every_layer_with_an_expansion_is_one_of_them() -> None:
    layers = {
        name for (_, name), item in EXPANSIONS.items() if item.becomes in ("Conv", "Gemm", "MatMul")
    }
    assert layers == {"QLinearConv", "QGemm", "QLinearMatMul"} <= INTEGER_PRODUCTS


def test_nothing_is_optimized_and_nothing_runs_in_parallel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Optimized, this model would become one QLinearMatMul."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="needs onnxruntime")
    opened = []

    class Session:
        def __init__(self, _data: bytes, options: object, **_rest: object) -> None:
            opened.append(options)

    monkeypatch.setattr(onnxruntime, "InferenceSession", Session)
    open_session(product("MatMul"))
    (options,) = opened
    assert options.graph_optimization_level == onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    assert options.execution_mode == onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    assert options.intra_op_num_threads == options.inter_op_num_threads == 1


def test_sums_of_quantized_reals_do_not_saturate() -> None:
    """255 * 127 twice is more than 16 bits hold; an optimized model would add them there."""
    depth = 64
    model = parser.parse_model(f"""
        <ir_version: 8, opset_import: ["": 17]>
        network (uint8[1, {depth}] x) => (float[1, 2] y)
        <float one = {{1.0}}, uint8 zero = {{0}}, int8 none = {{0}},
         int8[{depth}, 2] w = {{{", ".join(["127, -128"] * depth)}}}>
        {{
            a = DequantizeLinear (x, one, zero)
            b = DequantizeLinear (w, one, none)
            y = MatMul (a, b)
        }}
    """)
    (found,) = run_onnxruntime(model, {"x": np.full((1, depth), 255, np.uint8)})
    np.testing.assert_array_equal(found, [[depth * 255 * 127, depth * 255 * -128]])


def test_sessions_are_opened_in_one_place() -> None:
    """Whoever imports onnxruntime elsewhere could forget one of the settings."""
    importing, opening = set(), set()
    for path in (path for folder in SOURCES for path in (ROOT / folder).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [item.name for item in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(item.split(".")[0] == "onnxruntime" for item in names):
                importing.add(name)
            if isinstance(node, ast.Attribute) and node.attr == "InferenceSession":
                opening.add(name)
    assert importing == opening == {SESSION}
