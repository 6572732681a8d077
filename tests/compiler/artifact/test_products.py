"""How many products an ONNX node adds up."""

import math
from collections.abc import Mapping
from typing import Any

import pytest
from onnx import TensorProto, helper

from daedal.compiler.artifact.products import count_products

Shape = tuple[int, ...]


def count(op: str, operands: list[Shape | None], result: Shape | None, **attrs: Any) -> int | None:
    names = [f"x{number}" for number in range(len(operands))]
    shapes: Mapping[str, Shape | None] = {**dict(zip(names, operands, strict=True)), "y": result}
    return count_products(helper.make_node(op, names, ["y"], **attrs), shapes.__getitem__)


CONVOLUTION = [(1, 8, 10, 10), (12, 4, 3, 3)]


@pytest.mark.parametrize(
    ("op", "operands", "result", "attrs", "expected"),
    [
        ("Conv", CONVOLUTION, (1, 12, 8, 9), {"group": 2}, 12 * 8 * 9 * 4 * 9),
        ("ConvInteger", CONVOLUTION, (1, 12, 8, 9), {"group": 2}, 12 * 8 * 9 * 4 * 9),
        ("DeformConv", CONVOLUTION, (1, 12, 8, 9), {"group": 2}, 12 * 8 * 9 * 4 * 9),
        ("ConvTranspose", [(1, 8, 5, 5), (8, 6, 3, 3)], (1, 6, 7, 7), {}, 8 * 25 * 6 * 9),
        ("QLinearConv", [CONVOLUTION[0], (), (), CONVOLUTION[1]], (1, 12, 8, 9), {}, 12 * 72 * 36),
        ("Gemm", [(5, 7), (7, 3)], (5, 3), {}, 5 * 3 * 7),
        ("Gemm", [(7, 5), (3, 7)], (5, 3), {"transA": 1, "transB": 1}, 5 * 3 * 7),
        ("MatMul", [(2, 1, 5, 7), (4, 7, 3)], (2, 4, 5, 3), {}, 2 * 4 * 5 * 3 * 7),
        ("MatMul", [(7,), (7,)], (), {}, 7),
        ("MatMulInteger", [(5, 7), (7, 3)], (5, 3), {}, 5 * 3 * 7),
        ("QLinearMatMul", [(5, 7), (), (), (7, 3)], (5, 3), {}, 5 * 3 * 7),
        ("Relu", [(5, 7)], (5, 7), {}, 0),
        ("Mul", [(5, 7), (5, 7)], (5, 7), {}, 0),
    ],
)
def test_layers(
    op: str, operands: list[Shape], result: Shape, attrs: dict[str, Any], expected: int
) -> None:
    assert count(op, operands, result, **attrs) == expected


@pytest.mark.parametrize(("op", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
@pytest.mark.parametrize("directions", [1, 2])
def test_recurrent_layers(op: str, gates: int, directions: int) -> None:
    """Every step multiplies input and state by the weights of all gates."""
    steps, batch, inputs, hidden = 9, 2, 6, 5
    weights = [(directions, gates * hidden, columns) for columns in (inputs, hidden)]
    expected = steps * batch * directions * gates * hidden * (inputs + hidden)
    operands = [(steps, batch, inputs), *weights]
    assert count(op, operands, (steps, directions, batch, hidden), hidden_size=hidden) == expected
    # What nobody reads needs no name.
    node = helper.make_node(op, ["x", "w", "r"], ["", "h"], hidden_size=hidden)
    shapes = dict(zip(("x", "w", "r"), operands, strict=True))
    assert count_products(node, shapes.get) == expected


@pytest.mark.parametrize(
    ("equation", "operands", "expected"),
    [
        ("ij,jk->ik", [(5, 7), (7, 3)], 5 * 7 * 3),
        ("bhid, bhjd -> bhij", [(2, 4, 5, 8), (2, 4, 6, 8)], 2 * 4 * 5 * 6 * 8),
        ("...ij,...jk->...ik", [(2, 1, 5, 7), (4, 7, 3)], 2 * 4 * 5 * 7 * 3),
        ("ii->i", [(5, 5)], 0),
        ("ij,jk,kl->il", [(5, 7), (7, 3), (3, 2)], None),
        ("ij,jk->ik", [(5, 7), (7, 3, 1)], None),
    ],
)
def test_einsum(equation: str, operands: list[Shape], expected: int | None) -> None:
    assert count("Einsum", operands, None, equation=equation) == expected


def test_attention() -> None:
    """Grouped heads, of other widths for values, with keys of earlier steps."""
    query, key, value = (2, 8, 5, 16), (2, 4, 6, 16), (2, 4, 6, 12)
    expected = 2 * 8 * 5 * 6 * (16 + 12)
    assert count("Attention", [query, key, value], None) == expected
    flat = [(2, 5, 8 * 16), (2, 6, 4 * 16), (2, 6, 4 * 12)]
    heads = {"q_num_heads": 8, "kv_num_heads": 4}
    assert count("Attention", flat, None, **heads) == expected
    assert count("Attention", flat, None) is None
    past = [query, key, value, (5, 9), (2, 4, 3, 16), (2, 4, 3, 12)]
    assert count("Attention", past, None) == expected // 6 * 9


@pytest.mark.parametrize("op", ["DFT", "STFT", "LinearAttention"])
def test_operators_without_a_number(op: str) -> None:
    assert count(op, [(2, 8), ()], (2, 8)) is None


def test_operators_of_others() -> None:
    assert count("Relu", [(2, 8)], (2, 8), domain="com.example") is None


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_shapes_that_are_not_known(missing: int) -> None:
    shapes: list[Shape | None] = [(1, 8, 10, 10), (12, 8, 3, 3), (1, 12, 8, 8)]
    shapes[missing] = None
    *operands, result = shapes
    # The elements of the result and the taps say everything.
    expected = None if missing else 12 * 64 * 72
    assert count("Conv", operands, result) == expected
    assert count("Relu", [None], None) == 0


@pytest.mark.parametrize(
    ("op", "operands"),
    [("Gemm", [(5, 7, 1), (7, 3)]), ("LSTM", [(9, 2, 6), (20, 6), (1, 20, 5)]), ("MatMul", [()])],
)
def test_shapes_that_do_not_fit(op: str, operands: list[Shape]) -> None:
    assert count(op, operands, (5, 3)) is None


@pytest.mark.parametrize(("inner", "expected"), [("Relu", 0), ("MatMul", None), ("If", 0)])
def test_branches(inner: str, expected: int | None) -> None:
    """Which one runs is not known: only branches without products have a number."""
    out = helper.make_tensor_value_info("z", TensorProto.FLOAT, None)

    def graph(op: str, **attrs: Any) -> Any:
        node = helper.make_node(op, ["x"], ["z"], **attrs)
        return helper.make_graph([node], op, [], [out])

    plain = graph("Neg")
    branch = graph(inner, then_branch=plain, else_branch=plain) if inner == "If" else graph(inner)
    node = helper.make_node("If", ["x"], ["y"], then_branch=plain, else_branch=branch)
    assert count_products(node, lambda _: (math.prod((2, 3)),)) == expected
