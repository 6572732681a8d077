"""Einsum of two tensors becomes a product of matrices; any other stays an ONNX node."""

import numpy as np
import pytest

from bench.qdq_model import QdqModel
from daedal.compiler.frontend import load_onnx
from daedal.compiler.graph import run

EXTENTS = {"a": 2, "b": 3, "c": 4, "d": 5, "e": 6}


def imported(equation: str, rng: np.random.Generator, *, weights: bool = False) -> list[str]:
    """The operators of the graph, which computes what numpy does."""
    maker = QdqModel()
    terms = equation.partition("->")[0].split(",")
    arrays = [
        rng.normal(size=[EXTENTS[label] for label in term]).astype(np.float32) for term in terms
    ]
    names = [maker.input(f"x{number}", array.shape) for number, array in enumerate(arrays)]
    if weights:
        maker.inputs.pop()
        names[-1] = maker.constant(arrays[-1])
    maker.op("Einsum", *names, equation=equation, output="y")
    graph = load_onnx(maker.model("y").SerializeToString())
    feeds = {name: array for name, array in zip(names, arrays, strict=True) if name in graph.inputs}
    found = run(graph, feeds)
    wanted = np.einsum(equation, *arrays)
    np.testing.assert_allclose(found["y"], wanted, rtol=1e-5, atol=1e-5)
    return [node.op for node in graph.nodes]


@pytest.mark.parametrize(
    ("equation", "ops"),
    [
        ("abc,acd->abd", ["matmul"]),
        ("bacd,baed->bace", ["transpose", "matmul"]),  # scores of heads
        ("bcad,bead->bace", ["transpose", "transpose", "matmul"]),  # of heads behind tokens
        ("bace,bead->bcad", ["transpose", "matmul", "transpose"]),  # their means
        ("abce,ebd->acd", ["transpose", "transpose", "matmul"]),
        ("ab,bc->ca", ["matmul", "transpose"]),
    ],
)
def test_products_of_two_tensors(equation: str, ops: list[str], rng: np.random.Generator) -> None:
    found = imported(equation, rng)
    assert [op for op in found if op != "reshape"] == ops


@pytest.mark.parametrize("equation", ["abc,cde->abde", "abc,bcd->ad", "ab,cb->ac", "abd,cd->cab"])
def test_products_with_weights_are_dense_layers(equation: str, rng: np.random.Generator) -> None:
    assert "dense" in imported(equation, rng, weights=True)


@pytest.mark.parametrize(
    "equation", ["ab,ab->ab", "ab,cd->abcd", "abc,bd->ad", "aab,bc->ac", "ab,bc,cd->ad", "ab,bc"]
)
def test_what_is_no_product_of_two_matrices(equation: str, rng: np.random.Generator) -> None:
    assert imported(equation, rng) == ["onnx"]


def test_weights_of_each_image(rng: np.random.Generator) -> None:
    assert imported("abc,acd->abd", rng, weights=True) == ["onnx"]
